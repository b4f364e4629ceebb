/* vmap: every equation that has a batched operand or uses the mapped axis is replaced by what its op's batch rule emits. Invariant: a
 * variable's batch dimension is one known position of its new variable, or none; what does not depend on the mapped inputs is computed
 * once. */
#include "transform/rules/sweep.h"
#include "transform/transform.h"

#include "ops/emit.h"

typedef struct mapped {
    const mf_program *p;
    mf_builder b;
    mf_batch_context c;
    mf_arena arena;
    mf_variable **value; /* by variable id */
    int *axis;           /* its batch dimension, -1 = none */
} mapped;

static void *alloc(mapped *m, int count, size_t size)
{
    void *at = mf_arena_alloc(&m->arena, ((size_t)count + 1) * size);
    if (!at)
        mf_builder_fail_memory(&m->b);
    return at;
}

static mf_variable *value_of(mapped *m, const mf_variable *v)
{
    if (!m->value[v->id])
        m->value[v->id] = v->constant ? mf_builder_constant(&m->b, v->constant) : mf_poison(&m->b);
    return m->value[v->id];
}

static void take_inputs(mapped *m, const int *in_axis)
{
    for (int v = 0; v < m->p->var_count; v++)
        m->axis[v] = -1;
    for (int i = 0; i < m->p->in_count; i++) {
        const mf_type *t = m->p->in[i]->type;
        if (in_axis[i] >= 0)
            t = in_axis[i] <= t->rank ? mf_type_insert_axis(t, in_axis[i], m->c.size) : NULL;
        if (!t) {
            mf_builder_fail(
                &m->b,
                mf_error_new(MF_ERROR_AXIS, "vmap: axis %d of input %d is out of range, or the batched shape is too large", in_axis[i], i));
            return;
        }
        m->value[m->p->in[i]->id] = mf_builder_input(&m->b, t);
        m->axis[m->p->in[i]->id] = in_axis[i];
    }
}

static void batch_equation(mapped *m, const mf_eqn *e)
{
    mf_variable **in = alloc(m, e->in_count, sizeof *in), **out = alloc(m, e->out_count, sizeof *out);
    int *in_axis = alloc(m, e->in_count, sizeof *in_axis), *out_axis = alloc(m, e->out_count, sizeof *out_axis);
    if (m->b.error)
        return;
    bool batched = mf_eqn_mentions(e, m->c.axis_name);
    for (int i = 0; i < e->in_count; i++) {
        in[i] = value_of(m, e->in[i]);
        in_axis[i] = m->axis[e->in[i]->id];
        batched = batched || in_axis[i] >= 0;
    }
    for (int o = 0; o < e->out_count; o++)
        out_axis[o] = -1;
    m->b.address = e->address;
    if (batched)
        e->op->batch(&m->c, e, in, in_axis, out, out_axis);
    else
        mf_copy_eqn(&m->b, e, in, out);
    for (int o = 0; o < e->out_count && !m->b.error; o++) {
        m->value[e->out[o]->id] = out[o];
        m->axis[e->out[o]->id] = out_axis[o];
    }
}

/* Output o with its batch dimension where the caller wants it. */
static mf_variable *placed(mapped *m, int o, int *out_axis)
{
    const mf_variable *v = m->p->out[o];
    mf_variable *x = value_of(m, v);
    int axis = m->axis[v->id], want = out_axis[o] == MF_BATCH_FIRST ? (axis < 0 ? MF_BATCH_NONE : 0) : out_axis[o];
    out_axis[o] = want == MF_BATCH_ANYWHERE ? axis : want;
    if (m->b.error || want == MF_BATCH_ANYWHERE || want == axis)
        return x;
    if (want >= 0 && want <= v->type->rank)
        return e_batched_at(&m->c, x, axis, want);
    mf_builder_fail(&m->b, want >= 0
                               ? mf_error_new(MF_ERROR_AXIS, "vmap: out_axes is %d for output %d, but its type is %s, so at most %d fits",
                                              want, o, mf_type_name(v->type), v->type->rank)
                               : mf_error_new(MF_ERROR_AXIS, "vmap has mapped output %d but out_axes is None for it", o));
    return x;
}

mf_program *mf_batch_program(const mf_program *p, const mf_axis_env *env, const char *axis_name, int64_t size, const int *in_axis,
                             int *out_axis, mf_error_object **error)
{
    mapped m = { .p = p };
    mf_builder_init(&m.b, env);
    m.c = (mf_batch_context){ .axis_name = axis_name, .size = size, .b = &m.b };
    m.value = alloc(&m, p->var_count, sizeof *m.value);
    m.axis = alloc(&m, p->var_count, sizeof *m.axis);
    mf_variable **out = alloc(&m, p->out_count, sizeof *out);
    if (!m.b.error)
        take_inputs(&m, in_axis);
    for (int i = 0; i < p->eqn_count && !m.b.error; i++)
        batch_equation(&m, p->eqns[i]);
    for (int o = 0; o < p->out_count && !m.b.error; o++)
        out[o] = placed(&m, o, out_axis);
    mf_program *result = mf_builder_finish(&m.b, out, m.b.error ? 0 : p->out_count, error);
    mf_arena_free(&m.arena);
    return result;
}
