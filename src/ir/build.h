/* Building programs. A builder collects equations; rules write through it. The first error sticks: later emits give poison
 * variables (scalars), and mf_builder_finish gives NULL with the error, so rules need no checks of their own. */
#ifndef MF_IR_BUILD_H
#define MF_IR_BUILD_H

#include "base/memory/hash_map.h"
#include "ir/program.h"

typedef struct mf_builder {
    mf_program *program;
    const mf_axis_env *env;
    mf_error_object *error; /* the first */
    const void *address;    /* source of the equations being emitted; transforms set it from the equation they work on */
    int in_capacity, eqn_capacity, var_capacity;
    mf_hash_map constants; /* variables, by what mf_literal_same looks at */
} mf_builder;

void mf_builder_init(mf_builder *b, const mf_axis_env *env);
mf_variable *mf_builder_input(mf_builder *b, const mf_type *type);
mf_variable *mf_builder_constant(mf_builder *b, mf_literal *l); /* retains; NULL: memory is out */
mf_variable *mf_builder_number(mf_builder *b, mf_dtype dtype, bool weak, double x);
void mf_builder_fail(mf_builder *b, mf_error_object *e); /* takes the reference; the first wins */
/* The finished program with these outputs (one reference), or NULL and *error. Ends the builder either way. */
mf_program *mf_builder_finish(mf_builder *b, mf_variable *const *out, int out_count, mf_error_object **error);
void mf_builder_abandon(mf_builder *b);

/* Appends an equation (params are copied); the outputs, out_count of them, live in the program. */
mf_eqn *mf_emit_eqn(mf_builder *b, const struct mf_op *op, const void *params, mf_variable *const *in, int in_count);
#define MF_EMIT_MAX 16
mf_variable *mf_emit(mf_builder *b, const struct mf_op *op, const void *params, int in_count,
                     ...); /* one-result ops; mf_variable * arguments */
/* Appends p's equations with its inputs bound to `in`; out gets p's outputs in the new program. */
void mf_inline(mf_builder *b, const mf_program *p, mf_variable *const *in, mf_variable **out);
/* Copies one equation with other operands; out gets its results. */
void mf_copy_eqn(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable **out);

#endif
