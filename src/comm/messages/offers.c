/* Offers of payloads in shared memory. Invariant: the state of an offer is one word, which changes by compare-and-exchange alone. So
 * where one process takes an offer while its owner withdraws it, one of them succeeds and both know which. The lock is held. */
#include "comm/messages/protocol.h"

/* Fails where an older offer still uses the word that this id maps to. */
uint64_t mf_operation_lend(const mf_messages *m, mf_operation *op)
{
    uint64_t at = mf_shared_find(m->shared, op->copied ? op->copied : op->bytes, op->count);
    _Atomic uint64_t *word = mf_shared_offers(m->shared, m->shared->own) + op->id % MF_OFFERS;
    if (!at || atomic_load(word))
        return 0;
    op->offered = word;
    atomic_store(word, op->id * OFFER_STATES + OFFERED);
    return at;
}

static bool change(_Atomic uint64_t *word, uint64_t id, uint64_t from, uint64_t to)
{
    uint64_t seen = id * OFFER_STATES + from;
    return atomic_compare_exchange_strong(word, &seen, id * OFFER_STATES + to);
}

/* An operation whose payload is being copied ends only after the copy. */
bool mf_operation_may_end(const mf_messages *m, mf_operation *op)
{
    return !op->offered || m->peers[op->peer].dead || atomic_load(op->offered) == op->id * OFFER_STATES + WITHDRAWN ||
           change(op->offered, op->id, OFFERED, WITHDRAWN) || change(op->offered, op->id, LENT, WITHDRAWN);
}

bool mf_operation_is_lent(const mf_operation *op) { return op->offered && atomic_load(op->offered) == op->id * OFFER_STATES + LENT; }

static _Atomic uint64_t *offer_of(const mf_messages *m, int process, uint64_t id)
{
    return mf_shared_offers(m->shared, m->peers[process].number) + id % MF_OFFERS;
}

bool mf_offer_take(const mf_messages *m, int process, uint64_t id, bool lent)
{
    return change(offer_of(m, process, id), id, OFFERED, lent ? LENT : TAKEN);
}

bool mf_loan_return(const mf_messages *m, int process, uint64_t id) { return change(offer_of(m, process, id), id, LENT, TAKEN); }
