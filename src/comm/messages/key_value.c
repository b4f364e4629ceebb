/* The key-value store of a job, which process 0 holds. A put sends the value there in pieces; a get is answered in pieces, at once or as
 * soon as somebody puts its key.
 * Invariants: the lock guards all; a waiting get is woken by whatever may end its wait: an answer, a death, the end of the link, this
 * process leaving; a get that has ended is forgotten on both sides, so what still arrives for it is dropped; a piece is used only after it
 * was found to follow the ones before it. */
#include "comm/messages/protocol.h"

#include "base/memory/alloc.h"
#include "base/thread/stack.h"

#include <time.h>

#define PIECE INLINE_NEAR

/* ---- bytes that come in pieces */

static bool begin_bytes(mf_key_bytes *b, size_t total)
{
    mf_free(b->at);
    *b = (mf_key_bytes){ .at = mf_alloc(total + 1), .total = total };
    return b->at;
}

/* Adds the next piece; false: the piece does not follow the ones before it. */
static bool add_piece(mf_key_bytes *b, uint64_t from, const void *piece, size_t count)
{
    if (!b->at || from != b->count || count > b->total - b->count)
        return false;
    memcpy(b->at + b->count, piece, count);
    b->count += count;
    return true;
}

static bool is_whole(const mf_key_bytes *b) { return b->at && b->count == b->total; }

/* ---- the store, in process 0 */

static mf_key_entry *find_entry(const mf_messages *m, const void *key, size_t size)
{
    mf_key_entry *e = m->keys.entries;
    while (e && !(e->key_size == size && !memcmp(e->key, key, size)))
        e = e->next;
    return e;
}

/* Takes the value over. */
static mf_key_entry *set_entry(mf_messages *m, const void *key, size_t size, mf_key_bytes *value)
{
    mf_key_entry *e = find_entry(m, key, size);
    if (!e && (e = mf_calloc(1, sizeof *e + size))) {
        e->key_size = size;
        memcpy(e->key, key, size);
        e->next = m->keys.entries;
        m->keys.entries = e;
    }
    if (!e)
        return NULL;
    mf_free(e->value.at);
    e->value = *value;
    *value = (mf_key_bytes){ 0 };
    return e;
}

/* Sends the value in pieces; each has this header, with its position, and the key in front. */
static bool send_pieces(mf_messages *m, int to, mf_message_header h, const void *key, size_t key_size, const void *value, size_t size,
                        mf_operation **finished)
{
    unsigned char buffer[2 * PIECE];
    h.total = size;
    h.key_bytes = (uint32_t)key_size;
    memcpy(buffer, key, key_size);
    for (h.position = 0;;) {
        size_t count = size - h.position < PIECE ? size - h.position : PIECE;
        memcpy(buffer + key_size, (const char *)value + h.position, count);
        h.size = key_size + count;
        if (!mf_messages_post(m, to, h, buffer, h.size, NULL, finished))
            return false;
        h.position += count;
        if (h.position >= size)
            return true;
    }
}

static void answer_with(mf_messages *m, int to, uint64_t id, const mf_key_entry *e, mf_operation **finished)
{
    mf_message_header h = { .kind = KEY_VALUE, .id = id };
    if (!send_pieces(m, to, h, "", 0, e->value.at, e->value.count, finished))
        mf_messages_fail_all(m, mf_error_out_of_memory(), finished);
}

/* Answers all who wait for the key: other processes by messages, threads of this process by waking them. */
static void answer_all(mf_messages *m, const mf_key_entry *e, mf_operation **finished)
{
    for (mf_key_pending **at = &m->keys.pending, *a; (a = *at);)
        if (a->key_size == e->key_size && !memcmp(a->key, e->key, e->key_size)) {
            *at = a->next;
            answer_with(m, a->from, a->id, e, finished);
            mf_free(a);
        } else {
            at = &a->next;
        }
    pthread_cond_broadcast(&m->keys.news);
}

static void handle_put(mf_messages *m, const mf_message_header *h, const unsigned char *payload, mf_operation **finished)
{
    mf_key_bytes *value = &m->peers[h->from].put;
    if (!h->position && !begin_bytes(value, h->total)) {
        mf_messages_fail_all(m, mf_error_out_of_memory(), finished);
        return;
    }
    if (value->total != h->total || !add_piece(value, h->position, payload + h->key_bytes, h->size - h->key_bytes) || !is_whole(value))
        return;
    const mf_key_entry *e = set_entry(m, payload, h->key_bytes, value);
    if (e)
        answer_all(m, e, finished);
    else
        mf_messages_fail_all(m, mf_error_out_of_memory(), finished);
}

