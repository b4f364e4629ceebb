/* Gradients with respect to state cells (nnx's DiffState, brainstate's grad_states): which inputs of a traced function come from cells that
 * a filter accepts, as a dict of dicts by the cells' paths. Invariant: the entries are in the order of the structure's leaves. */
#ifndef MF_TRANSFORM_STATE_DIFF_STATES_H
#define MF_TRANSFORM_STATE_DIFF_STATES_H

#include "base/memory/vector.h"
#include "trace/function.h"

typedef struct mf_diff_state {
    const char *path; /* interned */
    const mf_touched_cell *cell;
    int input; /* the first of its inputs in the program */
} mf_diff_state;
typedef struct mf_diff_states {
    MF_VECTOR(mf_diff_state) at;
    const mf_structure *structure;
} mf_diff_states;

/* Finds the states that t reads and the filter accepts. An integer state is an error that names it, unless allow_int. */
mf_error_object *mf_diff_states_find(mf_diff_states *d, const mf_traced *t, const mf_filter_object *filter, bool allow_int,
                                     const char *what);
void mf_diff_states_free(mf_diff_states *d);

#endif
