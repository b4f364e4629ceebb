/* Exchanges: rendezvous whose members are in several processes. Each process combines what it can by itself and sends that to every other
 * process with members; when everything has arrived, the exchange's own fiber delivers the results.
 * Invariant: the exchange counts as active until its fiber has delivered. */
#include "runtime/collectives/exchange/exchange.h"
#include "runtime/collectives/schedule/relay_schedule.h"

/* ------------------------------------------------------------------ memory */

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
    mf_reduce_scatter_free(x);
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

static bool all_relayed(const mf_exchange *x)
{
    for (int k = 0; k < x->out_count; k++)
        if (!mf_relayed(x, k))
            return false;
    return true;
}

/* Allocates the exchange's memory, and fills in what it sends. */
static bool prepare(mf_exchange *x)
{
    int64_t bytes[MF_PARTS], *offsets = mf_alloc((size_t)x->rendezvous->instr->out_count * sizeof *offsets);
    bool made = offsets && mf_relay_prepare(x) && (all_relayed(x) || mf_exchange_find_peers(x)) &&
                (x->relay || mf_reduce_scatter_prepare(x));
    mf_exchange_peer *own = x->sources;
    if (made && own) {
        mf_exchange_lay_out(x, own, own, own->offsets, own->bytes);
        for (int part = 0; part < MF_PARTS && made; part++)
            made = part == MF_PART_OWN || mf_exchange_contribute(x, part, own, own->offsets, own->bytes[part], &own->data[part]);
    }
    for (int i = 1; i < x->source_count && made; i++) {
        mf_exchange_peer *peer = &x->sources[i];
        mf_exchange_lay_out(x, peer, own, peer->offsets, peer->bytes);
        mf_exchange_lay_out(x, own, peer, offsets, bytes);
        for (int part = 0; part < MF_PARTS && made; part++)
            made = mf_register_new(&peer->data[part], peer->bytes[part]);
        made = made && mf_exchange_contribute(x, MF_PART_OWN, peer, offsets, bytes[MF_PART_OWN], &peer->out);
        peer->out_bytes = bytes[MF_PART_OWN];
    }
    mf_free(offsets);
    if (made)
        x->first_messages = x->relay ? mf_relay_messages(x) : 0;
    return made && x->first_messages >= 0;
}

/* ------------------------------------------------------------------ kept for the next run */

/* A lockstep map that spans processes meets the same members at the same place in every run. So the layout, and the memory of what is
 * sent, stay with the run state: they are most of the cost of a small call. */
static bool keep(mf_exchange *x)
{
    if (!x->own || x->relay || x->sums)
        return false;
    mf_run_state_lock(x->run_state);
    x->next = x->run_state->kept;
    x->run_state->kept = x;
    mf_run_state_unlock(x->run_state);
    return true;
}

static bool is_reusable(const mf_exchange *x, const mf_run_state *s)
{
    return x->comm == s->comm && x->reduce_scatter_from == atomic_load_explicit(&mf_reduce_scatter_from, memory_order_relaxed) &&
           x->algorithm == atomic_load_explicit(&mf_algorithm_forced, memory_order_relaxed);
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
    if (!x || is_reusable(x, s))
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

static void count_down(mf_exchange *x)
{
    if (atomic_fetch_sub(&x->pending, 1) > 1)
        return;
    atomic_fetch_sub(&x->run_state->exchanges, 1);
    mf_ready(x->run_state, &x->fiber);
}

void mf_message_ended(void *context, mf_error_object *error)
{
    mf_exchange *x = context;
    mf_error_object *none = NULL;
    if (error && !atomic_compare_exchange_strong(&x->error, &none, error))
        mf_error_ignore(error);
    atomic_fetch_sub(&x->run_state->messages, 1);
    if (error && x->scatter)
        mf_reduce_scatter_wake(x);
    count_down(x);
}

void mf_exchange_expect(mf_exchange *x, int messages)
{
    atomic_fetch_add(&x->run_state->begun, 1);
    atomic_fetch_add(&x->run_state->messages, messages);
    atomic_store(&x->pending, messages + 1);
}

void mf_exchange_expect_one_more(mf_exchange *x)
{
    atomic_fetch_add(&x->run_state->begun, 1);
    atomic_fetch_add(&x->run_state->messages, 1);
    atomic_fetch_add(&x->pending, 1);
}

void mf_exchange_posted(mf_exchange *x)
{
    atomic_fetch_add(&x->run_state->exchanges, 1);
    count_down(x);
}

bool mf_run_is_blocked(void *run, int exchanges, int messages, uint64_t *version)
{
    mf_run_state *s = run;
    if (mf_run_state_attended(s)) /* the calling thread owns such a run, for a moment */
        return false;
    mf_run_state_lock(s);
    bool blocked = s->active == exchanges && atomic_load(&s->exchanges) == exchanges && atomic_load(&s->messages) == messages;
    *version = atomic_load(&s->begun);
    mf_run_state_unlock(s);
    return blocked;
}

/* Posts the direct messages of this round: sends first, because the others wait for them, then receives. really false: posts nothing.
 * Returns the number of messages. */
static int post_round(mf_exchange *x, bool really)
{
    mf_comm *c = x->run_state->comm;
    const mf_exchange_peer *own = x->sources;
    const mf_message_tag tags[] = { mf_exchange_tag(x, MF_PART_SHARED), mf_exchange_tag(x, MF_PART_OWN) };
    mf_span d = mf_round_distances(x->source_count, x->round);
    int count = 0;
    if (x->pairs) /* the partners of a ppermute differ from process to process, so rounds would not match */
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
        mf_reduce_scatter_post(x);
    mf_exchange_posted(x);
}

/* Posts the next round that has messages; false: none is left. */
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
    x->run_state = s;
    x->rendezvous = g;
    x->out_count = g->instr->out_count;
    x->compiler = mf_executable_compiler(s->executable);
    x->comm = s->comm;
    x->reduce_scatter_from = atomic_load(&mf_reduce_scatter_from);
    x->algorithm = atomic_load(&mf_algorithm_forced);
    if (prepare(x)) {
        x->own = g->lasting ? g : NULL;
        g->exchange = g->lasting ? x : NULL;
        return x;
    }
    free_exchange(x);
    return NULL;
}

/* Refills a kept exchange with what is to be sent now. NULL: memory is out; the exchange is freed, but not its rendezvous. */
static mf_exchange *again(mf_exchange *x)
{
    mf_exchange_peer *own = x->sources;
    if (mf_exchange_contribute(x, MF_PART_SHARED, own, own->offsets, own->bytes[MF_PART_SHARED], &own->data[MF_PART_SHARED]))
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
    x->fiber = (mf_fiber){ .run_state = s, .exchange = x };
    x->round = 0;
    mf_exchange_name_messages(x);
    post(x);
    return true;
}

/* Begins the next round, or the next step of a relay: 1: begun; 0: none is left; -1: memory is out. */
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
    if (error && x->rendezvous->instr->eqn->address)
        mf_error_set_address(error, x->rendezvous->instr->eqn->address);
    if (error)
        mf_run_state_fail(x->run_state, error);
}

void mf_exchange_end(mf_exchange *x)
{
    if (mf_reduce_scatter_waits(x)) {
        mf_reduce_scatter_advance(x);
        return;
    }
    mf_run_state *s = x->run_state;
    mf_rendezvous *g = x->rendezvous;
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
    if (made && next) { /* takes over this fiber's count as active */
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
