/* A finished group as a step: it runs by tile kernels (tile_loop.c) until llvm/tier_up.c has compiled a loop nest for it, where that pays.
 * Invariant: how it is cut into tasks follows from its shape alone. */
#include "backend/native/fusion/tile_loop.h"
#include "backend/native/llvm/tier_up.h"
#include "backend/native/steps/copy_step.h"

#include <string.h>

/* LOOP_WORK: operations times elements of a run from which on a loop is worth compiling if the program runs a few times; LOOP_ELEMENTS:
 * elements for the same. LOOP_LEAST: elements from which on it is if the program runs long. TASK_ELEMENTS: of a task. TASKS_FROM:
 * elements from which on a run is cut into tasks. */
enum { LOOP_WORK = 1 << 16, LOOP_ELEMENTS = 1 << 12, LOOP_LEAST = 1 << 10, TASK_ELEMENTS = 1 << 16, TASKS_FROM = 1 << 18, MOST_TASKS = 16 };

/* Nanoseconds: of a run from which on fewer elements are cut too; of a task then; of a run from which on workers are woken for it. */
enum { BRIEF_FROM = 30000, BRIEF_TASK = 12000, BRIEF_TO = 100000 };

/* ------------------------------------------------------------------ the plan: which nodes are needed, and how loads walk */

bool mf_group_in_place(const mf_group *g, int var, int size, const mf_program *p)
{
    for (int i = 0; i < g->count; i++) {
        const mf_node *x = &g->nodes[i];
        if (x->kind != MF_NODE_LOAD || x->var != var)
            continue;
        if (!mf_layout_is_contiguous(&x->layout) || x->layout.offset || mf_dtype_size(x->dtype) != size || p->vars[var]->type->size != g->n)
            return false;
    }
    return true;
}

/* Copies the group without the nodes that no result depends on. */
static void keep_needed(mf_build *b, const mf_group *g, mf_group *kept)
{
    int *map = mf_build_alloc(b, (size_t)g->count, sizeof *map);
    bool *needed = mf_build_alloc(b, (size_t)g->count, sizeof *needed);
    kept->nodes = mf_build_alloc(b, (size_t)g->count, sizeof *kept->nodes);
    if (b->error)
        return;
    for (int i = g->count - 1; i >= 0; i--) {
        needed[i] |= g->nodes[i].out_var >= 0;
        for (int k = 0; needed[i] && k < g->nodes[i].in_count; k++)
            needed[g->nodes[i].in[k]] = true;
    }
    kept->n = g->n;
    kept->complex = g->complex;
    kept->factors.count = g->n > 1;
    kept->factors.at[0] = g->n;
    for (int i = 0; i < g->count; i++) {
        if (!needed[i])
            continue;
        mf_node *x = &kept->nodes[kept->count];
        *x = g->nodes[i];
        for (int k = 0; k < x->in_count; k++)
            x->in[k] = map[x->in[k]];
        if (x->kind == MF_NODE_LOAD || x->kind == MF_NODE_IOTA)
            mf_factors_refine(&kept->factors, x->layout.dims, x->layout.rank);
        map[i] = kept->count++;
    }
}

/* Joins neighbouring factors that every load walks as one. */
static void join_factors(mf_group_plan *plan)
{
    const mf_group *g = plan->group;
    for (int d = plan->rank - 1; d > 0; d--) {
        bool one = true;
        for (int i = 0; i < g->count && one; i++)
            one = !mf_node_walks(&g->nodes[i]) || plan->loads[i].strides[d - 1] == plan->loads[i].strides[d] * plan->dims[d];
        if (!one)
            continue;
        plan->dims[d - 1] *= plan->dims[d];
        for (int i = 0; i < g->count; i++)
            plan->loads[i].strides[d - 1] = plan->loads[i].strides[d];
        for (int k = d; k < plan->rank - 1; k++) {
            plan->dims[k] = plan->dims[k + 1];
            for (int i = 0; i < g->count; i++)
                plan->loads[i].strides[k] = plan->loads[i].strides[k + 1];
        }
        plan->rank--;
    }
}

static void classify(const mf_group_plan *plan, mf_load *l)
{
    int64_t step = 1;
    l->flat = l->splat = true;
    for (int d = plan->rank - 1; d >= 0; d--) {
        l->flat &= l->strides[d] == step;
        l->splat &= l->strides[d] == 0;
        step *= plan->dims[d];
    }
    if (plan->n == 1)
        l->splat = !l->flat || l->slot < 0; /* a single element is read in place */
}

