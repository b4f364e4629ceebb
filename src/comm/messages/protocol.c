/* The protocol by which messages travel between processes: how a message is matched with its receive, how large it may be, and what happens
 * when one never comes.
 *
 * Every message begins with a header of fixed size, sent under tag 0. A small payload goes with its header (eager). A large one is only
 * offered (rendezvous): the receiver answers with a tag once it has a buffer of exactly that size, so no transfer can be longer than its
 * buffer. A process that has waited for long asks the sender where it is; the answer is that the call is over there, successfully or not,
 * or a sign of life. A successful call needs no such question.
 * Invariants: the lock guards all; no lock is held while a `done` runs; nothing of a header is used before its sizes and numbers were
 * checked; what a process sent before an answer is handled before the answer. */
#include "comm/messages/protocol.h"

#include "base/memory/alloc.h"
#include "base/memory/intern.h"
#include "runtime/profile/profiler.h"

#define MAGIC 0x31304d4du /* identifies this format of header; another format or byte order has another value */

unsigned mf_messages_bucket(int peer, const mf_message_tag *of)
{
    return (unsigned)mf_hash_mix(of->call * 31 + (uint64_t)peer, of->place) % BUCKETS;
}

/* ------------------------------------------------------------------ sending; the lock is held */

static size_t words_count(const mf_message_tag *of) { return of->words ? strnlen(of->words, WORDS_MOST - 1) : 0; }

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
static bool pass_near(mf_messages *m, mf_peer *p, const mf_ring_part parts[3])
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

static bool pass_far(mf_messages *m, int to, const mf_ring_part parts[3], mf_operation **finished)
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

bool mf_messages_post(mf_messages *m, int to, mf_message_header h, const void *payload, size_t count, const mf_message_tag *of,
                      mf_operation **finished)
{
    size_t words = of ? words_count(of) : 0;
    mf_peer *p = &m->peers[to];
    h.magic = MAGIC;
    h.from = (uint32_t)m->comm.rank;
    h.taken = p->told = p->taken;
    if (of)
        h.tag = (uint32_t)words;
    const mf_ring_part parts[3] = { { &h, sizeof h }, { count ? payload : "", count }, { words ? of->words : "", words } };
    return p->to ? pass_near(m, p, parts) : pass_far(m, to, parts, finished);
}

static bool post(mf_messages *m, int to, mf_message_header h, const void *payload, size_t count, mf_operation **finished)
{
    return mf_messages_post(m, to, h, payload, count, NULL, finished);
}

void mf_messages_say(mf_messages *m, int to, mf_message_kind k, uint64_t call, uint64_t id, const char *words, mf_operation **finished)
{
    size_t count = words ? strnlen(words, WORDS_MOST - 1) : 0;
    post(m, to, (mf_message_header){ .kind = k, .call = call, .id = id, .size = count }, words, count, finished);
}

/* Starts the next piece of a payload. False: the link has failed, and the operation with it. */
static bool move(mf_messages *m, mf_operation *op, mf_operation **finished)
{
    op->piece = op->count - op->moved < m->link->most ? op->count - op->moved : m->link->most;
    op->request = 0;
    int code = op->sends ? m->link->send(m->link, op->peer, op->tag, op->bytes + op->moved, op->piece, &op->request)
                         : m->link->receive(m->link, op->peer, op->tag, op->bytes + op->moved, op->piece, &op->request);
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
            taken = op->peer == with && op->tag == m->next_tag;
        if (!taken)
            return m->next_tag;
    }
}

/* ------------------------------------------------------------------ a message and its receive; the lock is held */

/* Waits again, and asks at once: the answer says why the offer was withdrawn. */
void mf_operation_ask_why(mf_messages *m, mf_operation *op)
{
    mf_operation **list = &m->waiting[mf_messages_bucket(op->peer, &op->of)];
    op->moved = 0;
    op->since = op->ask_at = mf_profile_now();
    op->next = *list;
    *list = op;
    m->ask_at = op->ask_at;
}

