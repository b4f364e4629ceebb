/* A communicator by messages: sends and receives, the end of calls, and leaving. protocol.c has the protocol, driver.c the thread that
 * makes progress where no other thread polls. Invariants: those of protocol.c; the driver ends before this process says goodbye. */
#include "comm/messages/protocol.h"

#include "array/array.h"
#include "base/memory/alloc.h"
#include "runtime/profile/profiler.h"

#include <stdio.h>
#include <time.h>

#define SILENT_AT_LEAST (10000 * MS) /* before a process that leaves gives up on silent ones */

/* ------------------------------------------------------------------ the communicator */

/* Whether a poll would find nothing, as far as can be seen without the lock: most polls find nothing where all processes share memory.
 * One poll in POLLS_PER_CHECK takes the lock all the same, for it also looks after operations that wait too long. */
static bool nothing_came(const mf_messages *m, unsigned poll_count)
{
    if (poll_count % POLLS_PER_CHECK == 0 || m->near_count + 1 < m->comm.size || atomic_load_explicit(&m->moves, memory_order_relaxed))
        return false;
    for (int i = 0; i < m->near_count; i++)
        if (mf_ring_holds_some(m->peers[m->near[i]].from))
            return false;
    return true;
}

static mf_comm_activity poll_comm(mf_comm *c)
{
    mf_messages *m = (mf_messages *)c;
    if (!atomic_load_explicit(&m->comm.awaited, memory_order_relaxed))
        return MF_COMM_IDLE;
    unsigned poll_count = atomic_fetch_add_explicit(&m->polls, 1, memory_order_relaxed);
    mf_operation *finished = NULL;
    if (nothing_came(m, poll_count))
        return MF_COMM_AWAITS;
    if (pthread_mutex_trylock(&m->lock) == 0) {
        mf_messages_progress(m, &finished);
        atomic_store_explicit(&m->moves, m->moving != NULL, memory_order_relaxed);
        pthread_mutex_unlock(&m->lock);
        mf_operations_call_back(m, finished);
    }
    return atomic_load_explicit(&m->moves, memory_order_relaxed) ? MF_COMM_MOVES : MF_COMM_AWAITS;
}

/* Wakes the driver if it sleeps: it looks after waiting operations where no thread polls. */
static void wait_for_other_side(mf_messages *m, mf_operation *op, unsigned bucket)
{
    op->since = m->now = mf_profile_now_coarse();
    op->query_at = op->since + FIRST_QUERY;
    op->next = m->waiting[bucket];
    m->waiting[bucket] = op;
    if (m->idle)
        pthread_cond_signal(&m->news);
}

static mf_operation *new_operation(mf_messages *m, bool sends, int to, const mf_message_tag *tag, void *bytes, size_t count,
                                   mf_message_done done, void *context)
{
    mf_operation *op = mf_calloc(1, sizeof *op);
    if (!op) {
        done(context, mf_error_out_of_memory());
        return NULL;
    }
    *op = (mf_operation){ .sends = sends, .peer = to, .tag = *tag, .bytes = bytes, .count = count, .done = done, .context = context };
    atomic_fetch_add(&m->comm.awaited, 1);
    return op;
}

static bool fits_window(const mf_messages *m, int to, size_t count)
{
    return count <= (m->peers[to].to ? INLINE_NEAR : INLINE_MOST) && m->peers[to].sent - m->peers[to].acknowledged + count <= WINDOW;
}

static void offer(mf_messages *m, mf_operation *op, mf_operation **finished)
{
    op->id = ++m->next_id;
    mf_message_header h = {
        .kind = OFFER, .call = op->tag.call, .place = op->tag.place, .check = op->tag.check, .size = op->count, .id = op->id
    };
    h.at = m->peers[op->peer].to ? mf_operation_lend(m, op) : 0;
    wait_for_other_side(m, op, (unsigned)(op->id % BUCKETS));
    if (!mf_messages_post(m, op->peer, h, NULL, 0, &op->tag, finished)) {
        mf_operation_unlink(&m->waiting[op->id % BUCKETS], op);
        mf_operation_finish(op, mf_error_out_of_memory(), finished);
    }
}