static int slot_of(int *list, int *count, int var)
{
    for (int i = 0; i < *count; i++)
        if (list[i] == var)
            return i;
    list[*count] = var;
    return (*count)++;
}

static void make_plan(mf_build *b, mf_fused_loop *s)
{
    const mf_group *g = &s->group;
    mf_group_plan *plan = &s->plan;
    *plan = (mf_group_plan){ .group = g, .n = g->n, .rank = g->factors.count };
    plan->loads = mf_build_alloc(b, (size_t)g->count, sizeof *plan->loads);
    plan->out_slot = mf_build_alloc(b, (size_t)g->count, sizeof *plan->out_slot);
    s->step.in = mf_build_alloc(b, (size_t)g->count, sizeof *s->step.in);
    s->step.out = mf_build_alloc(b, (size_t)g->count, sizeof *s->step.out);
    if (b->error)
        return;
    memcpy(plan->dims, g->factors.at, sizeof plan->dims);
    for (int i = 0; i < g->count; i++) {
        const mf_node *x = &g->nodes[i];
        plan->out_slot[i] = x->out_var < 0 ? -1 : slot_of(s->step.out, &s->step.out_count, x->out_var);
        plan->loads[i].slot = x->kind == MF_NODE_LOAD ? slot_of(s->step.in, &s->step.in_count, x->var) : -1;
        plan->loads[i].offset = x->layout.offset;
        if (mf_node_walks(x))
            mf_layout_strides(&x->layout, &g->factors, plan->loads[i].strides);
    }
    join_factors(plan);
    for (int i = 0; i < g->count; i++)
        classify(plan, &plan->loads[i]);
}

/* ------------------------------------------------------------------ tasks */

#define ADDITION 0.02 /* nanoseconds for a vectorised element of four bytes */

/* Estimated nanoseconds of a run by compiled loops. */
static double loop_cost(const mf_group_plan *plan)
{
    double each = 0;
    for (int i = 0; i < plan->group->count; i++) {
        const mf_node *x = &plan->group->nodes[i];
        double size = (double)mf_dtype_size(x->dtype) / 4;
        bool loads = x->kind == MF_NODE_LOAD && !plan->loads[i].splat;
        each += (x->kind == MF_NODE_CALL ? ADDITION * x->weight : loads ? 0.04 : 0) * size + (plan->out_slot[i] >= 0 ? 0.04 * size : 0);
    }
    return each * (double)plan->n;
}

/* The number of elements of a task; `piece` in a long run. */
static int64_t task_of(const mf_fused_loop *s, int64_t piece)
{
    if (s->plan.n >= TASKS_FROM)
        return piece;
    return s->loop_cost < BRIEF_FROM ? s->plan.n : (int64_t)((double)s->plan.n * BRIEF_TASK / s->loop_cost) / MF_TILE * MF_TILE + MF_TILE;
}

static void cut_tasks(mf_fused_loop *s)
{
    s->loop_cost = s->plan.n < LOOP_ELEMENTS ? 0 : loop_cost(&s->plan);
    s->elements_a_task = task_of(s, (s->plan.n / MOST_TASKS + MF_TILE - 1) / MF_TILE * MF_TILE);
    s->parallel = s->plan.n < TASKS_FROM && s->loop_cost < BRIEF_TO ? mf_parallel_for_brief : mf_parallel_for;
    s->tasks = (s->plan.n + s->elements_a_task - 1) / s->elements_a_task;
    s->step.scratch_bytes = s->task_bytes * (size_t)s->tasks;
}

/* ------------------------------------------------------------------ compiled loops */

typedef struct loop_task {
    const mf_fused_loop *s;
    mf_loop_fn *loop;
    void *const *in, *const *out;
} loop_task;

static void run_rows(void *context, int64_t index)
{
    const loop_task *t = context;
    int64_t first = index * t->s->rows_a_task, left = t->s->rows - first;
    t->loop(t->in, t->out, first, first + (left < t->s->rows_a_task ? left : t->s->rows_a_task));
}

static size_t pointer_bytes(const mf_native_step *step) { return sizeof(void *) * (size_t)(step->in_count + step->out_count); }

