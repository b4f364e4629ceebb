/* The layouts of the values of the top level, as far as they are known at compile time; see mf_value_layout.
 * Invariant: at run time a value has this layout, or is copied into it when it leaves the program. */
#include "runtime/compile/planner.h"

#include <string.h>

mf_value_layout mf_layout_of_value(const mf_planner *m, mf_variable *v)
{
    v = mf_origin(v);
    return v->constant ? (mf_value_layout){ 0 } : m->layouts[v->id];
}

void mf_layout_pack(mf_planner *m, mf_variable *v)
{
    v = mf_origin(v);
    if (!m->layouts || v->constant)
        return;
    m->layouts[v->id].like = 0;
    m->layouts[v->id].strides = NULL;
    m->layouts[v->id].held = 0;
}

bool mf_layout_same(const mf_value_layout *a, const mf_value_layout *b, const mf_type *t)
{
    if (a->unknown || b->unknown || a->like != b->like || a->sharded_like != b->sharded_like || a->sharding != b->sharding)
        return false;
    return a->strides == b->strides || (a->strides && b->strides && !memcmp(a->strides, b->strides, (size_t)t->rank * sizeof *a->strides));
}

void mf_layout_join(mf_value_layout *to, const mf_value_layout *other, const mf_type *t)
{
    if (!mf_layout_same(to, other, t))
        *to = (mf_value_layout){ .unknown = true };
}

mf_value_layout *mf_layouts_of_operands(mf_planner *m, const mf_eqn *e)
{
    mf_value_layout *list = m->layouts ? mf_planner_alloc(m, (size_t)e->in_count, sizeof *list) : NULL;
    for (int i = 0; list && i < e->in_count; i++)
        list[i] = mf_layout_of_value(m, e->in[i]);
    return list;
}

const bool *mf_layout_held_operands(mf_planner *m, const mf_eqn *e)
{
    const mf_pmap_params *params = e->params;
    bool *held = m->layouts ? mf_planner_alloc(m, (size_t)e->in_count, sizeof *held) : NULL;
    for (int i = 0; held && i < e->in_count; i++) {
        if (params->in_axes->at[i] == INT64_MIN)
            continue;
        mf_value_layout l = mf_layout_of_value(m, e->in[i]);
        mf_axis_set axis = (mf_axis_set)(1 << params->in_axes->at[i]);
        held[i] = l.held & axis;
        if (l.like)
            m->plan->asked[l.like - 1] |= axis;
    }
    return held;
}

static void set_map_layout(mf_planner *m, const mf_eqn *e, const mf_map_output *out, int o)
{
    mf_value_layout *l = &m->layouts[e->out[o]->id];
    if (out->forward >= 0)
        *l = mf_layout_of_value(m, e->in[out->forward]);
    l->sharded_like = 0;
    l->sharding = out->sharding;
    if (out->forward >= 0 || out->contiguous)
        return;
    l->strides = out->strides;
    l->held = mf_strides_held(out->type, out->strides, (mf_axis_set)-1);
}

void mf_layout_results(mf_planner *m, const mf_eqn *e, const mf_map_plan *map)
{
    for (int o = 0; m->layouts && o < e->out_count && !m->error; o++)
        set_map_layout(m, e, &map->out[o], o);
}

void mf_layout_outputs(mf_planner *m, mf_block *b)
{
    const mf_program *p = m->schedule.program;
    mf_value_layout *out = mf_planner_alloc(m, (size_t)p->out_count, sizeof *out);
    for (int o = 0; out && o < p->out_count; o++)
        out[o] = mf_layout_of_value(m, p->out[o]);
    b->out_layouts = out;
}
