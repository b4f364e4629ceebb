/* The public functions that index arrays, and NumPy's x[...] for mf_get.
 * Invariant: a negative index counts from the end, whether it is a number or traced. A number that is out of bounds is an error; a
 * traced index is moved inside by x[...] and dynamic slices, gives the fill value in take, and drops the update in index_update. */
#include "base/alloc.h"
#include "ops/shape/shape.h"
#include "lax/wrap.h"
#include "tree/index.h"

#include <manyfold/indexing.h>
#include <manyfold/lax.h>
#include <manyfold/nn.h>
#include <string.h>

enum { CLIP = 0, FILL = 1, IN_BOUNDS = 2 }; /* gather's modes; JAX's x[...] is the second, whose gradient drops what is out of bounds */

/* ---- indices */
static mf_array *number_of(mf_value v)
{
    mf_array *a = (mf_array *)mf_handle_get_as(v.handle, &mf_array_class);
    return a && a->type->rank == 0 ? a : NULL;
}

static mf_value error_value(mf_error_object *e) { return mf_value_new(e ? e : mf_error_out_of_memory()); }

static mf_value scalar(mf_dtype dtype, int64_t x)
{
    mf_array *a = mf_array_scalar_i64(dtype, false, x);
    return a ? mf_value_new(a) : error_value(NULL);
}

static mf_value spread(mf_dtype dtype, int64_t x, const mf_type *like)
{
    return mf_broadcast_value(scalar(dtype, x), like->rank, like->dims);
}

/* An integer index with what is negative counted from the end, of at least 32 bits; or an error. */
static mf_value wrapped(mf_value index, int64_t size, const char *op)
{
    if (!mf_wrap_array(&index, op))
        return index;
    const mf_type *t = mf_value_type(index);
    if (!mf_dtype_is_int(t->dtype))
        return mf_fail(MF_ERROR_DTYPE, "%s: indices must be integers, not %s", op, mf_type_name(t));
    mf_dtype dtype = mf_dtype_size(t->dtype) < 4 || (size > INT32_MAX && t->dtype == MF_I32) ? (size > INT32_MAX ? MF_I64 : MF_I32)
                                                                                             : t->dtype;
    mf_array *known = number_of(index);
    if (known) {
        int64_t x;
        mf_error_object *e = mf_array_copy_out(known, MF_I64, &x);
        return e ? error_value(e) : scalar(dtype, x < 0 && mf_dtype_is_signed(t->dtype) ? x + size : x);
    }
    index = mf_convert_value(index, dtype, false);
    if (!mf_dtype_is_signed(t->dtype) || !mf_value_type(index))
        return index;
    mf_value negative = mf_bind(&mf_op_lt, NULL, 2, index, spread(dtype, 0, t));
    return mf_bind(&mf_op_select_n, NULL, 3, negative, index, mf_bind(&mf_op_add, NULL, 2, index, spread(dtype, size, t)));
}

/* ---- dynamic slices */
/* The starts: a list of scalars, or one array of them. */
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
        mf_value at = scalar(MF_I32, i);
        out[i] = wrapped(vector ? mf_index_array(given[0], &at, 1) : given[i], t->dims[i], op);
        if (mf_value_type(out[i]))
            continue;
        *error = out[i];
        return false;
    }
    return true;
}

static mf_value bind_dynamic_slice(mf_value x, const mf_value *starts, const int64_t *sizes)
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
    return read_starts(starts, t, "dynamic_slice", at, &error) ? bind_dynamic_slice(x, at, sizes.dims) : error;
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

