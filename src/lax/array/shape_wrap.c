/* The public functions on shapes. Outside traces they return views where possible: reshape of contiguous arrays, transpose, broadcast,
 * slices and new axes copy nothing. Invariant: a view and the equation of the same name give equal values and equal types. */
#include "ops/shape/shape.h"
#include "lax/wrap.h"

#include <manyfold/lax.h>
#include <string.h>

/* ---- reshape */
static mf_value bad_reshape(const mf_type *t, mf_shape shape)
{
    mf_text s = { 0 };
    for (int i = 0; i < shape.rank && i < MF_MAX_RANK; i++)
        mf_text_add(&s, i ? ", %lld" : "%lld", (long long)shape.dims[i]);
    mf_value e = mf_fail(MF_ERROR_SHAPE, "cannot reshape array of shape %s (size %lld) into shape (%s)", mf_type_name(t),
                         (long long)t->size, s.at ? s.at : "");
    mf_text_free(&s);
    return e;
}

/* Infers the dimension written as -1 from the size. False when nothing fits. */
static bool infer_dimension(mf_shape *shape, int64_t size)
{
    int64_t known = 1;
    int missing = -1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == -1 && missing < 0)
            missing = i;
        else if (shape->dims[i] < 0 || __builtin_mul_overflow(known, shape->dims[i], &known))
            return false;
    }
    if (missing >= 0) {
        if (known == 0 || size % known)
            return false;
        shape->dims[missing] = size / known;
    }
    return missing >= 0 || known == size;
}

/* Finds the axes that a reshape leaves unchanged: those before the first difference. */
static void match_axes(const mf_type *from, const mf_type *to, int *where)
{
    for (int i = 0; i < from->rank; i++)
        where[i] = -1;
    for (int i = 0; i < from->rank && i < to->rank && from->dims[i] == to->dims[i]; i++)
        where[i] = i;
}

/* Whether a reshape would merge parts that are in separate memories of several devices. */
static bool joins_devices(const mf_array *a, const int *where)
{
    const mf_sharding *p = a->sharding;
    bool joins = false;
    for (int k = 0; k < p->axis_count; k++)
        joins = joins || where[p->axes[k]] < 0;
    return joins && p->device_count > 1 && p->client->separate_memory;
}

static mf_value reshaped(mf_value x, const mf_type *want)
{
    const mf_type *t = mf_value_type(x);
    mf_array *a = mf_concrete(x);
    if (!want || want == t)
        return want ? x : mf_value_new(mf_error_out_of_memory());
    int64_t strides[MF_RANK];
    int where[MF_RANK];
    match_axes(t, want, where);
    if (a && mf_array_is_contiguous(a) && !joins_devices(a, where)) {
        mf_contiguous_strides(want, strides);
        return mf_view_value(a, want, 0, strides, where);
    }
    return mf_bind(&mf_op_reshape, &(mf_shape_params){ shape_dims(want) }, 1, x);
}

mf_value(mf_reshape)(mf_value x, mf_shape shape)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&x, "reshape"))
        return x;
    const mf_type *t = mf_value_type(x);
    mf_shape whole = shape;
    if (shape.rank < 0 || shape.rank > MF_MAX_RANK || !infer_dimension(&whole, t->size))
        return bad_reshape(t, shape);
    const mf_type *want = mf_type_with_shape(t, whole.rank, whole.dims);
    return want ? reshaped(x, want) : bad_reshape(t, shape);
}

mf_value(mf_ravel)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&x, "ravel"))
        return x;
    const mf_type *t = mf_value_type(x);
    return reshaped(x, mf_type_with_shape(t, 1, &t->size));
}

