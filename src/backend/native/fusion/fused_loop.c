/* A finished group as a step: by tile kernels, a block of at most MF_TILE elements at a time that stays in the nearest cache, until
 * llvm/tier_up.c has a compiled loop nest for it, where that pays.
 * Invariant: within a block every load is read before anything is stored that might lie in its place. */
#include "backend/native/llvm/tier_up.h"
#include "backend/native/steps/copy_step.h"
#include "backend/native/kernels/kernels.h"

#include <string.h>

/* Operations times elements of a run from which a loop is worth its compilation if the program runs a few times; elements from which it
 * is if the program runs long; elements of a task, and from which a run is cut into tasks. */
enum { LOOP_WORK = 1 << 16, LOOP_ELEMENTS = 1 << 12, LOOP_LEAST = 1 << 10, TASK_ELEMENTS = 1 << 16, TASKS_FROM = 1 << 18, MOST_TASKS = 16 };

/* Nanoseconds from which fewer elements are cut too, of a task then, and from which it is worth it to wake somebody. */
enum { BRIEF_FROM = 30000, BRIEF_TASK = 12000, BRIEF_TO = 100000 };

/* Where a node's block lies while it is computed. */
typedef enum tile_place { TILE_NONE, TILE_MEMORY, TILE_BUFFER, TILE_RESULT, TILE_SAME } tile_place;

typedef struct tile_node {
    tile_place place;
    int buffer;      /* TILE_BUFFER: number; TILE_SAME: the node whose block it is */
    int out;         /* the step's result that it is stored in, or -1 */
    mf_tile_fn *run; /* NULL: a load, a constant */
    int in_count, in[3];
    bool fixed; /* the same in every block: filled once */
    int size;   /* of an element */
} tile_node;

typedef struct group_step {
    mf_native_step step;
    mf_group_plan plan;
    mf_group group; /* the nodes that are needed, in the arena */
    tile_node *tiles;
    int64_t tile;                    /* elements in a block */
    size_t buffer_bytes, task_bytes; /* of scratch: a buffer, a task's */
    int64_t tasks, elements_a_task;  /* by tiles */
    bool soon;                       /* it is sure to have a loop before long */
    int64_t rows, rows_a_task;       /* by loops */
    double loop_cost;
    void (*parallel)(int64_t count, void (*fn)(void *context, int64_t index), void *context);
} group_step;

/* ------------------------------------------------------------------ the plan: what is needed, and how loads walk */

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