/* Remembers the collective, for processes that ask where this one is. */
static void note(mf_messages *m, const mf_message_tag *tag)
{
    if (!tag->description)
        return;
    m->last_collective = tag->description;
    m->last_at = m->now = mf_profile_now_coarse(); /* m->now may be old */
}

/* Copies a payload that is to go by shared memory and does not lie there yet, if there is room. */
static void copy_to_lend(const mf_messages *m, mf_operation *op)
{
    if (!m->peers[op->peer].to || op->count <= INLINE_NEAR || mf_shared_find(m->shared, op->bytes, op->count))
        return;
    op->copied = mf_memory_get_shared(op->count);
    if (op->copied)
        memcpy(op->copied, op->bytes, op->count);
}

/* Sends a message that fits the window, which needs no operation. False: it does not fit. */
static bool send_inline(mf_messages *m, int to, const mf_message_tag *tag, const void *bytes, size_t count, mf_message_done done,
                        void *context)
{
    mf_operation *finished = NULL;
    pthread_mutex_lock(&m->lock);
    bool goes = !mf_messages_is_lost(m, to, tag) && fits_window(m, to, count), posted = false;
    if (goes) {
        note(m, tag);
        m->peers[to].sent += count;
        mf_message_header h = { .kind = DATA, .call = tag->call, .place = tag->place, .check = tag->check, .size = count };
        posted = mf_messages_post(m, to, h, bytes, count, tag, &finished);
    }
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
    if (goes)
        done(context, posted ? NULL : mf_error_out_of_memory());
    return goes;
}

static void send_message(mf_comm *c, int to, const mf_message_tag *tag, const void *bytes, size_t count, mf_message_done done,
                         void *context)
{
    mf_messages *m = (mf_messages *)c;
    if (send_inline(m, to, tag, bytes, count, done, context))
        return;
    mf_operation *op = new_operation(m, true, to, tag, (void *)(uintptr_t)bytes, count, done, context), *finished = NULL;
    if (!op)
        return;
    copy_to_lend(m, op);
    pthread_mutex_lock(&m->lock);
    note(m, tag);
    if (mf_messages_is_lost(m, to, tag))
        mf_operation_finish(op, mf_messages_gone_error(m, to), &finished);
    else
        offer(m, op, &finished);
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
}

static mf_arrived *take_arrived(mf_messages *m, int from, const mf_message_tag *tag)
{
    for (mf_arrived **at = &m->arrived[mf_messages_bucket(from, tag)]; *at; at = &(*at)->next) {
        mf_arrived *a = *at;
        if ((int)a->head.from == from && a->head.call == tag->call && a->head.place == tag->place) {
            *at = a->next;
            m->arrived_count--;
            return a;
        }
    }
    return NULL;
}

/* Tells a process from which much arrives, and to which no messages go, what was taken. */
static void acknowledge(mf_messages *m, int from, mf_operation **finished)
{
    if (m->peers[from].taken - m->peers[from].reported > WINDOW / 4)
        mf_messages_post_text(m, from, WINDOW_UPDATE, 0, 0, NULL, finished);
}

static void borrow_message(mf_comm *c, int from, const mf_message_tag *tag, void *bytes, size_t count, mf_loan *loan, mf_message_done done,
                           void *context)
{
    mf_messages *m = (mf_messages *)c;
    mf_operation *op = new_operation(m, false, from, tag, bytes, count, done, context), *finished = NULL;
    if (!op)
        return;
    op->loan = loan;
    pthread_mutex_lock(&m->lock);
    note(m, tag);
    mf_arrived *a = take_arrived(m, from, tag);
    if (a && a->head.kind == DATA)
        mf_messages_deliver(m, op, &a->head, a->payload, &finished);
    else if (mf_messages_is_lost(m, from, tag))
        mf_operation_finish(op, mf_messages_gone_error(m, from), &finished);
    else if (a)
        mf_messages_accept_offer(m, op, &a->head, a->payload, &finished);
    else
        wait_for_other_side(m, op, mf_messages_bucket(from, tag));
    acknowledge(m, from, &finished);
    pthread_mutex_unlock(&m->lock);
    mf_free(a);
    mf_operations_call_back(m, finished);
}

