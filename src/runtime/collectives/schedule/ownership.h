/* Who has which ranks of a collective that spans processes, without a word for each of them: where ranks lie on a line of devices, as they
 * do unless somebody listed devices or groups in another order, it is computed; else each run of ranks that one process has is an entry.
 * Invariant: the runs cover all ranks, ascend, and two that follow one another belong to different processes. */
#ifndef MF_RUNTIME_COLLECTIVES_SCHEDULE_OWNERSHIP_H
#define MF_RUNTIME_COLLECTIVES_SCHEDULE_OWNERSHIP_H

#include "runtime/comm.h"

typedef struct mf_owned_run {
    int64_t first; /* rank */
    int process;
} mf_owned_run;

typedef struct mf_ownership {
    int64_t count, runs;      /* ranks; count 0: nobody has some of them */
    bool ordered;             /* every process has one run at most, and they ascend or descend with the ranks */
    const mf_owned_run *list; /* NULL: the line */
    const mf_comm *comm;
    int64_t device, step; /* of rank 0; from rank to rank */
    uint64_t hash;        /* of the devices of all ranks */
    bool sparse;          /* no process has two ranks; otherwise the line leaves out no process that lies between two of its own */
} mf_ownership;

/* Of so many ranks on the devices device, device + step, ... False: some device has no owner, or the line skips some processes but meets
 * others more than once. */
bool mf_ownership_line(mf_ownership *o, const mf_comm *c, int64_t device, int64_t step, int64_t count);
/* Of ranks on any devices; freed by mf_ownership_free. False: memory is out. */
bool mf_ownership_list(mf_ownership *o, const mf_comm *c, int64_t count, int (*device_of)(const void *context, int64_t rank),
                       const void *context);
void mf_ownership_free(mf_ownership *o);
size_t mf_ownership_bytes(const mf_ownership *o); /* of memory, beside itself */

int64_t mf_ownership_first(const mf_ownership *o, int64_t run); /* rank; of run o->runs: o->count */
int64_t mf_ownership_run_of(const mf_ownership *o, int64_t rank);
int mf_ownership_process(const mf_ownership *o, int64_t run); /* whose it is */

#endif
