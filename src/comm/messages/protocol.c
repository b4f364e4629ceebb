/* The protocol by which messages travel between processes: how a message is matched with its receive, how large it may be, and what happens
 * when one never comes.
 *
 * Every message begins with a header of fixed size, sent under tag 0. A small payload goes with its header (eager). A large one is only
 * offered (rendezvous): the receiver clears it to be sent once it has a buffer of exactly that size, so no transfer can be longer than its
 * buffer. A process that has waited for long asks the sender for its status; the answer is that the call is over there, successfully or
 * not, or a sign of life. A successful call needs no such query.
 * Invariants: the lock guards all; no lock is held while a `done` runs; nothing of a header is used before its sizes and numbers were
 * checked; what a process sent before an answer is handled before the answer. */
#include "comm/messages/protocol.h"

#include "base/memory/alloc.h"
#include "base/memory/intern.h"
#include "runtime/profile/profiler.h"

#define MAGIC 0x31304d4du /* identifies this format of header; another format or byte order has another value */

unsigned mf_messages_bucket(int peer, const mf_message_tag *tag)
{
    return (unsigned)mf_hash_mix(tag->call * 31 + (uint64_t)peer, tag->place) % BUCKETS;
}

/* ------------------------------------------------------------------ sending; the lock is held */

static size_t description_bytes(const mf_message_tag *tag) { return tag->description ? strnlen(tag->description, TEXT_MOST - 1) : 0; }

static mf_outgoing *new_outgoing(const mf_ring_part parts[3])
{
    size_t count = parts[1].count + parts[2].count;
    mf_outgoing *o = mf_alloc(sizeof *o + count);
    if (!o)
        return NULL;
    o->next = NULL;
    o->request = 0;
    o->count = count;
    memcpy(&o->head, parts[0].at, sizeof o->head);
    memcpy(o->payload, parts[1].at, parts[1].count);
    memcpy(o->payload + parts[1].count, parts[2].at, parts[2].count);
    return o;
}

/* Puts the message into the peer's ring, or into its queue where the ring is full. False: memory is out. */
static bool post_near(mf_messages *m, mf_peer *p, const mf_ring_part parts[3])
{
    if (!p->queue && mf_ring_put(p->to, parts))
        return true;
    mf_outgoing **end = &p->queue, *o = new_outgoing(parts);
    if (!o)
        return false;
    while (*end)
        end = &(*end)->next;
    *end = o;
    m->queued++;
    return true;
}

static bool post_far(mf_messages *m, int to, const mf_ring_part parts[3], mf_operation **finished)
{
    mf_outgoing *o = new_outgoing(parts);
    if (!o)
        return false;
    int code = m->link->send(m->link, to, 0, &o->head, sizeof o->head + o->count, &o->request);
    if (code) {
        mf_free(o);
        mf_messages_fail_all(m, m->link->error(m->link, code), finished);
        return true;
    }
    o->next = m->outgoing;
    m->outgoing = o;
    return true;
}

bool mf_messages_post(mf_messages *m, int to, mf_message_header h, const void *payload, size_t count, const mf_message_tag *tag,
                      mf_operation **finished)
{
    size_t text = tag ? description_bytes(tag) : 0;
    mf_peer *p = &m->peers[to];
    h.magic = MAGIC;
    h.from = (uint32_t)m->comm.rank;
    h.taken = p->reported = p->taken;
    if (tag)
        h.text_bytes = (uint32_t)text;
    const mf_ring_part parts[3] = { { &h, sizeof h }, { count ? payload : "", count }, { text ? tag->description : "", text } };
    return p->to ? post_near(m, p, parts) : post_far(m, to, parts, finished);
}

static bool post(mf_messages *m, int to, mf_message_header h, const void *payload, size_t count, mf_operation **finished)
{
    return mf_messages_post(m, to, h, payload, count, NULL, finished);
}

void mf_messages_post_text(mf_messages *m, int to, mf_message_kind k, uint64_t call, uint64_t id, const char *text, mf_operation **finished)
{
    size_t count = text ? strnlen(text, TEXT_MOST - 1) : 0;
    post(m, to, (mf_message_header){ .kind = k, .call = call, .id = id, .size = count }, text, count, finished);
}

/* Starts the next piece of a payload. False: the link has failed, and the operation with it. */
static bool move(mf_messages *m, mf_operation *op, mf_operation **finished)
{
    op->piece = op->count - op->moved < m->link->most ? op->count - op->moved : m->link->most;
    op->request = 0;
    int code = op->sends ? m->link->send(m->link, op->peer, op->link_tag, op->bytes + op->moved, op->piece, &op->request)
                         : m->link->receive(m->link, op->peer, op->link_tag, op->bytes + op->moved, op->piece, &op->request);
    if (!code)
        return true;
    mf_error_object *error = m->link->error(m->link, code);
    mf_messages_fail_all(m, mf_retain(error), finished);
    mf_operation_finish(op, error, finished);
    return false;
}

