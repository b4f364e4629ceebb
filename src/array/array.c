/* Arrays. Invariant: up to 16 bytes are stored in the array itself (buffer is NULL), more in a counted buffer; every function that reads
 * elements first waits for the future. */
#include "array/literal.h"

#include <string.h>

/* ---- arrays */

static void array_destroy(mf_object *o)
{
    mf_array *a = (mf_array *)o;
    mf_drop(a->buffer);
    mf_drop(a->future);
}
const mf_class mf_array_class = { "array", array_destroy };

void mf_contiguous_strides(const mf_type *type, int64_t *strides)
{
    int64_t step = mf_dtype_size(type->dtype);
    for (int i = type->rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= type->dims[i];
    }
}

/* An array without a buffer yet. */
static mf_array *bare(const mf_type *type, const int64_t *strides, const mf_sharding *p)
{
    mf_array *a = type && p ? mf_object_new(&mf_array_class, sizeof *a) : NULL;
    if (!a)
        return NULL;
    a->type = type;
    a->sharding = p;
    if (strides)
        memcpy(a->strides, strides, (size_t)type->rank * sizeof *strides);
    else
        mf_contiguous_strides(type, a->strides);
    return a;
}

mf_array *mf_array_new(const mf_type *type)
{
    mf_array *a = bare(type, NULL, mf_sharding_default(&mf_client_cpu));
    if (!a || type->bytes <= (int64_t)sizeof a->inline_data)
        return a;
    a->buffer = mf_buffer_new((size_t)type->bytes);
    if (!a->buffer) {
        mf_drop(a);
        return NULL;
    }
    return a;
}

mf_array *mf_array_wrap(const mf_type *type, mf_buffer *buffer, int64_t offset, const int64_t *strides, const mf_sharding *p)
{
    mf_array *a = bare(type, strides, p);
    if (!a)
        return NULL;
    a->buffer = mf_retain(buffer);
    a->offset = offset;
    return a;
}

/* ---- readiness */

static const char *deletion(const mf_array *a) { return atomic_load(&((mf_array *)(uintptr_t)a)->deleted); }

static mf_error_object *deleted_error(const mf_array *a)
{
    mf_error_object *e = mf_error_new(MF_ERROR_DONATED, "Array has been deleted with shape=%s.", mf_type_name(a->type));
    if (e != &mf_error_memory_object)
        e->subject = a;
    return e;
}

/* Returns the error if the work that fills a has failed. */
static mf_error_object *wait_filled(const mf_array *a)
{
    mf_future *f = a->future;
    if (!f)
        return NULL;
    if (!atomic_load_explicit(&f->state, memory_order_acquire))
        f->wait(f);
    return atomic_load_explicit(&f->state, memory_order_acquire) == 2 ? mf_retain(f->error) : NULL;
}

mf_error_object *mf_array_wait(const mf_array *a) { return deletion(a) ? deleted_error(a) : wait_filled(a); }

/* A view of a deleted array is deleted too. A view of one device's part waits for that device only and holds no other device's memory. */
mf_array *mf_array_view(const mf_array *a, const mf_type *type, int64_t offset, const int64_t *strides, const mf_sharding *p)
{
    mf_error_object *deleted = mf_array_begin(a);
    mf_buffer *buffer = deleted ? NULL : a->buffer;
    int64_t at = a->offset + offset;
    if (buffer && p && p->device_count == 1)
        buffer = mf_buffer_on(buffer, p->devices[0], &at);
    mf_array *view = mf_array_wrap(type, buffer, at, strides, p);
    if (!deleted)
        mf_array_end_read(a);
    else
        mf_error_ignore(deleted);
    if (!view)
        return NULL;
    memcpy(view->inline_data, a->inline_data, sizeof a->inline_data);
    view->future = mf_retain(buffer && buffer->ready ? buffer->ready : a->future);
    if (deleted)
        atomic_init(&view->deleted, deletion(a));
    return view;
}

mf_array *mf_array_fill(const mf_type *type, const void *element)
{
    static const int64_t held_once[MF_RANK];
    mf_array *a = bare(type, held_once, mf_sharding_default(&mf_client_cpu));
    if (a)
        memcpy(a->inline_data, element, (size_t)mf_dtype_size(type->dtype));
    return a;
}

mf_array *mf_array_from_host(const mf_type *type, const void *elements)
{
    mf_array *a = type ? mf_array_new(type) : NULL;
    if (a && type->bytes)
        memcpy(mf_array_data(a), elements, (size_t)type->bytes);
    return a;
}

