/* The working memory of a run: a bump allocator with free lists, registers and frames. Invariants: a run state's memory is freed as a
 * whole when the run is over, so a repeated run allocates nothing; a register owns one reference to its buffer. */
#include "runtime/collectives/collectives.h"

#include <string.h>

/* ------------------------------------------------------------------ memory */

mf_run_state *mf_run_state_new(mf_executable *x)
{
    mf_run_state *s = mf_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->executable = x;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

static bool is_one_threads(const mf_run_state *s) { return !s->shared || mf_run_state_attended(s); }

void mf_run_state_lock(mf_run_state *s)
{
    if (!is_one_threads(s))
        pthread_mutex_lock(&s->lock);
}

void mf_run_state_unlock(mf_run_state *s)
{
    if (!is_one_threads(s))
        pthread_mutex_unlock(&s->lock);
}

static int pool_of(size_t bytes, size_t *size)
{
    int pool = 0;
    *size = 64;
    while (*size < bytes) {
        *size *= 2;
        pool++;
    }
    return pool;
}

static void *take_from_chunks(mf_run_state *s, size_t size)
{
    mf_chunk *c = s->chunks;
    if (!c || c->size - c->used < size) {
        size_t capacity = c ? 2 * c->size : 16384;
        while (capacity < size)
            capacity *= 2;
        mf_chunk *fresh = mf_alloc(sizeof *fresh + capacity);
        if (!fresh)
            return NULL;
        fresh->next = c;
        fresh->size = capacity;
        fresh->used = 0;
        s->chunks = c = fresh;
    }
    void *p = c->at + c->used;
    c->used += size;
    return p;
}

void *mf_run_state_get(mf_run_state *s, size_t bytes)
{
    size_t size;
    int pool = pool_of(bytes, &size);
    void *p = pool < MF_POOLS ? s->pools[pool] : NULL;
    if (p) {
        void *next;
        memcpy(&next, p, sizeof next);
        s->pools[pool] = next;
    } else {
        p = take_from_chunks(s, size);
    }
    return p ? memset(p, 0, bytes) : NULL;
}

void mf_run_state_put(mf_run_state *s, void *p, size_t bytes)
{
    size_t size;
    int pool = pool_of(bytes, &size);
    if (!p || pool >= MF_POOLS)
        return;
    memcpy(p, &s->pools[pool], sizeof s->pools[pool]);
    s->pools[pool] = p;
}

/* ------------------------------------------------------------------ registers */

static bool inside(const mf_register *r) { return (uintptr_t)r->data - (uintptr_t)r->small < MF_SMALL; }

void mf_register_release(mf_register *r)
{
    if (r->buffer)
        mf_drop(r->buffer);
    r->buffer = NULL;
    r->data = NULL;
    r->strides = NULL;
    r->sharding = NULL;
}

void mf_register_copy(mf_register *to, const mf_register *from)
{
    *to = *from;
    if (from->buffer)
        mf_retain(from->buffer);
    if (inside(from))
        to->data = to->small + (from->data - from->small);
}

void mf_register_move(mf_register *to, mf_register *from)
{
    *to = *from;
    if (inside(from))
        to->data = to->small + (from->data - from->small);
    from->buffer = NULL;
    from->data = NULL;
}

void mf_register_view(mf_register *to, const mf_register *from, int64_t offset)
{
    mf_register_copy(to, from);
    to->data += offset;
    to->strides = NULL;
    to->sharding = NULL;
}

bool mf_register_new(mf_register *r, int64_t bytes)
{
    r->strides = NULL;
    r->sharding = NULL;
    if (bytes <= MF_SMALL) {
        r->buffer = NULL;
        r->data = r->small;
        return true;
    }
    r->buffer = mf_buffer_new((size_t)bytes);
    r->data = r->buffer ? r->buffer->data : NULL;
    return r->buffer;
}

bool mf_register_new_shared(mf_register *r, int64_t bytes)
{
    if (bytes <= MF_SMALL)
        return mf_register_new(r, bytes);
    *r = (mf_register){ .buffer = mf_buffer_new_shared((size_t)bytes) };
    r->data = r->buffer ? r->buffer->data : NULL;
    return r->buffer;
}

bool mf_register_packed_copy(mf_register *to, const mf_register *from, const mf_type *type)
{
    if (!from->strides) {
        mf_register_copy(to, from);
        return true;
    }
    int64_t strides[MF_RANK];
    if (!mf_register_new(to, type->bytes))
        return false;
    mf_contiguous_strides(type, strides);
    mf_copy_strided(type->rank, type->dims, mf_dtype_size(type->dtype), to->data, strides, from->data, from->strides);
    return true;
}

bool mf_register_pack(mf_register *r, const mf_type *type)
{
    mf_register packed;
    if (!r->strides)
        return true;
    if (!mf_register_packed_copy(&packed, r, type))
        return false;
    mf_register_release(r);
    mf_register_move(r, &packed);
    return true;
}

static bool has_strides(const mf_register *r, const mf_type *type, const int64_t *strides)
{
    int64_t row_by_row[MF_RANK];
    if (!r->strides)
        mf_contiguous_strides(type, row_by_row);
    const int64_t *has = r->strides ? r->strides : row_by_row;
    for (int i = 0; i < type->rank; i++)
        if (has[i] != strides[i] && type->dims[i] > 1 && type->size)
            return false;
    return true;
}

bool mf_register_lay(mf_register *r, const mf_type *type, const int64_t *strides)
{
    mf_register laid;
    int64_t bytes = mf_dtype_size(type->dtype);
    if (has_strides(r, type, strides))
        return true;
    for (int i = 0; i < type->rank; i++)
        bytes += strides[i] * (type->dims[i] - 1);
    if (!mf_register_pack(r, type) || !mf_register_new(&laid, bytes))
        return false;
    int64_t from[MF_RANK];
    mf_contiguous_strides(type, from);
    mf_copy_strided(type->rank, type->dims, mf_dtype_size(type->dtype), laid.data, strides, r->data, from);
    mf_register_release(r);
    mf_register_move(r, &laid);
    return true;
}

bool mf_register_own(mf_register *r, const mf_type *type)
{
    mf_register copy;
    if (!mf_register_pack(r, type))
        return false;
    if (r->buffer || inside(r) || !r->data)
        return true;
    if (!mf_register_new(&copy, type->bytes))
        return false;
    if (type->bytes)
        memcpy(copy.data, r->data, (size_t)type->bytes);
    mf_register_move(r, &copy);
    return true;
}

bool mf_register_unique(const mf_register *r)
{
    return r->buffer && atomic_load_explicit(&r->buffer->object.count, memory_order_acquire) == 1;
}

/* ------------------------------------------------------------------ frames */

static size_t frame_bytes(const mf_block *b, bool destinations)
{
    return ((sizeof(mf_frame) + 15) & ~(size_t)15) + (size_t)b->register_count * sizeof(mf_register) +
           (destinations ? (size_t)b->out_count * sizeof(mf_destination) : 0);
}

static void set_constants(mf_frame *f)
{
    for (int c = 0; c < f->block->constant_count; c++) {
        mf_register *r = &f->registers[f->block->constants[c]];
        const mf_literal *l = f->block->literals[c];
        r->buffer = mf_retain(l->buffer);
        r->data = (void *)(uintptr_t)l->data; /* a register whose memory is shared is never written */
        if (!l->buffer) {
            memcpy(r->small, r->data, (size_t)l->type->bytes);
            r->data = r->small;
        }
    }
}

mf_frame *mf_frame_new(mf_run_state *s, const mf_block *b, bool destinations)
{
    char *at = mf_run_state_get(s, frame_bytes(b, destinations));
    if (!at)
        return NULL;
    mf_frame *f = (mf_frame *)(void *)at;
    f->block = b;
    f->iteration = -1;
    f->registers = (mf_register *)(void *)(at + ((sizeof(mf_frame) + 15) & ~(size_t)15));
    if (destinations)
        f->destinations = (mf_destination *)(void *)(f->registers + b->register_count);
    set_constants(f);
    return f;
}

void mf_frame_release(mf_frame *f)
{
    const mf_block *b = f->block;
    int c = 0;
    for (int r = 0; r < b->register_count; r++) {
        for (c = 0; c < b->constant_count && b->constants[c] != r; c++) {
        }
        if (c == b->constant_count && f->registers[r].data)
            mf_register_release(&f->registers[r]);
    }
}

void mf_frame_free(mf_run_state *s, mf_frame *f)
{
    for (int r = 0; r < f->block->register_count; r++)
        if (f->registers[r].buffer)
            mf_register_release(&f->registers[r]);
    mf_run_state_put(s, f, frame_bytes(f->block, f->destinations));
}

/* ------------------------------------------------------------------ after a run */

static void release_list(mf_register *list, int count)
{
    for (int i = 0; list && i < count; i++)
        mf_register_release(&list[i]);
}

static void release_loop(mf_loop *l)
{
    if (!l)
        return;
    release_list(l->carry, l->carry_count + l->stacked_count);
    for (int i = 0; i < 2; i++)
        for (int r = 0; l->frames[i] && r < l->frames[i]->block->register_count; r++)
            mf_register_release(&l->frames[i]->registers[r]);
}

static void release_frame(mf_frame *f)
{
    release_loop(f->loop);
    release_list(f->registers, f->block->register_count);
}

static void release_map(mf_run_state *s, mf_map *m)
{
    release_list(m->in, m->plan->in_count);
    release_list(m->out, m->plan->out_count);
    if (m->uniform)
        release_frame(m->uniform);
    while (m->rendezvous) {
        mf_rendezvous *g = m->rendezvous;
        m->rendezvous = g->next;
        mf_rendezvous_free(s, g);
    }
}

/* Releases what a failed run left behind; a successful run leaves nothing. */
static void sweep(mf_run_state *s)
{
    for (mf_fiber *f = s->live; f; f = f->live_after)
        for (mf_frame *at = f->top; at; at = at->below)
            release_frame(at);
    for (mf_map *m = s->maps; m; m = m->live_after)
        release_map(s, m);
    s->live = NULL;
    s->maps = NULL;
}

void mf_run_state_clear(mf_run_state *s)
{
    sweep(s);
    release_list(s->in, s->in ? s->executable->program->in_count : 0);
    release_list(s->out, s->out ? s->executable->program->out_count : 0);
    s->in = s->out = NULL;
    for (mf_chunk *c = s->chunks ? s->chunks->next : NULL, *next; c; c = next) { /* the newest chunk is the largest, and stays */
        next = c->next;
        mf_free(c);
    }
    if (s->chunks) {
        s->chunks->next = NULL;
        s->chunks->used = 0;
    }
    memset(s->pools, 0, sizeof s->pools);
    mf_drop(s->error);
    s->error = NULL;
    s->run = NULL;
    s->comm = NULL;
    s->device = 0;
    s->shared = s->done = s->listed = false;
    atomic_store_explicit(&s->handed_over, NULL, memory_order_relaxed);
    s->active = 0;
    s->ready_first = s->ready_last = NULL;
    s->ready_count = 0;
    atomic_store_explicit(&s->failed, false, memory_order_relaxed);
}

void mf_run_state_free(mf_run_state *s)
{
    if (!s)
        return;
    mf_run_state_clear(s);
    mf_exchanges_free(s);
    mf_free(s->chunks);
    pthread_mutex_destroy(&s->lock);
    mf_free(s);
}

void mf_run_state_fail(mf_run_state *s, mf_error_object *e)
{
    mf_run_state_lock(s);
    bool first = !s->error;
    if (first) {
        s->error = e;
        atomic_store_explicit(&s->failed, true, memory_order_release);
    }
    mf_run_state_unlock(s);
    if (!first)
        mf_error_ignore(e);
    else if (s->comm)
        mf_comm_abort(s->comm, s->call, e);
}

void mf_run_state_record(const mf_run_state *s, int64_t start, mf_track_kind track, int index, mf_profile_source *source, int64_t bytes)
{
    if (s->executable->shares_locations)
        mf_profile_equations_of(start, track, index, source, bytes, s->location);
    else
        mf_profile_equations(start, track, index, source, bytes);
}
