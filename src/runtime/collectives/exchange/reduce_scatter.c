/* Large reductions between processes, as a reduce-scatter and an all-gather. A vector is cut into chunks, and each chunk into one piece per
 * process. Each process sends every other one its partial results for that one's piece, combines what it has received for its own piece,
 * and sends the sum to all. So a process sends and computes not much more than one operand, however many processes there are. While one
 * chunk travels the next one is computed; a chunk is combined soon after it was written, so it is still in a cache.
 * Invariants: chunks and pieces are cut by the number of elements alone, so each element is combined along the one tree, and all
 * processes cut alike; one thread at a time advances an exchange; what a message carries is contiguous at both ends, and is never copied
 * here; a loan is given back once it has been read, or once it is certain that it will not be. */
#include "runtime/collectives/exchange/exchange.h"

#include "base/memory/alloc.h"

#include <string.h>

enum { ELEMENTS = 64, AHEAD = 4 };                 /* pieces are multiples of ELEMENTS; AHEAD chunks may be begun before one is combined */
static const int64_t piece_bytes_most = 256 << 10; /* bytes of one partial result's piece, approximately */
_Atomic int64_t mf_reduce_scatter_from = 64 << 10; /* below this, a reduce-scatter costs more than it saves */

typedef struct vector_chunk { /* of one result */
    mf_exchange *x;
    int k;
    int64_t number, first, count; /* elements */
    _Atomic int missing, unsent;  /* partial results not yet received, not yet sent; plus one while the chunk is being begun */
    mf_register in, out, own;     /* partial results: the others' for its piece; its for theirs; its for its own, if early */
    struct partials_from *from;   /* the others, in order, if they lend; NULL: what they send is in `in`, one after the other */
} vector_chunk;

/* A process's partial results for this process's piece, which it may lend. */
enum { LOAN_AWAITED, LOAN_HELD, LOAN_DONE };
typedef struct partials_from {
    vector_chunk *chunk;
    int process;
    int64_t bytes;
    mf_loan loan;
    _Atomic int state;
} partials_from;

struct mf_reduce_scatter {
    int count, begun, combined;
    bool early; /* the operands' owners go on, so all operands are read at the beginning */
    bool posted, done;
    bool loan_lost;      /* a loan that was read had been withdrawn: waits for the error that says why */
    _Atomic int events;  /* events since a thread last looked; 0: no thread is advancing the exchange */
    partials_from *from; /* of all chunks; NULL: nothing is lent */
    vector_chunk at[];
};

typedef struct piece {
    int64_t first, count; /* elements; `first` counts from the chunk's first one */
} piece;

static piece piece_of(const vector_chunk *b, const mf_exchange_peer *of)
{
    int64_t each = (b->count / b->x->source_count / ELEMENTS + 1) * ELEMENTS, first = of->nth * each;
    first = first < b->count ? first : b->count;
    return (piece){ first, each < b->count - first ? each : b->count - first };
}

/* The bytes of one partial result. */
static int64_t piece_bytes(const vector_chunk *b, const mf_exchange_peer *of)
{
    return piece_of(b, of).count * mf_dtype_size(mf_partial_dtype(mf_exchange_eqn(b->x, b->k)));
}

/* ---- chunks */

static int64_t chunk_elements(const mf_exchange *x, const mf_eqn *e)
{
    return piece_bytes_most * x->source_count / mf_dtype_size(mf_partial_dtype(e));
}

static int64_t chunks_of(const mf_exchange *x, const mf_eqn *e)
{
    int64_t each = chunk_elements(x, e);
    return (e->in[0]->type->size + each - 1) / each;
}

