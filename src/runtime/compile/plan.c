/* From a schedule to blocks: registers, references, waiting, instructions. Invariants: a register is written by one instruction of its
 * block, or by a collective that the devices share; what a block reads of the once block it has waited for. */
#include "runtime/compile/planner.h"
#include "transform/functions/pmap.h"

#include <string.h>

void *mf_maker_get(mf_maker *m, size_t count, size_t size)
{
    void *p = m->error ? NULL : mf_arena_alloc(&m->plan->arena, (count + 1) * size);
    if (!p && !m->error)
        m->error = mf_error_out_of_memory();
    return p;
}

int *mf_maker_minus_ones(mf_maker *m, int count)
{
    int *at = mf_maker_get(m, (size_t)count, sizeof *at);
    for (int i = 0; at && i < count; i++)
        at[i] = -1;
    return at;
}

/* ------------------------------------------------------------------ registers and references */

static int new_register(mf_maker *m, int where, const mf_type *type)
{
    mf_side *d = &m->sides[where];
    if (!m->error && !mf_grow(&d->types, &d->reg_capacity, d->reg_count + 1, sizeof *d->types))
        m->error = mf_error_out_of_memory();
    if (m->error)
        return 0;
    d->types[d->reg_count] = type;
    return d->reg_count++;
}

/* How the block `where` names v. */
static int reference(mf_maker *m, int where, mf_variable *v)
{
    if (m->error)
        return 0;
    v = mf_origin(v);
    if (v->constant) {
        int *r = &m->sides[where].constant_of[v->id];
        if (*r < 0)
            *r = new_register(m, where, v->type);
        return *r;
    }
    int home = m->s.side[v->id];
    if (m->reg[v->id] < 0)
        m->reg[v->id] = new_register(m, home, v->type);
    return home == where ? m->reg[v->id] : ~m->reg[v->id];
}

static mf_instr *new_instr(mf_maker *m, int where, const mf_item *item, int position)
{
    mf_side *d = &m->sides[where];
    mf_instr *in = mf_maker_get(m, 1, sizeof *in);
    int capacity = d->instr_capacity;
    if (in && (!mf_grow(&d->instrs, &d->instr_capacity, d->instr_count + 1, sizeof *d->instrs) ||
               !mf_grow(&m->item_of[where], &capacity, d->instr_count + 1, sizeof *m->item_of[where]))) {
        m->error = mf_error_out_of_memory();
        return NULL;
    }
    if (in && item && (in->source = mf_maker_get(m, 1, sizeof *in->source)))
        *in->source = (mf_profile_source){ .eqns = item->eqns, .count = item->count };
    if (m->error)
        return NULL;
    in->position = position;
    m->item_of[where][d->instr_count] = item;
    d->instrs[d->instr_count++] = in;
    return in;
}

static void set_operands(mf_maker *m, mf_instr *in, int where, mf_variable *const *from, int in_count, mf_variable *const *to,
                         int out_count)
{
    in->in = mf_maker_get(m, (size_t)in_count, sizeof *in->in);
    in->out = mf_maker_get(m, (size_t)out_count, sizeof *in->out);
    in->takes = mf_maker_get(m, (size_t)in_count, sizeof *in->takes);
    if (m->error)
        return;
    in->in_count = in_count;
    in->out_count = out_count;
    for (int i = 0; i < in_count; i++)
        in->in[i] = reference(m, where, from[i]);
    for (int o = 0; o < out_count; o++)
        in->out[o] = reference(m, where, to[o]);
}

/* ------------------------------------------------------------------ who reads what */

/* A barrier reads nothing: who reads its results reads its operands, but later. */
static bool is_barrier(const mf_eqn *e) { return e->op == &mf_op_optimization_barrier; }

