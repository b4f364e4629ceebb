/* Dead code elimination inside transforms. Invariant: equations keep their order, and one with an effect is never dropped. Partial
 * evaluation makes programs of which half is unused. They are swept here, before they are nested in a map or a loop, where a needless
 * residual would cost memory on every device or in every iteration. */
#include "transform/rules/sweep.h"

#include "passes/rewrite.h"

/* ---- nested programs */

static const void *field(const mf_eqn *e, const mf_param *p) { return (const char *)e->params + p->offset; }

/* e, or the first equation inside it, that uses the axis. */
static const mf_eqn *mention_at(const mf_eqn *e, const char *axis)
{
    if (!axis || !e->params || !e->op->params)
        return NULL;
    for (const mf_param *p = e->op->params; p->name; p++) {
        if (p->role == MF_ROLE_AXES && mf_names_find(*(const mf_namelist *const *)field(e, p), axis) >= 0)
            return e;
        if (p->role == MF_ROLE_BOUND_AXIS && *(const char *const *)field(e, p) == axis)
            return NULL; /* this equation binds the name anew */
    }
    const mf_eqn *found = NULL;
    for (int i = 0, count = mf_params_program_count(e->op, e->params); i < count && !found; i++)
        found = mf_program_mention(*mf_params_program_at(e->op, e->params, i), axis);
    return found;
}

bool mf_eqn_mentions(const mf_eqn *e, const char *axis) { return mention_at(e, axis); }

const mf_eqn *mf_program_mention(const mf_program *p, const char *axis)
{
    const mf_eqn *found = NULL;
    for (int i = 0; i < p->eqn_count && !found; i++)
        found = mention_at(p->eqns[i], axis);
    return found;
}

/* ---- emitting many results */

void mf_builder_fail_memory(mf_builder *b) { mf_builder_fail(b, mf_error_out_of_memory()); }

mf_variable *mf_poison(mf_builder *b)
{
    if (!b->error)
        mf_builder_fail(b, mf_error_new(MF_ERROR_ARGUMENT, "a transform went on without a value"));
    return mf_builder_input(b, mf_type_scalar(MF_F32, false));
}

void mf_emit_into(mf_builder *b, const mf_op *op, const void *params, mf_variable *const *in, int in_count, mf_variable **out,
                  int out_count)
{
    mf_eqn *e = b->error ? NULL : mf_emit_eqn(b, op, params, in, in_count);
    if (!b->error && e && e->out_count != out_count)
        mf_builder_fail(b, mf_error_new(MF_ERROR_ARGUMENT, "%s: a transform expected %d results where there are %d", op->name, out_count,
                                        e->out_count));
    bool good = !b->error && e;
    for (int i = 0; i < out_count; i++)
        out[i] = good ? e->out[i] : mf_poison(b);
}

/* ---- liveness */

typedef struct eqn_use {
    bool keep;
    bool *used_out, *used_in;
    const void *params; /* params of the smaller equation, or NULL */
} eqn_use;

typedef struct sweep {
    const mf_program *p;
    mf_arena arena;
    bool *live;    /* by variable id */
    eqn_use *uses; /* by equation */
} sweep;

