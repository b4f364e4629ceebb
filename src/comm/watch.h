/* Detects dead processes: each process has a connection to process 0, which tells all the others when one ends without a goodbye. */
#ifndef MF_COMM_WATCH_H
#define MF_COMM_WATCH_H

#include <stdbool.h>
#include <stdint.h>

enum { MF_WATCH_ADDRESSES = 8 };

/* Where process 0 listens, and the secret by which it recognises its job's processes. Sent by other means. */
typedef struct mf_watch_invitation {
    unsigned char secret[16];
    uint32_t at[MF_WATCH_ADDRESSES]; /* IPv4, in network byte order; 0: no more */
    uint32_t port;                   /* 0: nobody listens */
} mf_watch_invitation;

/* Called by process 0. one_host: all processes are on this machine, so it listens on the loopback interface only. False, with port 0:
 * the system gives no socket. */
bool mf_watch_invite(bool one_host, mf_watch_invitation *invitation);
/* Starts a thread that calls died(context, process) for each other process that dies from now on. False: there is no connection, and
 * nothing is reported. Calls of `died` do not overlap. */
bool mf_watch_begin(int rank, int size, const mf_watch_invitation *invitation, void (*died)(void *context, int process), void *context);
/* Also where nothing has begun. well: this process says goodbye; else the others consider it dead. */
void mf_watch_end(bool well);

#endif