/* The group without nodes that lead to no result. */
static void keep_needed(mf_build *b, const mf_group *g, mf_group *kept)
{
    int *map = mf_build_get(b, (size_t)g->count, sizeof *map);
    bool *needed = mf_build_get(b, (size_t)g->count, sizeof *needed);
    kept->nodes = mf_build_get(b, (size_t)g->count, sizeof *kept->nodes);
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

static bool walks(const mf_node *x) { return x->kind == MF_NODE_LOAD || x->kind == MF_NODE_IOTA; }

/* Neighbouring factors that every load walks as one. */
static void join_factors(mf_group_plan *plan)
{
    const mf_group *g = plan->group;
    for (int d = plan->rank - 1; d > 0; d--) {
        bool one = true;
        for (int i = 0; i < g->count && one; i++)
            one = !walks(&g->nodes[i]) || plan->loads[i].strides[d - 1] == plan->loads[i].strides[d] * plan->dims[d];
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
        l->splat = !l->flat || l->slot < 0; /* one element is read where it lies */
}

static int slot_of(int *list, int *count, int var)
{
    for (int i = 0; i < *count; i++)
        if (list[i] == var)
            return i;
    list[*count] = var;
    return (*count)++;
}

static void make_plan(mf_build *b, group_step *s)
{
    const mf_group *g = &s->group;
    mf_group_plan *plan = &s->plan;
    *plan = (mf_group_plan){ .group = g, .n = g->n, .rank = g->factors.count };
    plan->loads = mf_build_get(b, (size_t)g->count, sizeof *plan->loads);
    plan->out_slot = mf_build_get(b, (size_t)g->count, sizeof *plan->out_slot);
    s->step.in = mf_build_get(b, (size_t)g->count, sizeof *s->step.in);
    s->step.out = mf_build_get(b, (size_t)g->count, sizeof *s->step.out);
    if (b->error)
        return;
    memcpy(plan->dims, g->factors.at, sizeof plan->dims);
    for (int i = 0; i < g->count; i++) {
        const mf_node *x = &g->nodes[i];
        plan->out_slot[i] = x->out_var < 0 ? -1 : slot_of(s->step.out, &s->step.out_count, x->out_var);
        plan->loads[i].slot = x->kind == MF_NODE_LOAD ? slot_of(s->step.in, &s->step.in_count, x->var) : -1;
        plan->loads[i].offset = x->layout.offset;
        if (walks(x))
            mf_layout_strides(&x->layout, &g->factors, plan->loads[i].strides);
    }
    join_factors(plan);
    for (int i = 0; i < g->count; i++)
        classify(plan, &plan->loads[i]);
}

/* ------------------------------------------------------------------ tiles: compilation */

static int last_reader(const mf_group *g, int node)
{
    int last = node;
    for (int i = node + 1; i < g->count; i++)
        for (int k = 0; k < g->nodes[i].in_count; k++)
            if (g->nodes[i].in[k] == node)
                last = i;
    return last;
}

/* No node after this one reads memory in which its result might lie. */
static bool may_store_early(const group_step *s, int node)
{
    const mf_group *g = &s->group;
    for (int i = node + 1; i < g->count; i++) {
        if (g->nodes[i].kind == MF_NODE_LOAD)
            return false;
        for (int k = 0; k < g->nodes[i].in_count; k++) {
            const tile_node *t = &s->tiles[g->nodes[i].in[k]];
            while (t->place == TILE_SAME)
                t = &s->tiles[t->buffer];
            if (t->place == TILE_MEMORY)
                return false;
        }
    }
    return true;
}

static mf_tile_fn *tile_of(const mf_group *g, const mf_node *x)
{
    if (x->kind == MF_NODE_SELECT)
        return mf_tile_lookup("select_n", x->dtype, x->dtype);
    if (x->kind == MF_NODE_CONVERT)
        return mf_tile_lookup("convert_element_type", g->nodes[x->in[0]].dtype, x->dtype);
    return x->kind == MF_NODE_CALL ? mf_tile_lookup(x->name, g->nodes[x->in[0]].dtype, x->dtype) : NULL;
}

typedef struct buffers {
    int count;
    int *free_after; /* by buffer: the node after which it is free again */
} buffers;

static int take_buffer(const group_step *s, buffers *f, int node, bool for_ever)
{
    int last = for_ever ? s->group.count : last_reader(&s->group, node), i = 0;
    for (int k = node; k < s->group.count; k++) /* a bitcast reads its operand as long as it lives itself */
        if (s->group.nodes[k].kind == MF_NODE_BITCAST && s->group.nodes[k].in[0] == node && last_reader(&s->group, k) > last)
            last = s->group.count;
    if (s->plan.out_slot[node] >= 0)
        last = s->group.count; /* copied at the end of the block */
    while (i < f->count &&
           (for_ever || f->free_after[i] >= node)) /* what is filled once may not lie where the next block's first nodes write */
        i++;
    f->count += i == f->count;
    f->free_after[i] = last;
    return i;
}

/* Whether the bits of this node are a result, by themselves or under another type. */
static bool is_result(const group_step *s, int node)
{
    bool result = s->plan.out_slot[node] >= 0;
    for (int i = node + 1; i < s->group.count && !result; i++)
        result = s->group.nodes[i].kind == MF_NODE_BITCAST && s->group.nodes[i].in[0] == node && is_result(s, i);
    return result;
}

static void place_tile(group_step *s, buffers *f, int i)
{
    const mf_node *x = &s->group.nodes[i];
    tile_node *t = &s->tiles[i];
    const mf_load *l = &s->plan.loads[i];
    *t = (tile_node){ .out = s->plan.out_slot[i], .run = tile_of(&s->group, x), .in_count = x->in_count, .size = mf_dtype_size(x->dtype) };
    memcpy(t->in, x->in, sizeof t->in);
    t->fixed = x->kind == MF_NODE_CONSTANT || (walks(x) && l->splat);
    /* What a block copies out at its end must be safe from results that are written over what was loaded. */
    if (x->kind == MF_NODE_LOAD && l->flat && !t->fixed && !is_result(s, i)) {
        t->place = TILE_MEMORY;
    } else if (x->kind == MF_NODE_BITCAST) {
        t->place = TILE_SAME;
        t->buffer = x->in[0];
    } else if (t->out >= 0 && t->run && may_store_early(s, i)) {
        t->place = TILE_RESULT;
    } else {
        t->place = TILE_BUFFER;
        t->buffer = take_buffer(s, f, i, t->fixed);
    }
}

static bool is_flat(const group_step *s)
{
    for (int i = 0; i < s->group.count; i++)
        if (walks(&s->group.nodes[i]) && (!s->plan.loads[i].flat || s->plan.loads[i].slot < 0 || s->plan.loads[i].offset))
            return false;
    return true;
}

/* ------------------------------------------------------------------ tasks */

#define ADDITION 0.02 /* nanoseconds an element of four bytes by vectors */

/* Of a run by compiled loops, roughly. */
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

/* Elements of a task; of a long run it is `piece`. */
static int64_t task_of(const group_step *s, int64_t piece)
{
    if (s->plan.n >= TASKS_FROM)
        return piece;
    return s->loop_cost < BRIEF_FROM ? s->plan.n : (int64_t)((double)s->plan.n * BRIEF_TASK / s->loop_cost) / MF_TILE * MF_TILE + MF_TILE;
}

static bool make_tiles(mf_build *b, group_step *s)
{
    buffers f = { 0, mf_build_get(b, (size_t)s->group.count, sizeof(int)) };
    s->tiles = mf_build_get(b, (size_t)s->group.count, sizeof *s->tiles);
    if (b->error)
        return false;
    size_t largest = 1;
    for (int i = 0; i < s->group.count; i++) {
        size_t size = (size_t)mf_dtype_size(s->group.nodes[i].dtype);
        largest = size > largest ? size : largest;
        place_tile(s, &f, i);
    }
    s->step.flat = is_flat(s);
    s->tile = s->plan.n < MF_TILE && !s->step.flat ? s->plan.n : MF_TILE;
    s->buffer_bytes = ((size_t)s->tile * largest + 63) / 64 * 64;
    s->task_bytes = (s->buffer_bytes * (size_t)f.count + sizeof(void *) * (size_t)s->group.count + 63) / 64 * 64;
    s->loop_cost = s->plan.n < LOOP_ELEMENTS ? 0 : loop_cost(&s->plan);
    s->elements_a_task = task_of(s, (s->plan.n / MOST_TASKS + MF_TILE - 1) / MF_TILE * MF_TILE);
    s->parallel = s->plan.n < TASKS_FROM && s->loop_cost < BRIEF_TO ? mf_parallel_for_brief : mf_parallel_for;
    s->tasks = (s->plan.n + s->elements_a_task - 1) / s->elements_a_task;
    s->step.scratch_bytes = s->task_bytes * (size_t)s->tasks;
    return true;
}

/* ------------------------------------------------------------------ tiles: running */

#define FILL(type)                           \
    do {                                     \
        type x_, *o_ = (type *)out;          \
        memcpy(&x_, element, sizeof x_);     \
        for (int64_t i_ = 0; i_ < n; i_++)   \
            memcpy(o_ + i_, &x_, sizeof x_); \
    } while (0)

static void fill(void *out, const void *element, int size, int64_t n)
{
    switch (size) {
    case 1: memset(out, *(const unsigned char *)element, (size_t)n); break;
    case 2: FILL(uint16_t); break;
    case 4: FILL(uint32_t); break;
    case 8: FILL(uint64_t); break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)out + i * size, element, (size_t)size);
    }
}

