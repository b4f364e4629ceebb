/* Sampled functions: interp, trapezoid, gradient, unwrap, convolve, correlate; logspace, geomspace, and windows.
 * Invariant: sums over neighbours and windows are composed of slices or one convolution, and get their gradients from these. */
#include "numpy/axis.h"
#include "numpy/floats.h"

#include <math.h>

/* Linear interpolation between the two samples around x; constant beyond the first and the last. */
mf_value(mf_interp)(mf_value x, mf_value xp, mf_value fp)
{
    MF_LAYER;
    if (mf_ndim(xp) != 1 || mf_ndim(fp) != 1 || mf_dim(xp, 0) != mf_dim(fp, 0) || mf_dim(xp, 0) < 1)
        return mf_is_error(xp) ? xp : mf_is_error(fp) ? fp : mf_make_error(MF_ERROR_SHAPE, "interp: xp and fp must be vectors of one size");
    int64_t last = mf_dim(xp, 0) - 1;
    if (numpy_is_complex(x) || numpy_is_complex(xp))
        return mf_make_error(MF_ERROR_DTYPE, "interp: x and xp must be real");
    mf_dtype given = mf_dtype_of(x);
    x = mf_mul(x, 1.0); /* an integer gives way to the other's float */
    xp = given < MF_F16 ? numpy_float(xp) : mf_mul(xp, 1.0);
    fp = numpy_float(fp);
    mf_value right = mf_clip(mf_searchsorted(xp, mf_stop_gradient(x), true), mf_i(last ? 1 : 0), mf_i(last));
    mf_value left = mf_maximum(mf_sub(right, 1), 0);
    mf_value x0 = mf_take(xp, left, 0), f0 = mf_take(fp, left, 0), dx = mf_sub(mf_take(xp, right, 0), x0);
    mf_value flat = mf_less_equal(mf_abs(dx), mf_dtype_of(dx) == MF_F64 ? 0x1p-104 : 0x1p-46); /* np.spacing(eps), as in JAX */
    mf_value share = mf_div(mf_sub(x, x0), mf_where(flat, 1, dx));
    mf_value f = mf_where(flat, f0, mf_add(f0, mf_mul(share, mf_sub(mf_take(fp, right, 0), f0))));
    f = mf_where(mf_less(x, mf_get(xp, 0)), mf_get(fp, 0), f);
    return mf_where(mf_greater(x, mf_get(xp, last)), mf_get(fp, last), f);
}

/* ---- calculus */
mf_value mf_trapezoid_opt(mf_value y, const mf_trapezoid_options *o)
{
    MF_LAYER;
    static const mf_trapezoid_options none = { .axis = -1, .dx = 1 };
    o = o ? o : &none;
    y = numpy_float(y);
    int at = numpy_axis(&y, o->axis, "trapezoid");
    if (at < 0)
        return y;
    int64_t n = mf_dim(y, at);
    mf_value means = mf_mul(mf_add(mf_slice_in_dim(y, n > 0, n, 1, at), mf_slice_in_dim(y, 0, n > 0 ? n - 1 : 0, 1, at)), 0.5);
    if (!o->x.handle)
        return mf_mul(mf_sum(means, at), mf_scalar(o->dx, mf_dtype_of(means)));
    mf_value widths = mf_ndim(o->x) == 1 ? mf_diff(o->x) : mf_diff(o->x, 1, at);
    if (mf_ndim(o->x) == 1)
        return mf_sum(mf_mul(mf_moveaxis(means, at, -1), widths), -1);
    return mf_sum(mf_mul(means, widths), at);
}

mf_value(mf_trapezoid)(mf_value y) { return mf_trapezoid_opt(y, NULL); }

/* Central differences in the interior, one-sided differences at both ends. */
static mf_value slope(mf_value x, double spacing, int at)
{
    int64_t n = mf_dim(x, at);
    if (n < 2)
        return mf_make_error(MF_ERROR_SHAPE, "gradient: at least two elements are needed along axis %d, not %lld", at, (long long)n);
    mf_value step = mf_diff(x, 1, at), first = mf_slice_in_dim(step, 0, 1, 1, at), last = mf_slice_in_dim(step, n - 2, n - 1, 1, at);
    mf_value inside = mf_mul(mf_sub(mf_slice_in_dim(x, 2, n, 1, at), mf_slice_in_dim(x, 0, n - 2, 1, at)), 0.5);
    return mf_div(mf_concatenate(mf_list(first, inside, last), at), spacing);
}

mf_value(mf_gradient)(mf_value x, double spacing, mf_axis axis)
{
    MF_LAYER;
    mf_value each[MF_MAX_RANK] = { { 0 } };
    x = numpy_float(x);
    mf_ints at = numpy_axes(&x, axis, "gradient");
    if (mf_is_error(x) || at.count < 1)
        return mf_is_error(x) ? x : mf_make_error(MF_ERROR_SHAPE, "gradient: a number has no neighbours");
    for (int i = 0; i < at.count; i++)
        each[i] = slope(x, spacing, (int)at.at[i]);
    return at.count > 1 ? mf_list_n(each, at.count) : each[0];
}

/* Jumps of half a period or more are taken for jumps by whole periods, which are undone. */
mf_value(mf_unwrap)(mf_value x, double period, int axis)
{
    MF_LAYER;
    x = numpy_real_float(x, "unwrap");
    int at = numpy_axis(&x, axis, "unwrap");
    if (at < 0 || mf_dim(x, at) < 1)
        return x;
    double half = period / 2;
    mf_value step = mf_diff(x, 1, at), rest = mf_sub(mf_remainder(mf_add(step, half), period), half);
    rest = mf_where(mf_logical_and(mf_equal(rest, -half), mf_greater(step, 0)), half, rest);
    mf_value undone = mf_where(mf_less(mf_abs(step), half), 0, mf_sub(rest, step));
    mf_value first = mf_slice_in_dim(x, 0, 1, 1, at), later = mf_slice_in_dim(x, 1, MF_END, 1, at);
    return mf_concatenate(mf_list(first, mf_add(later, mf_cumsum(undone, at))), at);
}

