/* Operations: sends and receives that wait for the other side or move bytes, and how they end. Invariants: an operation that has ended
 * is in no list but `finished`; each `done` is called once, without the lock, in the order in which the operations ended. Everything
 * else here runs with the lock held. */
#include "comm/messages/protocol.h"

#include "array/array.h"
#include "base/memory/alloc.h"

void mf_operation_unlink(mf_operation **list, mf_operation *op)
{
    while (*list != op)
        list = &(*list)->next;
    *list = op->next;
}

void mf_operation_finish(mf_operation *op, mf_error_object *error, mf_operation **finished)
{
    op->error = error;
    op->next = *finished;
    *finished = op;
}

/* Copies a payload from shared memory, and tells its owner that it may reuse the memory. */
static void take_payload(mf_messages *m, mf_operation *op)
{
    mf_operation *finished = NULL;
    memcpy(op->bytes, op->from, op->count);
    pthread_mutex_lock(&m->lock);
    mf_messages_post_text(m, op->peer, PAYLOAD_READ, op->tag.call, op->id, NULL, &finished);
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
}

static mf_operation *reversed(mf_operation *list)
{
    mf_operation *made = NULL;
    for (mf_operation *next; list; list = next) {
        next = list->next;
        list->next = made;
        made = list;
    }
    return made;
}

/* In the order in which they ended, so the first error reported is the first that occurred. The lock is not held. */
void mf_operations_call_back(mf_messages *m, mf_operation *finished)
{
    finished = reversed(finished);
    for (mf_operation *next; finished; finished = next) {
        next = finished->next;
        if (finished->loan && !finished->error)
            *finished->loan = finished->from ? (mf_loan){ finished->from, finished->id } : (mf_loan){ finished->bytes, 0 };
        else if (finished->from)
            take_payload(m, finished);
        if (finished->offered)
            atomic_store(finished->offered, 0);
        mf_memory_put(finished->copied, finished->count);
        atomic_fetch_sub(&m->comm.awaited, 1);
        if (finished->done)
            finished->done(finished->context, mf_peer_error_complete(finished->error, &finished->tag));
        else
            mf_error_ignore(finished->error);
        mf_free(finished);
    }
}

bool mf_messages_is_gone(const mf_messages *m, int process) { return m->left || m->broken || m->peers[process].dead; }

/* A message of a call of all processes may come from any of them, relayed by others; so one death loses all such messages. */
bool mf_messages_is_lost(const mf_messages *m, int process, const mf_message_tag *tag)
{
    return mf_messages_is_gone(m, process) || (m->any_dead && !(tag->call >> MF_CALL_BITS));
}

void mf_messages_fail(mf_messages *m, bool (*fits)(const mf_messages *, const mf_operation *, const void *), const void *what,
                      mf_error_object *error, mf_operation **finished)
{
    for (int b = 0; b < BUCKETS; b++)
        for (mf_operation **at = &m->waiting[b], *op; (op = *at);)
            if (fits(m, op, what) && mf_operation_may_end(m, op)) {
                *at = op->next;
                mf_operation_finish(op, mf_retain(error), finished);
            } else {
                at = &op->next;
            }
    mf_error_ignore(error);
}

bool mf_operation_is_of_call(const mf_messages *m, const mf_operation *op, const void *call)
{
    (void)m;
    return op->tag.call == *(const uint64_t *)call;
}

bool mf_operation_any(const mf_messages *m, const mf_operation *op, const void *unused)
{
    (void)m;
    (void)op;
    (void)unused;
    return true;
}

void mf_messages_fail_all(mf_messages *m, mf_error_object *error, mf_operation **finished)
{
    if (!m->broken)
        m->broken = mf_retain(error);
    mf_key_value_wake(m);
    mf_messages_fail(m, mf_operation_any, NULL, error, finished);
}