static void receive_message(mf_comm *c, int from, const mf_message_tag *tag, void *bytes, size_t count, mf_message_done done, void *context)
{
    borrow_message(c, from, tag, bytes, count, NULL, done, context);
}

static bool return_loan(mf_comm *c, int to, uint64_t call, const mf_loan *loan)
{
    mf_messages *m = (mf_messages *)c;
    mf_operation *finished = NULL;
    if (!loan->id)
        return true;
    pthread_mutex_lock(&m->lock);
    bool good = mf_loan_return(m, to, loan->id);
    if (good)
        mf_messages_post_text(m, to, PAYLOAD_READ, call, loan->id, NULL, &finished);
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
    return good;
}

static void drop_arrived(mf_messages *m, uint64_t call, bool all, mf_operation **finished)
{
    for (int b = 0; b < BUCKETS && m->arrived_count; b++)
        for (mf_arrived **at = &m->arrived[b], *a; (a = *at);)
            if (all || a->head.call == call) {
                *at = a->next;
                m->arrived_count--;
                mf_messages_refuse(m, &a->head, finished);
                mf_free(a);
            } else {
                at = &a->next;
            }
}

void mf_messages_abort(mf_messages *m, uint64_t call, const char *why, mf_operation **finished)
{
    if (mf_messages_is_over(m, call))
        return;
    m->aborts[m->next_abort].call = call + 1;
    snprintf(m->aborts[m->next_abort].reason, TEXT_MOST, "%s", *why ? why : "failed");
    m->next_abort = (m->next_abort + 1) % ABORTS_KEPT;
    mf_messages_fail(m, mf_operation_is_of_call, &call, mf_error_new(MF_ERROR_PEER, "process %d: %s", m->comm.rank, why), finished);
    drop_arrived(m, call, false, finished);
}

static void abort_call(mf_comm *c, uint64_t call, const char *why)
{
    mf_messages *m = (mf_messages *)c;
    mf_operation *finished = NULL;
    pthread_mutex_lock(&m->lock);
    mf_messages_abort(m, call, why, &finished);
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
}

static void end_call(mf_comm *c, uint64_t call)
{
    mf_messages *m = (mf_messages *)c;
    mf_operation *finished = NULL;
    pthread_mutex_lock(&m->lock);
    mf_messages_set_ended(m, call);
    drop_arrived(m, call, false, &finished);
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
}

static bool is_with(const mf_messages *m, const mf_operation *op, const void *process)
{
    return op->peer == *(const int *)process || mf_messages_is_lost(m, op->peer, &op->tag);
}

/* Payloads that move between this process and a dead one never end, and the link may still access their memory; so the link is closed,
 * and all of its operations fail. */
static void give_up_moving(mf_messages *m, int process, mf_operation **finished)
{
    bool any_with = false;
    for (const mf_operation *op = m->moving; op; op = op->next)
        any_with |= op->peer == process;
    if (!any_with)
        return;
    m->closed = true;
    for (mf_operation *op = m->moving, *next; op; op = next) {
        next = op->next;
        mf_operation_finish(op, mf_messages_dead_error(m), finished);
    }
    m->moving = NULL;
    mf_messages_fail_all(m, mf_messages_dead_error(m), finished);
}

void mf_messages_died(mf_comm *c, int process)
{
    mf_messages *m = (mf_messages *)c;
    mf_operation *finished = NULL;
    pthread_mutex_lock(&m->lock);
    if (!m->any_dead)
        m->first_dead = process;
    m->peers[process].dead = m->any_dead = true;
    mf_messages_fail(m, is_with, &process, mf_messages_dead_error(m), &finished);
    give_up_moving(m, process, &finished);
    mf_key_value_wake(m);
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
}

/* ------------------------------------------------------------------ leaving */

