/* Clients: who owns devices and the memory on them. Invariant: only a buffer's client touches its bytes; everybody else copies from and to
 * host memory, or looks through the client's host view where there is one.
 * A process has several clients side by side; the CPU's is always there (wire.c), others are registered and then stay. */
#ifndef MF_ARRAY_CLIENT_H
#define MF_ARRAY_CLIENT_H

#include "base/error.h"
#include "base/handles/object.h"

typedef struct mf_client mf_client;
struct mf_device_memory_stats_t; /* manyfold/device.h */

/* An event: the end of a piece of work that fills memory. States only move forward. */
typedef struct mf_future mf_future;
struct mf_future {
    mf_object object;
    _Atomic int state;                                             /* 0 pending, 1 done, 2 failed */
    mf_error_object *error;                                        /* set before state becomes 2 */
    void (*wait)(mf_future *f);                                    /* returns when state is not 0; may run queued work meanwhile */
    void (*then)(mf_future *f, void (*fn)(void *), void *context); /* calls fn once f ends (at once when it has) */
};

/* Memory of a device. Where the devices of a client have memory apart, an array on several of them has a row of buffers, one a device, in
 * the order of its sharding: a row is addressed as if they stood one behind the other, all of one size, and has no memory of its own. */
typedef struct mf_buffer {
    mf_object object;
    const mf_client *client;
    void *data; /* the client's: of the CPU's, the memory itself, 64-byte aligned */
    size_t bytes;
    mf_future *ready; /* the event after which its bytes are there; NULL: they are, or come with its array */
    int device;       /* its id; where the devices share their memory, none in particular */
    int part_count;   /* of a row; 0: memory */
    struct mf_buffer *parts[];
} mf_buffer;
extern const mf_class mf_buffer_class;

struct mf_client {
    const char *platform;           /* "cpu" */
    bool apart;                     /* each of its devices has memory of its own */
    bool alone;                     /* its devices are this process's, and programs run there, whatever other processes there are */
    bool (*allocate)(mf_buffer *b); /* sets data; false: memory is out */
    void (*release)(mf_buffer *b);  /* gives data back */
    bool (*from_host)(mf_buffer *b, const void *bytes);                                      /* all of them; false: memory is out */
    mf_error_object *(*to_host)(const mf_buffer *b, int64_t from, int64_t count, void *out); /* bytes */
    const void *(*host_view)(const mf_buffer *b);                                            /* NULL: the host cannot look at it */
    mf_buffer *(*copied)(const mf_buffer *b, int device); /* on another of its devices; gives NULL, or is NULL: by way of the host */
    int (*device_count)(const mf_client *c);              /* of this process; asked once, at the first use of its devices */
    /* Of one device; what it does not know stays as it is. NULL: it counts nothing for each. */
    mf_error_object *(*memory_stats)(const mf_client *c, int device, struct mf_device_memory_stats_t *out);
    const struct mf_backend *backend; /* runtime/backend.h: loads and executes programs; NULL: it only holds memory */
};
extern const mf_client mf_client_cpu;

/* The CPU's own functions, for mf_client_cpu. */
bool mf_host_allocate(mf_buffer *b);
void mf_host_release(mf_buffer *b);
bool mf_host_from(mf_buffer *b, const void *bytes);
mf_error_object *mf_host_to(const mf_buffer *b, int64_t from, int64_t count, void *out);
const void *mf_host_view(const mf_buffer *b);

mf_buffer *mf_client_buffer(const mf_client *client, int device, size_t bytes); /* NULL when memory is out */
/* A row, so many bytes on each device; of one device, its buffer. NULL when memory is out. */
mf_buffer *mf_client_row(const mf_client *client, int count, const int *devices, size_t bytes);
/* What b holds, as a row on these devices, or the one buffer. NULL: its client does not copy it, or memory is out. */
mf_buffer *mf_client_row_copied(const mf_buffer *b, const int *devices);
/* Its buffers: of what is no row, itself. */
static inline int mf_buffer_count(const mf_buffer *b) { return b->part_count ? b->part_count : 1; }
static inline mf_buffer *mf_buffer_at(mf_buffer *b, int k) { return b->part_count ? b->parts[k] : b; }
/* The part of a row that holds its byte `at`, which becomes the part's; b itself of what is no row. */
mf_buffer *mf_buffer_part(const mf_buffer *b, int64_t *at);
mf_error_object *mf_buffer_to_host(const mf_buffer *b, int64_t from, int64_t count, void *out); /* bytes that are there */
/* Where the host sees the bytes; NULL when it does not. */
static inline const void *mf_buffer_host(const mf_buffer *b)
{
    return b->client->host_view && !b->part_count ? b->client->host_view(b) : NULL;
}

/* ---- the clients of this process. Any thread. */
enum { MF_MOST_CLIENTS = 16 };
/* An error: there are MF_MOST_CLIENTS, or another one of its platform. c lives as long as the process. */
mf_error_object *mf_client_register(const mf_client *c);
const mf_client *mf_client_at(int index);              /* NULL beyond the last */
int mf_client_index(const mf_client *c);               /* -1: not registered */
const mf_client *mf_client_find(const char *platform); /* NULL: there is none */

/* Where arrays are made and programs run of which nothing else says it. */
extern _Atomic(const mf_client *) mf_client_chosen; /* NULL: nobody has chosen or asked yet */
const mf_client *mf_client_first_default(void);     /* by the environment, which becomes the choice: runtime/compile/segment_compilers.c */
/* Of this thread, before that choice: while a plugin's program calls the host from it. NULL elsewhere. */
extern _Thread_local const mf_client *mf_client_of_thread;
static inline const mf_client *mf_client_default(void)
{
    if (mf_client_of_thread)
        return mf_client_of_thread;
    const mf_client *chosen = atomic_load_explicit(&mf_client_chosen, memory_order_acquire);
    return chosen ? chosen : mf_client_first_default();
}

#endif
