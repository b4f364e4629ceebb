/* From a schedule to blocks: registers, references, waiting, liveness, and what memory a result may take over.
 * Invariants: a register is written by one instruction of its block, or by a collective that the devices share; it is listed to die at
 * the instruction after which nobody reads it; an output's register never dies. A register of the once block that devices read dies only
 * behind a collective of all devices that stands after those reads. */
#include "runtime/plan.h"

#include <string.h>

typedef struct side {
    int reg_count, reg_capacity, instr_count, instr_capacity;
    const mf_type **types;
    mf_instr **instrs;
    int *constant_of; /* by variable: its constant register here, or -1 */
    bool *known;      /* by variable of the once side: this block need not wait for it any more */
} side;

typedef struct maker {
    mf_plan *plan;
    mf_schedule s;
    bool mapped, top;
    side sides[2];
    int *reg;          /* by variable: its register on the side of its value, or -1 */
    bool *crosses;     /* by variable: read outside the item that makes it */
    bool *read_by_device; /* by variable: some item of the device's side reads it */
    mf_var ***seg_in, ***seg_out; /* by item: the kernel's variables */
    const mf_item **item_of[2];   /* by side and instruction; NULL for waiting */
    mf_error_object *error;
} maker;

static void *get(maker *m, size_t count, size_t size)
{
    void *p = m->error ? NULL : mf_arena_alloc(&m->plan->arena, (count + 1) * size);
    if (!p && !m->error)
        m->error = mf_error_out_of_memory();
    return p;
}

static int *minus_ones(maker *m, int count)
{
    int *at = get(m, (size_t)count, sizeof *at);
    for (int i = 0; at && i < count; i++)
        at[i] = -1;
    return at;
}

/* ------------------------------------------------------------------ registers and references */

static int new_register(maker *m, int where, const mf_type *type)
{
    side *d = &m->sides[where];
    if (!m->error && !mf_grow(&d->types, &d->reg_capacity, d->reg_count + 1, sizeof *d->types))
        m->error = mf_error_out_of_memory();
    if (m->error)
        return 0;
    d->types[d->reg_count] = type;
    return d->reg_count++;
}

