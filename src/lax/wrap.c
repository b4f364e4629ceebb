/* Shared by the public wrappers. Invariant: a wrapper emits nothing before its operands are known to fit, so an error leaves no partial
 * expression in a program; what needs no arithmetic (views, ready scalars) is not an equation at all. */
#include "lax/wrap.h"

#include "array/array.h"
#include "base/memory/alloc.h"
#include <string.h>

static bool failed(mf_value *slot, mf_value error)
{
    *slot = error;
    return false;
}

/* ---- one operand */
bool mf_wrap_array(mf_value *x, const char *op)
{
    *x = mf_expect_array(*x, op);
    return mf_value_type(*x) != NULL;
}

bool mf_wrap_arrays(mf_value *v, int count, int first, const char *op)
{
    for (int i = 0; i < count; i++) {
        v[i] = mf_expect_operand(v[i], op, first + i);
        if (mf_value_type(v[i]))
            continue;
        mf_error_object *e = (mf_error_object *)mf_handle_get_as(v[i].handle, &mf_error_class);
        if (e)
            mf_errors_join(e, v + i + 1, count - i - 1);
        return failed(v, v[i]);
    }
    return true;
}

static mf_array *array_of(mf_value x) { return (mf_array *)mf_handle_get_as(x.handle, &mf_array_class); }
static bool is_deleted(const mf_array *a) { return atomic_load(&((mf_array *)(uintptr_t)a)->deleted) != NULL; }

static bool is_ready(const mf_array *a) { return !a->future || atomic_load(&a->future->state) == 1; }

/* The thread that fills a pending CPU array writes its fields, so they cannot be used yet; where devices have separate memories, only the
 * buffers' contents are written. */
static bool is_laid(const mf_array *a)
{
    return is_ready(a) || (mf_array_client(a)->separate_memory && atomic_load(&a->future->state) == 0);
}

mf_array *mf_concrete(mf_value x)
{
    mf_array *a = mf_trace_current() ? NULL : array_of(x);
    return a && is_laid(a) && !is_deleted(a) ? a : NULL;
}

static bool is_ready_scalar(const mf_array *a)
{
    return a && a->type->rank == 0 && a->type->dtype != MF_KEY && !is_deleted(a) && is_ready(a);
}

/* Whether a is on the host and not on a device that somebody chose, so a conversion of it may be made on the host. */
static bool is_uncommitted(const mf_array *a) { return mf_array_client(a) == &mf_client_cpu && !a->sharding->committed; }

static mf_value convert_scalar(const mf_array *a, mf_dtype dtype, bool weak)
{
    unsigned char element[16];
    mf_error_object *error = mf_array_element_as(a, dtype, element);
    mf_array *out = error ? NULL : mf_array_fill(mf_type_scalar(dtype, weak), element);
    if (!out)
        return mf_value_new(error ? error : mf_error_out_of_memory());
    out->is_number = weak && a->is_number;
    memcpy(out->number, a->number, sizeof out->number);
    return mf_value_new(out);
}

/* A C number beyond 32 bits is weak too, but must not lose its value when converted to the others' dtype. */
static mf_value number_too_large(mf_value x, mf_dtype dtype)
{
    const mf_type *t = mf_value_type(x);
    bool wide = t->weak && (t->dtype == MF_I64 || t->dtype == MF_U64);
    mf_array *a = wide && mf_dtype_is_int(dtype) && dtype != MF_U64 && dtype != t->dtype ? array_of(x) : NULL;
    int64_t kept;
    unsigned char narrow[8], wide_bits[16];
    if (!is_ready_scalar(a))
        return (mf_value){ 0 };
    mf_error_object *error = mf_array_element(a, wide_bits);
    if (error)
        return mf_value_new(error);
    int64_t number = mf_load_i64(t->dtype, wide_bits);
    mf_store_i64(dtype, narrow, number);
    kept = mf_load_i64(dtype, narrow);
    if (kept == number && (t->dtype == MF_I64 || number >= 0))
        return (mf_value){ 0 };
    const char *format = t->dtype == MF_I64 ? "the number %lld is out of bounds for %s" : "the number %llu is out of bounds for %s";
    return mf_fail(MF_ERROR_ARGUMENT, format, (long long)number, mf_dtype_name(dtype));
}

mf_value mf_convert_value(mf_value x, mf_dtype dtype, bool weak)
{
    const mf_type *t = mf_value_type(x);
    if (!t || (t->dtype == dtype && t->weak == weak))
        return x;
    mf_array *a = array_of(x);
    mf_value error = t->weak ? number_too_large(x, dtype) : (mf_value){ 0 };
    if (error.handle)
        return error;
    if (is_ready_scalar(a) && (a->is_number || is_uncommitted(a)))
        return convert_scalar(a, dtype, weak);
    return mf_bind(&mf_op_convert_element_type, &(mf_convert_params){ dtype, weak }, 1, x);
}

