/* Literals; see literal.h. */
#include "array/literal.h"

#include <string.h>

static void literal_destroy(mf_object *o) { mf_drop(((mf_literal *)o)->buffer); }
static const mf_class literal_class = { "literal", literal_destroy };

static mf_literal *bare(const mf_type *type, const int64_t *strides)
{
    mf_literal *l = type ? mf_object_new(&literal_class, sizeof *l) : NULL;
    if (!l)
        return NULL;
    l->type = type;
    l->data = l->small;
    memcpy(l->strides, strides, (size_t)type->rank * sizeof *strides);
    return l;
}

mf_literal *mf_literal_new(const mf_type *type, void **bytes)
{
    int64_t strides[MF_RANK];
    if (type)
        mf_contiguous_strides(type, strides);
    mf_literal *l = bare(type, strides);
    if (l && type->bytes > (int64_t)sizeof l->small) {
        l->buffer = mf_buffer_new((size_t)type->bytes);
        l->data = l->buffer ? l->buffer->data : NULL;
    }
    if (l && !l->data) {
        mf_drop(l);
        return NULL;
    }
    if (l && bytes)
        *bytes = l->buffer ? l->buffer->data : l->small;
    return l;
}

mf_literal *mf_literal_number(mf_dtype dtype, bool weak, double x)
{
    void *at;
    mf_literal *l = mf_literal_new(mf_type_scalar(dtype, weak), &at);
    if (l)
        mf_store_f64(dtype, at, x);
    return l;
}

void mf_literal_extent(const mf_literal *l, int64_t *low, int64_t *bytes) { mf_strides_extent(l->type, l->strides, low, bytes); }

/* Copies the bytes between a's first and last element from another client's memory, keeping the layout. */
static mf_error_object *fetch(mf_literal *l, const mf_array *a)
{
    int64_t low, bytes;
    mf_strides_extent(a->type, a->strides, &low, &bytes);
    l->buffer = mf_buffer_new((size_t)bytes);
    if (!l->buffer)
        return mf_error_out_of_memory();
    l->data = (const unsigned char *)l->buffer->data - low;
    return bytes ? mf_buffer_to_host(a->buffer, a->offset + low, bytes, l->buffer->data) : NULL;
}

mf_literal *mf_literal_of(mf_array *a, mf_error_object **error)
{
    *error = mf_array_begin_read(a);
    if (*error)
        return NULL;
    mf_literal *l = bare(a->type, a->strides);
    if (l && a->buffer && a->buffer->client != &mf_client_cpu) {
        if ((*error = fetch(l, a))) {
            mf_drop(l);
            l = NULL;
        }
    } else if (l && a->buffer) {
        l->buffer = mf_retain(a->buffer);
        l->data = mf_array_data(a);
    } else if (l) {
        memcpy(l->small, a->inline_data, sizeof l->small);
        l->data = l->small + a->offset;
    }
    if (l && a->is_number) {
        l->is_number = true;
        memcpy(l->number, a->number, sizeof l->number);
    }
    mf_array_end_read(a);
    if (!l && !*error)
        *error = mf_error_out_of_memory();
    return l;
}

bool mf_literal_is_contiguous(const mf_literal *l) { return mf_strides_are_contiguous(l->type, l->strides); }

mf_literal *mf_literal_contiguous(mf_literal *l)
{
    if (mf_literal_is_contiguous(l))
        return mf_retain(l);
    void *at;
    mf_literal *copy = mf_literal_new(l->type, &at);
    if (copy)
        mf_copy_strided(l->type->rank, l->type->dims, mf_dtype_size(l->type->dtype), at, copy->strides, l->data, l->strides);
    return copy;
}

mf_literal *mf_literal_rows_of(mf_array *a, mf_error_object **error)
{
    mf_literal *l = mf_literal_of(a, error), *rows = l ? mf_literal_contiguous(l) : NULL;
    if (l && !rows)
        *error = mf_error_out_of_memory();
    mf_drop(l);
    return rows;
}

bool mf_literal_same(const mf_literal *a, const mf_literal *b)
{
    if (a == b)
        return true;
    if (a->type != b->type || a->buffer != b->buffer || memcmp(a->strides, b->strides, sizeof a->strides) != 0)
        return false;
    if (a->buffer)
        return a->data == b->data;
    return memcmp(a->small, b->small, sizeof a->small) == 0 && a->data - a->small == b->data - b->small && a->is_number == b->is_number &&
           memcmp(a->number, b->number, sizeof a->number) == 0; /* bits, not values: NOLINT(bugprone-suspicious-memory-comparison) */
}

mf_array *mf_literal_array(mf_literal *l)
{
    int64_t offset = l->data - (l->buffer ? (unsigned char *)l->buffer->data : l->small);
    mf_array *a = mf_array_wrap(l->type, l->buffer, offset, l->strides, mf_sharding_default(&mf_client_cpu));
    if (!a)
        return NULL;
    memcpy(a->inline_data, l->small, sizeof a->inline_data);
    a->is_number = l->is_number;
    memcpy(a->number, l->number, sizeof a->number);
    return a;
}
