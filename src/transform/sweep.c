/* Dead code within the transforms. Invariant: equations keep their order, and one with an effect is never dropped.
 * Partial evaluation makes programs of which half is not needed; they are swept here, before anything is nested in a map or a loop
 * where a needless residual would cost memory once a device or once an iteration. */
#include "transform/sweep.h"

#include <string.h>

/* ------------------------------------------------------------------ nested programs */

static const void *field(const mf_eqn *e, const mf_param *p) { return (const char *)e->params + p->offset; }

typedef bool (*program_question)(const mf_program *p, const char *axis);

static bool any_nested(const mf_eqn *e, program_question ask, const char *axis)
{
    if (!e->params || !e->op->params)
        return false;
    for (const mf_param *p = e->op->params; p->name; p++) {
        if (p->kind == MF_PARAM_PROGRAM && ask(*(mf_program *const *)field(e, p), axis))
            return true;
        if (p->kind != MF_PARAM_PROGRAMS)
            continue;
        const mf_program_list *list = field(e, p);
        for (int i = 0; i < list->count; i++)
            if (ask(list->at[i], axis))
                return true;
    }
    return false;
}

static bool program_has_effect(const mf_program *p, const char *axis)
{
    (void)axis;
    for (int i = 0; i < p->eqn_count; i++)
        if (mf_eqn_has_effect(p->eqns[i]))
            return true;
    return false;
}

bool mf_eqn_has_effect(const mf_eqn *e) { return (e->op->flags & MF_OP_EFFECT) || any_nested(e, program_has_effect, NULL); }

bool mf_eqn_mentions(const mf_eqn *e, const char *axis)
{
    if (!axis || !e->params || !e->op->params)
        return false;
    for (const mf_param *p = e->op->params; p->name; p++) {
        if (p->kind == MF_PARAM_NAMES && mf_names_find(*(const mf_namelist *const *)field(e, p), axis) >= 0)
            return true;
        if (p->kind == MF_PARAM_NAME && !strcmp(p->name, "axis_name") && *(const char *const *)field(e, p) == axis)
            return false; /* this equation binds the name anew */
    }
    return any_nested(e, mf_program_mentions, axis);
}

bool mf_program_mentions(const mf_program *p, const char *axis)
{
    for (int i = 0; i < p->eqn_count; i++)
        if (mf_eqn_mentions(p->eqns[i], axis))
            return true;
    return false;
}

/* ------------------------------------------------------------------ emitting many results */

void mf_builder_fail_memory(mf_builder *b) { mf_builder_fail(b, mf_error_out_of_memory()); }

mf_var *mf_poison(mf_builder *b)
{
    if (!b->error)
        mf_builder_fail(b, mf_error_new(MF_ERROR_ARGUMENT, "a transform went on without a value"));
    return mf_builder_input(b, mf_type_scalar(MF_F32, false));
}

void mf_emit_into(mf_builder *b, const mf_op *op, const void *params, mf_var *const *in, int in_count, mf_var **out, int out_count)
{
    mf_eqn *e = b->error ? NULL : mf_emit_eqn(b, op, params, in, in_count);
    if (!b->error && e && e->out_count != out_count)
        mf_builder_fail(b, mf_error_new(MF_ERROR_ARGUMENT, "%s: a transform expected %d results where there are %d", op->name, out_count,
                                        e->out_count));
    bool good = !b->error && e;
    for (int i = 0; i < out_count; i++)
        out[i] = good ? e->out[i] : mf_poison(b);
}

/* ------------------------------------------------------------------ liveness */

typedef struct kept {
    bool keep;
    bool *used_out, *used_in;
    const void *params; /* smaller ones, or NULL */
} kept;

typedef struct sweep {
    const mf_program *p;
    mf_arena arena;
    bool *live; /* by variable id */
    kept *kept; /* by equation */
} sweep;

static bool sweep_equation(sweep *s, int index)
{
    const mf_eqn *e = s->p->eqns[index];
    kept *k = &s->kept[index];
    bool all = true;
    k->keep = mf_eqn_has_effect(e);
    bool effect = k->keep;
    k->used_out = mf_arena_alloc(&s->arena, (size_t)e->out_count + 1);
    k->used_in = mf_arena_alloc(&s->arena, (size_t)e->in_count + 1);
    if (!k->used_out || !k->used_in)
        return false;
    for (int o = 0; o < e->out_count; o++) {
        k->used_out[o] = s->live[e->out[o]->id];
        k->keep = k->keep || k->used_out[o];
        all = all && k->used_out[o];
    }
    if (!k->keep)
        return true;
    if (all || effect || !e->op->dce(e, k->used_out, k->used_in, &k->params))
        k->params = NULL;
    for (int i = 0; i < e->in_count; i++)
        if (!k->params || k->used_in[i])
            s->live[e->in[i]->id] = true;
    return true;
}

