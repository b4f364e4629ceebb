/* Fourier transforms of rows ("lines"): plans and their execution. A plan is for one length and one real dtype. Lengths are factored into
 * radices up to 31; a length with a greater prime factor is computed as a convolution with a chirp (L. Bluestein, 1970) of a length that
 * has none. Tables are computed in double and rounded once. Invariant: the result of a line depends on that line and its length only, not
 * on the other lines or on the width of vectors. */
#ifndef MF_OPS_FFT_FFT_H
#define MF_OPS_FFT_FFT_H

#include "ir/op.h"

typedef struct mf_fft_plan mf_fft_plan;
struct mf_fft_plan {
    mf_fft_plan *next; /* in the cache */
    mf_dtype real;     /* f32 or f64 */
    bool kept;         /* owned by the cache, as long as the process lives */
    int64_t n;
    int count, radices[64];
    mf_fft_plan *inner; /* the plan for the convolution's length; not in the cache itself */
    void *wr, *wi;      /* e^(-2 pi i k / n), k < n */
    void *cr, *ci;      /* with inner: e^(-pi i k^2 / n), k < n */
    void *sr, *si;      /* with inner: the transform of the conjugate of c, periodic, divided by inner->n */
};

typedef enum mf_fft_kind { MF_FFT, MF_IFFT, MF_RFFT, MF_IRFFT } mf_fft_kind;

/* Consecutive lines. n: the length of the real side, or of the complex line. Real lines of even length are computed as complex ones of half
 * the length, by `plan`, and `table` is the plan of the whole length; otherwise both are the same. */
typedef struct mf_fft_lines {
    mf_fft_kind kind;
    int64_t n, count;
    const mf_fft_plan *plan, *table;
} mf_fft_lines;

/* False: out of memory. */
typedef bool mf_fft_run(const mf_fft_lines *lines, const void *in, void *out);
mf_fft_run mf_fft_lines_f32, mf_fft_lines_f64;
/* The same bits with wider vectors; the native engine selects them (steps/fft_*.c). */
mf_fft_run mf_fft_lines_f32_avx2, mf_fft_lines_f64_avx2, mf_fft_lines_f32_avx512, mf_fft_lines_f64_avx512;

/* The evaluation of an fft equation by one of these functions per dtype. */
mf_error_object *mf_fft_evaluate(const mf_eqn *e, const void *const *in, void *const *out, mf_fft_run *single, mf_fft_run *wide);

#endif
