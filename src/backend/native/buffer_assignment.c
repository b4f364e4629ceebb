/* Buffer assignment, and the order of the units: results lie where the caller wants them, everything else in one block of scratch, in which
 * values that are never live together share bytes; a group may write over an operand that dies in it.
 * Invariants: nothing else uses a value's bytes from the step that makes it to the last step that reads it; alignment is 64 bytes. */
#include "backend/native/fusion/rows/row_fusion.h"
#include "backend/native/native_kernel.h"

#include <string.h>

enum { ALIGN = 64 };

typedef struct live_range {
    int root;       /* the variable in whose memory it lies, mostly itself */
    int64_t shift;  /* bytes from the beginning of that */
    int made, last; /* steps; made -1: before the first one; last -1: never read */
    int value;      /* number in the plan, or -1 */
    int output;     /* of roots: the result in whose memory it lies, or -1 */
    int input;      /* of roots: the operand that it is, or -1 */
    int joins;      /* of roots: the dying variable whose memory it takes over, or -1 */
    int taken_by;   /* of roots: the variable that takes over its memory, or -1 */
    int64_t bytes;
} live_range;

typedef struct assignment {
    mf_build *b;
    mf_native_plan *plan;
    const bool *donatable;
    int *order, *unit_at, *barriers_at; /* the latter two by step: its unit, and the number of barriers before it */
    int order_count, var_count;
    live_range *ranges; /* by variable, then one for each output that is a copy, then those of the steps' own variables */
} assignment;

/* ------------------------------------------------------------------ order */

static void visit(assignment *p, bool *done, int unit)
{
    if (done[unit])
        return;
    done[unit] = true;
    for (int u = 0; p->b->depends && u < p->b->unit_count; u++)
        if (mf_unit_depends(p->b, unit, u) && !done[u])
            visit(p, done, u);
    if (!p->b->units[unit].dead)
        p->order[p->order_count++] = unit;
}

static void order_units(assignment *p)
{
    bool *done = mf_build_alloc(p->b, (size_t)p->b->unit_count, sizeof *done);
    p->order = mf_build_alloc(p->b, (size_t)p->b->unit_count, sizeof *p->order);
    for (int u = 0; u < p->b->unit_count && !p->b->error; u++)
        visit(p, done, u);
}

/* Makes steps of the units; groups that nothing reads are left out. */
static void make_steps(assignment *p)
{
    mf_native_plan *plan = p->plan;
    plan->steps = mf_build_alloc(p->b, (size_t)p->order_count + (size_t)p->b->program->out_count, sizeof *plan->steps);
    p->unit_at = mf_build_alloc(p->b, (size_t)p->order_count, sizeof *p->unit_at);
    p->barriers_at = mf_build_alloc(p->b, (size_t)p->order_count, sizeof *p->barriers_at);
    int barriers = 0;
    for (int i = 0; i < p->order_count && !p->b->error; i++) {
        mf_unit *u = &p->b->units[p->order[i]];
        barriers += u->barrier;
        mf_native_step *s = u->group ? mf_group_step(p->b, u->group) : u->step;
        if (!s || p->b->error)
            continue;
        p->unit_at[plan->step_count] = p->order[i];
        p->barriers_at[plan->step_count] = barriers;
        plan->steps[plan->step_count++] = s;
    }
}

/* ------------------------------------------------------------------ liveness */

static const mf_type *type_of(const assignment *p, int var) { return mf_build_type(p->b, var); }

static void init_live_ranges(assignment *p)
{
    const mf_program *program = p->b->program;
    p->var_count = program->var_count + program->out_count + p->b->own_count;
    p->ranges = mf_build_alloc(p->b, (size_t)p->var_count, sizeof *p->ranges);
    for (int v = 0; v < p->var_count && !p->b->error; v++)
        p->ranges[v] = (live_range){ .root = v,
                                     .made = -1,
                                     .last = -1,
                                     .value = -1,
                                     .output = -1,
                                     .input = -1,
                                     .joins = -1,
                                     .taken_by = -1,
                                     .bytes = type_of(p, v)->bytes };
    for (int i = 0; i < program->in_count && !p->b->error; i++)
        p->ranges[program->in[i]->id].input = i;
}