/* ---- transposes */
static mf_value permuted(mf_value x, const int64_t *order)
{
    const mf_type *t = mf_value_type(x);
    mf_array *a = mf_concrete(x);
    int64_t dims[MF_RANK], strides[MF_RANK];
    int where[MF_RANK];
    bool moves = false;
    for (int i = 0; i < t->rank; i++) {
        dims[i] = t->dims[order[i]];
        strides[i] = a ? a->strides[order[i]] : 0;
        where[order[i]] = i;
        moves = moves || order[i] != i;
    }
    if (!moves)
        return x;
    if (a)
        return mf_view_value(a, mf_type_with_shape(t, t->rank, dims), 0, strides, where);
    return mf_bind(&mf_op_transpose, &(mf_permutation_params){ mf_ints_intern(order, t->rank) }, 1, x);
}

mf_value(mf_transpose)(mf_value x, mf_ints axes)
{
    MF_ENTER(MF_FORKED);
    const mf_intlist *order;
    mf_value error;
    int64_t reversed[MF_RANK];
    if (!mf_wrap_array(&x, "transpose"))
        return x;
    int rank = mf_value_type(x)->rank;
    for (int i = 0; i < rank; i++)
        reversed[i] = rank - 1 - i;
    if (axes.count == 0)
        return permuted(x, reversed);
    if (!mf_normal_ints(&axes, rank, "transpose", &order, &error))
        return error;
    if (order->count != rank)
        return mf_fail(MF_ERROR_AXIS, "transpose: %d axes for an array of rank %d (%s)", order->count, rank,
                       mf_type_name(mf_value_type(x)));
    return permuted(x, order->at);
}

mf_value(mf_swapaxes)(mf_value x, int a, int b)
{
    MF_ENTER(MF_FORKED);
    int64_t order[MF_RANK], first, second;
    mf_value error;
    if (!mf_wrap_array(&x, "swapaxes"))
        return x;
    int rank = mf_value_type(x)->rank;
    if (!mf_normal_axis(a, rank, "swapaxes", &first, &error) || !mf_normal_axis(b, rank, "swapaxes", &second, &error))
        return error;
    for (int i = 0; i < rank; i++)
        order[i] = i == first ? second : i == second ? first : i;
    return permuted(x, order);
}

mf_value(mf_moveaxis)(mf_value x, int from, int to)
{
    MF_ENTER(MF_FORKED);
    int64_t order[MF_RANK], source, target, next = 0;
    mf_value error;
    if (!mf_wrap_array(&x, "moveaxis"))
        return x;
    int rank = mf_value_type(x)->rank;
    if (!mf_normal_axis(from, rank, "moveaxis", &source, &error) || !mf_normal_axis(to, rank, "moveaxis", &target, &error))
        return error;
    for (int i = 0; i < rank; i++) {
        next += next == source;
        order[i] = i == target ? source : next++;
    }
    return permuted(x, order);
}

/* ---- broadcasting, new and removed axes */
mf_value(mf_broadcast_to)(mf_value x, mf_shape shape)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&x, "broadcast_to"))
        return x;
    if (shape.rank < 0 || shape.rank > MF_MAX_RANK)
        return mf_fail(MF_ERROR_SHAPE, "broadcast_to: a shape has between 0 and %d dimensions, not %d", MF_MAX_RANK, shape.rank);
    return mf_broadcast_value(x, shape.rank, shape.dims);
}

static mf_value expanded(mf_value x, int axis)
{
    const mf_type *t = mf_value_type(x), *want = mf_type_insert_axis(t, axis, 1);
    mf_array *a = mf_concrete(x);
    int64_t strides[MF_RANK];
    int where[MF_RANK];
    if (!want)
        return mf_fail(MF_ERROR_SHAPE, "expand_dims: %s has too many dimensions for one more", mf_type_name(t));
    if (!a)
        return mf_bind(&mf_op_expand_dims, &(mf_axes_params){ mf_ints_of(1, axis) }, 1, x);
    strides[axis] = axis < t->rank ? a->strides[axis] * t->dims[axis] : mf_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++) {
        where[i] = i + (i >= axis);
        strides[where[i]] = a->strides[i];
    }
    return mf_view_value(a, want, 0, strides, where);
}

