/* A job of several processes simulated in one process: each is a thread with its own communicator, joined by queues. Messages are delayed
 * and reordered at random, by a seed; but the end of a process, or its failure in a call, is never announced before the messages that it
 * sent earlier. Whatever may be borrowed is borrowed, until it is given back: memory that may not be accessed afterwards. */
#ifndef TESTS_THREADS_COMM_H
#define TESTS_THREADS_COMM_H

#include "runtime/comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOB_MOST = 32 };

typedef enum job_kind { JOB_DATA, JOB_END, JOB_ABORT } job_kind;

typedef struct job_message { /* in transit, or arrived before it was requested */
    struct job_message *next;
    job_kind kind;
    int from, to;
    mf_message_tag tag;
    size_t count;
    void *bytes; /* a copy; for an abort, its message */
    mf_message_done sent;
    void *context;
} job_message;

typedef struct job_receipt {
    struct job_receipt *next;
    int from, to;
    mf_message_tag tag;
    size_t count;
    void *bytes;
    mf_loan *loan; /* or NULL */
    mf_message_done done;
    void *context;
} job_receipt;

typedef struct job_process {
    mf_comm comm;
    struct job *job;
    void (*run)(void *context, int rank);
    void *context;
} job_process;

typedef struct job {
    int size;
    job_process at[JOB_MOST];
    int first_device[JOB_MOST + 1];
    pthread_mutex_t lock;
    pthread_cond_t news;
    job_message *moving, *arrived, *ended; /* ended: ends and aborts that have arrived; from == to: the process's own */
    job_receipt *asked;
    uint64_t random;
    bool over;
    int64_t messages;
    _Atomic int64_t lent; /* not given back yet */
} job;

static uint32_t job_random(job *j)
{
    j->random = j->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(j->random >> 33);
}

static bool job_matches(const mf_message_tag *a, const mf_message_tag *b) { return a->call == b->call && a->place == b->place; }

static void *job_copy(const void *bytes, size_t count)
{
    void *made = malloc(count + 1);
    return memcpy(made, bytes, count);
}

/* A loan has its own copy of the memory, by whose address it is identified. */
static mf_loan job_lend(job *j, const job_message *m)
{
    void *at = job_copy(m->bytes, m->count);
    atomic_fetch_add(&j->lent, 1);
    return (mf_loan){ at, (uint64_t)(uintptr_t)at };
}

/* Ends a receipt; the caller does not hold the lock. */
static void job_end_receipt(job *j, job_receipt *r, const job_message *m)
{
    mf_error_object *error = NULL;
    if (m->kind == JOB_ABORT)
        error = mf_error_new(MF_ERROR_PEER, "process %d: %s", m->from, (const char *)m->bytes);
    else if (m->kind == JOB_END)
        error = mf_error_new(MF_ERROR_PEER, "process %d ended its call %llu without this collective", m->from,
                             (unsigned long long)m->tag.call);
    else if (m->tag.check != r->tag.check || m->count != r->count)
        error = mf_error_new(
            MF_ERROR_PEER, "process %d computes something else here: it runs another program, or its functions in another order", m->from);
    else if (r->loan)
        *r->loan = job_lend(j, m);
    else
        memcpy(r->bytes, m->bytes, m->count);
    r->done(r->context, error);
    free(r);
}

static void job_free(job_message *m)
{
    free(m->bytes);
    free(m);
}

static void job_free_all(job_message *m)
{
    for (job_message *next; m; m = next) {
        next = m->next;
        job_free(m);
    }
}

static job_message *job_find(job_message **list, int from, int to, const mf_message_tag *tag, bool any_place)
{
    for (; *list; list = &(*list)->next)
        if ((*list)->from == from && (*list)->to == to && (any_place ? (*list)->tag.call == tag->call : job_matches(&(*list)->tag, tag)))
            return *list;
    return NULL;
}

static void job_unlink(job_message **list, job_message *m)
{
    while (*list != m)
        list = &(*list)->next;
    *list = m->next;
}

static void job_post(job *j, job_message m)
{
    job_message *made = malloc(sizeof *made);
    *made = m;
    pthread_mutex_lock(&j->lock);
    made->next = j->moving; /* newest first */
    j->moving = made;
    pthread_cond_signal(&j->news);
    pthread_mutex_unlock(&j->lock);
}

