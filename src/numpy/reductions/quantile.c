/* quantile, percentile, median, and nanquantile, nanpercentile, nanmedian, which ignore NaN.
 * Invariant: interpolation is linear; a NaN makes the quantiles of its line NaN, or is ignored. */
#include "numpy/axis.h"
#include "numpy/floats.h"

#include <math.h>

/* Moves the reduced axes to the end and flattens them to one; a "line" is a slice along it. MF_ALL flattens x. */
static mf_value as_lines(mf_value x, mf_axis axis, const char *op)
{
    mf_ints at = numpy_axes(&x, axis, op), order = { .count = 0 };
    mf_shape shape = { .rank = 0 };
    int64_t length = 1;
    unsigned moved = 0;
    if (mf_is_error(x))
        return x;
    for (int i = 0; i < at.count; i++) {
        moved |= 1u << at.at[i];
        length *= mf_dim(x, (int)at.at[i]);
    }
    for (int i = 0; i < mf_ndim(x); i++)
        if (!(moved >> i & 1)) {
            order.at[order.count++] = i;
            shape.dims[shape.rank++] = mf_dim(x, i);
        }
    for (int i = 0; i < at.count; i++)
        order.at[order.count++] = at.at[i];
    shape.dims[shape.rank++] = length;
    return mf_reshape(mf_ndim(x) > 1 ? mf_transpose(x, order) : x, shape);
}

/* Quantiles of sorted lines that may end with NaNs: the position of a quantile depends on each line's number of valid elements. */
static mf_value among_numbers(mf_value line, mf_value q)
{
    mf_dtype d = mf_dtype_of(line);
    mf_value last = mf_sub(mf_sum(mf_astype(mf_logical_not(mf_isnan(line)), d), .axis = -1, .keepdims = true), 1);
    mf_value place = mf_mul(last, q), none = mf_less(last, 0), below = mf_floor(mf_maximum(place, 0)), share = mf_sub(place, below);
    mf_value low = mf_take_along_axis(line, mf_astype(below, MF_I32), -1);
    mf_value high = mf_take_along_axis(line, mf_astype(mf_ceil(mf_maximum(place, 0)), MF_I32), -1);
    mf_value out = mf_add(mf_mul(low, mf_sub(mf_scalar(1, d), share)), mf_mul(high, share));
    out = mf_where(none, mf_scalar((double)NAN, d), out);
    return mf_ndim(q) == 1 ? mf_moveaxis(out, -1, 0) : mf_squeeze(out, -1);
}

static mf_value quantile(mf_value x, mf_value q, mf_axis axis, bool skip_nan, const char *op)
{
    if (numpy_is_complex(x))
        return mf_make_error(MF_ERROR_DTYPE, "%s: complex numbers have no order", op);
    mf_value line = numpy_float(as_lines(x, axis, op));
    if (mf_is_error(line))
        return line;
    mf_dtype d = mf_dtype_of(line);
    q = mf_astype(!mf_is_error(q) && mf_ndim(q) < 0 ? mf_stack(q, 0) : q, d);
    int64_t n = mf_dim(line, -1);
    if (mf_ndim(q) > 1 || n < 1)
        return mf_make_error(MF_ERROR_SHAPE, n < 1 ? "%s of no elements" : "%s: q is a number or a list of numbers", op);
    if (skip_nan)
        return among_numbers(mf_sort(line, -1), q);
    mf_value broken = mf_any(mf_isnan(line), .axis = -1, .keepdims = true);
    line = mf_sort(mf_where(broken, mf_scalar((double)NAN, d), line), -1);
    mf_value place = mf_mul(q, mf_scalar((double)(n - 1), d)), below = mf_floor(place);
    mf_value share = mf_sub(place, below), last = mf_scalar((double)(n - 1), d);
    mf_value low = mf_take(line, mf_astype(mf_clip(below, mf_scalar(0, d), last), MF_I32), -1);
    mf_value high = mf_take(line, mf_astype(mf_clip(mf_ceil(place), mf_scalar(0, d), last), MF_I32), -1);
    mf_value out = mf_add(mf_mul(low, mf_sub(mf_scalar(1, d), share)), mf_mul(high, share));
    return mf_ndim(q) == 1 ? mf_moveaxis(out, -1, 0) : out;
}

mf_value(mf_quantile)(mf_value x, mf_value q, mf_axis axis)
{
    MF_LAYER;
    return quantile(x, q, axis, false, "quantile");
}

mf_value(mf_median)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    return quantile(x, mf_f(0.5), axis, false, "median");
}

static mf_value share_of(mf_value percent)
{
    return mf_div(mf_ndim(percent) < 0 && !mf_is_error(percent) ? mf_stack(percent, 0) : percent, 100);
}

mf_value(mf_percentile)(mf_value x, mf_value q, mf_axis axis)
{
    MF_LAYER;
    return quantile(x, share_of(q), axis, false, "percentile");
}

mf_value(mf_nanquantile)(mf_value x, mf_value q, mf_axis axis)
{
    MF_LAYER;
    return quantile(x, q, axis, true, "nanquantile");
}

mf_value(mf_nanpercentile)(mf_value x, mf_value q, mf_axis axis)
{
    MF_LAYER;
    return quantile(x, share_of(q), axis, true, "nanpercentile");
}

mf_value(mf_nanmedian)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    return quantile(x, mf_f(0.5), axis, true, "nanmedian");
}
