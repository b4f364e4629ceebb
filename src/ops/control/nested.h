/* Ops with nested programs share these: checking operands against a program's inputs, splitting it, pruning it, emitting many results.
 * Scratch memory comes from the arena of the program under construction and dies with it. */
#ifndef MF_OPS_CONTROL_NESTED_H
#define MF_OPS_CONTROL_NESTED_H

#include "ops/emit.h"
#include "ops/params.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "transform/rules/partial.h"
#include "transform/rules/sweep.h"
#include "transform/rules/tangent.h"
#include "transform/transform.h"

/* Zeroed, one element spare; NULL after failing the builder. */
void *nested_room(mf_builder *b, int count, size_t size);
void nested_fail(mf_builder *b, mf_error_object *e);

/* ---- types; weak flags do not count */
bool nested_fits(const mf_type *a, const mf_type *b);
/* Operands from, from + 1, ... of the rule against p's inputs first, first + 1, ... (count of them). */
mf_error_object *nested_check(const mf_type_context *c, int from, const mf_program *p, int first, int count, const char *what);
mf_error_object *nested_check_results(const mf_type_context *c, const mf_program *p, int first, const mf_type *const *want, int count,
                                      const char *what);
const mf_type *nested_join(const mf_type *a, const mf_type *b); /* strong unless both are weak */

/* ---- emitting */
/* Lists of variables, appended to one another. */
typedef struct nested_list {
    int count;
    mf_variable **at;
} nested_list;
nested_list nested_list_new(mf_builder *b, int capacity);
void nested_put(nested_list *l, mf_variable *v);
/* p as a new program whose inputs are `order` of p's inputs (a position may be -1 - k: an extra input of type extra[k]) and whose
 * outputs are `out` of p's. */
mf_program *nested_rewire(const mf_program *p, const mf_axis_env *env, const int *order, int in_count, const mf_type *const *extra,
                          const int *out, int out_count, mf_error_object **error);

/* ---- splitting: partial evaluation of an equation's program */
typedef struct nested_parts {
    mf_program *known, *unknown; /* unknown: residuals, then the unknown inputs; outputs the unknown ones */
    bool *known_out;             /* by output of the program */
    int known_in_count;
    int *known_from;     /* by input of `known`: its position among the program's inputs; unused ones are left out */
    int known_out_count; /* known's outputs: these, then the residuals that do not merely forward an input */
    int residual_count;
    int *forward; /* by residual: the position of the program's input that it is, or -1 */
} nested_parts;
bool nested_split(mf_partial_context *c, const mf_axis_env *env, const mf_program *p, const bool *known_in, const bool *force_unknown,
                  nested_parts *parts);
void nested_parts_drop(nested_parts *parts);
/* The operands of `known`; then the outputs of e from those of the two emitted equations, in order. */
void nested_known_operands(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable **in);
void nested_set_known(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable *const *out);
void nested_set_unknown(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable *const *out);
bool *nested_known(mf_partial_context *c, const mf_eqn *e); /* by operand */

/* ---- calls: jit and remat, which differ in their params */
typedef struct nested_call {
    const mf_op *op;
    union {
        mf_jit_params jit;
        mf_remat_params remat; /* begins like the other */
    };
} nested_call;
nested_call nested_call_of(const mf_eqn *e, mf_program *p); /* e's params with another program; not retained */
mf_error_object *nested_call_type(mf_type_context *c);      /* of any params that begin with the program */
void nested_call_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                     mf_variable **tout);
void nested_call_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                           mf_variable **ct_in);
bool nested_call_dce(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params);
void nested_call_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis);
void nested_call_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out);
mf_cost nested_call_cost(const mf_eqn *e);

/* Transposes the program of `like` as a call of e's operands, whatever op e has. */
void nested_transpose_call(mf_builder *b, const nested_call *like, const mf_eqn *e, const bool *linear, mf_variable *const *in,
                           mf_variable *const *ct, mf_variable **ct_in);

/* ---- loops: of a body whose inputs are `consts` constants, the carry, and maybe more, and whose first results are the carry again. What the
 * carry has on its way in grows until it covers what comes out. One reference, or NULL after failing the builder. */
/* has, gives: by the body's inputs and results, whether there is a tangent. */
mf_program *nested_loop_jvp(mf_builder *b, const mf_program *body, int consts, int carries, bool *has, bool *gives);
/* axis, out_axis: by the body's inputs and results; the carry's batch is in front, that of other results where it falls. */
mf_program *nested_loop_batch(mf_batch_context *c, const mf_program *body, int consts, int carries, int *axis, int *out_axis);

/* ---- the rest */
void nested_forget(mf_error_object *e); /* an error that only meant "leave it as it is" */
/* p with the outputs that are used, and the inputs that those need. */
mf_program *nested_prune(const mf_program *p, const bool *used_out, bool *used_in, mf_error_object **error);
void nested_variance(const mf_program *p, const mf_axis_env *env, const uint64_t *in, uint64_t *out);
mf_cost nested_cost(const mf_program *p);
extern const char *const nested_no_samples[]; /* of ops that call functions of C, which no text can name */

#endif