static void handle_get(mf_messages *m, const mf_message_header *h, const unsigned char *key, mf_operation **finished)
{
    const mf_key_entry *e = find_entry(m, key, h->size);
    if (e) {
        answer_with(m, (int)h->from, h->id, e, finished);
        return;
    }
    if (!h->waits) { /* the sender does not wait */
        mf_messages_post_text(m, (int)h->from, KEY_ABSENT, 0, h->id, NULL, finished);
        return;
    }
    mf_key_pending *a = mf_alloc(sizeof *a + h->size);
    if (!a) {
        mf_messages_fail_all(m, mf_error_out_of_memory(), finished);
        return;
    }
    *a = (mf_key_pending){ .next = m->keys.pending, .from = (int)h->from, .id = h->id, .key_size = h->size };
    memcpy(a->key, key, h->size);
    m->keys.pending = a;
}

static void handle_get_cancel(mf_messages *m, const mf_message_header *h)
{
    for (mf_key_pending **at = &m->keys.pending, *a; (a = *at); at = &a->next)
        if (a->from == (int)h->from && a->id == h->id) {
            *at = a->next;
            mf_free(a);
            return;
        }
}

/* ---- gets of this process */

static mf_key_get *find_get(const mf_messages *m, uint64_t id)
{
    mf_key_get *g = m->keys.gets;
    while (g && g->id != id)
        g = g->next;
    return g;
}

static void handle_value(mf_messages *m, const mf_message_header *h, const unsigned char *piece)
{
    mf_key_get *g = h->from ? NULL : find_get(m, h->id);
    if (!g)
        return;
    if (h->kind == KEY_ABSENT)
        g->absent = true;
    else if (!h->position && !begin_bytes(&g->value, h->total))
        g->failed = true;
    else if (g->value.total == h->total)
        add_piece(&g->value, h->position, piece, h->size);
    if (g->absent || g->failed || is_whole(&g->value))
        pthread_cond_broadcast(&m->keys.news);
}

void mf_key_value_handle(mf_messages *m, const mf_message_header *h, const unsigned char *payload, mf_operation **finished)
{
    if (m->comm.rank && h->kind <= KEY_GET_CANCEL)
        return;
    switch ((mf_message_kind)h->kind) {
    case KEY_PUT: handle_put(m, h, payload, finished); break;
    case KEY_GET: handle_get(m, h, payload, finished); break;
    case KEY_GET_CANCEL: handle_get_cancel(m, h); break;
    default: handle_value(m, h, payload); break;
    }
}

/* Checks the sizes only; a piece that nobody waits for, or that does not follow the ones before it, is dropped later. */
bool mf_key_value_is_well_formed(const mf_message_header *h, size_t payload)
{
    return h->size == payload && payload <= 2 * PIECE && h->key_bytes <= payload && h->key_bytes <= MF_KEY_MOST &&
           h->total <= MF_VALUE_MOST;
}

/* The driver stays awake while a get waits. */
static void wake_driver(mf_messages *m)
{
    atomic_fetch_add(&m->comm.awaited, 1);
    if (m->idle)
        pthread_cond_signal(&m->news);
}