static void find_roots(assignment *p)
{
    for (int v = 0; v < p->b->program->var_count && !p->b->error; v++) {
        live_range *l = &p->ranges[v];
        while (p->b->vars[l->root].kind == MF_VAR_MEMORY && p->b->vars[l->root].alias >= 0) {
            l->shift += p->b->vars[l->root].alias_bytes;
            l->root = p->b->vars[l->root].alias;
        }
    }
}

/* Joins steps over the same rows; after that it is known which step makes what. */
static void join_rows(assignment *p)
{
    mf_native_plan *plan = p->plan;
    size_t vars = (size_t)p->var_count;
    int *root = mf_build_alloc(p->b, vars, sizeof *root);
    int64_t *shift = mf_build_alloc(p->b, vars, sizeof *shift), *bytes = mf_build_alloc(p->b, vars, sizeof *bytes);
    bool *kept = mf_build_alloc(p->b, vars, sizeof *kept);
    if (p->b->error)
        return;
    for (int v = 0; v < p->var_count; v++) {
        root[v] = p->ranges[v].root;
        shift[v] = p->ranges[v].shift;
        bytes[v] = p->ranges[v].bytes;
    }
    for (int o = 0; o < p->b->program->out_count; o++)
        kept[root[p->b->program->out[o]->id]] = true;
    mf_steps steps = { plan->step_count, p->var_count, plan->steps, p->unit_at, p->barriers_at, root, shift, bytes, kept };
    mf_rows_join(p->b, &steps);
    plan->step_count = steps.count;
    for (int i = 0; i < plan->step_count; i++)
        for (int o = 0; o < plan->steps[i]->out_count; o++)
            p->ranges[plan->steps[i]->out[o]].made = i;
}

static void read_at(assignment *p, int var, int step)
{
    live_range *root = &p->ranges[p->ranges[var].root];
    if (root->last < step)
        root->last = step;
}

static void find_uses(assignment *p)
{
    for (int i = 0; i < p->plan->step_count; i++) {
        const mf_native_step *s = p->plan->steps[i];
        for (int k = 0; k < s->in_count; k++)
            read_at(p, s->in[k], i);
        for (int k = 0; k < s->out_count; k++)
            read_at(p, s->out[k], i);
    }
}

/* ------------------------------------------------------------------ results */

static mf_error_object *run_copy(const mf_native_step *s, void *const *values, char *scratch)
{
    const mf_type *t = (const mf_type *)(const void *)s->eqn; /* a copy has no equation: this is the type */
    (void)scratch;
    if (t->bytes)
        memmove(mf_step_out(s, values, 0), mf_step_in(s, values, 0), (size_t)t->bytes);
    return NULL;
}

static void copy_form(const mf_native_step *s, mf_form *f)
{
    f->kind = MF_FORM_COPY;
    f->type = (const mf_type *)(const void *)s->eqn;
}

/* Result o is also another value: adds a step that copies it at the end. */
static void copy_result(assignment *p, int o)
{
    const mf_program *program = p->b->program;
    mf_native_step *s = mf_step_new(p->b, sizeof *s, (const mf_eqn *)(const void *)program->out[o]->type);
    int *names = mf_build_alloc(p->b, 2, sizeof *names);
    if (!s || !names)
        return;
    int made = program->var_count + o;
    names[0] = program->out[o]->id;
    names[1] = made;
    s->run = run_copy;
    s->form = copy_form;
    s->in = names;
    s->out = names + 1;
    s->in_count = s->out_count = 1;
    s->cost = 10 + (double)program->out[o]->type->bytes / 8;
    read_at(p, names[0], p->plan->step_count);
    p->ranges[made].made = p->ranges[made].last = p->plan->step_count;
    p->ranges[made].output = o;
    p->plan->steps[p->plan->step_count++] = s;
}

static void bind_results(assignment *p)
{
    const mf_program *program = p->b->program;
    for (int o = 0; o < program->out_count && !p->b->error; o++) {
        live_range *l = &p->ranges[program->out[o]->id], *root = &p->ranges[l->root];
        bool made_here = root->made >= 0 && l->shift == 0 && root->bytes == l->bytes && root->output < 0;
        if (made_here)
            root->output = o;
        else if (program->out[o]->type->bytes)
            copy_result(p, o);
    }
}