/* Zero starts but for one axis. */
static bool one_start(mf_value start, const mf_type *t, int axis, const char *op, int64_t *at, mf_value *out, mf_value *error)
{
    if (!mf_normal_axis(axis, t->rank, op, at, error))
        return false;
    mf_value moved = wrapped(start, t->dims[*at], op);
    if (!mf_value_type(moved)) {
        *error = moved;
        return false;
    }
    for (int i = 0; i < t->rank; i++)
        out[i] = i == *at ? moved : scalar(mf_value_type(moved)->dtype, 0);
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
    return bind_dynamic_slice(x, starts, sizes);
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

/* 0, 1, ... before `at`, then going on `width` further, count numbers in all. */
static const mf_intlist *around(int at, int width, int count)
{
    int64_t list[MF_RANK];
    for (int i = 0; i < count; i++)
        list[i] = i < at ? i : i + width;
    return mf_ints_intern(list, count);
}

/* Index arrays of one shape as index vectors: [shape..., count]. */
static mf_value vectors(mf_value *index, int count)
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

/* The indices of take as its gather reads them, by mode; or an error. */
static mf_value take_places(mf_value indices, int64_t size, mf_take_mode mode)
{
    if (mode == MF_TAKE_FILL)
        return wrapped(indices, size, "take");
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
    static const int modes[] = { [MF_TAKE_FILL] = FILL, [MF_TAKE_CLIP] = CLIP, [MF_TAKE_WRAP] = IN_BOUNDS };
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
    if (t->dims[at] == 0 && mode != MF_TAKE_FILL && mf_value_type(indices)->size > 0)
        return mf_fail(MF_ERROR_SHAPE, "take: axis %lld of %s has nothing to take", (long long)at, mf_type_name(t));
    int width = mf_value_type(indices)->rank;
    for (int i = 0; i < t->rank; i++)
        sizes[i] = i == at ? t->dims[i] > 0 : t->dims[i];
    const mf_intlist *axes = mf_ints_of(1, (int)at), *none = mf_ints_of(0);
    mf_gather_params p = { around((int)at, width, t->rank - 1), axes, axes, none, none, mf_ints_intern(sizes, t->rank), modes[mode] };
    return mf_bind(&mf_op_gather, &p, 2, x, vectors(&indices, 1));
}

mf_value(mf_take)(mf_value x, mf_value indices, mf_axis axis) { return mf_take_opt(x, indices, axis, NULL); }

/* Both operands with equal sizes in all dimensions but `at`. */
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
    indices = wrapped(indices, mf_value_type(x)->dims[at], "take_along_axis");
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
    mf_gather_params p = { mf_ints_of(0), axes, axes, same, same, mf_ints_intern(sizes, rank), FILL };
    return mf_bind(&mf_op_gather, &p, 2, x, vectors(&indices, 1));
}