static bool nothing_moves(const mf_messages *m) { return !m->outgoing && !m->moving && !m->queued; }

/* All tell process 0 that they leave, and it tells all once everybody does; until then every process answers questions. */
static bool depends_on(const mf_messages *m, int p) { return m->comm.rank ? p == 0 && !m->all_left : p && !m->peers[p].left; }

static bool everybody_leaves(const mf_messages *m)
{
    for (int p = 0; p < m->comm.size; p++)
        if (depends_on(m, p))
            return false;
    return true;
}

/* Whether all processes on which leaving depends have given a sign of life of late; asks them for one. */
static bool are_alive(mf_messages *m, int64_t since, int64_t now, mf_operation **finished)
{
    if (now < m->query_at)
        return true;
    m->query_at = now + QUERY_INTERVAL_MOST;
    for (int p = 0; p < m->comm.size; p++) {
        int64_t heard = m->peers[p].last_heard > since ? m->peers[p].last_heard : since;
        if (!depends_on(m, p))
            continue;
        if (now - heard > m->timeout && now - heard > SILENT_AT_LEAST)
            return false;
        mf_messages_post_text(m, p, STATUS_QUERY, UINT64_MAX, 0, NULL, finished);
    }
    return true;
}

static bool wait_until(mf_messages *m, bool (*then)(const mf_messages *))
{
    int64_t since = mf_profile_now(), nap = NAP_MIN;
    m->query_at = since + FIRST_QUERY;
    for (bool reached = false, alive = true; alive;) {
        mf_operation *finished = NULL;
        pthread_mutex_lock(&m->lock);
        bool some = mf_messages_progress(m, &finished);
        reached = then(m);
        alive = !reached && !m->broken && !m->any_dead && are_alive(m, since, mf_profile_now(), &finished);
        pthread_mutex_unlock(&m->lock);
        mf_operations_call_back(m, finished);
        if (reached)
            return true;
        nap = some ? NAP_MIN : nap < NAP_MAX ? nap + nap / 8 : NAP_MAX;
        nanosleep(&(struct timespec){ 0, nap }, NULL);
    }
    return false;
}

/* Completes the posted receives for headers, by sending headers to itself. */
static bool take_receives_back(mf_messages *m)
{
    mf_message_header nothing = { .kind = WINDOW_UPDATE, .from = (uint32_t)m->comm.rank };
    uintptr_t sent[RING] = { 0 };
    for (int i = 0; i < RING; i++)
        if (m->link->send(m->link, m->comm.rank, 0, &nothing, sizeof nothing, &sent[i]))
            return false;
    int64_t end = mf_profile_now() + QUERY_INTERVAL_MOST;
    for (int i = 0; i < 2 * RING && mf_profile_now() < end;) {
        bool done = false;
        size_t count;
        uintptr_t *request = i < RING ? &m->requests[i] : &sent[i - RING];
        if (m->link->test(m->link, request, &done, &count))
            return false;
        i += done;
    }
    return true;
}

static bool say_goodbye(mf_messages *m)
{
    mf_operation *finished = NULL;
    if (!wait_until(m, nothing_moves))
        return false;
    pthread_mutex_lock(&m->lock);
    if (m->comm.rank)
        mf_messages_post_text(m, 0, LEAVING, 0, 0, NULL, &finished);
    pthread_mutex_unlock(&m->lock);
    if (!wait_until(m, everybody_leaves))
        return false;
    pthread_mutex_lock(&m->lock);
    for (int p = 1; !m->comm.rank && p < m->comm.size; p++)
        mf_messages_post_text(m, p, ALL_LEFT, 0, 0, NULL, &finished);
    pthread_mutex_unlock(&m->lock);
    return wait_until(m, nothing_moves);
}

