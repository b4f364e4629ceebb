/* Registers: which values cross from one item of the schedule to another, and how a block names them. Invariant: a register is written
 * by one instruction of its block, or by a collective that the devices share. */
#include "runtime/compile/planner.h"

void *mf_planner_alloc(mf_planner *m, size_t count, size_t size)
{
    void *p = m->error ? NULL : mf_arena_alloc(&m->plan->arena, (count + 1) * size);
    if (!p && !m->error)
        m->error = mf_error_out_of_memory();
    return p;
}

int *mf_planner_minus_ones(mf_planner *m, int count)
{
    int *at = mf_planner_alloc(m, (size_t)count, sizeof *at);
    for (int i = 0; at && i < count; i++)
        at[i] = -1;
    return at;
}

static int new_register(mf_planner *m, int where, const mf_type *type)
{
    mf_side *d = &m->sides[where];
    if (!m->error && !mf_grow(&d->types, &d->reg_capacity, d->reg_count + 1, sizeof *d->types))
        m->error = mf_error_out_of_memory();
    if (m->error)
        return 0;
    d->types[d->reg_count] = type;
    return d->reg_count++;
}

int mf_reference(mf_planner *m, int where, mf_variable *v)
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
    int destination = m->schedule.side[v->id];
    if (m->reg[v->id] < 0)
        m->reg[v->id] = new_register(m, destination, v->type);
    return destination == where ? m->reg[v->id] : ~m->reg[v->id];
}

/* A barrier reads nothing itself: readers of its results read its operands, but later. */
static bool is_barrier(const mf_eqn *e) { return e->op->flags & MF_OP_BARRIER; }

void mf_visit_item(mf_planner *m, int index)
{
    const mf_item *item = &m->schedule.items[index];
    for (int k = 0; k < item->count; k++)
        for (int o = 0; o < item->eqns[k]->out_count; o++)
            m->computed_in[item->eqns[k]->out[o]->id] = index + 1;
}

void mf_find_crossings(mf_planner *m)
{
    const mf_schedule *s = &m->schedule;
    for (int i = 0; i < s->item_count && !m->error; i++) {
        mf_visit_item(m, i);
        for (int k = 0; k < s->items[i].count; k++) {
            const mf_eqn *e = s->items[i].eqns[k];
            for (int o = 0; o < e->out_count && (e->op->flags & MF_OP_EFFECT);
                 o++) /* an effect happens whether its result is read or not */
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

/* Inputs that are read have a register from the beginning. */
void mf_reference_inputs(mf_planner *m)
{
    const mf_program *p = m->schedule.program;
    for (int i = 0; i < p->in_count && !m->error; i++)
        if (m->crosses[p->in[i]->id])
            mf_reference(m, m->schedule.side[p->in[i]->id], p->in[i]);
}
