/* What a process contributes to an exchange, and the layout of its messages.
 *
 * A contribution has three parts, each of which may be empty:
 *   - what every process gets: of a reduction the frontier of this process's ranks (frontier.h), of a gather whole operands, of a
 *   comparison a digest of each operand;
 *   - what a single process gets: pieces of an all_to_all, operands of a ppermute;
 *   - the frontiers of large reductions, of which each process gets its own piece (reduce_scatter.c).
 * A part is the results' chunks one after the other, and a chunk's contents are in rank order.
 * Invariants: every process knows who has which rank, so both ends know the size of each message; sums of 16-bit floats travel as f32
 * and are rounded once, at the end. */
#include "runtime/collectives/exchange/exchange.h"

#include "base/memory/vector.h"

#include <string.h>

#define ALIGNMENT 64       /* of chunks */
enum { FEW_MEMBERS = 32 }; /* the usual maximum */
enum { DIGEST = 16 };      /* bytes */

/* ------------------------------------------------------------------ layout */

bool mf_reduces(const mf_eqn *e)
{
    mf_collective_kind kind = e->op->collective;
    return kind == MF_COLLECTIVE_REDUCE || kind == MF_COLLECTIVE_SCATTER;
}

int mf_exchange_part(const mf_exchange *x, int k)
{
    mf_collective_kind kind = mf_exchange_eqn(x, k)->op->collective;
    return kind == MF_COLLECTIVE_ALL_TO_ALL || kind == MF_COLLECTIVE_PERMUTE ? MF_PART_OWN
           : mf_relayed(x, k)                                                ? MF_PART_RELAY
           : mf_is_reduce_scattered(x, k)                                    ? MF_PART_REDUCE_SCATTER
                                                                             : MF_PART_SHARED;
}

mf_dtype mf_partial_dtype(const mf_eqn *e)
{
    mf_dtype dtype = e->in[0]->type->dtype;
    bool sum = e->op->reducer == MF_REDUCE_SUM;
    return sum && (dtype == MF_F16 || dtype == MF_BF16) ? MF_F32 : dtype;
}

int64_t mf_gathered_bytes(const mf_eqn *e) { return e->op->collective == MF_COLLECTIVE_COMPARE ? DIGEST : e->in[0]->type->bytes; }

int64_t mf_partial_bytes(const mf_eqn *e) { return e->in[0]->type->size * mf_dtype_size(mf_partial_dtype(e)); }

/* The number of operands that a ppermute moves between two processes, one of which is this one. */
static int64_t pairs_between(const mf_exchange *x, int k, const mf_exchange_peer *from, const mf_exchange_peer *to)
{
    const mf_exchange_pair *pairs = mf_exchange_pairs(x, k);
    int64_t count = 0;
    for (int64_t i = 0; i < x->rendezvous->here_count; i++)
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
    case MF_COLLECTIVE_ALL_TO_ALL: return from->rank_count * to->rank_count * (bytes / x->rendezvous->member_count);
    case MF_COLLECTIVE_PERMUTE: return pairs_between(x, k, from, to) * bytes;
    default: return from->rank_count * mf_gathered_bytes(e);
    }
}

