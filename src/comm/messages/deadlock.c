/* Deadlocks between processes: each has come to a collective of one call at which the others never arrive, because they run its
 * collectives in another order, inside a loop and outside, or in maps that another condition chose.
 *
 * A process that has waited for long asks the one it waits for where it is. With its STATUS that process says whether its run of the
 * call is blocked: nothing in it moves or is about to, except for exchanges that each still wait for a message. It also gives its version,
 * which is the number of exchanges that it has begun, and the edges of the wait-for graph that begin at it: for each waiting exchange one
 * process whose message is missing, with the version at which it knows that process to be blocked. The asker follows the edges from process
 * to process, and asks each, until all that it reaches have answered. If all are blocked, each at the very version at which those that wait
 * for it know it to be, none of them ever moves again, and the call has failed.
 *
 * Proof: suppose that one of them does move, and take the first. It needs a message from the process to which its edge leads. That message
 * was not sent before that process answered, for messages arrive in order and it would have been taken; so that process has begun another
 * exchange since, and has moved earlier.
 * A reduce-scatter waits for those whose partial results it lacks: it may go on without one of them, but not to its end, and they do
 * not wait for what it sends meanwhile, for they have begun fewer chunks than it. What it has lent makes no edge. A process that computes,
 * sleeps between two calls, or has a message on its way is not blocked, so nothing is said about it. More than EDGES exchanges of a call
 * that wait at a time, and calls that have not begun in some process, are left to the timeout. */
#include "comm/messages/protocol.h"

#include "base/memory/alloc.h"

#include <string.h>

#define SEARCH_AFTER   (2 * FIRST_QUERY) /* how long an operation has waited before a search begins for it */
#define SEARCH_TIMEOUT (500 * MS)        /* after which a search without an answer is given up */

typedef struct run_status { /* this process's run of a call */
    bool blocked, complete;
    uint64_t version;
    int count;
    const void *exchanges[EDGES];
    bool known[EDGES];
    mf_wait_edge edges[EDGES];
} run_status;

/* False: there is no room for another edge. */
static bool add_exchange(run_status *r, const mf_operation *op)
{
    int i = 0;
    while (i < r->count && r->exchanges[i] != op->tag.exchange)
        i++;
    if (i == EDGES)
        return false;
    if (i == r->count) {
        r->exchanges[r->count++] = op->tag.exchange;
        r->known[i] = false;
    }
    if (op->blocked && !mf_operation_is_lent(op)) { /* a loan may come back without the borrower beginning anything */
        r->known[i] = true;
        r->edges[i] = (mf_wait_edge){ op->blocked_version, (uint64_t)op->peer };
    }
    return true;
}

static void find_run_status(const mf_messages *m, uint64_t call, run_status *r)
{
    void *run = NULL;
    int messages = 0;
    r->blocked = r->complete = false;
    r->version = 0;
    r->count = 0;
    for (int b = 0; b < BUCKETS; b++)
        for (const mf_operation *op = m->waiting[b]; op; op = op->next) {
            if (op->tag.call != call)
                continue;
            run = op->tag.run;
            messages++;
            if (!run || (op->tag.exchange && !add_exchange(r, op)))
                return;
        }
    r->blocked = run && mf_run_is_blocked(run, r->count, messages, &r->version);
    r->complete = r->blocked;
    for (int i = 0; i < r->count; i++)
        r->complete &= r->known[i];
}

/* ------------------------------------------------------------------ the answer */

size_t mf_deadlock_fill_status(const mf_messages *m, mf_message_header *h, mf_wait_edge *edges)
{
    run_status r;
    find_run_status(m, h->call, &r);
    h->flags |= (r.blocked ? RUN_BLOCKED : 0) | (r.complete ? EDGES_COMPLETE : 0);
    h->version = r.version;
    h->edge_count = r.complete && h->id ? (uint32_t)r.count : 0;
    memcpy(edges, r.edges, h->edge_count * sizeof *r.edges);
    return h->edge_count * sizeof *r.edges;
}