/* Until the next call, computed_in tells what this item computes itself. */
static void look_at(mf_maker *m, int index)
{
    const mf_item *item = &m->s.items[index];
    for (int k = 0; k < item->count; k++)
        for (int o = 0; o < item->eqns[k]->out_count; o++)
            m->computed_in[item->eqns[k]->out[o]->id] = index + 1;
}

static void find_crossings(mf_maker *m)
{
    const mf_schedule *s = &m->s;
    for (int i = 0; i < s->item_count && !m->error; i++) {
        look_at(m, i);
        for (int k = 0; k < s->items[i].count; k++) {
            const mf_eqn *e = s->items[i].eqns[k];
            for (int o = 0; o < e->out_count && (e->op->flags & MF_OP_EFFECT);
                 o++) /* it happens, whether anybody reads its result or not */
                m->crosses[e->out[o]->id] = true;
            for (int a = 0; a < e->in_count && !is_barrier(e); a++) {
                const mf_variable *v = mf_origin(e->in[a]);
                m->crosses[v->id] |= m->computed_in[v->id] != i + 1;
                m->read_by_device[v->id] |= s->items[i].side == MF_DEVICE;
            }
        }
    }
    for (int o = 0; o < s->program->out_count && !m->error; o++)
        m->crosses[mf_origin(s->program->out[o])->id] = true;
}

/* The variables that a segment takes from outside, each once. */
static int segment_inputs(mf_maker *m, int index, mf_variable **list)
{
    const mf_item *item = &m->s.items[index];
    int count = 0;
    look_at(m, index);
    for (int k = 0; k < item->count; k++)
        for (int a = 0; a < item->eqns[k]->in_count && !is_barrier(item->eqns[k]); a++) {
            mf_variable *v = mf_origin(item->eqns[k]->in[a]);
            if (v->constant || m->computed_in[v->id] == index + 1)
                continue;
            bool seen = false;
            for (int j = 0; j < count && !seen; j++)
                seen = list[j] == v;
            if (!seen)
                list[count++] = v;
        }
    return count;
}

static int most_inputs(const mf_item *item)
{
    int count = 0;
    for (int k = 0; k < item->count; k++)
        count += item->eqns[k]->in_count;
    return count;
}

static int most_outputs(const mf_item *item)
{
    int count = 0;
    for (int k = 0; k < item->count; k++)
        count += item->eqns[k]->out_count;
    return count;
}

/* ------------------------------------------------------------------ waiting */

static bool must_wait(const mf_maker *m, int where, const mf_variable *v)
{
    if (v->constant || !m->mapped || m->s.side[v->id] != MF_ONCE || m->s.made_by[v->id] < 0 || m->sides[where].known[v->id])
        return false;
    return where == MF_DEVICE || m->s.items[m->s.made_by[v->id]].side == MF_DEVICE;
}

/* An instruction that waits for what the next one of this block reads. */
static void wait_for(mf_maker *m, int where, mf_variable *const *in, int in_count, int position)
{
    int count = 0;
    int *list = NULL;
    for (int i = 0; i < in_count && !m->error; i++) {
        mf_variable *v = mf_origin(in[i]);
        if (!must_wait(m, where, v))
            continue;
        if (!list)
            list = mf_maker_get(m, (size_t)in_count, sizeof *list);
        if (!list)
            return;
        m->sides[where].known[v->id] = true;
        int r = reference(m, where, v);
        list[count++] = r < 0 ? ~r : r;
    }
    mf_instr *wait = count ? new_instr(m, where, NULL, position) : NULL;
    if (!wait)
        return;
    wait->kind = MF_DO_AWAIT;
    wait->in_count = count;
    wait->in = list;
    wait->takes = mf_maker_get(m, (size_t)count, sizeof *wait->takes);
}

/* ------------------------------------------------------------------ layouts */

static mf_value_layout layout_of(const mf_maker *m, mf_variable *v)
{
    v = mf_origin(v);
    return v->constant ? (mf_value_layout){ 0 } : m->layouts[v->id];
}

