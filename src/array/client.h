/* Clients: owners of devices and of the memory on them. Invariant: only a buffer's client touches its bytes; all others copy from and to
 * host memory, or read through the client's host view if it has one. A process has several clients at once: the CPU's always exists
 * (wire.c), others are registered and then stay. */
#ifndef MF_ARRAY_CLIENT_H
#define MF_ARRAY_CLIENT_H

#include "base/error.h"
#include "base/handles/object.h"

typedef struct mf_client mf_client;
struct mf_device_memory_stats_t; /* manyfold/device.h */

/* An event: the completion of the work that fills some memory. States only move forward. */
typedef struct mf_future mf_future;
struct mf_future {
    mf_object object;
    _Atomic int state;                                             /* 0 pending, 1 done, 2 failed */
    mf_error_object *error;                                        /* set before state becomes 2 */
    void (*wait)(mf_future *f);                                    /* returns when state is not 0; may run queued work meanwhile */
    void (*then)(mf_future *f, void (*fn)(void *), void *context); /* calls fn when f ends, immediately if it has ended */
};

/* Memory of a device. Where a client's devices have separate memories, an array on several of them has a row of buffers, one per device in
 * the order of its sharding. A row is addressed as if its buffers, all of one size, lay one after the other; it has no memory of its
 * own. */
typedef struct mf_buffer {
    mf_object object;
    const mf_client *client;
    void *data; /* owned by the client; for the CPU's, the address of the memory, 64-byte aligned */
    size_t bytes;
    mf_future *ready; /* the event after which the bytes are valid; NULL: they are valid, or the array's future says when */
    int device;       /* the device's id; meaningless where the devices share memory */
    int part_count;   /* number of parts of a row; 0: not a row */
    struct mf_buffer *parts[];
} mf_buffer;
extern const mf_class mf_buffer_class;

struct mf_client {
    const char *platform;           /* "cpu" */
    bool separate_memory;           /* each of its devices has memory of its own */
    bool alone;                     /* its devices and programs belong to this process alone, also in a job of several processes */
    bool (*allocate)(mf_buffer *b); /* sets data; false: memory is out */
    void (*release)(mf_buffer *b);  /* gives data back */
    bool (*from_host)(mf_buffer *b, const void *bytes);                                      /* fills it all; false: out of memory */
    mf_error_object *(*to_host)(const mf_buffer *b, int64_t from, int64_t count, void *out); /* copies `count` bytes from offset `from` */
    const void *(*host_view)(const mf_buffer *b);                                            /* NULL: the host cannot read it */
    mf_buffer *(*copied)(const mf_buffer *b, int device); /* on another of its devices; NULL (function or result): copy via the host */
    int (*device_count)(const mf_client *c);              /* in this process; asked once, at the first use of its devices */
    /* The statistics of one device; unknown fields are left unchanged. NULL: no statistics per device. */
    mf_error_object *(*memory_stats)(const mf_client *c, int device, struct mf_device_memory_stats_t *out);
    const struct mf_backend *backend; /* runtime/backend.h: loads and executes programs; NULL: the client only holds memory */
};
extern const mf_client mf_client_cpu;

/* The CPU's own functions, for mf_client_cpu. */
bool mf_host_allocate(mf_buffer *b);
void mf_host_release(mf_buffer *b);
bool mf_host_from(mf_buffer *b, const void *bytes);
mf_error_object *mf_host_to(const mf_buffer *b, int64_t from, int64_t count, void *out);
const void *mf_host_view(const mf_buffer *b);

mf_buffer *mf_client_buffer(const mf_client *client, int device, size_t bytes); /* NULL when memory is out */
/* A row with `bytes` bytes on each device, or, for one device, its buffer. NULL when out of memory. */
mf_buffer *mf_client_row(const mf_client *client, int count, const int *devices, size_t bytes);
/* A copy of b as a row on these devices, or as one buffer. NULL: the client cannot copy it, or out of memory. */
mf_buffer *mf_client_row_copied(const mf_buffer *b, const int *devices);
/* The buffers of a row; a buffer that is no row counts as a row of itself. */
static inline int mf_buffer_count(const mf_buffer *b) { return b->part_count ? b->part_count : 1; }
static inline mf_buffer *mf_buffer_at(mf_buffer *b, int k) { return b->part_count ? b->parts[k] : b; }
/* The part of a row that holds byte *at, which becomes an offset in that part; b itself if b is no row. */
mf_buffer *mf_buffer_part(const mf_buffer *b, int64_t *at);
mf_error_object *mf_buffer_to_host(const mf_buffer *b, int64_t from, int64_t count, void *out); /* copies bytes that are valid */
/* The address at which the host can read b; NULL: it cannot. */
static inline const void *mf_buffer_host(const mf_buffer *b)
{
    return b->client->host_view && !b->part_count ? b->client->host_view(b) : NULL;
}

/* ---- the clients of this process. Any thread. */
enum { MF_MOST_CLIENTS = 16 };
/* An error: there are MF_MOST_CLIENTS already, or another client of this platform. c must live as long as the process. */
mf_error_object *mf_client_register(const mf_client *c);
const mf_client *mf_client_at(int index);              /* NULL beyond the last */
int mf_client_index(const mf_client *c);               /* -1: not registered */
const mf_client *mf_client_find(const char *platform); /* NULL: there is none */

/* The default client: where arrays are made and programs run unless something else decides. */
extern _Atomic(const mf_client *) mf_client_chosen; /* NULL: nobody has chosen or asked yet */
const mf_client *mf_client_first_default(void);     /* chooses by the environment (runtime/compile/segment_compilers.c) */
/* Takes precedence on this thread, while a plugin's program calls the host on it. NULL elsewhere. */
extern _Thread_local const mf_client *mf_client_of_thread;
static inline const mf_client *mf_client_default(void)
{
    if (mf_client_of_thread)
        return mf_client_of_thread;
    const mf_client *chosen = atomic_load_explicit(&mf_client_chosen, memory_order_acquire);
    return chosen ? chosen : mf_client_first_default();
}

#endif