mf_array *mf_array_scalar_f64(mf_dtype dtype, bool weak, double x)
{
    mf_array *a = bare(mf_type_scalar(dtype, weak), NULL, mf_sharding_default(&mf_client_cpu));
    if (a)
        mf_store_f64(dtype, a->inline_data, x);
    return a;
}

mf_array *mf_array_scalar_i64(mf_dtype dtype, bool weak, int64_t x)
{
    mf_array *a = bare(mf_type_scalar(dtype, weak), NULL, mf_sharding_default(&mf_client_cpu));
    if (a)
        mf_store_i64(dtype, a->inline_data, x);
    return a;
}

void *mf_array_data(const mf_array *a)
{
    const unsigned char *base = a->buffer ? a->buffer->data : a->inline_data;
    return (void *)(uintptr_t)(base + a->offset); /* const is dropped here; kernels write only to arrays that nobody else has seen */
}

static bool is_held(const mf_type *type, const int64_t *strides, int axis)
{
    int64_t step = mf_dtype_size(type->dtype);
    if (strides[axis] || type->dims[axis] <= 1)
        return false;
    for (int i = type->rank - 1; i >= 0; i--) {
        if (i == axis)
            continue;
        if (strides[i] != step && type->dims[i] > 1 && type->size)
            return false;
        step *= type->dims[i];
    }
    return true;
}

mf_axis_set mf_strides_held(const mf_type *type, const int64_t *strides, mf_axis_set among)
{
    mf_axis_set held = 0;
    for (int i = 0; i < type->rank && among >> i; i++)
        held |= (mf_axis_set)((among >> i & 1 && is_held(type, strides, i)) << i);
    return held;
}

mf_axis_set mf_array_held(const mf_array *a, mf_axis_set among) { return mf_strides_held(a->type, a->strides, among); }

void mf_strides_extent(const mf_type *type, const int64_t *strides, int64_t *low, int64_t *bytes)
{
    int64_t high = type->size ? mf_dtype_size(type->dtype) : 0;
    *low = 0;
    for (int i = 0; i < type->rank && type->size; i++)
        *(strides[i] < 0 ? low : &high) += (type->dims[i] - 1) * strides[i];
    *bytes = high - *low;
}

bool mf_strides_are_contiguous(const mf_type *type, const int64_t *strides)
{
    int64_t step = mf_dtype_size(type->dtype);
    if (type->size == 0)
        return true;
    for (int i = type->rank - 1; i >= 0; i--) {
        if (type->dims[i] != 1 && strides[i] != step)
            return false;
        step *= type->dims[i];
    }
    return true;
}

bool mf_array_is_contiguous(const mf_array *a) { return mf_strides_are_contiguous(a->type, a->strides); }

/* ---- reading */

static _Atomic int32_t *readers(const mf_array *a) { return &((mf_array *)(uintptr_t)a)->readers; }

mf_error_object *mf_array_begin(const mf_array *a)
{
    atomic_fetch_add(readers(a), 1);
    if (!deletion(a))
        return NULL;
    mf_array_end_read(a);
    return deleted_error(a);
}

void mf_array_end_read(const mf_array *a) { atomic_fetch_sub(readers(a), 1); }

mf_error_object *mf_array_begin_read(const mf_array *a)
{
    mf_error_object *error = mf_array_begin(a), *failed = error ? NULL : wait_filled(a);
    if (failed)
        mf_array_end_read(a);
    return error ? error : failed;
}

mf_buffer *mf_array_give_up(mf_array *a)
{
    mf_buffer *b = a->buffer;
    if (atomic_load(readers(a)))
        return mf_retain(b);
    a->buffer = NULL;
    return b;
}

mf_error_object *mf_array_element(const mf_array *a, void *element)
{
    mf_error_object *error = mf_array_begin_read(a);
    if (error)
        return error;
    int size = mf_dtype_size(a->type->dtype);
    if (a->buffer)
        error = mf_buffer_to_host(a->buffer, a->offset, size, element);
    else
        memcpy(element, a->inline_data + a->offset, (size_t)size);
    mf_array_end_read(a);
    return error;
}

mf_error_object *mf_array_element_as(const mf_array *a, mf_dtype dtype, void *element)
{
    unsigned char own[16];
    mf_error_object *error = mf_array_element(a, own);
    bool exact = a->is_number && (dtype == MF_F64 || dtype == MF_C128);
    mf_dtype precise = mf_dtype_is_complex(a->type->dtype) ? MF_C128 : MF_F64;
    if (!error)
        mf_convert(dtype, element, exact ? precise : a->type->dtype, exact ? (const void *)a->number : own, 1);
    return error;
}

