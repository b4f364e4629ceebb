/* Counting: bincount, histogram, digitize. Invariant: the number of bins is a C number, so every result has a static shape; values outside
 * all bins of a histogram are not counted. */
#include "numpy/floats.h"

mf_value(mf_bincount)(mf_value x, int64_t length)
{
    MF_LAYER;
    if (length < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "bincount: the length must not be negative, not %lld", (long long)length);
    return mf_index_add(mf_zeros(MF_SHAPE(length), MF_I32), mf_maximum(mf_ravel(x), 0), mf_scalar(1, MF_I32));
}

/* Bins are half-open [low, high), except the last, which includes its upper edge. */
mf_value mf_histogram_opt(mf_value x, int64_t bins, const mf_histogram_options *o)
{
    MF_LAYER;
    static const mf_histogram_options none;
    o = o ? o : &none;
    x = mf_ravel(numpy_real_float(x, "histogram"));
    if (mf_is_error(x))
        return x;
    if (bins < 1 || bins == INT64_MAX) /* the number of edges is bins + 1 */
        return mf_make_error(MF_ERROR_ARGUMENT, "histogram: at least one bin is needed, and fewer than 2^63 - 1, not %lld",
                             (long long)bins);
    mf_dtype d = mf_dtype_of(x);
    bool empty = mf_size(x) == 0;
    mf_value low = o->low.handle ? mf_astype(o->low, d) : empty ? mf_scalar(0, d) : mf_min(x);
    mf_value high = o->high.handle ? mf_astype(o->high, d) : empty ? mf_scalar(1, d) : mf_max(x), one = mf_equal(low, high);
    low = mf_where(one, mf_sub(low, mf_scalar(0.5, d)), low);
    high = mf_where(one, mf_add(high, mf_scalar(0.5, d)), high);
    mf_value share = mf_div(mf_arange(bins + 1, d), mf_scalar((double)bins, d));
    mf_value edges = mf_add(mf_mul(low, mf_sub(1, share)), mf_mul(high, share));
    mf_value bin = mf_where(mf_equal(x, high), mf_i(bins), mf_searchsorted(edges, x, true)); /* from 1; 0 and bins + 1 are outside */
    mf_value weights = o->weights.handle ? mf_ravel(numpy_float(o->weights)) : mf_ones_like(x);
    mf_value counts = mf_segment_sum(weights, mf_sub(bin, 1), bins);
    if (o->density)
        counts = mf_div(counts, mf_mul(mf_sum(counts), mf_diff(edges)));
    return mf_is_error(counts) ? counts : mf_tuple(counts, edges);
}

mf_value(mf_histogram)(mf_value x, int64_t bins) { return mf_histogram_opt(x, bins, NULL); }

/* The bins may ascend or descend. */
mf_value(mf_digitize)(mf_value x, mf_value bins, bool right)
{
    MF_LAYER;
    if (mf_ndim(bins) != 1)
        return mf_is_error(bins) ? bins
                                 : mf_make_error(MF_ERROR_SHAPE, "digitize: the bins must have one dimension, not %d", mf_ndim(bins));
    int64_t n = mf_dim(bins, 0);
    mf_value up = mf_searchsorted(bins, x, !right);
    if (n < 2)
        return up;
    mf_value down = mf_sub(mf_i(n), mf_searchsorted(mf_flip(bins), x, !right));
    return mf_where(mf_greater_equal(mf_get(bins, n - 1), mf_get(bins, 0)), up, down);
}
