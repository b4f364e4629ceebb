/* Exchanges: a rendezvous whose members are in several processes. Each process contributes what it can compute alone and sends it to every
 * other one that has members; when all has come, a fiber that does nothing else delivers.
 *
 * A contribution has two parts, of which either may be empty: what is the same for everybody - of a reduction the frontier of this process's
 * ranks (frontier.h), of what is gathered or compared whole operands - and what one process alone wants: pieces of an all_to_all, operands
 * of a ppermute. In each, the results' chunks follow one another, and the chunks' contents go by rank.
 * Invariants: who has which rank is known to all, so both ends know the size of each message; sums of 16-bit floats travel in f32 and are
 * rounded once, at the end; the exchange counts as active until its fiber has delivered. */
#include "runtime/collectives/collectives.h"

#include "base/vector.h"
#include "runtime/collectives/frontier.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64 /* of chunks */

enum { SHARED, OWN, PARTS }; /* for everybody; for one process alone */

typedef struct peer {
    int process;
    mf_register out[PARTS], in[PARTS]; /* out[SHARED] is the exchange's own */
    int64_t out_bytes[PARTS], in_bytes[PARTS];
} peer;

struct mf_exchange {
    mf_fiber fiber;
    mf_run_state *s;
    mf_rendezvous *g;
    const mf_segment_compiler *compiler;
    int peer_count;
    peer *peers;
    mf_register shared; /* what is sent to everybody */
    _Atomic int pending;
    _Atomic(mf_error_object *) error; /* the first */
};

/* ------------------------------------------------------------------ what a process contributes */

static const mf_eqn *eqn_of(const mf_exchange *x, int k) { return x->g->instr->participants->eqns[k]; }

static int result_count(const mf_exchange *x) { return x->g->instr->out_count; }

static bool reduces(const mf_eqn *e)
{
    return e->op == &mf_op_psum || e->op == &mf_op_pmax || e->op == &mf_op_pmin || e->op == &mf_op_psum_scatter;
}

static int part_of(const mf_eqn *e) { return e->op == &mf_op_all_to_all || e->op == &mf_op_ppermute ? OWN : SHARED; }

/* A reduction's partial results: sums of 16-bit floats wait for their rounding. */
static mf_dtype partial_dtype(const mf_eqn *e)
{
    mf_dtype dtype = e->in[0]->type->dtype;
    bool sum = e->op != &mf_op_pmax && e->op != &mf_op_pmin;
    return sum && (dtype == MF_F16 || dtype == MF_BF16) ? MF_F32 : dtype;
}

static int64_t partial_bytes(const mf_eqn *e) { return e->in[0]->type->size * mf_dtype_size(partial_dtype(e)); }

static int64_t count_of(const mf_exchange *x, int process)
{
    int64_t count = 0;
    for (int64_t i = 0; i < x->g->member_count; i++)
        count += x->g->owners[i] == process;
    return count;
}

/* The frontier of a process's ranks, into out (NULL: nowhere). */
static int64_t frontier_of(const mf_exchange *x, int process, mf_subtree *out)
{
    int64_t n = x->g->member_count, count = 0;
    mf_subtree unused[MF_FRONTIER_MAX];
    for (int64_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && x->g->owners[to] == process;)
            to++;
        count += mf_frontier(n, from, to, out ? out + count : unused);
        to += to == from;
    }
    return count;
}

/* Pairs of a ppermute from one process to another, each once: calls visit(context, number, source, target) (NULL: nobody). How many. */
static int64_t pairs_between(const mf_exchange *x, const mf_eqn *e, int from, int to,
                             void (*visit)(void *context, int64_t number, int64_t source), void *context)
{
    const mf_permute_params *p = e->params;
    int64_t n = x->g->member_count, count = 0;
    for (int i = 0; p->perm && i + 1 < p->perm->count; i += 2) {
        int64_t source = p->perm->at[i], target = p->perm->at[i + 1];
        bool inside = source >= 0 && source < n && target >= 0 && target < n;
        if (!inside || x->g->owners[source] != from || x->g->owners[target] != to)
            continue;
        if (visit)
            visit(context, count, source);
        count++;
    }
    return count;
}

