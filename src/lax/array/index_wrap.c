/* The public functions that index arrays along one axis or by start indices; x[path] is in subscript.c. Invariant: a negative index counts
 * from the end, whether it is a number or traced. An index out of bounds is clamped by dynamic slices, gives the fill value in take, and
 * drops the update in index_update. */
#include "lax/array/index_wrap.h"

#include "ops/shape/shape.h"
#include "tree/index.h"

#include <manyfold/indexing.h>
#include <manyfold/lax.h>
#include <manyfold/nn.h>
#include <string.h>

/* ---- indices */
mf_array *index_number(mf_value v)
{
    mf_array *a = (mf_array *)mf_handle_get_as(v.handle, &mf_array_class);
    return a && a->type->rank == 0 ? a : NULL;
}

mf_value index_error(mf_error_object *e) { return mf_value_new(e ? e : mf_error_out_of_memory()); }

mf_value index_scalar(mf_dtype dtype, int64_t x)
{
    mf_array *a = mf_array_scalar_i64(dtype, false, x);
    return a ? mf_value_new(a) : index_error(NULL);
}

static mf_value full_like(mf_dtype dtype, int64_t x, const mf_type *like)
{
    return mf_broadcast_value(index_scalar(dtype, x), like->rank, like->dims);
}

/* The index with negative values counted from the end, converted to at least 32 bits; or an error. */
mf_value index_wrapped(mf_value index, int64_t size, const char *op)
{
    if (!mf_wrap_array(&index, op))
        return index;
    const mf_type *t = mf_value_type(index);
    if (!mf_dtype_is_int(t->dtype))
        return mf_fail(MF_ERROR_DTYPE, "%s: indices must be integers, not %s", op, mf_type_name(t));
    mf_dtype dtype = mf_dtype_size(t->dtype) < 4 || (size > INT32_MAX && t->dtype == MF_I32) ? (size > INT32_MAX ? MF_I64 : MF_I32)
                                                                                             : t->dtype;
    mf_array *known = index_number(index);
    if (known) {
        int64_t x;
        mf_error_object *e = mf_array_copy_out(known, MF_I64, &x);
        return e ? index_error(e) : index_scalar(dtype, x < 0 && mf_dtype_is_signed(t->dtype) ? x + size : x);
    }
    index = mf_convert_value(index, dtype, false);
    if (!mf_dtype_is_signed(t->dtype) || !mf_value_type(index))
        return index;
    mf_value negative = mf_bind(&mf_op_lt, NULL, 2, index, full_like(dtype, 0, t));
    return mf_bind(&mf_op_select_n, NULL, 3, negative, index, mf_bind(&mf_op_add, NULL, 2, index, full_like(dtype, size, t)));
}

/* ---- dynamic slices */
/* Reads the start indices: a list of scalars, or one array of them. */
static bool read_starts(mf_value starts, const mf_type *t, const char *op, mf_value *out, mf_value *error)
{
    mf_value given[MF_RANK];
    int count = mf_parts_of(starts, given, MF_RANK, op, error);
    if (count < 0)
        return false;
    bool vector = count == 1 && mf_value_type(given[0])->rank == 1 && mf_value_type(given[0])->dims[0] == t->rank;
    if (!vector && count != t->rank) {
        *error = mf_fail(MF_ERROR_SHAPE, "%s: %d start indices for %s", op, count, mf_type_name(t));
        return false;
    }
    for (int i = 0; i < t->rank; i++) {
        mf_value at = index_scalar(MF_I32, i);
        out[i] = index_wrapped(vector ? mf_index_array(given[0], &at, 1) : given[i], t->dims[i], op);
        if (mf_value_type(out[i]))
            continue;
        *error = out[i];
        return false;
    }
    return true;
}

mf_value index_dynamic_slice(mf_value x, const mf_value *starts, const int64_t *sizes)
{
    mf_value in[MF_RANK + 1] = { x }, out;
    int rank = mf_value_type(x)->rank;
    for (int i = 0; i < rank; i++)
        in[i + 1] = starts[i];
    mf_bind_n(&mf_op_dynamic_slice, &(mf_sizes_params){ mf_ints_intern(sizes, rank) }, in, rank + 1, &out, 1);
    return out;
}

mf_value(mf_dynamic_slice)(mf_value x, mf_value starts, mf_shape sizes)
{
    MF_ENTER(MF_FORKED);
    mf_value at[MF_RANK], error;
    if (!mf_wrap_array(&x, "dynamic_slice"))
        return x;
    const mf_type *t = mf_value_type(x);
    if (sizes.rank != t->rank)
        return mf_fail(MF_ERROR_SHAPE, "dynamic_slice: %d sizes for %s", sizes.rank, mf_type_name(t));
    return read_starts(starts, t, "dynamic_slice", at, &error) ? index_dynamic_slice(x, at, sizes.dims) : error;
}

