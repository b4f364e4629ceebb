/* A checkpoint of a job as it is being written, for those who write it: at once (checkpoint.c), or on a thread (checkpoint_manager.c). The
 * functions that are called together go through exchanges: all processes call them, in one order, whatever has happened. Public API only. */
#ifndef MF_IO_CHECKPOINT_CHECKPOINT_H
#define MF_IO_CHECKPOINT_CHECKPOINT_H

#include <manyfold.h>

typedef struct mf_checkpoint {
    const char *folder;
    mf_value rows, leaves; /* of rows */
    int leaf_count, processes, rank;
    int64_t slot, id, shards; /* shards: 0 where there are no rows */
    int64_t *told;            /* by process: its status, slot, id, and rows of each leaf */
    bool partial;             /* what is loaded may leave leaves where they are */
    mf_value error;           /* what went wrong first; unset where that was said elsewhere */
} mf_checkpoint;

/* Together: whether all can begin, the folder, and an id. Whatever it says, mf_checkpoint_end follows. */
mf_status mf_checkpoint_begin(mf_checkpoint *c, const char *folder, mf_value whole, mf_value rows);
/* This process's files; then, once those of all are there, process 0's index. Alone. */
mf_status mf_checkpoint_write_part(mf_checkpoint *c, mf_value whole);
mf_status mf_checkpoint_write_index(mf_checkpoint *c);
/* Together: one's own status, else that of another process, which could not do `what`. */
mf_status mf_checkpoint_agree(mf_checkpoint *c, mf_status own, const char *what);
void mf_checkpoint_end(mf_checkpoint *c);
/* A status with its error, the first one in c->error. */
mf_status mf_checkpoint_fail(mf_checkpoint *c, mf_status status, mf_value error);
/* Whether it is the name of one of a checkpoint's files, or of what a killed saver left of one beside it. */
bool mf_checkpoint_is_file(const char *name);

#endif
