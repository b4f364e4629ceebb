/* Exchanges: a rendezvous whose members are in several processes. Each process contributes what it can compute alone and sends it to every
 * other one that has members; when all has come, a fiber that does nothing else delivers.
 *
 * A contribution has three parts, of which each may be empty: what is the same for everybody - of a reduction the frontier of this
 * process's ranks (frontier.h), of what is gathered or compared whole operands -, what one process alone wants - pieces of an
 * all_to_all, operands of a ppermute -, and the frontiers of large reductions, of which each process gets its piece (pieces.c). In each,
 * the results' chunks follow one another, and the chunks' contents go by rank.
 * Invariants: who has which rank is known to all, so both ends know the size of each message; sums of 16-bit floats travel in f32 and
 * are rounded once, at the end; the exchange counts as active until its fiber has delivered. */
#include "runtime/collectives/exchange.h"
#include "runtime/collectives/relay.h"

#include "base/text/place.h"
#include "base/vector.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64 /* of chunks */
enum { FEW = 32 };   /* partial results, as a rule */

/* ------------------------------------------------------------------ what a process contributes */

bool mf_reduces(const mf_eqn *e)
{
    mf_collective_kind kind = e->op->collective;
    return kind == MF_COLLECTIVE_REDUCE || kind == MF_COLLECTIVE_SCATTER;
}

static int part_of(const mf_exchange *x, int k)
{
    mf_collective_kind kind = mf_exchange_eqn(x, k)->op->collective;
    return kind == MF_COLLECTIVE_ALL_TO_ALL || kind == MF_COLLECTIVE_PERMUTE ? MF_PART_OWN
           : mf_relayed(x, k)                                                ? MF_PART_RELAY
           : mf_in_pieces(x, k)                                              ? MF_PART_PIECES
                                                                             : MF_PART_SHARED;
}

mf_dtype mf_partial_dtype(const mf_eqn *e)
{
    mf_dtype dtype = e->in[0]->type->dtype;
    bool sum = e->op->reducer == MF_REDUCE_SUM;
    return sum && (dtype == MF_F16 || dtype == MF_BF16) ? MF_F32 : dtype;
}

int64_t mf_partial_bytes(const mf_eqn *e) { return e->in[0]->type->size * mf_dtype_size(mf_partial_dtype(e)); }

static const mf_exchange_pair *pairs_of(const mf_exchange *x, int k) { return x->exchanged + k * x->g->here_count; }

/* What a ppermute moves from one process to another, of which one is this. */
static int64_t pairs_between(const mf_exchange *x, int k, const mf_exchange_peer *from, const mf_exchange_peer *to)
{
    const mf_exchange_pair *pairs = pairs_of(x, k);
    int64_t count = 0;
    for (int64_t i = 0; i < x->g->here_count; i++)
        count += from == x->sources ? pairs[i].to == (int)(to - x->sources) : pairs[i].from == (int)(from - x->sources);
    return count;
}

/* Bytes of result k in the part that `from` sends to `to`. */
static int64_t chunk_bytes(const mf_exchange *x, int k, const mf_exchange_peer *from, const mf_exchange_peer *to)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    int64_t bytes = e->in[0]->type->bytes;
    switch (e->op->collective) {
    case MF_COLLECTIVE_REDUCE:
    case MF_COLLECTIVE_SCATTER: return from->frontier_count * mf_partial_bytes(e);
    case MF_COLLECTIVE_ALL_TO_ALL: return from->rank_count * to->rank_count * (bytes / x->g->member_count);
    case MF_COLLECTIVE_PERMUTE: return pairs_between(x, k, from, to) * bytes;
    default: return from->rank_count * bytes;
    }
}

