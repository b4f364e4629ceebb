/* Clients: who owns devices and the memory on them. Invariant: only a buffer's client touches its bytes; everybody else copies from and to
 * host memory, or looks through the client's host view where there is one.
 * A process has several clients side by side; the CPU's is always there (wire.c), others are registered and then stay. */
#ifndef MF_ARRAY_CLIENT_H
#define MF_ARRAY_CLIENT_H

#include "base/error.h"
#include "base/object.h"

typedef struct mf_client mf_client;

/* Typed or not, memory of a client. */
typedef struct mf_buffer {
    mf_object object;
    const mf_client *client;
    void *data; /* the client's: of the CPU's, the memory itself, 64-byte aligned */
    size_t bytes;
} mf_buffer;
extern const mf_class mf_buffer_class;

struct mf_client {
    const char *platform;                                                        /* "cpu" */
    bool (*allocate)(mf_buffer *b);                                              /* sets data; false: memory is out */
    void (*release)(mf_buffer *b);                                               /* gives data back */
    void (*from_host)(mf_buffer *b, const void *bytes);                          /* all of them */
    void (*to_host)(const mf_buffer *b, int64_t from, int64_t count, void *out); /* bytes */
    const void *(*host_view)(const mf_buffer *b);                                /* NULL: the host cannot look at it */
    int (*device_count)(void);        /* of this process; asked once, at the first use of its devices */
    const struct mf_backend *backend; /* runtime/backend.h: loads and executes programs; NULL: it only holds memory */
};
extern const mf_client mf_client_cpu;

/* The CPU's own functions, for mf_client_cpu. */
bool mf_host_allocate(mf_buffer *b);
void mf_host_release(mf_buffer *b);
void mf_host_from(mf_buffer *b, const void *bytes);
void mf_host_to(const mf_buffer *b, int64_t from, int64_t count, void *out);
const void *mf_host_view(const mf_buffer *b);

mf_buffer *mf_client_buffer(const mf_client *client, size_t bytes); /* NULL when memory is out */
/* Where the host sees the bytes; NULL when it does not. */
static inline const void *mf_buffer_host(const mf_buffer *b) { return b->client->host_view ? b->client->host_view(b) : NULL; }

/* ---- the clients of this process. Any thread. */
enum { MF_MOST_CLIENTS = 16 };
/* An error: there are MF_MOST_CLIENTS, or another one of its platform. c lives as long as the process. */
mf_error_object *mf_client_register(const mf_client *c);
const mf_client *mf_client_at(int index);              /* NULL beyond the last */
int mf_client_index(const mf_client *c);               /* -1: not registered */
const mf_client *mf_client_find(const char *platform); /* NULL: there is none */

/* Where arrays are made and programs run of which nothing else says it. */
extern _Atomic(const mf_client *) mf_client_chosen;
static inline const mf_client *mf_client_default(void) { return atomic_load_explicit(&mf_client_chosen, memory_order_relaxed); }

#endif
