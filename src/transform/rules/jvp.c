/* Forward mode: every equation is replaced by what its op's jvp rule emits. Invariant: a zero tangent is NULL until a value is required, so
 * equations that do not depend on the differentiated inputs are copied unchanged. Each emitted tangent equation is linear in the tangents,
 * as partial evaluation and transposition require. */
#include "transform/rules/sweep.h"
#include "transform/rules/tangent.h"

typedef struct forward {
    const mf_program *p;
    mf_builder b;
    mf_arena arena;
    mf_variable **primal, **tangent; /* by variable id of p */
} forward;

static mf_variable *primal_of(forward *f, const mf_variable *v)
{
    if (!f->primal[v->id])
        f->primal[v->id] = v->constant ? mf_builder_constant(&f->b, v->constant) : mf_poison(&f->b);
    return f->primal[v->id];
}

static void *alloc(forward *f, int count)
{
    void *at = mf_arena_alloc(&f->arena, ((size_t)count + 1) * sizeof(mf_variable *));
    if (!at)
        mf_builder_fail_memory(&f->b);
    return at;
}

static void take_inputs(forward *f, const bool *has_tangent)
{
    for (int i = 0; i < f->p->in_count; i++)
        f->primal[f->p->in[i]->id] = mf_builder_input(&f->b, f->p->in[i]->type);
    for (int i = 0; i < f->p->in_count; i++) {
        const mf_type *t = mf_tangent_type(f->p->in[i]->type);
        if (!has_tangent[i])
            continue;
        if (t)
            f->tangent[f->p->in[i]->id] = mf_builder_input(&f->b, t);
        else
            mf_builder_fail(&f->b, mf_error_new(MF_ERROR_DTYPE, "differentiation needs inputs of a floating type; input %d is %s", i,
                                                mf_type_name(f->p->in[i]->type)));
    }
}

static void keep_results(forward *f, const mf_eqn *e, mf_variable *const *out, mf_variable *const *tout)
{
    for (int o = 0; o < e->out_count; o++) {
        f->primal[e->out[o]->id] = out[o];
        if (tout && tout[o] && mf_tangent_type(e->out[o]->type))
            f->tangent[e->out[o]->id] = mf_tangent_fit(&f->b, tout[o], e->out[o]->type, e->op->name);
    }
}

static void differentiate(forward *f, const mf_eqn *e)
{
    mf_variable **in = alloc(f, e->in_count), **tin = alloc(f, e->in_count);
    mf_variable **out = alloc(f, e->out_count), **tout = alloc(f, e->out_count);
    bool any = false;
    if (f->b.error)
        return;
    for (int i = 0; i < e->in_count; i++) {
        in[i] = primal_of(f, e->in[i]);
        tin[i] = f->tangent[e->in[i]->id];
        any = any || tin[i];
    }
    f->b.address = e->address;
    if (any)
        e->op->jvp(&f->b, e, in, tin, out, tout);
    else
        mf_copy_eqn(&f->b, e, in, out);
    if (!f->b.error)
        keep_results(f, e, out, any ? tout : NULL);
}

static mf_program *give_outputs(forward *f, bool *out_tangent, mf_error_object **error)
{
    const mf_program *p = f->p;
    mf_variable **out = alloc(f, 2 * p->out_count);
    int count = p->out_count;
    if (f->b.error)
        return mf_builder_finish(&f->b, NULL, 0, error);
    for (int o = 0; o < p->out_count; o++) {
        const mf_variable *v = p->out[o];
        mf_variable *t = f->tangent[v->id];
        out[o] = primal_of(f, v);
        out_tangent[o] = mf_tangent_type(v->type) && (t || out_tangent[o]);
        if (out_tangent[o])
            out[count++] = mf_tangent_or_zeros(&f->b, t, v->type);
    }
    return mf_builder_finish(&f->b, out, count, error);
}

mf_program *mf_jvp_program(const mf_program *p, const mf_axis_env *env, const bool *has_tangent, bool *out_tangent, mf_error_object **error)
{
    forward f = { .p = p };
    mf_builder_init(&f.b, env);
    f.primal = alloc(&f, p->var_count);
    f.tangent = alloc(&f, p->var_count);
    if (!f.b.error)
        take_inputs(&f, has_tangent);
    for (int i = 0; i < p->eqn_count && !f.b.error; i++)
        differentiate(&f, p->eqns[i]);
    mf_program *result = give_outputs(&f, out_tangent, error);
    mf_arena_free(&f.arena);
    return result;
}
