/* Barriers go: nothing that follows merges or moves equations past one another, so each result is its operand again.
 * Invariant: the order of the other equations is kept. */
#include "ops/rows.h"
#include "passes/rewrite.h"

static void release_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    if (e->op != &mf_op_optimization_barrier) {
        mf_rewrite_copy(r, e, in);
        return;
    }
    for (int o = 0; o < e->out_count; o++)
        r->map[e->out[o]->id] = in[o];
}

mf_program *mf_pass_release(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, release_equation, mf_pass_release, NULL, error);
}