static struct timespec deadline_after(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double most = seconds < 1e9 ? seconds : 1e9;
    t.tv_sec += (time_t)most;
    t.tv_nsec += (long)((most - (double)(time_t)most) * 1e9);
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Why a get can get no answer any more; NULL: it still can. */
static mf_error_object *why_unanswerable(const mf_messages *m)
{
    if (m->left || m->broken)
        return mf_messages_gone_error(m, -1);
    return m->any_dead ? mf_error_new(MF_ERROR_PEER, "process %d has died; a key of this process waits for the others", m->first_dead)
                       : NULL;
}

/* Whether the value, or that there is none, is known by now. */
static bool is_answered(mf_messages *m, mf_key_get *g, const void *key, size_t size)
{
    const mf_key_entry *e = m->comm.rank ? NULL : find_entry(m, key, size);
    if (!e)
        return g->absent || g->failed || is_whole(&g->value);
    g->failed = !begin_bytes(&g->value, e->value.count) || !add_piece(&g->value, 0, e->value.at, e->value.count);
    return true;
}

static void unlink_get(mf_messages *m, mf_key_get *g)
{
    mf_key_get **at = &m->keys.gets;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    atomic_fetch_sub(&m->comm.awaited, 1);
}

/* Waits with the lock held. seconds <= 0: only for the answer whether there is a value. */
static mf_error_object *wait_for_value(mf_messages *m, mf_key_get *g, const void *key, size_t size, double seconds)
{
    struct timespec until = deadline_after(seconds > 0 ? seconds : (double)m->timeout / 1e9);
    mf_error_object *error = NULL;
    int late = 0;
    while (!is_answered(m, g, key, size) && !(error = why_unanswerable(m)) && !late)
        if (!m->comm.rank && seconds <= 0)
            g->absent = true;
        else
            late = pthread_cond_timedwait(&m->keys.news, &m->lock, &until);
    if (error || is_whole(&g->value))
        return error;
    if (late && seconds <= 0)
        return mf_error_new(MF_ERROR_PEER, "process 0 has not answered for %g s: it is stopped or gone", (double)m->timeout / 1e9);
    return g->failed ? mf_error_out_of_memory() : NULL;
}

mf_error_object *mf_key_value_get(mf_comm *c, const void *key, size_t size, double seconds, void **value, size_t *count)
{
    mf_messages *m = (mf_messages *)c;
    mf_operation *finished = NULL;
    mf_key_get g = { 0 };
    *value = NULL;
    *count = 0;
    if (size > MF_KEY_MOST)
        return mf_error_new(MF_ERROR_ARGUMENT, "a key of %zu bytes; %d are the most", size, MF_KEY_MOST);
    pthread_mutex_lock(&m->lock);
    g.id = ++m->keys.next_id;
    g.next = m->keys.gets;
    m->keys.gets = &g;
    wake_driver(m);
    mf_error_object *error = why_unanswerable(m);
    mf_message_header h = { .kind = KEY_GET, .id = g.id, .waits = seconds > 0, .size = size };
    if (!error && c->rank && !mf_messages_post(m, 0, h, key, size, NULL, &finished))
        error = mf_error_out_of_memory();
    error = error ? error : wait_for_value(m, &g, key, size, seconds);
    bool came = !error && is_whole(&g.value);
    if (!came && c->rank && seconds > 0 && !mf_messages_is_gone(m, 0))
        mf_messages_post_text(m, 0, KEY_GET_CANCEL, 0, g.id, NULL, &finished);
    unlink_get(m, &g);
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
    *value = came ? g.value.at : NULL;
    *count = came ? g.value.count : 0;
    if (!came)
        mf_free(g.value.at);
    return error;
}

mf_error_object *mf_key_value_put(mf_comm *c, const void *key, size_t size, const void *value, size_t count)
{
    mf_messages *m = (mf_messages *)c;
    mf_operation *finished = NULL;
    if (size > MF_KEY_MOST || count > MF_VALUE_MOST)
        return mf_error_new(MF_ERROR_ARGUMENT, "a key of %zu bytes with a value of %zu; %d and %d are the most", size, count, MF_KEY_MOST,
                            MF_VALUE_MOST);
    mf_key_bytes own = { 0 };
    if (!c->rank && (!begin_bytes(&own, count) || !add_piece(&own, 0, value, count)))
        return mf_error_out_of_memory();
    pthread_mutex_lock(&m->lock);
    mf_error_object *error = m->left || m->broken || mf_messages_is_gone(m, 0) ? why_unanswerable(m) : NULL;
    const mf_key_entry *e = !error && !c->rank ? set_entry(m, key, size, &own) : NULL;
    bool good = c->rank ? error || send_pieces(m, 0, (mf_message_header){ .kind = KEY_PUT }, key, size, value, count, &finished)
                        : error || e;
    if (e)
        answer_all(m, e, &finished);
    pthread_mutex_unlock(&m->lock);
    mf_operations_call_back(m, finished);
    mf_free(own.at);
    return good ? error : mf_error_out_of_memory();
}

void mf_key_value_wake(mf_messages *m) { pthread_cond_broadcast(&m->keys.news); }

/* Gets wait by the monotonic clock, which nobody can set. */
void mf_key_value_begin(mf_messages *m)
{
    pthread_condattr_t by;
    pthread_condattr_init(&by);
    pthread_condattr_setclock(&by, CLOCK_MONOTONIC);
    pthread_cond_init(&m->keys.news, &by);
    pthread_condattr_destroy(&by);
}

void mf_key_value_end(mf_messages *m)
{
    for (mf_key_entry *e = m->keys.entries, *next; e; e = next) {
        next = e->next;
        mf_free(e->value.at);
        mf_free(e);
    }
    for (mf_key_pending *a = m->keys.pending, *next; a; a = next) {
        next = a->next;
        mf_free(a);
    }
    for (int p = 0; m->peers && p < m->comm.size; p++)
        mf_free(m->peers[p].put.at);
    pthread_cond_destroy(&m->keys.news);
}