const void *mf_array_host_data(const mf_array *a, mf_error_object **error)
{
    *error = mf_array_wait(a);
    if (!*error && a->buffer && !mf_buffer_host(a->buffer))
        *error = mf_error_new(MF_ERROR_DEVICE, "%s lies in memory of %s, which the host cannot look at", mf_type_name(a->type),
                              a->buffer->client->platform);
    return *error ? NULL : mf_array_data(a);
}

mf_array *mf_array_contiguous(mf_array *a)
{
    if (mf_array_is_contiguous(a))
        return mf_retain(a);
    mf_array *copy = mf_array_new(a->type);
    if (!copy)
        return NULL;
    copy->sharding = a->sharding;
    mf_copy_strided(a->type->rank, a->type->dims, mf_dtype_size(a->type->dtype), mf_array_data(copy), copy->strides, mf_array_data(a),
                    a->strides);
    return copy;
}

mf_array *mf_array_copy(const mf_array *a, mf_error_object **error)
{
    *error = mf_array_begin_read(a);
    if (!*error && mf_array_client(a) != &mf_client_cpu) {
        mf_array_end_read(a);
        mf_literal *rows = mf_literal_rows_of((mf_array *)(uintptr_t)a, error);
        mf_array *copied = rows ? mf_array_of_literal(a->sharding, rows) : NULL;
        *error = rows && !copied ? mf_error_out_of_memory() : *error;
        mf_drop(rows);
        return copied;
    }
    if (*error)
        return NULL;
    mf_array *copy = mf_array_new(a->type);
    if (copy) {
        copy->sharding = a->sharding;
        mf_copy_strided(a->type->rank, a->type->dims, mf_dtype_size(a->type->dtype), mf_array_data(copy), copy->strides, mf_array_data(a),
                        a->strides);
    } else {
        *error = mf_error_out_of_memory();
    }
    mf_array_end_read(a);
    return copy;
}

bool mf_array_is_alone(const mf_array *a)
{
    return a->buffer && atomic_load_explicit(&a->buffer->object.count, memory_order_acquire) == 1 && !deletion(a);
}

/* False when memory is out. */
static bool copy_elements(mf_array *a, mf_dtype dtype, void *out)
{
    const mf_type *t = a->type;
    if (mf_array_is_contiguous(a)) {
        mf_convert(dtype, out, t->dtype, mf_array_data(a), t->size);
        return true;
    }
    if (dtype == t->dtype) {
        int64_t strides[MF_RANK];
        mf_contiguous_strides(t, strides);
        mf_copy_strided(t->rank, t->dims, mf_dtype_size(dtype), out, strides, mf_array_data(a), a->strides);
        return true;
    }
    mf_array *row_by_row = mf_array_contiguous(a);
    if (row_by_row)
        mf_convert(dtype, out, t->dtype, mf_array_data(row_by_row), t->size);
    mf_drop(row_by_row);
    return row_by_row != NULL;
}

/* Whether a's bytes are in another client's memory and already have the dtype and layout that is wanted, so that fetching them is all. */
static bool is_as_wanted(const mf_array *a, mf_dtype dtype)
{
    return a->buffer && mf_array_client(a) != &mf_client_cpu && dtype == a->type->dtype && mf_strides_are_contiguous(a->type, a->strides);
}

mf_error_object *mf_array_copy_out(mf_array *a, mf_dtype dtype, void *out)
{
    const mf_type *t = a->type;
    mf_error_object *error = NULL;
    if (is_as_wanted(a, dtype)) {
        error = mf_array_begin_read(a);
        if (error)
            return error;
        error = t->bytes ? mf_buffer_to_host(a->buffer, a->offset, t->bytes, out) : NULL;
        mf_array_end_read(a);
        return error;
    }
    mf_array *here = mf_array_on(&mf_client_cpu, a, &error);
    error = here ? mf_array_begin_read(here) : error;
    if (error) {
        mf_drop(here);
        return error;
    }
    if (dtype != t->dtype && (dtype == MF_KEY || t->dtype == MF_KEY))
        error = mf_error_new(MF_ERROR_DTYPE, "%s cannot be read as %s", mf_type_name(t), mf_dtype_name(dtype));
    else if (!copy_elements(here, dtype, out))
        error = mf_error_out_of_memory();
    mf_array_end_read(here);
    mf_drop(here);
    return error;
}
