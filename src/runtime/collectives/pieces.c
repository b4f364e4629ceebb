/* Large reductions between processes: each process gets its piece of everybody's partial results, combines it, and sends it to all, so nobody
 * sends or computes much more than one operand, however many there are (reduce-scatter and all-gather).
 * Invariant: pieces are cut by elements alone, so each element is still combined along the one tree; what a message carries lies in memory in
 * one piece, at both ends, and is never copied. */
#include "runtime/collectives/exchange.h"

enum { ELEMENTS = 64 }; /* of a piece, or a multiple */

_Atomic int64_t mf_pieces_from = 64 << 10; /* below, a second way costs more than it saves */

typedef struct piece {
    int64_t first, count; /* elements */
} piece;

static piece piece_of(const mf_exchange *x, const mf_eqn *e, const mf_exchange_peer *of)
{
    int64_t size = e->in[0]->type->size, each = (size / x->source_count / ELEMENTS + 1) * ELEMENTS, first = of->nth * each;
    first = first < size ? first : size;
    return (piece){ first, each < size - first ? each : size - first };
}

int64_t mf_piece_bytes(const mf_exchange *x, const mf_eqn *e, const mf_exchange_peer *of)
{
    return piece_of(x, e, of).count * mf_dtype_size(mf_partial_dtype(e));
}

/* Each process's number among them, the same in all. */
static void number_sources(mf_exchange *x)
{
    for (int i = 0; i < x->source_count; i++)
        for (int other = 0; other < x->source_count; other++)
            x->sources[i].nth += x->sources[other].process < x->sources[i].process;
}

bool mf_pieces_prepare(mf_exchange *x)
{
    int64_t least = atomic_load_explicit(&mf_pieces_from, memory_order_relaxed);
    for (int k = 0; k < x->out_count && x->source_count > 1; k++) {
        const mf_eqn *e = mf_exchange_eqn(x, k);
        if (!mf_reduces(e) || mf_partial_bytes(e) < least)
            continue;
        if (!x->sums && !(x->sums = mf_calloc((size_t)x->out_count, sizeof *x->sums)))
            return false;
        if (!mf_register_new_shared(&x->sums[k], e->in[0]->type->bytes))
            return false;
    }
    if (x->sums)
        number_sources(x);
    return true;
}

/* ---- messages: of each partial result, and of each piece that is done */

enum { SUM = -1 }; /* number of the latter */

/* Calls visit for each message that there is for the partial results, or the sums, between this process and the others. How many. */
typedef void (*visit_message)(const mf_exchange *x, int k, mf_exchange_peer *from, mf_exchange_peer *to, int64_t f,
                              const mf_message_tag *tag);

static int between(const mf_exchange *x, int k, mf_exchange_peer *from, mf_exchange_peer *to, bool sums, visit_message visit)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    int64_t first = sums ? SUM : 0, end = sums ? SUM + 1 : from->frontier_count;
    if (!piece_of(x, e, sums ? from : to).count)
        return 0;
    for (int64_t f = first; visit && f < end; f++) {
        mf_message_tag tag = mf_exchange_tag(x, mf_hash_mix(mf_hash_mix(MF_PART_PIECES, (uint64_t)k), (uint64_t)f));
        visit(x, k, from, to, f, &tag);
    }
    return (int)(end - first);
}

/* Receipts first, if they are visited. */
static int visit_all(const mf_exchange *x, bool sums, visit_message receive, visit_message send)
{
    if (!x->sums)
        return 0;
    mf_exchange_peer *own = x->sources, *end = own + x->source_count;
    int count = 0;
    for (int way = 0; way < 2; way++)
        for (int k = 0; k < x->out_count; k++)
            for (mf_exchange_peer *peer = own + 1; peer < end && mf_in_pieces(x, k); peer++)
                count += way ? between(x, k, own, peer, sums, send) : between(x, k, peer, own, sums, receive);
    return count;
}

static unsigned char *partial_at(const mf_exchange *x, int k, const mf_exchange_peer *from, int64_t f, const mf_exchange_peer *to)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    unsigned char *chunk = from->data[MF_PART_PIECES].data + from->offsets[k];
    if (from != x->sources)
        return chunk + f * mf_piece_bytes(x, e, to);
    return chunk + f * mf_partial_bytes(e) + piece_of(x, e, to).first * mf_dtype_size(mf_partial_dtype(e));
}

static void receive_partial(const mf_exchange *x, int k, mf_exchange_peer *from, mf_exchange_peer *to, int64_t f, const mf_message_tag *tag)
{
    size_t bytes = (size_t)mf_piece_bytes(x, mf_exchange_eqn(x, k), to);
    x->s->comm->receive(x->s->comm, from->process, tag, partial_at(x, k, from, f, to), bytes, mf_message_ended, (void *)(uintptr_t)x);
}

static void send_partial(const mf_exchange *x, int k, mf_exchange_peer *from, mf_exchange_peer *to, int64_t f, const mf_message_tag *tag)
{
    size_t bytes = (size_t)mf_piece_bytes(x, mf_exchange_eqn(x, k), to);
    x->s->comm->send(x->s->comm, to->process, tag, partial_at(x, k, from, f, to), bytes, mf_message_ended, (void *)(uintptr_t)x);
}

static unsigned char *sum_at(const mf_exchange *x, int k, const mf_exchange_peer *of, size_t *bytes)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    int64_t size = mf_dtype_size(e->in[0]->type->dtype);
    piece p = piece_of(x, e, of);
    *bytes = (size_t)(p.count * size);
    return x->sums[k].data + p.first * size;
}

static void receive_sum(const mf_exchange *x, int k, mf_exchange_peer *from, mf_exchange_peer *to, int64_t f, const mf_message_tag *tag)
{
    (void)to, (void)f;
    size_t bytes;
    unsigned char *at = sum_at(x, k, from, &bytes);
    x->s->comm->receive(x->s->comm, from->process, tag, at, bytes, mf_message_ended, (void *)(uintptr_t)x);
}

static void send_sum(const mf_exchange *x, int k, mf_exchange_peer *from, mf_exchange_peer *to, int64_t f, const mf_message_tag *tag)
{
    (void)f;
    size_t bytes;
    const unsigned char *at = sum_at(x, k, from, &bytes);
    x->s->comm->send(x->s->comm, to->process, tag, at, bytes, mf_message_ended, (void *)(uintptr_t)x);
}

int mf_pieces_messages(const mf_exchange *x) { return visit_all(x, false, NULL, NULL); }

void mf_pieces_post(mf_exchange *x) { visit_all(x, false, receive_partial, send_partial); }

/* ---- combining */

static unsigned char *own_piece(const mf_exchange *x, int k, const mf_exchange_peer *from, int64_t f)
{
    return partial_at(x, k, from, f, x->sources);
}

static bool combine(const mf_exchange *x, int k)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    piece p = piece_of(x, e, x->sources);
    const unsigned char *all = p.count ? mf_combine_frontiers(x, k, p.count, own_piece) : NULL;
    size_t bytes;
    if (all)
        mf_convert(e->in[0]->type->dtype, sum_at(x, k, x->sources, &bytes), mf_partial_dtype(e), all, p.count);
    return all || !p.count;
}

bool mf_pieces_combine(mf_exchange *x)
{
    for (int k = 0; k < x->out_count; k++)
        if (mf_in_pieces(x, k) && !combine(x, k))
            return false;
    x->combined = true;
    mf_exchange_expect(x, visit_all(x, true, NULL, NULL));
    visit_all(x, true, receive_sum, send_sum);
    mf_exchange_posted(x);
    return true;
}