void mf_operation_move(mf_messages *m, mf_operation *op, mf_operation **finished)
{
    if (!move(m, op, finished))
        return;
    op->next = m->moving;
    m->moving = op;
}

/* A tag under which nothing else moves between this process and that one. */
static int free_tag(mf_messages *m, int with)
{
    for (;;) {
        bool taken = false;
        m->next_tag = m->next_tag % (m->link->tags - 1) + 1;
        for (const mf_operation *op = m->moving; op && !taken; op = op->next)
            taken = op->peer == with && op->link_tag == m->next_tag;
        if (!taken)
            return m->next_tag;
    }
}

/* ------------------------------------------------------------------ a message and its receive; the lock is held */

/* Waits again, and asks at once: the answer says why the offer was withdrawn. */
void mf_operation_ask_why(mf_messages *m, mf_operation *op)
{
    mf_operation **list = &m->waiting[mf_messages_bucket(op->peer, &op->tag)];
    op->moved = 0;
    op->since = op->query_at = mf_profile_now();
    op->next = *list;
    *list = op;
    m->query_at = op->query_at;
}

/* Accepts an offer for a receive, which is in no list. */
void mf_messages_accept_offer(mf_messages *m, mf_operation *op, const mf_message_header *h, const void *description,
                              mf_operation **finished)
{
    if (h->check != op->tag.check || h->size != op->count) {
        mf_message_header refused = {
            .kind = REFUSED, .call = h->call, .id = h->id, .reason = OTHER_PROGRAM, .size = description_bytes(&op->tag)
        };
        post(m, op->peer, refused, op->tag.description, refused.size, finished);
        mf_operation_finish(op, mf_peer_error_differs(op->peer, &op->tag, description, h->text_bytes), finished);
        return;
    }
    if (h->at && !mf_offer_take(m, op->peer, h->id, op->loan)) {
        mf_operation_ask_why(m, op);
        return;
    }
    if (h->at) {
        op->id = h->id;
        op->from = mf_shared_range(m->shared, m->peers[op->peer].number) + h->at - 1;
        mf_operation_finish(op, NULL, finished);
        return;
    }
    op->link_tag = free_tag(m, op->peer);
    mf_message_header clear = { .kind = CLEAR_TO_SEND, .call = h->call, .id = h->id, .size = h->size, .link_tag = (uint32_t)op->link_tag };
    mf_operation_move(m, op, finished);
    if (!m->broken && !post(m, op->peer, clear, NULL, 0, finished))
        mf_messages_fail_all(m, mf_error_out_of_memory(), finished);
}

void mf_messages_deliver(mf_messages *m, mf_operation *op, const mf_message_header *h, const void *payload, mf_operation **finished)
{
    m->peers[h->from].taken += h->size;
    bool same = h->check == op->tag.check && h->size == op->count;
    if (same && h->size)
        memcpy(op->bytes, payload, h->size);
    mf_operation_finish(op, same ? NULL : mf_peer_error_differs(op->peer, &op->tag, (const char *)payload + h->size, h->text_bytes),
                        finished);
}

static void post_call_over(mf_messages *m, int to, mf_message_header h, mf_operation **finished)
{
    mf_text t = { 0 };
    bool well;
    const char *text = mf_messages_end_of(m, h.call, &t, &well);
    h.reason = well ? ENDED_WELL : ENDED_FAILED;
    h.size = text ? strnlen(text, TEXT_MOST - 1) : 0;
    post(m, to, h, text, h.size, finished);
    mf_text_free(&t);
}

void mf_messages_refuse(mf_messages *m, const mf_message_header *h, mf_operation **finished)
{
    if (h->kind == OFFER)
        post_call_over(m, (int)h->from, (mf_message_header){ .kind = REFUSED, .call = h->call, .id = h->id }, finished);
    else
        m->peers[h->from].taken += h->size;
}

static mf_operation *take_receive(mf_messages *m, const mf_message_header *h)
{
    mf_message_tag tag = { .call = h->call, .place = h->place };
    for (mf_operation **at = &m->waiting[mf_messages_bucket((int)h->from, &tag)]; *at; at = &(*at)->next) {
        mf_operation *op = *at;
        if (!op->sends && op->peer == (int)h->from && op->tag.call == h->call && op->tag.place == h->place) {
            *at = op->next;
            return op;
        }
    }
    return NULL;
}

