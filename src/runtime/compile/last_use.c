/* Liveness: the instruction after which a register's value is not read any more. Invariants: registers of outputs and constants never
 * die; a register of the uniform block that devices read dies only after a collective of all devices that follows those reads. */
#include "runtime/compile/planner.h"

#include <string.h>

typedef struct liveness {
    int *last;        /* by register: the last instruction of its own block that names it, or -1 */
    int *last_device; /* by register of the uniform block: the position of the last instruction of the device block that reads it, or -1 */
    bool *never_dies; /* by register: an output or a constant, never dies */
} liveness;

static void mention(liveness *own, liveness *uniform, int ref, int at, int position)
{
    if (ref >= 0)
        own->last[ref] = at;
    else if (uniform->last_device[~ref] < position)
        uniform->last_device[~ref] = position;
}

static void find_last_mentions(mf_planner *m, int where, liveness *own, liveness *uniform)
{
    const mf_side *d = &m->sides[where];
    for (int t = 0; t < d->instr_count; t++) {
        const mf_instr *in = d->instrs[t];
        for (int i = 0; i < in->in_count; i++)
            mention(own, uniform, in->kind == MF_DO_AWAIT && where == MF_DEVICE ? ~in->in[i] : in->in[i], t, in->position);
        for (int o = 0; o < in->out_count; o++)
            if (in->out[o] >= 0)
                mention(own, uniform, in->out[o], t, in->position);
    }
}

/* The latest position in the common schedule that every device has passed once the uniform block has executed `wait`, because that waits
 * for a collective of all devices at that position. */
static int passed_by_all(const mf_planner *m, const mf_instr *wait, int before)
{
    for (int i = 0; wait->kind == MF_DO_AWAIT && i < wait->in_count; i++)
        for (int t = 0; t < m->sides[MF_DEVICE].instr_count; t++) {
            const mf_instr *in = m->sides[MF_DEVICE].instrs[t];
            if (in->kind != MF_DO_COLLECTIVE || in->participants->groups || in->position <= before)
                continue;
            bool ours = false, innermost = false;
            for (int o = 0; o < in->out_count; o++)
                ours |= in->out[o] == ~wait->in[i];
            for (int a = 0; a < in->participants->axis_count; a++)
                innermost |= in->participants->levels[a] == 0;
            if (ours && innermost)
                before = in->position;
        }
    return before;
}

static void list_last_uses(mf_planner *m, int where, const liveness *own)
{
    mf_side *d = &m->sides[where];
    bool *dead = mf_planner_alloc(m, (size_t)d->reg_count, sizeof *dead);
    int *list = mf_planner_alloc(m, (size_t)d->reg_count, sizeof *list);
    int passed = -1;
    for (int t = 0; t < d->instr_count && !m->error; t++) {
        mf_instr *in = d->instrs[t];
        int count = 0;
        if (where == MF_UNIFORM)
            passed = passed_by_all(m, in, passed);
        for (int r = 0; r < d->reg_count; r++)
            if (!dead[r] && !own->never_dies[r] && own->last[r] >= 0 && own->last[r] <= t &&
                (where == MF_DEVICE || own->last_device[r] < passed || own->last_device[r] < 0)) {
                dead[r] = true;
                list[count++] = r;
            }
        in->last_uses = mf_planner_alloc(m, (size_t)count, sizeof *in->last_uses);
        if (in->last_uses)
            memcpy(in->last_uses, list, (size_t)count * sizeof *list);
        in->last_use_count = in->last_uses ? count : 0;
    }
}

/* An operand is moved by its last mention in the instruction. A loop reads its constants after it has moved its carry, and a map reads
 * operands while it writes results into those that it has moved; so in these the mention must be the only one. */
static void find_moves(mf_instr *in)
{
    bool only = in->kind == MF_DO_WHILE || in->kind == MF_DO_SCAN || in->kind == MF_DO_MAP;
    for (int i = 0; i < in->in_count && in->kind != MF_DO_AWAIT; i++) {
        bool again = false;
        for (int k = only ? 0 : i + 1; k < in->in_count; k++)
            again |= k != i && in->in[k] == in->in[i];
        in->moves[i] = !again && in->in[i] >= 0 && mf_instr_is_last_use(in, in->in[i]);
    }
}

static void allocate_liveness(mf_planner *m, liveness *l, int where)
{
    int count = m->sides[where].reg_count;
    l->last = mf_planner_minus_ones(m, count);
    l->last_device = mf_planner_minus_ones(m, count);
    l->never_dies = mf_planner_alloc(m, (size_t)count, sizeof *l->never_dies);
    for (int v = 0; v < m->schedule.program->var_count && !m->error; v++)
        if (m->sides[where].constant_of[v] >= 0)
            l->never_dies[m->sides[where].constant_of[v]] = true;
}

void mf_find_last_uses(mf_planner *m, const int *out)
{
    liveness of[2] = { 0 };
    for (int w = 0; w < 2; w++)
        allocate_liveness(m, &of[w], w);
    for (int o = 0; o < m->schedule.program->out_count && !m->error; o++)
        of[out[o] >= 0 ? MF_DEVICE : MF_UNIFORM].never_dies[out[o] >= 0 ? out[o] : ~out[o]] = true;
    for (int w = 0; w < 2 && !m->error; w++)
        find_last_mentions(m, w, &of[w], &of[MF_UNIFORM]);
    for (int w = 0; w < 2 && !m->error; w++)
        list_last_uses(m, w, &of[w]);
    for (int w = 0; w < 2 && !m->error; w++)
        for (int t = 0; t < m->sides[w].instr_count; t++)
            find_moves(m->sides[w].instrs[t]);
}
