/* Messages between processes: matching, sizes, flow, and what to do about one that never comes.
 *
 * Everything begins with a header of fixed size under tag 0. Small payloads come with it; a large one is offered, and sent under a tag of the
 * receiver's once that has a place of exactly its size, so no transfer can be longer than its buffer. Who waits in vain asks the other process
 * where it is: the answer is that the call is over there (well or not), or a sign of life. So what goes well costs nothing more.
 * Invariants: the lock guards all; no lock is held while a `done` runs; nothing of a header is used before its sizes and numbers were checked;
 * from one process, what was sent before an answer is handled before it. */
#include "comm/messages.h"

#include "base/alloc.h"
#include "base/intern.h"
#include "base/room.h"
#include "runtime/profile/profiler.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MAGIC       0x31304d4du /* of this form of header; another byte order or another form differs in it */
#define RING        8           /* receives for headers, used in turn */
#define INLINE_MOST ((size_t)16 << 10)
#define WINDOW      ((uint64_t)1 << 20) /* inline bytes that a process has not taken yet: more are offered */
#define WORDS_MOST  480
#define SLOT        (sizeof(header) + INLINE_MOST + WORDS_MOST)
#define BUCKETS     64
#define CALLS_OPEN  4096 /* between the oldest and the newest call under way */
#define ABORTS_KEPT 16

#define MS              ((int64_t)1000000) /* ns */
#define FIRST_ASKED     (20 * MS)
#define ASKED_AT_MOST   (1000 * MS)  /* apart */
#define SILENT_AT_LEAST (10000 * MS) /* before one who leaves gives the others up */
#define NAP_MIN         (30 * 1000)
#define NAP_MAX         MS
#define NAP_IDLE        (10 * MS)
#define SOON            (50 * MS) /* after what was awaited last the driver is still awake, so that nobody need wake it */

typedef enum kind { DATA, OFFER, GO, NO, TAKEN, WHERE, HERE, OVER, BYE, ALL_LEFT, KINDS } kind;

enum { OTHER_PROGRAM = 1 }; /* the check of a NO; else the call is over */

typedef struct header {
    uint32_t magic, kind, from, tag; /* tag: of GO; of DATA and OFFER, how many bytes of words follow their payload */
    uint64_t call, place, check, size, id, taken;
} header;

typedef struct outgoing { /* a header on its way */
    struct outgoing *next;
    uintptr_t request;
    header head;
    unsigned char payload[];
} outgoing;

typedef struct arrived { /* before anybody asked for it */
    struct arrived *next;
    header head;
    unsigned char payload[];
} arrived;

typedef struct operation { /* a receipt, or a send that is too large to go with its header */
    struct operation *next;
    bool sends;
    int peer, tag;
    mf_message_tag of;
    unsigned char *bytes;
    size_t count, moved, piece;
    uintptr_t request;
    uint64_t id;
    int64_t since, ask_at;
    mf_message_done done;
    void *context;
    mf_error_object *error;
} operation;

typedef struct peer {
    uint64_t sent, acknowledged; /* inline bytes to it */
    uint64_t taken, told;        /* inline bytes from it */
    uint64_t calls;              /* that it had begun when it answered last */
    int64_t heard;               /* when something came from it last */
    uint64_t newest;             /* call of all processes of which something came, + 1 */
    bool left, dead;
} peer;

typedef struct call_part { /* the calls of some processes, which are numbered by themselves */
    struct call_part *next;
    uint64_t name;
    uint64_t below; /* have ended; of those from it on: */
    uint64_t ended[CALLS_OPEN / 64];
} call_part;

typedef struct messages {
    mf_comm comm;
    mf_link *link;
    int64_t timeout;
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_t driver;
    bool idle, stopping, closed; /* closed: the link is not to be used any more */
    bool bereft;                 /* some process has died */
    const char *left;            /* why nothing is sent any more; or NULL */
    mf_error_object *broken;
    uintptr_t requests[RING];
    unsigned char *ring; /* RING slots */
    int head;
    outgoing *outgoing;
    operation *waiting[BUCKETS]; /* for the other side: receipts by their tag, offers by their id */
    operation *moving;
    arrived *arrived[BUCKETS];
    _Atomic unsigned polls;
    _Atomic bool moves; /* something did, at the last poll */
    uint64_t next_id;
    int next_tag;
    int64_t ask_at;
    call_part *parts;
    struct {
        uint64_t call; /* + 1 */
        char words[WORDS_MOST];
    } aborts[ABORTS_KEPT];
    int next_abort;
    bool all_left;
    peer *peers;
} messages;

static unsigned bucket_of(int peer, const mf_message_tag *of)
{
    return (unsigned)mf_hash_mix(of->call * 31 + (uint64_t)peer, of->place) % BUCKETS;
}

static void *slot(const messages *m, int i) { return m->ring + (size_t)i * SLOT; }

/* ------------------------------------------------------------------ ends of operations; the lock is held */