mf_value(mf_expand_dims)(mf_value x, int axis)
{
    MF_ENTER(MF_FORKED);
    int64_t at;
    mf_value error;
    if (!mf_wrap_array(&x, "expand_dims"))
        return x;
    if (!mf_normal_axis(axis, mf_value_type(x)->rank + 1, "expand_dims", &at, &error))
        return error;
    return expanded(x, (int)at);
}

static const mf_intlist *unit_axes(const mf_type *t)
{
    int64_t list[MF_RANK];
    int count = 0;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] == 1)
            list[count++] = i;
    return mf_ints_intern(list, count);
}

static mf_value squeezed(mf_value x, const mf_intlist *axes)
{
    const mf_type *t = mf_value_type(x);
    mf_array *a = mf_concrete(x);
    int64_t dims[MF_RANK], strides[MF_RANK];
    int where[MF_RANK], rank = 0;
    if (axes->count == 0)
        return x;
    if (!a)
        return mf_bind(&mf_op_squeeze, &(mf_axes_params){ axes }, 1, x);
    for (int i = 0; i < t->rank; i++) {
        where[i] = mf_ints_has(axes, i) ? -1 : rank;
        if (where[i] < 0)
            continue;
        dims[rank] = t->dims[i];
        strides[rank++] = a->strides[i];
    }
    return mf_view_value(a, mf_type_with_shape(t, rank, dims), 0, strides, where);
}

mf_value(mf_squeeze)(mf_value x, mf_axis axis)
{
    MF_ENTER(MF_FORKED);
    const mf_intlist *axes;
    mf_value error;
    if (!mf_wrap_array(&x, "squeeze"))
        return x;
    const mf_type *t = mf_value_type(x);
    if (axis == MF_ALL)
        return squeezed(x, unit_axes(t));
    if (!mf_normal_axes(axis, t->rank, "squeeze", &axes, &error))
        return error;
    for (int i = 0; i < axes->count; i++)
        if (t->dims[axes->at[i]] != 1)
            return mf_fail(MF_ERROR_SHAPE, "squeeze: axis %lld of %s has a size other than one", (long long)axes->at[i], mf_type_name(t));
    return squeezed(x, axes);
}

mf_value(mf_flip)(mf_value x, mf_axis axis)
{
    MF_ENTER(MF_FORKED);
    const mf_intlist *axes;
    mf_value error;
    if (!mf_wrap_array(&x, "flip"))
        return x;
    if (!mf_normal_axes(axis, mf_value_type(x)->rank, "flip", &axes, &error))
        return error;
    return axes->count ? mf_bind(&mf_op_rev, &(mf_axes_params){ axes }, 1, x) : x;
}

/* ---- joining */
static mf_value joined(mf_value *part, int count, int64_t axis, const char *op)
{
    int64_t at;
    mf_value error, out;
    int rank = mf_value_type(part[0])->rank;
    if (rank == 0)
        return mf_fail(MF_ERROR_SHAPE, "%s: arrays without dimensions cannot be concatenated", op);
    if (!mf_normal_axis(axis, rank, op, &at, &error))
        return error;
    if (count == 1)
        return part[0];
    mf_bind_n(&mf_op_concatenate, &(mf_axis_params){ at }, part, count, &out, 1);
    return out;
}

static mf_value stacked(mf_value *part, int count, int64_t axis)
{
    const mf_type *t = mf_value_type(part[0]);
    int64_t at;
    mf_value error;
    if (!mf_normal_axis(axis, t->rank + 1, "stack", &at, &error))
        return error;
    for (int i = 0; i < count; i++)
        if (!mf_type_same_shape(t, mf_value_type(part[i])))
            return mf_fail(MF_ERROR_SHAPE, "stack: all arrays must have one shape, but part 0 is %s and part %d is %s", mf_type_name(t), i,
                           mf_type_name(mf_value_type(part[i])));
    for (int i = 0; i < count; i++) {
        part[i] = expanded(part[i], (int)at);
        if (!mf_value_type(part[i]))
            return part[i];
    }
    return joined(part, count, at, "stack");
}