static mf_value bind_dynamic_update(mf_value x, mf_value update, const mf_value *starts)
{
    const mf_type *t = mf_value_type(x);
    mf_value in[MF_RANK + 2], out;
    if (mf_value_type(update)->weak)
        update = mf_convert_value(update, t->dtype, t->weak);
    in[0] = x;
    in[1] = update;
    for (int i = 0; i < t->rank; i++)
        in[i + 2] = starts[i];
    mf_bind_n(&mf_op_dynamic_update_slice, NULL, in, t->rank + 2, &out, 1);
    return out;
}

mf_value(mf_dynamic_update_slice)(mf_value x, mf_value update, mf_value starts)
{
    MF_ENTER(MF_FORKED);
    mf_value at[MF_RANK], error;
    if (!mf_wrap_array(&x, "dynamic_update_slice"))
        return x;
    if (!mf_wrap_array(&update, "dynamic_update_slice"))
        return update;
    return read_starts(starts, mf_value_type(x), "dynamic_update_slice", at, &error) ? bind_dynamic_update(x, update, at) : error;
}

/* Start indices that are zero except along one axis. */
static bool one_start(mf_value start, const mf_type *t, int axis, const char *op, int64_t *at, mf_value *out, mf_value *error)
{
    if (!mf_normal_axis(axis, t->rank, op, at, error))
        return false;
    mf_value moved = index_wrapped(start, t->dims[*at], op);
    if (!mf_value_type(moved)) {
        *error = moved;
        return false;
    }
    for (int i = 0; i < t->rank; i++)
        out[i] = i == *at ? moved : index_scalar(mf_value_type(moved)->dtype, 0);
    return true;
}

mf_value(mf_dynamic_slice_in_dim)(mf_value x, mf_value start, int64_t size, int axis)
{
    MF_ENTER(MF_FORKED);
    mf_value starts[MF_RANK], error;
    int64_t sizes[MF_RANK], at;
    if (!mf_wrap_array(&x, "dynamic_slice_in_dim"))
        return x;
    const mf_type *t = mf_value_type(x);
    if (!one_start(start, t, axis, "dynamic_slice_in_dim", &at, starts, &error))
        return error;
    for (int i = 0; i < t->rank; i++)
        sizes[i] = i == at ? size : t->dims[i];
    return index_dynamic_slice(x, starts, sizes);
}

mf_value(mf_dynamic_update_slice_in_dim)(mf_value x, mf_value update, mf_value start, int axis)
{
    MF_ENTER(MF_FORKED);
    mf_value starts[MF_RANK], error;
    int64_t at;
    if (!mf_wrap_array(&x, "dynamic_update_slice_in_dim"))
        return x;
    if (!mf_wrap_array(&update, "dynamic_update_slice_in_dim"))
        return update;
    if (!one_start(start, mf_value_type(x), axis, "dynamic_update_slice_in_dim", &at, starts, &error))
        return error;
    return bind_dynamic_update(x, update, starts);
}

/* ---- gathers */
static const mf_intlist *range(int from, int end)
{
    int64_t list[2 * MF_RANK];
    int n = 0;
    for (int i = from; i < end && n < 2 * MF_RANK; i++)
        list[n++] = i;
    return mf_ints_intern(list, n);
}

/* The list 0, 1, ..., at - 1, at + width, at + width + 1, ... of `count` numbers. */
const mf_intlist *index_around(int at, int width, int count)
{
    int64_t list[MF_RANK];
    for (int i = 0; i < count; i++)
        list[i] = i < at ? i : i + width;
    return mf_ints_intern(list, count);
}

/* Stacks index arrays of one shape into index vectors: [shape..., count]. */
mf_value index_vectors(mf_value *index, int count)
{
    int rank = mf_value_type(index[0])->rank;
    mf_value out;
    for (int i = 0; i < count; i++) {
        index[i] = mf_expand_dims(index[i], -1);
        if (!mf_value_type(index[i]))
            return index[i];
    }
    if (count == 1)
        return index[0];
    mf_bind_n(&mf_op_concatenate, &(mf_axis_params){ rank }, index, count, &out, 1);
    return out;
}

