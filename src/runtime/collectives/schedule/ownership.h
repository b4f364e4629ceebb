/* Which process has which ranks of a collective that spans processes, without memory for each rank. Where the ranks' devices are on a line,
 * as they are unless the user listed devices or groups in another order, it is computed; otherwise each run of ranks of one process is an
 * entry.
 * Invariant: the runs cover all ranks in ascending order, and neighbouring runs belong to different processes. */
#ifndef MF_RUNTIME_COLLECTIVES_SCHEDULE_OWNERSHIP_H
#define MF_RUNTIME_COLLECTIVES_SCHEDULE_OWNERSHIP_H

#include "runtime/comm.h"

typedef struct mf_owned_run {
    int64_t first; /* rank */
    int process;
} mf_owned_run;

typedef struct mf_ownership {
    int64_t count, runs;      /* of ranks, of runs; count 0: some rank has no owner */
    bool ordered;             /* every process has at most one run, and processes ascend or descend with the ranks */
    const mf_owned_run *list; /* NULL: the ranks are on a line */
    const mf_comm *comm;
    int64_t device, step; /* of rank 0; between neighbouring ranks */
    uint64_t hash;        /* of the devices of all ranks */
    bool sparse;          /* no process has two ranks; otherwise the line skips no process between its first and its last */
} mf_ownership;

/* For `count` ranks on the devices device, device + step, ... False: some device has no owner, or the line skips some processes but has
 * several ranks in others. */
bool mf_ownership_line(mf_ownership *o, const mf_comm *c, int64_t device, int64_t step, int64_t count);
/* For ranks on any devices; freed by mf_ownership_free. False: memory is out. */
bool mf_ownership_list(mf_ownership *o, const mf_comm *c, int64_t count, int (*device_of)(const void *context, int64_t rank),
                       const void *context);
void mf_ownership_free(mf_ownership *o);
size_t mf_ownership_bytes(const mf_ownership *o); /* memory beside the struct itself */

int64_t mf_ownership_first(const mf_ownership *o, int64_t run); /* the run's first rank; of run o->runs: o->count */
int64_t mf_ownership_run_of(const mf_ownership *o, int64_t rank);
int mf_ownership_process(const mf_ownership *o, int64_t run); /* the run's process */

#endif