static void unlink_operation(operation **list, operation *op)
{
    while (*list != op)
        list = &(*list)->next;
    *list = op->next;
}

static void finish(operation *op, mf_error_object *error, operation **finished)
{
    op->error = error;
    op->next = *finished;
    *finished = op;
}

/* The lock is not held. */
static void call_back(messages *m, operation *finished)
{
    for (operation *next; finished; finished = next) {
        next = finished->next;
        atomic_fetch_sub(&m->comm.awaited, 1);
        if (finished->done)
            finished->done(finished->context, finished->error);
        else
            mf_error_ignore(finished->error);
        mf_free(finished);
    }
}

/* theirs: what the other process computes there, in `count` bytes. */
static mf_error_object *other_program(int peer, const mf_message_tag *own, const void *theirs, size_t count)
{
    static const char why[] = "it runs another program, or its functions in another order";
    int length = (int)count;
    if (!count || !own->words)
        return mf_error_new(MF_ERROR_PEER, "process %d computes something else here: %s", peer, why);
    if (strlen(own->words) == count && !memcmp(own->words, theirs, count))
        return mf_error_new(MF_ERROR_PEER, "process %d computes something else here: %s too, but in another way; %s", peer, own->words,
                            why);
    return mf_error_new(MF_ERROR_PEER, "process %d computes something else here: %.*s, and not %s; %s", peer, length, (const char *)theirs,
                        own->words, why);
}

static mf_error_object *dead_error(const messages *m, int process)
{
    uint64_t newest = m->peers[process].newest;
    return newest ? mf_error_new(MF_ERROR_PEER, "process %d has died: its last message was of call %llu", process,
                                 (unsigned long long)newest - 1)
                  : mf_error_new(MF_ERROR_PEER, "process %d has died before its first message", process);
}

/* Nothing is sent to that process any more, or received from it. */
static bool is_gone(const messages *m, int process) { return m->left || m->broken || m->peers[process].dead; }

static mf_error_object *gone(const messages *m, int process)
{
    return process >= 0 && m->peers[process].dead ? dead_error(m, process)
           : m->broken                            ? mf_retain(m->broken)
                                                  : mf_error_new(MF_ERROR_PEER, "this process has left the job: %s", m->left);
}

/* Those that wait and fit end in the error, of which each has a reference. */
static void fail_waiting(messages *m, bool (*fits)(const messages *, const operation *, const void *), const void *what,
                         mf_error_object *error, operation **finished)
{
    for (int b = 0; b < BUCKETS; b++)
        for (operation **at = &m->waiting[b], *op; (op = *at);)
            if (fits(m, op, what)) {
                *at = op->next;
                finish(op, mf_retain(error), finished);
            } else {
                at = &op->next;
            }
    mf_error_ignore(error);
}

static bool any(const messages *m, const operation *op, const void *unused)
{
    (void)m;
    (void)op;
    (void)unused;
    return true;
}

/* The link is of no use any more. */
static void fail_all(messages *m, mf_error_object *error, operation **finished)
{
    if (!m->broken)
        m->broken = mf_retain(error);
    fail_waiting(m, any, NULL, error, finished);
}

/* ------------------------------------------------------------------ calls that are over here */

static call_part *part_of(const messages *m, uint64_t call)
{
    call_part *p = m->parts;
    while (p && p->name != call >> MF_CALL_BITS)
        p = p->next;
    return p;
}

static uint64_t *word_of(call_part *p, uint64_t number) { return &p->ended[number / 64 % (CALLS_OPEN / 64)]; }

static bool has_ended(const messages *m, uint64_t call)
{
    call_part *p = part_of(m, call);
    uint64_t number = call % ((uint64_t)1 << MF_CALL_BITS);
    return p && (number < p->below || (number - p->below < CALLS_OPEN && *word_of(p, number) >> number % 64 & 1));
}

/* Beyond CALLS_OPEN, which is more than runs are let under way at a time, and where memory is out, those who ask hear of it by the timeout. */
static void set_ended(messages *m, uint64_t call)
{
    call_part *p = part_of(m, call);
    uint64_t number = call % ((uint64_t)1 << MF_CALL_BITS);
    if (!p && (p = mf_calloc(1, sizeof *p))) {
        p->name = call >> MF_CALL_BITS;
        p->next = m->parts;
        m->parts = p;
    }
    if (!p || number < p->below || number - p->below >= CALLS_OPEN)
        return;
    *word_of(p, number) |= (uint64_t)1 << number % 64;
    for (; *word_of(p, p->below) >> p->below % 64 & 1; p->below++)
        *word_of(p, p->below) &= ~((uint64_t)1 << p->below % 64);
}

static const char *abort_of(const messages *m, uint64_t call)
{
    for (int i = 0; i < ABORTS_KEPT; i++)
        if (m->aborts[i].call == call + 1)
            return m->aborts[i].words;
    return NULL;
}

static bool is_over(const messages *m, uint64_t call) { return has_ended(m, call) || abort_of(m, call); }