static bool prepare_loans(mf_exchange *x)
{
    int others = x->source_count - 1;
    if (!x->run_state->comm->borrow || !mf_frontiers_are_level(x)) /* combining other frontiers writes to them, but a loan is read-only */
        return true;
    x->scatter->from = mf_calloc((size_t)x->scatter->count * (size_t)others, sizeof *x->scatter->from);
    for (int i = 0; i < x->scatter->count && x->scatter->from; i++) {
        vector_chunk *b = &x->scatter->at[i];
        b->from = x->scatter->from + (ptrdiff_t)i * others;
        for (int p = 0; p < others; p++) {
            b->from[p].chunk = b;
            b->from[p].process = x->sources[p + 1].process;
        }
    }
    return x->scatter->from;
}

static bool make_chunks(mf_exchange *x)
{
    int64_t count = 0;
    for (int k = 0; k < x->out_count; k++)
        count += mf_is_reduce_scattered(x, k) ? chunks_of(x, mf_exchange_eqn(x, k)) : 0;
    x->scatter = mf_calloc(1, sizeof *x->scatter + (size_t)count * sizeof *x->scatter->at);
    if (!x->scatter)
        return false;
    atomic_store(&x->scatter->events, 1); /* until it has been posted */
    x->scatter->early = x->rendezvous->instr->participants->detached && !x->rendezvous->lockstep;
    for (int k = 0; k < x->out_count; k++) {
        const mf_eqn *e = mf_exchange_eqn(x, k);
        int64_t each = chunk_elements(x, e), size = e->in[0]->type->size;
        for (int64_t i = 0, first = 0; mf_is_reduce_scattered(x, k) && first < size; i++, first += each)
            x->scatter->at[x->scatter->count++] = (vector_chunk){
                .x = x, .k = k, .number = i, .first = first, .count = each < size - first ? each : size - first
            };
    }
    return prepare_loans(x);
}

bool mf_reduce_scatter_prepare(mf_exchange *x)
{
    int64_t least = atomic_load_explicit(&mf_reduce_scatter_from, memory_order_relaxed);
    for (int k = 0; k < x->out_count && x->source_count > 1; k++) {
        const mf_eqn *e = mf_exchange_eqn(x, k);
        if (!mf_reduces(e) || mf_partial_bytes(e) < least)
            continue;
        if (!x->sums && !(x->sums = mf_calloc((size_t)x->out_count, sizeof *x->sums)))
            return false;
        if (!mf_register_new_shared(&x->sums[k], e->in[0]->type->bytes))
            return false;
    }
    if (!x->sums)
        return true;
    return make_chunks(x);
}

void mf_reduce_scatter_free(mf_exchange *x)
{
    for (int i = 0; x->scatter && i < x->scatter->count; i++) {
        mf_register_release(&x->scatter->at[i].in);
        mf_register_release(&x->scatter->at[i].out);
        mf_register_release(&x->scatter->at[i].own);
    }
    for (int k = 0; x->sums && k < x->out_count; k++) /* the rendezvous did not take it */
        mf_register_release(&x->sums[k]);
    mf_free(x->scatter ? x->scatter->from : NULL);
    mf_free(x->scatter);
    mf_free(x->sums);
}

/* ---- messages: one with a process's partial results, one with the sum */

enum { PARTIALS, SUM };

bool mf_reduce_scatter_leads(const mf_exchange *x)
{
    const mf_exchange_peer *last = x->sources;
    while (last->nth != x->source_count - 1)
        last++;
    return piece_of(x->scatter->at, last).count > 0;
}

static mf_message_tag tag_of(const vector_chunk *b, int what)
{
    bool leads = what == PARTIALS && b == b->x->scatter->at && !b->x->sources[0].bytes[MF_PART_SHARED];
    uint64_t which = mf_hash_mix(mf_hash_mix(MF_PART_REDUCE_SCATTER, (uint64_t)b->k), (uint64_t)b->number * 2 + (uint64_t)what);
    mf_message_tag tag = mf_exchange_tag(b->x, leads ? MF_PART_SHARED : which);
    tag.exchange = what == PARTIALS ? b->x : NULL;
    return tag;
}