/* ------------------------------------------------------------------ the search */

static bool stop_search(mf_wait_search *s)
{
    s->id = 0;
    return false;
}

/* Adds to the search that this process is to be blocked at this version, and asks it. False: it is known to be at another version, or
 * memory is out. */
static bool visit(mf_messages *m, uint64_t process, uint64_t version, mf_operation **finished)
{
    mf_wait_search *s = &m->search;
    int i = 0;
    while (i < s->count && s->nodes[i].process != process)
        i++;
    if (i < s->count)
        return s->nodes[i].version == version;
    if (s->count == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 16;
        mf_wait_node *more = mf_realloc(s->nodes, (size_t)capacity * sizeof *more);
        if (!more)
            return false;
        s->nodes = more;
        s->capacity = capacity;
    }
    bool own = process == (uint64_t)m->comm.rank;
    s->nodes[s->count++] = (mf_wait_node){ version, process, own };
    if (own)
        return true;
    s->missing++;
    mf_messages_post_text(m, (int)process, STATUS_QUERY, s->call, s->id, NULL, finished);
    return true;
}

static bool follow_edges(mf_messages *m, const mf_wait_edge *edges, int count, mf_operation **finished)
{
    for (int i = 0; i < count; i++)
        if (edges[i].process >= (uint64_t)m->comm.size || !visit(m, edges[i].process, edges[i].version, finished))
            return stop_search(&m->search);
    return true;
}

/* All processes that the search has reached have answered. */
static void report_deadlock(mf_messages *m, mf_operation **finished)
{
    mf_wait_search *s = &m->search;
    run_status own;
    find_run_status(m, s->call, &own);
    if (own.complete && own.version == s->nodes[0].version)
        mf_messages_fail(m, mf_operation_is_of_call, &s->call, mf_peer_error_deadlock(m, s, (int)own.edges[0].process), finished);
    stop_search(s);
}

static void start_search(mf_messages *m, uint64_t call, int64_t now, mf_operation **finished)
{
    mf_wait_search *s = &m->search;
    run_status own;
    find_run_status(m, call, &own);
    s->call = call;
    if (!own.complete)
        return;
    s->id = ++m->next_id;
    s->since = now;
    s->count = s->missing = 0;
    if (visit(m, (uint64_t)m->comm.rank, own.version, finished))
        follow_edges(m, own.edges, own.count, finished);
    else
        stop_search(s);
}

void mf_deadlock_handle_status(mf_messages *m, const mf_message_header *h, const void *edges, mf_operation **finished)
{
    mf_wait_search *s = &m->search;
    mf_wait_edge known[EDGES];
    int i = 0;
    if (!s->id || h->id != s->id || h->call != s->call)
        return;
    while (i < s->count && s->nodes[i].process != h->from)
        i++;
    if (i == s->count || s->nodes[i].answered || !(h->flags & EDGES_COMPLETE) || h->version != s->nodes[i].version) {
        stop_search(s);
        return;
    }
    s->nodes[i].answered = true;
    memcpy(known, edges, h->edge_count * sizeof *known);
    if (follow_edges(m, known, (int)h->edge_count, finished) && !--s->missing)
        report_deadlock(m, finished);
}

void mf_deadlock_search(mf_messages *m, int64_t now, mf_operation **finished)
{
    const mf_operation *first = NULL, *next = NULL; /* by call: the lowest; the lowest after the one tried last */
    if (m->search.id && now - m->search.since < SEARCH_TIMEOUT)
        return;
    m->search.id = 0;
    for (int b = 0; b < BUCKETS; b++)
        for (const mf_operation *op = m->waiting[b]; op; op = op->next) {
            if (!op->blocked || now - op->since < SEARCH_AFTER)
                continue;
            first = !first || op->tag.call < first->tag.call ? op : first;
            if (op->tag.call > m->search.call && (!next || op->tag.call < next->tag.call))
                next = op;
        }
    if (first)
        start_search(m, next ? next->tag.call : first->tag.call, now, finished);
}