/* Operands, then results, as arguments of compiled loops. */
static void **loop_pointers(const mf_native_step *step, void *const *values, char *scratch)
{
    void **pointers = (void **)(void *)(scratch + step->scratch_offset);
    for (int i = 0; i < step->in_count; i++)
        pointers[i] = values[step->in[i]];
    for (int o = 0; o < step->out_count; o++)
        pointers[step->in_count + o] = values[step->out[o]];
    return pointers;
}

static void run_loop(const mf_fused_loop *s, mf_loop_fn *loop, void *const *values, char *scratch)
{
    void **pointers = loop_pointers(&s->step, values, scratch);
    loop_task task = { s, loop, pointers, pointers + s->step.in_count };
    int64_t tasks = (s->rows + s->rows_a_task - 1) / s->rows_a_task;
    s->parallel(tasks, run_rows, &task);
}

static mf_error_object *run_best(const mf_native_step *step, void *const *values, char *scratch)
{
    const mf_fused_loop *s = (const mf_fused_loop *)(const void *)step;
    mf_loop_fn *loop = mf_tier_up_loop(step->up);
    if (loop) {
        run_loop(s, loop, values, scratch);
        return NULL;
    }
    mf_tier_up_count(step->up, 1, 1);
    return mf_tiles_run_all(step, values, scratch);
}

static bool write_loop(const void *plan, mf_loop_text *t) { return mf_loop_write(plan, t); }

static void add_second_tier(mf_build *b, mf_fused_loop *s)
{
    int64_t calls = 0;
    for (int i = 0; i < s->group.count; i++)
        calls += s->tiles[i].run != NULL;
    bool pays = calls > 1 && s->plan.n >= LOOP_LEAST;
    bool soon = pays && s->plan.n >= LOOP_ELEMENTS && calls * s->plan.n >= LOOP_WORK;
    mf_tier_up_hints hints = { .cost = s->step.cost, .pays = pays, .soon = soon };
    if (!mf_tier_up_wanted(hints) || !mf_llvm_can(&s->group)) /* for a tiny group, asking LLVM takes longer than everything else */
        return;
    mf_tier_up *up = mf_build_alloc(b, 1, sizeof *up);
    if (!up || !mf_tier_up_begin(b, up, write_loop, &s->plan, hints))
        return;
    int64_t rows = mf_loop_rows(&s->plan), row = s->plan.n / rows;
    size_t pointers = pointer_bytes(&s->step);
    s->step.up = up;
    s->soon = soon || mf_tier_up_loop(up);
    s->rows = rows;
    s->rows_a_task = task_of(s, TASK_ELEMENTS) / row;
    s->rows_a_task += s->rows_a_task == 0;
    s->step.run = run_best;
    s->step.flat = false; /* its parts are rows of its nest */
    s->step.scratch_bytes = s->step.scratch_bytes > pointers ? s->step.scratch_bytes : pointers;
    s->step.cost /= s->soon ? 3 : 1;
}

/* ------------------------------------------------------------------ one copy */

/* A group of a load and a store is a strided copy without a kernel. */
static mf_error_object *run_copy(const mf_native_step *step, void *const *values, char *scratch)
{
    const mf_fused_loop *s = (const mf_fused_loop *)(const void *)step;
    int64_t to[MF_FACTORS], from[MF_FACTORS], size = mf_dtype_size(s->group.nodes[0].dtype), bytes = size;
    (void)scratch;
    for (int d = s->plan.rank - 1; d >= 0; d--) {
        to[d] = bytes;
        from[d] = s->plan.loads[0].strides[d] * size;
        bytes *= s->plan.dims[d];
    }
    mf_native_copy(s->plan.rank, s->plan.dims, (int)size, mf_step_out(step, values, 0), to,
                   mf_step_in(step, values, 0) + s->plan.loads[0].offset * size, from);
    return NULL;
}

/* ------------------------------------------------------------------ by rows */

static const mf_fused_loop *of(const mf_native_step *step) { return (const mf_fused_loop *)(const void *)step; }

static bool can_part(const mf_native_step *step, int64_t rows)
{
    const mf_fused_loop *s = of(step);
    return s->plan.n % rows == 0 && (!s->soon || s->rows % rows == 0);
}

/* Whether a walk over these factors, of which the first `outer` make up the rows, stays within its own row of a memory with `row`
 * elements per row. */
