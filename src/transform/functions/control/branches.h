/* Shared by cond, while and scan: tracing several functions on one list of operands, and merging what they captured and which cells they
 * touched, so that their programs take the same inputs. */
#ifndef MF_TRANSFORM_FUNCTIONS_CONTROL_BRANCHES_H
#define MF_TRANSFORM_FUNCTIONS_CONTROL_BRANCHES_H

#include "base/memory/vector.h"
#include "trace/function.h"

typedef MF_VECTOR(mf_value) mf_values;

typedef struct mf_shared_cell {
    mf_state_cell *cell; /* borrowed from the traced programs, like the captures */
    const mf_structure *structure;
    bool written;
} mf_shared_cell;

typedef struct mf_shared { /* the union over several traced programs; a zeroed one is empty */
    MF_VECTOR(mf_tracer *) captures;
    MF_VECTOR(mf_shared_cell) cells;
    MF_VECTOR(const mf_type *) cell_types; /* by leaf; the types inside all maps */
} mf_shared;

mf_error_object *mf_shared_add(mf_shared *u, const mf_traced *t);
mf_error_object *mf_shared_add_cells(mf_shared *u, const mf_traced *t); /* the cells only */
void mf_shared_free(mf_shared *u);
/* t's program with inputs [captures of u] [operands of t] [cells of `cells`]; outputs: the results and, if with_cells_out, every cell's
 * value (new, or unchanged). The results are converted to out_types, which may be NULL and differ in weak flags only. */
mf_program *mf_shared_program(const mf_shared *u, const mf_shared *cells, const mf_traced *t, const mf_axis_env *env, bool with_cells_out,
                              const mf_type *const *out_types, mf_error_object **error);
/* Appends handles for the values of u's captures, or of its cells as the current trace sees them. */
mf_error_object *mf_shared_capture_values(const mf_shared *u, mf_values *out);
mf_error_object *mf_shared_cell_values(const mf_shared *u, mf_values *out);
mf_error_object *mf_values_append(mf_values *out, const mf_value *more, int count);
/* Writes the op's results for cells back to the cells. */
mf_error_object *mf_shared_store(const mf_shared *u, const mf_value *values);
/* The value of this structure with these leaves. */
mf_value mf_tree_of_values(const mf_structure *s, const mf_value *leaves);

#endif
