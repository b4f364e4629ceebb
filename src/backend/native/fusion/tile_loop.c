/* Fused loops by tile kernels: each node's block is in memory, in a buffer that stays in the nearest cache, or in the result.
 * Invariant: within a block everything is loaded before anything is stored that might share its memory. */
#include "backend/native/fusion/tile_loop.h"

#include <string.h>

/* ------------------------------------------------------------------ compilation */

static int last_reader(const mf_group *g, int node)
{
    int last = node;
    for (int i = node + 1; i < g->count; i++)
        for (int k = 0; k < g->nodes[i].in_count; k++)
            if (g->nodes[i].in[k] == node)
                last = i;
    return last;
}

/* Whether no node after this one reads memory that its result might share. */
static bool may_store_early(const mf_fused_loop *s, int node)
{
    const mf_group *g = &s->group;
    for (int i = node + 1; i < g->count; i++) {
        if (g->nodes[i].kind == MF_NODE_LOAD)
            return false;
        for (int k = 0; k < g->nodes[i].in_count; k++) {
            const mf_tile_node *t = &s->tiles[g->nodes[i].in[k]];
            while (t->place == MF_TILE_SAME)
                t = &s->tiles[t->buffer];
            if (t->place == MF_TILE_MEMORY)
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

static int take_buffer(const mf_fused_loop *s, buffers *f, int node, bool for_ever)
{
    int last = for_ever ? s->group.count : last_reader(&s->group, node), i = 0;
    for (int k = node; k < s->group.count; k++) /* a bitcast reads its operand's buffer for as long as it lives itself */
        if (s->group.nodes[k].kind == MF_NODE_BITCAST && s->group.nodes[k].in[0] == node && last_reader(&s->group, k) > last)
            last = s->group.count;
    if (s->plan.out_slot[node] >= 0)
        last = s->group.count;                                     /* copied at the end of the block */
    while (i < f->count && (for_ever || f->free_after[i] >= node)) /* filled once: not where the next block's first nodes write */
        i++;
    f->count += i == f->count;
    f->free_after[i] = last;
    return i;
}

/* Whether the bits of this node are a result, directly or through bitcasts. */
static bool is_result(const mf_fused_loop *s, int node)
{
    bool result = s->plan.out_slot[node] >= 0;
    for (int i = node + 1; i < s->group.count && !result; i++)
        result = s->group.nodes[i].kind == MF_NODE_BITCAST && s->group.nodes[i].in[0] == node && is_result(s, i);
    return result;
}

static void place_tile(mf_fused_loop *s, buffers *f, int i)
{
    const mf_node *x = &s->group.nodes[i];
    mf_tile_node *t = &s->tiles[i];
    const mf_load *l = &s->plan.loads[i];
    *t = (mf_tile_node){
        .out = s->plan.out_slot[i], .run = tile_of(&s->group, x), .in_count = x->in_count, .size = mf_dtype_size(x->dtype)
    };
    memcpy(t->in, x->in, sizeof t->in);
    t->fixed = x->kind == MF_NODE_CONSTANT || (mf_node_walks(x) && l->splat);
    /* What a block copies out at its end must not be overwritten by results that share the memory of loads. */
    if (x->kind == MF_NODE_LOAD && l->flat && !t->fixed && !is_result(s, i)) {
        t->place = MF_TILE_MEMORY;
    } else if (x->kind == MF_NODE_BITCAST) {
        t->place = MF_TILE_SAME;
        t->buffer = x->in[0];
    } else if (t->out >= 0 && t->run && may_store_early(s, i)) {
        t->place = MF_TILE_RESULT;
    } else {
        t->place = MF_TILE_BUFFER;
        t->buffer = take_buffer(s, f, i, t->fixed);
    }
}

static bool is_flat(const mf_fused_loop *s)
{
    for (int i = 0; i < s->group.count; i++)
        if (mf_node_walks(&s->group.nodes[i]) && (!s->plan.loads[i].flat || s->plan.loads[i].slot < 0 || s->plan.loads[i].offset))
            return false;
    return true;
}

bool mf_tiles_make(mf_build *b, mf_fused_loop *s)
{
    buffers f = { 0, mf_build_alloc(b, (size_t)s->group.count, sizeof(int)) };
    s->tiles = mf_build_alloc(b, (size_t)s->group.count, sizeof *s->tiles);
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
    return true;
}

/* ------------------------------------------------------------------ running */

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

/* Copies elements [at, at + n) of a load that is not contiguous. */
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

static void load_tile(const mf_fused_loop *s, int i, void *const *values, char *out, int64_t at, int64_t n)
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

static void run_tile(const mf_fused_loop *s, void *const *values, void **blocks, char *buffers, int64_t at, int64_t n, bool first)
{
    for (int i = 0; i < s->group.count; i++) {
        const mf_tile_node *t = &s->tiles[i];
        int64_t size = t->size;
        switch (t->place) {
        case MF_TILE_MEMORY:
            blocks[i] = (char *)values[s->step.in[s->plan.loads[i].slot]] + (s->plan.loads[i].offset + at) * size;
            continue;
        case MF_TILE_SAME: blocks[i] = blocks[t->buffer]; continue;
        case MF_TILE_RESULT: blocks[i] = mf_step_out(&s->step, values, t->out) + at * size; break;
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
        const mf_tile_node *t = &s->tiles[i];
        if (t->out >= 0 && t->place != MF_TILE_RESULT)
            memmove(mf_step_out(&s->step, values, t->out) + at * t->size, blocks[i], (size_t)(n * t->size));
    }
}

void mf_tiles_run(const mf_fused_loop *s, void *const *values, char *buffers, int64_t from, int64_t to)
{
    void **blocks = (void **)(void *)(buffers + s->task_bytes - sizeof(void *) * (size_t)s->group.count);
    for (int64_t at = from; at < to; at += s->tile)
        run_tile(s, values, blocks, buffers, at, to - at < s->tile ? to - at : s->tile, at == from);
}

typedef struct tile_task {
    const mf_fused_loop *s;
    void *const *values;
    char *scratch;
} tile_task;

static void run_piece(void *context, int64_t index)
{
    const tile_task *t = context;
    int64_t from = index * t->s->elements_a_task, left = t->s->plan.n - from;
    mf_tiles_run(t->s, t->values, t->scratch + (size_t)index * t->s->task_bytes, from,
                 from + (left < t->s->elements_a_task ? left : t->s->elements_a_task));
}

mf_error_object *mf_tiles_run_all(const mf_native_step *step, void *const *values, char *scratch)
{
    const mf_fused_loop *s = (const mf_fused_loop *)(const void *)step;
    tile_task task = { s, values, scratch + step->scratch_offset };
    s->parallel(s->tasks, run_piece, &task);
    return NULL;
}