/* ---- numbers on a logarithmic scale, and windows */
mf_value mf_logspace_opt(double start, double stop, int64_t count, const mf_logspace_options *o)
{
    MF_LAYER;
    double base = o && o->base != 0 ? o->base : 10;
    mf_value power = mf_linspace(start, stop, count, .exclude_endpoint = o && o->exclude_endpoint);
    return mf_astype(mf_pow(mf_scalar(base, mf_dtype_of(power)), power), o && o->dtype ? o->dtype : MF_F32);
}

mf_value(mf_logspace)(double start, double stop, int64_t count) { return mf_logspace_opt(start, stop, count, NULL); }

mf_value(mf_geomspace)(double start, double stop, int64_t count)
{
    MF_LAYER;
    if (!(start * stop > 0))
        return mf_make_error(MF_ERROR_ARGUMENT, "geomspace: the ends must have one sign and not be 0, not %g and %g", start, stop);
    mf_value size = mf_exp(mf_linspace(log(fabs(start)), log(fabs(stop)), count));
    return start < 0 ? mf_neg(size) : size;
}

/* The sum of c[k] cos(k phase). */
static mf_value cosines(int64_t count, double c0, double c1, double c2)
{
    if (count == 1)
        return mf_ones(MF_SHAPE(1), MF_F32);
    mf_value phase = mf_linspace(0, 2 * M_PI, count), sum = mf_add(mf_mul(mf_cos(phase), c1), c0);
    return c2 != 0 ? mf_add(sum, mf_mul(mf_cos(mf_mul(phase, 2)), c2)) : sum;
}

mf_value mf_hanning(int64_t count)
{
    MF_LAYER;
    return cosines(count, 0.5, -0.5, 0);
}

mf_value mf_hamming(int64_t count)
{
    MF_LAYER;
    return cosines(count, 0.54, -0.46, 0);
}

mf_value mf_blackman(int64_t count)
{
    MF_LAYER;
    return cosines(count, 0.42, -0.5, 0.08);
}

mf_value mf_bartlett(int64_t count)
{
    MF_LAYER;
    return count == 1 ? mf_ones(MF_SHAPE(1), MF_F32) : mf_sub(1, mf_abs(mf_linspace(-1, 1, count)));
}

mf_value mf_kaiser(int64_t count, double beta)
{
    MF_LAYER;
    if (count == 1)
        return mf_ones(MF_SHAPE(1), MF_F32);
    mf_value inside = mf_maximum(mf_sub(1, mf_square(mf_linspace(-1, 1, count))), 0);
    return mf_div(mf_i0(mf_mul(mf_sqrt(inside), beta)), mf_i0(mf_f(beta)));
}

/* ---- convolution of vectors */
static mf_value no_vectors(mf_value a, mf_value v, const char *op)
{
    if (mf_is_error(a) || mf_is_error(v))
        return mf_is_error(a) ? a : v;
    return mf_make_error(MF_ERROR_SHAPE, "%s: two vectors are needed, not %s and %s", op, mf_str(mf_shape_of(a)), mf_str(mf_shape_of(v)));
}

/* out[n] = sum over i of line[n + i] * window[i], for windows inside the line (valid), all windows that overlap it (full), or from `before`
 * elements in front of it on (same). */
static mf_value slid(mf_value line, mf_value window, mf_convolve_mode mode, int64_t before)
{
    mf_value zero = numpy_float(mf_mul(mf_zeros_like(mf_get(line, 0)), mf_zeros_like(mf_get(window, 0)))); /* of the promoted dtype */
    int64_t n = mf_size(line), k = mf_size(window), low = mode == MF_CONVOLVE_FULL ? k - 1 : mode == MF_CONVOLVE_SAME ? before : 0;
    int64_t high = mode == MF_CONVOLVE_SAME ? k - 1 - low : low;
    line = mf_reshape(mf_add(line, zero), MF_SHAPE(1, n, 1));
    window = mf_reshape(mf_add(window, zero), MF_SHAPE(k, 1, 1));
    return mf_ravel(mf_conv_general_dilated(line, window, .padding_low = MF_INTS(low), .padding_high = MF_INTS(high)));
}

mf_value(mf_convolve)(mf_value a, mf_value v, mf_convolve_mode mode)
{
    MF_LAYER;
    if (mf_ndim(a) != 1 || mf_ndim(v) != 1 || mf_size(a) < 1 || mf_size(v) < 1)
        return no_vectors(a, v, "convolve");
    bool swap = mf_size(a) < mf_size(v);
    return slid(swap ? v : a, mf_flip(swap ? a : v), mode, (swap ? mf_size(a) : mf_size(v)) / 2);
}

mf_value(mf_correlate)(mf_value a, mf_value v, mf_convolve_mode mode)
{
    MF_LAYER;
    if (mf_ndim(a) != 1 || mf_ndim(v) != 1 || mf_size(a) < 1 || mf_size(v) < 1)
        return no_vectors(a, v, "correlate");
    bool swap = mf_size(a) < mf_size(v);
    return swap ? mf_flip(slid(mf_conj(v), a, mode, mf_size(a) / 2)) : slid(a, mf_conj(v), mode, mf_size(v) / 2);
}