/* ------------------------------------------------------------------ sending; the lock is held */

static size_t words_count(const mf_message_tag *of) { return of->words ? strnlen(of->words, WORDS_MOST - 1) : 0; }

/* A message of an operation has its words behind its payload. */
static bool post_with(messages *m, int to, header h, const void *payload, size_t count, const mf_message_tag *of, operation **finished)
{
    size_t words = of ? words_count(of) : 0, all = count + words;
    outgoing *o = mf_alloc(sizeof *o + all);
    if (!o)
        return false;
    peer *p = &m->peers[to];
    h.magic = MAGIC;
    h.from = (uint32_t)m->comm.rank;
    h.taken = p->told = p->taken;
    o->head = h;
    o->request = 0;
    if (of)
        o->head.tag = (uint32_t)words;
    if (count)
        memcpy(o->payload, payload, count);
    if (words)
        memcpy(o->payload + count, of->words, words);
    int code = m->link->send(m->link, to, 0, &o->head, sizeof h + all, &o->request);
    if (code) {
        mf_free(o);
        fail_all(m, m->link->error(m->link, code), finished);
        return true;
    }
    o->next = m->outgoing;
    m->outgoing = o;
    return true;
}

static bool post(messages *m, int to, header h, const void *payload, size_t count, operation **finished)
{
    return post_with(m, to, h, payload, count, NULL, finished);
}

static void say(messages *m, int to, kind k, uint64_t call, uint64_t id, const char *words, operation **finished)
{
    size_t count = words ? strnlen(words, WORDS_MOST - 1) : 0;
    post(m, to, (header){ .kind = k, .call = call, .id = id, .size = count }, words, count, finished);
}

/* The next piece of a payload. False: the link has failed, and the operation with it. */
static bool move(messages *m, operation *op, operation **finished)
{
    op->piece = op->count - op->moved < m->link->most ? op->count - op->moved : m->link->most;
    op->request = 0;
    int code = op->sends ? m->link->send(m->link, op->peer, op->tag, op->bytes + op->moved, op->piece, &op->request)
                         : m->link->receive(m->link, op->peer, op->tag, op->bytes + op->moved, op->piece, &op->request);
    if (!code)
        return true;
    mf_error_object *error = m->link->error(m->link, code);
    fail_all(m, mf_retain(error), finished);
    finish(op, error, finished);
    return false;
}

static void begin_moving(messages *m, operation *op, operation **finished)
{
    if (!move(m, op, finished))
        return;
    op->next = m->moving;
    m->moving = op;
}

/* A tag that nothing else moves under between this process and that one. */
static int free_tag(messages *m, int with)
{
    for (;;) {
        bool taken = false;
        m->next_tag = m->next_tag % (m->link->tags - 1) + 1;
        for (const operation *op = m->moving; op && !taken; op = op->next)
            taken = op->peer == with && op->tag == m->next_tag;
        if (!taken)
            return m->next_tag;
    }
}

/* ------------------------------------------------------------------ a message and its receipt; the lock is held */

/* An offer for a receipt, which is in no list. */
static void accept_offer(messages *m, operation *op, const header *h, const void *words, operation **finished)
{
    if (h->check != op->of.check || h->size != op->count) {
        header no = { .kind = NO, .call = h->call, .id = h->id, .check = OTHER_PROGRAM, .size = words_count(&op->of) };
        post(m, op->peer, no, op->of.words, no.size, finished);
        finish(op, other_program(op->peer, &op->of, words, h->tag), finished);
        return;
    }
    op->tag = free_tag(m, op->peer);
    header go = { .kind = GO, .call = h->call, .id = h->id, .size = h->size, .tag = (uint32_t)op->tag };
    begin_moving(m, op, finished);
    if (!m->broken && !post(m, op->peer, go, NULL, 0, finished))
        fail_all(m, mf_error_out_of_memory(), finished);
}

static void take_data(messages *m, operation *op, const header *h, const void *payload, operation **finished)
{
    m->peers[h->from].taken += h->size;
    bool same = h->check == op->of.check && h->size == op->count;
    if (same && h->size)
        memcpy(op->bytes, payload, h->size);
    finish(op, same ? NULL : other_program(op->peer, &op->of, (const char *)payload + h->size, h->tag), finished);
}

/* Nobody will ask for it. */
static void refuse(messages *m, const header *h, operation **finished)
{
    if (h->kind == OFFER)
        say(m, (int)h->from, NO, h->call, h->id, abort_of(m, h->call), finished);
    else
        m->peers[h->from].taken += h->size;
}

static operation *take_receipt(messages *m, const header *h)
{
    mf_message_tag of = { .call = h->call, .place = h->place };
    for (operation **at = &m->waiting[bucket_of((int)h->from, &of)]; *at; at = &(*at)->next) {
        operation *op = *at;
        if (!op->sends && op->peer == (int)h->from && op->of.call == h->call && op->of.place == h->place) {
            *at = op->next;
            return op;
        }
    }
    return NULL;
}

