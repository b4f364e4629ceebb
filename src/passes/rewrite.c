/* The walk that most passes share; see rewrite.h. Invariant: errors are kept in the builder, so the walk just stops. */
#include "passes/rewrite.h"
#include "ops/params.h"
#include "ops/ops.h"

void *mf_rewrite_alloc(mf_rewrite *r, int count, size_t size)
{
    void *at = r->b->error ? NULL : mf_arena_alloc(&r->scratch, ((size_t)count + 1) * size);
    if (!at && !r->b->error)
        mf_builder_fail(r->b, mf_error_out_of_memory());
    return at;
}

mf_variable *mf_rewrite_use(mf_rewrite *r, const mf_variable *v)
{
    return v->constant ? mf_builder_constant(r->b, v->constant) : r->map[v->id];
}

void mf_rewrite_bind(mf_rewrite *r, const mf_eqn *e, mf_variable *v) { r->map[e->out[0]->id] = v; }

mf_variable *mf_rewrite_to_type(mf_builder *b, mf_variable *v, const mf_type *type)
{
    if (v->type == type)
        return v;
    return mf_emit(b, &mf_op_convert_element_type, &(mf_convert_params){ type->dtype, type->weak }, 1, v);
}

/* ---- equations */
/* A copy of params in scratch memory with the nested programs rewritten. It holds references even after an error. */
static void *rewrite_nested(mf_rewrite *r, const mf_eqn *e, const void *params)
{
    const mf_op *op = e->op;
    void *copy = r->b->error ? NULL : mf_params_copy(&r->scratch, op, params);
    if (!copy && !r->b->error)
        mf_builder_fail(r->b, mf_error_out_of_memory());
    const mf_axis_env *env = mf_params_env(op, params, r->b->env);
    for (int i = 0, n = copy ? mf_params_program_count(op, copy) : 0; i < n && !r->b->error; i++) {
        mf_program **at = mf_params_program_at(op, copy, i);
        mf_error_object *error = NULL;
        mf_program *made = r->inside ? r->inside(r, e, *at, env, &error) : r->nested(*at, env, &error);
        if (made) {
            mf_drop(*at);
            *at = made;
        } else
            mf_builder_fail(r->b, mf_error_wrap(error, "in %s", op->name));
    }
    return copy;
}

static mf_eqn *emit(mf_rewrite *r, const mf_eqn *like, const void *params, mf_variable *const *in, int in_count)
{
    bool nested = (r->nested || r->inside) && mf_params_program_count(like->op, params) > 0;
    void *changed = nested ? rewrite_nested(r, like, params) : NULL;
    mf_eqn *e = mf_emit_eqn(r->b, like->op, nested ? changed : params, in, in_count);
    if (changed)
        mf_params_drop(like->op, changed);
    return e;
}

void mf_rewrite_replace(mf_rewrite *r, const mf_eqn *e, const void *params, mf_variable *const *in, int in_count, const bool *used)
{
    mf_eqn *made = emit(r, e, params, in, in_count);
    if (r->b->error)
        return;
    int wanted = 0;
    for (int i = 0; i < e->out_count; i++)
        wanted += !used || used[i];
    bool all = made->out_count == e->out_count;
    if (!all && made->out_count != wanted) {
        mf_builder_fail(r->b, mf_error_new(MF_ERROR_ARGUMENT, "%s: %d results where %d were wanted", e->op->name, made->out_count, wanted));
        return;
    }
    for (int i = 0, next = 0; i < e->out_count; i++)
        if (all || !used || used[i])
            r->map[e->out[i]->id] = made->out[next++];
}

void mf_rewrite_copy(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in) { mf_rewrite_replace(r, e, e->params, in, e->in_count, NULL); }

/* ---- bodies */
void mf_rewrite_walk(mf_rewrite *r)
{
    for (r->index = 0; r->index < r->source->eqn_count && !r->b->error; r->index++) {
        const mf_eqn *e = r->source->eqns[r->index];
        if (e->address)
            r->b->address = e->address;
        mf_variable **in = mf_rewrite_alloc(r, e->in_count, sizeof *in);
        for (int i = 0; in && i < e->in_count; i++)
            in[i] = mf_rewrite_use(r, e->in[i]);
        if (in && !r->b->error)
            r->equation(r, e, in);
    }
}

void mf_rewrite_body(mf_rewrite *r, const mf_program *p, const mf_eqn *e, mf_variable *const *in)
{
    mf_rewrite inner = { .b = r->b, .source = p, .equation = r->equation, .nested = r->nested, .inside = r->inside, .state = r->state };
    inner.map = mf_rewrite_alloc(&inner, p->var_count, sizeof *inner.map);
    for (int i = 0; inner.map && i < p->in_count; i++)
        inner.map[p->in[i]->id] = mf_rewrite_to_type(r->b, in[i], p->in[i]->type);
    if (inner.map)
        mf_rewrite_walk(&inner);
    for (int i = 0; i < p->out_count && !r->b->error; i++)
        r->map[e->out[i]->id] = mf_rewrite_to_type(r->b, mf_rewrite_use(&inner, p->out[i]), e->out[i]->type);
    mf_arena_free(&inner.scratch);
}

mf_program *mf_rewrite_finish(mf_rewrite *r, mf_error_object **error)
{
    mf_variable **out = mf_rewrite_alloc(r, r->source->out_count, sizeof *out);
    for (int i = 0; out && i < r->source->out_count; i++)
        out[i] = mf_rewrite_use(r, r->source->out[i]);
    mf_program *made = mf_builder_finish(r->b, out, out ? r->source->out_count : 0, error);
    mf_arena_free(&r->scratch);
    return made;
}

static void begin_with_nothing(mf_rewrite *r) { (void)r; }

mf_program *mf_rewrite_program(const mf_program *p, const mf_axis_env *env, mf_rewrite_fn equation, mf_pass_fn nested, void *state,
                               mf_error_object **error)
{
    return mf_rewrite_program_from(p, env, begin_with_nothing, equation, nested, state, error);
}

mf_program *mf_rewrite_program_from(const mf_program *p, const mf_axis_env *env, void (*begin)(mf_rewrite *r), mf_rewrite_fn equation,
                                    mf_pass_fn nested, void *state, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, env);
    mf_rewrite r = { .b = &b, .source = p, .equation = equation, .nested = nested, .state = state };
    r.map = mf_rewrite_alloc(&r, p->var_count, sizeof *r.map);
    for (int i = 0; r.map && i < p->in_count; i++)
        r.map[p->in[i]->id] = mf_builder_input(&b, p->in[i]->type);
    if (r.map) {
        begin(&r);
        mf_rewrite_walk(&r);
    }
    return mf_rewrite_finish(&r, error);
}

/* ---- uses and effects */
void mf_program_count_uses(const mf_program *p, int *uses)
{
    for (int i = 0; i < p->eqn_count; i++)
        for (int k = 0; k < p->eqns[i]->in_count; k++)
            uses[p->eqns[i]->in[k]->id]++;
    for (int o = 0; o < p->out_count; o++)
        uses[p->out[o]->id]++;
}

static bool program_has_effect(const mf_program *p)
{
    for (int i = 0; i < p->eqn_count; i++)
        if (mf_eqn_is_effect(p->eqns[i]))
            return true;
    return false;
}

bool mf_eqn_is_effect(const mf_eqn *e)
{
    if (e->op->flags & MF_OP_EFFECT)
        return true;
    for (int i = 0, n = mf_params_program_count(e->op, e->params); i < n; i++)
        if (program_has_effect(*mf_params_program_at(e->op, e->params, i)))
            return true;
    return false;
}
