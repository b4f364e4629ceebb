/* Calls give way to their bodies: jit, remat and the custom rules, which mean something to transforms only. Recursive.
 * Invariant: afterwards nested programs belong to control flow and maps alone. */
#include "ops/rows.h"
#include "passes/rewrite.h"

static const mf_program *body_of_call(const mf_eqn *e)
{
    bool call = e->op == &mf_op_jit || e->op == &mf_op_remat || e->op == &mf_op_custom_jvp_call || e->op == &mf_op_custom_vjp_call;
    const mf_program *p = call ? *mf_params_program_at(e->op, e->params, 0) : NULL;
    return p && p->in_count == e->in_count && p->out_count == e->out_count ? p : NULL;
}

static void inline_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    const mf_program *body = body_of_call(e);
    if (body)
        mf_rewrite_body(r, body, e, in);
    else
        mf_rewrite_copy(r, e, in);
}

mf_program *mf_pass_inline_calls(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, inline_equation, mf_pass_inline_calls, NULL, error);
}