/* Accepts an offer for a receive, which is in no list. */
void mf_messages_accept(mf_messages *m, mf_operation *op, const mf_message_header *h, const void *words, mf_operation **finished)
{
    if (h->check != op->of.check || h->size != op->count) {
        mf_message_header no = { .kind = NO, .call = h->call, .id = h->id, .check = OTHER_PROGRAM, .size = words_count(&op->of) };
        post(m, op->peer, no, op->of.words, no.size, finished);
        mf_operation_finish(op, mf_peer_error_differs(op->peer, &op->of, words, h->tag), finished);
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
    op->tag = free_tag(m, op->peer);
    mf_message_header go = { .kind = GO, .call = h->call, .id = h->id, .size = h->size, .tag = (uint32_t)op->tag };
    mf_operation_move(m, op, finished);
    if (!m->broken && !post(m, op->peer, go, NULL, 0, finished))
        mf_messages_fail_all(m, mf_error_out_of_memory(), finished);
}

void mf_messages_take(mf_messages *m, mf_operation *op, const mf_message_header *h, const void *payload, mf_operation **finished)
{
    m->peers[h->from].taken += h->size;
    bool same = h->check == op->of.check && h->size == op->count;
    if (same && h->size)
        memcpy(op->bytes, payload, h->size);
    mf_operation_finish(op, same ? NULL : mf_peer_error_differs(op->peer, &op->of, (const char *)payload + h->size, h->tag), finished);
}

static void say_over(mf_messages *m, int to, mf_message_header h, mf_operation **finished)
{
    mf_text t = { 0 };
    bool well;
    const char *words = mf_messages_end_of(m, h.call, &t, &well);
    h.check = well ? WELL : FAILED;
    h.size = words ? strnlen(words, WORDS_MOST - 1) : 0;
    post(m, to, h, words, h.size, finished);
    mf_text_free(&t);
}

void mf_messages_refuse(mf_messages *m, const mf_message_header *h, mf_operation **finished)
{
    if (h->kind == OFFER)
        say_over(m, (int)h->from, (mf_message_header){ .kind = NO, .call = h->call, .id = h->id }, finished);
    else
        m->peers[h->from].taken += h->size;
}

static mf_operation *take_receipt(mf_messages *m, const mf_message_header *h)
{
    mf_message_tag of = { .call = h->call, .place = h->place };
    for (mf_operation **at = &m->waiting[mf_messages_bucket((int)h->from, &of)]; *at; at = &(*at)->next) {
        mf_operation *op = *at;
        if (!op->sends && op->peer == (int)h->from && op->of.call == h->call && op->of.place == h->place) {
            *at = op->next;
            return op;
        }
    }
    return NULL;
}

static void handle_message(mf_messages *m, const mf_message_header *h, const void *payload, mf_operation **finished)
{
    mf_operation *op = take_receipt(m, h);
    size_t count = (h->kind == DATA ? h->size : 0) + h->tag;
    if (op && h->kind == DATA) {
        mf_messages_take(m, op, h, payload, finished);
    } else if (op) {
        mf_messages_accept(m, op, h, payload, finished);
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
        mf_message_tag of = { .call = h->call, .place = h->place };
        mf_arrived **at = &m->arrived[mf_messages_bucket((int)h->from, &of)];
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
static void handle_go(mf_messages *m, const mf_message_header *h, mf_operation **finished)
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
    op->tag = (int)h->tag;
    mf_operation_move(m, op, finished);
}

static bool waits_in_call(const mf_messages *m, const mf_operation *op, const void *what)
{
    (void)m;
    const mf_message_header *h = what;
    return op->peer == (int)h->from && op->of.call == h->call;
}

static bool has_begun(const mf_messages *m, uint64_t call)
{
    return call >> MF_CALL_BITS ? mf_comm_record(&m->comm, call) != NULL : call < atomic_load(&m->comm.calls);
}

static void say_here(mf_messages *m, const mf_message_header *where, mf_operation **finished)
{
    struct {
        mf_wait_edge edges[EDGES];
        char words[WORDS_MOST];
    } body;
    mf_message_header h = { .kind = HERE, .call = where->call, .id = where->id, .check = has_begun(m, where->call) ? BEGUN : 0 };
    mf_text t = { 0 };
    h.size = mf_crosswise_tell(m, &h, body.edges);
    mf_peer_whereabouts(&t, m);
    size_t count = t.failed ? 0 : strnlen(t.at, WORDS_MOST - 1);
    memcpy((char *)&body + h.size, t.at, count);
    h.size += count;
    post(m, (int)where->from, h, &body, h.size, finished);
    mf_text_free(&t);
}

static void hear(mf_messages *m, const mf_message_header *h, const unsigned char *payload, mf_operation **finished)
{
    mf_peer *p = &m->peers[h->from];
    size_t edges = h->tag * sizeof(mf_wait_edge), count = h->size - edges;
    mf_free(p->words);
    p->words = count ? mf_calloc(1, count + 1) : NULL;
    if (p->words)
        memcpy(p->words, payload + edges, count);
    for (int b = 0; b < BUCKETS; b++)
        for (mf_operation *op = m->waiting[b]; op; op = op->next)
            if (waits_in_call(m, op, h)) {
                op->begun |= h->check & BEGUN;
                op->rests = h->check & RESTS;
                op->rest_version = h->place;
            }
    mf_crosswise_hear(m, h, payload, finished);
}

/* Asked about a call of this function that cannot begin here any more, because this process's call of it reached no map: the call is
 * over. */
static void settle(mf_messages *m, uint64_t call, const char *function, mf_operation **finished)
{
    mf_text why = { 0 };
    if (*function && mf_comm_settle(&m->comm, call, function, &why)) {
        mf_messages_abort(m, call, why.failed ? "failed" : why.at, finished);
        mf_messages_set_ended(m, call);
    }
    mf_text_free(&why);
}

static void answer(mf_messages *m, const mf_message_header *h, const char *function, mf_operation **finished)
{
    settle(m, h->call, function, finished);
    if (m->left || mf_messages_is_over(m, h->call))
        say_over(m, (int)h->from, (mf_message_header){ .kind = OVER, .call = h->call }, finished);
    else
        say_here(m, h, finished);
}

/* Whether an offered payload lies inside its owner's range. */
static bool is_within(const mf_messages *m, const mf_message_header *h)
{
    return !h->at || (m->peers[h->from].from && h->at <= m->shared->range && h->size <= m->shared->range - (h->at - 1));
}

/* Whether a message is well-formed. */
static bool is_sound(const mf_messages *m, const mf_message_header *h, size_t count)
{
    if (count < sizeof *h || h->magic != MAGIC || h->kind >= KINDS || h->from >= (uint32_t)m->comm.size)
        return false;
    size_t payload = count - sizeof *h;
    switch ((mf_message_kind)h->kind) {
    case DATA: return h->size <= INLINE_MOST && h->tag < WORDS_MOST && h->size + h->tag == payload;
    case OFFER: return h->tag == payload && h->tag < WORDS_MOST && h->size <= PTRDIFF_MAX && is_within(m, h);
    case GO: return !payload && h->tag > 0 && h->tag < (uint32_t)m->link->tags;
    case HERE: return h->size == payload && h->tag <= EDGES && payload - h->tag * sizeof(mf_wait_edge) < WORDS_MOST;
    case PUT:
    case GET:
    case GET_OVER:
    case VALUE:
    case NO_VALUE: return mf_key_value_is_sound(h, payload);
    default: return h->size == payload && payload < WORDS_MOST;
    }
}

void mf_messages_handle(mf_messages *m, const unsigned char *bytes, size_t count, mf_operation **finished)
{
    mf_message_header h = { 0 };
    char words[WORDS_MOST] = "";
    memcpy(&h, bytes, count < sizeof h ? count : sizeof h);
    if (!is_sound(m, &h, count)) {
        mf_messages_fail_all(
            m, mf_error_new(MF_ERROR_PEER, "a message of %zu bytes is none of this library's: other versions in one job?", count),
            finished);
        return;
    }
    const unsigned char *payload = bytes + sizeof h;
    mf_peer *from = &m->peers[h.from];
    from->heard = m->now;
    if (h.taken - from->acknowledged <= from->sent - from->acknowledged)
        from->acknowledged = h.taken;
    if (h.kind <= OFFER && h.call >> MF_CALL_BITS == 0 && h.call >= from->newest)
        from->newest = h.call + 1;
    if (h.kind > OFFER && h.kind < PUT && h.kind != HERE)
        memcpy(words, payload, count - sizeof h);
    mf_operation *op;
    switch ((mf_message_kind)h.kind) {
    case DATA:
    case OFFER: handle_message(m, &h, payload, finished); break;
    case GO: handle_go(m, &h, finished); break;
    case NO:
        if ((op = take_offer(m, &h)))
            mf_operation_finish(op,
                                h.check == OTHER_PROGRAM ? mf_peer_error_differs(op->peer, &op->of, words, strlen(words))
                                                         : mf_peer_error_over(op->peer, h.call, h.check == WELL, words),
                                finished);
        break;
    case TOOK:
        if ((op = take_offer(m, &h)))
            mf_operation_finish(op, NULL, finished);
        break;
    case WHERE: answer(m, &h, words, finished); break;
    case HERE: hear(m, &h, payload, finished); break;
    case OVER: mf_messages_fail(m, waits_in_call, &h, mf_peer_error_over((int)h.from, h.call, h.check == WELL, words), finished); break;
    case BYE: from->left = true; break;
    case ALL_LEFT: m->all_left = true; break;
    case PUT:
    case GET:
    case GET_OVER:
    case VALUE:
    case NO_VALUE: mf_key_value_handle(m, &h, payload, finished); break;
    case TAKEN:
    case KINDS: break;
    }
}
