/* Dead code elimination: removes equations whose results are unused and, through the ops' dce, unused parts of calls and control flow.
 * Invariant: an equation with an effect is kept whole; the inputs and outputs of the program, and of nested programs that an op keeps, do
 * not change. */
#include "passes/rewrite.h"

typedef struct live_values {
    bool keep;
    bool *used_out, *used_in;
    const void *params; /* params of the smaller equation, or NULL; owned */
} live_values;

typedef struct elimination {
    const mf_program *p;
    mf_arena arena;
    bool *live;        /* by variable id */
    live_values *kept; /* by equation */
} elimination;

static void use_operands(elimination *s, const mf_eqn *e, const live_values *k)
{
    for (int i = 0; i < e->in_count; i++)
        if (!k->params || k->used_in[i])
            s->live[e->in[i]->id] = true;
}

static bool look_at(elimination *s, int index)
{
    const mf_eqn *e = s->p->eqns[index];
    live_values *k = &s->kept[index];
    k->used_out = mf_arena_alloc(&s->arena, (size_t)e->out_count + 1);
    k->used_in = mf_arena_alloc(&s->arena, (size_t)e->in_count + 1);
    if (!k->used_out || !k->used_in)
        return false;
    int used = 0;
    for (int i = 0; i < e->out_count; i++)
        used += k->used_out[i] = s->live[e->out[i]->id];
    bool effect = mf_eqn_is_effect(e);
    k->keep = effect || used > 0;
    if (k->keep && !effect && used < e->out_count && !e->op->dce(e, k->used_out, k->used_in, &k->params))
        k->params = NULL;
    if (k->keep)
        use_operands(s, e, k);
    return true;
}

static bool look(elimination *s)
{
    const mf_program *p = s->p;
    s->live = mf_arena_alloc(&s->arena, (size_t)p->var_count + 1);
    s->kept = mf_arena_alloc(&s->arena, ((size_t)p->eqn_count + 1) * sizeof *s->kept);
    if (!s->live || !s->kept)
        return false;
    for (int i = 0; i < p->out_count; i++)
        s->live[p->out[i]->id] = true;
    for (int i = p->eqn_count - 1; i >= 0; i--)
        if (!look_at(s, i))
            return false;
    return true;
}

static void keep_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    const live_values *k = &((const elimination *)r->state)->kept[r->index];
    if (!k->keep)
        return;
    if (!k->params) {
        mf_rewrite_copy(r, e, in);
        return;
    }
    int count = 0;
    for (int i = 0; i < e->in_count; i++)
        if (k->used_in[i])
            in[count++] = in[i];
    mf_rewrite_replace(r, e, k->params, in, count, k->used_out);
}

static void end(elimination *s)
{
    for (int i = 0; s->kept && i < s->p->eqn_count; i++)
        if (s->kept[i].params) {
            mf_params_drop(s->p->eqns[i]->op, s->kept[i].params);
            mf_free((void *)(uintptr_t)s->kept[i].params);
        }
    mf_arena_free(&s->arena);
}

mf_program *mf_pass_dce(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    elimination s = { .p = p };
    mf_program *made = NULL;
    if (look(&s))
        made = mf_rewrite_program(p, env, keep_equation, mf_pass_dce, &s, error);
    else
        *error = mf_error_out_of_memory();
    end(&s);
    return made;
}
