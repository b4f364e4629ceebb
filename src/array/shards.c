/* Which devices hold an array, and the part of it that each holds. Invariants: shardings are interned. Where devices have separate
 * memories, the parts have one size and lie row by row; along an axis that is held once, each device has a replica of the first one's
 * part. */
#include "array/literal.h"

#include "base/memory/alloc.h"
#include "base/memory/intern.h"
#include "runtime/comm.h"

#include <string.h>

/* ---- shardings */

static _Atomic(mf_interner *) shardings;

static const mf_sharding *intern_sharding(const mf_client *client, bool committed, int axis_count, const int *axes, int device_count,
                                          const int *devices)
{
    if (axis_count < 0 || axis_count > MF_RANK || device_count < 1)
        return NULL;
    size_t size = sizeof(mf_sharding) + (size_t)device_count * sizeof(int);
    mf_sharding *p = mf_calloc(1, size);
    if (!p)
        return NULL;
    p->client = client;
    p->committed = committed;
    p->device_count = device_count;
    p->axis_count = axis_count;
    for (int i = 0; i < axis_count; i++)
        p->axes[i] = axes[i];
    memcpy(p->devices, devices, (size_t)device_count * sizeof(int));
    const mf_sharding *found = mf_interner_get(mf_interner_static(&shardings), p, size);
    mf_free(p);
    return found;
}

const mf_sharding *mf_sharding_get(const mf_client *client, int axis_count, const int *axes, int device_count, const int *devices)
{
    return intern_sharding(client, true, axis_count, axes, device_count, devices);
}

const mf_sharding *mf_sharding_single(const mf_client *client, int device)
{
    static _Atomic(const mf_sharding *) known[64];
    if (client != &mf_client_cpu || device < 0 || device >= 64)
        return intern_sharding(client, true, 0, NULL, 1, &device);
    const mf_sharding *p = atomic_load_explicit(&known[device], memory_order_acquire);
    if (!p) {
        p = intern_sharding(client, true, 0, NULL, 1, &device);
        atomic_store_explicit(&known[device], p, memory_order_release);
    }
    return p;
}

const mf_sharding *mf_sharding_default(const mf_client *client)
{
    static _Atomic(const mf_sharding *) cpu;
    const mf_sharding *p = client == &mf_client_cpu ? atomic_load_explicit(&cpu, memory_order_acquire) : NULL;
    if (!p) {
        const mf_comm *c = mf_comm_of_process();
        p = intern_sharding(client, false, 0, NULL, 1, c && !client->alone ? &c->first_device[c->rank] : &(int){ 0 });
        if (client == &mf_client_cpu)
            atomic_store_explicit(&cpu, p, memory_order_release);
    }
    return p;
}

/* ---- the part that a device holds */

static bool is_mapped(const mf_sharding *p, int axis)
{
    for (int k = 0; p && k < p->axis_count; k++)
        if (p->axes[k] == axis)
            return true;
    return false;
}

/* The shape and strides of the part that a device holds (p NULL: of the whole array); returns its rank. */
static int part_of(const mf_sharding *p, const mf_type *type, int64_t *dims, const int64_t *strides, int64_t *kept)
{
    int rank = 0;
    for (int i = 0; i < type->rank; i++)
        if (!is_mapped(p, i)) {
            dims[rank] = type->dims[i];
            kept[rank++] = strides[i];
        }
    return rank;
}

void mf_sharding_index(const mf_sharding *p, const mf_type *type, int k, int64_t *at)
{
    int64_t left = k;
    for (int i = p->axis_count - 1; i >= 0; i--) {
        at[p->axes[i]] = left % type->dims[p->axes[i]];
        left /= type->dims[p->axes[i]];
    }
}

/* The byte offset from the array's first element to the first that device number k holds. */
static int64_t first_of(const mf_sharding *p, const mf_type *type, int k, const int64_t *strides)
{
    int64_t at[MF_RANK] = { 0 }, first = 0;
    mf_sharding_index(p, type, k, at);
    for (int i = 0; i < type->rank; i++)
        first += at[i] * strides[i];
    return first;
}

int64_t mf_sharding_strides(const mf_sharding *p, const mf_type *type, const int64_t *like, int64_t *strides)
{
    int64_t step = mf_dtype_size(type->dtype), bytes;
    for (int i = type->rank - 1; i >= 0; i--) {
        if (is_mapped(p, i))
            continue;
        strides[i] = step;
        step *= type->dims[i];
    }
    bytes = step;
    for (int k = p->axis_count - 1; k >= 0; k--) {
        int axis = p->axes[k];
        strides[axis] = like[axis] || type->dims[axis] == 1 ? step : 0;
        step *= type->dims[axis];
    }
    return bytes;
}

mf_buffer *mf_buffer_on(const mf_buffer *b, int device, int64_t *at)
{
    mf_buffer *part = mf_buffer_part(b, at);
    for (int i = 0; i < b->part_count && part->device != device; i++)
        if (b->parts[i]->device == device)
            return b->parts[i];
    return part;
}

