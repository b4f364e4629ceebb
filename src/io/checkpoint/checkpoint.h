/* A checkpoint that is being written, either synchronously (checkpoint.c) or on a thread (checkpoint_manager.c). Functions marked
 * "collective" exchange data between processes: all processes must call them in the same order, even after errors. Uses the public API
 * only. */
#ifndef MF_IO_CHECKPOINT_CHECKPOINT_H
#define MF_IO_CHECKPOINT_CHECKPOINT_H

#include <manyfold.h>

typedef struct mf_checkpoint {
    const char *folder;
    mf_value rows, leaves; /* of rows */
    int leaf_count, processes, rank;
    int64_t slot, id, shards; /* shards: 0 if there are no rows */
    int64_t *reports;         /* for each process: its status, slot, id, and numbers of rows of each leaf */
    bool partial;             /* when loading, the file may have leaves that are not requested */
    mf_value error;           /* the first error; unset if it was reported elsewhere */
} mf_checkpoint;

/* Collective. Makes the folder, chooses slot and id, and returns whether all processes can begin. mf_checkpoint_end must follow, also after
 * an error. */
mf_status mf_checkpoint_begin(mf_checkpoint *c, const char *folder, mf_value whole, mf_value rows);
/* Not collective. Every process writes its part; when all parts are written, process 0 writes the index. */
mf_status mf_checkpoint_write_part(mf_checkpoint *c, mf_value whole);
mf_status mf_checkpoint_write_index(mf_checkpoint *c);
/* Collective. Returns the own status if it is an error, else an error if another process could not do `what`. */
mf_status mf_checkpoint_agree(mf_checkpoint *c, mf_status own, const char *what);
void mf_checkpoint_end(mf_checkpoint *c);
/* Returns the status; the first error is remembered in c->error. */
mf_status mf_checkpoint_fail(mf_checkpoint *c, mf_status status, mf_value error);
/* Whether it is the name of a checkpoint's file, or of a temporary file that a killed process left. */
bool mf_checkpoint_is_file(const char *name);

#endif