static void handle_message(messages *m, const header *h, const void *payload, operation **finished)
{
    operation *op = take_receipt(m, h);
    size_t count = (h->kind == DATA ? h->size : 0) + h->tag;
    if (op && h->kind == DATA) {
        take_data(m, op, h, payload, finished);
    } else if (op) {
        accept_offer(m, op, h, payload, finished);
    } else if (m->left || is_over(m, h->call)) {
        refuse(m, h, finished);
    } else {
        arrived *a = mf_alloc(sizeof *a + count);
        if (!a) {
            fail_all(m, mf_error_out_of_memory(), finished);
            return;
        }
        a->head = *h;
        memcpy(a->payload, payload, count);
        mf_message_tag of = { .call = h->call, .place = h->place };
        arrived **at = &m->arrived[bucket_of((int)h->from, &of)];
        while (*at) /* in the order in which they came */
            at = &(*at)->next;
        a->next = NULL;
        *at = a;
    }
}

/* ------------------------------------------------------------------ answers; the lock is held */

static operation *take_offer(messages *m, const header *h)
{
    for (operation **at = &m->waiting[h->id % BUCKETS]; *at; at = &(*at)->next) {
        operation *op = *at;
        if (op->sends && op->id == h->id && op->peer == (int)h->from) {
            *at = op->next;
            return op;
        }
    }
    return NULL;
}

/* One that was given up meanwhile sends nothing, which ends the other side's receipt. */
static void handle_go(messages *m, const header *h, operation **finished)
{
    operation *op = take_offer(m, h);
    if (!op) {
        op = mf_calloc(1, sizeof *op);
        if (!op) {
            fail_all(m, mf_error_out_of_memory(), finished);
            return;
        }
        atomic_fetch_add(&m->comm.awaited, 1);
        op->sends = true;
        op->peer = (int)h->from;
    }
    op->tag = (int)h->tag;
    begin_moving(m, op, finished);
}

static mf_error_object *ended_error(int peer, uint64_t call, const char *words)
{
    return *words ? mf_error_new(MF_ERROR_PEER, "process %d: %s", peer, words)
                  : mf_error_new(MF_ERROR_PEER, "process %d ended its call %llu without this collective", peer,
                                 (unsigned long long)(call % ((uint64_t)1 << MF_CALL_BITS)));
}

static bool waits_in_call(const messages *m, const operation *op, const void *what)
{
    (void)m;
    const header *h = what;
    return op->peer == (int)h->from && op->of.call == h->call;
}

static void answer(messages *m, const header *h, operation **finished)
{
    const char *words = abort_of(m, h->call);
    if (m->left && !words)
        words = m->left;
    if (m->left || is_over(m, h->call))
        say(m, (int)h->from, OVER, h->call, 0, words, finished);
    else
        say(m, (int)h->from, HERE, atomic_load(&m->comm.calls), 0, NULL, finished);
}

/* Whether what has come can be believed. */
static bool is_sound(const messages *m, const header *h, size_t count)
{
    if (count < sizeof *h || h->magic != MAGIC || h->kind >= KINDS || h->from >= (uint32_t)m->comm.size)
        return false;
    size_t payload = count - sizeof *h;
    switch ((kind)h->kind) {
    case DATA: return h->size <= INLINE_MOST && h->tag < WORDS_MOST && h->size + h->tag == payload;
    case OFFER: return h->tag == payload && h->tag < WORDS_MOST && h->size <= PTRDIFF_MAX;
    case GO: return !payload && h->tag > 0 && h->tag < (uint32_t)m->link->tags;
    default: return h->size == payload && payload < WORDS_MOST;
    }
}

static void handle(messages *m, const unsigned char *bytes, size_t count, operation **finished)
{
    header h;
    char words[WORDS_MOST] = "";
    memcpy(&h, bytes, sizeof h);
    if (!is_sound(m, &h, count)) {
        fail_all(m, mf_error_new(MF_ERROR_PEER, "a message of %zu bytes is none of this library's: other versions in one job?", count),
                 finished);
        return;
    }
    const unsigned char *payload = bytes + sizeof h;
    peer *from = &m->peers[h.from];
    from->heard = mf_profile_now();
    if (h.taken - from->acknowledged <= from->sent - from->acknowledged)
        from->acknowledged = h.taken;
    if (h.kind <= OFFER && h.call >> MF_CALL_BITS == 0 && h.call >= from->newest)
        from->newest = h.call + 1;
    if (h.kind > OFFER)
        memcpy(words, payload, count - sizeof h);
    operation *op;
    switch ((kind)h.kind) {
    case DATA:
    case OFFER: handle_message(m, &h, payload, finished); break;
    case GO: handle_go(m, &h, finished); break;
    case NO:
        if ((op = take_offer(m, &h)))
            finish(op,
                   h.check == OTHER_PROGRAM ? other_program(op->peer, &op->of, words, strlen(words)) : ended_error(op->peer, h.call, words),
                   finished);
        break;
    case WHERE: answer(m, &h, finished); break;
    case HERE: from->calls = h.call; break;
    case OVER: fail_waiting(m, waits_in_call, &h, ended_error((int)h.from, h.call, words), finished); break;
    case BYE: from->left = true; break;
    case ALL_LEFT: m->all_left = true; break;
    case TAKEN:
    case KINDS: break;
    }
}

