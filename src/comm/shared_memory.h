/* Memory that the processes of one machine share: a ring for small messages from each process to each, and a range for each process,
 * which the others can read. None of it has a name, and it goes away with the last process that maps it. */
#ifndef MF_COMM_SHARED_MEMORY_H
#define MF_COMM_SHARED_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MF_RING_BYTES = (64 << 10) - 128, MF_OFFERS = 4096 }; /* a ring with its two counts is 16 pages */

typedef struct mf_ring {
    _Alignas(64) _Atomic uint64_t put;   /* bytes put so far; this cache line is the sender's */
    uint64_t seen;                       /* the sender's last look at `taken` */
    _Alignas(64) _Atomic uint64_t taken; /* bytes taken so far; the receiver's cache line */
    _Alignas(64) unsigned char bytes[MF_RING_BYTES];
} mf_ring;

/* Puts a message of at most three parts. False: there is no room now. */
typedef struct mf_ring_part {
    const void *at;
    size_t count;
} mf_ring_part;
bool mf_ring_put(mf_ring *r, const mf_ring_part parts[3]);
bool mf_ring_holds_some(mf_ring *r); /* whether there is a message to take */
/* The oldest message, which stays until it is taken; NULL: there is none. *count is SIZE_MAX if its length is impossible. */
const unsigned char *mf_ring_next(mf_ring *r, size_t *count);
void mf_ring_take(mf_ring *r, size_t count);

typedef struct mf_shared_memory {
    int count, own, descriptor; /* number of processes, and this one's number among them */
    unsigned char *at;
    size_t bytes, range; /* of everything; of one process's range */
} mf_shared_memory;

/* How the other processes find the memory that one of them has made. */
typedef struct mf_shared_invitation {
    unsigned char secret[16];
    int32_t process, descriptor; /* process 0: there is no memory */
    uint64_t range;
} mf_shared_invitation;

/* Called by the first of `count` processes. False, with process 0 in the invitation: the system refuses it. */
bool mf_shared_make(mf_shared_memory *s, int count, mf_shared_invitation *i);
/* Called by the others. False: the memory cannot be reached, or belongs to another job. */
bool mf_shared_open(mf_shared_memory *s, int count, int own, const mf_shared_invitation *i);
/* Called when all have opened it: from now on mf_memory_get_shared allocates from this process's range. */
void mf_shared_begin(const mf_shared_memory *s);
void mf_shared_close(mf_shared_memory *s); /* also where not all could open it, or nothing was made */

mf_ring *mf_shared_ring(const mf_shared_memory *s, int from, int to);
_Atomic uint64_t *mf_shared_offers(const mf_shared_memory *s, int of); /* MF_OFFERS words, which their owner sets and others change */
unsigned char *mf_shared_range(const mf_shared_memory *s, int of);
/* The position of these bytes in this process's range, plus 1; 0: they are not in it. */
uint64_t mf_shared_find(const mf_shared_memory *s, const void *bytes, size_t count);

#endif