/* ------------------------------------------------------------------ taking over memory */

const int mf_overwrites_first[] = { 1 };

/* Whether the step may write the result over this operand: it says so, and does not read the same memory as another operand too. */
static bool may_overwrite(const assignment *p, const mf_native_step *s, int var, int out)
{
    int readers = 0, wanted = 0;
    for (int o = 0; o < s->out_count && s->overwrites; o++)
        wanted = s->out[o] == out ? s->overwrites[o] : wanted;
    if (!wanted || s->in[wanted - 1] != var)
        return false;
    for (int k = 0; k < s->in_count; k++)
        readers += p->ranges[s->in[k]].root == var;
    return readers == 1;
}

/* Whether a step's result may take over the memory of an operand that dies in it. */
static bool may_join(const assignment *p, int step, int var, int out)
{
    const live_range *from = &p->ranges[var], *to = &p->ranges[out];
    if (from->root != var || to->root != out || from->bytes != to->bytes || from->last != step || to->joins >= 0 || from->taken_by >= 0)
        return false;
    const mf_program *program = p->b->program;
    if (var >= program->var_count || program->vars[var]->constant || out >= program->var_count)
        return false;
    const mf_group *g = p->unit_at[step] < 0 ? NULL : p->b->units[p->unit_at[step]].group;
    if (!g)
        return may_overwrite(p, p->plan->steps[step], var, out);
    return mf_group_in_place(g, var, mf_dtype_size(type_of(p, out)->dtype), program);
}

static void join(assignment *p, int var, int out)
{
    p->ranges[out].joins = var;
    p->ranges[var].taken_by = out;
}

/* Lets results of steps take over the memory of operands that die in them: scratch over scratch, and results over donated operands. */
static void join_in_place(assignment *p, int unit_steps)
{
    for (int i = 0; i < unit_steps; i++) {
        const mf_native_step *s = p->plan->steps[i];
        for (int o = 0; o < s->out_count; o++)
            for (int k = 0; k < s->in_count; k++) {
                const live_range *from = &p->ranges[s->in[k]], *to = &p->ranges[s->out[o]];
                bool donated = from->input >= 0 && to->output >= 0 && p->donatable && p->donatable[from->input];
                bool inside = from->input < 0 && from->output < 0 && from->made >= 0 && to->output < 0;
                if ((donated || inside) && may_join(p, i, s->in[k], s->out[o]))
                    join(p, s->in[k], s->out[o]);
            }
    }
}

/* If a step writes a result over a value, that value is made in the result's memory. */
static void move_into_results(assignment *p, int unit_steps)
{
    for (int i = 0; i < unit_steps; i++) {
        const mf_native_step *s = p->plan->steps[i];
        if (!s->overwrites || !s->overwrites[0] || p->unit_at[i] < 0)
            continue;
        int var = s->in[s->overwrites[0] - 1], out = s->out[0];
        const live_range *from = &p->ranges[var];
        live_range *to = &p->ranges[out];
        bool made_here = from->made >= 0 && from->input < 0 && from->output < 0 && from->joins < 0;
        if (!made_here || to->output < 0 || !may_join(p, i, var, out))
            continue;
        to->made = from->made;
        for (int v = 0; v < p->var_count; v++)
            if (p->ranges[v].root == var)
                p->ranges[v].root = out;
    }
}

/* Lets results take over the memory of donated operands that are dead by then. */
static void join_dead_operands(assignment *p)
{
    const mf_program *program = p->b->program;
    for (int v = 0; v < p->var_count && p->donatable; v++) {
        live_range *to = &p->ranges[v];
        if (to->root != v || to->output < 0 || to->joins >= 0 || to->made < 0)
            continue;
        for (int i = 0; i < program->in_count && to->joins < 0; i++) {
            const live_range *from = &p->ranges[program->in[i]->id];
            if (p->donatable[i] && from->taken_by < 0 && from->bytes == to->bytes && from->last < to->made && from->input == i)
                join(p, program->in[i]->id, v);
        }
    }
}

static void set_aliases(assignment *p)
{
    mf_native_plan *plan = p->plan;
    for (int o = 0; o < p->b->program->out_count; o++)
        plan->alias[o] = -1;
    for (int v = 0; v < p->var_count; v++)
        if (p->ranges[v].output >= 0 && p->ranges[v].joins >= 0)
            plan->alias[p->ranges[v].output] = p->ranges[p->ranges[v].joins].input;
}

