/* Shared by the ops with nested programs: checking operands against a program's inputs, splitting it, pruning it, emitting many results.
 * Scratch memory comes from the arena of the program under construction and lives as long as it. */
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

/* Zeroed, with room for one element more; NULL after failing the builder. */
void *nested_alloc(mf_builder *b, int count, size_t size);
void nested_fail(mf_builder *b, mf_error_object *e);

/* ---- types; weak flags are ignored */
bool nested_fits(const mf_type *a, const mf_type *b);
/* Checks the rule's operands from, from + 1, ... against p's inputs first, first + 1, ... (count of them). */
mf_error_object *nested_check(const mf_type_context *c, int from, const mf_program *p, int first, int count, const char *what);
mf_error_object *nested_check_results(const mf_type_context *c, const mf_program *p, int first, const mf_type *const *want, int count,
                                      const char *what);
const mf_type *nested_join(const mf_type *a, const mf_type *b); /* strong unless both are weak */

/* ---- emitting */
/* A list of variables under construction. */
typedef struct nested_list {
    int count;
    mf_variable **at;
} nested_list;
nested_list nested_list_new(mf_builder *b, int capacity);
void nested_put(nested_list *l, mf_variable *v);
/* p as a new program whose inputs are those of p's inputs in `order` (an entry -1 - k is an extra input of type extra[k]) and whose outputs
 * are those of p's outputs in `out`. */
mf_program *nested_rewire(const mf_program *p, const mf_axis_env *env, const int *order, int in_count, const mf_type *const *extra,
                          const int *out, int out_count, mf_error_object **error);

/* ---- splitting: partial evaluation of an equation's program */
typedef struct nested_parts {
    mf_program *known, *unknown; /* unknown: takes residuals, then the unknown inputs; gives the unknown outputs */
    bool *known_out;             /* by output of the program */
    int known_in_count;
    int *known_from;     /* by input of `known`: its position among the program's inputs; unused inputs are left out */
    int known_out_count; /* known's outputs: this many, then the residuals that are not just forwarded inputs */
    int residual_count;
    int *forward; /* by residual: the position of the program's input that it forwards, or -1 */
} nested_parts;
bool nested_split(mf_partial_context *c, const mf_axis_env *env, const mf_program *p, const bool *known_in, const bool *force_unknown,
                  nested_parts *parts);
void nested_parts_drop(nested_parts *parts);
/* nested_known_operands: the operands of `known`. The others set the outputs of e from the results of the two emitted equations, in
 * order. */
void nested_known_operands(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable **in);
void nested_set_known(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable *const *out);
void nested_set_unknown(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable *const *out);
bool *nested_known(mf_partial_context *c, const mf_eqn *e); /* by operand: whether it is known */

/* ---- calls: jit and remat, which differ in their params */
typedef struct nested_call {
    const mf_op *op;
    union {
        mf_jit_params jit;
        mf_remat_params remat; /* begins like mf_jit_params */
    };
} nested_call;
nested_call nested_call_of(const mf_eqn *e, mf_program *p); /* e's params with program p, which is not retained */
mf_error_object *nested_call_type(mf_type_context *c);      /* for any params that begin with the program */
void nested_call_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                     mf_variable **tout);
void nested_call_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                           mf_variable **ct_in);
bool nested_call_dce(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params);
void nested_call_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis);
void nested_call_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out);
mf_cost nested_call_cost(const mf_eqn *e);

/* Transposes the program of `like` as a call of e's operands, whatever e's op. */
void nested_transpose_call(mf_builder *b, const nested_call *like, const mf_eqn *e, const bool *linear, mf_variable *const *in,
                           mf_variable *const *ct, mf_variable **ct_in);

/* ---- loops, whose body takes `consts` constants, the carry, and maybe more inputs, and whose first results are the next carry. The
 * property (a tangent, a batch dimension) of the carry's inputs is extended until it covers its outputs. One reference, or NULL after
 * failing the builder. */
/* has, gives: by the body's inputs and results, whether there is a tangent. */
mf_program *nested_loop_jvp(mf_builder *b, const mf_program *body, int consts, int carries, bool *has, bool *gives);
/* axis, out_axis: by the body's inputs and results; the carry's batch is in front, that of other results anywhere. */
mf_program *nested_loop_batch(mf_batch_context *c, const mf_program *body, int consts, int carries, int *axis, int *out_axis);

/* ---- the rest */
void nested_forget(mf_error_object *e); /* drops an error that only means "leave it unchanged" */
/* p with only the used outputs and the inputs that they need. */
mf_program *nested_prune(const mf_program *p, const bool *used_out, bool *used_in, mf_error_object **error);
void nested_variance(const mf_program *p, const mf_axis_env *env, const uint64_t *in, uint64_t *out);
mf_cost nested_cost(const mf_program *p);
extern const char *const nested_no_samples[]; /* for ops that call C functions, which cannot be written in a text */

#endif
