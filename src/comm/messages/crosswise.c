/* Deadlocks between processes: each has come to a collective of one call at which the others never arrive, because they run its
 * collectives in another order, inside a loop and outside, or in maps that another condition chose.
 *
 * A process that has waited for long asks the one it waits for where it is. With its answer that process says whether its run of the call
 * rests: nothing in it moves or is about to, except for exchanges that each still wait for a message. It also gives its version, which is
 * the number of exchanges that it has begun, and for each waiting exchange one process whose message is missing, with the version at which
 * it knows that process to rest. The asker follows these names from process to process, and asks each, until all that it reaches have
 * answered. If all rest, each at the very version at which those that wait for it know it to rest, none of them ever moves again, and the
 * call has failed.
 *
 * Proof: suppose that one of them does move, and take the first. It needs a message from the process that it named. That message was not
 * sent before that process answered, for messages arrive in order and it would have been taken; so that process has begun another exchange
 * since, and has moved earlier.
 * An exchange in pieces names those whose partial results it lacks: it may go on without one of them, but not to its end, and they do not
 * wait for what it sends meanwhile, for they have begun fewer blocks than it. It names nobody for what it has lent.
 * A process that computes, sleeps between two calls, or has a message on its way does not rest, so nothing is said about it. More than
 * EDGES exchanges of a call that wait at a time, and calls that have not begun in some process, are left to the timeout. */
#include "comm/messages/protocol.h"

#include "base/memory/alloc.h"

#include <string.h>

#define TRIED_FROM (2 * FIRST_ASKED) /* how long an operation has waited before a trail is begun for it */
#define GIVEN_UP   (500 * MS)        /* how long an unanswered trail is kept */

typedef struct rest { /* how this process's run of a call rests */
    bool rests, complete;
    uint64_t version;
    int count;
    const void *exchanges[EDGES];
    bool known[EDGES];
    mf_wait_edge edges[EDGES];
} rest;

/* False: there is no room for another edge. */
static bool add_waiting(rest *r, const mf_operation *op)
{
    int i = 0;
    while (i < r->count && r->exchanges[i] != op->of.exchange)
        i++;
    if (i == EDGES)
        return false;
    if (i == r->count) {
        r->exchanges[r->count++] = op->of.exchange;
        r->known[i] = false;
    }
    if (op->rests && !mf_operation_is_lent(op)) { /* a loan may come back without the borrower beginning anything */
        r->known[i] = true;
        r->edges[i] = (mf_wait_edge){ op->rest_version, (uint64_t)op->peer };
    }
    return true;
}

static void find_rest(const mf_messages *m, uint64_t call, rest *r)
{
    void *run = NULL;
    int messages = 0;
    r->rests = r->complete = false;
    r->version = 0;
    r->count = 0;
    for (int b = 0; b < BUCKETS; b++)
        for (const mf_operation *op = m->waiting[b]; op; op = op->next) {
            if (op->of.call != call)
                continue;
            run = op->of.run;
            messages++;
            if (!run || (op->of.exchange && !add_waiting(r, op)))
                return;
        }
    r->rests = run && mf_run_rests(run, r->count, messages, &r->version);
    r->complete = r->rests;
    for (int i = 0; i < r->count; i++)
        r->complete &= r->known[i];
}

/* ------------------------------------------------------------------ the answer */

size_t mf_crosswise_tell(const mf_messages *m, mf_message_header *h, mf_wait_edge *edges)
{
    rest r;
    find_rest(m, h->call, &r);
    h->check |= (r.rests ? RESTS : 0) | (r.complete ? COMPLETE : 0);
    h->place = r.version;
    h->tag = r.complete && h->id ? (uint32_t)r.count : 0;
    memcpy(edges, r.edges, h->tag * sizeof *r.edges);
    return h->tag * sizeof *r.edges;
}

/* ------------------------------------------------------------------ the trail */

static bool give_up(mf_trail *t)
{
    t->id = 0;
    return false;
}

/* Adds to the trail that this process is to be at this version, and asks it. False: it is known to be at another version, or memory is
 * out. */
static bool reach(mf_messages *m, uint64_t process, uint64_t version, mf_operation **finished)
{
    mf_trail *t = &m->trail;
    int i = 0;
    while (i < t->count && t->reached[i].process != process)
        i++;
    if (i < t->count)
        return t->reached[i].version == version;
    if (t->count == t->room) {
        int room = t->room ? 2 * t->room : 16;
        mf_reached *more = mf_realloc(t->reached, (size_t)room * sizeof *more);
        if (!more)
            return false;
        t->reached = more;
        t->room = room;
    }
    bool own = process == (uint64_t)m->comm.rank;
    t->reached[t->count++] = (mf_reached){ version, process, own };
    if (own)
        return true;
    t->missing++;
    mf_messages_say(m, (int)process, WHERE, t->call, t->id, NULL, finished);
    return true;
}

static bool follow(mf_messages *m, const mf_wait_edge *edges, int count, mf_operation **finished)
{
    for (int i = 0; i < count; i++)
        if (edges[i].process >= (uint64_t)m->comm.size || !reach(m, edges[i].process, edges[i].version, finished))
            return give_up(&m->trail);
    return true;
}

/* All processes on the trail have answered. */
static void conclude(mf_messages *m, mf_operation **finished)
{
    mf_trail *t = &m->trail;
    rest own;
    find_rest(m, t->call, &own);
    if (own.complete && own.version == t->reached[0].version)
        mf_messages_fail(m, mf_operation_is_of_call, &t->call, mf_peer_error_crosswise(m, t, (int)own.edges[0].process), finished);
    give_up(t);
}

static void begin(mf_messages *m, uint64_t call, int64_t now, mf_operation **finished)
{
    mf_trail *t = &m->trail;
    rest own;
    find_rest(m, call, &own);
    t->call = call;
    if (!own.complete)
        return;
    t->id = ++m->next_id;
    t->since = now;
    t->count = t->missing = 0;
    if (reach(m, (uint64_t)m->comm.rank, own.version, finished))
        follow(m, own.edges, own.count, finished);
    else
        give_up(t);
}

void mf_crosswise_hear(mf_messages *m, const mf_message_header *h, const void *edges, mf_operation **finished)
{
    mf_trail *t = &m->trail;
    mf_wait_edge known[EDGES];
    int i = 0;
    if (!t->id || h->id != t->id || h->call != t->call)
        return;
    while (i < t->count && t->reached[i].process != h->from)
        i++;
    if (i == t->count || t->reached[i].heard || !(h->check & COMPLETE) || h->place != t->reached[i].version) {
        give_up(t);
        return;
    }
    t->reached[i].heard = true;
    memcpy(known, edges, h->tag * sizeof *known);
    if (follow(m, known, (int)h->tag, finished) && !--t->missing)
        conclude(m, finished);
}

void mf_crosswise_look(mf_messages *m, int64_t now, mf_operation **finished)
{
    const mf_operation *first = NULL, *next = NULL; /* by call: the lowest; the lowest after the one tried last */
    if (m->trail.id && now - m->trail.since < GIVEN_UP)
        return;
    m->trail.id = 0;
    for (int b = 0; b < BUCKETS; b++)
        for (const mf_operation *op = m->waiting[b]; op; op = op->next) {
            if (!op->rests || now - op->since < TRIED_FROM)
                continue;
            first = !first || op->of.call < first->of.call ? op : first;
            if (op->of.call > m->trail.call && (!next || op->of.call < next->of.call))
                next = op;
        }
    if (first)
        begin(m, next ? next->of.call : first->of.call, now, finished);
}
