/* Replaces calls by their bodies: jit, remat and the custom rules, which matter to transforms only. Recursive. Invariant: afterwards only
 * control flow and maps have nested programs. */
#include "ops/ops.h"
#include "passes/rewrite.h"

static const mf_program *body_of_call(const mf_eqn *e)
{
    bool call = e->op->flags & MF_OP_CALL;
    const mf_program *p = call ? *mf_params_program_at(e->op, e->params, 0) : NULL;
    return p && p->in_count == e->in_count && p->out_count == e->out_count ? p : NULL;
}

/* Whether e is a rematerialisation that CSE must not merge with the original computation. */
static bool computes_again(const mf_eqn *e)
{
    const mf_remat_params *p = e->params;
    return e->op == &mf_op_remat && p->differentiated && p->prevent_cse;
}

/* Passes all operands through one barrier, so that the recomputation also waits for the cotangents. */
static void put_barrier(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    mf_variable **some = mf_rewrite_alloc(r, e->in_count, sizeof *some);
    int n = 0;
    for (int i = 0; some && i < e->in_count; i++)
        if (!in[i]->constant)
            some[n++] = in[i];
    const mf_eqn *barrier = n ? mf_emit_eqn(r->b, &mf_op_optimization_barrier, NULL, some, n) : NULL;
    for (int i = 0, next = 0; i < e->in_count && barrier && !r->b->error; i++)
        if (!in[i]->constant)
            in[i] = barrier->out[next++];
}

static void inline_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    const mf_program *body = body_of_call(e);
    if (body && computes_again(e))
        put_barrier(r, e, in);
    if (body)
        mf_rewrite_body(r, body, e, in);
    else
        mf_rewrite_copy(r, e, in);
}

mf_program *mf_pass_inline_calls(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, inline_equation, mf_pass_inline_calls, NULL, error);
}
