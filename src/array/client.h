/* Clients: who owns devices and the memory on them. Invariant: only a buffer's client touches its bytes; everybody else copies from and to
 * host memory, or looks through the client's host view where there is one. */
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
};
extern const mf_client mf_client_cpu;

mf_buffer *mf_client_buffer(const mf_client *client, size_t bytes); /* NULL when memory is out */
/* Where the host sees the bytes; NULL when it does not. */
static inline const void *mf_buffer_host(const mf_buffer *b) { return b->client->host_view ? b->client->host_view(b) : NULL; }

#endif
