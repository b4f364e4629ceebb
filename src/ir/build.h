/* Building programs. A builder collects equations; the ops' rules write to it. The first error sticks: later emits return poison variables
 * (scalars), and mf_builder_finish returns NULL with the error, so rules need no checks of their own. */
#ifndef MF_IR_BUILD_H
#define MF_IR_BUILD_H

#include "base/memory/hash_map.h"
#include "ir/program.h"

typedef struct mf_builder {
    mf_program *program;
    const mf_axis_env *env;
    mf_error_object *error; /* the first error */
    const void *address;    /* the location given to the equations; transforms set it from the equation they rewrite */
    int in_capacity, eqn_capacity, var_capacity;
    mf_hash_map constants; /* the variables of constants, keyed by what mf_literal_same compares */
} mf_builder;

void mf_builder_init(mf_builder *b, const mf_axis_env *env);
mf_variable *mf_builder_input(mf_builder *b, const mf_type *type);
mf_variable *mf_builder_constant(mf_builder *b, mf_literal *l); /* retains l; NULL stands for out of memory */
mf_variable *mf_builder_number(mf_builder *b, mf_dtype dtype, bool weak, double x);
void mf_builder_fail(mf_builder *b, mf_error_object *e); /* takes the reference; only the first error is kept */
/* The finished program with these outputs (one reference), or NULL and *error. Either way the builder is finished. */
mf_program *mf_builder_finish(mf_builder *b, mf_variable *const *out, int out_count, mf_error_object **error);
void mf_builder_abandon(mf_builder *b);

/* Appends an equation; params are copied. The equation and its results live in the program. */
mf_eqn *mf_emit_eqn(mf_builder *b, const struct mf_op *op, const void *params, mf_variable *const *in, int in_count);
#define MF_EMIT_MAX 16
mf_variable *mf_emit(mf_builder *b, const struct mf_op *op, const void *params, int in_count,
                     ...); /* for ops with one result; the arguments are mf_variable * */
/* Appends p's equations with its inputs bound to `in`; out receives the variables of p's outputs. */
void mf_inline(mf_builder *b, const mf_program *p, mf_variable *const *in, mf_variable **out);
/* Appends a copy of an equation with other operands; out receives its results. */
void mf_copy_eqn(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable **out);

#endif
