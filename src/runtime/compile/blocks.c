/* Makes blocks: the registers and instructions of a side as they will run; and buffer assignment for registers: which values are written
 * straight into the memory of a result. */
#include "runtime/compile/planner.h"
#include "transform/functions/mapped/pmap.h"

#include <string.h>

int mf_span_of(const mf_program *p) { return (int)mf_program_replicas(p); }

static void set_constants(mf_planner *m, int where, mf_block *b)
{
    const mf_program *p = m->schedule.program;
    int count = 0;
    b->constants = mf_planner_alloc(m, (size_t)p->var_count, sizeof *b->constants);
    b->literals = mf_planner_alloc(m, (size_t)p->var_count, sizeof(mf_literal *));
    for (int v = 0; v < p->var_count && !m->error; v++) {
        if (m->sides[where].constant_of[v] < 0)
            continue;
        mf_literal *l = mf_literal_contiguous(p->vars[v]->constant);
        if (!l || !mf_grow(&m->plan->literals, &m->plan->literal_capacity, m->plan->literal_count + 1, sizeof *m->plan->literals)) {
            mf_drop(l);
            m->error = mf_error_out_of_memory();
            return;
        }
        m->plan->literals[m->plan->literal_count++] = l;
        b->constants[count] = m->sides[where].constant_of[v];
        b->literals[count++] = l;
    }
    b->constant_count = count;
}

/* Copies the side's registers and instructions into a block in the plan's arena. */
static mf_block *make_block(mf_planner *m, int where)
{
    mf_side *d = &m->sides[where];
    mf_block *b = mf_planner_alloc(m, 1, sizeof *b);
    const mf_type **types = mf_planner_alloc(m, (size_t)d->reg_count, sizeof *types);
    mf_instr **instrs = mf_planner_alloc(m, (size_t)d->instr_count, sizeof *instrs);
    int *destination = mf_planner_minus_ones(m, d->reg_count);
    if (m->error)
        return NULL;
    if (d->reg_count)
        memcpy(types, d->types, (size_t)d->reg_count * sizeof *types);
    if (d->instr_count)
        memcpy(instrs, d->instrs, (size_t)d->instr_count * sizeof *instrs);
    *b = (mf_block){
        .register_count = d->reg_count, .types = types, .instr_count = d->instr_count, .instrs = instrs, .destination = destination
    };
    b->span = mf_span_of(m->schedule.program);
    for (int t = 0; t < d->instr_count; t++)
        b->cost += mf_instr_cost(d->instrs[t], d);
    set_constants(m, where, b);
    return b;
}

static void set_inputs(mf_planner *m, int where, mf_block *b)
{
    const mf_program *p = m->schedule.program;
    b->in = mf_planner_minus_ones(m, p->in_count);
    b->in_count = p->in_count;
    for (int i = 0; i < p->in_count && !m->error; i++)
        if (m->schedule.side[p->in[i]->id] == where)
            b->in[i] = m->reg[p->in[i]->id];
}

/* Sets the outputs, and the destinations: registers that a segment writes and that so can be computed in the output's memory. */
static void set_outputs(mf_planner *m, mf_block *b, int *out)
{
    int count = m->schedule.program->out_count;
    if (!b) /* m has the error */
        return;
    b->out = out;
    b->out_count = count;
    b->out_moves = mf_planner_alloc(m, (size_t)count, sizeof *b->out_moves);
    if (m->error)
        return;
    for (int t = 0; t < b->instr_count; t++)
        for (int k = 0; b->instrs[t]->kind == MF_DO_SEGMENT && k < b->instrs[t]->out_count; k++)
            for (int o = count - 1; o >= 0; o--)
                if (out[o] == b->instrs[t]->out[k])
                    b->destination[out[o]] = o;
    for (int o = 0; o < count; o++) {
        bool again = out[o] < 0;
        for (int k = o + 1; k < count; k++)
            again |= out[k] == out[o];
        for (int c = 0; c < b->constant_count; c++)
            again |= b->constants[c] == out[o];
        b->out_moves[o] = !again;
    }
}

int *mf_output_references(mf_planner *m)
{
    const mf_program *p = m->schedule.program;
    int *out = mf_planner_alloc(m, (size_t)p->out_count, sizeof *out);
    for (int o = 0; o < p->out_count && !m->error; o++) {
        mf_variable *v = mf_origin(p->out[o]);
        int r = mf_reference(m, m->mapped && v->constant ? MF_UNIFORM : MF_DEVICE, v);
        out[o] = m->mapped && v->constant ? ~r : r;
    }
    return out;
}

void mf_make_blocks(mf_planner *m, int *out, mf_blocks *made)
{
    mf_block *of[2] = { NULL, NULL };
    for (int w = 0; w < 2 && !m->error; w++) {
        of[w] = make_block(m, w);
        if (of[w])
            set_inputs(m, w, of[w]);
    }
    if (!m->error)
        set_outputs(m, of[MF_DEVICE], out);
    if (!m->error && m->layouts)
        mf_layout_outputs(m, of[MF_DEVICE]);
    *made = m->error ? (mf_blocks){ NULL, NULL } : (mf_blocks){ .device = of[MF_DEVICE], .uniform = of[MF_UNIFORM] };
}
