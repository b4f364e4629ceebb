/* NumPy's x[path] for mf_get, and x.at[path]: a view or a slice where the path is known, a gather where it is traced or contains arrays.
 * Invariant: a number that is out of bounds is an error; a traced index out of bounds is clamped when reading, and its update is dropped
 * when writing. */
#include "lax/array/index_wrap.h"

#include "base/memory/alloc.h"
#include "ops/shape/shape.h"
#include "tree/index.h"

#include <manyfold/indexing.h>
#include <manyfold/lax.h>
#include <manyfold/numpy.h>
#include <string.h>

typedef enum step_kind { STEP_ALL, STEP_NUMBER, STEP_SLICE, STEP_TRACED, STEP_ARRAY } step_kind;

typedef struct steps {
    int count; /* one step per dimension of x */
    step_kind kind[MF_RANK];
    int64_t start[MF_RANK], limit[MF_RANK], stride[MF_RANK]; /* for numbers and slices: a forward slice, */
    bool reversed[MF_RANK];                                  /* which is then reversed */
    mf_value index[MF_RANK];                                 /* for traced indices and index arrays; negative ones count from the end */
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

/* A backward slice start, start + step, ... while above stop, as a forward slice of the same elements. A stop of -size - 1 or MF_NONE is
 * before the first element. */
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
        return index_error(e);
    if (x < -size || x >= size)
        return mf_fail(MF_ERROR_AXIS, "index %lld is out of bounds for axis %d with size %lld", (long long)x, i, (long long)size);
    s->kind[i] = STEP_NUMBER;
    s->start[i] = x < 0 ? x + size : x;
    s->limit[i] = s->start[i] + 1;
    return (mf_value){ 0 };
}

/* Reads an entry of the path as step i; returns a zero value or an error. */
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
    if (index_number(entry))
        return read_number(s, i, index_number(entry), size);
    s->kind[i] = t->rank ? STEP_ARRAY : STEP_TRACED;
    s->index[i] = index_wrapped(entry, size, "mf_get");
    return mf_value_type(s->index[i]) ? (mf_value){ 0 } : s->index[i];
}

/* Reads the path; None adds a dimension to *x. */
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

/* The view of a that numbers and slices select. */
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
        strides[rank++] = n > 1 ? a->strides[i] * s->stride[i] : a->strides[i]; /* else the product might overflow */
    }
    return mf_view_part(a, mf_type_with_shape(a->type, rank, dims), offset, strides, where, s->start, s->stride);
}

/* Reverses the remaining dimensions that have a negative step. */
static mf_value reverse_axes(mf_value x, const steps *s)
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

/* Traced scalars: a dynamic slice of size 1 in each of their dimensions. `kind` and `index` refer to x's dimensions. */
static mf_value pick_traced(mf_value x, const step_kind *kind, const mf_value *index)
{
    const mf_type *t = mf_value_type(x);
    int64_t gone[MF_RANK], sizes[MF_RANK];
    mf_value starts[MF_RANK];
    int count = 0;
    for (int i = 0; i < t->rank; i++) {
        sizes[i] = kind[i] == STEP_TRACED ? 1 : t->dims[i];
        starts[i] = kind[i] == STEP_TRACED ? index[i] : index_scalar(MF_I32, 0);
        if (kind[i] != STEP_TRACED)
            continue;
        if (t->dims[i] == 0)
            return mf_fail(MF_ERROR_AXIS, "axis %d of %s is empty and cannot be indexed", i, mf_type_name(t));
        gone[count++] = i;
    }
    if (count == 0)
        return x;
    mf_value cut = index_dynamic_slice(x, starts, sizes);
    return mf_bind(&mf_op_squeeze, &(mf_axes_params){ mf_ints_intern(gone, count) }, 1, cut);
}

/* Index arrays, broadcast against each other: one gather. Their dimensions are inserted in the result at `place`. */
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
    mf_gather_params p = { index_around(place, mf_value_type(array[0])->rank, t->rank - count),
                           picked,
                           picked,
                           none,
                           none,
                           mf_ints_intern(sizes, t->rank),
                           mode };
    return mf_bind(&mf_op_gather, &p, 2, x, index_vectors(array, count));
}

/* Where NumPy puts the dimensions of index arrays: in place if all indices other than slices are adjacent, else in front. */
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

/* An error if an array of indices, or a traced index, reads from an axis without elements: no value of it is in bounds. */
static mf_value check_not_empty(const steps *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->kind[i] >= STEP_TRACED && s->limit[i] == 0 && mf_value_type(s->index[i])->size > 0)
            return mf_fail(MF_ERROR_AXIS, "an index is out of bounds for axis %d with size 0", i);
    return (mf_value){ 0 };
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
    if (!error.handle && mode == GATHER_IN_BOUNDS)
        error = check_not_empty(&s);
    if (error.handle)
        return error;
    for (int i = 0; i < s.count; i++) {
        if (s.kind[i] == STEP_NUMBER)
            continue;
        index[rank] = s.kind[i] >= STEP_TRACED ? s.index[i] : (mf_value){ 0 };
        kind[rank++] = s.kind[i];
    }
    x = reverse_axes(part(x, &s), &s);
    if (mode == GATHER_IN_BOUNDS && mf_value_type(x)) {
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

mf_value mf_index_array(mf_value x, const mf_value *path, int count) { return indexed(x, path, count, GATHER_IN_BOUNDS); }

/* Scatters into x, flattened, at the positions that the path selects. Positions out of bounds are negative, so the scatter drops them. */
static mf_value scatter_at(const mf_op *op, mf_value x, mf_value v, const mf_value *path, int count)
{
    const mf_type *t = mf_value_type(x);
    const mf_intlist *first = mf_ints_of(1, 0), *none = mf_ints_of(0), *flat = mf_ints_intern(&t->size, 1);
    mf_iota_params numbers = { t->size <= INT32_MAX ? MF_I32 : MF_I64, flat, 0 };
    mf_value at = mf_bind(&mf_op_reshape, &(mf_shape_params){ shape_dims(t) }, 1, mf_bind(&mf_op_iota, &numbers, 0));
    at = indexed(at, path, count, GATHER_FILL);
    const mf_type *places = mf_value_type(at);
    if (!places)
        return at;
    v = mf_broadcast_value(mf_convert_value(v, t->dtype, t->weak), places->rank, places->dims);
    if (!mf_value_type(v))
        return v;
    mf_scatter_params p = { none, first, first, none, none, GATHER_FILL };
    mf_value changed = mf_bind(op, &p, 3, mf_bind(&mf_op_reshape, &(mf_shape_params){ flat }, 1, x), index_vectors(&at, 1), v);
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

#define AT_COMBINE(word, op)                                                             \
    mf_value mf_##word##_n(mf_value x, mf_value update, const mf_value *path, int count) \
    {                                                                                    \
        MF_ENTER(MF_FORKED);                                                             \
        const mf_type *t;                                                                \
        if (!index_promoted(&x, &update, &t, "mf_" #word))                               \
            return x;                                                                    \
        mf_value out = scatter_at(&mf_op_##op, x, update, path, count);                  \
        return mf_convert_value(out, t->dtype, t->weak);                                 \
    }
AT_COMBINE(at_add, scatter_add)
AT_COMBINE(at_multiply, scatter_mul)
AT_COMBINE(at_min, scatter_min)
AT_COMBINE(at_max, scatter_max)
