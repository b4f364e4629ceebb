/* How the training programs stop and go on: checkpoints in the folder after --out, with all that the rest of a training follows from, so that
 * it ends with the same bits as one that nobody stopped. The including file says what PROGRAM it is. */
#ifndef EXAMPLES_GOING_ON_H
#define EXAMPLES_GOING_ON_H

#include "command_line.h"

typedef struct going_on {
    const char *out;
    bool resume;
    const char *unit, *may_change; /* what a checkpoint's number counts; the options that may be others when a training goes on */
    mf_checkpoint_manager *manager;
} going_on;

/* A checkpoint: the settings that may not change, where the loader stands, and the state of the training. */
static inline mf_value progress_of(const double *settings, int count, const mf_loader *l, mf_value state)
{
    return mf_dict("run", mf_from_host(MF_F64, MF_SHAPE(count), settings), "position", mf_scalar((double)mf_loader_position(l), MF_I64),
                   "state", state);
}

/* The state in the newest checkpoint, and the loader where it stood; `begun` is as long as nothing has been trained. False after a message. */
static inline bool go_on(const going_on *g, const char *folder, int64_t step, mf_value begun, mf_loader *l, mf_value *state)
{
    mf_value saved = mf_checkpoint_manager_restore(g->manager, step, begun);
    if (told(saved))
        return false;
    if (!mf_item_bool(mf_array_equal(mf_get(saved, "run"), mf_get(begun, "run")))) {
        fprintf(stderr, PROGRAM ": %s is of a training with other settings; %s alone may change\n", folder, g->may_change);
        return false;
    }
    *state = mf_get(saved, "state");
    printf("Going on from %s, after %lld %s\n", folder, (long long)step, g->unit);
    return mf_loader_seek(l, mf_item_i64(mf_get(saved, "position"))) == MF_OK; /* if not, mf_exit_status says why */
}

/* Opens the checkpoints: with --resume the loader moves to where the newest one left it, and *state is the state there; else that of begun.
 * False after a message, also where the one is asked for and the other is there. */
static inline bool begin_or_go_on(going_on *g, mf_value begun, mf_loader *l, mf_value *state)
{
    char folder[4096];
    if (!path_in(g->out, PROGRAM "-checkpoints", folder, sizeof folder) || !make_folder(g->out))
        return false;
    g->manager = mf_checkpoint_manager_open(folder, .max_to_keep = 2);
    int64_t step = mf_checkpoint_manager_latest_step(g->manager);
    if (step < 0 && g->resume)
        fprintf(stderr, PROGRAM ": %s has no checkpoint to go on from\n", folder);
    if (step >= 0 && !g->resume)
        fprintf(stderr, PROGRAM ": %s has a training of %lld %s: --resume goes on with it, --out names another folder\n", folder,
                (long long)step, g->unit);
    if ((step >= 0) != g->resume)
        return false;
    if (g->resume)
        return go_on(g, folder, step, begun, l, state);
    *state = mf_get(begun, "state");
    return !told(*state);
}

#endif