/* ---- scatters along axis 0 */
static mf_value scatter_rows(const mf_op *op, mf_value x, mf_value indices, mf_value update, const char *name)
{
    const mf_type *t = mf_value_type(x);
    int64_t dims[2 * MF_RANK];
    if (t->rank == 0)
        return mf_fail(MF_ERROR_AXIS, "%s: an array without dimensions cannot be indexed", name);
    indices = wrapped(indices, t->dims[0], name);
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
    mf_scatter_params p = { range(i->rank, i->rank + t->rank - 1), first, first, none, none, FILL };
    return mf_bind(op, &p, 3, x, vectors(&indices, 1), update);
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

/* x.at[indices].add(update) and its like: computed in the dtype that both promote to, given in x's. */
static mf_value join_rows(const mf_op *op, mf_value x, mf_value indices, mf_value update, const char *name)
{
    mf_value both[2] = { x, update };
    if (!mf_wrap_array(&x, name))
        return x;
    if (!mf_promote_dtypes(both, 2, name))
        return both[0];
    const mf_type *t = mf_value_type(x);
    mf_value out = scatter_rows(op, both[0], indices, both[1], name);
    return mf_value_type(out) ? mf_convert_value(out, t->dtype, t->weak) : out;
}

#define JOIN_ROWS(word, op)                                            \
    mf_value(mf_##word)(mf_value x, mf_value indices, mf_value update) \
    {                                                                  \
        MF_ENTER(MF_FORKED);                                           \
        return join_rows(&mf_op_##op, x, indices, update, #word);      \
    }
JOIN_ROWS(index_add, scatter_add)
JOIN_ROWS(index_multiply, scatter_mul)
JOIN_ROWS(index_min, scatter_min)
JOIN_ROWS(index_max, scatter_max)

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

/* ---- x[...] */
typedef enum step_kind { STEP_ALL, STEP_NUMBER, STEP_SLICE, STEP_TRACED, STEP_ARRAY } step_kind;

typedef struct steps {
    int count; /* one for each dimension of x */
    step_kind kind[MF_RANK];
    int64_t start[MF_RANK], limit[MF_RANK], stride[MF_RANK]; /* numbers and slices; forwards, */
    bool reversed[MF_RANK];                                  /* and then from the other end */
    mf_value index[MF_RANK];                                 /* traced and arrays, negative ones counted from the end */
} steps;

static bool is_none(const mf_object *o)
{
    return mf_object_is(o, &mf_tree_class) && ((const mf_tree *)o)->structure == mf_structure_none();
}

static int64_t bound(int64_t at, int64_t size)
{
    if (at < 0)
        at += size;
    return at < 0 ? 0 : at > size ? size : at;
}

/* start, start + step, ... while above stop: the same elements, forwards. Before the first element stands -size - 1, or MF_NONE. */
static void read_backwards(steps *s, int i, mf_slice slice, int64_t size)
{
    int64_t step = slice.step == INT64_MIN ? INT64_MAX : -slice.step, start = slice.start, stop = slice.stop;
    start = start >= size ? size - 1 : start < 0 ? start + size : start;
    stop = stop < -size ? -1 : stop < 0 ? stop + size : stop;
    int64_t count = start > stop ? (start - stop - 1) / step + 1 : 0;
    s->stride[i] = step;
    s->start[i] = count ? start - (count - 1) * step : 0;
    s->limit[i] = count ? start + 1 : 0;
}

static void read_slice(steps *s, int i, mf_slice slice, int64_t size)
{
    s->kind[i] = STEP_SLICE;
    s->stride[i] = slice.step ? slice.step : 1;
    s->reversed[i] = slice.step < 0;
    if (slice.step < 0) {
        read_backwards(s, i, slice, size);
        return;
    }
    s->start[i] = bound(slice.start, size);
    s->limit[i] = bound(slice.stop, size);
    if (s->limit[i] < s->start[i])
        s->limit[i] = s->start[i];
}

static mf_value read_number(steps *s, int i, mf_array *a, int64_t size)
{
    int64_t x;
    mf_error_object *e = mf_array_copy_out(a, MF_I64, &x);
    if (e)
        return error_value(e);
    if (x < -size || x >= size)
        return mf_fail(MF_ERROR_AXIS, "index %lld is out of bounds for axis %d with size %lld", (long long)x, i, (long long)size);
    s->kind[i] = STEP_NUMBER;
    s->start[i] = x < 0 ? x + size : x;
    s->limit[i] = s->start[i] + 1;
    return (mf_value){ 0 };
}

/* An entry of the path as step i; a zero value or an error. */
static mf_value read_step(steps *s, int i, mf_value entry, int64_t size)
{
    mf_object *o = mf_object_of(entry);
    const mf_static_object *fixed = mf_object_is(o, &mf_static_class) ? (const mf_static_object *)o : NULL;
    if (fixed && fixed->what == MF_STATIC_SLICE) {
        read_slice(s, i, fixed->slice, size);
        return (mf_value){ 0 };
    }
    if (!mf_wrap_array(&entry, "mf_get"))
        return entry;
    const mf_type *t = mf_value_type(entry);
    if (!mf_dtype_is_int(t->dtype))
        return mf_fail(MF_ERROR_DTYPE, "mf_get: arrays are indexed by integers, not by %s", mf_type_name(t));
    if (number_of(entry))
        return read_number(s, i, number_of(entry), size);
    s->kind[i] = t->rank ? STEP_ARRAY : STEP_TRACED;
    s->index[i] = wrapped(entry, size, "mf_get");
    return mf_value_type(s->index[i]) ? (mf_value){ 0 } : s->index[i];
}

/* Reads the path; None makes a new dimension of *x. */
static mf_value read_path(steps *s, mf_value *x, const mf_value *path, int count)
{
    int at = 0;
    for (int k = 0; k < count; k++, at++) {
        const mf_type *t = mf_value_type(*x);
        if (is_none(mf_object_of(path[k]))) {
            *x = mf_expand_dims(*x, at);
            if (!mf_value_type(*x))
                return *x;
            s->kind[at] = STEP_ALL;
            continue;
        }
        if (at >= t->rank)
            return mf_fail(MF_ERROR_AXIS, "too many indices for an array of rank %d (%s)", t->rank, mf_type_name(t));
        mf_value error = read_step(s, at, path[k], t->dims[at]);
        if (error.handle)
            return error;
    }
    const mf_type *t = mf_value_type(*x);
    s->count = t->rank;
    for (int i = 0; i < t->rank; i++) {
        if (i >= at)
            s->kind[i] = STEP_ALL;
        if (s->kind[i] != STEP_NUMBER && s->kind[i] != STEP_SLICE) {
            s->start[i] = 0;
            s->limit[i] = t->dims[i];
        }
        if (s->kind[i] != STEP_SLICE)
            s->stride[i] = 1;
    }
    return (mf_value){ 0 };
}

/* The part of a that numbers and slices name. */
static mf_value part_view(const mf_array *a, const steps *s)
{
    int64_t dims[MF_RANK], strides[MF_RANK], offset = 0;
    int where[MF_RANK], rank = 0;
    for (int i = 0; i < s->count; i++) {
        int64_t n = s->limit[i] == s->start[i] ? 0 : (s->limit[i] - s->start[i] - 1) / s->stride[i] + 1;
        if (n)
            offset += s->start[i] * a->strides[i];
        where[i] = s->kind[i] == STEP_NUMBER ? -2 - (int)s->start[i] : rank;
        if (s->kind[i] == STEP_NUMBER)
            continue;
        dims[rank] = n;
        strides[rank++] = n > 1 ? a->strides[i] * s->stride[i] : a->strides[i]; /* a step may be as large as anything */
    }
    return mf_view_part(a, mf_type_with_shape(a->type, rank, dims), offset, strides, where, s->start, s->stride);
}

/* The dimensions that are left, those with a negative step turned round. */
static mf_value turned(mf_value x, const steps *s)
{
    int64_t axes[MF_RANK];
    int count = 0, rank = 0;
    for (int i = 0; i < s->count; i++) {
        if (s->kind[i] == STEP_SLICE && s->reversed[i])
            axes[count++] = rank;
        rank += s->kind[i] != STEP_NUMBER;
    }
    return count && mf_value_type(x) ? mf_bind(&mf_op_rev, &(mf_axes_params){ mf_ints_intern(axes, count) }, 1, x) : x;
}

static mf_value part(mf_value x, const steps *s)
{
    const mf_type *t = mf_value_type(x);
    mf_array *a = mf_concrete(x);
    int64_t gone[MF_RANK];
    int count = 0;
    bool whole = true;
    for (int i = 0; i < s->count; i++) {
        whole = whole && s->start[i] == 0 && s->limit[i] == t->dims[i] && s->stride[i] == 1;
        if (s->kind[i] == STEP_NUMBER)
            gone[count++] = i;
    }
    if (whole && count == 0)
        return x;
    if (a)
        return part_view(a, s);
    if (!whole) {
        mf_slice_params p = { mf_ints_intern(s->start, s->count), mf_ints_intern(s->limit, s->count), mf_ints_intern(s->stride, s->count) };
        x = mf_bind(&mf_op_slice, &p, 1, x);
    }
    return count ? mf_bind(&mf_op_squeeze, &(mf_axes_params){ mf_ints_intern(gone, count) }, 1, x) : x;
}

/* Traced scalars: a dynamic slice of size 1 in each of their dimensions. `kind` and `index` are those of x's dimensions. */
static mf_value pick_traced(mf_value x, const step_kind *kind, const mf_value *index)
{
    const mf_type *t = mf_value_type(x);
    int64_t gone[MF_RANK], sizes[MF_RANK];
    mf_value starts[MF_RANK];
    int count = 0;
    for (int i = 0; i < t->rank; i++) {
        sizes[i] = kind[i] == STEP_TRACED ? 1 : t->dims[i];
        starts[i] = kind[i] == STEP_TRACED ? index[i] : scalar(MF_I32, 0);
        if (kind[i] != STEP_TRACED)
            continue;
        if (t->dims[i] == 0)
            return mf_fail(MF_ERROR_AXIS, "axis %d of %s is empty and cannot be indexed", i, mf_type_name(t));
        gone[count++] = i;
    }
    if (count == 0)
        return x;
    mf_value cut = bind_dynamic_slice(x, starts, sizes);
    return mf_bind(&mf_op_squeeze, &(mf_axes_params){ mf_ints_intern(gone, count) }, 1, cut);
}

/* Index arrays, broadcast against one another: one gather. Their dimensions go to number `place` of the result. */
static mf_value pick_arrays(mf_value x, const step_kind *kind, const mf_value *index, int place, int64_t mode)
{
    const mf_type *t = mf_value_type(x);
    int64_t axes[MF_RANK], sizes[MF_RANK];
    mf_value array[MF_RANK];
    int count = 0;
    for (int i = 0; i < t->rank; i++) {
        bool indexed = kind[i] >= STEP_TRACED;
        sizes[i] = indexed ? t->dims[i] > 0 : t->dims[i];
        if (indexed)
            axes[count] = i;
        if (indexed)
            array[count++] = index[i];
    }
    if (count == 0)
        return x;
    if (!mf_promote_dtypes(array, count, "mf_get") || !mf_broadcast_shapes(array, count, "mf_get"))
        return array[0];
    const mf_intlist *picked = mf_ints_intern(axes, count), *none = mf_ints_of(0);
    mf_gather_params p = {
        around(place, mf_value_type(array[0])->rank, t->rank - count), picked, picked, none, none, mf_ints_intern(sizes, t->rank), mode
    };
    return mf_bind(&mf_op_gather, &p, 2, x, vectors(array, count));
}

/* NumPy's place for the dimensions of index arrays: where they stand when all indices that are no slices stand together, else in front. */
static int place_of(const steps *s)
{
    int before = 0, groups = 0, first = -1;
    for (int i = 0; i < s->count; i++) {
        bool slice = s->kind[i] == STEP_ALL || s->kind[i] == STEP_SLICE,
             after_slice = i == 0 || s->kind[i - 1] == STEP_ALL || s->kind[i - 1] == STEP_SLICE;
        if (!slice && after_slice)
            groups++;
        if (!slice && first < 0)
            first = before;
        before += slice;
    }
    return groups > 1 || first < 0 ? 0 : first;
}

static mf_value indexed(mf_value x, const mf_value *path, int count, int64_t mode)
{
    if (count < 0)
        return mf_fail(MF_ERROR_ARGUMENT, "a path of %d steps", count);
    steps s;
    step_kind kind[MF_RANK], rest[MF_RANK];
    mf_value index[MF_RANK], rest_index[MF_RANK];
    int rank = 0, left = 0;
    if (!mf_wrap_array(&x, "mf_get"))
        return x;
    mf_value error = read_path(&s, &x, path, count);
    if (error.handle)
        return error;
    for (int i = 0; i < s.count; i++) {
        if (s.kind[i] == STEP_NUMBER)
            continue;
        index[rank] = s.kind[i] >= STEP_TRACED ? s.index[i] : (mf_value){ 0 };
        kind[rank++] = s.kind[i];
    }
    x = turned(part(x, &s), &s);
    if (mode == IN_BOUNDS && mf_value_type(x)) {
        x = pick_traced(x, kind, index);
        for (int i = 0; i < rank; i++)
            if (kind[i] != STEP_TRACED) {
                rest_index[left] = index[i];
                rest[left++] = kind[i];
            }
    } else
        for (; left < rank; left++) {
            rest_index[left] = index[left];
            rest[left] = kind[left];
        }
    return mf_value_type(x) ? pick_arrays(x, rest, rest_index, place_of(&s), mode) : x;
}

mf_value mf_index_array(mf_value x, const mf_value *path, int count) { return indexed(x, path, count, IN_BOUNDS); }

/* The positions that the path names, in a copy of x with one dimension. Out of bounds they are negative, and the scatter drops them. */
static mf_value scatter_at(const mf_op *op, mf_value x, mf_value v, const mf_value *path, int count)
{
    const mf_type *t = mf_value_type(x);
    const mf_intlist *first = mf_ints_of(1, 0), *none = mf_ints_of(0), *flat = mf_ints_intern(&t->size, 1);
    mf_iota_params numbers = { t->size <= INT32_MAX ? MF_I32 : MF_I64, flat, 0 };
    mf_value at = mf_bind(&mf_op_reshape, &(mf_shape_params){ shape_dims(t) }, 1, mf_bind(&mf_op_iota, &numbers, 0));
    at = indexed(at, path, count, FILL);
    const mf_type *places = mf_value_type(at);
    if (!places)
        return at;
    v = mf_broadcast_value(mf_convert_value(v, t->dtype, t->weak), places->rank, places->dims);
    if (!mf_value_type(v))
        return v;
    mf_scatter_params p = { none, first, first, none, none, FILL };
    mf_value changed = mf_bind(op, &p, 3, mf_bind(&mf_op_reshape, &(mf_shape_params){ flat }, 1, x), vectors(&at, 1), v);
    return mf_bind(&mf_op_reshape, &(mf_shape_params){ shape_dims(t) }, 1, changed);
}

mf_value mf_index_array_set(mf_value x, mf_value v, const mf_value *path, int count)
{
    if (!mf_wrap_array(&x, "mf_set"))
        return x;
    return mf_wrap_array(&v, "mf_set") ? scatter_at(&mf_op_scatter, x, v, path, count) : v;
}

mf_value mf_at_set_n(mf_value x, mf_value update, const mf_value *path, int count)
{
    MF_ENTER(MF_FORKED);
    return mf_index_array_set(x, update, path, count);
}

/* As in join_rows: in the dtype that both promote to, given in x's. */
static mf_value join_at(const mf_op *op, mf_value x, mf_value update, const mf_value *path, int count, const char *name)
{
    mf_value both[2] = { x, update };
    if (!mf_wrap_array(&x, name))
        return x;
    if (!mf_promote_dtypes(both, 2, name))
        return both[0];
    const mf_type *t = mf_value_type(x);
    mf_value out = scatter_at(op, both[0], both[1], path, count);
    return mf_value_type(out) ? mf_convert_value(out, t->dtype, t->weak) : out;
}

#define JOIN_AT(word, op)                                                                \
    mf_value mf_##word##_n(mf_value x, mf_value update, const mf_value *path, int count) \
    {                                                                                    \
        MF_ENTER(MF_FORKED);                                                             \
        return join_at(&mf_op_##op, x, update, path, count, "mf_" #word);                \
    }
JOIN_AT(at_add, scatter_add)
JOIN_AT(at_multiply, scatter_mul)
JOIN_AT(at_min, scatter_min)
JOIN_AT(at_max, scatter_max)
