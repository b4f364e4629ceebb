/* manyfold/fft.h - numpy.fft: discrete Fourier transforms of any length, computed in the precision
 * of the operand (results are c64 or c128; f32 or f64).
 *
 * Shapes open a comment as in manyfold/base.h. The complex transforms also take real numbers;
 * integers, bools and 16-bit floats become f32. All have gradients, JAX's. Results have the same
 * bits for any number of threads and any batch. Results belong to the innermost scope; any thread.
 * Errors: MF_ERROR_SHAPE for a length below 1, MF_ERROR_DTYPE for complex numbers where real ones
 * are needed, MF_ERROR_AXIS, MF_ERROR_ARGUMENT where .s and .axes do not match. */
#ifndef MANYFOLD_FFT_H
#define MANYFOLD_FFT_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* Which transform is scaled: the inverse by 1/n (NumPy's "backward", the default), both by
 * 1/sqrt(n), or the forward one by 1/n */
typedef enum mf_fft_norm {
    MF_FFT_BACKWARD = 0,
    MF_FFT_ORTHO,
    MF_FFT_FORWARD
} mf_fft_norm;
/* ---- one axis. (..., m, ...) -> (..., n, ...): along .axis, the last by default.
 *   n: the length to which the input is cut or padded with zeros; in irfft and hfft the length of
 *   the result. 0: the input's length m; in these two 2 (m - 1).
 *   mf_rfft returns the first n / 2 + 1 numbers of the transform of a real signal; the others are
 *   their conjugates. mf_irfft is its inverse; it reads the real part only of the first number and,
 *   for an even n, of the last.
 *   mf_hfft transforms a signal that is conjugate-symmetric, of which it takes the first half, to a
 *   real spectrum; mf_ihfft is its inverse. */
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
/* ---- several axes. (...) -> (...): one axis after the other; in the real transforms the last of
 * .axes has the half length. axes: all by default, or the last ones if .s, the lengths, has fewer;
 * in mf_fft2 and the others with 2, the last two. */
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
/* -> (n): np.fft.fftfreq: the frequencies of an n-point transform with sample spacing d; f32 */
mf_value mf_fftfreq(int64_t n, double d);
/* -> (n / 2 + 1): np.fft.rfftfreq: the same for mf_rfft */
mf_value mf_rfftfreq(int64_t n, double d);
/* x -> x: moves frequency 0 to the middle, and back; along an axis, mf_axes(...) or MF_ALL */
mf_value mf_fftshift(mf_value x, mf_axis axes);
mf_value mf_ifftshift(mf_value x, mf_axis axes);

MF_END_

#include <manyfold/lift/fft.h>

#endif