static bool sweep_equation(sweep *s, int index)
{
    const mf_eqn *e = s->p->eqns[index];
    eqn_use *k = &s->uses[index];
    bool all = true;
    k->keep = mf_eqn_is_effect(e);
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
    s->uses = mf_arena_alloc(&s->arena, ((size_t)p->eqn_count + 1) * sizeof *s->uses);
    return s->live && s->uses;
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
    for (int i = 0; s->uses && i < s->p->eqn_count; i++)
        if (s->uses[i].params) {
            mf_params_drop(s->p->eqns[i]->op, s->uses[i].params);
            mf_free((void *)s->uses[i].params);
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

/* ---- copying the live part */

/* Dead code elimination changes no types, so the program is copied without the type rules, which would need the axes. */
typedef struct copy {
    sweep *s;
    mf_program *to;
    mf_variable **map; /* by variable id of the source */
    bool memory;       /* memory: still available */
} copy;

static void *copy_alloc(copy *c, int count, size_t size)
{
    void *at = mf_arena_alloc(&c->to->arena, ((size_t)count + 1) * size);
    c->memory = c->memory && at;
    return at;
}

static mf_variable *copy_var(copy *c, const mf_variable *v)
{
    if (c->map[v->id])
        return c->map[v->id];
    mf_variable *made = copy_alloc(c, 1, sizeof *made);
    if (!made)
        return NULL;
    *made = (mf_variable){ .type = v->type, .id = c->to->var_count, .constant = mf_retain(v->constant) };
    c->to->vars[c->to->var_count++] = made;
    return c->map[v->id] = made;
}

static bool copy_begin(copy *c, sweep *s, int in_count)
{
    const mf_program *p = s->p;
    *c = (copy){ .s = s, .memory = true, .to = mf_object_new(&mf_program_class, sizeof(mf_program)) };
    c->map = mf_arena_alloc(&s->arena, ((size_t)p->var_count + 1) * sizeof *c->map);
    if (!c->to || !c->map)
        return false;
    c->to->in = mf_alloc(((size_t)in_count + 1) * sizeof *c->to->in);
    c->to->vars = mf_alloc(((size_t)p->var_count + 1) * sizeof *c->to->vars);
    c->to->eqns = mf_alloc(((size_t)p->eqn_count + 1) * sizeof *c->to->eqns);
    return c->to->in && c->to->vars && c->to->eqns;
}

/* A smaller equation has the operands in used_in and the results in used_out. */
static void copy_equation(copy *c, int index)
{
    const mf_eqn *e = c->s->p->eqns[index];
    const eqn_use *k = &c->s->uses[index];
    mf_eqn *made = copy_alloc(c, 1, sizeof *made);
    mf_variable **in = copy_alloc(c, e->in_count, sizeof *in), **out = copy_alloc(c, e->out_count, sizeof *out);
    if (!c->memory)
        return;
    *made = (mf_eqn){ .op = e->op, .in = in, .out = out, .address = e->address };
    for (int i = 0; i < e->in_count; i++)
        if (!k->params || k->used_in[i])
            in[made->in_count++] = copy_var(c, e->in[i]);
    for (int o = 0; o < e->out_count; o++)
        if (!k->params || k->used_out[o]) {
            mf_variable *v = copy_var(c, e->out[o]);
            if (!v)
                return;
            v->producer = made;
            v->output = made->out_count;
            out[made->out_count++] = v;
        }
    if (!c->memory)
        return; /* without memory the equation is not added, so references held by copied params would be lost */
    made->params = mf_params_copy(&c->to->arena, e->op, k->params ? k->params : e->params);
    c->memory = c->memory && (made->params || !e->params);
    if (c->memory)
        c->to->eqns[c->to->eqn_count++] = made;
}

static bool is_defined(const copy *c, const mf_variable *v) { return v->constant || c->map[v->id]; }

/* Whether the chosen inputs include all that are needed. */
static bool needs_are_met(const copy *c)
{
    const mf_program *p = c->s->p;
    for (int i = 0; i < p->in_count; i++)
        if (c->s->live[p->in[i]->id] && !is_defined(c, p->in[i]))
            return false;
    return true;
}

static mf_program *copy_end(copy *c, mf_error_object **error, bool met)
{
    if (c->to && c->memory && met)
        return c->to;
    mf_drop(c->to);
    *error = c->memory ? mf_error_new(MF_ERROR_ARGUMENT, "a transform left out an input that its program needs") : mf_error_out_of_memory();
    return NULL;
}

static mf_program *build_kept(sweep *s, const int *in, int in_count, const int *out, int out_count, mf_error_object **error)
{
    const mf_program *p = s->p;
    copy c;
    c.memory = copy_begin(&c, s, in_count);
    for (int i = 0; c.memory && i < in_count; i++)
        c.to->in[c.to->in_count++] = copy_var(&c, p->in[in ? in[i] : i]);
    bool met = !c.memory || needs_are_met(&c);
    for (int i = 0; c.memory && met && i < p->eqn_count; i++)
        if (s->uses[i].keep)
            copy_equation(&c, i);
    mf_variable **results = c.memory && met ? copy_alloc(&c, out_count, sizeof *results) : NULL;
    for (int o = 0; results && o < out_count; o++)
        results[o] = copy_var(&c, p->out[out[o]]);
    if (results) {
        c.to->out = results;
        c.to->out_count = out_count;
    }
    return copy_end(&c, error, met);
}

mf_program *mf_program_select(const mf_program *p, const int *in, int in_count, const int *out, int out_count, mf_error_object **error)
{
    sweep s;
    mf_program *result = NULL;
    bool good = sweep_begin(&s, p);
    for (int o = 0; good && o < out_count; o++)
        s.live[p->out[out[o]]->id] = true;
    good = good && sweep_back(&s);
    if (good)
        result = build_kept(&s, in, in_count, out, out_count, error);
    else
        *error = mf_error_out_of_memory();
    sweep_end(&s);
    return result;
}