mf_buffer *mf_array_part(const mf_array *a, int k, int64_t *at)
{
    *at = a->offset + first_of(a->sharding, a->type, k, a->strides);
    return mf_buffer_on(a->buffer, a->sharding->devices[k], at);
}

/* ---- from the host */

mf_array *mf_array_on_devices(const mf_sharding *p, const mf_type *type, const int64_t *like)
{
    int64_t strides[MF_RANK], low = 0, bytes;
    bool row = p->client->separate_memory && p->device_count > 1;
    if (row) {
        bytes = mf_sharding_strides(p, type, like, strides);
    } else {
        mf_strides_extent(type, like, &low, &bytes);
        memcpy(strides, like, (size_t)type->rank * sizeof *like);
        if (bytes > type->bytes) {
            mf_contiguous_strides(type, strides);
            mf_strides_extent(type, strides, &low, &bytes);
        }
    }
    mf_buffer *b = mf_client_row(p->client, row ? p->device_count : 1, p->devices, (size_t)bytes);
    mf_array *a = b ? mf_array_wrap(type, b, -low, strides, p) : NULL;
    mf_drop(b);
    return a;
}

bool mf_array_put_part(mf_array *a, int k, const mf_literal *l)
{
    const mf_sharding *p = a->buffer->part_count ? a->sharding : NULL;
    mf_buffer *b = mf_buffer_at(a->buffer, k);
    int64_t dims[MF_RANK], from[MF_RANK], to[MF_RANK];
    if (!b->bytes)
        return true;
    if (!p && !memcmp(a->strides, l->strides, (size_t)l->type->rank * sizeof *l->strides)) {
        return b->client->from_host(b, l->data - a->offset);
    }
    void *rows = mf_alloc(b->bytes);
    if (!rows)
        return false;
    int rank = part_of(p, l->type, dims, a->strides, to);
    part_of(p, l->type, dims, l->strides, from);
    mf_copy_strided(rank, dims, mf_dtype_size(l->type->dtype), rows, to, l->data + (p ? first_of(p, l->type, k, l->strides) : 0), from);
    bool there = b->client->from_host(b, rows);
    mf_free(rows);
    return there;
}

mf_array *mf_array_of_literal(const mf_sharding *p, mf_literal *l)
{
    bool here = p && p->client == &mf_client_cpu;
    mf_array *a = here ? mf_literal_array(l) : p ? mf_array_on_devices(p, l->type, l->strides) : NULL;
    if (!a)
        return NULL;
    a->sharding = p;
    a->is_number = l->is_number;
    memcpy(a->number, l->number, sizeof a->number);
    for (int k = 0; !here && k < mf_buffer_count(a->buffer); k++)
        if (!mf_array_put_part(a, k, l)) {
            mf_drop(a);
            return NULL;
        }
    return a;
}

/* Copies device by device, if both shardings have the same parts and the client can copy; else NULL, with *error if a cannot be read. */
static mf_array *copy_within(const mf_sharding *p, mf_array *a, mf_error_object **error)
{
    const mf_sharding *now = a->sharding;
    bool same_parts = p->client == now->client && p->client->copied && p->axis_count == now->axis_count &&
                      p->device_count == now->device_count && !memcmp(p->axes, now->axes, sizeof p->axes);
    if (!same_parts || !a->buffer || a->buffer->bytes > (size_t)a->type->bytes)
        return NULL;
    *error = mf_array_begin_read(a);
    if (*error)
        return NULL;
    mf_buffer *b = mf_client_row_copied(a->buffer, p->devices);
    mf_array *there = b ? mf_array_wrap(a->type, b, a->offset, a->strides, p) : NULL;
    mf_array_end_read(a);
    mf_drop(b);
    return there;
}

mf_array *mf_array_copy_to(const mf_sharding *p, mf_array *a, mf_error_object **error)
{
    *error = NULL;
    mf_array *copy = copy_within(p, a, error);
    if (copy || *error)
        return copy;
    mf_literal *l = mf_literal_of(a, error);
    mf_array *there = l ? mf_array_of_literal(p, l) : NULL;
    if (l && !there)
        *error = mf_error_out_of_memory();
    mf_drop(l);
    return there;
}

mf_array *mf_array_on(const mf_client *client, mf_array *a, mf_error_object **error)
{
    *error = mf_array_begin_read(a);
    if (*error)
        return NULL;
    mf_array_end_read(a);
    if (mf_array_client(a) == client)
        return mf_retain(a);
    const mf_sharding *p = mf_sharding_default(client);
    if (!p)
        *error = mf_error_out_of_memory();
    return p ? mf_array_copy_to(p, a, error) : NULL;
}

mf_array *mf_array_made(mf_array *a)
{
    if (!a || mf_client_default() == &mf_client_cpu)
        return a;
    mf_error_object *error = NULL;
    const mf_sharding *p = mf_sharding_default(mf_client_default());
    mf_array *there = p ? mf_array_copy_to(p, a, &error) : NULL;
    mf_error_ignore(error);
    mf_drop(a);
    return there;
}
