/* A call in one of its ahead-of-time stages; shared by ahead.c (making, calling) and ahead_report.c (texts, types, costs). */
#ifndef MF_RUNTIME_STAGES_AHEAD_H
#define MF_RUNTIME_STAGES_AHEAD_H

#include "runtime/call/call.h"

/* The options of the classes "lowered" and "compiled". */
typedef struct mf_ahead {
    mf_traced *traced;         /* retained; without captures */
    const mf_client *client;   /* the client it was traced for */
    mf_program *program;       /* retained; optimised, as compiled */
    mf_executable *executable; /* retained; NULL when lowered */
    int arg_count, leaf_count;
    bool has_kwargs;
    const mf_structure *structures[MF_MAX_ARGUMENTS];
    mf_leaf *leaves; /* owned; objects of statics retained */
    bool *donated;   /* owned; by typed leaf; NULL: none */
} mf_ahead;

/* The stage of a lowered or compiled function, borrowed; NULL and *error. */
const mf_ahead *mf_ahead_of(mf_function function, mf_error_object **error);

/* The traced program of a call, of whose arguments only the types matter; one reference, or NULL and *error. storage: see
 * mf_signature_make. */
mf_traced *mf_ahead_trace(mf_function function, const mf_value *arguments, int count, mf_signature *s, mf_leaves *storage,
                          mf_function_object **f, mf_error_object **error);
/* The same, but the function may read values of an outer trace. */
mf_traced *mf_ahead_trace_here(mf_function function, const mf_value *arguments, int count, mf_signature *s, mf_leaves *storage,
                               mf_function_object **f, mf_error_object **error);

#endif