/* How the block `where` names v. */
static int reference(maker *m, int where, const mf_var *v)
{
    if (m->error)
        return 0;
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

static mf_instr *new_instr(maker *m, int where, const mf_item *item, int position)
{
    side *d = &m->sides[where];
    mf_instr *in = get(m, 1, sizeof *in);
    int capacity = d->instr_capacity;
    if (in && (!mf_grow(&d->instrs, &d->instr_capacity, d->instr_count + 1, sizeof *d->instrs) ||
               !mf_grow(&m->item_of[where], &capacity, d->instr_count + 1, sizeof *m->item_of[where]))) {
        m->error = mf_error_out_of_memory();
        return NULL;
    }
    if (!in)
        return NULL;
    in->position = position;
    m->item_of[where][d->instr_count] = item;
    d->instrs[d->instr_count++] = in;
    return in;
}

static void set_operands(maker *m, mf_instr *in, int where, mf_var *const *from, int in_count, mf_var *const *to, int out_count)
{
    in->in = get(m, (size_t)in_count, sizeof *in->in);
    in->out = get(m, (size_t)out_count, sizeof *in->out);
    in->takes = get(m, (size_t)in_count, sizeof *in->takes);
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

static void find_crossings(maker *m)
{
    const mf_schedule *s = &m->s;
    for (int i = 0; i < s->item_count && !m->error; i++)
        for (int k = 0; k < s->items[i].count; k++)
            for (int a = 0; a < s->items[i].eqns[k]->in_count; a++) {
                const mf_var *v = s->items[i].eqns[k]->in[a];
                m->crosses[v->id] |= s->made_by[v->id] != i;
                m->read_by_device[v->id] |= s->items[i].side == MF_DEVICE;
            }
    for (int o = 0; o < s->program->out_count && !m->error; o++)
        m->crosses[s->program->out[o]->id] = true;
}

/* The variables that a segment takes from outside, each once. */
static int segment_inputs(maker *m, int index, mf_var **list)
{
    const mf_item *item = &m->s.items[index];
    int count = 0;
    for (int k = 0; k < item->count; k++)
        for (int a = 0; a < item->eqns[k]->in_count; a++) {
            mf_var *v = item->eqns[k]->in[a];
            if (v->constant || m->s.made_by[v->id] == index)
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

static bool must_wait(const maker *m, int where, const mf_var *v)
{
    if (v->constant || !m->mapped || m->s.side[v->id] != MF_ONCE || m->s.made_by[v->id] < 0 || m->sides[where].known[v->id])
        return false;
    return where == MF_DEVICE || m->s.items[m->s.made_by[v->id]].side == MF_DEVICE;
}

/* An instruction that waits for what the next one of this block reads. */
static void wait_for(maker *m, int where, mf_var *const *in, int in_count, int position)
{
    int count = 0;
    int *list = NULL;
    for (int i = 0; i < in_count && !m->error; i++) {
        if (!must_wait(m, where, in[i]))
            continue;
        if (!list)
            list = get(m, (size_t)in_count, sizeof *list);
        if (!list)
            return;
        m->sides[where].known[in[i]->id] = true;
        int r = reference(m, where, in[i]);
        list[count++] = r < 0 ? ~r : r;
    }
    mf_instr *wait = count ? new_instr(m, where, NULL, position) : NULL;
    if (!wait)
        return;
    wait->kind = MF_DO_AWAIT;
    wait->in_count = count;
    wait->in = list;
    wait->takes = get(m, (size_t)count, sizeof *wait->takes);
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

static void make_segment(maker *m, int index)
{
    const mf_item *item = &m->s.items[index];
    mf_var **in = get(m, (size_t)most_inputs(item), sizeof *in), **out = get(m, (size_t)most_outputs(item), sizeof *out);
    if (m->error)
        return;
    int in_count = segment_inputs(m, index, in), out_count = 0;
    for (int k = 0; k < item->count; k++)
        for (int o = 0; o < item->eqns[k]->out_count; o++)
            if (m->crosses[item->eqns[k]->out[o]->id])
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
    m->seg_in[index] = in;
    m->seg_out[index] = out;
}

static void fill_meeting(maker *m, const mf_item *item, mf_meeting *meeting)
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
        const mf_var *v = item->eqns[k]->out[0];
        meeting->detached &= m->s.side[v->id] == MF_ONCE && !m->read_by_device[v->id];
    }
}

static void make_collective(maker *m, int index)
{
    const mf_item *item = &m->s.items[index];
    mf_var **in = get(m, (size_t)item->count, sizeof *in), **out = get(m, (size_t)item->count, sizeof *out);
    mf_meeting *meeting = get(m, 1, sizeof *meeting);
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

static void make_axis_index(maker *m, int index)
{
    const mf_item *item = &m->s.items[index];
    mf_meeting *meeting = get(m, 1, sizeof *meeting);
    mf_instr *made = meeting ? new_instr(m, item->side, item, index) : NULL;
    if (!made)
        return;
    made->kind = MF_DO_AXIS_INDEX;
    made->eqn = item->eqns[0];
    made->meeting = meeting;
    fill_meeting(m, item, meeting);
    set_operands(m, made, item->side, NULL, 0, item->eqns[0]->out, 1);
}

static void make_site(maker *m, mf_instr *made)
{
    mf_map_site *site = get(m, 1, sizeof *site);
    if (!site)
        return;
    pthread_mutex_init(&site->lock, NULL);
    site->eqn = made->eqn;
    site->params = made->eqn->params;
    site->env = mf_params_env(made->eqn->op, made->eqn->params, m->s.env);
    site->backend = m->plan->backend;
    site->next = m->plan->sites;
    m->plan->sites = site;
    made->map = site;
    bool mapped = false;
    for (int i = 0; i < site->params->in_axes->count; i++)
        mapped |= site->params->in_axes->at[i] != INT64_MIN;
    site->eager = !m->top || !mapped;
    if (site->eager)
        atomic_store(&site->declared, mf_plan_map(m->plan, site->eqn, site->env, 0, &m->error));
}

/* Control flow: a block for each nested program. */
static void make_control(maker *m, int index)
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
        make_site(m, made);
        return;
    }
    made->block_count = mf_params_program_count(e->op, e->params);
    made->blocks = get(m, (size_t)made->block_count, sizeof *made->blocks);
    for (int i = 0; i < made->block_count && !m->error; i++)
        made->blocks[i] = mf_plan_program(m->plan, *mf_params_program_at(e->op, e->params, i), m->s.env, false, &m->error);
}

static void make_instr(maker *m, int index)
{
    switch (m->s.items[index].kind) {
    case MF_DO_SEGMENT: make_segment(m, index); break;
    case MF_DO_COLLECTIVE: make_collective(m, index); break;
    case MF_DO_AXIS_INDEX: make_axis_index(m, index); break;
    default: make_control(m, index); break;
    }
}

/* ------------------------------------------------------------------ liveness */

typedef struct lives {
    int *last;        /* by register: the last instruction of its own block that mentions it, or -1 */
    int *last_device; /* of the once block: the position of the last instruction of the device block that reads it, or -1 */
    bool *stays;      /* outputs and constants */
} lives;

static void mention(lives *own, lives *once, int ref, int at, int position)
{
    if (ref >= 0)
        own->last[ref] = at;
    else if (once->last_device[~ref] < position)
        once->last_device[~ref] = position;
}

static void find_lives(maker *m, int where, lives *own, lives *once)
{
    const side *d = &m->sides[where];
    for (int t = 0; t < d->instr_count; t++) {
        const mf_instr *in = d->instrs[t];
        for (int i = 0; i < in->in_count; i++)
            mention(own, once, in->kind == MF_DO_AWAIT && where == MF_DEVICE ? ~in->in[i] : in->in[i], t, in->position);
        for (int o = 0; o < in->out_count; o++)
            if (in->out[o] >= 0)
                mention(own, once, in->out[o], t, in->position);
    }
}

/* The latest position in the common schedule that every device has left once the once block has executed this instruction: it waited
 * for a collective of all of them that stands there. */
static int passed_by_all(const maker *m, const mf_instr *wait, int before)
{
    for (int i = 0; wait->kind == MF_DO_AWAIT && i < wait->in_count; i++)
        for (int t = 0; t < m->sides[MF_DEVICE].instr_count; t++) {
            const mf_instr *in = m->sides[MF_DEVICE].instrs[t];
            if (in->kind != MF_DO_COLLECTIVE || in->meeting->groups || in->position <= before)
                continue;
            bool ours = false, innermost = false;
            for (int o = 0; o < in->out_count; o++)
                ours |= in->out[o] == ~wait->in[i];
            for (int a = 0; a < in->meeting->axis_count; a++)
                innermost |= in->meeting->levels[a] == 0;
            if (ours && innermost)
                before = in->position;
        }
    return before;
}

static void list_dying(maker *m, int where, const lives *own)
{
    side *d = &m->sides[where];
    bool *dead = get(m, (size_t)d->reg_count, sizeof *dead);
    int *list = get(m, (size_t)d->reg_count, sizeof *list);
    int passed = -1;
    for (int t = 0; t < d->instr_count && !m->error; t++) {
        mf_instr *in = d->instrs[t];
        int count = 0;
        if (where == MF_ONCE)
            passed = passed_by_all(m, in, passed);
        for (int r = 0; r < d->reg_count; r++)
            if (!dead[r] && !own->stays[r] && own->last[r] >= 0 && own->last[r] <= t && (where == MF_DEVICE || own->last_device[r] < passed ||
                                                                                         own->last_device[r] < 0)) {
                dead[r] = true;
                list[count++] = r;
            }
        in->die = get(m, (size_t)count, sizeof *in->die);
        if (in->die)
            memcpy(in->die, list, (size_t)count * sizeof *list);
        in->die_count = in->die ? count : 0;
    }
}

static bool dies_at(const mf_instr *in, int ref)
{
    for (int i = 0; i < in->die_count; i++)
        if (in->die[i] == ref)
            return true;
    return false;
}

static void find_takes(mf_instr *in)
{
    for (int i = 0; i < in->in_count && in->kind != MF_DO_AWAIT; i++) {
        bool again = false;
        for (int k = i + 1; k < in->in_count; k++)
            again |= in->in[k] == in->in[i];
        in->takes[i] = !again && in->in[i] >= 0 && dies_at(in, in->in[i]);
    }
}

static void make_lives(maker *m, lives *l, int where)
{
    int count = m->sides[where].reg_count;
    l->last = minus_ones(m, count);
    l->last_device = minus_ones(m, count);
    l->stays = get(m, (size_t)count, sizeof *l->stays);
    for (int v = 0; v < m->s.program->var_count && !m->error; v++)
        if (m->sides[where].constant_of[v] >= 0)
            l->stays[m->sides[where].constant_of[v]] = true;
}

static void find_deaths(maker *m, const int *out)
{
    lives of[2] = { 0 };
    for (int w = 0; w < 2; w++)
        make_lives(m, &of[w], w);
    for (int o = 0; o < m->s.program->out_count && !m->error; o++)
        of[out[o] >= 0 ? MF_DEVICE : MF_ONCE].stays[out[o] >= 0 ? out[o] : ~out[o]] = true;
    for (int w = 0; w < 2 && !m->error; w++)
        find_lives(m, w, &of[w], &of[MF_ONCE]);
    for (int w = 0; w < 2 && !m->error; w++)
        list_dying(m, w, &of[w]);
    for (int w = 0; w < 2 && !m->error; w++)
        for (int t = 0; t < m->sides[w].instr_count; t++)
            find_takes(m->sides[w].instrs[t]);
}

/* ------------------------------------------------------------------ blocks */

static void compile_segments(maker *m)
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

static double cost_of_instr(const mf_instr *in, const side *d)
{
    double cost = 50;
    const mf_map_plan *map;
    switch (in->kind) {
    case MF_DO_SEGMENT: return in->kernel->cost;
    case MF_DO_COLLECTIVE:
        for (int i = 0; i < in->in_count; i++)
            cost += in->in[i] >= 0 ? 0.2 * (double)d->types[in->in[i]]->bytes : 0;
        return cost + 100;
    case MF_DO_CALL:
        for (int i = 0; i < in->block_count; i++)
            cost = in->blocks[i]->cost > cost ? in->blocks[i]->cost : cost;
        return cost;
    case MF_DO_WHILE: return 100 * (in->blocks[0]->cost + in->blocks[1]->cost + 100); /* nobody knows how often */
    case MF_DO_SCAN: return (double)((const mf_scan_params *)in->eqn->params)->length * (in->blocks[0]->cost + 100);
    case MF_DO_MAP:
        map = in->map->eager ? atomic_load(&in->map->declared) : NULL;
        return map ? (double)map->size * (map->device->cost + 200) + map->once->cost : 0;
    default: return cost;
    }
}

static int span_of(const mf_program *p)
{
    int span = 1;
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        for (int k = 0; k < mf_params_program_count(e->op, e->params); k++) {
            int inner = span_of(*mf_params_program_at(e->op, e->params, k));
            if (e->op == &mf_op_pmap)
                inner *= (int)((const mf_pmap_params *)e->params)->axis_size;
            span = inner > span ? inner : span;
        }
    }
    return span;
}

static void set_constants(maker *m, int where, mf_block *b)
{
    const mf_program *p = m->s.program;
    int count = 0;
    b->constants = get(m, (size_t)p->var_count, sizeof *b->constants);
    b->constant_arrays = get(m, (size_t)p->var_count, sizeof(mf_array *));
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
static mf_block *make_block(maker *m, int where)
{
    side *d = &m->sides[where];
    mf_block *b = get(m, 1, sizeof *b);
    const mf_type **types = get(m, (size_t)d->reg_count, sizeof *types);
    mf_instr **instrs = get(m, (size_t)d->instr_count, sizeof *instrs);
    int *home = minus_ones(m, d->reg_count);
    if (m->error)
        return NULL;
    if (d->reg_count)
        memcpy(types, d->types, (size_t)d->reg_count * sizeof *types);
    if (d->instr_count)
        memcpy(instrs, d->instrs, (size_t)d->instr_count * sizeof *instrs);
    *b = (mf_block){ .register_count = d->reg_count, .types = types, .instr_count = d->instr_count, .instrs = instrs, .home = home };
    b->span = span_of(m->s.program);
    for (int t = 0; t < d->instr_count; t++)
        b->cost += cost_of_instr(d->instrs[t], d);
    set_constants(m, where, b);
    return b;
}

static void set_inputs(maker *m, int where, mf_block *b)
{
    const mf_program *p = m->s.program;
    b->in = minus_ones(m, p->in_count);
    b->in_count = p->in_count;
    for (int i = 0; i < p->in_count && !m->error; i++)
        if (m->s.side[p->in[i]->id] == where)
            b->in[i] = m->reg[p->in[i]->id];
}

/* Outputs, and registers that are born in the output's memory: those that a segment writes. */
static void set_outputs(maker *m, mf_block *b, int *out)
{
    int count = m->s.program->out_count;
    b->out = out;
    b->out_count = count;
    b->out_takes = get(m, (size_t)count, sizeof *b->out_takes);
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

static bool start(maker *m, const mf_program *p, const mf_axis_env *env, const bool *once_in)
{
    m->error = mf_schedule_make(&m->s, &m->plan->arena, p, env, once_in);
    m->mapped = once_in;
    size_t vars = (size_t)p->var_count, items = (size_t)m->s.item_count;
    m->reg = minus_ones(m, p->var_count);
    m->crosses = get(m, vars, sizeof *m->crosses);
    m->read_by_device = get(m, vars, sizeof *m->read_by_device);
    m->seg_in = get(m, items, sizeof *m->seg_in);
    m->seg_out = get(m, items, sizeof *m->seg_out);
    for (int w = 0; w < 2; w++) {
        m->sides[w].constant_of = minus_ones(m, p->var_count);
        m->sides[w].known = get(m, vars, sizeof(bool));
    }
    find_crossings(m);
    for (int i = 0; i < p->in_count && !m->error; i++)
        if (m->crosses[p->in[i]->id])
            reference(m, m->s.side[p->in[i]->id], p->in[i]);
    return !m->error;
}

static void finish(maker *m)
{
    mf_schedule_free(&m->s);
    for (int w = 0; w < 2; w++) {
        mf_free(m->sides[w].types);
        mf_free(m->sides[w].instrs);
        mf_free(m->item_of[w]);
    }
}

/* Both blocks; outputs in the order of the program's. */
static void make_blocks(maker *m, mf_block **device, mf_block **once)
{
    const mf_program *p = m->s.program;
    for (int i = 0; i < m->s.item_count && !m->error; i++)
        make_instr(m, i);
    int *out = get(m, (size_t)p->out_count, sizeof *out);
    for (int o = 0; o < p->out_count && !m->error; o++) {
        const mf_var *v = p->out[o];
        int r = reference(m, m->mapped && v->constant ? MF_ONCE : MF_DEVICE, v);
        out[o] = m->mapped && v->constant ? ~r : r;
    }
    if (!m->error)
        find_deaths(m, out);
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

static void find_site_inputs(maker *m, const mf_block *b)
{
    for (int t = 0; t < b->instr_count; t++) {
        const mf_instr *in = b->instrs[t];
        if (in->kind != MF_DO_MAP)
            continue;
        in->map->inputs = minus_ones(m, in->in_count);
        for (int i = 0; i < in->in_count && !m->error; i++)
            for (int k = 0; k < b->in_count; k++)
                if (b->in[k] == in->in[i])
                    in->map->inputs[i] = k;
    }
}

mf_block *mf_plan_program(mf_plan *plan, const mf_program *p, const mf_axis_env *env, bool top, mf_error_object **error)
{
    maker m = { .plan = plan, .top = top };
    mf_block *device = NULL, *once = NULL;
    if (start(&m, p, env, NULL))
        make_blocks(&m, &device, &once);
    if (device && top)
        find_site_inputs(&m, device);
    finish(&m);
    *error = m.error;
    return m.error ? NULL : device;
}

/* ------------------------------------------------------------------ maps */

/* The mapped axes of a result from the outside in, and its devices; a map directly inside gives its axis too. */
static int placement_axes(const mf_eqn *e, int o, int *axes, int64_t *sizes, int *spans, int count)
{
    const mf_pmap_params *params = e->params;
    const mf_var *inner = params->program->out[o];
    int64_t k = params->out_axes->at[o];
    int from = count;
    if (k == INT64_MIN || count == 4)
        return count;
    sizes[count] = params->axis_size;
    spans[count] = span_of(params->program);
    axes[count++] = (int)k;
    if (inner->producer && inner->producer->op == &mf_op_pmap)
        count = placement_axes(inner->producer, inner->output, axes, sizes, spans, count);
    for (int i = from + 1; i < count; i++)
        axes[i] += axes[i] >= k;
    return count;
}

static const mf_placement *placement_of(maker *m, const mf_eqn *e, int o)
{
    const mf_pmap_params *params = e->params;
    int axes[4], spans[4], count;
    int64_t sizes[4], total = 1;
    count = placement_axes(e, o, axes, sizes, spans, 0);
    for (int i = 0; i < count; i++)
        total *= sizes[i];
    int *devices = get(m, (size_t)total, sizeof *devices);
    for (int64_t d = 0; devices && d < total; d++) {
        int64_t rest = d, id = 0;
        for (int i = count - 1; i >= 0; rest /= sizes[i], i--)
            id += rest % sizes[i] * spans[i];
        devices[d] = params->devices && params->devices->count > d && count == 1 ? (int)params->devices->at[d] : (int)id;
    }
    return devices ? mf_placement_get(count, axes, (int)total, devices) : NULL;
}

/* May a device's result be born in the memory of its mapped input? Only segments read the input, and none after the one that writes
 * the result; in that one the kernel says whether it can. */
static bool can_donate(const mf_block *b, int in, int out)
{
    int r = b->in[in], writer = -1;
    if (r < 0 || b->out[out] < 0 || b->home[b->out[out]] != out || b->types[r]->bytes != b->types[b->out[out]]->bytes)
        return false;
    for (int t = 0; t < b->instr_count; t++) {
        const mf_instr *at = b->instrs[t];
        int reads = -1, writes = -1;
        for (int i = 0; i < at->in_count && at->kind != MF_DO_AWAIT; i++)
            reads = at->in[i] == r ? i : reads;
        for (int o = 0; o < at->out_count; o++)
            writes = at->out[o] == b->out[out] ? o : writes;
        if (reads >= 0 && (at->kind != MF_DO_SEGMENT || writer >= 0))
            return false;
        if (writes >= 0 && reads >= 0 && at->kernel->alias[writes] != reads)
            return false;
        writer = writes >= 0 ? t : writer;
    }
    for (int o = 0; o < b->out_count; o++)
        if (b->out[o] == r || (o != out && b->out[o] == b->out[out]))
            return false;
    return writer >= 0;
}

static void find_donors(maker *m, mf_map_plan *plan, const mf_pmap_params *params)
{
    bool *given = get(m, (size_t)plan->in_count, sizeof *given);
    for (int o = 0; o < plan->out_count && !m->error; o++) {
        plan->out[o].donor = -1;
        for (int i = 0; i < plan->in_count && plan->out[o].donor < 0 && !plan->out[o].uniform; i++)
            if (!given[i] && params->in_axes->at[i] == params->out_axes->at[o] && plan->shards[i] == plan->out[o].shard &&
                can_donate(plan->device, i, o)) {
                plan->out[o].donor = i;
                given[i] = true;
            }
    }
}

static void set_output(maker *m, const mf_map_plan *plan, const mf_eqn *e, int o, mf_map_output *out)
{
    const mf_pmap_params *params = e->params;
    const mf_var *v = params->program->out[o];
    int64_t k = params->out_axes->at[o], step = mf_dtype_size(v->type->dtype);
    out->shard = v->type;
    out->type = e->out[o]->type;
    out->uniform = k == INT64_MIN || plan->device->out[o] < 0 || (m->s.variance && !(m->s.variance[v->id] & m->s.bit));
    out->placement = placement_of(m, e, o);
    int64_t mapped = out->uniform ? 0 : v->type->bytes;
    for (int i = out->type->rank - 1; i >= 0; i--) {
        out->strides[i] = i == k ? mapped : step;
        step *= i == k ? 1 : out->type->dims[i];
    }
    out->contiguous = k == INT64_MIN || out->type->size == 0 || out->type->dims[k] == 1 || (!out->uniform && k == 0);
}

static const bool *uniform_inputs(maker *m, const mf_pmap_params *params, uint64_t held_once)
{
    int count = params->program->in_count;
    bool *uniform = get(m, (size_t)count, sizeof *uniform);
    for (int i = 0; uniform && i < count; i++)
        uniform[i] = params->in_axes->at[i] == INT64_MIN || (i < 64 && (held_once >> i & 1));
    return uniform;
}

mf_map_plan *mf_plan_map(mf_plan *plan, const mf_eqn *map, const mf_axis_env *body_env, uint64_t held_once, mf_error_object **error)
{
    maker m = { .plan = plan };
    const mf_pmap_params *params = map->params;
    const mf_program *p = params->program;
    mf_map_plan *made = get(&m, 1, sizeof *made);
    const bool *uniform = uniform_inputs(&m, params, held_once);
    if (made && uniform && start(&m, p, body_env, uniform)) {
        *made = (mf_map_plan){ .held_once = held_once, .size = params->axis_size, .in_count = p->in_count, .out_count = p->out_count,
                               .axes = params->in_axes->at, .devices = params->devices };
        made->shards = get(&m, (size_t)p->in_count, sizeof *made->shards);
        made->out = get(&m, (size_t)p->out_count, sizeof *made->out);
        made->types = get(&m, (size_t)p->in_count, sizeof *made->types);
        for (int i = 0; i < p->in_count && !m.error; i++) {
            made->shards[i] = p->in[i]->type;
            made->types[i] = map->in[i]->type;
        }
        make_blocks(&m, &made->device, &made->once);
        for (int o = 0; o < p->out_count && !m.error; o++)
            set_output(&m, made, map, o, &made->out[o]);
        find_donors(&m, made, params);
    }
    finish(&m);
    *error = m.error;
    return m.error ? NULL : made;
}

/* A variant of its own: it owns its plan. */
static mf_map_plan *new_variant(mf_map_site *site, uint64_t held_once, mf_error_object **error)
{
    mf_plan *plan = mf_plan_new(site->backend);
    if (!plan) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    mf_map_plan *made = mf_plan_map(plan, site->eqn, site->env, held_once, error);
    if (!made) {
        mf_plan_free(plan);
        return NULL;
    }
    made->owner = plan;
    return made;
}

mf_map_plan *mf_map_variant(mf_map_site *site, uint64_t held_once, mf_error_object **error)
{
    mf_map_plan *special = atomic_load_explicit(&site->held_once, memory_order_acquire);
    if (special && (special->held_once & held_once) == special->held_once)
        return special;
    mf_map_plan *plain = atomic_load_explicit(&site->declared, memory_order_acquire);
    if (plain && (special || !held_once))
        return plain;
    _Atomic(mf_map_plan *) *place = special || !held_once ? &site->declared : &site->held_once;
    pthread_mutex_lock(&site->lock);
    mf_map_plan *made = atomic_load(place);
    if (!made && (made = new_variant(site, place == &site->declared ? 0 : held_once, error)))
        atomic_store_explicit(place, made, memory_order_release);
    pthread_mutex_unlock(&site->lock);
    if (made && (made->held_once & held_once) != made->held_once) /* another thread was first, with another mask */
        return mf_map_variant(site, held_once, error);
    return made;
}

/* ------------------------------------------------------------------ plans */

mf_plan *mf_plan_new(const mf_backend *backend)
{
    mf_plan *plan = mf_calloc(1, sizeof *plan);
    if (plan)
        plan->backend = backend;
    return plan;
}

static void free_variant(_Atomic(mf_map_plan *) *place)
{
    mf_map_plan *variant = atomic_load(place);
    if (variant && variant->owner)
        mf_plan_free(variant->owner);
}

void mf_plan_free(mf_plan *plan)
{
    if (!plan)
        return;
    for (mf_map_site *site = plan->sites; site; site = site->next) {
        free_variant(&site->declared);
        free_variant(&site->held_once);
        pthread_mutex_destroy(&site->lock);
    }
    for (int i = 0; i < plan->kernel_count; i++)
        plan->backend->destroy(plan->kernels[i]);
    for (int i = 0; i < plan->array_count; i++)
        mf_drop(plan->arrays[i]);
    mf_free(plan->kernels);
    mf_free(plan->arrays);
    mf_arena_free(&plan->arena);
    mf_free(plan);
}
