/* How the training programs stop and resume: checkpoints in the --out folder hold everything that the remaining training depends on, so a
 * resumed training ends with the same bits as an uninterrupted one. The including file defines PROGRAM. */
#ifndef EXAMPLES_GOING_ON_H
#define EXAMPLES_GOING_ON_H

#include "command_line.h"

typedef struct going_on {
    const char *out;
    bool resume;
    const char *unit, *may_change; /* what a checkpoint's number counts; the option that may differ when a training is resumed */
    mf_checkpoint_manager *manager;
} going_on;

/* A checkpoint's tree: the settings that must not change, the loader's position, the training state. */
static inline mf_value progress_of(const double *settings, int count, const mf_loader *l, mf_value state)
{
    return mf_dict("run", mf_from_host(MF_F64, MF_SHAPE(count), settings), "position", mf_scalar((double)mf_loader_position(l), MF_I64),
                   "state", state);
}

/* Restores checkpoint `step`: sets *state and the loader's position. `begun` is the progress_of an untrained run, whose structure and
 * settings the checkpoint must have. False after an error, which has been printed. */
static inline bool go_on(const going_on *g, const char *folder, int64_t step, mf_value begun, mf_loader *l, mf_value *state)
{
    mf_value saved = mf_checkpoint_manager_restore(g->manager, step, begun);
    if (report_error(saved))
        return false;
    if (!mf_item_bool(mf_array_equal(mf_get(saved, "run"), mf_get(begun, "run")))) {
        fprintf(stderr, PROGRAM ": %s is of a training with other settings; %s alone may change\n", folder, g->may_change);
        return false;
    }
    *state = mf_get(saved, "state");
    printf("Going on from %s, after %lld %s\n", folder, (long long)step, g->unit);
    return mf_loader_seek(l, mf_item_i64(mf_get(saved, "position"))) == MF_OK; /* mf_exit_status reports a failure */
}

/* Opens the checkpoint folder. With --resume, *state and the loader's position come from the newest checkpoint; otherwise *state is that of
 * `begun`. False after an error, which has been printed: also if --resume finds no checkpoint, or a run without it finds one. */
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
    return !report_error(*state);
}

#endif