/* Prepares the indices of take for its gather, by mode; or an error. */
static mf_value take_places(mf_value indices, int64_t size, mf_take_mode mode)
{
    if (mode == MF_TAKE_FILL)
        return index_wrapped(indices, size, "take");
    if (!mf_wrap_array(&indices, "take"))
        return indices;
    const mf_type *t = mf_value_type(indices);
    if (!mf_dtype_is_int(t->dtype))
        return mf_fail(MF_ERROR_DTYPE, "take: indices must be integers, not %s", mf_type_name(t));
    if (mf_dtype_size(t->dtype) < 4)
        indices = mf_convert_value(indices, MF_I32, false);
    return mode == MF_TAKE_WRAP ? mf_remainder(indices, mf_i(size)) : indices;
}

mf_value mf_take_opt(mf_value x, mf_value indices, mf_axis axis, const mf_take_options *o)
{
    MF_ENTER(MF_FORKED);
    static const int modes[] = { [MF_TAKE_FILL] = GATHER_FILL, [MF_TAKE_CLIP] = GATHER_CLIP, [MF_TAKE_WRAP] = GATHER_IN_BOUNDS };
    mf_take_mode mode = o ? o->mode : MF_TAKE_FILL;
    int64_t at, sizes[MF_RANK];
    mf_value error;
    if ((unsigned)mode > MF_TAKE_WRAP)
        return mf_fail(MF_ERROR_ARGUMENT, "take: %d is no mode for indices that are out of bounds", (int)mode);
    if (!mf_wrap_array(&x, "take"))
        return x;
    if (axis == MF_ALL) {
        x = mf_reshape(x, MF_SHAPE(mf_value_type(x)->size));
        axis = 0;
        if (!mf_value_type(x))
            return x;
    }
    const mf_type *t = mf_value_type(x);
    if (!mf_normal_axis(axis, t->rank, "take", &at, &error))
        return error;
    indices = take_places(indices, t->dims[at], mode);
    if (!mf_value_type(indices))
        return indices;
    if (t->dims[at] == 0 && mf_value_type(indices)->size > 0)
        return mf_fail(MF_ERROR_SHAPE, "take: axis %lld of %s has nothing to take", (long long)at, mf_type_name(t));
    int width = mf_value_type(indices)->rank;
    for (int i = 0; i < t->rank; i++)
        sizes[i] = i == at ? t->dims[i] > 0 : t->dims[i];
    const mf_intlist *axes = mf_ints_of(1, (int)at), *none = mf_ints_of(0);
    mf_gather_params p = { index_around((int)at, width, t->rank - 1), axes, axes, none, none, mf_ints_intern(sizes, t->rank), modes[mode] };
    return mf_bind(&mf_op_gather, &p, 2, x, index_vectors(&indices, 1));
}

mf_value(mf_take)(mf_value x, mf_value indices, mf_axis axis) { return mf_take_opt(x, indices, axis, NULL); }

/* Broadcasts both operands to equal sizes in all dimensions except `at`. */
static bool align_except(mf_value *x, mf_value *indices, int64_t at)
{
    const mf_type *t = mf_value_type(*x), *u = mf_value_type(*indices);
    int64_t dims[MF_RANK];
    if (t->rank != u->rank)
        return false;
    for (int i = 0; i < t->rank; i++) {
        if (i != at && t->dims[i] != u->dims[i] && t->dims[i] != 1 && u->dims[i] != 1)
            return false;
        dims[i] = t->dims[i] == 1 ? u->dims[i] : t->dims[i];
    }
    dims[at] = t->dims[at];
    *x = mf_broadcast_value(*x, t->rank, dims);
    dims[at] = u->dims[at];
    *indices = mf_broadcast_value(*indices, t->rank, dims);
    return true;
}

mf_value(mf_take_along_axis)(mf_value x, mf_value indices, int axis)
{
    MF_ENTER(MF_FORKED);
    int64_t at, sizes[MF_RANK], others[MF_RANK];
    int n = 0;
    mf_value error;
    if (!mf_wrap_array(&x, "take_along_axis"))
        return x;
    int rank = mf_value_type(x)->rank;
    if (!mf_normal_axis(axis, rank, "take_along_axis", &at, &error))
        return error;
    indices = index_wrapped(indices, mf_value_type(x)->dims[at], "take_along_axis");
    if (!mf_value_type(indices))
        return indices;
    if (!align_except(&x, &indices, at))
        return mf_fail(MF_ERROR_SHAPE, "take_along_axis: %s and indices %s do not fit but in axis %lld", mf_type_name(mf_value_type(x)),
                       mf_type_name(mf_value_type(indices)), (long long)at);
    for (int i = 0; i < rank; i++) {
        sizes[i] = mf_value_type(x)->dims[i] > 0;
        if (i != at)
            others[n++] = i;
    }
    const mf_intlist *axes = mf_ints_of(1, (int)at), *same = mf_ints_intern(others, n);
    mf_gather_params p = { mf_ints_of(0), axes, axes, same, same, mf_ints_intern(sizes, rank), GATHER_FILL };
    return mf_bind(&mf_op_gather, &p, 2, x, index_vectors(&indices, 1));
}