/* An event for which the exchange may be waiting: a chunk is complete, or the exchange has failed. */
void mf_reduce_scatter_wake(mf_exchange *x)
{
    if (atomic_fetch_add(&x->scatter->events, 1))
        return;
    atomic_fetch_sub(&x->run_state->exchanges, 1);
    mf_ready(x->run_state, &x->fiber);
}

static void count_arrived(vector_chunk *b)
{
    if (atomic_fetch_sub(&b->missing, 1) == 1)
        mf_reduce_scatter_wake(b->x);
}

static void count_sent(vector_chunk *b)
{
    if (atomic_fetch_sub(&b->unsent, 1) == 1)
        mf_register_release(&b->out);
}

static void partials_received(void *context, mf_error_object *error)
{
    vector_chunk *b = context;
    mf_exchange *x = b->x;
    if (!error)
        count_arrived(b);
    mf_message_ended(x, error);
}

/* False: the owner had withdrawn it. */
static bool return_loan(const partials_from *f)
{
    mf_comm *c = f->chunk->x->run_state->comm;
    return c->return_loan(c, f->process, f->chunk->x->tag.call, &f->loan);
}

/* Gives back the chunk's loans; those that are still to come go back as they arrive. Returns one that had been withdrawn; NULL: none. */
static const partials_from *return_loans(const vector_chunk *b)
{
    const partials_from *lost = NULL;
    for (int i = 0; i < b->x->source_count - 1 && b->from; i++)
        if (atomic_exchange(&b->from[i].state, LOAN_DONE) == LOAN_HELD && !return_loan(&b->from[i]))
            lost = &b->from[i];
    return lost;
}

/* The owner of a withdrawn loan has failed in this call: receiving from it gives the error that says why. */
static void ask_why(vector_chunk *b, const partials_from *lost)
{
    mf_exchange *x = b->x;
    mf_message_tag tag = tag_of(b, PARTIALS);
    x->scatter->loan_lost = true;
    mf_exchange_expect_one_more(x);
    x->run_state->comm->receive(x->run_state->comm, lost->process, &tag, b->in.data, (size_t)lost->bytes, mf_message_ended, x);
}

static void partials_lent(void *context, mf_error_object *error)
{
    partials_from *f = context;
    if (!error && atomic_exchange(&f->state, LOAN_HELD) == LOAN_DONE)
        return_loan(f);
    partials_received(f->chunk, error);
}

static void partials_sent(void *context, mf_error_object *error)
{
    vector_chunk *b = context;
    mf_exchange *x = b->x;
    count_sent(b);
    mf_message_ended(x, error);
}

static unsigned char *sum_at(const vector_chunk *b, const mf_exchange_peer *of, size_t *bytes)
{
    int64_t size = mf_dtype_size(mf_exchange_eqn(b->x, b->k)->in[0]->type->dtype);
    piece p = piece_of(b, of);
    *bytes = (size_t)(p.count * size);
    return b->x->sums[b->k].data + (b->first + p.first) * size;
}

/* Receives partial results and sums; each has a place of its own, so the order in which they arrive does not matter. */
static void receive(vector_chunk *b)
{
    mf_exchange *x = b->x;
    mf_comm *c = x->run_state->comm;
    const mf_exchange_peer *own = x->sources;
    mf_message_tag partials = tag_of(b, PARTIALS), sum = tag_of(b, SUM);
    unsigned char *to = b->in.data;
    for (const mf_exchange_peer *peer = own + 1; peer < own + x->source_count; peer++) {
        int64_t bytes = peer->frontier_count * piece_bytes(b, own);
        size_t count;
        unsigned char *at = sum_at(b, peer, &count);
        if (bytes) {
            mf_exchange_expect_one_more(x);
            atomic_fetch_add(&b->missing, 1);
            partials_from *from = b->from ? &b->from[peer - own - 1] : NULL;
            if (from) {
                from->bytes = bytes;
                c->borrow(c, peer->process, &partials, to, (size_t)bytes, &from->loan, partials_lent, from);
            } else {
                c->receive(c, peer->process, &partials, to, (size_t)bytes, partials_received, b);
            }
            to += bytes;
        }
        if (count) {
            mf_exchange_expect_one_more(x);
            c->receive(c, peer->process, &sum, at, count, mf_message_ended, x);
        }
    }
}

