/* Fourier transforms of lines: plans, and what carries them out.
 * A plan is for one length and one kind of real number. Lengths are cut into radices up to 31; one with a greater prime factor is done as a
 * convolution with a chirp (L. Bluestein, 1970) of a length that has none. Tables are computed in double and rounded once.
 * Invariant: a line's result depends on the line and its length alone, not on the lines beside it nor on the width of vectors. */
#ifndef MF_OPS_FFT_FFT_H
#define MF_OPS_FFT_FFT_H

#include "ir/op.h"

typedef struct mf_fft_plan mf_fft_plan;
struct mf_fft_plan {
    mf_fft_plan *next; /* in the cache */
    mf_dtype real;     /* f32 or f64 */
    bool kept;         /* by the cache, as long as the process lives */
    int64_t n;
    int count, radices[64];
    mf_fft_plan *inner; /* of the convolution's length; not kept by itself */
    void *wr, *wi;      /* e^(-2 pi i k / n), k < n */
    void *cr, *ci;      /* with inner: e^(-pi i k^2 / n), k < n */
    void *sr, *si;      /* with inner: the transform of its conjugate, periodic, divided by inner->n */
};

typedef enum mf_fft_kind { MF_FFT, MF_IFFT, MF_RFFT, MF_IRFFT } mf_fft_kind;

/* Lines one after the other; n is the length on the real side, or of the complex line. Real even lines are done as complex ones of half
 * the length, by `plan`, and `table` is the plan of the whole length; else they are the same. */
typedef struct mf_fft_lines {
    mf_fft_kind kind;
    int64_t n, count;
    const mf_fft_plan *plan, *table;
} mf_fft_lines;

/* False: out of memory. */
typedef bool mf_fft_run(const mf_fft_lines *lines, const void *in, void *out);
mf_fft_run mf_fft_lines_f32, mf_fft_lines_f64;
/* The same bits by wider vectors; the native engine picks them (steps/fft_*.c). */
mf_fft_run mf_fft_lines_f32_avx2, mf_fft_lines_f64_avx2, mf_fft_lines_f32_avx512, mf_fft_lines_f64_avx512;

/* What an op's evaluation does with either of these. */
mf_error_object *mf_fft_evaluate(const mf_eqn *e, const void *const *in, void *const *out, mf_fft_run *single, mf_fft_run *wide);

#endif