/* It is laid row by row where it is. */
static void pack(mf_maker *m, mf_variable *v)
{
    v = mf_origin(v);
    if (!m->layouts || v->constant)
        return;
    m->layouts[v->id].like = 0;
    m->layouts[v->id].strides = NULL;
    m->layouts[v->id].held = 0;
}

static bool same_layout(const mf_value_layout *a, const mf_value_layout *b, const mf_type *t)
{
    if (a->unknown || b->unknown || a->like != b->like || a->placed_like != b->placed_like || a->placement != b->placement)
        return false;
    return a->strides == b->strides || (a->strides && b->strides && !memcmp(a->strides, b->strides, (size_t)t->rank * sizeof *a->strides));
}

static void join_layout(mf_value_layout *to, const mf_value_layout *other, const mf_type *t)
{
    if (!same_layout(to, other, t))
        *to = (mf_value_layout){ .unknown = true };
}

static const mf_value_layout *operand_layouts(mf_maker *m, const mf_eqn *e)
{
    mf_value_layout *list = m->layouts ? mf_maker_get(m, (size_t)e->in_count, sizeof *list) : NULL;
    for (int i = 0; list && i < e->in_count; i++)
        list[i] = layout_of(m, e->in[i]);
    return list;
}

/* ------------------------------------------------------------------ instructions */

/* Ops that only give another shape to the same bytes. */
static bool is_alias(const mf_eqn *e)
{
    static const mf_op *const rows[] = { &mf_op_reshape, &mf_op_squeeze, &mf_op_expand_dims, &mf_op_stop_gradient, &mf_op_copy };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (e->op == rows[i])
            return e->in[0]->type->bytes == e->out[0]->type->bytes;
    return false;
}

static void make_segment(mf_maker *m, int index)
{
    const mf_item *item = &m->s.items[index];
    mf_variable **in = mf_maker_get(m, (size_t)most_inputs(item), sizeof *in),
                **out = mf_maker_get(m, (size_t)most_outputs(item), sizeof *out);
    if (m->error)
        return;
    int in_count = segment_inputs(m, index, in), out_count = 0;
    for (int k = 0; k < item->count; k++)
        for (int o = 0; o < item->eqns[k]->out_count; o++)
            if (m->crosses[item->eqns[k]->out[o]->id] && m->s.made_by[item->eqns[k]->out[o]->id] == index)
                out[out_count++] = item->eqns[k]->out[o];
    if (!out_count)
        return;
    wait_for(m, item->side, in, in_count, index);
    mf_instr *made = new_instr(m, item->side, item, index);
    if (!made)
        return;
    made->kind = item->count == 1 && in_count == 1 && is_alias(item->eqns[0]) ? MF_DO_ALIAS : MF_DO_SEGMENT;
    made->eqn = item->eqns[0];
    set_operands(m, made, item->side, in, in_count, out, out_count);
    for (int i = 0; i < in_count && made->kind == MF_DO_SEGMENT; i++)
        pack(m, in[i]);
    m->seg_in[index] = in;
    m->seg_out[index] = out;
}

static void fill_meeting(mf_maker *m, const mf_item *item, mf_meeting *meeting)
{
    int64_t group_size;
    mf_collective_members(item->eqns[0], &meeting->axes, &meeting->groups, &group_size);
    meeting->axis_count = meeting->axes ? meeting->axes->count : 0;
    if (meeting->axis_count > MF_LEVELS) {
        m->error = mf_error_new(MF_ERROR_AXIS, "%s: more than %d axis names", item->eqns[0]->op->name, MF_LEVELS);
        return;
    }
    meeting->member_count = 1;
    for (int a = 0; a < meeting->axis_count; a++) {
        const char *name = meeting->axes->at[a];
        int level = mf_axis_level(m->s.env, name);
        if (level < 0 || level >= MF_LEVELS) {
            m->error = mf_error_new(MF_ERROR_AXIS, "%s: unbound axis name: %s", item->eqns[0]->op->name, name);
            return;
        }
        meeting->levels[a] = level;
        meeting->sizes[a] = mf_axis_env_find(m->s.env, name)->size;
        meeting->top = level > meeting->top ? level : meeting->top;
        meeting->member_count *= meeting->sizes[a];
    }
    if (meeting->groups && !meeting->groups->count)
        meeting->groups = NULL;
    if (meeting->groups)
        meeting->member_count = group_size;
    meeting->detached = item->side == MF_DEVICE && m->mapped && !meeting->top && !meeting->groups; /* the last member ends it in time */
    for (int k = 0; k < item->count; k++) {
        const mf_variable *v = item->eqns[k]->out[0];
        meeting->detached &= m->s.side[v->id] == MF_ONCE && !m->read_by_device[v->id];
    }
}

