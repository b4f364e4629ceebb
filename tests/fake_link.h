/* A fake link for messages (comm/messages.h): it sends nothing, and the test supplies any bytes as the next header; payloads arrive at
 * once, complete. This process is number 0 of PROCESSES, of which NEAR may share memory. */
#ifndef TESTS_FAKE_LINK_H
#define TESTS_FAKE_LINK_H

#include "comm/messages/protocol.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 4, NEAR = 3, REQUESTS = 1 << 16, MAGIC = 0x31304d4d };

typedef struct request {
    bool done;
    size_t most, count;
    unsigned char *at; /* of a receive */
} request;

static struct {
    mf_link link;
    pthread_mutex_t lock;
    request requests[REQUESTS];
    uintptr_t made, next_header; /* headers are received in the order of their requests */
    int under_way;
    mf_shared_memory shared;
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uintptr_t new_request(bool done, void *at, size_t most)
{
    pthread_mutex_lock(&fake.lock);
    uintptr_t r = ++fake.made;
    if (r >= REQUESTS)
        abort();
    fake.requests[r] = (request){ done, most, most, at };
    pthread_mutex_unlock(&fake.lock);
    return r;
}

/* Payloads arrive at once, complete. */
static int fake_receive(mf_link *l, int from, int tag, void *bytes, size_t most, uintptr_t *r)
{
    if (from >= PROCESSES || tag < 0 || tag >= l->tags || most > l->most)
        return 1;
    *r = new_request(from >= 0, bytes, most);
    if (from >= 0)
        memset(bytes, 7, most);
    return 0;
}

static int fake_test(mf_link *l, uintptr_t *r, bool *done, size_t *count)
{
    (void)l;
    pthread_mutex_lock(&fake.lock);
    *done = fake.requests[*r].done;
    if (count)
        *count = fake.requests[*r].count;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static mf_error_object *fake_error(mf_link *l, int code)
{
    (void)l;
    return mf_error_new(MF_ERROR_PEER, "the link says %d", code);
}

/* Delivers these bytes as the next header; drops them if no receive is pending. */
static void bring(const void *bytes, size_t count)
{
    bool brought = false;
    for (int i = 0; i < 200 && !brought; i++, sched_yield()) {
        pthread_mutex_lock(&fake.lock);
        while (fake.next_header <= fake.made && (fake.requests[fake.next_header].done || !fake.requests[fake.next_header].at))
            fake.next_header++;
        request *r = &fake.requests[fake.next_header];
        brought = fake.next_header <= fake.made;
        if (brought) {
            r->count = count < r->most ? count : r->most;
            memcpy(r->at, bytes, r->count);
            r->done = true;
        }
        pthread_mutex_unlock(&fake.lock);
    }
}

static int fake_send(mf_link *l, int to, int tag, const void *bytes, size_t count, uintptr_t *r)
{
    (void)l;
    if (to < 0 || to >= PROCESSES || tag < 0 || tag >= l->tags || count > l->most)
        return 1;
    if (to == 0) /* to itself, at the end */
        bring(bytes, count);
    *r = new_request(true, NULL, 0);
    return 0;
}

static mf_comm *open_comm(void)
{
    static const int first_device[PROCESSES + 1] = { 0, 1, 2, 3, 4 };
    mf_error_object *error;
    fake.link = (mf_link){
        .most = 1 << 16, .tags = 64, .send = fake_send, .receive = fake_receive, .test = fake_test, .error = fake_error
    };
    memset(fake.requests, 0, (fake.made + 1) * sizeof *fake.requests);
    fake.made = 0;
    fake.next_header = 1;
    return mf_messages_new(&fake.link, 0, PROCESSES, first_device, 300, &error); /* no error, in tests that continue */
}

/* False if the system provides no shared memory. */
static bool share(mf_comm *c)
{
    static const int processes[NEAR] = { 0, 1, 2 };
    mf_shared_invitation invitation;
    if (!fake.shared.at && mf_shared_make(&fake.shared, NEAR, &invitation))
        mf_shared_begin(&fake.shared);
    for (int p = 1; p < NEAR && fake.shared.at; p++) { /* left from before */
        atomic_store(&mf_shared_ring(&fake.shared, p, 0)->taken, atomic_load(&mf_shared_ring(&fake.shared, p, 0)->put));
        atomic_store(&mf_shared_ring(&fake.shared, 0, p)->taken, atomic_load(&mf_shared_ring(&fake.shared, 0, p)->put));
    }
    return fake.shared.at && mf_messages_share(c, &fake.shared, processes);
}

/* Discards what this process writes to the processes that share memory with it. */
static void drain(void)
{
    size_t count;
    for (int p = 1; p < NEAR; p++)
        while (mf_ring_next(mf_shared_ring(&fake.shared, 0, p), &count))
            mf_ring_take(mf_shared_ring(&fake.shared, 0, p), count);
}

/* Makes the other processes leave, too. */
static void leave(mf_comm *c)
{
    for (uint32_t p = 1; p < PROCESSES; p++) {
        mf_message_header bye = { .magic = MAGIC, .kind = LEAVING, .from = p };
        bring(&bye, sizeof bye);
    }
    c->leave(c, "the test is over");
    mf_messages_free(c);
}

#endif