/* The results' chunks one after the other: where each begins, and how long the parts are. */
static void lay_out(const mf_exchange *x, const mf_exchange_peer *from, const mf_exchange_peer *to, int64_t *offsets, int64_t *bytes)
{
    memset(bytes, 0, MF_PARTS * sizeof *bytes);
    for (int k = 0; k < x->out_count; k++) {
        int part = part_of(x, k);
        if (part >= MF_PARTS) /* they see to their memory themselves */
            continue;
        offsets[k] = bytes[part];
        bytes[part] += (chunk_bytes(x, k, from, to) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if (x->sums && !bytes[MF_PART_SHARED] && !mf_pieces_lead(x))
        bytes[MF_PART_SHARED] = ALIGNMENT; /* one message, by which whoever computes something else sees ours (mf_pieces_lead) */
}

/* ------------------------------------------------------------------ contribute */

bool mf_reduce_subtree(const mf_exchange *x, int k, mf_subtree t, int64_t first, int64_t count, void *out)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    const mf_type *type = e->in[0]->type;
    mf_dtype wide = mf_partial_dtype(e);
    int64_t bytes = count * mf_dtype_size(wide);
    MF_SMALL_ARRAY(const void *, members, FEW, t.count);
    mf_register converted = { 0 };
    const mf_participant *at = mf_rendezvous_member(x->g, t.first); /* the others follow */
    bool made = members && (wide == type->dtype || mf_register_new(&converted, t.count * bytes));
    for (int64_t i = 0; made && i < t.count; i++) {
        members[i] = (const char *)at[i].in[k].data + first * mf_dtype_size(type->dtype);
        if (!converted.data)
            continue;
        mf_convert(wide, converted.data + i * bytes, type->dtype, members[i], count);
        members[i] = converted.data + i * bytes;
    }
    made = made && mf_collective_reduce(x->compiler, e, wide, members, t.count, count, out);
    mf_register_release(&converted);
    return made;
}

static bool put_reduction(const mf_exchange *x, int k, unsigned char *to)
{
    const mf_exchange_peer *own = &x->sources[0];
    const mf_eqn *e = mf_exchange_eqn(x, k);
    bool made = true;
    for (int64_t i = 0; made && i < own->frontier_count; i++)
        made = mf_reduce_subtree(x, k, own->frontier[i], 0, e->in[0]->type->size, to + i * mf_partial_bytes(e));
    return made;
}

static void put_operands(const mf_exchange *x, int k, unsigned char *to)
{
    int64_t bytes = mf_exchange_eqn(x, k)->in[0]->type->bytes;
    for (int64_t i = 0; i < x->g->here_count; i++, to += bytes)
        memcpy(to, x->g->members[i].in[k].data, (size_t)bytes);
}

static void put_pieces(const mf_exchange *x, int k, const mf_exchange_peer *peer, unsigned char *to)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    mf_pieces p = mf_all_to_all_pieces(e, x->g->member_count);
    for (const mf_participant *m = x->g->members; m < x->g->members + x->g->here_count; m++)
        for (const mf_rank_run *run = peer->runs; run < peer->runs + peer->run_count; run++)
            for (int64_t r = run->first; r < run->end; r++, to += p.bytes)
                mf_copy_strided(p.rank, p.dims, mf_dtype_size(e->in[0]->type->dtype), to, p.packed, m->in[k].data + r * p.split, p.from);
}

static void put_pairs(const mf_exchange *x, int k, const mf_exchange_peer *peer, unsigned char *to)
{
    int64_t bytes = mf_exchange_eqn(x, k)->in[0]->type->bytes;
    for (int64_t i = 0; i < x->g->here_count; i++)
        if (pairs_of(x, k)[i].to == (int)(peer - x->sources)) {
            memcpy(to, x->g->members[i].in[k].data, (size_t)bytes);
            to += bytes;
        }
}

/* A part of what goes to a peer (of what is for everybody, to any), laid out so. */
static bool contribute(const mf_exchange *x, int part, const mf_exchange_peer *peer, const int64_t *offsets, int64_t bytes,
                       mf_register *out)
{
    bool made = out->data || mf_register_new_shared(out, bytes); /* a kept one has its memory */
    if (made && bytes)
        memset(out->data, 0, ALIGNMENT); /* there may be nothing to put */
    for (int k = 0; made && k < x->out_count; k++) {
        const mf_eqn *e = mf_exchange_eqn(x, k);
        if (part_of(x, k) != part)
            continue;
        unsigned char *to = out->data + offsets[k];
        switch (e->op->collective) {
        case MF_COLLECTIVE_REDUCE:
        case MF_COLLECTIVE_SCATTER: made = put_reduction(x, k, to); break;
        case MF_COLLECTIVE_ALL_TO_ALL: put_pieces(x, k, peer, to); break;
        case MF_COLLECTIVE_PERMUTE: put_pairs(x, k, peer, to); break;
        default: put_operands(x, k, to); break;
        }
    }
    return made;
}

/* ------------------------------------------------------------------ exchange */

static void free_exchange(mf_exchange *x)
{
    for (int i = 0; i < x->source_count; i++) {
        mf_exchange_peer *from = &x->sources[i];
        for (int part = 0; part < MF_PARTS; part++)
            mf_register_release(&from->data[part]);
        mf_register_release(&from->out);
        mf_free(from->frontier);
        mf_free(from->offsets);
    }
    mf_pieces_free(x);
    mf_relay_free(x->relay);
    mf_free(x->sources);
    mf_free(x->runs);
    mf_free(x->exchanged);
    if (x->own) {
        mf_ownership_free(&x->own->owners);
        mf_free(x->own);
    }
    mf_free(x);
}

