/* Makes the programs of the steps into which a program is cut. Invariant: a step's program takes the step's inputs and gives its
 * outputs, in order; if the whole program is a map, it is that map of the step's equations. */
#include "backend/pjrt/programs/pjrt_cut.h"

#include "base/memory/alloc.h"
#include "ops/ops.h"
#include "passes/rewrite.h"
#include "transform/functions/mapped/pmap.h"

/* The finished program, or NULL after recording the error. */
static mf_program *finish(cutting *c, mf_builder *b, mf_variable *const *out, int out_count)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_builder_finish(b, out, b->error || c->error ? 0 : out_count, &error);
    if (!p)
        pjrt_cut_fail(c, error);
    return p;
}

static mf_variable *variable_of(mf_builder *b, mf_variable *const *made, const mf_variable *v)
{
    return v->constant ? mf_builder_constant(b, v->constant) : made[v->id];
}

static void put_equation(cutting *c, mf_builder *b, const mf_eqn *e)
{
    mf_variable **in = pjrt_cut_alloc(c, &c->turn, e->in_count, sizeof *in), **out = pjrt_cut_alloc(c, &c->turn, e->out_count, sizeof *out);
    if (!in || !out)
        return;
    for (int i = 0; i < e->in_count; i++)
        in[i] = variable_of(b, c->made, e->in[i]);
    b->address = e->address;
    mf_copy_eqn(b, e, in, out);
    for (int o = 0; o < e->out_count && !b->error; o++)
        c->made[e->out[o]->id] = out[o];
}

/* Passes a value that the host made of an inner map through an identity map over the same devices, so that it is laid out over them. */
static mf_variable *through_map(mf_builder *b, const mf_variable *made, mf_variable *v)
{
    const mf_pmap_params *m = made->producer && made->producer->op == &mf_op_pmap ? made->producer->params : NULL;
    mf_builder inner;
    mf_error_object *error = NULL;
    if (!m || b->error || m->out_axes->at[made->output] == MF_NONE)
        return v;
    mf_pmap_params same = *m;
    const mf_variable *row = m->program->out[made->output];
    mf_builder_init(&inner, mf_axis_env_push(b->env, m->axis_name, m->axis_size, 1));
    mf_variable *in = mf_builder_input(&inner, row->type), *out = through_map(&inner, row, in);
    same.program = mf_builder_finish(&inner, &out, 1, &error);
    same.in_axes = same.out_axes = mf_ints_intern(&m->out_axes->at[made->output], 1);
    same.donated = mf_ints_intern(NULL, 0);
    if (same.program && same.in_axes && same.donated)
        v = mf_emit(b, &mf_op_pmap, &same, 1, v);
    else
        mf_builder_fail(b, error ? error : mf_error_out_of_memory());
    mf_drop(same.program);
    return v;
}

static mf_variable *result_of(cutting *c, const cutting_step *s, mf_builder *b, int o)
{
    const mf_variable *v = s->out[o];
    bool passes = !v->constant && c->map && s->values[o] >= c->body->var_count && c->variables[v->id].place == ON_HOST;
    return passes ? through_map(b, v, variable_of(b, c->made, v)) : variable_of(b, c->made, v);
}

/* The turn's equations as a program. If it has no outputs it returns a truth value, so that its end can be waited for. */
static mf_program *body_of(cutting *c, const cutting_step *s, const mf_axis_env *env)
{
    mf_builder b;
    mf_variable **out = pjrt_cut_alloc(c, &c->turn, s->out_count, sizeof *out);
    if (c->error)
        return NULL;
    mf_builder_init(&b, env);
    for (int i = 0; i < s->in_count && !b.error; i++)
        c->made[s->in[i]->id] = mf_builder_input(&b, s->in[i]->type);
    for (int n = c->from[s->turn]; n < c->from[s->turn + 1] && !b.error && !c->error; n++)
        put_equation(c, &b, c->body->eqns[c->sorted[n]]);
    for (int o = 0; o < s->out_count && !b.error && !c->error; o++)
        out[o] = result_of(c, s, &b, o);
    if (!s->out_count)
        out[0] = mf_builder_number(&b, MF_BOOL, false, 1);
    return finish(c, &b, out, s->out_count ? s->out_count : 1);
}

/* The map's operand that is this body input, and its axis; NULL: v is not an input, and has a row per device. */
static const mf_variable *operand_of(const cutting *c, const mf_variable *v, int64_t *axis)
{
    int input = c->variables[v->id].input;
    *axis = input ? ((const mf_pmap_params *)c->map->params)->in_axes->at[input - 1] : 0;
    return input ? c->map->in[input - 1] : NULL;
}

