/* Progress: handles messages that have arrived, continues operations that wait for room or move bytes, and asks the processes that keep
 * others waiting where they are. Invariants: nothing here blocks; headers from one process are handled in the order in which it sent
 * them. The lock is held. */
#include "comm/messages/protocol.h"

#include "base/memory/alloc.h"
#include "runtime/profile/profiler.h"

static void *slot(const mf_messages *m, int i) { return m->ring + (size_t)i * SLOT; }

bool mf_messages_receive_next(mf_messages *m, mf_operation **finished)
{
    m->requests[m->head] = 0;
    int code = m->link->receive(m->link, -1, 0, slot(m, m->head), SLOT, &m->requests[m->head]);
    if (code)
        mf_messages_fail_all(m, m->link->error(m->link, code), finished);
    m->head = (m->head + 1) % RING;
    return !code;
}

static bool poll_headers(mf_messages *m, mf_operation **finished)
{
    bool came = false;
    for (int n = 0; n < 64 && !m->broken; n++) {
        bool done = false;
        size_t count = 0;
        int code = m->link->test(m->link, &m->requests[m->head], &done, &count);
        if (code)
            mf_messages_fail_all(m, m->link->error(m->link, code), finished);
        if (code || !done)
            break;
        came = true;
        mf_messages_handle(m, slot(m, m->head), count, finished);
        mf_messages_receive_next(m, finished);
    }
    return came;
}

/* Messages that came by shared memory, and messages to it that had no room in their ring. */
static bool poll_near(mf_messages *m, mf_operation **finished)
{
    bool came = false;
    for (int i = 0; i < m->near_count; i++) {
        mf_peer *p = &m->peers[m->near[i]];
        const unsigned char *bytes;
        size_t count;
        for (int n = 0; n < 64 && !m->broken && (bytes = mf_ring_next(p->from, &count)); n++) {
            came = true;
            mf_messages_handle(m, bytes, count, finished);
            if (count <= MF_RING_BYTES)
                mf_ring_take(p->from, count);
        }
        for (mf_outgoing *o; (o = p->queue);) {
            const mf_ring_part parts[3] = { { &o->head, sizeof o->head }, { o->payload, o->count }, { "", 0 } };
            if (!mf_ring_put(p->to, parts))
                break;
            p->queue = o->next;
            m->queued--;
            mf_free(o);
        }
    }
    return came;
}

static void poll_outgoing(mf_messages *m, mf_operation **finished)
{
    for (mf_outgoing **at = &m->outgoing, *o; (o = *at);) {
        bool done = false;
        int code = m->link->test(m->link, &o->request, &done, NULL);
        if (code)
            mf_messages_fail_all(m, m->link->error(m->link, code), finished);
        if (code || done) {
            *at = o->next;
            mf_free(o);
        } else {
            at = &o->next;
        }
    }
}

/* A piece has moved: starts the next one, or finishes. An empty message in place of a piece says that the offer was withdrawn. */
static void moved(mf_messages *m, mf_operation *op, size_t count, mf_operation **finished)
{
    if (!op->sends && count != op->piece) {
        mf_operation_ask_why(m, op);
        return;
    }
    op->moved += op->piece;
    if (op->moved < op->count)
        mf_operation_move(m, op, finished);
    else
        mf_operation_finish(op, NULL, finished);
}

static bool poll_moving(mf_messages *m, mf_operation **finished)
{
    bool any_moved = false;
    mf_operation *list = m->moving;
    m->moving = NULL;
    for (mf_operation *next, *op = list; op; op = next) {
        bool done = false;
        size_t count = op->piece;
        next = op->next;
        int code = m->link->test(m->link, &op->request, &done, op->sends ? NULL : &count);
        if (code) {
            mf_error_object *error = m->link->error(m->link, code);
            mf_messages_fail_all(m, mf_retain(error), finished);
            mf_operation_finish(op, error, finished);
        } else if (done) {
            any_moved = true;
            moved(m, op, count, finished);
        } else {
            op->next = m->moving;
            m->moving = op;
        }
    }
    return any_moved;
}

static void query_status(mf_messages *m, mf_operation *op, int64_t now, mf_operation **finished)
{
    if (now < op->query_at)
        return;
    int64_t interval = (now - op->since) / 4;
    op->query_at = now + (interval < FIRST_QUERY ? FIRST_QUERY : interval < QUERY_INTERVAL_MOST ? interval : QUERY_INTERVAL_MOST);
    const mf_call_record *r = mf_comm_record(&m->comm, op->tag.call);
    mf_messages_post_text(m, op->peer, STATUS_QUERY, op->tag.call, 0, r ? atomic_load(&r->function) : NULL, finished);
}

/* A peer that is blocked in the call itself knows better for whom it waits, and reports that in time; a borrower may still be waiting for
 * another process. Both get longer. */
static bool is_late(const mf_operation *op, int64_t than)
{
    return op->since < than - (op->blocked || mf_operation_is_lent(op) ? QUERY_INTERVAL_MOST : 0);
}

/* Asks the processes that keep operations waiting where they are, and fails operations that have waited for the timeout. */
static void check_waiting(mf_messages *m, int64_t now, mf_operation **finished)
{
    if (now < m->query_at)
        return;
    m->query_at = now + FIRST_QUERY / 2;
    for (int b = 0; b < BUCKETS; b++)
        for (mf_operation **at = &m->waiting[b], *op; (op = *at);)
            if (is_late(op, now - m->timeout) && mf_operation_may_end(m, op)) {
                *at = op->next;
                mf_operation_finish(op, mf_peer_error_late(m, op, now), finished);
            } else {
                at = &op->next;
                query_status(m, op, now, finished);
            }
    mf_deadlock_search(m, now, finished);
}

bool mf_messages_progress(mf_messages *m, mf_operation **finished)
{
    if (m->closed)
        return false;
    bool some = poll_near(m, finished);
    if (m->near_count + 1 < m->comm.size) /* otherwise all processes share memory, and nothing comes over the link */
        some |= poll_headers(m, finished);
    poll_outgoing(m, finished);
    some |= poll_moving(m, finished);
    if (m->progress_count++ % POLLS_PER_CHECK == 0) {
        m->now = mf_profile_now_coarse();
        check_waiting(m, m->now, finished);
    }
    return some;
}