/* Whether only pairs exchange something: then others than a process's own partners are nothing to it. */
static bool only_permutes(const mf_exchange *x)
{
    for (int k = 0; k < x->out_count; k++)
        if (mf_exchange_eqn(x, k)->op->collective != MF_COLLECTIVE_PERMUTE)
            return false;
    return true;
}

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Which processes take part: their numbers, ascending, each once; in *count how many. NULL: memory is out. */
static int *find_processes(const mf_exchange *x, int64_t *count)
{
    const mf_rendezvous *g = x->g;
    const mf_ownership *o = &g->owners;
    int64_t most = 1 + (x->pairs ? 2 * g->here_count * x->out_count : o->runs), found = 1, unique = 0;
    int *list = mf_alloc((size_t)most * sizeof *list);
    if (!list)
        return NULL;
    list[0] = x->s->comm->rank;
    for (int64_t run = 0; run < o->runs && !x->pairs; run++)
        list[found++] = mf_ownership_process(o, run);
    for (int k = 0; k < x->out_count && x->pairs; k++)
        for (int64_t i = 0; i < g->here_count; i++) {
            const mf_permutation *p = &g->instr->participants->permutations[k];
            int ranks[2] = { p->sources[g->members[i].rank], p->targets[g->members[i].rank] };
            for (int side = 0; side < 2; side++)
                if (ranks[side] >= 0)
                    list[found++] = mf_ownership_process(o, mf_ownership_run_of(o, ranks[side]));
        }
    qsort(list, (size_t)found, sizeof *list, by_number);
    for (int64_t i = 0; i < found; i++)
        if (!i || list[i] != list[unique - 1])
            list[unique++] = list[i];
    *count = unique;
    return list;
}

/* This process first, then the others around the circle. */
static bool number_sources(mf_exchange *x)
{
    int64_t count, own = 0;
    int *list = find_processes(x, &count);
    x->sources = list ? mf_calloc((size_t)count, sizeof *x->sources) : NULL;
    if (x->sources) {
        while (list[own] != x->s->comm->rank)
            own++;
        x->source_count = (int)count;
        for (int64_t i = 0; i < count; i++)
            x->sources[i] = (mf_exchange_peer){ .process = list[(own + i) % count], .nth = (int)((own + i) % count) };
    }
    mf_free(list);
    return x->sources;
}

/* The number of a process among the sources, of which it is one. */
static int source_of(const mf_exchange *x, int process)
{
    int size = x->s->comm->size, own = x->sources->process, low = 0, high = x->source_count;
    int distance = (process - own + size) % size;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        *(distance < (x->sources[middle].process - own + size) % size ? &high : &low) = middle;
    }
    return low;
}

static int source_of_rank(const mf_exchange *x, int64_t rank)
{
    const mf_ownership *o = &x->g->owners;
    return source_of(x, mf_ownership_process(o, mf_ownership_run_of(o, rank)));
}

/* Each source's runs of ranks, one list behind the other. */
static bool list_runs(mf_exchange *x)
{
    const mf_ownership *o = &x->g->owners;
    mf_rank_run *list = x->runs = mf_alloc((size_t)o->runs * sizeof *list);
    if (!list)
        return false;
    for (int64_t i = 0; i < o->runs; i++)
        x->sources[source_of(x, mf_ownership_process(o, i))].run_count++;
    for (int s = 0; s < x->source_count; list += x->sources[s].run_count, x->sources[s++].run_count = 0)
        x->sources[s].runs = list;
    for (int64_t i = 0; i < o->runs; i++) {
        mf_exchange_peer *owner = &x->sources[source_of(x, mf_ownership_process(o, i))];
        mf_rank_run run = { mf_ownership_first(o, i), mf_ownership_first(o, i + 1), owner->rank_count };
        owner->runs[owner->run_count++] = run;
        owner->rank_count += run.end - run.first;
    }
    return true;
}

/* Among the ranks of its process. */
static int64_t position_of(const mf_exchange_peer *owner, int64_t rank)
{
    int64_t low = 0, high = owner->run_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(rank < owner->runs[middle].first ? &high : &low) = middle;
    }
    return owner->runs[low].before + rank - owner->runs[low].first;
}

/* Of one source's ranks. */
static bool find_frontier(const mf_exchange *x, mf_exchange_peer *of)
{
    mf_subtree nodes[MF_FRONTIER_MAX];
    int64_t n = x->g->member_count, count = 0;
    for (int64_t i = 0; i < of->run_count; i++)
        count += mf_frontier(n, of->runs[i].first, of->runs[i].end, nodes);
    of->frontier = mf_alloc((size_t)count * sizeof *of->frontier);
    for (int64_t i = 0; i < of->run_count && of->frontier; i++)
        of->frontier_count += mf_frontier(n, of->runs[i].first, of->runs[i].end, of->frontier + of->frontier_count);
    return of->frontier;
}