/* The elements of one mapped axis of a that the view keeps. */
typedef struct kept_axes {
    int64_t first, step, count, size;
    int to; /* the new axis, or -1 */
} kept_axes;

static kept_axes kept_of(const mf_array *a, const mf_type *type, int axis, const int *where, const int64_t *first, const int64_t *step)
{
    int w = where[axis];
    int64_t size = a->type->dims[axis];
    if (w < 0)
        return (kept_axes){ w == -1 ? 0 : -2 - w, 1, 1, size, -1 };
    return (kept_axes){ first ? first[axis] : 0, step ? step[axis] : 1, type->dims[w], size, w };
}

/* The sharding of a view: the devices that hold what is left of a's mapped axes, in the view's order. NULL when out of memory. */
static const mf_sharding *follow(const mf_array *a, const mf_type *type, const int *where, const int64_t *first, const int64_t *step)
{
    const mf_sharding *p = a->sharding;
    int axes[MF_RANK], axis_count = 0, *devices;
    int64_t count = 1;
    kept_axes parts[MF_RANK];
    if (!p || p->axis_count == 0)
        return p;
    for (int k = 0; k < p->axis_count; k++) {
        parts[k] = kept_of(a, type, p->axes[k], where, first, step);
        count *= parts[k].count;
        if (parts[k].to >= 0)
            axes[axis_count++] = parts[k].to;
    }
    if (!count)
        return mf_sharding_single(p->client, p->devices[0]);
    if (!(devices = mf_alloc((size_t)count * sizeof *devices)))
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0, left = i, factor = 1;
        for (int k = p->axis_count - 1; k >= 0; k--) {
            at += (parts[k].first + left % parts[k].count * parts[k].step) * factor;
            left /= parts[k].count;
            factor *= parts[k].size;
        }
        devices[i] = p->devices[at >= 0 && at < p->device_count ? at : 0];
    }
    const mf_sharding *moved = mf_sharding_get(p->client, axis_count, axes, (int)count, devices);
    mf_free(devices);
    return moved;
}

mf_value mf_view_part(const mf_array *a, const mf_type *type, int64_t offset, const int64_t *strides, const int *where,
                      const int64_t *first, const int64_t *step)
{
    if (type && type->rank > MF_MAX_RANK)
        return mf_fail(MF_ERROR_SHAPE, "an array has at most %d dimensions, and this one would have %d", MF_MAX_RANK, type->rank);
    mf_array *v = type ? mf_array_view(a, type, offset, strides, follow(a, type, where, first, step)) : NULL;
    return mf_value_new(v ? (void *)v : (void *)mf_error_out_of_memory());
}

mf_value mf_view_value(const mf_array *a, const mf_type *type, int64_t offset, const int64_t *strides, const int *where)
{
    return mf_view_part(a, type, offset, strides, where, NULL, NULL);
}

static mf_value broadcast_view(const mf_array *a, const mf_type *type)
{
    int64_t strides[MF_RANK] = { 0 };
    int where[MF_RANK], lead = type->rank - a->type->rank;
    for (int i = 0; i < a->type->rank; i++) {
        bool kept = a->type->dims[i] == type->dims[lead + i];
        strides[lead + i] = kept ? a->strides[i] : 0;
        where[i] = kept ? lead + i : -1;
    }
    return mf_view_value(a, type, 0, strides, where);
}

mf_value mf_broadcast_value(mf_value x, int rank, const int64_t *dims)
{
    const mf_type *t = mf_value_type(x), *want = t ? mf_type_get(t->dtype, t->weak, rank, dims) : NULL;
    int64_t places[MF_RANK];
    if (!t)
        return x;
    bool fits = want && rank >= t->rank;
    for (int i = 0; fits && i < t->rank; i++) {
        places[i] = rank - t->rank + i;
        fits = t->dims[i] == dims[places[i]] || t->dims[i] == 1;
    }
    if (!fits) {
        mf_text shape = { 0 };
        for (int i = 0; i < rank; i++)
            mf_text_add(&shape, i ? ", %lld" : "%lld", (long long)dims[i]);
        mf_value e = mf_fail(MF_ERROR_SHAPE, "broadcast_to: %s cannot be broadcast to the shape (%s)", mf_type_name(t),
                             shape.at ? shape.at : "");
        mf_text_free(&shape);
        return e;
    }
    mf_array *a = mf_concrete(x);
    if (t == want)
        return x;
    if (a)
        return broadcast_view(a, want);
    mf_broadcast_params p = { mf_ints_intern(dims, rank), mf_ints_intern(places, t->rank) };
    return mf_bind(&mf_op_broadcast_in_dim, &p, 1, x);
}