static void handle_message(mf_messages *m, const mf_message_header *h, const void *payload, mf_operation **finished)
{
    mf_operation *op = take_receive(m, h);
    size_t count = (h->kind == DATA ? h->size : 0) + h->text_bytes;
    if (op && h->kind == DATA) {
        mf_messages_deliver(m, op, h, payload, finished);
    } else if (op) {
        mf_messages_accept_offer(m, op, h, payload, finished);
    } else if (m->left || mf_messages_is_over(m, h->call)) {
        mf_messages_refuse(m, h, finished);
    } else {
        mf_arrived *a = mf_alloc(sizeof *a + count);
        if (!a) {
            mf_messages_fail_all(m, mf_error_out_of_memory(), finished);
            return;
        }
        a->head = *h;
        memcpy(a->payload, payload, count);
        mf_message_tag tag = { .call = h->call, .place = h->place };
        mf_arrived **at = &m->arrived[mf_messages_bucket((int)h->from, &tag)];
        while (*at) /* in the order of arrival */
            at = &(*at)->next;
        a->next = NULL;
        *at = a;
        m->arrived_count++;
    }
}

/* ------------------------------------------------------------------ answers; the lock is held */

static mf_operation *take_offer(mf_messages *m, const mf_message_header *h)
{
    for (mf_operation **at = &m->waiting[h->id % BUCKETS]; *at; at = &(*at)->next) {
        mf_operation *op = *at;
        if (op->sends && op->id == h->id && op->peer == (int)h->from) {
            *at = op->next;
            return op;
        }
    }
    return NULL;
}

/* If the operation has ended meanwhile, an empty message ends the other side's receive. */
static void handle_clear_to_send(mf_messages *m, const mf_message_header *h, mf_operation **finished)
{
    mf_operation *op = take_offer(m, h);
    if (!op) {
        op = mf_calloc(1, sizeof *op);
        if (!op) {
            mf_messages_fail_all(m, mf_error_out_of_memory(), finished);
            return;
        }
        atomic_fetch_add(&m->comm.awaited, 1);
        op->sends = true;
        op->bytes = (unsigned char *)op; /* not read: nothing of it is sent */
        op->peer = (int)h->from;
    }
    op->link_tag = (int)h->link_tag;
    mf_operation_move(m, op, finished);
}

static bool waits_in_call(const mf_messages *m, const mf_operation *op, const void *what)
{
    (void)m;
    const mf_message_header *h = what;
    return op->peer == (int)h->from && op->tag.call == h->call;
}

static bool has_begun(const mf_messages *m, uint64_t call)
{
    return call >> MF_CALL_BITS ? mf_comm_record(&m->comm, call) != NULL : call < atomic_load(&m->comm.calls);
}

static void post_status(mf_messages *m, const mf_message_header *query, mf_operation **finished)
{
    struct {
        mf_wait_edge edges[EDGES];
        char text[TEXT_MOST];
    } body;
    mf_message_header h = { .kind = STATUS, .call = query->call, .id = query->id, .flags = has_begun(m, query->call) ? CALL_BEGUN : 0 };
    mf_text t = { 0 };
    h.size = mf_deadlock_fill_status(m, &h, body.edges);
    mf_peer_put_status(&t, m);
    size_t count = t.failed ? 0 : strnlen(t.at, TEXT_MOST - 1);
    memcpy((char *)&body + h.size, t.at, count);
    h.size += count;
    post(m, (int)query->from, h, &body, h.size, finished);
    mf_text_free(&t);
}

static void handle_status(mf_messages *m, const mf_message_header *h, const unsigned char *payload, mf_operation **finished)
{
    mf_peer *p = &m->peers[h->from];
    size_t edges = h->edge_count * sizeof(mf_wait_edge), count = h->size - edges;
    mf_free(p->status);
    p->status = count ? mf_calloc(1, count + 1) : NULL;
    if (p->status)
        memcpy(p->status, payload + edges, count);
    for (int b = 0; b < BUCKETS; b++)
        for (mf_operation *op = m->waiting[b]; op; op = op->next)
            if (waits_in_call(m, op, h)) {
                op->begun |= h->flags & CALL_BEGUN;
                op->blocked = h->flags & RUN_BLOCKED;
                op->blocked_version = h->version;
            }
    mf_deadlock_handle_status(m, h, payload, finished);
}

/* Asked about a call of this function that cannot begin here any more, because this process's call of it reached no map: the call is
 * over. */
static void end_failed_call(mf_messages *m, uint64_t call, const char *function, mf_operation **finished)
{
    mf_text why = { 0 };
    if (*function && mf_comm_match_failed(&m->comm, call, function, &why)) {
        mf_messages_abort(m, call, why.failed ? "failed" : why.at, finished);
        mf_messages_set_ended(m, call);
    }
    mf_text_free(&why);
}

