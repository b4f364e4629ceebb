/* Joining, splitting and indexing arrays: atleast_1d to block_diag, array_split, rot90, tri, toeplitz,
 * unravel_index and ravel_multi_index.
 * Invariant: elements are only moved. */
#include "numpy/axis.h"

/* ---- a minimum number of dimensions */
static mf_value led_by_ones(mf_value x, int rank)
{
    if (mf_ndim(x) < 0)
        return mf_add(x, 0); /* the error itself, or the error that x is no array */
    while (mf_ndim(x) >= 0 && mf_ndim(x) < rank)
        x = mf_expand_dims(x, 0);
    return x;
}

mf_value(mf_atleast_1d)(mf_value x) { return led_by_ones(x, 1); }
mf_value(mf_atleast_2d)(mf_value x) { return led_by_ones(x, 2); }
mf_value(mf_atleast_3d)(mf_value x)
{
    x = led_by_ones(x, 2);
    return mf_ndim(x) == 2 ? mf_expand_dims(x, 2) : x;
}

/* ---- joining */
static mf_value first_row(mf_value x) { return mf_squeeze(x, 0); }

/* Applies f to each part. parts: a tree of arrays, or one array, whose parts are its rows. */
static mf_value each(mf_value parts, mf_value (*f)(mf_value))
{
    if (mf_ndim(parts) > 0 && mf_dim(parts, 0) > 0)
        parts = mf_tree_map(first_row, mf_split(parts, (int)mf_dim(parts, 0), 0));
    return mf_tree_map(f, parts);
}

static mf_value as_row(mf_value x) { return (mf_atleast_1d)(x); }
static mf_value as_matrix(mf_value x) { return (mf_atleast_2d)(x); }
static mf_value as_cube(mf_value x) { return (mf_atleast_3d)(x); }
static mf_value as_column(mf_value x)
{
    return mf_ndim(x) == 0 ? mf_reshape(x, MF_SHAPE(1, 1)) : mf_ndim(x) == 1 ? mf_expand_dims(x, 1) : x;
}

mf_value(mf_hstack)(mf_value parts)
{
    MF_LAYER;
    parts = each(parts, as_row);
    return mf_concatenate(parts, mf_len(parts) > 0 && mf_ndim(mf_get(parts, 0)) > 1);
}

mf_value(mf_vstack)(mf_value parts)
{
    MF_LAYER;
    return mf_concatenate(each(parts, as_matrix), 0);
}

mf_value(mf_dstack)(mf_value parts)
{
    MF_LAYER;
    return mf_concatenate(each(parts, as_cube), 2);
}

mf_value(mf_column_stack)(mf_value parts)
{
    MF_LAYER;
    return mf_concatenate(each(parts, as_column), 1);
}

mf_value(mf_append)(mf_value x, mf_value values, mf_axis axis)
{
    MF_LAYER;
    int at = numpy_axis(&x, axis, "append");
    return at < 0 ? x : mf_concatenate(mf_list(x, axis == MF_ALL ? mf_ravel(values) : values), at);
}

/* Pads each part to the full width, then concatenates the rows. */
mf_value(mf_block_diag)(mf_value parts)
{
    MF_LAYER;
    parts = each(parts, as_matrix);
    int64_t columns = 0, before = 0;
    for (int i = 0; i < mf_len(parts); i++) {
        mf_value part = mf_get(parts, i);
        if (mf_ndim(part) != 2)
            return mf_is_error(part) ? part
                                     : mf_make_error(MF_ERROR_SHAPE, "block_diag: part %d has %d dimensions, not two", i, mf_ndim(part));
        columns += mf_dim(part, 1);
    }
    mf_value rows = mf_list();
    for (int i = 0; i < mf_len(parts); i++) {
        mf_value part = mf_get(parts, i), zero = mf_scalar(0, mf_dtype_of(part));
        int64_t width = mf_dim(part, 1);
        part = mf_pad(part, zero, MF_INTS(0, before), MF_INTS(0, columns - before - width), MF_INTS0);
        rows = i ? mf_concatenate(mf_list(rows, part), 0) : part;
        before += width;
    }
    return mf_len(parts) > 0 ? rows : mf_concatenate(parts, 0);
}

/* ---- splitting */
/* The first n % sections parts have one element more. */
mf_value(mf_array_split)(mf_value x, int sections, int axis)
{
    MF_LAYER;
    int at = numpy_axis(&x, axis, "array_split");
    if (at < 0)
        return x;
    if (sections < 1)
        return mf_make_error(MF_ERROR_ARGUMENT, "array_split: at least one section is needed, not %d", sections);
    int64_t n = mf_dim(x, at), whole = n / sections, longer = n % sections, cut = longer * (whole + 1);
    mf_value shorter = mf_split(mf_slice_in_dim(x, cut, n, 1, at), sections - (int)longer, at);
    return longer ? mf_tree_leaves(mf_tuple(mf_split(mf_slice_in_dim(x, 0, cut, 1, at), (int)longer, at), shorter)) : shorter;
}