static mf_value join_parts(mf_value parts, int axis, const char *op, bool stack)
{
    int capacity = mf_part_count(parts);
    mf_value error = { 0 }, *part = mf_calloc((size_t)capacity + 1, sizeof *part);
    if (!part)
        return mf_value_new(mf_error_out_of_memory());
    int count = mf_parts_of(parts, part, capacity, op, &error);
    if (count == 0)
        error = mf_fail(MF_ERROR_ARGUMENT, "%s: at least one array is needed", op);
    if (count > 0 && !mf_promote_dtypes(part, count, op))
        error = part[0];
    else if (count > 0)
        error = stack ? stacked(part, count, axis) : joined(part, count, axis, op);
    mf_free(part);
    return error; /* the error, or the result */
}

/* The parts are an array's rows: stacking moves the first axis; concatenating merges it with the axis there. */
static mf_value joined_rows(mf_value x, int64_t axis, const char *op, bool stack)
{
    const mf_type *t = mf_value_type(x);
    mf_shape shape = { 0 };
    int64_t at;
    mf_value error;
    if (!t->rank || !t->dims[0])
        return mf_fail(MF_ERROR_ARGUMENT, "%s: at least one array is needed, and %s has no rows", op, mf_type_name(t));
    if (!stack && t->rank == 1)
        return mf_fail(MF_ERROR_SHAPE, "%s: arrays without dimensions cannot be concatenated", op);
    if (!mf_normal_axis(axis, stack ? t->rank : t->rank - 1, op, &at, &error))
        return error;
    for (int i = 1; i < t->rank; i++)
        shape.dims[shape.rank++] = t->dims[i] * (i - 1 == at ? t->dims[0] : 1);
    x = mf_moveaxis(x, 0, (int)at);
    return stack ? x : mf_reshape(x, shape);
}

mf_value(mf_concatenate)(mf_value parts, int axis)
{
    MF_ENTER(MF_FORKED);
    return mf_value_type(parts) ? joined_rows(parts, axis, "concatenate", false) : join_parts(parts, axis, "concatenate", false);
}

mf_value(mf_stack)(mf_value parts, int axis)
{
    MF_ENTER(MF_FORKED);
    return mf_value_type(parts) ? joined_rows(parts, axis, "stack", true) : join_parts(parts, axis, "stack", true);
}

/* ---- cutting */
static mf_value cut(mf_value x, const int64_t *start, const int64_t *limit, const int64_t *strides)
{
    const mf_type *t = mf_value_type(x);
    mf_array *a = mf_concrete(x);
    int64_t dims[MF_RANK], steps[MF_RANK], first = 0;
    int where[MF_RANK];
    bool whole = true, fits = true;
    for (int i = 0; i < t->rank; i++) {
        fits = fits && start[i] >= 0 && start[i] <= limit[i] && limit[i] <= t->dims[i] && strides[i] > 0;
        whole = whole && start[i] == 0 && limit[i] == t->dims[i] && strides[i] == 1;
        if (!fits)
            break;
        dims[i] = limit[i] == start[i] ? 0 : (limit[i] - start[i] - 1) / strides[i] + 1;
        where[i] = i;
        if (!a)
            continue;
        steps[i] = dims[i] > 1 ? a->strides[i] * strides[i] : a->strides[i]; /* else the product might overflow */
        first += dims[i] ? start[i] * a->strides[i] : 0;
    }
    if (whole && fits)
        return x;
    if (a && fits)
        return mf_view_part(a, mf_type_with_shape(t, t->rank, dims), first, steps, where, start, strides);
    mf_slice_params p = { mf_ints_intern(start, t->rank), mf_ints_intern(limit, t->rank), mf_ints_intern(strides, t->rank) };
    return mf_bind(&mf_op_slice, &p, 1, x); /* or reports what does not fit */
}

