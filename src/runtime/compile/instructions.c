/* Makes instructions from the items of a schedule. Invariants: a block waits for a value of the uniform block before it reads it; a
 * nested program's block and a map's plan are made with the instruction that runs them. */
#include "runtime/compile/planner.h"
#include "transform/functions/mapped/pmap.h"

#include <string.h>

static mf_instr *new_instr(mf_planner *m, int where, const mf_item *item, int position)
{
    mf_side *d = &m->sides[where];
    mf_instr *in = mf_planner_alloc(m, 1, sizeof *in);
    int capacity = d->instr_capacity;
    if (in && (!mf_grow(&d->instrs, &d->instr_capacity, d->instr_count + 1, sizeof *d->instrs) ||
               !mf_grow(&m->item_of[where], &capacity, d->instr_count + 1, sizeof *m->item_of[where]))) {
        m->error = mf_error_out_of_memory();
        return NULL;
    }
    if (in && item && (in->source = mf_planner_alloc(m, 1, sizeof *in->source)))
        *in->source = (mf_profile_source){ .eqns = item->eqns, .count = item->count };
    if (m->error)
        return NULL;
    in->position = position;
    m->item_of[where][d->instr_count] = item;
    d->instrs[d->instr_count++] = in;
    return in;
}

static void set_operands(mf_planner *m, mf_instr *in, int where, mf_variable *const *from, int in_count, mf_variable *const *to,
                         int out_count)
{
    in->in = mf_planner_alloc(m, (size_t)in_count, sizeof *in->in);
    in->out = mf_planner_alloc(m, (size_t)out_count, sizeof *in->out);
    in->moves = mf_planner_alloc(m, (size_t)in_count, sizeof *in->moves);
    if (m->error)
        return;
    in->in_count = in_count;
    in->out_count = out_count;
    for (int i = 0; i < in_count; i++)
        in->in[i] = mf_reference(m, where, from[i]);
    for (int o = 0; o < out_count; o++)
        in->out[o] = mf_reference(m, where, to[o]);
}

