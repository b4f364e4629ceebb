/* What cond, while and scan share: tracing several functions on one list of operands and bringing what they captured and which cells they
 * touched onto one list, so that their programs take the same inputs. */
#ifndef MF_TRANSFORM_BRANCHES_H
#define MF_TRANSFORM_BRANCHES_H

#include "trace/function.h"

#include <manyfold/function.h>

typedef struct mf_shared { /* the union over several traced programs */
    int capture_count, cell_count, cell_leaves;
    mf_tracer *captures[256]; /* borrowed from the traced programs */
    mf_state_cell *cells[64];
    const mf_structure *structures[64];
    const mf_type *cell_types[256]; /* by leaf, inside */
    bool written[64];
} mf_shared;

mf_error_object *mf_shared_add(mf_shared *u, const mf_traced *t);
/* t's program over [captures of u] [operands of t] [cells of u] in that order; outputs: results, then every cell of u (its new value, or
 * what came in). out_types (may be NULL): results are converted to these (weak flags only differ). */
mf_program *mf_shared_program(const mf_shared *u, const mf_traced *t, const mf_axis_env *env, bool with_cells_out,
                              const mf_type *const *out_types, mf_error_object **error);
/* Appends the values of u's captures, or of its cells as the current trace sees them, as handles. */
int mf_shared_capture_values(const mf_shared *u, mf_value *out);
mf_error_object *mf_shared_cell_values(const mf_shared *u, mf_value *out);
/* Writes the cells back from the op's results. */
mf_error_object *mf_shared_store(const mf_shared *u, const mf_value *values);
/* A value of this structure from leaf handles. */
mf_value mf_tree_of_values(const mf_structure *s, const mf_value *leaves);

#endif
