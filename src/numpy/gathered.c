/* interp, segment_sum, average, nansum, nanmean, kron, cross: sums of elements that are chosen, weighted or multiplied first.
 * Invariant: what is left out adds zeros, so that its gradient is zero. */
#include <manyfold.h>

static bool is_inexact(mf_dtype d) { return d >= MF_F16 && d <= MF_C128; }

mf_value mf_nansum_opt(mf_value x, const mf_reduce_options *o) { return mf_sum_opt(mf_where(mf_isnan(x), mf_zeros_like(x), x), o); }

mf_value(mf_nansum)(mf_value x) { return mf_nansum_opt(x, NULL); }

mf_value mf_nanmean_opt(mf_value x, const mf_reduce_options *o)
{
    MF_LAYER;
    mf_reduce_options numbers = o ? *o : (mf_reduce_options){ .axis = MF_ALL };
    mf_value valid = mf_logical_not(mf_isnan(x));
    numbers.where = numbers.where.handle ? mf_logical_and(numbers.where, valid) : valid;
    return mf_mean_opt(mf_where(valid, x, mf_zeros_like(x)), &numbers);
}

mf_value(mf_nanmean)(mf_value x) { return mf_nanmean_opt(x, NULL); }

mf_value(mf_average)(mf_value x, mf_value weights, mf_axis axis)
{
    MF_LAYER;
    x = is_inexact(mf_dtype_of(x)) ? x : mf_mul(x, 1.0);
    if (mf_ndim(x) < 0 || mf_ndim(weights) < 0)
        return mf_mul(x, weights);                 /* the error itself, or what says that one is no array */
    if (mf_ndim(weights) == 1 && mf_ndim(x) > 1) { /* one weight for each place along the axis */
        mf_ints at = mf_axes_of(axis, mf_ndim(x));
        if (at.count != 1)
            return mf_make_error(MF_ERROR_AXIS, "average: one axis is needed for weights of one dimension");
        mf_shape shape = { .rank = mf_ndim(x) };
        for (int i = 0; i < shape.rank; i++)
            shape.dims[i] = i == at.at[0] ? mf_dim(weights, 0) : 1;
        weights = mf_reshape(weights, shape);
    }
    weights = mf_broadcast_to(weights, mf_shape_of(x));
    return mf_div(mf_sum(mf_mul(x, weights), .axis = axis), mf_sum(weights, .axis = axis));
}

mf_value(mf_segment_sum)(mf_value x, mf_value segment_ids, int64_t num_segments)
{
    MF_LAYER;
    if (num_segments < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "segment_sum: the number of segments must not be negative, not %lld",
                             (long long)num_segments);
    mf_shape shape = mf_shape_of(x);
    if (shape.rank < 1)
        return shape.rank == 0 ? mf_make_error(MF_ERROR_SHAPE, "segment_sum: a number has no rows") : mf_neg(x);
    shape.dims[0] = num_segments;
    mf_value inside = mf_where(mf_less(segment_ids, 0), mf_i(num_segments), segment_ids); /* an index below 0 would count from the end */
    return mf_index_add(mf_zeros(shape, mf_dtype_of(x)), inside, x);
}

/* The line through the two points between which x lies; those of the ends go on flat. */
mf_value(mf_interp)(mf_value x, mf_value xp, mf_value fp)
{
    MF_LAYER;
    if (mf_ndim(xp) != 1 || mf_ndim(fp) != 1 || mf_dim(xp, 0) != mf_dim(fp, 0) || mf_dim(xp, 0) < 1)
        return mf_is_error(xp) ? xp : mf_is_error(fp) ? fp : mf_make_error(MF_ERROR_SHAPE, "interp: xp and fp must be vectors of one size");
    int64_t last = mf_dim(xp, 0) - 1;
    x = mf_mul(x, 1.0);
    xp = mf_mul(xp, 1.0);
    fp = mf_mul(fp, 1.0);
    mf_value right = mf_clip(mf_searchsorted(xp, mf_stop_gradient(x), true), mf_i(last ? 1 : 0), mf_i(last));
    mf_value left = mf_maximum(mf_sub(right, 1), 0);
    mf_value x0 = mf_take(xp, left, 0), f0 = mf_take(fp, left, 0), dx = mf_sub(mf_take(xp, right, 0), x0);
    mf_value flat = mf_less_equal(mf_abs(dx), mf_dtype_of(dx) == MF_F64 ? 0x1p-104 : 0x1p-46); /* the spacing of epsilon */
    mf_value share = mf_div(mf_sub(x, x0), mf_where(flat, 1, dx));
    mf_value f = mf_where(flat, f0, mf_add(f0, mf_mul(share, mf_sub(mf_take(fp, right, 0), f0))));
    f = mf_where(mf_less(x, mf_get(xp, 0)), mf_get(fp, 0), f);
    return mf_where(mf_greater(x, mf_get(xp, last)), mf_get(fp, last), f);
}

/* ---- products */
mf_value(mf_kron)(mf_value a, mf_value b)
{
    MF_LAYER;
    mf_shape wide_a = { .rank = 0 }, wide_b = { .rank = 0 }, shape = { .rank = 0 };
    while (mf_ndim(a) >= 0 && mf_ndim(a) < mf_ndim(b))
        a = mf_expand_dims(a, 0);
    while (mf_ndim(b) >= 0 && mf_ndim(b) < mf_ndim(a))
        b = mf_expand_dims(b, 0);
    if (mf_is_error(a) || mf_is_error(b) || 2 * mf_ndim(a) > MF_MAX_RANK)
        return mf_is_error(a) || mf_is_error(b)
                   ? mf_mul(a, b)
                   : mf_make_error(MF_ERROR_SHAPE, "kron: arrays have at most %d dimensions, not %d", MF_MAX_RANK / 2, mf_ndim(a));
    for (int i = 0; i < mf_ndim(a); i++) {
        wide_a.dims[wide_a.rank++] = mf_dim(a, i);
        wide_a.dims[wide_a.rank++] = 1;
        wide_b.dims[wide_b.rank++] = 1;
        wide_b.dims[wide_b.rank++] = mf_dim(b, i);
        shape.dims[shape.rank++] = mf_dim(a, i) * mf_dim(b, i);
    }
    return mf_reshape(mf_mul(mf_reshape(a, wide_a), mf_reshape(b, wide_b)), shape);
}

mf_value(mf_cross)(mf_value a, mf_value b)
{
    MF_LAYER;
    if (mf_is_error(a) || mf_is_error(b))
        return mf_mul(a, b);
    if (mf_ndim(a) < 1 || mf_ndim(b) < 1 || mf_dim(a, -1) != 3 || mf_dim(b, -1) != 3)
        return mf_make_error(MF_ERROR_SHAPE, "cross: the last dimensions must have size 3");
    return mf_sub(mf_mul(mf_roll(a, -1, -1), mf_roll(b, -2, -1)), mf_mul(mf_roll(a, -2, -1), mf_roll(b, -1, -1)));
}
