/* quantile, median, searchsorted, bincount: where numbers fall.
 * Invariant: a NaN in a line makes its quantiles NaN; searchsorted counts NaN as the greatest, as sorting does. */
#include "numpy/axis.h"
#include "numpy/floats.h"

#include <math.h>

/* The lines in which to look: the axes moved to the end, as one dimension; MF_ALL: everything. */
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

static mf_value quantile(mf_value x, mf_value q, mf_axis axis, const char *op)
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
    return quantile(x, q, axis, "quantile");
}

mf_value(mf_median)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    return quantile(x, mf_f(0.5), axis, "median");
}

/* ---- searchsorted: halving, once for every bit of the length */

/* In the order of sort. */
static mf_value before(mf_value a, mf_value b) { return mf_logical_or(mf_less(a, b), mf_logical_and(mf_isnan(b), mf_equal(a, a))); }

static mf_value places_in(mf_value sorted, mf_value x, bool right)
{
    mf_value low = mf_zeros_like(mf_astype(x, MF_I32)), high = mf_full_like(low, mf_i(mf_dim(sorted, 0)));
    for (int64_t left = mf_dim(sorted, 0); left > 0; left /= 2) {
        mf_value middle = mf_right_shift(mf_add(low, high), 1), at = mf_take(sorted, middle, 0);
        mf_value behind = right ? mf_logical_not(before(x, at)) : before(at, x), open = mf_less(low, high);
        low = mf_where(mf_logical_and(open, behind), mf_add(middle, 1), low);
        high = mf_where(mf_logical_and(open, mf_logical_not(behind)), middle, high);
    }
    return low;
}

static mf_value places_before(mf_value sorted, mf_value x) { return places_in(sorted, x, false); }
static mf_value places_behind(mf_value sorted, mf_value x) { return places_in(sorted, x, true); }

/* Compiled, as JAX's is: twenty rounds of eager operations on a million numbers would write each of their results to memory. */
mf_value(mf_searchsorted)(mf_value sorted, mf_value x, bool right)
{
    if (mf_is_error(sorted))
        return sorted;
    if (mf_ndim(sorted) != 1)
        return mf_make_error(MF_ERROR_SHAPE, "searchsorted: the sorted array must have one dimension, not %d", mf_ndim(sorted));
    return right ? mf_call(mf_jit(places_behind), sorted, x) : mf_call(mf_jit(places_before), sorted, x);
}

mf_value(mf_bincount)(mf_value x, int64_t length)
{
    MF_LAYER;
    if (length < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "bincount: the length must not be negative, not %lld", (long long)length);
    return mf_index_add(mf_zeros(MF_SHAPE(length), MF_I32), mf_maximum(mf_ravel(x), 0), mf_scalar(1, MF_I32));
}