static void job_send(mf_comm *c, int peer, const mf_message_tag *tag, const void *bytes, size_t count, mf_message_done done, void *context)
{
    job_post(((job_process *)c)->job, (job_message){ NULL, JOB_DATA, c->rank, peer, *tag, count, job_copy(bytes, count), done, context });
}

static void job_borrow(mf_comm *c, int peer, const mf_message_tag *tag, void *bytes, size_t count, mf_loan *loan, mf_message_done done,
                       void *context)
{
    job *j = ((job_process *)c)->job;
    job_receipt *r = malloc(sizeof *r);
    *r = (job_receipt){ NULL, peer, c->rank, *tag, count, bytes, loan, done, context };
    pthread_mutex_lock(&j->lock);
    job_message *m = job_find(&j->arrived, peer, c->rank, tag, false), *why = NULL;
    if (m)
        job_unlink(&j->arrived, m);
    else if (!(why = job_find(&j->ended, c->rank, c->rank, tag, true)))
        why = job_find(&j->ended, peer, c->rank, tag, true);
    if (!m && !why) {
        r->next = j->asked;
        j->asked = r;
    }
    pthread_mutex_unlock(&j->lock);
    if (m || why)
        job_end_receipt(j, r, m ? m : why);
    if (m)
        job_free(m);
}

static void job_receive(mf_comm *c, int peer, const mf_message_tag *tag, void *bytes, size_t count, mf_message_done done, void *context)
{
    job_borrow(c, peer, tag, bytes, count, NULL, done, context);
}

/* The first receipt that waits for this message; for an end or an abort, any receipt. */
static job_receipt *job_asker(job *j, const job_message *m)
{
    for (job_receipt **at = &j->asked; *at; at = &(*at)->next) {
        job_receipt *r = *at;
        bool own = m->from == m->to && r->to == m->to;
        if ((own || (r->from == m->from && r->to == m->to)) &&
            (m->kind == JOB_DATA ? job_matches(&r->tag, &m->tag) : r->tag.call == m->tag.call)) {
            *at = r->next;
            return r;
        }
    }
    return NULL;
}

/* An end or an abort has arrived: notifies those who wait, and is kept for those who will wait. */
static void job_tell(job *j, job_message *m)
{
    pthread_mutex_lock(&j->lock);
    m->next = j->ended;
    j->ended = m;
    job_receipt *list = NULL, *r;
    while ((r = job_asker(j, m))) {
        r->next = list;
        list = r;
    }
    pthread_mutex_unlock(&j->lock);
    for (job_receipt *next; list; list = next) {
        next = list->next;
        job_end_receipt(j, list, m);
    }
}

static void job_stop(mf_comm *c, uint64_t call, job_kind kind, const char *words)
{
    job *j = ((job_process *)c)->job;
    mf_message_tag tag = { .call = call };
    pthread_mutex_lock(&j->lock);
    bool known = job_find(&j->ended, c->rank, c->rank, &tag, true);
    pthread_mutex_unlock(&j->lock);
    if (known)
        return;
    job_message *own = malloc(sizeof *own);
    *own = (job_message){ NULL, kind, c->rank, c->rank, tag, 0, job_copy(words, strlen(words) + 1), NULL, NULL };
    job_tell(j, own);
    for (int p = 0; p < c->size; p++)
        if (p != c->rank)
            job_post(j, (job_message){ NULL, kind, c->rank, p, tag, 0, job_copy(words, strlen(words) + 1), NULL, NULL });
}

static void job_abort(mf_comm *c, uint64_t call, const char *why) { job_stop(c, call, JOB_ABORT, why); }

/* A process that fails in a call as soon as another one has read what it lends; -1: none. */
static _Atomic int job_fails_when_read = -1;

/* False if its owner has failed in the call, which may not be known here yet. */
static bool job_return_loan(mf_comm *c, int peer, uint64_t call, const mf_loan *loan)
{
    job *j = ((job_process *)c)->job;
    const mf_message_tag tag = { .call = call };
    if (peer == atomic_load(&job_fails_when_read))
        job_abort(&j->at[peer].comm, call, "the disk is full");
    pthread_mutex_lock(&j->lock);
    const job_message *end = job_find(&j->ended, peer, peer, &tag, true);
    bool good = !end || end->kind != JOB_ABORT;
    pthread_mutex_unlock(&j->lock);
    free((void *)(uintptr_t)loan->id);
    atomic_fetch_sub(&j->lent, 1);
    return good;
}

