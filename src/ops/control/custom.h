/* Custom derivative rules, as custom_jvp_call and custom_vjp_call carry them. The tracing layer makes one per decorated function and fills
 * in the callbacks; the ops call them when a derivative is needed, with the types at that moment. A rule owns copies of its contexts.
 * Callbacks return one reference on a program, or NULL and *error; programs are traced under `env`, the axes that were in scope where the
 * call was recorded. The call's leading `consts` operands are captures of the primal function and are not passed to the rule. */
#ifndef MF_OPS_CONTROL_CUSTOM_H
#define MF_OPS_CONTROL_CUSTOM_H

#include "ir/op.h"

typedef struct mf_custom_rule mf_custom_rule;
struct mf_custom_rule {
    mf_custom_rule_head head; /* the object and its name, for printing */
    const mf_axis_env *env;
    /* custom_jvp. Inputs: the primals (count types), then a tangent for each inexact one. Outputs: the results, then a tangent for each
     * inexact one. NULL in a rule of custom_vjp. */
    mf_program *(*trace_jvp)(const mf_custom_rule *rule, const mf_type *const *types, int count, mf_error_object **error);
    /* custom_vjp. Inputs: the primals. Outputs: the results, then residuals. NULL in a rule of custom_jvp, like the next. */
    mf_program *(*trace_forward)(const mf_custom_rule *rule, const mf_type *const *types, int count, mf_error_object **error);
    /* Inputs: residuals, then a cotangent for each inexact result (count types in all). Outputs: a cotangent for each inexact primal, zeros
     * included. primals: the types passed to trace_forward. */
    mf_program *(*trace_backward)(const mf_custom_rule *rule, const mf_type *const *types, int count, const mf_type *const *primals,
                                  int primal_count, mf_error_object **error);
};

#endif
