/* map: applies a function to each slice along the leading axis, as a scan without a carry. Invariant: the results are those of a loop over
 * the slices, whatever the batch size; slices that do not fill a batch form a smaller one. */
#include <manyfold.h>

#include <stdlib.h>

/* Maps (None, x) to (None, f(x)). */
static mf_value step(const void *context, mf_function f, const mf_value *arguments, int count)
{
    (void)context;
    mf_value out = count == 2 ? mf_call_n(f, &arguments[1], 1) : mf_make_error(MF_ERROR_ARGUMENT, "map takes a function of one argument");
    return mf_is_error(out) ? out : mf_tuple(mf_none(), out);
}

static mf_value one_by_one(mf_function f, mf_value xs)
{
    static const char none[1];
    return mf_get(mf_scan(mf_decorate_n(f, "map", step, none, 0), mf_none(), xs), 1);
}

/* Slices every leaf from start to stop, reshaped to (batches, batch, ...) if batch is not 0. */
static mf_value slices(mf_value xs, int64_t start, int64_t stop, int64_t batch)
{
    mf_value leaves = mf_tree_leaves(xs);
    if (mf_is_error(leaves))
        return leaves;
    int count = mf_len(leaves);
    mf_value *items = calloc((size_t)count + 1, sizeof *items);
    for (int i = 0; items && i < count; i++) {
        mf_value x = mf_slice_in_dim(mf_get(leaves, i), start, stop, 1, 0);
        mf_shape shape = { .rank = mf_ndim(x) + 1, .dims = { (stop - start) / (batch ? batch : 1), batch } };
        for (int d = 1; d + 1 < shape.rank && shape.rank <= MF_MAX_RANK; d++)
            shape.dims[d + 1] = mf_dim(x, d);
        items[i] = batch ? mf_reshape(x, shape) : x;
    }
    mf_value tree = items ? mf_tree_unflatten(xs, mf_list_n(items, count)) : mf_make_error(MF_ERROR_MEMORY, "out of memory");
    free(items);
    return tree;
}

static mf_value unbatched(mf_value x)
{
    mf_shape shape = mf_shape_of(x);
    shape.dims[1] *= shape.dims[0];
    for (int d = 1; d < shape.rank; d++)
        shape.dims[d - 1] = shape.dims[d];
    shape.rank--;
    return mf_reshape(x, shape);
}

static mf_value joined(mf_value a, mf_value b) { return mf_concatenate(mf_list(a, b), 0); }

/* Finds the length along axis 0; an error names the leaf whose length differs. */
static mf_value length_of(mf_value xs, int64_t *length)
{
    mf_value leaves = mf_tree_leaves(xs);
    if (mf_is_error(leaves))
        return leaves;
    if (mf_len(leaves) < 1)
        return mf_make_error(MF_ERROR_TREE, "map: xs has no arrays to map over");
    for (int i = 0; i < mf_len(leaves); i++) {
        mf_value x = mf_get(leaves, i);
        if (mf_is_error(x))
            return x;
        if (mf_ndim(x) < 1 || (i && mf_dim(x, 0) != *length))
            return mf_make_error(MF_ERROR_SHAPE, "map: the arrays of xs must have one length along axis 0; number %d has the shape %s", i,
                                 mf_str(mf_shape_of(x)));
        *length = mf_dim(x, 0);
    }
    return mf_none();
}

mf_value mf_map_opt(mf_function f, mf_value xs, const mf_map_options *o)
{
    int64_t batch = o ? o->batch_size : 0, length = 0;
    mf_value wrong = length_of(xs, &length);
    if (mf_is_error(wrong))
        return wrong;
    if (batch < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "map: the batch size %lld is negative", (long long)batch);
    if (batch == 0)
        return one_by_one(f, xs);
    mf_function whole = mf_vmap_opt(f, NULL);
    int64_t full = length - length % batch;
    mf_value some = { 0 };
    if (full || !length)
        some = mf_tree_map(unbatched, one_by_one(whole, slices(xs, 0, full, batch)));
    if (full == length)
        return some;
    mf_value rest = mf_call(whole, slices(xs, full, length, 0));
    return full ? mf_tree_map(joined, some, rest) : rest;
}
