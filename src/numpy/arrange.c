/* Rearranging elements: tile, repeat, roll, diff, diag, diagonal, trace, meshgrid; tril_indices, triu_indices.
 * Invariant: shifts, counts and offsets are C numbers, so every result has a static shape. */
#include "numpy/axis.h"

/* Repeats along an axis: each element `count` times in a row or, if whole, the whole axis `count` times. */
static mf_value multiplied(mf_value x, int64_t count, int axis, bool whole)
{
    mf_shape shape = mf_shape_of(x);
    int at = whole ? axis : axis + 1;
    if (count != 1)
        x = mf_expand_dims(x, at);
    if (count == 1 || mf_is_error(x))
        return x;
    mf_shape wide = mf_shape_of(x);
    wide.dims[at] = count;
    if (__builtin_mul_overflow(shape.dims[axis], count, &shape.dims[axis]))
        return mf_make_error(MF_ERROR_SHAPE, "%lld times the elements along axis %d are too many", (long long)count, axis);
    return mf_reshape(mf_broadcast_to(x, wide), shape);
}

mf_value(mf_tile)(mf_value x, mf_ints reps)
{
    if (reps.count < 0 || reps.count > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "tile: an array has at most %d dimensions, not %d", MF_MAX_RANK, reps.count);
    for (int i = 0; i < reps.count; i++)
        if (reps.at[i] < 0)
            return mf_make_error(MF_ERROR_ARGUMENT, "tile: a number of repetitions must not be negative, not %lld", (long long)reps.at[i]);
    while (mf_ndim(x) >= 0 && mf_ndim(x) < reps.count)
        x = mf_expand_dims(x, 0);
    for (int i = 0, lead = mf_ndim(x) - reps.count; i < reps.count && mf_ndim(x) >= 0; i++)
        x = multiplied(x, reps.at[i], lead + i, true);
    return x;
}

mf_value(mf_repeat)(mf_value x, int64_t count, mf_axis axis)
{
    int at = numpy_axis(&x, axis, "repeat");
    if (at >= 0 && count < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "repeat: the number of repetitions must not be negative, not %lld", (long long)count);
    return at < 0 ? x : multiplied(x, count, at, false);
}

static mf_value rolled(mf_value x, int64_t shift, int axis)
{
    int64_t n = mf_dim(x, axis);
    if (n < 1)
        return x;
    shift = (shift % n + n) % n;
    mf_value back = mf_slice_in_dim(x, n - shift, n, 1, axis), front = mf_slice_in_dim(x, 0, n - shift, 1, axis);
    return shift ? mf_concatenate(mf_list(back, front), axis) : x;
}

mf_value(mf_roll)(mf_value x, int64_t shift, mf_axis axis)
{
    MF_LAYER;
    if (axis == MF_ALL && mf_ndim(x) >= 0)
        return mf_reshape(rolled(mf_ravel(x), shift, 0), mf_shape_of(x));
    mf_ints at = numpy_axes(&x, axis, "roll");
    for (int i = 0; i < at.count; i++)
        x = rolled(x, shift, (int)at.at[i]);
    return x;
}

mf_value(mf_diff)(mf_value x, int n, int axis)
{
    MF_LAYER;
    int at = numpy_axis(&x, axis, "diff");
    if (at >= 0 && n < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "diff: the order must not be negative, not %d", n);
    for (int i = 0; at >= 0 && i < n && mf_dim(x, at) > 0; i++) {
        mf_value later = mf_slice_in_dim(x, 1, MF_END, 1, at), earlier = mf_slice_in_dim(x, 0, mf_dim(x, at) - 1, 1, at);
        x = mf_dtype_of(x) == MF_BOOL ? mf_not_equal(later, earlier) : mf_sub(later, earlier);
    }
    return x;
}

/* ---- diagonals: in the flattened matrix their elements are columns + 1 apart */
static mf_value places(int64_t count, int64_t columns, int k)
{
    return mf_add(mf_mul(mf_arange(count, MF_I32), columns + 1), k < 0 ? -(int64_t)k * columns : k);
}