/* Bytes of result k in the part that `from` sends to `to`. */
static int64_t chunk_bytes(const mf_exchange *x, int k, int from, int to)
{
    const mf_eqn *e = eqn_of(x, k);
    int64_t bytes = e->in[0]->type->bytes;
    if (reduces(e))
        return frontier_of(x, from, NULL) * partial_bytes(e);
    if (e->op == &mf_op_all_to_all)
        return count_of(x, from) * count_of(x, to) * (bytes / x->g->member_count);
    return (e->op == &mf_op_ppermute ? pairs_between(x, e, from, to, NULL, NULL) : count_of(x, from)) * bytes;
}

/* Where result k begins in its part; k the number of results: how long the part is. */
static int64_t chunk_offset(const mf_exchange *x, int part, int k, int from, int to)
{
    int64_t at = 0;
    for (int i = 0; i < k; i++)
        if (part_of(eqn_of(x, i)) == part)
            at += (chunk_bytes(x, i, from, to) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

/* ------------------------------------------------------------------ contribute */

static const void *operand(const mf_exchange *x, int k, int64_t rank) { return x->g->members[rank].in[k].data; }

/* The members' operands of a subtree, reduced. */
static bool reduce_subtree(const mf_exchange *x, int k, mf_subtree t, void *out)
{
    const mf_eqn *e = eqn_of(x, k);
    const mf_type *type = e->in[0]->type;
    mf_dtype wide = partial_dtype(e);
    int64_t bytes = partial_bytes(e);
    const void **members = mf_alloc((size_t)t.count * sizeof *members);
    mf_register converted = { 0 };
    bool made = members && (wide == type->dtype || mf_register_new(&converted, t.count * bytes));
    for (int64_t i = 0; made && i < t.count; i++) {
        members[i] = operand(x, k, t.first + i);
        if (!converted.data)
            continue;
        mf_convert(wide, converted.data + i * bytes, type->dtype, members[i], type->size);
        members[i] = converted.data + i * bytes;
    }
    made = made && mf_collective_reduce_as(x->compiler, e, wide, members, t.count, out);
    mf_register_release(&converted);
    mf_free(members);
    return made;
}

static bool put_reduction(const mf_exchange *x, int k, unsigned char *to)
{
    int64_t count = frontier_of(x, x->s->comm->rank, NULL), bytes = partial_bytes(eqn_of(x, k));
    mf_subtree *frontier = mf_alloc((size_t)count * sizeof *frontier + 1);
    bool made = frontier;
    if (made)
        frontier_of(x, x->s->comm->rank, frontier);
    for (int64_t i = 0; made && i < count; i++)
        made = reduce_subtree(x, k, frontier[i], to + i * bytes);
    mf_free(frontier);
    return made;
}

static void put_operands(const mf_exchange *x, int k, unsigned char *to)
{
    int64_t bytes = eqn_of(x, k)->in[0]->type->bytes;
    for (int64_t i = 0; i < x->g->member_count; i++)
        if (x->g->owners[i] == x->s->comm->rank) {
            memcpy(to, operand(x, k, i), (size_t)bytes);
            to += bytes;
        }
}

static void put_pieces(const mf_exchange *x, int k, int process, unsigned char *to)
{
    const mf_eqn *e = eqn_of(x, k);
    mf_pieces p = mf_all_to_all_pieces(e, x->g->member_count);
    for (int64_t s = 0; s < x->g->member_count; s++)
        for (int64_t r = 0; r < x->g->member_count && x->g->owners[s] == x->s->comm->rank; r++)
            if (x->g->owners[r] == process) {
                mf_copy_strided(p.rank, p.dims, mf_dtype_size(e->in[0]->type->dtype), to, p.packed,
                                (const char *)operand(x, k, s) + r * p.split, p.from);
                to += p.bytes;
            }
}

typedef struct sending {
    const mf_exchange *x;
    int k;
    unsigned char *to;
} sending;

static void put_pair(void *context, int64_t number, int64_t source)
{
    const sending *s = context;
    int64_t bytes = eqn_of(s->x, s->k)->in[0]->type->bytes;
    memcpy(s->to + number * bytes, operand(s->x, s->k, source), (size_t)bytes);
}

/* The part for `process` (of what is for everybody, for any). */
static bool contribute(const mf_exchange *x, int part, int process, mf_register *out)
{
    int own = x->s->comm->rank;
    bool made = mf_register_new(out, chunk_offset(x, part, result_count(x), own, process));
    for (int k = 0; made && k < result_count(x); k++) {
        const mf_eqn *e = eqn_of(x, k);
        if (part_of(e) != part)
            continue;
        sending s = { x, k, out->data + chunk_offset(x, part, k, own, process) };
        if (reduces(e))
            made = put_reduction(x, k, s.to);
        else if (e->op == &mf_op_all_to_all)
            put_pieces(x, k, process, s.to);
        else if (e->op == &mf_op_ppermute)
            pairs_between(x, e, own, process, put_pair, &s);
        else
            put_operands(x, k, s.to);
    }
    return made;
}

/* ------------------------------------------------------------------ exchange */

static void free_exchange(mf_exchange *x)
{
    for (int i = 0; i < x->peer_count; i++) {
        mf_register_release(&x->peers[i].out[OWN]);
        for (int part = 0; part < PARTS; part++)
            mf_register_release(&x->peers[i].in[part]);
    }
    mf_register_release(&x->shared);
    mf_free(x->peers);
    mf_free(x);
}

static peer *peer_of(const mf_exchange *x, int process)
{
    int i = 0;
    while (x->peers[i].process != process)
        i++;
    return &x->peers[i];
}

static bool find_peers(mf_exchange *x)
{
    const mf_rendezvous *g = x->g;
    struct {
        int count, capacity;
        peer *at;
    } list = { 0 };
    bool made = true;
    for (int64_t i = 0; i < g->member_count && made; i++) {
        bool known = g->owners[i] == x->s->comm->rank;
        for (int k = 0; k < list.count && !known; k++)
            known = list.at[k].process == g->owners[i];
        made = known || mf_vector_push(&list, (peer){ .process = g->owners[i] });
    }
    x->peers = list.at;
    x->peer_count = list.count;
    return made;
}

/* All memory of the exchange, with what is sent in it. */
static bool prepare(mf_exchange *x)
{
    int own = x->s->comm->rank, results = result_count(x);
    bool made = find_peers(x) && contribute(x, SHARED, own, &x->shared);
    for (int i = 0; i < x->peer_count && made; i++) {
        peer *p = &x->peers[i];
        for (int part = 0; part < PARTS && made; part++) {
            p->out_bytes[part] = chunk_offset(x, part, results, own, p->process);
            p->in_bytes[part] = chunk_offset(x, part, results, p->process, own);
            made = mf_register_new(&p->in[part], p->in_bytes[part]);
        }
        made = made && contribute(x, OWN, p->process, &p->out[OWN]);
    }
    return made;
}

static void message_done(void *context, mf_error_object *error)
{
    mf_exchange *x = context;
    mf_error_object *none = NULL;
    if (error && !atomic_compare_exchange_strong(&x->error, &none, error))
        mf_error_ignore(error);
    if (atomic_fetch_sub(&x->pending, 1) == 1)
        mf_ready(x->s, &x->fiber);
}

/* The rendezvous among all of a run: its map knows it by its key, and that map by the iterations and indices around it. */
static uint64_t place_of(const mf_rendezvous *g, int part)
{
    bool grouped = g->instr->participants->groups; /* without, it is the first group: so programs that differ in this find each other */
    uint64_t place = mf_hash_mix((uint64_t)g->instr->participants->ordinal, (uint64_t)part);
    place = mf_hash(g->key, (size_t)(g->key_count - grouped) * sizeof *g->key, place);
    place = mf_hash_mix(place, grouped ? (uint64_t)g->key[g->key_count - 1] : 0);
    for (const mf_fiber *f = g->top->parent; f; f = f->map ? f->map->parent : NULL) {
        for (const mf_frame *frame = f->top; frame; frame = frame->below)
            place = mf_hash_mix(place, (uint64_t)frame->iteration);
        place = mf_hash_mix(place, f->map ? (uint64_t)mf_map_index(f->map->plan, f->index) : 0);
    }
    return place;
}

/* What the program says about a collective: the same in every process that runs it. */
static uint64_t check_of(const mf_rendezvous *g)
{
    const mf_participants *m = g->instr->participants;
    uint64_t check = mf_hash_mix((uint64_t)g->instr->out_count, (uint64_t)g->member_count);
    for (int k = 0; k < g->instr->out_count; k++) {
        const mf_eqn *e = m->eqns[k];
        const mf_type *t = e->in[0]->type;
        check = mf_hash(e->op->name, strlen(e->op->name), check);
        check = mf_hash(t->dims, (size_t)t->rank * sizeof *t->dims, mf_hash_mix(check, (uint64_t)t->dtype));
        check = mf_hash_mix(check, mf_params_hash(e->op, e->params));
    }
    return check;
}

/* Receipts first: what comes finds its place. The caller counts as one of those pending. */
static void post(mf_exchange *x)
{
    mf_comm *c = x->s->comm;
    uint64_t check = check_of(x->g), place[PARTS] = { place_of(x->g, SHARED), place_of(x->g, OWN) };
    int total = 1;
    for (int i = 0; i < x->peer_count; i++)
        for (int part = 0; part < PARTS; part++)
            total += (x->peers[i].in_bytes[part] > 0) + (x->peers[i].out_bytes[part] > 0);
    atomic_store(&x->pending, total);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->peer_count; i++)
            for (int part = 0; part < PARTS; part++) {
                peer *p = &x->peers[i];
                mf_message_tag tag = { x->s->call, place[part], check };
                const mf_register *out = part == SHARED ? &x->shared : &p->out[part];
                if (!pass && p->in_bytes[part])
                    c->receive(c, p->process, &tag, p->in[part].data, (size_t)p->in_bytes[part], message_done, x);
                if (pass && p->out_bytes[part])
                    c->send(c, p->process, &tag, out->data, (size_t)p->out_bytes[part], message_done, x);
            }
    message_done(x, NULL);
}

bool mf_exchange_begin(mf_run_state *s, mf_rendezvous *g)
{
    mf_exchange *x = mf_calloc(1, sizeof *x);
    if (x) {
        x->s = s;
        x->g = g;
        x->compiler = mf_executable_compiler(s->executable);
        x->fiber = (mf_fiber){ .stage = s, .exchange = x };
    }
    if (x && prepare(x)) {
        post(x);
        return true;
    }
    if (x)
        free_exchange(x);
    mf_run_state_fail(s, mf_error_out_of_memory());
    return false;
}

void mf_exchange_end(mf_exchange *x)
{
    mf_run_state *s = x->s;
    mf_rendezvous *g = x->g;
    mf_map *waiting = g->instr->participants->detached ? g->top : NULL;
    mf_error_object *error = atomic_load(&x->error);
    if (error && g->instr->eqn->address)
        mf_error_set_address(error, g->instr->eqn->address);
    if (error)
        mf_run_state_fail(s, error);
    bool made = false;
    if (!atomic_load_explicit(&s->failed, memory_order_acquire)) {
        made = mf_rendezvous_complete(s, g, x, NULL);
    } else {
        mf_run_state_lock(s);
        mf_rendezvous_free(s, g);
        mf_run_state_unlock(s);
    }
    free_exchange(x);
    if (!made || !waiting) {
        mf_run_state_leave(s);
        return;
    }
    mf_run_state_lock(s);
    mf_map_leave(s, waiting);
}

/* ------------------------------------------------------------------ deliver */

static unsigned char *chunk_from(const mf_exchange *x, int k, int process)
{
    int part = part_of(eqn_of(x, k));
    int64_t at = chunk_offset(x, part, k, process, x->s->comm->rank);
    return (process == x->s->comm->rank ? x->shared.data : peer_of(x, process)->in[part].data) + at;
}

typedef struct receiving {
    const void **from;
    const unsigned char *at;
    int64_t bytes;
} receiving;

static void take_pair(void *context, int64_t number, int64_t source)
{
    const receiving *r = context;
    r->from[source] = r->at + number * r->bytes;
}

void mf_exchange_operands(const mf_exchange *x, int k, const void **from)
{
    const mf_eqn *e = eqn_of(x, k);
    if (reduces(e) || e->op == &mf_op_all_to_all)
        return;
    for (int i = 0; i < x->peer_count; i++) {
        int process = x->peers[i].process;
        receiving r = { from, chunk_from(x, k, process), e->in[0]->type->bytes };
        if (e->op == &mf_op_ppermute)
            pairs_between(x, e, process, x->s->comm->rank, take_pair, &r);
        for (int64_t rank = 0; rank < x->g->member_count && e->op != &mf_op_ppermute; rank++)
            if (x->g->owners[rank] == process) {
                from[rank] = r.at;
                r.at += r.bytes;
            }
    }
}

void mf_exchange_hold(const mf_exchange *x, int k, int64_t rank, const void *operand, mf_register *to)
{
    const mf_register *in = &peer_of(x, x->g->owners[rank])->in[part_of(eqn_of(x, k))];
    mf_register_view(to, in, (const unsigned char *)operand - in->data);
}

const void *mf_exchange_piece(const mf_exchange *x, int k, int64_t s, int64_t r)
{
    int64_t before_s = 0, before_r = 0, bytes = eqn_of(x, k)->in[0]->type->bytes / x->g->member_count;
    for (int64_t i = 0; i < s; i++)
        before_s += x->g->owners[i] == x->g->owners[s];
    for (int64_t i = 0; i < r; i++)
        before_r += x->g->owners[i] == x->s->comm->rank;
    return chunk_from(x, k, x->g->owners[s]) + (before_s * count_of(x, x->s->comm->rank) + before_r) * bytes;
}

typedef struct combining {
    const mf_exchange *x;
    const mf_eqn *e;
    unsigned char **at; /* by position */
    bool made;
} combining;

static void combine(void *context, int into, int from)
{
    combining *c = context;
    const void *both[2] = { c->at[into], c->at[from] };
    c->made = c->made && mf_collective_reduce_as(c->x->compiler, c->e, partial_dtype(c->e), both, 2, c->at[into]);
}

static int by_first_rank(const void *a, const void *b)
{
    int64_t x = ((const mf_subtree *)a)->first, y = ((const mf_subtree *)b)->first;
    return (x > y) - (x < y);
}

/* All frontiers, from left to right. */
static bool list_partials(const mf_exchange *x, int k, int64_t count, mf_subtree *parts, unsigned char **at)
{
    int64_t bytes = partial_bytes(eqn_of(x, k)), next = 0;
    mf_subtree *own = mf_alloc((size_t)count * sizeof *own);
    for (int i = -1; own && i < x->peer_count; i++)
        next += frontier_of(x, i < 0 ? x->s->comm->rank : x->peers[i].process, parts + next);
    if (own)
        qsort(parts, (size_t)count, sizeof *parts, by_first_rank);
    for (int i = -1; own && i < x->peer_count; i++) {
        int process = i < 0 ? x->s->comm->rank : x->peers[i].process;
        int64_t n = frontier_of(x, process, own), found = 0;
        for (int64_t p = 0; p < count && found < n; p++)
            if (parts[p].first == own[found].first)
                at[p] = chunk_from(x, k, process) + found++ * bytes;
    }
    mf_free(own);
    return own;
}

bool mf_exchange_reduce(const mf_exchange *x, int k, void *out)
{
    const mf_eqn *e = eqn_of(x, k);
    const mf_type *type = e->in[0]->type;
    int64_t count = frontier_of(x, x->s->comm->rank, NULL);
    for (int i = 0; i < x->peer_count; i++)
        count += frontier_of(x, x->peers[i].process, NULL);
    mf_subtree *parts = mf_alloc((size_t)count * sizeof *parts);
    combining c = { x, e, mf_alloc((size_t)count * sizeof *c.at), true };
    bool made = parts && c.at && list_partials(x, k, count, parts, c.at) &&
                mf_frontier_combine(x->g->member_count, parts, (int)count, combine, &c) && c.made;
    if (made)
        mf_convert(type->dtype, out, partial_dtype(e), c.at[0], type->size);
    mf_free(parts);
    mf_free(c.at);
    return made;
}