/* ---- scatters along axis 0 */
static mf_value scatter_rows(const mf_op *op, mf_value x, mf_value indices, mf_value update, const char *name)
{
    const mf_type *t = mf_value_type(x);
    int64_t dims[2 * MF_RANK];
    if (t->rank == 0)
        return mf_fail(MF_ERROR_AXIS, "%s: an array without dimensions cannot be indexed", name);
    indices = index_wrapped(indices, t->dims[0], name);
    if (!mf_value_type(indices))
        return indices;
    const mf_type *i = mf_value_type(indices);
    for (int k = 0; k < i->rank; k++)
        dims[k] = i->dims[k];
    for (int k = 1; k < t->rank; k++)
        dims[i->rank + k - 1] = t->dims[k];
    update = mf_broadcast_value(mf_convert_value(update, t->dtype, t->weak), i->rank + t->rank - 1, dims);
    if (!mf_value_type(update))
        return update;
    const mf_intlist *first = mf_ints_of(1, 0), *none = mf_ints_of(0);
    mf_scatter_params p = { range(i->rank, i->rank + t->rank - 1), first, first, none, none, GATHER_FILL };
    return mf_bind(op, &p, 3, x, index_vectors(&indices, 1), update);
}

mf_value(mf_index_update)(mf_value x, mf_value indices, mf_value update)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&x, "index_update"))
        return x;
    if (!mf_wrap_array(&update, "index_update"))
        return update;
    return scatter_rows(&mf_op_scatter, x, indices, update, "index_update");
}

bool index_promoted(mf_value *x, mf_value *update, const mf_type **given, const char *name)
{
    mf_value both[2] = { *x, *update };
    if (!mf_wrap_array(x, name))
        return false;
    *given = mf_value_type(*x);
    bool promoted = mf_promote_dtypes(both, 2, name);
    *x = both[0];
    *update = both[1];
    return promoted;
}

#define INDEX_COMBINE(word, op)                                              \
    mf_value(mf_##word)(mf_value x, mf_value indices, mf_value update)       \
    {                                                                        \
        MF_ENTER(MF_FORKED);                                                 \
        const mf_type *t;                                                    \
        if (!index_promoted(&x, &update, &t, #word))                         \
            return x;                                                        \
        mf_value out = scatter_rows(&mf_op_##op, x, indices, update, #word); \
        return mf_convert_value(out, t->dtype, t->weak);                     \
    }
INDEX_COMBINE(index_add, scatter_add)
INDEX_COMBINE(index_multiply, scatter_mul)
INDEX_COMBINE(index_min, scatter_min)
INDEX_COMBINE(index_max, scatter_max)

mf_value mf_one_hot_opt(mf_value x, int num_classes, const mf_one_hot_options *o)
{
    MF_ENTER(MF_FORKED);
    int64_t at, dims[MF_RANK];
    mf_value error;
    if (!mf_wrap_array(&x, "one_hot"))
        return x;
    if (num_classes < 0)
        return mf_fail(MF_ERROR_ARGUMENT, "one_hot: the number of classes must not be negative, but it is %d", num_classes);
    if (!mf_normal_axis(o ? o->axis : -1, mf_value_type(x)->rank + 1, "one_hot", &at, &error))
        return error;
    if (mf_value_type(x)->dtype == MF_BOOL)
        x = mf_convert_value(x, MF_I32, false);
    x = mf_expand_dims(x, (int)at);
    const mf_type *t = mf_value_type(x);
    if (!t)
        return x;
    for (int i = 0; i < t->rank; i++)
        dims[i] = t->dims[i];
    dims[at] = num_classes;
    mf_iota_params p = { t->dtype, mf_ints_of(1, num_classes), 0 };
    mf_value classes = mf_bind(&mf_op_iota, &p, 0);
    for (int64_t i = at + 1; i < t->rank; i++)
        classes = mf_expand_dims(classes, -1);
    classes = mf_broadcast_value(classes, t->rank, dims);
    mf_value equal = mf_bind(&mf_op_eq, NULL, 2, mf_convert_value(mf_broadcast_value(x, t->rank, dims), t->dtype, false), classes);
    return mf_convert_value(equal, o && o->dtype ? o->dtype : MF_F32, false);
}

mf_value(mf_one_hot)(mf_value x, int num_classes) { return mf_one_hot_opt(x, num_classes, NULL); }
