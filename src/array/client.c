/* Buffers, the list of clients, and what the CPU's does: its memory is the host's, from the caching allocator. */
#include "array/array.h"

#include <string.h>

static void buffer_destroy(mf_object *o)
{
    mf_buffer *b = (mf_buffer *)o;
    if (b->data)
        b->client->release(b);
}
const mf_class mf_buffer_class = { "buffer", buffer_destroy };

mf_buffer *mf_client_buffer(const mf_client *client, size_t bytes)
{
    mf_buffer *b = mf_object_new(&mf_buffer_class, sizeof *b);
    if (!b)
        return NULL;
    b->client = client;
    b->bytes = bytes;
    if (client->allocate(b))
        return b;
    b->data = NULL;
    mf_drop(b);
    return NULL;
}

mf_buffer *mf_buffer_new(size_t bytes) { return mf_client_buffer(&mf_client_cpu, bytes); }

/* ---- the list */

_Atomic(const mf_client *) mf_client_chosen = &mf_client_cpu;
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
void mf_host_from(mf_buffer *b, const void *bytes) { memcpy(b->data, bytes, b->bytes); }
void mf_host_to(const mf_buffer *b, int64_t from, int64_t count, void *out) { memcpy(out, (const char *)b->data + from, (size_t)count); }
const void *mf_host_view(const mf_buffer *b) { return b->data; }