static void make_collective(mf_maker *m, int index)
{
    const mf_item *item = &m->s.items[index];
    mf_variable **in = mf_maker_get(m, (size_t)item->count, sizeof *in), **out = mf_maker_get(m, (size_t)item->count, sizeof *out);
    mf_meeting *meeting = mf_maker_get(m, 1, sizeof *meeting);
    for (int k = 0; k < item->count && !m->error; k++) {
        in[k] = item->eqns[k]->in[0];
        out[k] = item->eqns[k]->out[0];
    }
    if (m->error)
        return;
    fill_meeting(m, item, meeting);
    meeting->eqns = item->eqns;
    wait_for(m, item->side, in, item->count, index);
    mf_instr *made = m->error ? NULL : new_instr(m, item->side, item, index);
    if (!made)
        return;
    made->kind = MF_DO_COLLECTIVE;
    made->eqn = item->eqns[0];
    made->meeting = meeting;
    set_operands(m, made, item->side, in, item->count, out, item->count);
    for (int k = 0; k < item->count && !meeting->detached && item->side == MF_DEVICE; k++)
        m->sides[MF_DEVICE].known[out[k]->id] = true;
}

static void make_axis_index(mf_maker *m, int index)
{
    const mf_item *item = &m->s.items[index];
    mf_meeting *meeting = mf_maker_get(m, 1, sizeof *meeting);
    mf_instr *made = meeting ? new_instr(m, item->side, item, index) : NULL;
    if (!made)
        return;
    made->kind = MF_DO_AXIS_INDEX;
    made->eqn = item->eqns[0];
    made->meeting = meeting;
    fill_meeting(m, item, meeting);
    set_operands(m, made, item->side, NULL, 0, item->eqns[0]->out, 1);
}

/* ------------------------------------------------------------------ maps */

/* Which mapped operands are held once. What that of an input decides, the plan supposes from now on. */
static const bool *held_operands(mf_maker *m, const mf_eqn *e)
{
    const mf_pmap_params *params = e->params;
    bool *held = m->layouts ? mf_maker_get(m, (size_t)e->in_count, sizeof *held) : NULL;
    for (int i = 0; held && i < e->in_count; i++) {
        if (params->in_axes->at[i] == INT64_MIN)
            continue;
        mf_value_layout l = layout_of(m, e->in[i]);
        mf_axis_set axis = (mf_axis_set)(1 << params->in_axes->at[i]);
        held[i] = l.held & axis;
        if (l.like)
            m->plan->asked[l.like - 1] |= axis;
    }
    return held;
}

static void set_map_layout(mf_maker *m, const mf_eqn *e, const mf_map_output *out, int o)
{
    mf_value_layout *l = &m->layouts[e->out[o]->id];
    if (out->forward >= 0)
        *l = layout_of(m, e->in[out->forward]);
    l->placed_like = 0;
    l->placement = out->placement;
    if (out->forward >= 0 || out->contiguous)
        return;
    l->strides = out->strides;
    l->held = mf_strides_held(out->type, out->strides, (mf_axis_set)-1);
}