static void job_end(mf_comm *c, uint64_t call) { job_stop(c, call, JOB_END, ""); }

/* A message that may arrive now: an end or an abort must wait for all earlier messages of its process. */
static job_message *job_pick(job *j)
{
    int count = 0;
    for (job_message *m = j->moving; m; m = m->next)
        count++;
    if (!count)
        return NULL;
    job_message *m = j->moving;
    for (int skip = (int)(job_random(j) % (unsigned)count); skip; skip--)
        m = m->next;
    for (job_message *other = m->kind == JOB_DATA ? NULL : m->next; other; other = other->next)
        if (other->from == m->from && other->to == m->to && other->tag.call == m->tag.call)
            m = other; /* an older one comes first */
    job_unlink(&j->moving, m);
    return m;
}

static void job_arrive(job *j, job_message *m)
{
    if (m->kind != JOB_DATA) {
        job_tell(j, m);
        return;
    }
    mf_message_done sent = m->sent;
    void *context = m->context;
    pthread_mutex_lock(&j->lock);
    job_receipt *r = job_asker(j, m);
    bool late = !r && job_find(&j->ended, m->to, m->to, &m->tag, true);
    if (!r && !late) {
        m->next = j->arrived;
        j->arrived = m;
    }
    pthread_mutex_unlock(&j->lock);
    if (r)
        job_end_receipt(j, r, m);
    if (r || late)
        job_free(m);
    sent(context, NULL);
}

static void *job_deliver(void *at)
{
    job *j = at;
    pthread_mutex_lock(&j->lock);
    for (;;) {
        job_message *m = job_pick(j);
        if (!m && j->over)
            break;
        if (!m) {
            pthread_cond_wait(&j->news, &j->lock);
            continue;
        }
        unsigned delay = job_random(j) % 8 ? 0 : job_random(j) % 100;
        j->messages++;
        pthread_mutex_unlock(&j->lock);
        if (delay)
            usleep(delay);
        job_arrive(j, m);
        pthread_mutex_lock(&j->lock);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

static void *job_thread(void *at)
{
    job_process *p = at;
    mf_comm_set(&p->comm);
    p->run(p->context, p->comm.rank);
    while (atomic_load(&p->comm.runs)) /* runs that were not waited for */
        usleep(100);
    mf_comm_set(NULL);
    return NULL;
}

/* Runs run(context, rank) for each of `size` processes at the same time; process p has devices[p] devices. Returns the number of
 * messages. */
static int64_t job_run(int size, const int *devices, uint64_t seed, void (*run)(void *context, int rank), void *context)
{
    job j = { .size = size, .random = seed };
    pthread_t threads[JOB_MOST], deliverer;
    pthread_mutex_init(&j.lock, NULL);
    pthread_cond_init(&j.news, NULL);
    for (int p = 0; p < size; p++) {
        j.first_device[p + 1] = j.first_device[p] + devices[p];
        j.at[p] = (job_process){ .job = &j, .run = run, .context = context };
        j.at[p].comm = (mf_comm){ .rank = p,
                                  .size = size,
                                  .first_device = j.first_device,
                                  .send = job_send,
                                  .receive = job_receive,
                                  .borrow = job_borrow,
                                  .return_loan = job_return_loan,
                                  .abort = job_abort,
                                  .end = job_end };
    }
    for (int p = 0; p < size; p++)
        mf_comm_count_devices(&j.at[p].comm);
    pthread_create(&deliverer, NULL, job_deliver, &j);
    for (int p = 0; p < size; p++)
        pthread_create(&threads[p], NULL, job_thread, &j.at[p]);
    for (int p = 0; p < size; p++)
        pthread_join(threads[p], NULL);
    pthread_mutex_lock(&j.lock);
    j.over = true;
    pthread_cond_signal(&j.news);
    pthread_mutex_unlock(&j.lock);
    pthread_join(deliverer, NULL);
    for (int p = 0; p < size; p++)
        mf_comm_free_groups(&j.at[p].comm);
    if (atomic_load(&j.lent)) {
        fprintf(stderr, "%lld loans were not given back\n", (long long)atomic_load(&j.lent));
        abort();
    }
    job_free_all(j.moving);
    job_free_all(j.arrived);
    job_free_all(j.ended);
    pthread_mutex_destroy(&j.lock);
    pthread_cond_destroy(&j.news);
    return j.messages;
}

#endif