/* What comes from a process is in the order of its ranks. */
static void number_pairs(const mf_exchange *x, int k)
{
    const mf_rendezvous *g = x->g;
    const mf_permutation *p = &g->instr->participants->permutations[k];
    mf_exchange_pair *pairs = x->exchanged + k * g->here_count;
    for (int64_t i = 0; i < g->here_count; i++) {
        int source = p->sources[g->members[i].rank], target = p->targets[g->members[i].rank];
        int from = source < 0 ? 0 : source_of_rank(x, source), to = target < 0 ? 0 : source_of_rank(x, target);
        pairs[i] = (mf_exchange_pair){ to ? to : -1, from ? from : -1, 0 };
        for (int64_t j = 0; j < i && from; j++)
            if (pairs[j].from == from) {
                int64_t other = p->sources[g->members[j].rank];
                pairs[other < source ? i : j].number++;
            }
    }
}

static bool find_pairs(mf_exchange *x)
{
    bool any = false;
    for (int k = 0; k < x->out_count; k++)
        any |= mf_exchange_eqn(x, k)->op->collective == MF_COLLECTIVE_PERMUTE;
    if (any && !(x->exchanged = mf_alloc((size_t)(x->out_count * x->g->here_count) * sizeof *x->exchanged)))
        return false;
    for (int k = 0; k < x->out_count; k++)
        if (mf_exchange_eqn(x, k)->op->collective == MF_COLLECTIVE_PERMUTE)
            number_pairs(x, k);
    return true;
}

/* Who takes part. */
static bool find_sources(mf_exchange *x)
{
    x->pairs = only_permutes(x);
    bool made = number_sources(x) && find_pairs(x) && (x->pairs || list_runs(x));
    for (int i = 0; i < x->source_count && made; i++) {
        mf_exchange_peer *from = &x->sources[i];
        made = (from->offsets = mf_alloc((size_t)x->out_count * sizeof *from->offsets)) && (x->pairs || find_frontier(x, from));
    }
    return made;
}

static bool all_relayed(const mf_exchange *x)
{
    for (int k = 0; k < x->out_count; k++)
        if (!mf_relayed(x, k))
            return false;
    return true;
}

/* All memory of the exchange, with what is sent in it. */
static bool prepare(mf_exchange *x)
{
    int64_t bytes[MF_PARTS], *offsets = mf_alloc((size_t)x->g->instr->out_count * sizeof *offsets);
    bool made = offsets && mf_relay_prepare(x) && (all_relayed(x) || find_sources(x)) && (x->relay || mf_pieces_prepare(x));
    mf_exchange_peer *own = x->sources;
    if (made && own) {
        lay_out(x, own, own, own->offsets, own->bytes);
        for (int part = 0; part < MF_PARTS && made; part++)
            made = part == MF_PART_OWN || contribute(x, part, own, own->offsets, own->bytes[part], &own->data[part]);
    }
    for (int i = 1; i < x->source_count && made; i++) {
        mf_exchange_peer *peer = &x->sources[i];
        lay_out(x, peer, own, peer->offsets, peer->bytes);
        lay_out(x, own, peer, offsets, bytes);
        for (int part = 0; part < MF_PARTS && made; part++)
            made = mf_register_new(&peer->data[part], peer->bytes[part]);
        made = made && contribute(x, MF_PART_OWN, peer, offsets, bytes[MF_PART_OWN], &peer->out);
        peer->out_bytes = bytes[MF_PART_OWN];
    }
    mf_free(offsets);
    if (made)
        x->first_messages = x->relay ? mf_relay_messages(x) : 0;
    return made && x->first_messages >= 0;
}

/* ------------------------------------------------------------------ kept for the next run */

/* A map in lockstep that spans processes meets the same members at the same place in every run, so what is known of them, and the memory
 * of what is sent, stay with the stage: a small call is mostly that. */
static bool keep(mf_exchange *x)
{
    if (!x->own || x->relay || x->sums)
        return false;
    mf_run_state_lock(x->s);
    x->next = x->s->kept;
    x->s->kept = x;
    mf_run_state_unlock(x->s);
    return true;
}

static bool still_fits(const mf_exchange *x, const mf_run_state *s)
{
    return x->comm == s->comm && x->pieces_from == atomic_load_explicit(&mf_pieces_from, memory_order_relaxed) &&
           x->way == atomic_load_explicit(&mf_way_forced, memory_order_relaxed);
}