/* Computes this process's partial results of a piece, one after the other. */
static bool reduce_piece(const vector_chunk *b, const mf_exchange_peer *of, unsigned char *to)
{
    const mf_exchange_peer *own = b->x->sources;
    piece p = piece_of(b, of);
    bool made = true;
    for (int64_t f = 0; f < own->frontier_count && made; f++)
        made = mf_reduce_subtree(b->x, b->k, own->frontier[f], b->first + p.first, p.count, to + f * piece_bytes(b, of));
    return made;
}

/* Computes this process's partial results of its own piece, with room for one more. */
static bool reduce_own(vector_chunk *b)
{
    const mf_exchange_peer *own = b->x->sources;
    return mf_register_new(&b->own, (own->frontier_count + 1) * piece_bytes(b, own)) && reduce_piece(b, own, b->own.data);
}

/* Posts the receives of a chunk, then computes and sends this process's partial results. False: memory is out. */
static bool begin(vector_chunk *b)
{
    mf_exchange *x = b->x;
    mf_comm *c = x->run_state->comm;
    const mf_exchange_peer *own = x->sources, *end = own + x->source_count;
    mf_message_tag tag = tag_of(b, PARTIALS);
    int64_t in = 0, out = 0;
    for (const mf_exchange_peer *peer = own + 1; peer < end; peer++) {
        in += peer->frontier_count * piece_bytes(b, own);
        out += own->frontier_count * piece_bytes(b, peer);
    }
    if (!mf_register_new(&b->in, in) || !mf_register_new_shared(&b->out, out))
        return false;
    atomic_store(&b->missing, 1);
    atomic_store(&b->unsent, 1);
    receive(b);
    bool made = true;
    unsigned char *from = b->out.data;
    for (const mf_exchange_peer *peer = own + 1; peer < end && made; peer++) {
        int64_t bytes = own->frontier_count * piece_bytes(b, peer);
        made = !bytes || reduce_piece(b, peer, from);
        if (!bytes || !made)
            continue;
        mf_exchange_expect_one_more(x);
        atomic_fetch_add(&b->unsent, 1);
        c->send(c, peer->process, &tag, from, (size_t)bytes, partials_sent, b);
        from += bytes;
    }
    made = made && (!x->scatter->early || reduce_own(b));
    count_sent(b);
    count_arrived(b);
    return made;
}

/* ---- combining */

static unsigned char *partial_at(const void *context, const mf_exchange_peer *from, int64_t f)
{
    const vector_chunk *b = context;
    const mf_exchange_peer *own = b->x->sources;
    int64_t bytes = piece_bytes(b, own);
    if (from != own && b->from)
        return (unsigned char *)(uintptr_t)b->from[from - own - 1].loan.at + f * bytes; /* is only read */
    unsigned char *at = from == own ? b->own.data : b->in.data;
    for (const mf_exchange_peer *peer = own + 1; peer < from; peer++)
        at += peer->frontier_count * bytes;
    return at + f * bytes;
}

/* Combines this process's piece into its place in the sum. */
static bool combine_piece(vector_chunk *b, unsigned char *to)
{
    const mf_exchange *x = b->x;
    const mf_exchange_peer *own = x->sources;
    const mf_eqn *e = mf_exchange_eqn(x, b->k);
    mf_dtype dtype = e->in[0]->type->dtype, wide = mf_partial_dtype(e);
    piece p = piece_of(b, own);
    if (!x->scatter->early && !reduce_own(b))
        return false;
    unsigned char *sum = wide == dtype ? to : b->own.data + own->frontier_count * piece_bytes(b, own);
    sum = mf_combine_frontiers(x, b->k, p.count, partial_at, b, sum);
    if (sum && sum != to)
        mf_convert(dtype, to, wide, sum, p.count);
    return sum;
}