/* ------------------------------------------------------------------ progress; the lock is held */

static bool receive_next(messages *m, operation **finished)
{
    m->requests[m->head] = 0;
    int code = m->link->receive(m->link, -1, 0, slot(m, m->head), SLOT, &m->requests[m->head]);
    if (code)
        fail_all(m, m->link->error(m->link, code), finished);
    m->head = (m->head + 1) % RING;
    return !code;
}

static bool poll_headers(messages *m, operation **finished)
{
    bool came = false;
    for (int n = 0; n < 64 && !m->broken; n++) {
        bool done = false;
        size_t count = 0;
        int code = m->link->test(m->link, &m->requests[m->head], &done, &count);
        if (code)
            fail_all(m, m->link->error(m->link, code), finished);
        if (code || !done)
            break;
        came = true;
        handle(m, slot(m, m->head), count, finished);
        receive_next(m, finished);
    }
    return came;
}

static void poll_outgoing(messages *m, operation **finished)
{
    for (outgoing **at = &m->outgoing, *o; (o = *at);) {
        bool done = false;
        int code = m->link->test(m->link, &o->request, &done, NULL);
        if (code)
            fail_all(m, m->link->error(m->link, code), finished);
        if (code || done) {
            *at = o->next;
            mf_free(o);
        } else {
            at = &o->next;
        }
    }
}

/* A piece has moved: the next one, or the end. */
static void moved(messages *m, operation *op, size_t count, operation **finished)
{
    if (!op->sends && count != op->piece) {
        finish(op, ended_error(op->peer, op->of.call, ""), finished);
        return;
    }
    op->moved += op->piece;
    if (op->moved < op->count)
        begin_moving(m, op, finished);
    else
        finish(op, NULL, finished);
}

