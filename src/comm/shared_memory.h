/* Memory that the processes of one machine share: a ring for small messages from each to each, and of each process a range of its own,
 * in which the others read. Nothing of it has a name, and it ends with the last process that maps it. */
#ifndef MF_COMM_SHARED_MEMORY_H
#define MF_COMM_SHARED_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MF_RING_BYTES = (64 << 10) - 128, MF_OFFERS = 4096 }; /* a ring with its counts is 16 pages */

typedef struct mf_ring {
    _Alignas(64) _Atomic uint64_t put;   /* bytes so far; this line is the sender's */
    uint64_t seen;                       /* of taken */
    _Alignas(64) _Atomic uint64_t taken; /* the receiver's */
    _Alignas(64) unsigned char bytes[MF_RING_BYTES];
} mf_ring;

/* A message in at most three parts. False: there is no room now. */
typedef struct mf_ring_part {
    const void *at;
    size_t count;
} mf_ring_part;
bool mf_ring_put(mf_ring *r, const mf_ring_part parts[3]);
bool mf_ring_holds_some(mf_ring *r); /* messages that are not taken */
/* The oldest message, which stays until it is taken; NULL: there is none. *count: SIZE_MAX where its length is no possible one. */
const unsigned char *mf_ring_next(mf_ring *r, size_t *count);
void mf_ring_take(mf_ring *r, size_t count);

typedef struct mf_shared_memory {
    int count, own, descriptor; /* processes, and this one's number among them */
    unsigned char *at;
    size_t bytes, range; /* of all, and of one process's range */
} mf_shared_memory;

/* How the others find what one of them has made. */
typedef struct mf_shared_invitation {
    unsigned char secret[16];
    int32_t process, descriptor; /* process 0: there is nothing */
    uint64_t range;
} mf_shared_invitation;

/* By the first of `count` processes. False, with process 0: the system refuses it. */
bool mf_shared_make(mf_shared_memory *s, int count, mf_shared_invitation *i);
/* By the others. False: it cannot be reached, or is another job's. */
bool mf_shared_open(mf_shared_memory *s, int count, int own, const mf_shared_invitation *i);
/* All have it: mf_memory_get_shared gets from this process's range from now on. */
void mf_shared_begin(const mf_shared_memory *s);
void mf_shared_close(mf_shared_memory *s); /* not all have it; also where nothing was made */

mf_ring *mf_shared_ring(const mf_shared_memory *s, int from, int to);
_Atomic uint64_t *mf_shared_offers(const mf_shared_memory *s, int of); /* MF_OFFERS words that its owner sets and others change */
unsigned char *mf_shared_range(const mf_shared_memory *s, int of);
/* Where in this process's range it lies, from 1 on; 0: not there. */
uint64_t mf_shared_find(const mf_shared_memory *s, const void *bytes, size_t count);

#endif