mf_rendezvous *mf_exchange_take_kept(mf_run_state *s, const mf_instr *in)
{
    mf_run_state_lock(s);
    mf_exchange **at = &s->kept;
    while (*at && (*at)->own->instr != in)
        at = &(*at)->next;
    mf_exchange *x = *at;
    if (x)
        *at = x->next;
    mf_run_state_unlock(s);
    if (!x || still_fits(x, s))
        return x ? x->own : NULL;
    free_exchange(x);
    return NULL;
}

void mf_exchanges_free(mf_run_state *s)
{
    for (mf_exchange *next; s->kept; s->kept = next) {
        next = s->kept->next;
        free_exchange(s->kept);
    }
}

/* ------------------------------------------------------------------ under way */

static void end_one(mf_exchange *x)
{
    if (atomic_fetch_sub(&x->pending, 1) > 1)
        return;
    atomic_fetch_sub(&x->s->exchanges, 1);
    mf_ready(x->s, &x->fiber);
}

void mf_message_ended(void *context, mf_error_object *error)
{
    mf_exchange *x = context;
    mf_error_object *none = NULL;
    if (error && !atomic_compare_exchange_strong(&x->error, &none, error))
        mf_error_ignore(error);
    atomic_fetch_sub(&x->s->messages, 1);
    if (error && x->blocks)
        mf_pieces_wake(x);
    end_one(x);
}

void mf_exchange_expect(mf_exchange *x, int messages)
{
    atomic_fetch_add(&x->s->begun, 1);
    atomic_fetch_add(&x->s->messages, messages);
    atomic_store(&x->pending, messages + 1);
}

void mf_exchange_expect_one_more(mf_exchange *x)
{
    atomic_fetch_add(&x->s->begun, 1);
    atomic_fetch_add(&x->s->messages, 1);
    atomic_fetch_add(&x->pending, 1);
}

void mf_exchange_posted(mf_exchange *x)
{
    atomic_fetch_add(&x->s->exchanges, 1);
    end_one(x);
}

bool mf_run_rests(void *run, int exchanges, int messages, uint64_t *version)
{
    mf_run_state *s = run;
    if (mf_run_state_attended(s)) /* which no other thread may look at, and it is for a moment */
        return false;
    mf_run_state_lock(s);
    bool rests = s->active == exchanges && atomic_load(&s->exchanges) == exchanges && atomic_load(&s->messages) == messages;
    *version = atomic_load(&s->begun);
    mf_run_state_unlock(s);
    return rests;
}

/* The rendezvous among all of a run: its map knows it by its key, and that map by the iterations and indices around it. */
static uint64_t place_of(const mf_rendezvous *g)
{
    bool grouped = g->instr->participants->groups; /* without, it is the first group: so programs that differ in this find each other */
    uint64_t place = mf_hash(g->key, (size_t)(g->key_count - grouped) * sizeof *g->key, (uint64_t)g->instr->participants->ordinal);
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
    mf_participants *m = g->instr->participants;
    uint64_t known = atomic_load_explicit(&m->check, memory_order_relaxed);
    if (known)
        return known;
    uint64_t check = mf_hash_mix((uint64_t)g->instr->out_count, (uint64_t)g->member_count);
    for (int k = 0; k < g->instr->out_count; k++) {
        const mf_eqn *e = m->eqns[k];
        const mf_type *t = e->in[0]->type;
        check = mf_hash(e->op->name, strlen(e->op->name), check);
        check = mf_hash(t->dims, (size_t)t->rank * sizeof *t->dims, mf_hash_mix(check, (uint64_t)t->dtype));
        check = mf_hash_mix(check, mf_params_hash(e->op, e->params));
    }
    if (!m->groups) /* else they differ in their numbers of members */
        atomic_store_explicit(&m->check, check, memory_order_relaxed);
    return check;
}

/* Whose it is: "(pmap(f), file:line)", the place encoded. */
static void add_origin(mf_text *t, const mf_executable *of, const void *at)
{
    if (!of->function) {
        mf_place_encode(t, " (", at, ")");
        return;
    }
    mf_text_add(t, " (%.80s", of->function);
    mf_place_encode(t, ", ", at, "");
    mf_text_put(t, ")");
}

/* The same for people: "psum of float32[3] over 'i' (pmap(f), file:line)"; the first few where many travel together. A function of the
 * library is at the line that calls it. */
