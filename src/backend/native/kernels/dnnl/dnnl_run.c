/* Running oneDNN's primitives, and reordering operands between the caller's layout and oneDNN's. Invariant: the state of a run is in its
 * context. */
#include "dnnl_primitive.h"

#include "base/memory/alloc.h"
#include "base/guard.h"

#include <stdlib.h>

enum { TO_RUN = 16 << 10 }; /* bytes that must be available before oneDNN is entered: many times what it was seen to take */

static dnnl_memory_t make_memory(desc_ref d)
{
    dnnl_memory_t memory = NULL;
    if (d)
        mf_dnnl.dnnl_memory_create(&memory, d, mf_dnnl.engine, DNNL_MEMORY_NONE);
    return memory;
}

void mf_dnnl_context_free(mf_dnnl_context *c)
{
    for (int i = 0; i < MF_DNNL_OPERANDS; i++) {
        if (c->user[i])
            mf_dnnl.dnnl_memory_destroy(c->user[i]);
        if (c->wanted[i])
            mf_dnnl.dnnl_memory_destroy(c->wanted[i]);
        if (c->reorder_scratch[i])
            mf_dnnl.dnnl_memory_destroy(c->reorder_scratch[i]);
    }
    if (c->scratch)
        mf_dnnl.dnnl_memory_destroy(c->scratch);
    if (c->stream)
        mf_dnnl.dnnl_stream_destroy(c->stream);
    free(c);
}

static mf_dnnl_context *make_context(const mf_dnnl_primitive *p)
{
    mf_dnnl_context *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    bool ok = mf_dnnl.dnnl_stream_create(&c->stream, mf_dnnl.engine, dnnl_stream_default_flags) == dnnl_success;
    c->scratch = make_memory(p->scratch);
    ok = ok && (c->scratch || !p->scratch);
    for (int i = 0; ok && i < MF_DNNL_OPERANDS; i++) {
        const mf_dnnl_operand *o = &p->operands[i];
        c->user[i] = make_memory(REF(o->user));
        ok = c->user[i] != NULL;
        if (!o->reorder)
            continue;
        c->wanted[i] = make_memory(REF(o->wanted));
        c->reorder_scratch[i] = make_memory(o->reorder_scratch);
        ok = ok && c->wanted[i] && (c->reorder_scratch[i] || !o->reorder_scratch);
    }
    if (ok)
        return c;
    mf_dnnl_context_free(c);
    return NULL;
}

static mf_dnnl_context *take(mf_dnnl_primitive *p)
{
    pthread_mutex_lock(&p->lock);
    mf_dnnl_context *c = p->idle;
    if (c)
        p->idle = c->next;
    pthread_mutex_unlock(&p->lock);
    return c ? c : make_context(p);
}

static void give(mf_dnnl_primitive *p, mf_dnnl_context *c)
{
    pthread_mutex_lock(&p->lock);
    c->next = p->idle;
    p->idle = c;
    pthread_mutex_unlock(&p->lock);
}

static bool set(dnnl_memory_t memory, const void *data)
{
    return !memory || mf_dnnl.dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)data) == dnnl_success;
}

static bool reorder(const mf_dnnl_primitive *p, mf_dnnl_context *c, int i)
{
    dnnl_memory_t from = i == MF_DNNL_OUT ? c->wanted[i] : c->user[i], to = i == MF_DNNL_OUT ? c->user[i] : c->wanted[i];
    dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to }, { DNNL_ARG_SCRATCHPAD, c->reorder_scratch[i] } };
    int n = c->reorder_scratch[i] ? 3 : 2;
    return mf_dnnl.dnnl_primitive_execute(p->operands[i].reorder, c->stream, n, args) == dnnl_success;
}

/* packed: the operand that the caller passes in the library's layout; MF_DNNL_OPERANDS: none. */
static bool run(const mf_dnnl_primitive *p, mf_dnnl_context *c, const void *const *data, int packed, char *scratch)
{
    dnnl_exec_arg_t args[MF_DNNL_OPERANDS + 1];
    int n = MF_DNNL_OPERANDS;
    bool ok = set(c->scratch, scratch);
    for (int i = 0; ok && i < MF_DNNL_OPERANDS; i++) {
        const mf_dnnl_operand *o = &p->operands[i];
        ok = set(c->user[i], data[i]) && set(c->wanted[i], i == packed ? data[i] : scratch + o->offset) &&
             set(c->reorder_scratch[i], scratch + p->reorder_offset);
        args[i] = (dnnl_exec_arg_t){ o->argument, o->reorder ? c->wanted[i] : c->user[i] };
        if (o->reorder && i != MF_DNNL_OUT && i != packed)
            ok = ok && reorder(p, c, i);
    }
    if (c->scratch)
        args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, c->scratch };
    ok = ok && mf_dnnl.dnnl_primitive_execute(p->primitive, c->stream, n, args) == dnnl_success;
    return ok && (!p->operands[MF_DNNL_OUT].reorder || packed == MF_DNNL_OUT || reorder(p, c, MF_DNNL_OUT));
}

