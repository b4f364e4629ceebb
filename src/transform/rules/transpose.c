/* Transposition of a linear program: the equations that do not depend on linear inputs run forward; then the others are visited in reverse
 * order, each passing the cotangents of its results to its operands. Invariant: the cotangents of a variable are added in the order in
 * which its uses are visited, last use first and operands from left to right, so the sum has one order on every machine. A zero cotangent
 * is NULL. */
#include "transform/rules/sweep.h"
#include "transform/rules/tangent.h"

typedef struct backward {
    const mf_program *p;
    mf_builder b;
    mf_arena arena;
    bool *linear;              /* by variable id: depends on a linear input */
    mf_variable **value, **ct; /* by variable id */
} backward;

static void *alloc(backward *t, int count, size_t size)
{
    void *at = mf_arena_alloc(&t->arena, ((size_t)count + 1) * size);
    if (!at)
        mf_builder_fail_memory(&t->b);
    return at;
}

static mf_variable *value_of(backward *t, const mf_variable *v)
{
    if (!t->value[v->id])
        t->value[v->id] = v->constant ? mf_builder_constant(&t->b, v->constant) : mf_poison(&t->b);
    return t->value[v->id];
}

static void accumulate(backward *t, const mf_variable *v, mf_variable *ct, const char *op)
{
    if (ct)
        t->ct[v->id] = mf_tangent_add(&t->b, t->ct[v->id], mf_tangent_fit(&t->b, ct, v->type, op));
}

/* Makes the cotangent inputs: one per output, NULL where there is none. */
static mf_variable **take_inputs(backward *t, const bool *linear, const bool *has_ct)
{
    const mf_program *p = t->p;
    mf_variable **seeds = alloc(t, p->out_count, sizeof *seeds);
    if (t->b.error)
        return NULL;
    for (int i = 0; i < p->in_count; i++) {
        t->linear[p->in[i]->id] = linear[i];
        if (!linear[i])
            t->value[p->in[i]->id] = mf_builder_input(&t->b, p->in[i]->type);
    }
    for (int o = 0; o < p->out_count; o++)
        if (has_ct[o]) {
            const mf_type *type = mf_tangent_type(p->out[o]->type);
            seeds[o] = mf_builder_input(&t->b, type ? type : p->out[o]->type);
        }
    return seeds;
}

/* Marks equations that depend on linear inputs; copies the others. */
static void run_forward(backward *t, const mf_eqn *e)
{
    bool linear = false;
    for (int i = 0; i < e->in_count; i++)
        linear = linear || t->linear[e->in[i]->id];
    for (int o = 0; o < e->out_count; o++)
        t->linear[e->out[o]->id] = linear;
    if (linear)
        return;
    mf_variable **in = alloc(t, e->in_count, sizeof *in), **out = alloc(t, e->out_count, sizeof *out);
    if (t->b.error)
        return;
    for (int i = 0; i < e->in_count; i++)
        in[i] = value_of(t, e->in[i]);
    t->b.address = e->address;
    mf_copy_eqn(&t->b, e, in, out);
    for (int o = 0; o < e->out_count && !t->b.error; o++)
        t->value[e->out[o]->id] = out[o];
}

static void run_backward(backward *t, const mf_eqn *e)
{
    bool any = false, linear_eqn = false;
    mf_variable **in = alloc(t, e->in_count, sizeof *in), **ct_in = alloc(t, e->in_count, sizeof *ct_in);
    mf_variable **ct = alloc(t, e->out_count, sizeof *ct);
    bool *linear = alloc(t, e->in_count, sizeof *linear);
    if (t->b.error)
        return;
    for (int o = 0; o < e->out_count; o++) {
        ct[o] = t->ct[e->out[o]->id];
        any = any || ct[o];
    }
    for (int i = 0; i < e->in_count; i++) {
        linear[i] = t->linear[e->in[i]->id];
        linear_eqn = linear_eqn || linear[i];
        in[i] = linear[i] ? NULL : value_of(t, e->in[i]);
    }
    if (!any || !linear_eqn)
        return;
    t->b.address = e->address;
    e->op->transpose(&t->b, e, linear, in, ct, ct_in);
    for (int i = 0; i < e->in_count && !t->b.error; i++)
        if (linear[i])
            accumulate(t, e->in[i], ct_in[i], e->op->name);
}

static mf_program *give_outputs(backward *t, const bool *linear, bool *out_ct, mf_error_object **error)
{
    const mf_program *p = t->p;
    mf_variable **out = alloc(t, p->in_count, sizeof *out);
    int count = 0;
    if (t->b.error)
        return mf_builder_finish(&t->b, NULL, 0, error);
    for (int i = 0; i < p->in_count; i++) {
        const mf_type *type = p->in[i]->type;
        mf_variable *ct = linear[i] ? t->ct[p->in[i]->id] : NULL;
        out_ct[i] = linear[i] && mf_tangent_type(type) && (ct || out_ct[i]);
        if (out_ct[i])
            out[count++] = mf_tangent_or_zeros(&t->b, ct, type);
    }
    return mf_builder_finish(&t->b, out, count, error);
}

/* Removes equations of the forward half that no rule used. */
static mf_program *swept(mf_program *p, mf_error_object **error)
{
    int *all = p ? mf_alloc(((size_t)p->out_count + 1) * sizeof *all) : NULL;
    mf_program *result = NULL;
    if (p && !all)
        *error = mf_error_out_of_memory();
    for (int o = 0; all && o < p->out_count; o++)
        all[o] = o;
    if (all)
        result = mf_program_select(p, NULL, p->in_count, all, p->out_count, error);
    mf_free(all);
    mf_drop(p);
    return result;
}

/* The cotangent of an output that depends on no linear input is dropped. */
static void seed(backward *t, mf_variable *const *seeds)
{
    for (int o = 0; o < t->p->out_count; o++)
        if (t->linear[t->p->out[o]->id] && mf_tangent_type(t->p->out[o]->type))
            accumulate(t, t->p->out[o], seeds[o], "transpose");
}

mf_program *mf_transpose_program(const mf_program *p, const mf_axis_env *env, const bool *linear, const bool *has_ct, bool *out_ct,
                                 mf_error_object **error)
{
    backward t = { .p = p };
    mf_builder_init(&t.b, env);
    t.linear = alloc(&t, p->var_count, sizeof *t.linear);
    t.value = alloc(&t, p->var_count, sizeof *t.value);
    t.ct = alloc(&t, p->var_count, sizeof *t.ct);
    mf_variable **seeds = t.b.error ? NULL : take_inputs(&t, linear, has_ct);
    for (int i = 0; i < p->eqn_count && !t.b.error; i++)
        run_forward(&t, p->eqns[i]);
    if (!t.b.error)
        seed(&t, seeds);
    for (int i = p->eqn_count - 1; i >= 0 && !t.b.error; i--)
        run_backward(&t, p->eqns[i]);
    mf_program *result = give_outputs(&t, linear, out_ct, error);
    mf_arena_free(&t.arena);
    return swept(result, error);
}
