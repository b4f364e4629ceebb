/* Sampled functions and polynomials: interp, trapezoid, gradient, polyval, polyfit, vander, convolve, correlate.
 * Invariant: sums over neighbours and windows are composed of slices or one convolution, and get their gradients from these. */
#include "numpy/axis.h"
#include "numpy/floats.h"

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

/* ---- polynomials */
mf_value(mf_polyval)(mf_value p, mf_value x)
{
    MF_LAYER;
    if (mf_ndim(p) != 1)
        return mf_is_error(p) ? p : mf_make_error(MF_ERROR_SHAPE, "polyval: the coefficients must have one dimension, not %d", mf_ndim(p));
    mf_value sum = mf_mul(mf_zeros_like(x), mf_zeros(MF_SHAPE0, mf_dtype_of(p)));
    for (int64_t i = 0; i < mf_dim(p, 0); i++)
        sum = mf_add(mf_mul(sum, x), mf_get(p, i));
    return sum;
}

mf_value mf_vander_opt(mf_value x, const mf_vander_options *o)
{
    MF_LAYER;
    if (mf_ndim(x) != 1)
        return mf_is_error(x) ? x : mf_make_error(MF_ERROR_SHAPE, "vander: a vector is needed, not %d dimensions", mf_ndim(x));
    int64_t columns = o && o->columns != MF_END ? o->columns : mf_dim(x, 0);
    if (columns < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "vander: the number of columns must not be negative, not %lld", (long long)columns);
    mf_dtype d = mf_dtype_of(x); /* small integers stay as they are */
    mf_value powers = mf_pow(mf_expand_dims(x, 1), mf_astype(mf_arange(columns, MF_I32), d > MF_BOOL && d < MF_F16 ? d : MF_I32));
    return o && o->increasing ? powers : mf_flip(powers, 1);
}

mf_value(mf_vander)(mf_value x) { return mf_vander_opt(x, NULL); }

/* Normalises the columns of the Vandermonde matrix, because powers of x differ by orders of magnitude. */
mf_value(mf_polyfit)(mf_value x, mf_value y, int64_t degree)
{
    MF_LAYER;
    x = numpy_float(x);
    y = numpy_float(y);
    if (mf_ndim(x) != 1 || mf_ndim(y) < 1 || mf_ndim(y) > 2 || mf_dim(x, 0) != mf_dim(y, 0) || mf_dim(x, 0) < 1)
        return mf_is_error(x)   ? x
               : mf_is_error(y) ? y
                                : mf_make_error(MF_ERROR_SHAPE, "polyfit: a vector and as many rows are needed, not %s and %s",
                                                mf_str(mf_shape_of(x)), mf_str(mf_shape_of(y)));
    if (degree < 0 || degree == INT64_MAX)
        return mf_make_error(MF_ERROR_ARGUMENT, "polyfit: the degree must be at least 0 and below 2^63 - 1, not %lld", (long long)degree);
    mf_value powers = mf_vander(x, .columns = degree + 1);
    mf_value length = mf_sqrt(mf_sum(mf_square(powers), 0)), safe = mf_where(mf_equal(length, 0), 1, length);
    mf_value found = mf_lstsq(mf_div(powers, safe), y, .rcond = (double)mf_dim(x, 0) * numpy_epsilon(x));
    return mf_is_error(found) ? found : mf_div(mf_get(found, 0), mf_ndim(y) == 1 ? safe : mf_expand_dims(safe, 1));
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