static bool poll_moving(messages *m, operation **finished)
{
    bool any_moved = false;
    operation *list = m->moving;
    m->moving = NULL;
    for (operation *next, *op = list; op; op = next) {
        bool done = false;
        size_t count = op->piece;
        next = op->next;
        int code = m->link->test(m->link, &op->request, &done, op->sends ? NULL : &count);
        if (code) {
            mf_error_object *error = m->link->error(m->link, code);
            fail_all(m, mf_retain(error), finished);
            finish(op, error, finished);
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

static mf_error_object *late_error(const messages *m, const operation *op, int64_t now)
{
    const peer *p = &m->peers[op->peer];
    double seconds = (double)(now - op->since) / 1e9;
    if (p->heard < op->since)
        return mf_error_new(MF_ERROR_PEER, "process %d has not answered for %.1f s: it is stopped or gone", op->peer, seconds);
    if (op->of.call >> MF_CALL_BITS)
        return mf_error_new(MF_ERROR_PEER, "process %d is %.1f s late", op->peer, seconds);
    return mf_error_new(MF_ERROR_PEER, "process %d is %.1f s late: it has begun %llu calls, and this is call %llu", op->peer, seconds,
                        (unsigned long long)p->calls, (unsigned long long)op->of.call);
}

static void ask_for(messages *m, operation *op, int64_t now, operation **finished)
{
    if (now < op->ask_at)
        return;
    int64_t apart = (now - op->since) / 4;
    op->ask_at = now + (apart < FIRST_ASKED ? FIRST_ASKED : apart < ASKED_AT_MOST ? apart : ASKED_AT_MOST);
    say(m, op->peer, WHERE, op->of.call, 0, NULL, finished);
}

/* Asks those who let wait where they are. */
static void ask(messages *m, int64_t now, operation **finished)
{
    if (now < m->ask_at)
        return;
    m->ask_at = now + FIRST_ASKED / 2;
    for (int b = 0; b < BUCKETS; b++)
        for (operation **at = &m->waiting[b], *op; (op = *at);)
            if (now - op->since > m->timeout) {
                *at = op->next;
                finish(op, late_error(m, op, now), finished);
            } else {
                at = &op->next;
                ask_for(m, op, now, finished);
            }
}

static bool progress(messages *m, operation **finished)
{
    if (m->closed)
        return false;
    bool some = poll_headers(m, finished);
    poll_outgoing(m, finished);
    some |= poll_moving(m, finished);
    ask(m, mf_profile_now(), finished);
    return some;
}

/* ------------------------------------------------------------------ the communicator */

static mf_comm_activity poll_comm(mf_comm *c)
{
    messages *m = (messages *)c;
    if (!atomic_load_explicit(&m->comm.awaited, memory_order_relaxed))
        return MF_COMM_IDLE;
    operation *finished = NULL;
    if (pthread_mutex_trylock(&m->lock) == 0) {
        progress(m, &finished);
        atomic_store_explicit(&m->moves, m->moving != NULL, memory_order_relaxed);
        pthread_mutex_unlock(&m->lock);
        call_back(m, finished);
    }
    atomic_fetch_add_explicit(&m->polls, 1, memory_order_relaxed);
    return atomic_load_explicit(&m->moves, memory_order_relaxed) ? MF_COMM_MOVES : MF_COMM_AWAITS;
}

/* Where nothing polls, the driver looks after what waits. */
static void wait_for_other_side(messages *m, operation *op, unsigned bucket)
{
    op->since = mf_profile_now();
    op->ask_at = op->since + FIRST_ASKED;
    op->next = m->waiting[bucket];
    m->waiting[bucket] = op;
    if (m->idle)
        pthread_cond_signal(&m->news);
}

static operation *new_operation(messages *m, bool sends, int to, const mf_message_tag *tag, void *bytes, size_t count, mf_message_done done,
                                void *context)
{
    operation *op = mf_calloc(1, sizeof *op);
    if (!op) {
        done(context, mf_error_out_of_memory());
        return NULL;
    }
    *op = (operation){ .sends = sends, .peer = to, .of = *tag, .bytes = bytes, .count = count, .done = done, .context = context };
    atomic_fetch_add(&m->comm.awaited, 1);
    return op;
}

static bool fits_window(const messages *m, int to, size_t count)
{
    return count <= INLINE_MOST && m->peers[to].sent - m->peers[to].acknowledged + count <= WINDOW;
}

static void offer(messages *m, operation *op, operation **finished)
{
    op->id = ++m->next_id;
    header h = { .kind = OFFER, .call = op->of.call, .place = op->of.place, .check = op->of.check, .size = op->count, .id = op->id };
    wait_for_other_side(m, op, (unsigned)(op->id % BUCKETS));
    if (!post_with(m, op->peer, h, NULL, 0, &op->of, finished)) {
        unlink_operation(&m->waiting[op->id % BUCKETS], op);
        finish(op, mf_error_out_of_memory(), finished);
    }
}

static void send_message(mf_comm *c, int to, const mf_message_tag *tag, const void *bytes, size_t count, mf_message_done done,
                         void *context)
{
    messages *m = (messages *)c;
    operation *op = new_operation(m, true, to, tag, (void *)(uintptr_t)bytes, count, done, context), *finished = NULL;
    if (!op)
        return;
    pthread_mutex_lock(&m->lock);
    header h = { .kind = DATA, .call = tag->call, .place = tag->place, .check = tag->check, .size = count };
    if (is_gone(m, to)) {
        finish(op, gone(m, to), &finished);
    } else if (fits_window(m, to, count)) {
        m->peers[to].sent += count;
        bool posted = post_with(m, to, h, bytes, count, tag, &finished);
        finish(op, posted ? NULL : mf_error_out_of_memory(), &finished);
    } else {
        offer(m, op, &finished);
    }
    pthread_mutex_unlock(&m->lock);
    call_back(m, finished);
}

static arrived *take_arrived(messages *m, int from, const mf_message_tag *tag)
{
    for (arrived **at = &m->arrived[bucket_of(from, tag)]; *at; at = &(*at)->next) {
        arrived *a = *at;
        if ((int)a->head.from == from && a->head.call == tag->call && a->head.place == tag->place) {
            *at = a->next;
            return a;
        }
    }
    return NULL;
}

/* A process from which much comes and to which nothing goes is told what was taken. */
static void acknowledge(messages *m, int from, operation **finished)
{
    if (m->peers[from].taken - m->peers[from].told > WINDOW / 4)
        say(m, from, TAKEN, 0, 0, NULL, finished);
}

static void receive_message(mf_comm *c, int from, const mf_message_tag *tag, void *bytes, size_t count, mf_message_done done, void *context)
{
    messages *m = (messages *)c;
    operation *op = new_operation(m, false, from, tag, bytes, count, done, context), *finished = NULL;
    if (!op)
        return;
    pthread_mutex_lock(&m->lock);
    arrived *a = take_arrived(m, from, tag);
    if (a && a->head.kind == DATA)
        take_data(m, op, &a->head, a->payload, &finished);
    else if (is_gone(m, from))
        finish(op, gone(m, from), &finished);
    else if (a)
        accept_offer(m, op, &a->head, a->payload, &finished);
    else
        wait_for_other_side(m, op, bucket_of(from, tag));
    acknowledge(m, from, &finished);
    pthread_mutex_unlock(&m->lock);
    mf_free(a);
    call_back(m, finished);
}

static bool is_of_call(const messages *m, const operation *op, const void *call)
{
    (void)m;
    return op->of.call == *(const uint64_t *)call;
}

static void drop_arrived(messages *m, uint64_t call, bool all, operation **finished)
{
    for (int b = 0; b < BUCKETS; b++)
        for (arrived **at = &m->arrived[b], *a; (a = *at);)
            if (all || a->head.call == call) {
                *at = a->next;
                refuse(m, &a->head, finished);
                mf_free(a);
            } else {
                at = &a->next;
            }
}

static void abort_call(mf_comm *c, uint64_t call, const char *why)
{
    messages *m = (messages *)c;
    operation *finished = NULL;
    pthread_mutex_lock(&m->lock);
    if (!is_over(m, call)) {
        m->aborts[m->next_abort].call = call + 1;
        snprintf(m->aborts[m->next_abort].words, WORDS_MOST, "%s", *why ? why : "failed");
        m->next_abort = (m->next_abort + 1) % ABORTS_KEPT;
        fail_waiting(m, is_of_call, &call, mf_error_new(MF_ERROR_PEER, "process %d: %s", c->rank, why), &finished);
        drop_arrived(m, call, false, &finished);
    }
    pthread_mutex_unlock(&m->lock);
    call_back(m, finished);
}

static void end_call(mf_comm *c, uint64_t call)
{
    messages *m = (messages *)c;
    operation *finished = NULL;
    pthread_mutex_lock(&m->lock);
    set_ended(m, call);
    drop_arrived(m, call, false, &finished);
    pthread_mutex_unlock(&m->lock);
    call_back(m, finished);
}

static bool is_with(const messages *m, const operation *op, const void *process)
{
    (void)m;
    return op->peer == *(const int *)process;
}

/* Payloads that move between this process and a dead one never end, and their memory goes on being the link's until it is used no more. */
static void give_up_moving(messages *m, int process, operation **finished)
{
    bool any_with = false;
    for (const operation *op = m->moving; op; op = op->next)
        any_with |= op->peer == process;
    if (!any_with)
        return;
    m->closed = true;
    for (operation *op = m->moving, *next; op; op = next) {
        next = op->next;
        finish(op, dead_error(m, process), finished);
    }
    m->moving = NULL;
    fail_all(m, dead_error(m, process), finished);
}

void mf_messages_died(mf_comm *c, int process)
{
    messages *m = (messages *)c;
    operation *finished = NULL;
    pthread_mutex_lock(&m->lock);
    m->peers[process].dead = m->bereft = true;
    fail_waiting(m, is_with, &process, dead_error(m, process), &finished);
    give_up_moving(m, process, &finished);
    pthread_mutex_unlock(&m->lock);
    call_back(m, finished);
}

/* ------------------------------------------------------------------ the driver */

/* How long to sleep: the less, the more recently something came; and longer where a waiting thread drives, or nothing is awaited. */
static int64_t nap_of(messages *m, int64_t now, int64_t came, bool moves, unsigned *polls)
{
    unsigned before = *polls;
    *polls = atomic_load(&m->polls);
    if (!atomic_load(&m->comm.awaited) || *polls != before)
        return NAP_MAX;
    int64_t nap = (now - came) / 8;
    return moves || nap < NAP_MIN ? NAP_MIN : nap < NAP_MAX ? nap : NAP_MAX;
}

/* Until something is awaited, or for NAP_IDLE. */
static void sleep_idle(messages *m)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += NAP_IDLE;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&m->lock);
    m->idle = !m->stopping && !atomic_load(&m->comm.awaited);
    if (m->idle)
        pthread_cond_timedwait(&m->news, &m->lock, &until);
    m->idle = false;
    pthread_mutex_unlock(&m->lock);
}

static void *drive(void *at)
{
    messages *m = at;
    int64_t came = mf_profile_now(), awaited = came;
    unsigned polls = 0;
    prctl(PR_SET_TIMERSLACK, 1000); /* ns: short naps are short */
    for (bool stopping = false; !stopping;) {
        operation *finished = NULL;
        pthread_mutex_lock(&m->lock);
        bool some = progress(m, &finished), moves = m->moving;
        stopping = m->stopping;
        pthread_mutex_unlock(&m->lock);
        call_back(m, finished);
        int64_t now = mf_profile_now();
        came = some ? now : came;
        awaited = atomic_load(&m->comm.awaited) ? now : awaited;
        if (now - awaited > SOON)
            sleep_idle(m);
        else
            nanosleep(&(struct timespec){ 0, nap_of(m, now, came, moves, &polls) }, NULL);
    }
    return NULL;
}

static void stop_driver(messages *m)
{
    pthread_mutex_lock(&m->lock);
    bool running = !m->stopping;
    m->stopping = true;
    pthread_cond_signal(&m->news);
    pthread_mutex_unlock(&m->lock);
    if (running)
        pthread_join(m->driver, NULL);
}

/* ------------------------------------------------------------------ leaving */

static bool nothing_moves(const messages *m) { return !m->outgoing && !m->moving; }

/* All tell process 0 that they leave, and it tells all when everybody does: whoever asks before is answered. */
static bool depends_on(const messages *m, int p) { return m->comm.rank ? p == 0 && !m->all_left : p && !m->peers[p].left; }

static bool everybody_leaves(const messages *m)
{
    for (int p = 0; p < m->comm.size; p++)
        if (depends_on(m, p))
            return false;
    return true;
}

/* Whether all of whom this depends have given a sign of life of late; asks them for one. */
static bool are_alive(messages *m, int64_t since, int64_t now, operation **finished)
{
    if (now < m->ask_at)
        return true;
    m->ask_at = now + ASKED_AT_MOST;
    for (int p = 0; p < m->comm.size; p++) {
        int64_t heard = m->peers[p].heard > since ? m->peers[p].heard : since;
        if (!depends_on(m, p))
            continue;
        if (now - heard > m->timeout && now - heard > SILENT_AT_LEAST)
            return false;
        say(m, p, WHERE, UINT64_MAX, 0, NULL, finished);
    }
    return true;
}

static bool wait_until(messages *m, bool (*then)(const messages *))
{
    int64_t since = mf_profile_now(), nap = NAP_MIN;
    m->ask_at = since + FIRST_ASKED;
    for (bool reached = false, alive = true; alive;) {
        operation *finished = NULL;
        pthread_mutex_lock(&m->lock);
        bool some = progress(m, &finished);
        reached = then(m);
        alive = !reached && !m->broken && !m->bereft && are_alive(m, since, mf_profile_now(), &finished);
        pthread_mutex_unlock(&m->lock);
        call_back(m, finished);
        if (reached)
            return true;
        nap = some ? NAP_MIN : nap < NAP_MAX ? nap + nap / 8 : NAP_MAX;
        nanosleep(&(struct timespec){ 0, nap }, NULL);
    }
    return false;
}

/* The last receives for headers end with headers to itself. */
static bool take_receives_back(messages *m)
{
    header nothing = { .magic = MAGIC, .kind = TAKEN, .from = (uint32_t)m->comm.rank };
    uintptr_t sent[RING] = { 0 };
    for (int i = 0; i < RING; i++)
        if (m->link->send(m->link, m->comm.rank, 0, &nothing, sizeof nothing, &sent[i]))
            return false;
    int64_t end = mf_profile_now() + ASKED_AT_MOST;
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

static bool say_goodbye(messages *m)
{
    operation *finished = NULL;
    if (!wait_until(m, nothing_moves))
        return false;
    pthread_mutex_lock(&m->lock);
    if (m->comm.rank)
        say(m, 0, BYE, 0, 0, NULL, &finished);
    pthread_mutex_unlock(&m->lock);
    if (!wait_until(m, everybody_leaves))
        return false;
    pthread_mutex_lock(&m->lock);
    for (int p = 1; !m->comm.rank && p < m->comm.size; p++)
        say(m, p, ALL_LEFT, 0, 0, NULL, &finished);
    pthread_mutex_unlock(&m->lock);
    return wait_until(m, nothing_moves);
}

static bool leave(mf_comm *c, const char *why)
{
    messages *m = (messages *)c;
    operation *finished = NULL;
    pthread_mutex_lock(&m->lock);
    bool first = !m->left;
    if (first) {
        m->left = why;
        fail_waiting(m, any, NULL, gone(m, -1), &finished);
        drop_arrived(m, 0, true, &finished);
    }
    pthread_mutex_unlock(&m->lock);
    call_back(m, finished);
    if (!first)
        return false;
    stop_driver(m);
    bool good = say_goodbye(m);
    pthread_mutex_lock(&m->lock);
    good = good && !m->closed && take_receives_back(m);
    m->closed = true;
    pthread_mutex_unlock(&m->lock);
    return good;
}

mf_comm *mf_messages_new(mf_link *link, int rank, int size, const int *first_device, double timeout, mf_error_object **error)
{
    messages *m = mf_calloc(1, sizeof *m);
    *error = NULL;
    if (m) {
        m->peers = mf_calloc((size_t)size, sizeof *m->peers);
        m->ring = mf_alloc(RING * SLOT);
    }
    if (!m || !m->peers || !m->ring) {
        *error = mf_error_out_of_memory();
        return NULL; /* the process ends, or goes on alone */
    }
    m->comm = (mf_comm){ .rank = rank,
                         .size = size,
                         .first_device = first_device,
                         .send = send_message,
                         .receive = receive_message,
                         .abort = abort_call,
                         .end = end_call,
                         .poll = poll_comm,
                         .leave = leave };
    m->link = link;
    m->timeout = (int64_t)(timeout * 1e9);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->news, NULL);
    operation *finished = NULL;
    for (int i = 0; i < RING && !m->broken; i++)
        receive_next(m, &finished);
    if (!m->broken && !mf_thread_make(&m->driver, drive, m))
        m->broken = mf_error_new(MF_ERROR_MEMORY, "the system refuses the thread that messages between processes need");
    *error = m->broken ? mf_retain(m->broken) : NULL;
    return m->broken ? NULL : &m->comm;
}