static void handle_status_query(mf_messages *m, const mf_message_header *h, const char *function, mf_operation **finished)
{
    end_failed_call(m, h->call, function, finished);
    if (m->left || mf_messages_is_over(m, h->call))
        post_call_over(m, (int)h->from, (mf_message_header){ .kind = CALL_OVER, .call = h->call }, finished);
    else
        post_status(m, h, finished);
}

/* Whether an offered payload lies inside its owner's range. */
static bool is_within(const mf_messages *m, const mf_message_header *h)
{
    return !h->at || (m->peers[h->from].from && h->at <= m->shared->range && h->size <= m->shared->range - (h->at - 1));
}

/* Whether a message is well-formed. */
static bool is_well_formed(const mf_messages *m, const mf_message_header *h, size_t count)
{
    if (count < sizeof *h || h->magic != MAGIC || h->kind >= MESSAGE_KINDS || h->from >= (uint32_t)m->comm.size)
        return false;
    size_t payload = count - sizeof *h;
    switch ((mf_message_kind)h->kind) {
    case DATA: return h->size <= INLINE_MOST && h->text_bytes < TEXT_MOST && h->size + h->text_bytes == payload;
    case OFFER: return h->text_bytes == payload && h->text_bytes < TEXT_MOST && h->size <= PTRDIFF_MAX && is_within(m, h);
    case CLEAR_TO_SEND: return !payload && h->link_tag > 0 && h->link_tag < (uint32_t)m->link->tags;
    case STATUS: return h->size == payload && h->edge_count <= EDGES && payload - h->edge_count * sizeof(mf_wait_edge) < TEXT_MOST;
    case KEY_PUT:
    case KEY_GET:
    case KEY_GET_CANCEL:
    case KEY_VALUE:
    case KEY_ABSENT: return mf_key_value_is_well_formed(h, payload);
    default: return h->size == payload && payload < TEXT_MOST;
    }
}

void mf_messages_handle(mf_messages *m, const unsigned char *bytes, size_t count, mf_operation **finished)
{
    mf_message_header h = { 0 };
    char text[TEXT_MOST] = "";
    memcpy(&h, bytes, count < sizeof h ? count : sizeof h);
    if (!is_well_formed(m, &h, count)) {
        mf_messages_fail_all(
            m, mf_error_new(MF_ERROR_PEER, "a message of %zu bytes is none of this library's: other versions in one job?", count),
            finished);
        return;
    }
    const unsigned char *payload = bytes + sizeof h;
    mf_peer *from = &m->peers[h.from];
    from->last_heard = m->now;
    if (h.taken - from->acknowledged <= from->sent - from->acknowledged)
        from->acknowledged = h.taken;
    if (h.kind <= OFFER && h.call >> MF_CALL_BITS == 0 && h.call >= from->newest)
        from->newest = h.call + 1;
    if (h.kind > OFFER && h.kind < KEY_PUT && h.kind != STATUS)
        memcpy(text, payload, count - sizeof h);
    mf_operation *op;
    switch ((mf_message_kind)h.kind) {
    case DATA:
    case OFFER: handle_message(m, &h, payload, finished); break;
    case CLEAR_TO_SEND: handle_clear_to_send(m, &h, finished); break;
    case REFUSED:
        if ((op = take_offer(m, &h)))
            mf_operation_finish(op,
                                h.reason == OTHER_PROGRAM ? mf_peer_error_differs(op->peer, &op->tag, text, strlen(text))
                                                          : mf_peer_error_over(op->peer, h.call, h.reason == ENDED_WELL, text),
                                finished);
        break;
    case PAYLOAD_READ:
        if ((op = take_offer(m, &h)))
            mf_operation_finish(op, NULL, finished);
        break;
    case STATUS_QUERY: handle_status_query(m, &h, text, finished); break;
    case STATUS: handle_status(m, &h, payload, finished); break;
    case CALL_OVER:
        mf_messages_fail(m, waits_in_call, &h, mf_peer_error_over((int)h.from, h.call, h.reason == ENDED_WELL, text), finished);
        break;
    case LEAVING: from->left = true; break;
    case ALL_LEFT: m->all_left = true; break;
    case KEY_PUT:
    case KEY_GET:
    case KEY_GET_CANCEL:
    case KEY_VALUE:
    case KEY_ABSENT: mf_key_value_handle(m, &h, payload, finished); break;
    case WINDOW_UPDATE:
    case MESSAGE_KINDS: break;
    }
}