static const char *words_of(const mf_rendezvous *g, const mf_run_state *s)
{
    mf_participants *m = g->instr->participants;
    const mf_executable *of = s->executable;
    const mf_call_record *call = of->shares_places ? mf_comm_record(s->comm, s->call) : NULL;
    const char *words = of->shares_places ? NULL : atomic_load_explicit(&m->words, memory_order_acquire);
    if (words)
        return words;
    mf_text t = { 0 };
    for (int k = 0; k < g->instr->out_count && k < 3; k++)
        mf_text_add(&t, "%s%s of %.60s", k ? ", " : "", m->eqns[k]->op->name, mf_type_name(m->eqns[k]->in[0]->type));
    mf_text_add(&t, "%s over", g->instr->out_count > 3 ? ", ..." : "");
    for (int a = 0; a < m->axis_count && a < 3; a++)
        mf_text_add(&t, "%s '%.20s'", a ? "," : "", m->axes->at[a]);
    add_origin(&t, of, call ? atomic_load(&call->place) : of->shares_places ? NULL : g->instr->eqn->address);
    words = t.at && !t.failed ? mf_intern(t.at) : NULL;
    mf_text_free(&t);
    if (!of->shares_places)
        atomic_store_explicit(&m->words, words, memory_order_release);
    return words;
}

mf_message_tag mf_exchange_tag(const mf_exchange *x, uint64_t which)
{
    mf_message_tag tag = x->tag;
    tag.place = mf_hash_mix(tag.place, which);
    tag.exchange = x->blocks ? NULL : x; /* in pieces it waits for others first */
    return tag;
}

/* What goes directly in this round; nothing is posted where `really` is false. What the others wait for goes first; receipts are asked for
 * while it travels. How many messages. */
static int post_round(mf_exchange *x, bool really)
{
    mf_comm *c = x->s->comm;
    const mf_exchange_peer *own = x->sources;
    const mf_message_tag tags[] = { mf_exchange_tag(x, MF_PART_SHARED), mf_exchange_tag(x, MF_PART_OWN) };
    mf_span d = mf_round_distances(x->source_count, x->round);
    int count = 0;
    if (x->pairs) /* each process has partners of its own, so no round of theirs would be one of the others' */
        d = (mf_span){ 1, x->round ? 1 : x->source_count };
    for (int64_t i = d.first; i < d.end; i++) {
        const mf_exchange_peer *to = &own[i];
        const mf_register *out[] = { &own->data[MF_PART_SHARED], &to->out };
        int64_t bytes[] = { own->bytes[MF_PART_SHARED], to->out_bytes };
        for (int part = 0; part < MF_PARTS; part++) {
            count += bytes[part] > 0;
            if (bytes[part] && really)
                c->send(c, to->process, &tags[part], out[part]->data, (size_t)bytes[part], mf_message_ended, x);
        }
    }
    for (int64_t i = d.first; i < d.end; i++) {
        const mf_exchange_peer *from = &own[x->source_count - i];
        for (int part = 0; part < MF_PARTS; part++) {
            count += from->bytes[part] > 0;
            if (from->bytes[part] && really)
                c->receive(c, from->process, &tags[part], from->data[part].data, (size_t)from->bytes[part], mf_message_ended, x);
        }
    }
    return count;
}

static void post(mf_exchange *x)
{
    mf_exchange_expect(x, x->first_messages + post_round(x, false));
    post_round(x, true);
    x->round++;
    if (x->relay)
        mf_relay_post(x);
    else
        mf_pieces_post(x);
    mf_exchange_posted(x);
}

/* The next round that has messages is on its way; false: there is none. */
static bool next_round(mf_exchange *x)
{
    int messages = 0;
    for (; 1 + (int64_t)x->round * MF_ROUND_MOST < x->source_count && !(messages = post_round(x, false)); x->round++) {
    }
    if (!messages)
        return false;
    mf_exchange_expect(x, messages);
    post_round(x, true);
    x->round++;
    mf_exchange_posted(x);
    return true;
}

/* NULL: memory is out. */
static mf_exchange *new_exchange(mf_run_state *s, mf_rendezvous *g)
{
    mf_exchange *x = mf_calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->s = s;
    x->g = g;
    x->out_count = g->instr->out_count;
    x->compiler = mf_executable_compiler(s->executable);
    x->comm = s->comm;
    x->pieces_from = atomic_load(&mf_pieces_from);
    x->way = atomic_load(&mf_way_forced);
    if (prepare(x)) {
        x->own = g->lasting ? g : NULL;
        g->exchange = g->lasting ? x : NULL;
        return x;
    }
    free_exchange(x);
    return NULL;
}

/* Whether the fiber at which its map began is in a loop, whose rounds tell its messages apart. */
static bool in_loop(const mf_rendezvous *g)
{
    for (const mf_fiber *f = g->top->parent; f; f = f->map ? f->map->parent : NULL)
        for (const mf_frame *frame = f->top; frame; frame = frame->below)
            if (frame->iteration >= 0)
                return true;
    return false;
}

/* What its messages are known by. A kept one meets the same members at the same place again, and says the same of itself. */
static void name_messages(mf_exchange *x)
{
    const mf_run_state *s = x->s;
    bool same = x->named && !s->executable->shares_places && !in_loop(x->g);
    if (!same)
        x->tag = (mf_message_tag){ 0, place_of(x->g), check_of(x->g), words_of(x->g, s), x->s, x };
    x->named = !in_loop(x->g);
    x->tag.call = s->call;
}