mf_value(mf_rot90)(mf_value x, int k)
{
    MF_LAYER;
    if (mf_ndim(x) < 2)
        return mf_ndim(x) < 0 ? mf_add(x, 0)
                              : mf_make_error(MF_ERROR_SHAPE, "rot90: at least two dimensions are needed, not %d", mf_ndim(x));
    k = (k % 4 + 4) % 4;
    x = k == 2 ? mf_flip(x, mf_axes(0, 1)) : k == 1 ? mf_flip(x, 1) : x;
    x = k % 2 ? mf_swapaxes(x, 0, 1) : x;
    return k == 3 ? mf_flip(x, 1) : x;
}

mf_value(mf_tri)(int64_t rows, int64_t columns, int k, mf_dtype dtype) { return mf_tril(mf_ones(MF_SHAPE(rows, columns), dtype), k); }

/* ---- indices */
/* The number of elements of the shape; -1 if the shape is invalid or empty, or its indices do not fit the dtype. */
static int64_t indexable(mf_shape shape, mf_dtype d)
{
    int64_t size = 1;
    if (shape.rank < 1 || shape.rank > MF_MAX_RANK)
        return -1;
    for (int i = 0; i < shape.rank; i++)
        if (shape.dims[i] < 1 || __builtin_mul_overflow(size, shape.dims[i], &size))
            return -1;
    return size <= INT32_MAX || d == MF_I64 || d == MF_U64 ? size : -1;
}

static mf_value no_place(const char *op, mf_shape shape)
{
    return mf_make_error(MF_ERROR_SHAPE, "%s: there are no indices for an array of shape %s", op, mf_str(shape));
}

mf_value(mf_unravel_index)(mf_value indices, mf_shape shape)
{
    MF_LAYER;
    mf_value at[MF_MAX_RANK] = { { 0 } };
    mf_dtype d = mf_dtype_of(indices);
    int64_t total = mf_is_error(indices) ? -1 : indexable(shape, d);
    if (total < 0)
        return mf_is_error(indices) ? indices : no_place("unravel_index", shape);
    indices = d == MF_U32 || d == MF_U64 ? indices : mf_maximum(d == MF_I64 ? indices : mf_astype(indices, MF_I32), mf_i(-total));
    indices = mf_minimum(indices, mf_i(total - 1));
    for (int i = shape.rank - 1; i >= 0; i--) {
        at[i] = mf_remainder(indices, mf_i(shape.dims[i]));
        indices = mf_floor_divide(indices, mf_i(shape.dims[i]));
    }
    return mf_tuple_n(at, shape.rank);
}

mf_value(mf_ravel_multi_index)(mf_value multi_index, mf_shape shape)
{
    MF_LAYER;
    if (mf_is_error(multi_index))
        return multi_index;
    mf_value flat = mf_get(multi_index, 0);
    if (indexable(shape, mf_dtype_of(flat)) < 0)
        return mf_is_error(flat) ? flat : no_place("ravel_multi_index", shape);
    if (mf_len(multi_index) != shape.rank)
        return mf_make_error(MF_ERROR_SHAPE, "ravel_multi_index: %d indices for %d dimensions", mf_len(multi_index), shape.rank);
    for (int i = 1; i < shape.rank; i++)
        flat = mf_add(mf_mul(flat, mf_i(shape.dims[i])), mf_get(multi_index, i));
    return flat;
}

/* Row i, column j is element i - j of the first column, or j - i of the first row. */
mf_value(mf_toeplitz)(mf_value c, mf_value r)
{
    MF_LAYER;
    if (mf_ndim(c) != 1 || mf_ndim(r) != 1)
        return mf_is_error(c)   ? c
               : mf_is_error(r) ? r
                                : mf_make_error(MF_ERROR_SHAPE, "toeplitz: two vectors are needed, not %s and %s", mf_str(mf_shape_of(c)),
                                                mf_str(mf_shape_of(r)));
    int64_t rows = mf_dim(c, 0), columns = mf_dim(r, 0);
    if (rows == 0 || columns == 0)
        return mf_reshape(mf_slice_in_dim(mf_concatenate(mf_list(c, r), 0), 0, 0, 1, 0), MF_SHAPE(rows, columns));
    mf_value line = mf_concatenate(mf_list(mf_flip(mf_slice_in_dim(r, 1, columns, 1, 0)), c), 0);
    mf_value at = mf_sub(mf_expand_dims(mf_arange(rows, MF_I32), 1), mf_arange(columns, MF_I32));
    return mf_take(line, mf_add(at, columns - 1), 0);
}