typedef struct guarded_run {
    mf_dnnl_primitive *p;
    const void *const *data;
    int packed;
    char *scratch;
    mf_dnnl_context *c;
    bool (*run)(const mf_dnnl_primitive *p, mf_dnnl_context *c, const void *const *data, int packed, char *scratch);
    bool ok;
} guarded_run;

static void run_inside(void *of)
{
    guarded_run *r = of;
    r->c = take(r->p);
    r->ok = r->c && r->run(r->p, r->c, r->data, r->packed, r->scratch);
}

static bool run_guarded(guarded_run r)
{
    if (!mf_dnnl_enter())
        return false;
    bool to_spare = mf_memory_suffices(TO_RUN);
    int team = to_spare ? mf_dnnl_team_of_one() : 0;
    bool ok = to_spare && mf_guarded(run_inside, &r) && r.ok;
    if (r.c)
        give(r.p, r.c);
    mf_dnnl_team_restore(team);
    mf_dnnl_leave();
    return ok;
}

static bool run_with(const mf_dnnl_primitive *p, const void *const *data, int packed, void *scratch)
{
    mf_dnnl_primitive *mutable = (mf_dnnl_primitive *)(uintptr_t)p; /* the free list has its own lock */
    return run_guarded((guarded_run){ .p = mutable, .data = data, .packed = packed, .scratch = scratch, .run = run });
}

bool mf_dnnl_run(const mf_dnnl_primitive *p, const void *in0, const void *in1, void *out, void *scratch)
{
    return run_with(p, (const void *const[]){ in0, in1, out }, MF_DNNL_OPERANDS, scratch);
}

bool mf_dnnl_run_packed(const mf_dnnl_primitive *p, const void *in0, const void *in1, void *out, void *scratch)
{
    return run_with(p, (const void *const[]){ in0, in1, out }, p->operands[p->packed].reorder ? p->packed : MF_DNNL_OPERANDS, scratch);
}

/* Reorders between the caller's layout and the packed one. */
static bool move_packed(const mf_dnnl_primitive *p, mf_dnnl_context *c, const void *const *data, int i, char *scratch)
{
    return set(c->user[i], data[0]) && set(c->wanted[i], data[1]) && set(c->reorder_scratch[i], scratch + p->reorder_offset) &&
           reorder(p, c, i);
}

static bool repack(const mf_dnnl_primitive *p, const void *plain, const void *packed, char *scratch)
{
    mf_dnnl_primitive *mutable = (mf_dnnl_primitive *)(uintptr_t)p;
    const void *const data[] = { plain, packed };
    return p->operands[p->packed].reorder &&
           run_guarded((guarded_run){ .p = mutable, .data = data, .packed = p->packed, .scratch = scratch, .run = move_packed });
}

bool mf_dnnl_pack(const mf_dnnl_primitive *p, const void *in1, void *packed, void *scratch) { return repack(p, in1, packed, scratch); }
bool mf_dnnl_unpack(const mf_dnnl_primitive *p, const void *packed, void *out, void *scratch) { return repack(p, out, packed, scratch); }

size_t mf_dnnl_packed_bytes(const mf_dnnl_primitive *p) { return p->operands[p->packed].bytes; }

bool mf_dnnl_same_packing(const mf_dnnl_primitive *one, const mf_dnnl_primitive *other)
{
    const mf_dnnl_operand *a = &one->operands[one->packed], *b = &other->operands[other->packed];
    return a->reorder && b->reorder && mf_dnnl.dnnl_memory_desc_equal(REF(a->wanted), REF(b->wanted));
}

size_t mf_dnnl_scratch_bytes(const mf_dnnl_primitive *p) { return p->scratch_bytes; }

const char *mf_dnnl_describe(const mf_dnnl_primitive *p) { return p->description ? p->description : ""; }