/* Lists the variables that a segment reads from outside, each once. */
static int segment_inputs(mf_planner *m, int index, mf_variable **list)
{
    const mf_item *item = &m->schedule.items[index];
    int count = 0;
    mf_visit_item(m, index);
    for (int k = 0; k < item->count; k++)
        for (int a = 0; a < item->eqns[k]->in_count && !(item->eqns[k]->op->flags & MF_OP_BARRIER); a++) {
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

static bool must_wait(const mf_planner *m, int where, const mf_variable *v)
{
    if (v->constant || !m->mapped || m->schedule.side[v->id] != MF_UNIFORM || m->schedule.made_by[v->id] < 0 ||
        m->sides[where].known[v->id])
        return false;
    return where == MF_DEVICE || m->schedule.items[m->schedule.made_by[v->id]].side == MF_DEVICE;
}

/* Adds an instruction that waits for what the block's next instruction reads of the uniform block. */
static void wait_for(mf_planner *m, int where, mf_variable *const *in, int in_count, int position)
{
    int count = 0;
    int *list = NULL;
    for (int i = 0; i < in_count && !m->error; i++) {
        mf_variable *v = mf_origin(in[i]);
        if (!must_wait(m, where, v))
            continue;
        if (!list)
            list = mf_planner_alloc(m, (size_t)in_count, sizeof *list);
        if (!list)
            return;
        m->sides[where].known[v->id] = true;
        int r = mf_reference(m, where, v);
        list[count++] = r < 0 ? ~r : r;
    }
    mf_instr *wait = count ? new_instr(m, where, NULL, position) : NULL;
    if (!wait)
        return;
    wait->kind = MF_DO_AWAIT;
    wait->in_count = count;
    wait->in = list;
    wait->moves = mf_planner_alloc(m, (size_t)count, sizeof *wait->moves);
}

/* ------------------------------------------------------------------ segments and collectives */

static bool is_alias(const mf_eqn *e) { return e->op->view == MF_VIEW_RESHAPE && e->in[0]->type->bytes == e->out[0]->type->bytes; }

static void make_segment(mf_planner *m, int index)
{
    const mf_item *item = &m->schedule.items[index];
    mf_variable **in = mf_planner_alloc(m, (size_t)most_inputs(item), sizeof *in),
                **out = mf_planner_alloc(m, (size_t)most_outputs(item), sizeof *out);
    if (m->error)
        return;
    int in_count = segment_inputs(m, index, in), out_count = 0;
    for (int k = 0; k < item->count; k++)
        for (int o = 0; o < item->eqns[k]->out_count; o++)
            if (m->crosses[item->eqns[k]->out[o]->id] && m->schedule.made_by[item->eqns[k]->out[o]->id] == index)
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
        mf_layout_pack(m, in[i]);
    m->seg_in[index] = in;
    m->seg_out[index] = out;
}

static void make_collective(mf_planner *m, int index)
{
    const mf_item *item = &m->schedule.items[index];
    mf_variable **in = mf_planner_alloc(m, (size_t)item->count, sizeof *in), **out = mf_planner_alloc(m, (size_t)item->count, sizeof *out);
    mf_participants *participants = mf_planner_alloc(m, 1, sizeof *participants);
    for (int k = 0; k < item->count && !m->error; k++) {
        in[k] = item->eqns[k]->in[0];
        out[k] = item->eqns[k]->out[0];
    }
    if (m->error)
        return;
    mf_find_participants(m, item, participants);
    participants->eqns = item->eqns;
    if (!m->error)
        mf_find_permutations(m, participants, item->count);
    participants->ordinal = m->plan->collective_count++;
    wait_for(m, item->side, in, item->count, index);
    mf_instr *made = m->error ? NULL : new_instr(m, item->side, item, index);
    if (!made)
        return;
    made->kind = MF_DO_COLLECTIVE;
    made->eqn = item->eqns[0];
    made->participants = participants;
    set_operands(m, made, item->side, in, item->count, out, item->count);
    for (int k = 0; k < item->count && !participants->detached && item->side == MF_DEVICE; k++)
        m->sides[MF_DEVICE].known[out[k]->id] = true;
}

static void make_axis_index(mf_planner *m, int index)
{
    const mf_item *item = &m->schedule.items[index];
    mf_participants *participants = mf_planner_alloc(m, 1, sizeof *participants);
    mf_instr *made = participants ? new_instr(m, item->side, item, index) : NULL;
    if (!made)
        return;
    made->kind = MF_DO_AXIS_INDEX;
    made->eqn = item->eqns[0];
    made->participants = participants;
    mf_find_participants(m, item, participants);
    set_operands(m, made, item->side, NULL, 0, item->eqns[0]->out, 1);
}

/* ------------------------------------------------------------------ maps and control flow */

static void make_map(mf_planner *m, mf_instr *made)
{
    const mf_eqn *e = made->eqn;
    const bool *held = mf_layout_held_operands(m, e);
    if (!m->error)
        made->map = mf_plan_map(m->plan, e, mf_params_env(e->op, e->params, m->schedule.env), held, &m->error);
    if (!m->error)
        mf_layout_results(m, e, made->map);
}

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

static mf_block *nested_block(mf_planner *m, const mf_eqn *e, int i, const mf_value_layout *in)
{
    return m->error ? NULL : mf_plan_program(m->plan, *mf_params_program_at(e->op, e->params, i), m->schedule.env, in, &m->error);
}

static void make_call(mf_planner *m, mf_instr *made)
{
    const mf_eqn *e = made->eqn;
    const mf_value_layout *in = mf_layouts_of_operands(m, e);
    int first = e->op == &mf_op_cond;
    for (int i = 0; i < made->block_count && !m->error; i++) {
        made->blocks[i] = nested_block(m, e, i, in ? in + first : NULL);
        for (int o = 0; in && o < e->out_count && !m->error; o++)
            if (i == 0)
                m->layouts[e->out[o]->id] = made->blocks[i]->out_layouts[o];
            else
                mf_layout_join(&m->layouts[e->out[o]->id], &made->blocks[i]->out_layouts[o], e->out[o]->type);
    }
}

/* Sets the layouts of the carry: the layout before the loop where the body keeps it, else unknown. Returns whether any has changed. */
static bool carry_changes(const mf_block *body, const mf_program *p, mf_value_layout *in, int first, int count)
{
    bool changes = false;
    for (int i = 0; i < count; i++) {
        mf_value_layout *l = &in[first + i];
        if (l->unknown || mf_layout_same(l, &body->out_layouts[i], p->out[i]->type))
            continue;
        *l = (mf_value_layout){ .unknown = true };
        changes = true;
    }
    for (int i = 0; changes && i < count; i++)
        if (p->out[i] != p->in[first + i]) /* it may be computed from one that changes */
            in[first + i] = (mf_value_layout){ .unknown = true };
    return changes;
}

static void make_loop(mf_planner *m, mf_instr *made)
{
    const mf_eqn *e = made->eqn;
    const mf_while_params *w = made->kind == MF_DO_WHILE ? e->params : NULL;
    const mf_scan_params *s = w ? NULL : e->params;
    int body = w ? 1 : 0, before = w ? (int)w->cond_consts : 0, first = w ? (int)w->body_consts : (int)s->consts;
    int carry = w ? e->in_count - before - first : (int)s->carry;
    const mf_program *p = *mf_params_program_at(e->op, e->params, body);
    for (int i = first + carry; s && i < e->in_count; i++)
        mf_layout_pack(m, e->in[i]);
    mf_value_layout *in = mf_layouts_of_operands(m, e);
    if (m->error)
        return;
    for (int i = first + carry; s && in && i < e->in_count; i++)
        in[i] = (mf_value_layout){ 0 }; /* slices of packed operands */
    mf_map_plan *maps = m->plan->maps;
    made->blocks[body] = nested_block(m, e, body, in ? in + before : NULL);
    while (in && !m->error && carry_changes(made->blocks[body], p, in + before, first, carry) && has_map(p)) {
        m->plan->maps = maps; /* drops the maps of the block that is made anew */
        made->blocks[body] = nested_block(m, e, body, in + before);
    }
    mf_value_layout *condition = w && in ? mf_planner_alloc(m, (size_t)e->in_count, sizeof *condition) : NULL;
    for (int i = 0; condition && i < before + carry; i++)
        condition[i] = in[i < before ? i : i + first];
    if (w)
        made->blocks[0] = nested_block(m, e, 0, condition);
    for (int o = 0; in && o < carry && !m->error; o++)
        m->layouts[e->out[o]->id] = in[before + first + o];
}

static void make_control(mf_planner *m, int index)
{
    const mf_item *item = &m->schedule.items[index];
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
    made->blocks = mf_planner_alloc(m, (size_t)made->block_count, sizeof *made->blocks);
    if (m->error)
        return;
    if (item->kind == MF_DO_CALL)
        make_call(m, made);
    else
        make_loop(m, made);
}

static void make_instr(mf_planner *m, int index)
{
    switch (m->schedule.items[index].kind) {
    case MF_DO_SEGMENT: make_segment(m, index); break;
    case MF_DO_COLLECTIVE: make_collective(m, index); break;
    case MF_DO_AXIS_INDEX: make_axis_index(m, index); break;
    default: make_control(m, index); break;
    }
}

void mf_make_instructions(mf_planner *m)
{
    for (int i = 0; i < m->schedule.item_count && !m->error; i++)
        make_instr(m, i);
}