static bool leave(mf_comm *c, const char *why)
{
    mf_messages *m = (mf_messages *)c;
    mf_operation *finished = NULL;
    pthread_mutex_lock(&m->lock);
    bool first = !m->left;
    if (first) {
        m->left = why;
        mf_messages_fail(m, mf_operation_any, NULL, mf_messages_gone_error(m, -1), &finished);
        drop_arrived(m, 0, true, &finished);
        mf_key_value_wake(m);
    }
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
    if (!first)
        return false;
    mf_driver_stop(m);
    bool good = say_goodbye(m);
    pthread_mutex_lock(&m->lock);
    good = good && !m->closed && take_receives_back(m);
    m->closed = true;
    pthread_mutex_unlock(&m->lock);
    return good;
}

static void free_outgoing(mf_outgoing *list)
{
    for (mf_outgoing *o = list, *next; o; o = next) {
        next = o->next;
        mf_free(o);
    }
}

static void free_memory(mf_messages *m)
{
    free_outgoing(m->outgoing);
    for (int b = 0; b < BUCKETS; b++)
        for (mf_arrived *a = m->arrived[b], *next; a; a = next) {
            next = a->next;
            mf_free(a);
        }
    for (mf_group_calls *g = m->groups, *next; g; g = next) {
        next = g->next;
        mf_free(g);
    }
    for (int p = 0; m->peers && p < m->comm.size; p++) {
        mf_free(m->peers[p].status);
        free_outgoing(m->peers[p].queue);
    }
    mf_free(m->near);
    mf_free(m->search.nodes);
    mf_error_ignore(m->broken);
    mf_comm_free_groups(&m->comm);
    mf_free(m->peers);
    mf_free(m->ring);
    mf_free(m);
}

void mf_messages_free(mf_comm *c)
{
    mf_messages *m = (mf_messages *)c;
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->news);
    mf_key_value_end(m);
    free_memory(m);
}

mf_comm *mf_messages_new(mf_link *link, int rank, int size, const int *first_device, double timeout, mf_error_object **error)
{
    mf_messages *m = mf_calloc(1, sizeof *m);
    *error = NULL;
    if (m) {
        m->peers = mf_calloc((size_t)size, sizeof *m->peers);
        m->ring = mf_alloc(RING * SLOT);
    }
    if (!m || !m->peers || !m->ring) {
        if (m)
            free_memory(m);
        *error = mf_error_out_of_memory();
        return NULL;
    }
    m->comm = (mf_comm){ .rank = rank,
                         .size = size,
                         .first_device = first_device,
                         .send = send_message,
                         .receive = receive_message,
                         .borrow = borrow_message,
                         .return_loan = return_loan,
                         .abort = abort_call,
                         .end = end_call,
                         .poll = poll_comm,
                         .put = mf_key_value_put,
                         .get = mf_key_value_get,
                         .leave = leave };
    mf_comm_count_devices(&m->comm);
    m->link = link;
    m->timeout = (int64_t)(timeout * 1e9);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->news, NULL);
    mf_key_value_begin(m);
    mf_operation *finished = NULL;
    for (int i = 0; i < RING && !m->broken; i++)
        mf_messages_receive_next(m, &finished);
    if (!m->broken && !mf_driver_start(m))
        m->broken = mf_error_new(MF_ERROR_MEMORY, "the system refuses the thread that messages between processes need");
    /* Of a broken communicator nothing is freed: receives that are posted may still write to its ring. */
    *error = m->broken ? mf_retain(m->broken) : NULL;
    return m->broken ? NULL : &m->comm;
}

bool mf_messages_share(mf_comm *c, const mf_shared_memory *s, const int *processes)
{
    mf_messages *m = (mf_messages *)c;
    int *near = mf_alloc((size_t)s->count * sizeof *near);
    if (!near)
        return false;
    pthread_mutex_lock(&m->lock);
    m->shared = s;
    m->near = near;
    m->comm.together = s->count == m->comm.size;
    for (int i = 0; i < s->count; i++) {
        if (i == s->own)
            continue;
        mf_peer *p = &m->peers[processes[i]];
        p->number = i;
        p->to = mf_shared_ring(s, s->own, i);
        p->from = mf_shared_ring(s, i, s->own);
        near[m->near_count++] = processes[i];
    }
    pthread_mutex_unlock(&m->lock);
    return true;
}