/* A kept one with what is to be sent now. NULL: memory is out, and it is gone, but for its rendezvous. */
static mf_exchange *again(mf_exchange *x)
{
    mf_exchange_peer *own = x->sources;
    if (contribute(x, MF_PART_SHARED, own, own->offsets, own->bytes[MF_PART_SHARED], &own->data[MF_PART_SHARED]))
        return x;
    x->own->exchange = NULL;
    x->own = NULL;
    free_exchange(x);
    return NULL;
}

bool mf_exchange_begin(mf_run_state *s, mf_rendezvous *g)
{
    mf_exchange *x = g->exchange ? again(g->exchange) : new_exchange(s, g);
    if (!x) {
        mf_run_state_fail(s, mf_error_out_of_memory());
        return false;
    }
    x->fiber = (mf_fiber){ .stage = s, .exchange = x };
    x->round = 0;
    name_messages(x);
    post(x);
    return true;
}

/* The next round, or the next step of a relay: 1 when it is on its way, 0 when there is none, -1 when memory is out. */
static int go_on(mf_exchange *x)
{
    if (next_round(x))
        return 1;
    if (!x->relay)
        return 0;
    int messages = mf_relay_arrived(x) ? mf_relay_messages(x) : -1;
    if (messages <= 0)
        return messages;
    mf_exchange_expect(x, messages);
    mf_relay_post(x);
    mf_exchange_posted(x);
    return 1;
}

void mf_exchange_fail(mf_exchange *x)
{
    mf_error_object *error = atomic_exchange(&x->error, NULL);
    if (error && x->g->instr->eqn->address)
        mf_error_set_address(error, x->g->instr->eqn->address);
    if (error)
        mf_run_state_fail(x->s, error);
}

void mf_exchange_end(mf_exchange *x)
{
    if (mf_pieces_wait(x)) {
        mf_pieces_go_on(x);
        return;
    }
    mf_run_state *s = x->s;
    mf_rendezvous *g = x->g;
    mf_map *waiting = g->instr->participants->detached && !g->lockstep ? g->top : NULL;
    mf_fiber *next = g->lockstep ? mf_lockstep_fiber(g->lockstep) : NULL;
    mf_exchange_fail(x);
    bool failed = atomic_load_explicit(&s->failed, memory_order_acquire), made = false;
    if (!failed) {
        int more = go_on(x);
        if (more > 0)
            return;
        if (more < 0)
            mf_run_state_fail(s, mf_error_out_of_memory());
        failed = more < 0;
    }
    if (!failed) {
        made = mf_rendezvous_complete(s, g, x, NULL);
    } else {
        mf_run_state_lock(s);
        mf_rendezvous_free(s, g);
        mf_run_state_unlock(s);
    }
    if (!made || !keep(x))
        free_exchange(x);
    if (made && next) { /* as active as this one was */
        mf_fiber_step(next);
        return;
    }
    if (!made || !waiting) {
        mf_run_state_leave(s);
        return;
    }
    mf_run_state_lock(s);
    mf_map_leave(s, waiting);
}

/* ------------------------------------------------------------------ deliver */

static unsigned char *chunk_from(const mf_exchange *x, int k, const mf_exchange_peer *from)
{
    return from->data[part_of(x, k)].data + from->offsets[k];
}

const void *mf_exchange_operand(const mf_exchange *x, int k, int64_t rank)
{
    if (mf_relayed(x, k))
        return mf_relay_operand(x, k, rank);
    const mf_exchange_peer *from = &x->sources[source_of_rank(x, rank)];
    return chunk_from(x, k, from) + position_of(from, rank) * mf_exchange_eqn(x, k)->in[0]->type->bytes;
}

void mf_exchange_hold(const mf_exchange *x, int k, int64_t target, mf_register *to)
{
    const mf_exchange_pair *pair = &pairs_of(x, k)[mf_rendezvous_member(x->g, target) - x->g->members];
    const mf_exchange_peer *from = &x->sources[pair->from];
    mf_register_view(to, &from->data[part_of(x, k)], from->offsets[k] + pair->number * mf_exchange_eqn(x, k)->in[0]->type->bytes);
}

const void *mf_exchange_piece(const mf_exchange *x, int k, int64_t s, int64_t r)
{
    const mf_exchange_peer *own = x->sources, *from = &own[source_of_rank(x, s)];
    int64_t bytes = mf_exchange_eqn(x, k)->in[0]->type->bytes / x->g->member_count;
    return chunk_from(x, k, from) + (position_of(from, s) * own->rank_count + position_of(own, r)) * bytes;
}

