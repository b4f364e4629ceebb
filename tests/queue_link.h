/* A job of several processes simulated in one process, joined by the library's own messages (comm/messages.h): each process is a thread
 * with a communicator over a link of queues, on which a message arrives after a random number of polls, in order for each pair of
 * processes. */
#ifndef TESTS_QUEUE_LINK_H
#define TESTS_QUEUE_LINK_H

#include "comm/messages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUE_MOST = 8 };

typedef struct queue_message {
    struct queue_message *next;
    int from, tag, delay; /* polls until it arrives */
    size_t count;
    unsigned char bytes[];
} queue_message;

typedef struct queue_request {
    struct queue_request *next;
    int from, tag; /* from -1: any process */
    unsigned char *at;
    size_t most, count;
    bool done, sent;
} queue_request;

typedef struct queue_end {
    mf_link link;
    struct queue_job *job;
    int rank;
    mf_comm *comm;
    queue_message *arrived; /* oldest first */
    queue_request *asked;   /* likewise */
} queue_end;

typedef struct queue_job {
    pthread_mutex_t lock;
    int size, first_device[QUEUE_MOST + 1];
    uint64_t random;
    queue_end at[QUEUE_MOST];
    void (*run)(void *context, int rank);
    void *context;
} queue_job;

static unsigned queue_draw(queue_job *j, unsigned below)
{
    j->random = j->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(j->random >> 33) % below;
}

static int queue_send(mf_link *l, int to, int tag, const void *bytes, size_t count, uintptr_t *request)
{
    queue_end *end = (queue_end *)l;
    queue_message *m = malloc(sizeof *m + count);
    queue_request *r = calloc(1, sizeof *r);
    r->done = r->sent = true;
    memcpy(m->bytes, bytes, count);
    pthread_mutex_lock(&end->job->lock);
    queue_message **last = &end->job->at[to].arrived;
    while (*last)
        last = &(*last)->next;
    m->next = NULL;
    m->from = end->rank;
    m->tag = tag;
    m->count = count;
    m->delay = queue_draw(end->job, 4) ? 0 : (int)queue_draw(end->job, 20);
    *last = m;
    pthread_mutex_unlock(&end->job->lock);
    *request = (uintptr_t)r;
    return 0;
}

static int queue_receive(mf_link *l, int from, int tag, void *bytes, size_t most, uintptr_t *request)
{
    queue_end *end = (queue_end *)l;
    queue_request *r = calloc(1, sizeof *r);
    *r = (queue_request){ .from = from, .tag = tag, .at = bytes, .most = most };
    pthread_mutex_lock(&end->job->lock);
    queue_request **last = &end->asked;
    while (*last)
        last = &(*last)->next;
    *last = r;
    pthread_mutex_unlock(&end->job->lock);
    *request = (uintptr_t)r;
    return 0;
}

static queue_request *queue_take_request(queue_end *end, const queue_message *m)
{
    for (queue_request **at = &end->asked, *r; (r = *at); at = &r->next)
        if ((r->from < 0 || r->from == m->from) && r->tag == m->tag) {
            *at = r->next;
            return r;
        }
    return NULL;
}

/* The caller holds the lock. */
static void queue_look(queue_end *end)
{
    bool held[QUEUE_MOST] = { false };
    for (queue_message **at = &end->arrived, *m; (m = *at);) {
        held[m->from] |= m->delay > 0;
        m->delay -= m->delay > 0;
        queue_request *r = held[m->from] ? NULL : queue_take_request(end, m);
        if (!r) {
            at = &m->next;
            continue;
        }
        if (m->count > r->most)
            abort();
        memcpy(r->at, m->bytes, m->count);
        r->count = m->count;
        r->done = true;
        *at = m->next;
        free(m);
    }
}

static int queue_test(mf_link *l, uintptr_t *request, bool *done, size_t *count)
{
    queue_end *end = (queue_end *)l;
    queue_request *r = (queue_request *)*request; /* NOLINT(performance-no-int-to-ptr) */
    pthread_mutex_lock(&end->job->lock);
    queue_look(end);
    *done = r->done;
    pthread_mutex_unlock(&end->job->lock);
    if (!*done)
        return 0;
    if (count)
        *count = r->count;
    free(r);
    return 0;
}

static mf_error_object *queue_error(mf_link *l, int code)
{
    (void)l;
    return mf_error_new(MF_ERROR_PEER, "the link says %d", code);
}

static void *queue_thread(void *at)
{
    queue_end *end = at;
    mf_comm_set(end->comm);
    end->job->run(end->job->context, end->rank);
    while (atomic_load(&end->comm->runs)) /* runs that were not waited for */
        usleep(100);
    mf_comm_set(NULL);
    end->comm->leave(end->comm, "the job is over");
    return NULL;
}

/* Runs run(context, rank) for each of `size` processes at the same time, with `devices` devices each. False if out of memory. */
static bool queue_job_run(int size, int devices, uint64_t seed, double timeout, void (*run)(void *context, int rank), void *context)
{
    static queue_job j;
    pthread_t threads[QUEUE_MOST];
    bool made = true;
    memset(&j, 0, sizeof j);
    j = (queue_job){ .size = size, .random = seed, .run = run, .context = context };
    pthread_mutex_init(&j.lock, NULL);
    for (int p = 0; p < size; p++)
        j.first_device[p + 1] = j.first_device[p] + devices;
    for (int p = 0; p < size && made; p++) {
        mf_error_object *error;
        mf_link link = {
            .most = 1 << 16, .tags = 64, .send = queue_send, .receive = queue_receive, .test = queue_test, .error = queue_error
        };
        j.at[p] = (queue_end){ .link = link, .job = &j, .rank = p };
        j.at[p].comm = mf_messages_new(&j.at[p].link, p, size, j.first_device, timeout, &error);
        made = j.at[p].comm;
    }
    for (int p = 0; p < size && made; p++)
        pthread_create(&threads[p], NULL, queue_thread, &j.at[p]);
    for (int p = 0; p < size && made; p++)
        pthread_join(threads[p], NULL);
    for (int p = 0; p < size && made; p++) {
        mf_messages_free(j.at[p].comm);
        for (queue_message *m = j.at[p].arrived, *next; m; m = next) {
            next = m->next;
            free(m);
        }
    }
    pthread_mutex_destroy(&j.lock);
    return made;
}

#endif