mf_dtype mf_inexact_dtype(mf_dtype dtype)
{
    if (mf_dtype_is_inexact(dtype))
        return dtype;
    return dtype == MF_I64 || dtype == MF_U64 ? MF_F64 : MF_F32;
}

bool mf_wrap_inexact(mf_value *x, const char *op)
{
    if (!mf_wrap_array(x, op))
        return false;
    const mf_type *t = mf_value_type(*x);
    if (t->dtype == MF_KEY)
        return failed(x, mf_fail(MF_ERROR_DTYPE, "%s is not defined for keys", op));
    *x = mf_convert_value(*x, mf_inexact_dtype(t->dtype), t->weak);
    return mf_value_type(*x) != NULL;
}

/* ---- several operands */
/* The usual case: nothing to convert and nothing to broadcast. */
static bool same_types(const mf_value *v, int count)
{
    const mf_type *t = mf_value_type(v[0]);
    for (int i = 1; t && i < count; i++)
        if (mf_value_type(v[i]) != t)
            return false;
    return t != NULL;
}

static bool convert_all(mf_value *v, int count, mf_dtype dtype, bool weak)
{
    for (int i = 0; i < count; i++) {
        v[i] = mf_convert_value(v[i], dtype, weak);
        if (!mf_value_type(v[i]))
            return failed(v, v[i]);
    }
    return true;
}

bool mf_promote_dtypes(mf_value *v, int count, const char *op)
{
    if (same_types(v, count))
        return true;
    if (!mf_wrap_arrays(v, count, 1, op))
        return failed(v, v[0]);
    mf_dtype dtype = mf_value_type(v[0])->dtype;
    bool weak = mf_value_type(v[0])->weak;
    for (int i = 1; i < count; i++) {
        const mf_type *t = mf_value_type(v[i]);
        if ((t->dtype == MF_KEY) != (dtype == MF_KEY))
            return failed(v, mf_fail(MF_ERROR_DTYPE, "%s: keys and numbers do not mix (%s and %s)", op, mf_type_name(mf_value_type(v[0])),
                                     mf_type_name(t)));
        dtype = mf_dtype_promote(dtype, weak, t->dtype, t->weak, &weak);
    }
    return convert_all(v, count, dtype, weak);
}

static mf_value cannot_broadcast(const mf_value *v, int count, const char *op)
{
    mf_text shapes = { 0 };
    for (int i = 0; i < count; i++)
        mf_text_add(&shapes, i ? ", %s" : "%s", mf_type_name(mf_value_type(v[i])));
    mf_value e = mf_fail(MF_ERROR_SHAPE, "%s got incompatible shapes for broadcasting: %s", op, shapes.at ? shapes.at : "");
    mf_text_free(&shapes);
    return e;
}

/* Broadcasts the common shape with t's, aligned at the end. */
static bool join_shape(int64_t *dims, int rank, const mf_type *t)
{
    for (int i = 0; i < t->rank; i++) {
        int64_t *d = &dims[rank - t->rank + i];
        if (t->dims[i] != *d && t->dims[i] != 1 && *d != 1)
            return false;
        if (*d == 1)
            *d = t->dims[i];
    }
    return true;
}

bool mf_broadcast_shapes(mf_value *v, int count, const char *op)
{
    int64_t dims[MF_RANK];
    int rank = 0;
    if (same_types(v, count))
        return true;
    for (int i = 0; i < count; i++)
        rank = mf_value_type(v[i])->rank > rank ? mf_value_type(v[i])->rank : rank;
    for (int i = 0; i < rank; i++)
        dims[i] = 1;
    for (int i = 0; i < count; i++)
        if (!join_shape(dims, rank, mf_value_type(v[i])))
            return failed(v, cannot_broadcast(v, count, op));
    for (int i = 0; i < count; i++) {
        v[i] = mf_broadcast_value(v[i], rank, dims);
        if (!mf_value_type(v[i]))
            return failed(v, v[i]);
    }
    return true;
}

bool mf_promote2(mf_value *a, mf_value *b, const char *op)
{
    mf_value v[2] = { *a, *b };
    bool fine = mf_promote_dtypes(v, 2, op) && mf_broadcast_shapes(v, 2, op);
    *a = v[0];
    *b = v[1];
    return fine;
}

bool mf_promote2_inexact(mf_value *a, mf_value *b, const char *op)
{
    mf_value v[2] = { *a, *b };
    bool fine = mf_promote_dtypes(v, 2, op);
    if (fine && mf_value_type(v[0])->dtype == MF_KEY)
        fine = failed(v, mf_fail(MF_ERROR_DTYPE, "%s is not defined for keys", op));
    if (fine) {
        const mf_type *t = mf_value_type(v[0]);
        fine = convert_all(v, 2, mf_inexact_dtype(t->dtype), t->weak) && mf_broadcast_shapes(v, 2, op);
    }
    *a = v[0];
    *b = v[1];
    return fine;
}