static bool sweep_begin(sweep *s, const mf_program *p)
{
    *s = (sweep){ .p = p };
    s->live = mf_arena_alloc(&s->arena, (size_t)p->var_count + 1);
    s->kept = mf_arena_alloc(&s->arena, ((size_t)p->eqn_count + 1) * sizeof *s->kept);
    return s->live && s->kept;
}

static bool sweep_back(sweep *s)
{
    for (int i = s->p->eqn_count - 1; i >= 0; i--)
        if (!sweep_equation(s, i))
            return false;
    return true;
}

static void sweep_end(sweep *s)
{
    for (int i = 0; s->kept && i < s->p->eqn_count; i++)
        if (s->kept[i].params) {
            mf_params_drop(s->p->eqns[i]->op, s->kept[i].params);
            mf_free((void *)s->kept[i].params);
        }
    mf_arena_free(&s->arena);
}

bool mf_program_uses(const mf_program *p, const bool *used_out, bool *used_in)
{
    sweep s;
    bool good = sweep_begin(&s, p);
    for (int o = 0; good && o < p->out_count; o++)
        if (used_out[o])
            s.live[p->out[o]->id] = true;
    good = good && sweep_back(&s);
    for (int i = 0; good && i < p->in_count; i++)
        used_in[i] = s.live[p->in[i]->id];
    sweep_end(&s);
    return good;
}

/* ------------------------------------------------------------------ the chosen program */

static mf_var *moved(mf_builder *b, mf_var **map, const mf_var *v)
{
    if (!map[v->id] && v->constant)
        map[v->id] = mf_builder_constant(b, v->constant);
    if (!map[v->id]) {
        if (!b->error)
            mf_builder_fail(b, mf_error_new(MF_ERROR_ARGUMENT, "a transform left out an input that its program needs"));
        map[v->id] = mf_poison(b);
    }
    return map[v->id];
}

static void copy_kept(sweep *s, mf_builder *b, mf_var **map, int index)
{
    const mf_eqn *e = s->p->eqns[index];
    const kept *k = &s->kept[index];
    mf_var **in = mf_arena_alloc(&s->arena, ((size_t)e->in_count + 1) * sizeof *in);
    mf_var **out = mf_arena_alloc(&s->arena, ((size_t)e->out_count + 1) * sizeof *out);
    int in_count = 0, out_count = 0;
    if (!in || !out) {
        mf_builder_fail_memory(b);
        return;
    }
    for (int i = 0; i < e->in_count; i++)
        if (!k->params || k->used_in[i])
            in[in_count++] = moved(b, map, e->in[i]);
    for (int o = 0; o < e->out_count; o++)
        out_count += !k->params || k->used_out[o];
    b->address = e->address;
    mf_emit_into(b, e->op, k->params ? k->params : e->params, in, in_count, out, out_count);
    for (int o = 0, from = 0; o < e->out_count; o++)
        if (!k->params || k->used_out[o])
            map[e->out[o]->id] = out[from++];
}

static mf_program *build_kept(sweep *s, const mf_axis_env *env, const int *in, int in_count, const int *out, int out_count,
                              mf_error_object **error)
{
    const mf_program *p = s->p;
    mf_builder b;
    mf_builder_init(&b, env);
    mf_var **map = mf_arena_alloc(&s->arena, ((size_t)p->var_count + 1) * sizeof *map);
    mf_var **results = mf_arena_alloc(&s->arena, ((size_t)out_count + 1) * sizeof *results);
    if (!map || !results) {
        mf_builder_fail_memory(&b);
        return mf_builder_finish(&b, NULL, 0, error);
    }
    for (int i = 0; i < in_count; i++) {
        const mf_var *v = p->in[in ? in[i] : i];
        map[v->id] = mf_builder_input(&b, v->type);
    }
    for (int i = 0; i < p->eqn_count && !b.error; i++)
        if (s->kept[i].keep)
            copy_kept(s, &b, map, i);
    for (int o = 0; o < out_count; o++)
        results[o] = b.error ? mf_poison(&b) : moved(&b, map, p->out[out[o]]);
    return mf_builder_finish(&b, results, out_count, error);
}

mf_program *mf_program_select(const mf_program *p, const mf_axis_env *env, const int *in, int in_count, const int *out, int out_count,
                              mf_error_object **error)
{
    sweep s;
    mf_program *result = NULL;
    bool good = sweep_begin(&s, p);
    for (int o = 0; good && o < out_count; o++)
        s.live[p->out[out[o]]->id] = true;
    good = good && sweep_back(&s);
    if (good)
        result = build_kept(&s, env, in, in_count, out, out_count, error);
    else
        *error = mf_error_out_of_memory();
    sweep_end(&s);
    return result;
}