/* All partial results of the chunk have arrived: combines them, and sends the sum to all. False: memory is out. */
static bool combine(vector_chunk *b)
{
    mf_exchange *x = b->x;
    mf_comm *c = x->run_state->comm;
    mf_message_tag tag = tag_of(b, SUM);
    size_t count;
    unsigned char *sum = sum_at(b, x->sources, &count);
    bool made = !count || combine_piece(b, sum);
    const partials_from *lost = return_loans(b);
    mf_register_release(&b->own);
    if (lost)
        ask_why(b, lost);
    else
        mf_register_release(&b->in);
    for (int i = 1; i < x->source_count && count && made && !lost; i++) {
        mf_exchange_expect_one_more(x);
        c->send(c, x->sources[i].process, &tag, sum, count, mf_message_ended, x);
    }
    return made;
}

/* ---- going on */

/* Whether it has combined or begun a chunk. *made false: memory is out. */
static bool step(mf_exchange *x, bool *made)
{
    struct mf_reduce_scatter *all = x->scatter;
    if (all->loan_lost)
        return false;
    if (all->combined < all->begun && atomic_load(&all->at[all->combined].missing) == 0)
        *made = combine(&all->at[all->combined++]);
    else if (all->begun < all->count && (all->early || all->begun < all->combined + AHEAD))
        *made = begin(&all->at[all->begun++]);
    else
        return false;
    return true;
}

static bool may_advance(const mf_exchange *x)
{
    return (x->scatter->combined < x->scatter->count || x->scatter->loan_lost) && !atomic_load(&x->error) &&
           !atomic_load_explicit(&x->run_state->failed, memory_order_acquire);
}

/* Lets the communicator send what the last step has posted. */
static void poll_comm(mf_comm *c)
{
    if (c->poll)
        c->poll(c);
}

/* Stops advancing x, unless there was an event since `seen`. After that x belongs to another thread. A thread that asks whether the run
 * is blocked sees both changes or neither. */
static bool suspend(mf_exchange *x, int *seen)
{
    mf_run_state *s = x->run_state;
    bool counts = x->scatter->posted; /* before posting, the caller counts it */
    mf_run_state_lock(s);
    atomic_fetch_add(&s->exchanges, counts);
    bool suspended = atomic_compare_exchange_strong(&x->scatter->events, seen, 0);
    if (!suspended)
        atomic_fetch_sub(&s->exchanges, counts);
    mf_run_state_unlock(s);
    return suspended;
}

/* False: it waits for events. */
static bool advance(mf_exchange *x)
{
    int seen = atomic_load(&x->scatter->events);
    while (may_advance(x)) {
        bool made = true;
        if (step(x, &made)) {
            poll_comm(x->run_state->comm);
            if (!made)
                mf_run_state_fail(x->run_state, mf_error_out_of_memory());
        } else if (suspend(x, &seen)) {
            return false;
        }
    }
    for (int i = x->scatter->combined; i < x->scatter->begun; i++)
        return_loans(&x->scatter->at[i]);
    x->scatter->done = true;
    mf_exchange_fail(x); /* now, so that messages that nobody will send end too */
    return true;
}

void mf_reduce_scatter_advance(mf_exchange *x)
{
    x->scatter->posted = true;
    if (advance(x))
        mf_exchange_posted(x);
}

void mf_reduce_scatter_post(mf_exchange *x)
{
    if (!x->scatter)
        return;
    atomic_fetch_add(&x->pending, 1); /* until it is done */
    if (advance(x))
        atomic_fetch_sub(&x->pending, 1);
}

bool mf_reduce_scatter_waits(const mf_exchange *x) { return x->scatter && !x->scatter->done; }
