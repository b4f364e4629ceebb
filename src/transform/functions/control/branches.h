/* What cond, while and scan share: tracing several functions on one list of operands and bringing what they captured and which cells they
 * touched onto one list, so that their programs take the same inputs. */
#ifndef MF_TRANSFORM_FUNCTIONS_CONTROL_BRANCHES_H
#define MF_TRANSFORM_FUNCTIONS_CONTROL_BRANCHES_H

#include "base/memory/vector.h"
#include "trace/function.h"

typedef MF_VECTOR(mf_value) mf_values;

typedef struct mf_shared_cell {
    mf_state_cell *cell; /* borrowed from the traced programs, as the captures are */
    const mf_structure *structure;
    bool written;
} mf_shared_cell;

typedef struct mf_shared { /* the union over several traced programs; zeroes are an empty one */
    MF_VECTOR(mf_tracer *) captures;
    MF_VECTOR(mf_shared_cell) cells;
    MF_VECTOR(const mf_type *) cell_types; /* by leaf, inside */
} mf_shared;

mf_error_object *mf_shared_add(mf_shared *u, const mf_traced *t);
mf_error_object *mf_shared_add_cells(mf_shared *u, const mf_traced *t); /* those alone */
void mf_shared_free(mf_shared *u);
/* t's program over [captures of u] [operands of t] [cells of `cells`] in that order; outputs: results, then, when with_cells_out, every
 * cell (its new value, or what came in). out_types (may be NULL): results are converted to these (weak flags only differ). */
mf_program *mf_shared_program(const mf_shared *u, const mf_shared *cells, const mf_traced *t, const mf_axis_env *env, bool with_cells_out,
                              const mf_type *const *out_types, mf_error_object **error);
/* Appends the values of u's captures, or of its cells as the current trace sees them, as handles. */
mf_error_object *mf_shared_capture_values(const mf_shared *u, mf_values *out);
mf_error_object *mf_shared_cell_values(const mf_shared *u, mf_values *out);
mf_error_object *mf_values_append(mf_values *out, const mf_value *more, int count);
/* Writes the cells back from the op's results. */
mf_error_object *mf_shared_store(const mf_shared *u, const mf_value *values);
/* A value of this structure from leaf handles. */
mf_value mf_tree_of_values(const mf_structure *s, const mf_value *leaves);

#endif