typedef struct combining {
    const mf_exchange *x;
    const mf_eqn *e;
    int64_t count;
    unsigned char **at; /* by position */
    bool made;
} combining;

static void combine(void *context, int into, int from)
{
    combining *c = context;
    const void *both[2] = { c->at[into], c->at[from] };
    c->made = c->made && mf_collective_reduce(c->x->compiler, c->e, mf_partial_dtype(c->e), both, 2, c->count, c->at[into]);
}

typedef struct partial {
    mf_subtree of;
    unsigned char *at;
} partial;

static int by_first_rank(const void *a, const void *b)
{
    int64_t x = ((const partial *)a)->of.first, y = ((const partial *)b)->of.first;
    return (x > y) - (x < y);
}

/* From left to right. */
static void sort(partial *list, int64_t n)
{
    if (n > FEW) /* else a call of a comparison would cost more than the sum */
        qsort(list, (size_t)n, sizeof *list, by_first_rank);
    for (int64_t i = 1; i < n && n <= FEW; i++) {
        partial moved = list[i];
        int64_t to = i;
        for (; to > 0 && list[to - 1].of.first > moved.of.first; to--)
            list[to] = list[to - 1];
        list[to] = moved;
    }
}

bool mf_frontiers_are_level(const mf_exchange *x)
{
    int64_t n = x->g->member_count, each = 1;
    for (int i = 0; i < x->source_count; i++)
        for (int64_t f = 0; f < x->sources[i].frontier_count; f++)
            each = x->sources[i].frontier[f].count > each ? x->sources[i].frontier[f].count : each;
    bool level = (each & (each - 1)) == 0;
    for (int i = 0; i < x->source_count; i++)
        for (int64_t f = 0; f < x->sources[i].frontier_count && level; f++) {
            mf_subtree s = x->sources[i].frontier[f];
            level = s.first % each == 0 && (s.count == each || s.first + s.count == n);
        }
    return level;
}

unsigned char *mf_combine_frontiers(const mf_exchange *x, int k, int64_t count, mf_partial_at at, const void *context, unsigned char *out)
{
    int64_t n = 0, listed = 0;
    for (int i = 0; i < x->source_count; i++)
        n += x->sources[i].frontier_count;
    MF_SMALL_ARRAY(partial, list, FEW, n);
    MF_SMALL_ARRAY(mf_subtree, parts, FEW, n);
    MF_SMALL_ARRAY(unsigned char *, places, FEW, n);
    combining c = { x, mf_exchange_eqn(x, k), count, places, true };
    bool made = list && parts && places;
    for (int i = 0; made && i < x->source_count; i++)
        for (int64_t f = 0; f < x->sources[i].frontier_count; f++)
            list[listed++] = (partial){ x->sources[i].frontier[f], at(context, &x->sources[i], f) };
    if (made)
        sort(list, n);
    for (int64_t i = 0; made && i < n; i++) {
        parts[i] = list[i].of;
        c.at[i] = list[i].at;
    }
    bool at_once = made && mf_frontiers_are_level(x);
    if (at_once)
        made = mf_collective_reduce(x->compiler, c.e, mf_partial_dtype(c.e), (const void **)(void *)c.at, n, count, out);
    else
        made = made && mf_frontier_combine(x->g->member_count, parts, (int)n, combine, &c) && c.made;
    return !made ? NULL : at_once ? out : c.at[0];
}

typedef struct shared_partials {
    const mf_exchange *x;
    int k;
} shared_partials;

static unsigned char *partial_at(const void *context, const mf_exchange_peer *from, int64_t f)
{
    const shared_partials *p = context;
    return chunk_from(p->x, p->k, from) + f * mf_partial_bytes(mf_exchange_eqn(p->x, p->k));
}

bool mf_exchange_reduce(const mf_exchange *x, int k, mf_register *sum)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    const mf_type *type = e->in[0]->type;
    if (mf_relayed(x, k))
        return mf_relay_sum(x, k, sum);
    if (mf_in_pieces(x, k)) {
        mf_register_move(sum, &x->sums[k]);
        return true;
    }
    bool wide = mf_partial_dtype(e) != type->dtype;
    mf_register room = { 0 };
    shared_partials p = { x, k };
    if (!mf_register_new(sum, type->bytes) || (wide && !mf_register_new(&room, mf_partial_bytes(e))))
        return false;
    const unsigned char *all = mf_combine_frontiers(x, k, type->size, partial_at, &p, wide ? room.data : sum->data);
    if (all && all != sum->data)
        mf_convert(type->dtype, sum->data, mf_partial_dtype(e), all, type->size);
    mf_register_release(&room);
    return all;
}