/* The diagonal of the two leading dimensions; the other dimensions stay. */
static mf_value diagonal(mf_value x, int k)
{
    mf_shape shape = mf_shape_of(x), flat = { .rank = shape.rank - 1 };
    int64_t rows = shape.dims[0] + (k < 0 ? k : 0), columns = shape.dims[1] - (k > 0 ? k : 0), count = rows < columns ? rows : columns;
    flat.dims[0] = shape.dims[0] * shape.dims[1];
    for (int i = 2; i < shape.rank; i++)
        flat.dims[i - 1] = shape.dims[i];
    return mf_take(mf_reshape(x, flat), places(count > 0 ? count : 0, shape.dims[1], k), 0);
}

mf_value(mf_diag)(mf_value x, int k)
{
    mf_shape shape = mf_shape_of(x);
    if (shape.rank == 2)
        return diagonal(x, k);
    if (mf_is_error(x))
        return x;
    if (shape.rank != 1)
        return mf_make_error(MF_ERROR_SHAPE, "diag: one or two dimensions are needed, not %d", shape.rank);
    int64_t n = shape.dims[0] + (k < 0 ? -(int64_t)k : k);
    mf_value zeros = mf_zeros(MF_SHAPE(n * n), mf_dtype_of(x));
    return mf_reshape(mf_index_update(zeros, places(shape.dims[0], n, k), x), MF_SHAPE(n, n));
}

mf_value(mf_diagonal)(mf_value x, int offset, int axis1, int axis2)
{
    MF_LAYER;
    int first = numpy_axis(&x, axis1, "diagonal"), second = first < 0 ? -1 : numpy_axis(&x, axis2, "diagonal");
    if (second < 0)
        return x;
    if (first == second)
        return mf_make_error(MF_ERROR_AXIS, "diagonal: two axes are needed, not axis %d twice", first);
    x = mf_moveaxis(x, first, 0); /* moves the axes in front of it back by one */
    return mf_moveaxis(diagonal(mf_moveaxis(x, second < first ? second + 1 : second, 1), offset), 0, -1);
}

/* ---- the places of a triangle */
static mf_value triangle(mf_value mask, int64_t rows, int64_t columns, int64_t k, bool upper)
{
    int64_t lower = 0; /* the number of elements on diagonal k and below */
    for (int64_t i = 0; i < rows && !mf_is_error(mask); i++)
        lower += i + k + 1 < 0 ? 0 : i + k + 1 > columns ? columns : i + k + 1;
    return mf_nonzero(upper ? mf_logical_not(mask) : mask, upper ? rows * columns - lower : lower);
}

mf_value(mf_tril_indices)(int64_t rows, int64_t columns, int k)
{
    MF_LAYER;
    return triangle(mf_tri(rows, columns, k, MF_BOOL), rows, columns, k, false);
}

mf_value(mf_triu_indices)(int64_t rows, int64_t columns, int k)
{
    MF_LAYER;
    if (k == INT32_MIN)
        k++;
    return triangle(mf_tri(rows, columns, k - 1, MF_BOOL), rows, columns, (int64_t)k - 1, true);
}

mf_value(mf_trace)(mf_value x)
{
    if (mf_is_error(x))
        return x;
    if (mf_ndim(x) < 2)
        return mf_make_error(MF_ERROR_SHAPE, "trace: at least two dimensions are needed, not %d", mf_ndim(x));
    return mf_sum(diagonal(x, 0), .axis = 0);
}

/* ---- meshgrid */
mf_value(mf_meshgrid)(mf_value parts, bool ij)
{
    MF_LAYER;
    mf_value grid[MF_MAX_RANK] = { { 0 } };
    mf_shape shape = { .rank = mf_len(parts) };
    if (mf_is_error(parts))
        return parts;
    if (shape.rank < 1 || shape.rank > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_ARGUMENT, "meshgrid takes a list of 1 to %d vectors", MF_MAX_RANK);
    for (int i = 0; i < shape.rank; i++) {
        grid[i] = mf_ravel(mf_get(parts, i));
        if (mf_is_error(grid[i]))
            return grid[i];
        shape.dims[!ij && i < 2 && shape.rank > 1 ? 1 - i : i] = mf_size(grid[i]);
    }
    for (int i = 0; i < shape.rank; i++) {
        mf_shape line = { .rank = shape.rank };
        for (int k = 0; k < shape.rank; k++)
            line.dims[k] = 1;
        line.dims[!ij && i < 2 && shape.rank > 1 ? 1 - i : i] = -1;
        grid[i] = mf_broadcast_to(mf_reshape(grid[i], line), shape);
    }
    return mf_list_n(grid, shape.rank);
}