static void make_map(mf_maker *m, mf_instr *made)
{
    const mf_eqn *e = made->eqn;
    const bool *held = held_operands(m, e);
    if (!m->error)
        made->map = mf_plan_map(m->plan, e, mf_params_env(e->op, e->params, m->s.env), held, &m->error);
    for (int o = 0; m->layouts && o < e->out_count && !m->error; o++)
        set_map_layout(m, e, &made->map->out[o], o);
}

/* ------------------------------------------------------------------ control flow */

static bool has_map(const mf_program *p)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        if (e->op == &mf_op_pmap)
            return true;
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n; k++)
            if (has_map(*mf_params_program_at(e->op, e->params, k)))
                return true;
    }
    return false;
}

static mf_block *nested_block(mf_maker *m, const mf_eqn *e, int i, const mf_value_layout *in)
{
    return m->error ? NULL : mf_plan_program(m->plan, *mf_params_program_at(e->op, e->params, i), m->s.env, in, &m->error);
}

static void make_call(mf_maker *m, mf_instr *made)
{
    const mf_eqn *e = made->eqn;
    const mf_value_layout *in = operand_layouts(m, e);
    int first = e->op == &mf_op_cond;
    for (int i = 0; i < made->block_count && !m->error; i++) {
        made->blocks[i] = nested_block(m, e, i, in ? in + first : NULL);
        for (int o = 0; in && o < e->out_count && !m->error; o++)
            if (i == 0)
                m->layouts[e->out[o]->id] = made->blocks[i]->out_layouts[o];
            else
                join_layout(&m->layouts[e->out[o]->id], &made->blocks[i]->out_layouts[o], e->out[o]->type);
    }
}

/* What a loop carries lies as it did before the loop if its body keeps it so, and else nobody knows how. */
static bool carry_changes(const mf_block *body, const mf_program *p, mf_value_layout *in, int first, int count)
{
    bool changes = false;
    for (int i = 0; i < count; i++)
        changes |= !in[first + i].unknown && !same_layout(&in[first + i], &body->out_layouts[i], p->out[i]->type);
    for (int i = 0; changes && i < count; i++)
        if (p->out[i] != p->in[first + i])
            in[first + i] = (mf_value_layout){ .unknown = true };
    return changes;
}

static void make_loop(mf_maker *m, mf_instr *made)
{
    const mf_eqn *e = made->eqn;
    const mf_while_params *w = made->kind == MF_DO_WHILE ? e->params : NULL;
    const mf_scan_params *s = w ? NULL : e->params;
    int body = w ? 1 : 0, before = w ? (int)w->cond_consts : 0, first = w ? (int)w->body_consts : (int)s->consts;
    int carry = w ? e->in_count - before - first : (int)s->carry;
    const mf_program *p = *mf_params_program_at(e->op, e->params, body);
    for (int i = first + carry; s && i < e->in_count; i++)
        pack(m, e->in[i]);
    mf_value_layout *in = (mf_value_layout *)(uintptr_t)operand_layouts(m, e);
    if (m->error)
        return;
    for (int i = first + carry; s && in && i < e->in_count; i++)
        in[i] = (mf_value_layout){ 0 }; /* parts of what was packed */
    made->blocks[body] = nested_block(m, e, body, in ? in + before : NULL);
    while (in && !m->error && carry_changes(made->blocks[body], p, in + before, first, carry) && has_map(p))
        made->blocks[body] = nested_block(m, e, body, in + before);
    mf_value_layout *condition = w && in ? mf_maker_get(m, (size_t)e->in_count, sizeof *condition) : NULL;
    for (int i = 0; condition && i < before + carry; i++)
        condition[i] = in[i < before ? i : i + first];
    if (w)
        made->blocks[0] = nested_block(m, e, 0, condition);
    for (int o = 0; in && o < carry && !m->error; o++)
        m->layouts[e->out[o]->id] = in[before + first + o];
}

