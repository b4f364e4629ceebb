/* Who of the processes still lives: a connection from each to process 0, whose end without a goodbye is a death that all hear of. */
#ifndef MF_COMM_WATCH_H
#define MF_COMM_WATCH_H

#include <stdbool.h>
#include <stdint.h>

enum { MF_WATCH_ADDRESSES = 8 };

/* Where process 0 listens, and what it takes for one of its job's; travels by other means. */
typedef struct mf_watch_invitation {
    unsigned char secret[16];
    uint32_t at[MF_WATCH_ADDRESSES]; /* IPv4, in the network's order; 0: no more */
    uint32_t port;                   /* 0: nobody listens */
} mf_watch_invitation;

/* Of process 0. one_host: all are on this machine, so others need not reach it. False, with port 0: the system gives no socket. */
bool mf_watch_invite(bool one_host, mf_watch_invitation *invitation);
/* A thread that calls died(context, process) for each process but this one that dies from now on. False: there is no connection, and nobody
 * is told. One at a time. */
bool mf_watch_begin(int rank, int size, const mf_watch_invitation *invitation, void (*died)(void *context, int process), void *context);
/* Also where nothing has begun. well: the others need nothing more of this process; else it is dead to them. */
void mf_watch_end(bool well);

#endif
