/* A communicator over any link that moves bytes between numbered processes. */
#ifndef MF_COMM_MESSAGES_H
#define MF_COMM_MESSAGES_H

#include "runtime/comm.h"

/* Point-to-point transfers, begun by a call and ended when `test` says so; in order between two processes under one tag. Called by one
 * thread at a time, and never blocks. All return 0, or what `error` has the words for. */
typedef struct mf_link mf_link;
struct mf_link {
    size_t most; /* bytes of one transfer */
    int tags;    /* 0 to tags - 1 may be used */
    int (*send)(mf_link *l, int to, int tag, const void *bytes, size_t count, uintptr_t *request);
    int (*receive)(mf_link *l, int from, int tag, void *bytes, size_t most, uintptr_t *request); /* from -1: anybody */
    int (*test)(mf_link *l, uintptr_t *request, bool *done, size_t *count);                      /* count: of a receive, what came */
    mf_error_object *(*error)(mf_link *l, int code);
};

/* A communicator over the link, which the caller still owns, with a thread that keeps it going; first_device is kept. NULL with *error. */
mf_comm *mf_messages_new(mf_link *link, int rank, int size, const int *first_device, double timeout, mf_error_object **error);
struct mf_shared_memory;
/* Between the `processes` that share this memory, which has their numbers as they are listed, messages go by it and not over the link. s
 * is kept. Before anything is sent. False: memory is out, and they do not. */
bool mf_messages_share(mf_comm *c, const struct mf_shared_memory *s, const int *processes);
void mf_messages_free(mf_comm *c);              /* it has left, its link is not used any more, and nobody uses it */
void mf_messages_died(mf_comm *c, int process); /* what is awaited of it ends in an error, and whatever will be */

#endif
