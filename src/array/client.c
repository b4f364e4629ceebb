/* Buffers, the list of clients, and the CPU client's functions: its buffers are host memory from the caching allocator. */
#include "array/array.h"

#include <string.h>

static void buffer_destroy(mf_object *o)
{
    mf_buffer *b = (mf_buffer *)o;
    for (int i = 0; i < b->part_count; i++)
        mf_drop(b->parts[i]);
    if (b->data)
        b->client->release(b);
    mf_drop(b->ready);
}
const mf_class mf_buffer_class = { "buffer", buffer_destroy };

static bool allocate_shared(mf_buffer *b) { return (b->data = mf_memory_get_shared(b->bytes)) != NULL; }

static mf_buffer *allocated(const mf_client *client, int device, size_t bytes, bool (*allocate)(mf_buffer *b))
{
    mf_buffer *b = mf_object_new(&mf_buffer_class, sizeof *b);
    if (!b)
        return NULL;
    b->client = client;
    b->bytes = bytes;
    b->device = device;
    if (allocate(b))
        return b;
    b->data = NULL;
    mf_drop(b);
    return NULL;
}

mf_buffer *mf_client_buffer(const mf_client *client, int device, size_t bytes)
{
    return allocated(client, device, bytes, client->allocate);
}

mf_buffer *mf_buffer_new(size_t bytes) { return mf_client_buffer(&mf_client_cpu, 0, bytes); }

mf_buffer *mf_buffer_new_shared(size_t bytes) { return allocated(&mf_client_cpu, 0, bytes, allocate_shared); }

/* ---- rows */

mf_buffer *mf_client_row(const mf_client *client, int count, const int *devices, size_t bytes)
{
    if (count == 1)
        return mf_client_buffer(client, devices[0], bytes);
    mf_buffer *row = mf_object_new(&mf_buffer_class, sizeof *row + (size_t)count * sizeof *row->parts);
    if (!row)
        return NULL;
    row->client = client;
    row->bytes = bytes * (size_t)count;
    for (; row->part_count < count; row->part_count++) {
        row->parts[row->part_count] = mf_client_buffer(client, devices[row->part_count], bytes);
        if (!row->parts[row->part_count]) {
            mf_drop(row);
            return NULL;
        }
    }
    return row;
}

mf_buffer *mf_client_row_copied(const mf_buffer *b, const int *devices)
{
    if (!b->client->copied)
        return NULL;
    if (!b->part_count)
        return b->client->copied(b, devices[0]);
    mf_buffer *row = mf_object_new(&mf_buffer_class, sizeof *row + (size_t)b->part_count * sizeof *row->parts);
    if (!row)
        return NULL;
    row->client = b->client;
    row->bytes = b->bytes;
    for (; row->part_count < b->part_count; row->part_count++) {
        int k = row->part_count;
        row->parts[k] = b->parts[k]->device == devices[k] ? mf_retain(b->parts[k]) : b->client->copied(b->parts[k], devices[k]);
        if (!row->parts[k]) {
            mf_drop(row);
            return NULL;
        }
    }
    return row;
}

mf_buffer *mf_buffer_part(const mf_buffer *b, int64_t *at)
{
    int64_t bytes = b->part_count ? (int64_t)b->parts[0]->bytes : 0;
    if (!b->part_count)
        return (mf_buffer *)(uintptr_t)b;
    int64_t i = bytes ? *at / bytes : 0;
    *at -= i * bytes;
    return b->parts[i];
}

mf_error_object *mf_buffer_to_host(const mf_buffer *b, int64_t from, int64_t count, void *out)
{
    mf_error_object *error = NULL;
    for (int64_t done = 0, some; done < count && !error; done += some) {
        int64_t at = from + done;
        const mf_buffer *part = mf_buffer_part(b, &at);
        some = (int64_t)part->bytes - at < count - done ? (int64_t)part->bytes - at : count - done;
        error = b->client->to_host(part, at, some, (char *)out + done);
    }
    return error;
}

/* ---- the list */

_Atomic(const mf_client *) mf_client_chosen;
_Thread_local const mf_client *mf_client_of_thread;
static _Atomic(const mf_client *) clients[MF_MOST_CLIENTS] = { &mf_client_cpu };

const mf_client *mf_client_at(int index) { return index < MF_MOST_CLIENTS ? atomic_load(&clients[index]) : NULL; }

int mf_client_index(const mf_client *c)
{
    for (int i = 0; i < MF_MOST_CLIENTS && mf_client_at(i); i++)
        if (mf_client_at(i) == c)
            return i;
    return -1;
}

const mf_client *mf_client_find(const char *platform)
{
    for (int i = 0; platform && mf_client_at(i); i++)
        if (!strcmp(mf_client_at(i)->platform, platform))
            return mf_client_at(i);
    return NULL;
}

mf_error_object *mf_client_register(const mf_client *c)
{
    for (int i = 0; i < MF_MOST_CLIENTS; i++) {
        const mf_client *there = NULL;
        if (atomic_compare_exchange_strong(&clients[i], &there, c) || there == c)
            return NULL;
        if (!strcmp(there->platform, c->platform))
            return mf_error_new(MF_ERROR_DEVICE, "there is a client of platform '%s' already", c->platform);
    }
    return mf_error_new(MF_ERROR_DEVICE, "a client of platform '%s' is one more than the %d that a process can have", c->platform,
                        MF_MOST_CLIENTS);
}

/* ---- the CPU */

bool mf_host_allocate(mf_buffer *b)
{
    b->data = mf_memory_get(b->bytes);
    return b->data != NULL;
}
void mf_host_release(mf_buffer *b) { mf_memory_put(b->data, b->bytes); }
bool mf_host_from(mf_buffer *b, const void *bytes)
{
    memcpy(b->data, bytes, b->bytes);
    return true;
}
mf_error_object *mf_host_to(const mf_buffer *b, int64_t from, int64_t count, void *out)
{
    memcpy(out, (const char *)b->data + from, (size_t)count);
    return NULL;
}
const void *mf_host_view(const mf_buffer *b) { return b->data; }