static bool stays_in_row(const mf_factors *f, int outer, const int64_t *strides, int64_t offset, int64_t row)
{
    int64_t step = row, least = offset, most = offset;
    for (int d = outer - 1; d >= 0; step *= f->at[d--])
        if (strides[d] != step)
            return false;
    for (int d = outer; d < f->count; d++)
        *(strides[d] < 0 ? &least : &most) += strides[d] * (f->at[d] - 1);
    return least >= 0 && most < row;
}

static bool reads_own_row(const mf_native_step *step, int k, int64_t rows, int64_t elements)
{
    const mf_fused_loop *s = of(step);
    for (int i = 0; i < s->group.count; i++) {
        const mf_node *x = &s->group.nodes[i];
        if (x->kind != MF_NODE_LOAD || s->plan.loads[i].slot != k)
            continue;
        mf_factors f = { 0 };
        int64_t dims[] = { rows, s->plan.n / rows }, strides[MF_FACTORS], done = 1;
        int outer = 0;
        f.count = s->plan.n > 1;
        f.at[0] = s->plan.n;
        if (elements % rows || !mf_factors_refine(&f, dims, 2) || !mf_factors_refine(&f, x->layout.dims, x->layout.rank))
            return false;
        for (; done < rows; outer++)
            done *= f.at[outer];
        mf_layout_strides(&x->layout, &f, strides);
        if (!stays_in_row(&f, outer, strides, x->layout.offset, elements / rows))
            return false;
    }
    return true;
}

static bool run_part(const mf_native_step *step, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to)
{
    const mf_fused_loop *s = of(step);
    mf_loop_fn *loop = step->up && s->rows % rows == 0 ? mf_tier_up_loop(step->up) : NULL;
    int64_t each = (loop ? s->rows : s->plan.n) / rows;
    if (!loop) {
        if (step->up)
            mf_tier_up_count(step->up, to - from, rows);
        mf_tiles_run(s, values, scratch + step->scratch_offset, from * each, to * each);
        return true;
    }
    void **pointers = loop_pointers(step, values, scratch);
    loop(pointers, pointers + step->in_count, from * each, to * each);
    return true;
}

static size_t part_scratch(const mf_native_step *step)
{
    size_t pointers = step->up ? pointer_bytes(step) : 0;
    return of(step)->task_bytes > pointers ? of(step)->task_bytes : pointers;
}

static const mf_group_plan *plan_of(const mf_native_step *step) { return &of(step)->plan; }
static mf_reducer no_fold(const mf_native_step *step) { return (void)step, MF_REDUCE_SET; }

static const mf_row_parts parts = {
    .can = can_part, .inside = reads_own_row, .group = plan_of, .fold = no_fold, .run = run_part, .scratch = part_scratch
};

/* ------------------------------------------------------------------ the step */

static void form_of(const mf_native_step *step, mf_form *f)
{
    f->kind = MF_FORM_GROUP;
    f->group = &of(step)->plan;
}

/* Estimated nanoseconds of a run by tiles. */
static double tile_cost(const mf_fused_loop *s)
{
    double cost = 5;
    for (int i = 0; i < s->group.count; i++) {
        const mf_node *x = &s->group.nodes[i];
        double each = x->kind == MF_NODE_CALL && s->tiles[i].run ? 0.15 : 0.1;
        if (mf_node_walks(x) && !s->plan.loads[i].flat && !s->plan.loads[i].splat)
            each = 0.5;
        cost += 6 + each * (double)s->plan.n;
    }
    return cost;
}

bool mf_group_copies(const mf_native_step *s) { return s->run == run_copy; }

mf_native_step *mf_group_step(mf_build *b, mf_group *g)
{
    mf_fused_loop *s = mf_step_new(b, sizeof *s, NULL);
    if (!s)
        return NULL;
    keep_needed(b, g, &s->group);
    if (b->error || s->group.count == 0)
        return NULL; /* nothing of it is read */
    make_plan(b, s);
    if (b->error || !mf_tiles_make(b, s))
        return NULL;
    cut_tasks(s);
    s->step.run = mf_tiles_run_all;
    s->step.form = g->complex ? NULL : form_of;
    s->step.cost = tile_cost(s);
    if (s->group.count == 1 && s->group.nodes[0].kind == MF_NODE_LOAD) {
        s->step.run = run_copy;
        s->step.flat = false;
        s->step.scratch_bytes = 0;
    } else {
        add_second_tier(b, s);
        s->step.parts = &parts;
    }
    return &s->step;
}
