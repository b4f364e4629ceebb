/* segment_sum, segment_prod, segment_max, segment_min: reduce the rows with the same segment id to one row.
 * Invariant: a row whose id is out of range is dropped; a segment without rows is the reduction's identity element. */
#include <manyfold.h>

#include <math.h>

/* Scatters the rows of x with `apply` into `count` rows of `initial`. */
static mf_value segments(mf_value x, mf_value ids, int64_t count, mf_value initial, mf_value (*apply)(mf_value, mf_value, mf_value),
                         const char *op)
{
    if (count < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: the number of segments must not be negative, not %lld", op, (long long)count);
    mf_shape shape = mf_shape_of(x);
    if (shape.rank < 1)
        return shape.rank == 0 ? mf_make_error(MF_ERROR_SHAPE, "%s: a number has no rows", op) : mf_neg(x);
    shape.dims[0] = count;
    mf_value inside = mf_where(mf_less(ids, 0), mf_i(count), ids); /* an index below 0 would count from the end */
    return apply(mf_broadcast_to(initial, shape), inside, x);
}

static mf_value add(mf_value x, mf_value at, mf_value rows) { return mf_index_add(x, at, rows); }
static mf_value multiply(mf_value x, mf_value at, mf_value rows) { return mf_index_multiply(x, at, rows); }
static mf_value greatest(mf_value x, mf_value at, mf_value rows) { return mf_index_max(x, at, rows); }
static mf_value least(mf_value x, mf_value at, mf_value rows) { return mf_index_min(x, at, rows); }

mf_value(mf_segment_sum)(mf_value x, mf_value segment_ids, int64_t num_segments)
{
    MF_LAYER;
    return segments(x, segment_ids, num_segments, mf_scalar(0, mf_dtype_of(x)), add, "segment_sum");
}

mf_value(mf_segment_prod)(mf_value x, mf_value segment_ids, int64_t num_segments)
{
    MF_LAYER;
    return segments(x, segment_ids, num_segments, mf_scalar(1, mf_dtype_of(x)), multiply, "segment_prod");
}

/* The lowest or highest number of a dtype: the conversion from infinity to integers saturates. */
static mf_value limit(mf_dtype d, double infinity) { return d == MF_BOOL ? mf_b(infinity > 0) : mf_astype(mf_scalar(infinity, MF_F64), d); }

mf_value(mf_segment_max)(mf_value x, mf_value segment_ids, int64_t num_segments)
{
    MF_LAYER;
    return segments(x, segment_ids, num_segments, limit(mf_dtype_of(x), -(double)INFINITY), greatest, "segment_max");
}

mf_value(mf_segment_min)(mf_value x, mf_value segment_ids, int64_t num_segments)
{
    MF_LAYER;
    return segments(x, segment_ids, num_segments, limit(mf_dtype_of(x), (double)INFINITY), least, "segment_min");
}
