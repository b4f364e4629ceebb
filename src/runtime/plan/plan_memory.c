/* The peak memory of a run of a plan, not counting arguments and results: the live values between segments, on all devices, and the
 * kernels' scratch on each worker.
 * Invariant: an upper bound. A run may need less, because results of inner blocks are moved, and lockstep maps stack their values. */
#include "runtime/plan/plan.h"

typedef struct live_memory {
    int *root;      /* by register: the first register with the same memory */
    int64_t *bytes; /* by root; 0: memory of an argument, a constant or a result */
    int *holders;   /* by root: live registers with this memory */
    int64_t now;
} live_memory;

static bool live_memory_begin(live_memory *h, const mf_block *b, bool top)
{
    size_t n = (size_t)b->register_count + 1;
    *h = (live_memory){ mf_calloc(n, sizeof *h->root), mf_calloc(n, sizeof *h->bytes), mf_calloc(n, sizeof *h->holders), 0 };
    if (!h->root || !h->bytes || !h->holders)
        return false;
    for (int r = 0; r < b->register_count; r++) {
        h->root[r] = r;
        h->holders[r] = 1;
        h->bytes[r] = b->destination[r] < 0 ? b->types[r]->bytes : 0;
    }
    for (int i = 0; i < b->instr_count; i++) {
        const mf_instr *in = b->instrs[i];
        for (int o = 0; o < in->out_count; o++)
            if (in->out[o] >= 0) /* else it is in the uniform block */
                h->holders[in->out[o]] = 0;
        if (in->kind == MF_DO_ALIAS && in->in[0] >= 0)
            h->root[in->out[0]] = h->root[in->in[0]];
        else if (in->kind == MF_DO_ALIAS)
            h->bytes[in->out[0]] = 0; /* the uniform block's memory */
    }
    for (int i = 0; i < b->in_count; i++)
        if (b->in[i] >= 0)
            h->bytes[b->in[i]] = 0;
    for (int c = 0; c < b->constant_count; c++)
        h->bytes[b->constants[c]] = 0;
    for (int o = 0; top && o < b->out_count; o++)
        if (b->out[o] >= 0)
            h->bytes[h->root[b->out[o]]] = 0;
    for (int r = 0; r < b->register_count; r++) /* registers that devices write in the uniform block may be live from the beginning */
        h->now += h->holders[r] ? h->bytes[r] : 0;
    return true;
}

static int64_t most_of_block(const mf_block *b, bool top);

static int64_t most_of_instr(const mf_instr *in)
{
    int64_t most = 0, sum = 0;
    for (int k = 0; k < in->block_count; k++) {
        int64_t one = most_of_block(in->blocks[k], false);
        most = one > most ? one : most;
        sum += one;
    }
    if (in->map)
        return most_of_block(in->map->uniform, false) + in->map->size * most_of_block(in->map->device, false);
    return in->kind == MF_DO_CALL ? most : sum;
}

/* The peak of live registers; 0 if memory is out. */
static int64_t most_of_block(const mf_block *b, bool top)
{
    live_memory h = { 0 };
    bool good = b && live_memory_begin(&h, b, top);
    int64_t now = h.now, most = now;
    for (int i = 0; good && i < b->instr_count; i++) {
        const mf_instr *in = b->instrs[i];
        for (int o = 0; o < in->out_count; o++)
            if (in->out[o] >= 0)
                now += h.holders[h.root[in->out[o]]]++ ? 0 : h.bytes[h.root[in->out[o]]];
        int64_t inside = now + most_of_instr(in);
        most = inside > most ? inside : most;
        for (int u = 0; u < in->last_use_count; u++)
            now -= --h.holders[h.root[in->last_uses[u]]] ? 0 : h.bytes[h.root[in->last_uses[u]]];
    }
    mf_free(h.root);
    mf_free(h.bytes);
    mf_free(h.holders);
    return most;
}

int64_t mf_plan_temporary_bytes(const mf_plan *plan, int workers)
{
    int64_t at_once = plan->top->span < workers ? plan->top->span : workers;
    return most_of_block(plan->top, true) + at_once * (int64_t)plan->scratch_bytes;
}