/* The operands of the step's map; constants are not values of the steps, and are removed from its inputs. */
static mf_variable **operands_of(cutting *c, mf_builder *b, cutting_step *s, int64_t *axes)
{
    const mf_pmap_params *m = c->map->params;
    mf_variable **in = pjrt_cut_alloc(c, &c->turn, s->in_count, sizeof *in);
    int count = s->in_count;
    s->in_count = 0;
    for (int i = 0; in && i < count && !b->error; i++) {
        const mf_variable *v = s->in[i], *operand = operand_of(c, v, &axes[i]);
        const mf_type *type = operand ? operand->type : mf_type_insert_axis(v->type, 0, m->axis_size);
        if (!type)
            mf_builder_fail(b, mf_error_new(MF_ERROR_SHAPE, "a map that runs in steps has a value of %d axes, and no room for one more",
                                            v->type->rank));
        else if (operand && operand->constant)
            in[i] = mf_builder_constant(b, operand->constant);
        else
            in[i] = mf_builder_input(b, type);
        if (!operand || !operand->constant)
            s->in[s->in_count++] = v;
    }
    return in;
}

/* Names the devices, so that the map of a step without the inner map still leaves each replica the devices that the inner map needs. */
static const mf_intlist *devices_of(cutting *c, const mf_pmap_params *m)
{
    int64_t count = m->axis_size * mf_pmap_span(m);
    int64_t *ids = pjrt_cut_alloc(c, &c->turn, (int)count, sizeof *ids);
    for (int64_t i = 0; ids && i < count; i++)
        ids[i] = i;
    return m->devices->count || count == m->axis_size ? m->devices : ids ? mf_ints_intern(ids, (int)count) : NULL;
}

/* The map of that body. */
static mf_program *map_of(cutting *c, cutting_step *s, mf_program *body)
{
    mf_builder b;
    mf_pmap_params m = *(const mf_pmap_params *)c->map->params;
    int64_t *axes = pjrt_cut_alloc(c, &c->turn, body->in_count, sizeof *axes);
    if (c->error)
        return NULL;
    mf_builder_init(&b, NULL);
    b.address = c->map->address;
    mf_variable **in = operands_of(c, &b, s, axes);
    m.devices = devices_of(c, &m);
    m.program = body;
    m.in_axes = mf_ints_intern(axes, body->in_count);
    m.out_axes = mf_ints_intern(s->out_axes, body->out_count);
    m.donated = mf_ints_intern(NULL, 0);
    if (!m.devices || !m.in_axes || !m.out_axes || !m.donated)
        mf_builder_fail(&b, mf_error_out_of_memory());
    mf_eqn *e = b.error || c->error ? NULL : mf_emit_eqn(&b, &mf_op_pmap, &m, in, body->in_count);
    return finish(c, &b, e ? e->out : NULL, body->out_count);
}

/* The equation with an input per operand; a map is cut as such a program. */
mf_program *pjrt_cut_alone(cutting *c, cutting_step *s, const mf_eqn *e)
{
    mf_builder b;
    mf_variable **in = pjrt_cut_alloc(c, &c->turn, e->in_count, sizeof *in), **out = pjrt_cut_alloc(c, &c->turn, e->out_count, sizeof *out);
    s->in = pjrt_cut_alloc(c, &c->turn, e->in_count, sizeof *s->in);
    s->in_count = 0;
    if (c->error)
        return NULL;
    mf_builder_init(&b, NULL);
    for (int i = 0; i < e->in_count && !b.error; i++) {
        in[i] = e->in[i]->constant ? mf_builder_constant(&b, e->in[i]->constant) : mf_builder_input(&b, e->in[i]->type);
        if (!e->in[i]->constant)
            s->in[s->in_count++] = e->in[i];
    }
    b.address = e->address;
    if (!b.error)
        mf_copy_eqn(&b, e, in, out);
    return finish(c, &b, out, e->out_count);
}

/* Removes the devices from inner maps, since those of the CPU client differ. */
static mf_program *without_devices(const mf_program *p, const mf_axis_env *env, mf_error_object **error);
static void forget_devices(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    mf_pmap_params m;
    if (e->op != &mf_op_pmap) {
        mf_rewrite_copy(r, e, in);
        return;
    }
    m = *(const mf_pmap_params *)e->params;
    m.devices = mf_ints_intern(NULL, 0);
    if (m.devices)
        mf_rewrite_replace(r, e, &m, in, e->in_count, NULL);
    else
        mf_builder_fail(r->b, mf_error_out_of_memory());
}
static mf_program *without_devices(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, forget_devices, without_devices, NULL, error);
}

mf_program *pjrt_cut_program(cutting *c, cutting_step *s, cutting_place place)
{
    const mf_pmap_params *m = c->map ? c->map->params : NULL;
    mf_error_object *error = NULL;
    mf_program *p = body_of(c, s, m ? mf_axis_env_push(NULL, m->axis_name, m->axis_size, 1) : NULL);
    mf_program *mapped = p && m ? map_of(c, s, p) : mf_retain(p);
    mf_program *there = mapped && place == ON_HOST ? without_devices(mapped, NULL, &error) : mf_retain(mapped);
    if (!there)
        pjrt_cut_fail(c, error);
    mf_drop(p);
    mf_drop(mapped);
    return there;
}
