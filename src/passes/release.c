/* Frees the program's results from barriers. No equation reads a result, so a barrier in front of one orders nothing, and the barrier's
 * operand becomes the result. The barrier itself stays: scheduling and fusion keep its order, and it disappears when steps are made.
 * Invariant: the order of the equations is kept. */
#include "ops/ops.h"
#include "passes/rewrite.h"

static bool is_result(const mf_program *p, const mf_variable *v)
{
    for (int o = 0; o < p->out_count; o++)
        if (p->out[o] == v)
            return true;
    return false;
}

static void release_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    mf_rewrite_copy(r, e, in);
    for (int o = 0; (e->op->flags & MF_OP_BARRIER) && o < e->out_count; o++)
        if (is_result(r->source, e->out[o]))
            r->map[e->out[o]->id] = in[o];
}

mf_program *mf_pass_release(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, release_equation, mf_pass_release, NULL, error);
}
