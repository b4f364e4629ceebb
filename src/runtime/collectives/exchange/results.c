/* The results of an exchange, for delivery: operands of other processes' members, and all partial results, combined along the tree over
 * the ranks. */
#include "runtime/collectives/exchange/exchange.h"

#include "base/memory/vector.h"

#include <stdlib.h>

enum { FEW = 32 }; /* partial results; the usual maximum */

static unsigned char *chunk_from(const mf_exchange *x, int k, const mf_exchange_peer *from)
{
    return from->data[mf_exchange_part(x, k)].data + from->offsets[k];
}

const void *mf_exchange_operand(const mf_exchange *x, int k, int64_t rank)
{
    if (mf_relayed(x, k))
        return mf_relay_operand(x, k, rank);
    const mf_exchange_peer *from = &x->sources[mf_exchange_source_of_rank(x, rank)];
    return chunk_from(x, k, from) + mf_exchange_position_of(from, rank) * mf_gathered_bytes(mf_exchange_eqn(x, k));
}

void mf_exchange_hold(const mf_exchange *x, int k, int64_t target, mf_register *to)
{
    const mf_exchange_pair *pair = &mf_exchange_pairs(x, k)[mf_rendezvous_member(x->rendezvous, target) - x->rendezvous->members];
    const mf_exchange_peer *from = &x->sources[pair->from];
    mf_register_view(to, &from->data[mf_exchange_part(x, k)], from->offsets[k] + pair->number * mf_exchange_eqn(x, k)->in[0]->type->bytes);
}

const void *mf_exchange_piece(const mf_exchange *x, int k, int64_t s, int64_t r)
{
    const mf_exchange_peer *own = x->sources, *from = &own[mf_exchange_source_of_rank(x, s)];
    int64_t bytes = mf_exchange_eqn(x, k)->in[0]->type->bytes / x->rendezvous->member_count;
    return chunk_from(x, k, from) + (mf_exchange_position_of(from, s) * own->rank_count + mf_exchange_position_of(own, r)) * bytes;
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

/* By first rank. */
static void sort(partial *list, int64_t n)
{
    if (n > FEW) /* for few, calls of a comparison would cost more than the sum */
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
    int64_t n = x->rendezvous->member_count, each = 1;
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
        made = made && mf_frontier_combine(x->rendezvous->member_count, parts, (int)n, combine, &c) && c.made;
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
    if (mf_is_reduce_scattered(x, k)) {
        mf_register_move(sum, &x->sums[k]);
        return true;
    }
    bool wide = mf_partial_dtype(e) != type->dtype;
    mf_register wide_sum = { 0 };
    shared_partials p = { x, k };
    if (!mf_register_new(sum, type->bytes) || (wide && !mf_register_new(&wide_sum, mf_partial_bytes(e))))
        return false;
    const unsigned char *all = mf_combine_frontiers(x, k, type->size, partial_at, &p, wide ? wide_sum.data : sum->data);
    if (all && all != sum->data)
        mf_convert(type->dtype, sum->data, mf_partial_dtype(e), all, type->size);
    mf_register_release(&wide_sum);
    return all;
}