void mf_exchange_lay_out(const mf_exchange *x, const mf_exchange_peer *from, const mf_exchange_peer *to, int64_t *offsets, int64_t *bytes)
{
    memset(bytes, 0, MF_PARTS * sizeof *bytes);
    for (int k = 0; k < x->out_count; k++) {
        int part = mf_exchange_part(x, k);
        if (part >= MF_PARTS) /* they allocate their own memory */
            continue;
        offsets[k] = bytes[part];
        bytes[part] += (chunk_bytes(x, k, from, to) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if (x->sums && !bytes[MF_PART_SHARED] && !mf_reduce_scatter_leads(x))
        bytes[MF_PART_SHARED] =
            ALIGNMENT; /* so that a process that computes something else gets a message and notices (mf_reduce_scatter_leads) */
}

/* ------------------------------------------------------------------ contents */

bool mf_reduce_subtree(const mf_exchange *x, int k, mf_subtree t, int64_t first, int64_t count, void *out)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    const mf_type *type = e->in[0]->type;
    mf_dtype wide = mf_partial_dtype(e);
    int64_t bytes = count * mf_dtype_size(wide);
    MF_SMALL_ARRAY(const void *, members, FEW_MEMBERS, t.count);
    mf_register converted = { 0 };
    const mf_participant *at = mf_rendezvous_member(x->rendezvous, t.first); /* the members of a subtree are neighbours */
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

static void put_digest(const void *bytes, size_t size, unsigned char *to)
{
    memcpy(to, (const uint64_t[2]){ mf_hash(bytes, size, 0), mf_hash(bytes, size, 1) }, DIGEST);
}

void mf_put_gathered(const mf_exchange *x, int k, unsigned char *to, int64_t stride)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    for (int64_t i = 0; i < x->rendezvous->here_count; i++, to += stride) {
        const void *operand = x->rendezvous->members[i].in[k].data;
        if (e->op->collective != MF_COLLECTIVE_COMPARE)
            memcpy(to, operand, (size_t)e->in[0]->type->bytes);
        else if (i && operand == x->rendezvous->members[i - 1].in[k].data) /* usually all members share it */
            memcpy(to, to - stride, DIGEST);
        else
            put_digest(operand, (size_t)e->in[0]->type->bytes, to);
    }
}

static void put_pieces(const mf_exchange *x, int k, const mf_exchange_peer *peer, unsigned char *to)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    mf_pieces p = mf_all_to_all_pieces(e, x->rendezvous->member_count);
    for (const mf_participant *m = x->rendezvous->members; m < x->rendezvous->members + x->rendezvous->here_count; m++)
        for (const mf_rank_run *run = peer->runs; run < peer->runs + peer->run_count; run++)
            for (int64_t r = run->first; r < run->end; r++, to += p.bytes)
                mf_copy_strided(p.rank, p.dims, mf_dtype_size(e->in[0]->type->dtype), to, p.packed, m->in[k].data + r * p.split, p.from);
}

static void put_pairs(const mf_exchange *x, int k, const mf_exchange_peer *peer, unsigned char *to)
{
    int64_t bytes = mf_exchange_eqn(x, k)->in[0]->type->bytes;
    for (int64_t i = 0; i < x->rendezvous->here_count; i++)
        if (mf_exchange_pairs(x, k)[i].to == (int)(peer - x->sources)) {
            memcpy(to, x->rendezvous->members[i].in[k].data, (size_t)bytes);
            to += bytes;
        }
}

bool mf_exchange_contribute(const mf_exchange *x, int part, const mf_exchange_peer *peer, const int64_t *offsets, int64_t bytes,
                            mf_register *out)
{
    bool made = out->data || mf_register_new_shared(out, bytes); /* a kept exchange has its memory already */
    if (made && bytes)
        memset(out->data, 0, ALIGNMENT); /* there may be nothing else to put */
    for (int k = 0; made && k < x->out_count; k++) {
        const mf_eqn *e = mf_exchange_eqn(x, k);
        if (mf_exchange_part(x, k) != part)
            continue;
        unsigned char *to = out->data + offsets[k];
        switch (e->op->collective) {
        case MF_COLLECTIVE_REDUCE:
        case MF_COLLECTIVE_SCATTER: made = put_reduction(x, k, to); break;
        case MF_COLLECTIVE_ALL_TO_ALL: put_pieces(x, k, peer, to); break;
        case MF_COLLECTIVE_PERMUTE: put_pairs(x, k, peer, to); break;
        default: mf_put_gathered(x, k, to, mf_gathered_bytes(e)); break;
        }
    }
    return made;
}