/* Control flow: a block for each nested program. */
static void make_control(mf_maker *m, int index)
{
    const mf_item *item = &m->s.items[index];
    const mf_eqn *e = item->eqns[0];
    wait_for(m, item->side, e->in, e->in_count, index);
    mf_instr *made = m->error ? NULL : new_instr(m, item->side, item, index);
    if (!made)
        return;
    made->kind = item->kind;
    made->eqn = e;
    set_operands(m, made, item->side, e->in, e->in_count, e->out, e->out_count);
    if (item->kind == MF_DO_MAP) {
        make_map(m, made);
        return;
    }
    made->block_count = mf_params_program_count(e->op, e->params);
    made->blocks = mf_maker_get(m, (size_t)made->block_count, sizeof *made->blocks);
    if (m->error)
        return;
    if (item->kind == MF_DO_CALL)
        make_call(m, made);
    else
        make_loop(m, made);
}

static void make_instr(mf_maker *m, int index)
{
    switch (m->s.items[index].kind) {
    case MF_DO_SEGMENT: make_segment(m, index); break;
    case MF_DO_COLLECTIVE: make_collective(m, index); break;
    case MF_DO_AXIS_INDEX: make_axis_index(m, index); break;
    default: make_control(m, index); break;
    }
}

/* ------------------------------------------------------------------ blocks */

static void compile_segments(mf_maker *m)
{
    for (int w = 0; w < 2; w++)
        for (int t = 0; t < m->sides[w].instr_count && !m->error; t++) {
            mf_instr *in = m->sides[w].instrs[t];
            int index = in->position;
            if (in->kind == MF_DO_SEGMENT)
                in->kernel = mf_segment_compile(m->plan, m->item_of[w][t], m->seg_in[index], in->in_count, in->takes, m->seg_out[index],
                                                in->out_count, m->s.program->var_count, &m->error);
        }
}

#define DEVICE_COST 80 /* nanoseconds that a device of a map takes by itself */

double mf_map_cost(const mf_map_plan *map)
{
    /* In lockstep most of what a device takes by itself is shared: measured, half of a small program. */
    double device = map->lockstep ? map->device->cost / 2 : map->device->cost + DEVICE_COST;
    return (double)map->size * device + map->once->cost;
}

static double cost_of_instr(const mf_instr *in, const mf_side *d)
{
    double cost = 50;
    switch (in->kind) {
    case MF_DO_SEGMENT: return in->kernel->cost;
    case MF_DO_COLLECTIVE:
        for (int i = 0; i < in->in_count; i++)
            cost += in->in[i] >= 0 ? 0.04 * (double)d->types[in->in[i]]->bytes : 0;
        return cost + 100;
    case MF_DO_CALL:
        for (int i = 0; i < in->block_count; i++)
            cost = in->blocks[i]->cost > cost ? in->blocks[i]->cost : cost;
        return cost;
    case MF_DO_WHILE: return 100 * (in->blocks[0]->cost + in->blocks[1]->cost + 100); /* nobody knows how often */
    case MF_DO_SCAN: return (double)((const mf_scan_params *)in->eqn->params)->length * (in->blocks[0]->cost + 100);
    case MF_DO_MAP: return mf_map_cost(in->map);
    default: return cost;
    }
}

int mf_span_of(const mf_program *p) { return (int)mf_program_replicas(p); }

static void set_constants(mf_maker *m, int where, mf_block *b)
{
    const mf_program *p = m->s.program;
    int count = 0;
    b->constants = mf_maker_get(m, (size_t)p->var_count, sizeof *b->constants);
    b->constant_arrays = mf_maker_get(m, (size_t)p->var_count, sizeof(mf_array *));
    for (int v = 0; v < p->var_count && !m->error; v++) {
        if (m->sides[where].constant_of[v] < 0)
            continue;
        mf_array *a = mf_array_contiguous(p->vars[v]->constant);
        if (!a || !mf_grow(&m->plan->arrays, &m->plan->array_capacity, m->plan->array_count + 1, sizeof *m->plan->arrays)) {
            mf_drop(a);
            m->error = mf_error_out_of_memory();
            return;
        }
        m->plan->arrays[m->plan->array_count++] = a;
        b->constants[count] = m->sides[where].constant_of[v];
        b->constant_arrays[count++] = a;
    }
    b->constant_count = count;
}