/* A list given by the user, one entry per dimension; if empty, `otherwise` everywhere. */
static bool full_list(const mf_ints *list, int rank, int64_t otherwise, int64_t *out, const char *op, const char *what, mf_value *error)
{
    if (list->count != 0 && list->count != rank) {
        *error = mf_fail(MF_ERROR_SHAPE, "%s: %s has %d entries for an array of rank %d", op, what, list->count, rank);
        return false;
    }
    for (int i = 0; i < rank; i++)
        out[i] = list->count ? list->at[i] : otherwise;
    return true;
}

mf_value(mf_slice_in)(mf_value x, mf_ints start, mf_ints limit, mf_ints strides)
{
    MF_ENTER(MF_FORKED);
    int64_t from[MF_RANK], to[MF_RANK], steps[MF_RANK];
    mf_value error;
    if (!mf_wrap_array(&x, "slice"))
        return x;
    const mf_type *t = mf_value_type(x);
    if (!full_list(&start, t->rank, 0, from, "slice", "start", &error) || !full_list(&limit, t->rank, -1, to, "slice", "limit", &error) ||
        !full_list(&strides, t->rank, 1, steps, "slice", "strides", &error))
        return error;
    for (int i = 0; i < t->rank && limit.count == 0; i++)
        to[i] = t->dims[i];
    return cut(x, from, to, steps);
}

/* Python's rules for a bound: a negative one counts from the end; one beyond an end is moved to that end. */
static int64_t clip_bound(int64_t at, int64_t size)
{
    if (at < 0)
        at += size;
    return at < 0 ? 0 : at > size ? size : at;
}

mf_value(mf_slice_in_dim)(mf_value x, int64_t start, int64_t limit, int64_t stride, int axis)
{
    MF_ENTER(MF_FORKED);
    int64_t from[MF_RANK] = { 0 }, to[MF_RANK], steps[MF_RANK], at;
    mf_value error;
    if (!mf_wrap_array(&x, "slice_in_dim"))
        return x;
    const mf_type *t = mf_value_type(x);
    if (!mf_normal_axis(axis, t->rank, "slice_in_dim", &at, &error))
        return error;
    if (stride < 1)
        return mf_fail(MF_ERROR_ARGUMENT, "slice_in_dim: the stride must be positive, not %lld", (long long)stride);
    for (int i = 0; i < t->rank; i++) {
        to[i] = t->dims[i];
        steps[i] = 1;
    }
    from[at] = clip_bound(start, t->dims[at]);
    to[at] = clip_bound(limit, t->dims[at]);
    if (to[at] < from[at])
        to[at] = from[at];
    steps[at] = stride;
    return cut(x, from, to, steps);
}

static mf_value split_into(mf_value x, int sections, int64_t at)
{
    const mf_type *t = mf_value_type(x);
    int64_t from[MF_RANK] = { 0 }, to[MF_RANK], steps[MF_RANK], size = t->dims[at] / sections;
    mf_value *part = mf_calloc((size_t)sections, sizeof *part);
    if (!part)
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < t->rank; i++) {
        to[i] = t->dims[i];
        steps[i] = 1;
    }
    for (int k = 0; k < sections; k++) {
        from[at] = k * size;
        to[at] = from[at] + size;
        part[k] = cut(x, from, to, steps);
    }
    mf_value list = mf_list_n(part, sections);
    mf_free(part);
    return list;
}

mf_value(mf_split)(mf_value x, int sections, int axis)
{
    MF_ENTER(MF_FORKED);
    int64_t at;
    mf_value error;
    if (!mf_wrap_array(&x, "split"))
        return x;
    const mf_type *t = mf_value_type(x);
    if (!mf_normal_axis(axis, t->rank, "split", &at, &error))
        return error;
    if (sections < 1 || t->dims[at] % sections)
        return mf_fail(MF_ERROR_SHAPE, "split: axis %lld of %s does not divide into %d equal parts", (long long)at, mf_type_name(t),
                       sections);
    return split_into(x, sections, at);
}

