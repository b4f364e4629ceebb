/* The interface for an op's .partial_eval. A variable of the program being split is known, unknown, or both. */
#ifndef MF_TRANSFORM_RULES_PARTIAL_H
#define MF_TRANSFORM_RULES_PARTIAL_H

#include "transform/transform.h"

struct mf_partial_context {
    const mf_axis_env *env;
    mf_builder known_builder, unknown_builder;
    mf_arena arena;        /* scratch memory of the rules; freed at the end */
    mf_variable **known;   /* by variable id of the source program: its variable in the known program, or NULL */
    mf_variable **unknown; /* likewise in the unknown program */
    int residual_count, residual_capacity;
    mf_variable **residuals;       /* in the known program */
    mf_variable **residual_inputs; /* the same values in the unknown program */
};
bool mf_partial_is_known(const mf_partial_context *c, const mf_variable *v);
/* The variable in the known program (constants included); only when known. */
mf_variable *mf_partial_known(mf_partial_context *c, const mf_variable *v);
/* The variable in the unknown program; a known one becomes a residual (constants are copied instead). */
mf_variable *mf_partial_unknown(mf_partial_context *c, const mf_variable *v);

/* ---- for ops that split their own programs */
mf_variable *mf_partial_residual(mf_partial_context *c, mf_variable *known); /* a known value's variable in the unknown program */
void mf_partial_set_known(mf_partial_context *c, const mf_variable *v, mf_variable *known);
void mf_partial_set_unknown(mf_partial_context *c, const mf_variable *v, mf_variable *unknown);
void mf_partial_all_known(mf_partial_context *c, const mf_eqn *e);     /* puts the whole equation on the known side */
void mf_partial_all_unknown(mf_partial_context *c, const mf_eqn *e);   /* puts it on the unknown side */
void *mf_partial_alloc(mf_partial_context *c, int count, size_t size); /* zeroed, with one spare element; NULL after failing the builder */
bool mf_partial_failed(const mf_partial_context *c);
void mf_partial_fail(mf_partial_context *c, mf_error_object *e); /* takes the reference */

#endif