/* ------------------------------------------------------------------ scratch */

typedef struct block {
    int64_t bytes, offset;
    int first, last, owner; /* owner: a variable, or ~step for a step's own scratch */
} block;

static int by_size(const block *a, const block *b)
{
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : a->first - b->first;
}

static void sort_blocks(block *at, int count) /* Shell sort: simple, and fast enough for some hundred blocks */
{
    for (int gap = count / 2; gap > 0; gap /= 2)
        for (int i = gap; i < count; i++) {
            block x = at[i];
            int k = i;
            for (; k >= gap && by_size(&at[k - gap], &x) > 0; k -= gap)
                at[k] = at[k - gap];
            at[k] = x;
        }
}

/* The lowest offset at which the block overlaps no placed block that is live at the same time. by_offset lists the placed ones by
 * offset. */
static int64_t find_place(const block *x, const block *blocks, const int *by_offset, int placed)
{
    int64_t at = 0;
    for (int i = 0; i < placed; i++) {
        const block *y = &blocks[by_offset[i]];
        if (y->last < x->first || x->last < y->first)
            continue;
        if (at + x->bytes <= y->offset)
            break;
        if (y->offset + y->bytes > at)
            at = y->offset + y->bytes;
    }
    return at;
}

static void place_blocks(assignment *p, block *blocks, int count)
{
    int *by_offset = mf_build_alloc(p->b, (size_t)count, sizeof *by_offset);
    sort_blocks(blocks, count);
    for (int i = 0; i < count && !p->b->error; i++) {
        blocks[i].offset = find_place(&blocks[i], blocks, by_offset, i);
        int k = i;
        for (; k > 0 && blocks[by_offset[k - 1]].offset > blocks[i].offset; k--)
            by_offset[k] = by_offset[k - 1];
        by_offset[k] = i;
        if ((size_t)(blocks[i].offset + blocks[i].bytes) > p->plan->scratch_bytes)
            p->plan->scratch_bytes = (size_t)(blocks[i].offset + blocks[i].bytes);
    }
}

/* The variable that owns the block: the first of those that take it over one after the other. */
static int head_of_chain(const assignment *p, int v)
{
    while (p->ranges[v].joins >= 0 && p->ranges[p->ranges[v].joins].input < 0)
        v = p->ranges[v].joins;
    return v;
}

static bool in_scratch(const live_range *l, int v) { return l->root == v && l->made >= 0 && l->output < 0 && l->bytes > 0; }

static int collect_blocks(assignment *p, block *blocks)
{
    int count = 0;
    for (int v = 0; v < p->var_count; v++) {
        const live_range *l = &p->ranges[v];
        if (!in_scratch(l, v) || head_of_chain(p, v) != v)
            continue;
        block x = { (l->bytes + ALIGN - 1) / ALIGN * ALIGN, 0, l->made, l->last, v };
        for (int t = l->taken_by; t >= 0; t = p->ranges[t].taken_by)
            x.last = p->ranges[t].last > x.last ? p->ranges[t].last : x.last;
        blocks[count++] = x;
    }
    for (int i = 0; i < p->plan->step_count; i++)
        if (p->plan->steps[i]->scratch_bytes) {
            int64_t bytes = ((int64_t)p->plan->steps[i]->scratch_bytes + ALIGN - 1) / ALIGN * ALIGN;
            blocks[count++] = (block){ bytes, 0, i, i, ~i };
        }
    return count;
}

static void place_scratch(assignment *p, int64_t *offsets, int64_t head)
{
    block *blocks = mf_build_alloc(p->b, (size_t)p->var_count + (size_t)p->plan->step_count, sizeof *blocks);
    if (!blocks)
        return;
    int count = collect_blocks(p, blocks);
    place_blocks(p, blocks, count);
    for (int i = 0; i < count && !p->b->error; i++)
        if (blocks[i].owner < 0) {
            p->plan->steps[~blocks[i].owner]->scratch_offset = (size_t)(blocks[i].offset + head);
        } else {
            for (int v = blocks[i].owner; v >= 0; v = p->ranges[v].taken_by)
                offsets[v] = blocks[i].offset + head;
        }
}