/* ---- padding and numbers */
mf_value(mf_pad)(mf_value x, mf_value value, mf_ints low, mf_ints high, mf_ints interior)
{
    MF_ENTER(MF_FORKED);
    int64_t list[3][MF_RANK];
    mf_value error;
    if (!mf_wrap_array(&x, "pad"))
        return x;
    if (!mf_wrap_array(&value, "pad"))
        return value;
    const mf_type *t = mf_value_type(x);
    if (!full_list(&low, t->rank, 0, list[0], "pad", "low", &error) || !full_list(&high, t->rank, 0, list[1], "pad", "high", &error) ||
        !full_list(&interior, t->rank, 0, list[2], "pad", "interior", &error))
        return error;
    value = mf_convert_value(value, t->dtype, t->weak);
    mf_pad_params p = { mf_ints_intern(list[0], t->rank), mf_ints_intern(list[1], t->rank), mf_ints_intern(list[2], t->rank) };
    return mf_bind(&mf_op_pad, &p, 2, x, value);
}

mf_value mf_iota(mf_dtype dtype, mf_shape shape, int axis)
{
    MF_ENTER(MF_FORKED);
    int64_t at;
    mf_value error;
    if (shape.rank < 0 || shape.rank > MF_MAX_RANK)
        return mf_fail(MF_ERROR_SHAPE, "iota: a shape has between 0 and %d dimensions, not %d", MF_MAX_RANK, shape.rank);
    if (!mf_normal_axis(axis, shape.rank, "iota", &at, &error))
        return error;
    mf_iota_params p = { dtype == MF_DTYPE_DEFAULT ? MF_I32 : dtype, mf_ints_intern(shape.dims, shape.rank), at };
    return mf_bind(&mf_op_iota, &p, 0);
}

/* True where column <= row + k. */
static mf_value lower_mask(const mf_type *t, int64_t k)
{
    int64_t rows = t->dims[t->rank - 2], columns = t->dims[t->rank - 1];
    k = k < -rows ? -rows : k > columns ? columns : k; /* below and above these, the mask is constant; keeps row + k in range */
    const mf_intlist *square = mf_ints_intern(t->dims + t->rank - 2, 2);
    const mf_intlist *none = mf_ints_of(0);
    mf_value row = mf_bind(&mf_op_iota, &(mf_iota_params){ MF_I32, square, 0 }, 0);
    mf_value column = mf_bind(&mf_op_iota, &(mf_iota_params){ MF_I32, square, 1 }, 0);
    mf_value offset = mf_bind(&mf_op_broadcast_in_dim, &(mf_broadcast_params){ square, none }, 1, mf_convert_value(mf_i(k), MF_I32, false));
    return mf_bind(&mf_op_ge, NULL, 2, mf_bind(&mf_op_add, NULL, 2, row, offset), column);
}

static mf_value triangle(mf_value x, int64_t k, bool lower, const char *op)
{
    if (!mf_wrap_array(&x, op))
        return x;
    const mf_type *t = mf_value_type(x);
    if (t->rank < 2)
        return mf_fail(MF_ERROR_SHAPE, "%s: at least two dimensions are needed, not %s", op, mf_type_name(t));
    mf_value mask = mf_broadcast_value(lower_mask(t, lower ? k : k - 1), t->rank, t->dims);
    mf_value zero = mf_broadcast_value(mf_convert_value(mf_i(0), t->dtype, t->weak), t->rank, t->dims);
    return mf_bind(&mf_op_select_n, NULL, 3, mask, lower ? zero : x, lower ? x : zero);
}

mf_value(mf_tril)(mf_value x, int k)
{
    MF_ENTER(MF_FORKED);
    return triangle(x, k, true, "tril");
}

mf_value(mf_triu)(mf_value x, int k)
{
    MF_ENTER(MF_FORKED);
    return triangle(x, k, false, "triu");
}