#define GATHER(type)                \
    for (int64_t i = 0; i < n; i++) \
    memcpy((type *)out + i, (const type *)from + i * stride, sizeof(type))

static void gather(void *out, const void *from, int size, int64_t stride, int64_t n)
{
    if (stride == 1) {
        memcpy(out, from, (size_t)(n * size));
        return;
    }
    if (stride == 0) {
        fill(out, from, size, n);
        return;
    }
    switch (size) {
    case 1: GATHER(uint8_t); break;
    case 2: GATHER(uint16_t); break;
    case 4: GATHER(uint32_t); break;
    case 8: GATHER(uint64_t); break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)out + i * size, (const char *)from + i * stride * size, (size_t)size);
    }
}

static void count_up(void *out, mf_dtype dtype, int64_t first, int64_t stride, int64_t n)
{
    for (int64_t i = 0; i < n; i++, first += stride) {
        switch (dtype) {
        case MF_F32: ((float *)out)[i] = (float)first; break;
        case MF_I64: ((int64_t *)out)[i] = first; break;
        default: ((uint32_t *)out)[i] = (uint32_t)first; break;
        }
    }
}

/* Elements [at, at + n) of a load that walks in its own way. */
static void walk(const mf_group_plan *plan, int node, const void *memory, char *out, int64_t at, int64_t n)
{
    const mf_load *l = &plan->loads[node];
    mf_dtype dtype = plan->group->nodes[node].dtype;
    int size = mf_dtype_size(dtype), inner = plan->rank - 1;
    int64_t index[MF_FACTORS], place = l->offset, rest = at;
    for (int d = inner; d >= 0; d--) {
        index[d] = rest % plan->dims[d];
        rest /= plan->dims[d];
        place += index[d] * l->strides[d];
    }
    while (n > 0) {
        int64_t run = plan->dims[inner] - index[inner] < n ? plan->dims[inner] - index[inner] : n;
        if (memory)
            gather(out, (const char *)memory + place * size, size, l->strides[inner], run);
        else
            count_up(out, dtype, place, l->strides[inner], run);
        out += run * size;
        n -= run;
        index[inner] += run;
        place += run * l->strides[inner];
        for (int d = inner; d > 0 && index[d] == plan->dims[d]; d--) {
            place += l->strides[d - 1] - index[d] * l->strides[d];
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

static void load_tile(const group_step *s, int i, void *const *values, char *out, int64_t at, int64_t n)
{
    const mf_node *x = &s->group.nodes[i];
    const mf_load *l = &s->plan.loads[i];
    const char *memory = l->slot >= 0 ? mf_step_in(&s->step, values, l->slot) : NULL;
    if (x->kind == MF_NODE_CONSTANT)
        fill(out, &x->bits, mf_dtype_size(x->dtype), n);
    else if (l->splat && memory)
        fill(out, memory + l->offset * mf_dtype_size(x->dtype), mf_dtype_size(x->dtype), n);
    else if (l->splat)
        count_up(out, x->dtype, l->offset, 0, n);
    else if (l->flat && memory)
        memcpy(out, memory + (l->offset + at) * mf_dtype_size(x->dtype), (size_t)n * (size_t)mf_dtype_size(x->dtype));
    else
        walk(&s->plan, i, memory, out, at, n);
}

static void run_tile(const group_step *s, void *const *values, void **blocks, char *buffers, int64_t at, int64_t n, bool first)
{
    for (int i = 0; i < s->group.count; i++) {
        const tile_node *t = &s->tiles[i];
        int64_t size = t->size;
        switch (t->place) {
        case TILE_MEMORY: blocks[i] = (char *)values[s->step.in[s->plan.loads[i].slot]] + (s->plan.loads[i].offset + at) * size; continue;
        case TILE_SAME: blocks[i] = blocks[t->buffer]; continue;
        case TILE_RESULT: blocks[i] = mf_step_out(&s->step, values, t->out) + at * size; break;
        default: blocks[i] = buffers + (size_t)t->buffer * s->buffer_bytes; break;
        }
        if (t->run) {
            const void *in[3];
            for (int k = 0; k < t->in_count; k++)
                in[k] = blocks[t->in[k]];
            t->run(blocks[i], in, (size_t)n);
        } else if (!t->fixed || first) {
            load_tile(s, i, values, blocks[i], at, n);
        }
    }
    for (int i = 0; i < s->group.count; i++) {
        const tile_node *t = &s->tiles[i];
        if (t->out >= 0 && t->place != TILE_RESULT)
            memmove(mf_step_out(&s->step, values, t->out) + at * t->size, blocks[i], (size_t)(n * t->size));
    }
}

/* Elements [from, to), in a task's memory. */
static void run_tiles_of(const group_step *s, void *const *values, char *buffers, int64_t from, int64_t to)
{
    void **blocks = (void **)(void *)(buffers + s->task_bytes - sizeof(void *) * (size_t)s->group.count);
    for (int64_t at = from; at < to; at += s->tile)
        run_tile(s, values, blocks, buffers, at, to - at < s->tile ? to - at : s->tile, at == from);
}

typedef struct tile_task {
    const group_step *s;
    void *const *values;
    char *scratch;
} tile_task;

static void run_piece(void *context, int64_t index)
{
    const tile_task *t = context;
    int64_t from = index * t->s->elements_a_task, left = t->s->plan.n - from;
    run_tiles_of(t->s, t->values, t->scratch + (size_t)index * t->s->task_bytes, from,
                 from + (left < t->s->elements_a_task ? left : t->s->elements_a_task));
}

static mf_error_object *run_tiles(const mf_native_step *step, void *const *values, char *scratch)
{
    const group_step *s = (const group_step *)(const void *)step;
    tile_task task = { s, values, scratch + step->scratch_offset };
    s->parallel(s->tasks, run_piece, &task);
    return NULL;
}

/* ------------------------------------------------------------------ compiled loops */

typedef struct loop_task {
    const group_step *s;
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

/* Operands, then results, as compiled loops take them. */
static void **loop_pointers(const mf_native_step *step, void *const *values, char *scratch)
{
    void **pointers = (void **)(void *)(scratch + step->scratch_offset);
    for (int i = 0; i < step->in_count; i++)
        pointers[i] = values[step->in[i]];
    for (int o = 0; o < step->out_count; o++)
        pointers[step->in_count + o] = values[step->out[o]];
    return pointers;
}

static void run_loop(const group_step *s, mf_loop_fn *loop, void *const *values, char *scratch)
{
    void **pointers = loop_pointers(&s->step, values, scratch);
    loop_task task = { s, loop, pointers, pointers + s->step.in_count };
    int64_t tasks = (s->rows + s->rows_a_task - 1) / s->rows_a_task;
    s->parallel(tasks, run_rows, &task);
}

static mf_error_object *run_best(const mf_native_step *step, void *const *values, char *scratch)
{
    const group_step *s = (const group_step *)(const void *)step;
    mf_loop_fn *loop = mf_tier_up_loop(step->up);
    if (loop) {
        run_loop(s, loop, values, scratch);
        return NULL;
    }
    mf_tier_up_count(step->up, 1, 1);
    return run_tiles(step, values, scratch);
}

static bool write_loop(const void *plan, mf_loop_text *t) { return mf_loop_write(plan, t); }

static void add_second_tier(mf_build *b, group_step *s)
{
    int64_t calls = 0;
    for (int i = 0; i < s->group.count; i++)
        calls += s->tiles[i].run != NULL;
    bool pays = calls > 1 && s->plan.n >= LOOP_LEAST;
    bool soon = pays && s->plan.n >= LOOP_ELEMENTS && calls * s->plan.n >= LOOP_WORK;
    mf_tier_up_hints hints = { .cost = s->step.cost, .pays = pays, .soon = soon };
    if (!mf_tier_up_wanted(hints) || !mf_llvm_can(&s->group)) /* asking LLVM's side takes longer than all else for a tiny group */
        return;
    mf_tier_up *up = mf_build_get(b, 1, sizeof *up);
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

/* A group that is a load and a store: a strided copy without any kernel. */
static mf_error_object *run_copy(const mf_native_step *step, void *const *values, char *scratch)
{
    const group_step *s = (const group_step *)(const void *)step;
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

static const group_step *of(const mf_native_step *step) { return (const group_step *)(const void *)step; }

static bool can_part(const mf_native_step *step, int64_t rows)
{
    const group_step *s = of(step);
    return s->plan.n % rows == 0 && (!s->soon || s->rows % rows == 0);
}

/* Whether a walk over these factors, of which the first `outer` make up the rows, stays in its own row of a memory of `row` elements each. */
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
    const group_step *s = of(step);
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
    const group_step *s = of(step);
    mf_loop_fn *loop = step->up && s->rows % rows == 0 ? mf_tier_up_loop(step->up) : NULL;
    int64_t each = (loop ? s->rows : s->plan.n) / rows;
    if (!loop) {
        if (step->up)
            mf_tier_up_count(step->up, to - from, rows);
        run_tiles_of(s, values, scratch + step->scratch_offset, from * each, to * each);
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

/* Nanoseconds of a run by tiles, roughly. */
static double tile_cost(const group_step *s)
{
    double cost = 5;
    for (int i = 0; i < s->group.count; i++) {
        const mf_node *x = &s->group.nodes[i];
        double each = x->kind == MF_NODE_CALL && s->tiles[i].run ? 0.15 : 0.1;
        if (walks(x) && !s->plan.loads[i].flat && !s->plan.loads[i].splat)
            each = 0.5;
        cost += 6 + each * (double)s->plan.n;
    }
    return cost;
}

bool mf_group_copies(const mf_native_step *s) { return s->run == run_copy; }

mf_native_step *mf_group_step(mf_build *b, mf_group *g)
{
    group_step *s = mf_step_new(b, sizeof *s, NULL);
    if (!s)
        return NULL;
    keep_needed(b, g, &s->group);
    if (b->error || s->group.count == 0)
        return NULL; /* nothing of it is read */
    make_plan(b, s);
    if (b->error || !make_tiles(b, s))
        return NULL;
    s->step.run = run_tiles;
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
