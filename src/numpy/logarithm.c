/* logaddexp and its running form.
 * Invariant: the greater operand is taken out before the exponential, so nothing overflows; each operand's slope is its share of the
 * sum, also where that is infinite: of two minus infinities NaN, as in JAX, but in the running form, which they fill up, 1. */
#include <manyfold.h>

#include <math.h>

static mf_value joined(mf_value a, mf_value b)
{
    mf_value distance = mf_sub(a, b); /* NaN where both are the same infinity */
    return mf_where(mf_isnan(distance), mf_add(a, b), mf_add(mf_maximum(a, b), mf_log1p(mf_exp(mf_neg(mf_abs(distance))))));
}

static mf_value finite_or_zero(mf_value x) { return mf_where(mf_isinf(x), 0, x); }

/* Of a minus infinity the share is nothing. */
static mf_value share(mf_value x, mf_value sum)
{
    return mf_exp(mf_sub(mf_where(mf_equal(x, sum), finite_or_zero(x), x), finite_or_zero(sum)));
}

static mf_value joined_jvp(mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 0), b = mf_get(primals, 1), sum = joined(a, b);
    return mf_tuple(sum, mf_add(mf_mul(mf_get(tangents, 0), share(a, sum)), mf_mul(mf_get(tangents, 1), share(b, sum))));
}

static mf_value logaddexp_jvp(mf_value primals, mf_value tangents)
{
    mf_value both = joined_jvp(primals, tangents), sum = mf_get(both, 0);
    mf_value factor = mf_where(mf_equal(sum, -(double)INFINITY), (double)NAN, 1.0);
    return mf_tuple(sum, mf_mul(mf_get(both, 1), factor));
}

static mf_value as_float(mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    return d >= MF_BOOL && d < MF_F16 ? mf_astype(x, d == MF_I64 || d == MF_U64 ? MF_F64 : MF_F32) : x;
}

mf_value(mf_logaddexp)(mf_value a, mf_value b)
{
    mf_value zero = mf_mul(mf_sub(mf_zeros_like(a), mf_zeros_like(b)), 1); /* of the common type: both operands get it */
    a = as_float(mf_add(a, zero));
    b = as_float(mf_add(b, zero));
    return mf_call(mf_custom_jvp(joined, logaddexp_jvp), a, b);
}

/* Runs of 1, 2, 4, ... elements joined with the runs before them, or behind them. */
mf_value mf_cumlogsumexp_opt(mf_value x, const mf_cumulative_options *o)
{
    MF_LAYER;
    mf_axis axis = o ? o->axis : 0;
    x = as_float(axis == MF_ALL ? mf_ravel(x) : x);
    int rank = mf_ndim(x), at = axis == MF_ALL ? 0 : (int)(axis < 0 ? axis + rank : axis);
    if (rank >= 0 && (at < 0 || at >= rank))
        return mf_make_error(MF_ERROR_AXIS, "cumlogsumexp: axis %lld is out of bounds for an array of rank %d", (long long)axis, rank);
    if (mf_is_error(x))
        return x;
    mf_function join = mf_custom_jvp(joined, joined_jvp);
    for (int64_t by = 1; by < mf_dim(x, at); by *= 2) {
        mf_ints low = { .count = rank }, high = { .count = rank };
        low.at[at] = o && o->reverse ? -by : by;
        high.at[at] = -low.at[at];
        x = mf_call(join, x, mf_pad(x, mf_scalar(-(double)INFINITY, mf_dtype_of(x)), low, high, MF_INTS0));
    }
    return x;
}

mf_value(mf_cumlogsumexp)(mf_value x, mf_axis axis) { return mf_cumlogsumexp_opt(x, &(mf_cumulative_options){ .axis = axis }); }
