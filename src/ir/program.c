/* The destruction of programs. Invariant: the lists of inputs, equations and variables are heap memory that the builder grew; everything
 * else lives in the arena. A program holds one reference on each constant and, through its equations' params, on each nested program and
 * rule. */
#include "ir/op.h"

static void program_destroy(mf_object *o)
{
    mf_program *p = (mf_program *)o;
    for (int i = 0; i < p->eqn_count; i++)
        mf_params_drop(p->eqns[i]->op, p->eqns[i]->params);
    for (int i = 0; i < p->var_count; i++)
        mf_drop(p->vars[i]->constant);
    mf_free(p->in);
    mf_free(p->eqns);
    mf_free(p->vars);
    mf_arena_free(&p->arena);
}

const mf_class mf_program_class = { "program", program_destroy };