/* The side's registers and instructions as a block that lives in the plan. */
static mf_block *make_block(mf_maker *m, int where)
{
    mf_side *d = &m->sides[where];
    mf_block *b = mf_maker_get(m, 1, sizeof *b);
    const mf_type **types = mf_maker_get(m, (size_t)d->reg_count, sizeof *types);
    mf_instr **instrs = mf_maker_get(m, (size_t)d->instr_count, sizeof *instrs);
    int *home = mf_maker_minus_ones(m, d->reg_count);
    if (m->error)
        return NULL;
    if (d->reg_count)
        memcpy(types, d->types, (size_t)d->reg_count * sizeof *types);
    if (d->instr_count)
        memcpy(instrs, d->instrs, (size_t)d->instr_count * sizeof *instrs);
    *b = (mf_block){ .register_count = d->reg_count, .types = types, .instr_count = d->instr_count, .instrs = instrs, .home = home };
    b->span = mf_span_of(m->s.program);
    for (int t = 0; t < d->instr_count; t++)
        b->cost += cost_of_instr(d->instrs[t], d);
    set_constants(m, where, b);
    return b;
}

static void set_inputs(mf_maker *m, int where, mf_block *b)
{
    const mf_program *p = m->s.program;
    b->in = mf_maker_minus_ones(m, p->in_count);
    b->in_count = p->in_count;
    for (int i = 0; i < p->in_count && !m->error; i++)
        if (m->s.side[p->in[i]->id] == where)
            b->in[i] = m->reg[p->in[i]->id];
}

/* Outputs, and registers that are born in the output's memory: those that a segment writes. */
static void set_outputs(mf_maker *m, mf_block *b, int *out)
{
    int count = m->s.program->out_count;
    if (!b) /* then m has the error */
        return;
    b->out = out;
    b->out_count = count;
    b->out_takes = mf_maker_get(m, (size_t)count, sizeof *b->out_takes);
    if (m->error)
        return;
    for (int t = 0; t < b->instr_count; t++)
        for (int k = 0; b->instrs[t]->kind == MF_DO_SEGMENT && k < b->instrs[t]->out_count; k++)
            for (int o = count - 1; o >= 0; o--)
                if (out[o] == b->instrs[t]->out[k])
                    b->home[out[o]] = o;
    for (int o = 0; o < count; o++) {
        bool again = out[o] < 0;
        for (int k = o + 1; k < count; k++)
            again |= out[k] == out[o];
        for (int c = 0; c < b->constant_count; c++)
            again |= b->constants[c] == out[o];
        b->out_takes[o] = !again;
    }
}

bool mf_maker_start(mf_maker *m, const mf_program *p, const mf_axis_env *env, const bool *once_in)
{
    if (m->error)
        return false;
    m->error = mf_schedule_make(&m->s, m->plan->backend, &m->plan->arena, p, env, once_in);
    m->mapped = once_in;
    size_t vars = (size_t)p->var_count, items = (size_t)m->s.item_count;
    m->reg = mf_maker_minus_ones(m, p->var_count);
    m->crosses = mf_maker_get(m, vars, sizeof *m->crosses);
    m->computed_in = mf_maker_get(m, vars, sizeof *m->computed_in);
    m->read_by_device = mf_maker_get(m, vars, sizeof *m->read_by_device);
    m->seg_in = mf_maker_get(m, items, sizeof *m->seg_in);
    m->seg_out = mf_maker_get(m, items, sizeof *m->seg_out);
    for (int w = 0; w < 2; w++) {
        m->sides[w].constant_of = mf_maker_minus_ones(m, p->var_count);
        m->sides[w].known = mf_maker_get(m, vars, sizeof(bool));
    }
    find_crossings(m);
    for (int i = 0; i < p->in_count && !m->error; i++)
        if (m->crosses[p->in[i]->id])
            reference(m, m->s.side[p->in[i]->id], p->in[i]);
    return !m->error;
}

