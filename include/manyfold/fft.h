/* manyfold/fft.h - numpy.fft: discrete Fourier transforms of any length, computed in the
 * precision of the operand (c64 or c128).
 *
 * Shapes open a comment as in manyfold/numpy.h. The transforms of complex numbers take real ones
 * too; integers, bool and 16-bit floats become f32. Everything has gradients, JAX's. The same
 * bits for any number of workers and any batch. Results belong to the innermost scope; any
 * thread. Errors: MF_ERROR_SHAPE for a length below 1, MF_ERROR_DTYPE for complex numbers where
 * real ones are wanted, MF_ERROR_AXIS, MF_ERROR_ARGUMENT where .s and .axes do not go together. */
#ifndef MANYFOLD_FFT_H
#define MANYFOLD_FFT_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* What is divided: the inverse by n (the default), both by sqrt(n), the forward one by n. */
typedef enum mf_fft_norm {
    MF_FFT_BACKWARD = 0,
    MF_FFT_ORTHO,
    MF_FFT_FORWARD
} mf_fft_norm;
/* ---- one axis. (..., m, ...) -> (..., n, ...): along .axis, the last unless said. n: the length
 * to which the line is cut or filled up with zeros, of irfft and hfft that of the result; 0: as
 * it is, for those two 2 (lines - 1). rfft gives n / 2 + 1 numbers, the rest being their
 * conjugates; irfft takes those, and of the first, and for an even n the last, the real part.
 * hfft and ihfft: of a line whose other half is the conjugate, a real spectrum, and back. */
typedef struct mf_fft_options {
    mf_reserved begin_;
    int64_t n;
    int axis MF_DEFAULT_(-1);
    mf_fft_norm norm;
    mf_reserved reserved_;
} mf_fft_options;
mf_value mf_fft(mf_value x);
mf_value mf_fft_opt(mf_value x, const mf_fft_options *o);
mf_value mf_ifft(mf_value x);
mf_value mf_ifft_opt(mf_value x, const mf_fft_options *o);
mf_value mf_rfft(mf_value x);
mf_value mf_rfft_opt(mf_value x, const mf_fft_options *o);
mf_value mf_irfft(mf_value x);
mf_value mf_irfft_opt(mf_value x, const mf_fft_options *o);
mf_value mf_hfft(mf_value x);
mf_value mf_hfft_opt(mf_value x, const mf_fft_options *o);
mf_value mf_ihfft(mf_value x);
mf_value mf_ihfft_opt(mf_value x, const mf_fft_options *o);
/* ---- several axes. (...) -> (...): one after the other; the real line is the last of them.
 * axes: all, or the last so many as .s has lengths; mf_fft2 and its kin: the last two. */
typedef struct mf_fftn_options {
    mf_ints s, axes;
    mf_fft_norm norm;
    mf_reserved reserved_;
} mf_fftn_options;
mf_value mf_fftn(mf_value x);
mf_value mf_fftn_opt(mf_value x, const mf_fftn_options *o);
mf_value mf_ifftn(mf_value x);
mf_value mf_ifftn_opt(mf_value x, const mf_fftn_options *o);
mf_value mf_rfftn(mf_value x);
mf_value mf_rfftn_opt(mf_value x, const mf_fftn_options *o);
mf_value mf_irfftn(mf_value x);
mf_value mf_irfftn_opt(mf_value x, const mf_fftn_options *o);
mf_value mf_fft2(mf_value x);
mf_value mf_fft2_opt(mf_value x, const mf_fftn_options *o);
mf_value mf_ifft2(mf_value x);
mf_value mf_ifft2_opt(mf_value x, const mf_fftn_options *o);
mf_value mf_rfft2(mf_value x);
mf_value mf_rfft2_opt(mf_value x, const mf_fftn_options *o);
mf_value mf_irfft2(mf_value x);
mf_value mf_irfft2_opt(mf_value x, const mf_fftn_options *o);
/* ---- frequencies */
/* -> (n): of the numbers of a spectrum, d between samples: f32 */
mf_value mf_fftfreq(int64_t n, double d);
/* -> (n / 2 + 1): likewise, of mf_rfft's */
mf_value mf_rfftfreq(int64_t n, double d);
/* x -> x: frequency 0 to the middle, and back; an axis, mf_axes(...) or MF_ALL */
mf_value mf_fftshift(mf_value x, mf_axis axes);
mf_value mf_ifftshift(mf_value x, mf_axis axes);

MF_END_

#include <manyfold/lift/fft.h>

#endif