bool mf_promote3(mf_value *a, mf_value *b, mf_value *c, const char *op)
{
    mf_value v[3] = { *a, *b, *c };
    bool fine = mf_promote_dtypes(v, 3, op) && mf_broadcast_shapes(v, 3, op);
    *a = v[0];
    *b = v[1];
    *c = v[2];
    return fine;
}

/* ---- axes */
bool mf_normal_axis(int64_t axis, int rank, const char *op, int64_t *out, mf_value *error)
{
    if (mf_axis_is_tree(axis) || axis == MF_ALL || axis == MF_NONE)
        return failed(error, mf_fail(MF_ERROR_AXIS, "%s: axis must be one number here", op));
    if (axis < -rank || axis >= rank)
        return failed(error, mf_fail(MF_ERROR_AXIS, "%s: axis %lld is out of bounds for an array of rank %d", op, (long long)axis, rank));
    *out = axis < 0 ? axis + rank : axis;
    return true;
}

static bool normal_list(const mf_axis *axes, int count, int rank, const char *op, int64_t *out, mf_value *error)
{
    unsigned seen = 0;
    for (int i = 0; i < count; i++) {
        if (!mf_normal_axis(axes[i], rank, op, &out[i], error))
            return false;
        if (seen >> out[i] & 1)
            return failed(error, mf_fail(MF_ERROR_AXIS, "%s: axis %lld is named twice", op, (long long)out[i]));
        seen |= 1u << out[i];
    }
    return true;
}

bool mf_intern_list(const int64_t *list, int count, const mf_intlist **out, mf_value *error)
{
    *out = mf_ints_intern(list, count);
    return *out || failed(error, mf_value_new(mf_error_out_of_memory()));
}

bool mf_normal_ints(const mf_ints *axes, int rank, const char *op, const mf_intlist **out, mf_value *error)
{
    int64_t list[MF_MAX_RANK];
    if (axes->count < 0 || axes->count > MF_MAX_RANK)
        return failed(error, mf_fail(MF_ERROR_AXIS, "%s: a list of axes has at most %d entries", op, MF_MAX_RANK));
    if (!normal_list(axes->at, axes->count, rank, op, list, error))
        return false;
    return mf_intern_list(list, axes->count, out, error);
}

static bool fill_axes(mf_axis axis, int rank, const char *op, int64_t *list, int *count, mf_value *error)
{
    mf_axis entries[MF_RANK] = { 0 };
    *count = rank;
    for (int i = 0; i < rank; i++)
        list[i] = i;
    if (axis == MF_ALL || axis == MF_NONE)
        return true;
    *count = mf_axis_count(axis);
    bool fine = *count <= MF_RANK;
    for (int i = 0; fine && i < *count; i++) {
        entries[i] = mf_axis_at(axis, i);
        fine = !mf_axis_is_tree(entries[i]);
    }
    if (!fine)
        return failed(error, mf_fail(MF_ERROR_AXIS, "%s: axis must be a number, mf_axes(...) of numbers, or MF_ALL", op));
    return normal_list(entries, *count, rank, op, list, error);
}

bool mf_normal_axes(mf_axis axis, int rank, const char *op, const mf_intlist **out, mf_value *error)
{
    int64_t list[MF_RANK];
    int count;
    if (!fill_axes(axis, rank, op, list, &count, error))
        return false;
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && list[k] < list[k - 1]; k--) {
            int64_t swap = list[k];
            list[k] = list[k - 1];
            list[k - 1] = swap;
        }
    return mf_intern_list(list, count, out, error);
}

/* ---- trees of operands */
int mf_part_count(mf_value parts)
{
    mf_object *const *leaves, *self;
    int count = 0;
    mf_tree_flatten(mf_object_of(parts), &leaves, &count, &self);
    return count;
}

int mf_parts_of(mf_value parts, mf_value *out, int capacity, const char *op, mf_value *error)
{
    mf_object *const *leaves, *self, *bad = mf_first_error_in(mf_object_of(parts));
    int count = 0;
    if (bad) {
        *error = mf_value_of(bad);
        return -1;
    }
    mf_tree_flatten(mf_object_of(parts), &leaves, &count, &self);
    if (count > capacity) {
        *error = mf_fail(MF_ERROR_ARGUMENT, "%s takes at most %d parts, not %d", op, capacity, count);
        return -1;
    }
    for (int i = 0; i < count; i++) {
        out[i] = mf_value_of(leaves[i]);
        if (!mf_wrap_array(&out[i], op)) {
            *error = out[i];
            return -1;
        }
    }
    return count;
}