void mf_maker_finish(mf_maker *m)
{
    mf_schedule_free(&m->s);
    for (int w = 0; w < 2; w++) {
        mf_free(m->sides[w].types);
        mf_free(m->sides[w].instrs);
        mf_free(m->item_of[w]);
    }
}

/* Both blocks; outputs in the order of the program's. */
void mf_maker_blocks(mf_maker *m, mf_block **device, mf_block **once)
{
    const mf_program *p = m->s.program;
    for (int i = 0; i < m->s.item_count && !m->error; i++)
        make_instr(m, i);
    int *out = mf_maker_get(m, (size_t)p->out_count, sizeof *out);
    for (int o = 0; o < p->out_count && !m->error; o++) {
        mf_variable *v = mf_origin(p->out[o]);
        int r = reference(m, m->mapped && v->constant ? MF_ONCE : MF_DEVICE, v);
        out[o] = m->mapped && v->constant ? ~r : r;
    }
    if (!m->error)
        mf_maker_deaths(m, out);
    compile_segments(m);
    mf_block *blocks[2] = { NULL, NULL };
    for (int w = 0; w < 2 && !m->error; w++) {
        blocks[w] = make_block(m, w);
        if (blocks[w])
            set_inputs(m, w, blocks[w]);
    }
    if (!m->error)
        set_outputs(m, blocks[MF_DEVICE], out);
    *device = m->error ? NULL : blocks[MF_DEVICE];
    *once = m->error ? NULL : blocks[MF_ONCE];
}

static void set_out_layouts(mf_maker *m, mf_block *b)
{
    const mf_program *p = m->s.program;
    mf_value_layout *out = mf_maker_get(m, (size_t)p->out_count, sizeof *out);
    for (int o = 0; out && o < p->out_count; o++)
        out[o] = layout_of(m, p->out[o]);
    b->out_layouts = out;
}

mf_block *mf_plan_program(mf_plan *plan, const mf_program *p, const mf_axis_env *env, const mf_value_layout *in, mf_error_object **error)
{
    mf_maker m = { .plan = plan };
    mf_block *device = NULL, *once = NULL;
    m.layouts = in ? mf_maker_get(&m, (size_t)p->var_count, sizeof *m.layouts) : NULL;
    for (int i = 0; m.layouts && i < p->in_count; i++)
        m.layouts[p->in[i]->id] = in[i];
    if (mf_maker_start(&m, p, env, NULL))
        mf_maker_blocks(&m, &device, &once);
    if (device && in)
        set_out_layouts(&m, device);
    mf_maker_finish(&m);
    *error = m.error;
    return m.error ? NULL : device;
}

/* ------------------------------------------------------------------ plans */

mf_plan *mf_plan_new(const mf_backend *backend, int in_count)
{
    mf_plan *plan = mf_calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->backend = backend;
    plan->asked = mf_arena_alloc(&plan->arena, ((size_t)in_count + 1) * sizeof *plan->asked);
    if (plan->asked)
        return plan;
    mf_plan_free(plan);
    return NULL;
}

void mf_plan_free(mf_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->kernel_count; i++)
        plan->backend->destroy(plan->kernels[i]);
    for (int i = 0; i < plan->array_count; i++)
        mf_drop(plan->arrays[i]);
    mf_free(plan->kernels);
    mf_free(plan->arrays);
    mf_arena_free(&plan->arena);
    mf_free(plan);
}