/* ------------------------------------------------------------------ values */

static void hold_constant(assignment *p, const mf_variable *v, mf_native_value *value)
{
    mf_literal *l = mf_literal_contiguous(v->constant);
    if (!l) {
        p->b->error = mf_error_out_of_memory();
        return;
    }
    p->plan->literals[p->plan->literal_count++] = l;
    value->data = l->data;
}

static void fill_value(assignment *p, int v, const int64_t *offsets)
{
    const live_range *l = &p->ranges[v], *root = &p->ranges[l->root];
    mf_native_value *value = &p->plan->values[l->value];
    value->offset = l->shift;
    if (root->input >= 0) {
        value->place = MF_PLACE_INPUT;
        value->index = root->input;
    } else if (root->output >= 0) {
        value->place = MF_PLACE_OUTPUT;
        value->index = root->output;
    } else if (l->root < p->b->program->var_count && p->b->program->vars[l->root]->constant) {
        value->place = MF_PLACE_CONSTANT;
        hold_constant(p, p->b->program->vars[l->root], value);
    } else {
        value->place = MF_PLACE_SCRATCH;
        value->offset += offsets[l->root];
    }
}

static int number(assignment *p, int v)
{
    if (p->ranges[v].value < 0)
        p->ranges[v].value = p->plan->value_count++;
    return p->ranges[v].value;
}

/* Counts what a run does, while operands and results are still variables. Variables of the steps' own count like any others. */
static void measure(assignment *p)
{
    mf_kernel_work *w = &p->plan->work;
    *w = (mf_kernel_work){ .equations = p->b->program->eqn_count, .steps = p->plan->step_count };
    for (int i = 0; i < p->plan->step_count; i++) {
        const mf_native_step *s = p->plan->steps[i];
        w->copies += s->run == run_copy || mf_group_copies(s);
        for (int k = 0; k < s->in_count; k++)
            w->bytes += type_of(p, s->in[k])->bytes;
        for (int k = 0; k < s->out_count; k++)
            w->bytes += type_of(p, s->out[k])->bytes;
    }
}

static void number_values(assignment *p)
{
    measure(p);
    for (int i = 0; i < p->plan->step_count; i++) {
        mf_native_step *s = p->plan->steps[i];
        for (int k = 0; k < s->in_count; k++)
            s->in[k] = number(p, s->in[k]);
        for (int k = 0; k < s->out_count; k++)
            s->out[k] = number(p, s->out[k]);
        p->plan->cost += s->cost;
    }
}

static void place_values(assignment *p)
{
    mf_native_plan *plan = p->plan;
    number_values(p);
    int64_t head = ((int64_t)plan->value_count * (int64_t)sizeof(void *) + ALIGN - 1) / ALIGN * ALIGN; /* pointers, see native.c */
    int64_t *offsets = mf_build_alloc(p->b, (size_t)p->var_count, sizeof *offsets);
    plan->values = mf_build_alloc(p->b, (size_t)plan->value_count, sizeof *plan->values);
    plan->literals = mf_build_alloc(p->b, (size_t)plan->value_count, sizeof *plan->literals);
    if (!p->b->error)
        place_scratch(p, offsets, head);
    for (int v = 0; v < p->var_count && !p->b->error; v++)
        if (p->ranges[v].value >= 0)
            fill_value(p, v, offsets);
    plan->scratch_bytes += (size_t)head;
}

void mf_native_place(mf_build *b, const bool *donatable, mf_native_plan *plan)
{
    assignment p = { .b = b, .plan = plan, .donatable = donatable };
    plan->alias = mf_build_alloc(b, (size_t)b->program->out_count, sizeof *plan->alias);
    if (!b->error)
        order_units(&p);
    init_live_ranges(&p);
    if (!b->error)
        make_steps(&p);
    if (b->error)
        return;
    find_roots(&p);
    join_rows(&p);
    if (b->error)
        return;
    find_uses(&p);
    int unit_steps = plan->step_count; /* copies follow */
    bind_results(&p);
    join_in_place(&p, unit_steps);
    move_into_results(&p, unit_steps);
    join_dead_operands(&p);
    set_aliases(&p);
    place_values(&p);
}
