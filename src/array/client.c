/* Buffers, and the CPU's client: its memory is the host's, from the caching allocator. */
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

/* ---- the CPU */

static bool allocate(mf_buffer *b)
{
    b->data = mf_memory_get(b->bytes);
    return b->data != NULL;
}
static void release(mf_buffer *b) { mf_memory_put(b->data, b->bytes); }
static void from_host(mf_buffer *b, const void *bytes) { memcpy(b->data, bytes, b->bytes); }
static void to_host(const mf_buffer *b, int64_t from, int64_t count, void *out)
{
    memcpy(out, (const char *)b->data + from, (size_t)count);
}
static const void *host_view(const mf_buffer *b) { return b->data; }

const mf_client mf_client_cpu = { "cpu", allocate, release, from_host, to_host, host_view };
