/* A communicator over any link that moves bytes between numbered processes. */
#ifndef MF_COMM_MESSAGES_H
#define MF_COMM_MESSAGES_H

#include "runtime/comm.h"

/* Point-to-point transfers, which a call begins and `test` completes; messages between two processes under one tag arrive in order.
 * Called by one thread at a time, and never blocks. All return 0, or a code that `error` describes. */
typedef struct mf_link mf_link;
struct mf_link {
    size_t most; /* bytes of one transfer */
    int tags;    /* 0 to tags - 1 may be used */
    int (*send)(mf_link *l, int to, int tag, const void *bytes, size_t count, uintptr_t *request);
    int (*receive)(mf_link *l, int from, int tag, void *bytes, size_t most, uintptr_t *request); /* from -1: any process */
    int (*test)(mf_link *l, uintptr_t *request, bool *done, size_t *count);                      /* *count: the bytes that a receive got */
    mf_error_object *(*error)(mf_link *l, int code);
};

/* A communicator over the link, with a thread that makes progress on it. The caller still owns the link, and first_device must outlive
 * the communicator. NULL with *error. */
mf_comm *mf_messages_new(mf_link *link, int rank, int size, const int *first_device, double timeout, mf_error_object **error);
struct mf_shared_memory;
/* Lets messages between the listed processes go by the memory that they share; process i of the memory is processes[i]. s must outlive
 * the communicator. Call it before anything is sent. False: memory is out, and they go over the link. */
bool mf_messages_share(mf_comm *c, const struct mf_shared_memory *s, const int *processes);
void mf_messages_free(mf_comm *c);              /* after it has left, when neither it nor its link is used any more */
void mf_messages_died(mf_comm *c, int process); /* fails what waits for this process, and whatever will */

#endif
