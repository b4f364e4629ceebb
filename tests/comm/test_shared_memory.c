/* Rings and offers in shared memory: data arrives in order and complete, and an offer that its owner withdraws is not taken. */
#include "check.h"

#include "array/array.h"
#include "comm/messages/protocol.h"

#include <pthread.h>
#include <sched.h>

static size_t length_of(uint64_t i) { return i * 2654435761u % 5000; }

static void *put_all(void *ring)
{
    static unsigned char bytes[5000];
    for (uint64_t i = 0; i < 20000; i++) {
        size_t count = length_of(i), first = count / 3, second = count / 2 - first;
        memset(bytes, (int)i, count);
        while (!mf_ring_put(ring, (mf_ring_part[3]){ { bytes, first }, { bytes, second }, { bytes, count - first - second } }))
            sched_yield();
    }
    return NULL;
}

TEST(messages_come_in_order)
{
    mf_ring *r = aligned_alloc(4096, sizeof *r);
    pthread_t sender;
    size_t count = 0;
    memset(r, 0, sizeof *r);
    CHECK(!mf_ring_next(r, &count));
    REQUIRE(pthread_create(&sender, NULL, put_all, r) == 0);
    bool right = true;
    for (uint64_t i = 0; i < 20000; i++) {
        const unsigned char *at;
        while (!(at = mf_ring_next(r, &count)))
            sched_yield();
        right = right && count == length_of(i);
        for (size_t k = 0; right && k < count; k++)
            right = at[k] == (unsigned char)i;
        if (!CHECK(right))
            CHECK_NOTE("message %d", (int)i);
        mf_ring_take(r, right ? count : 0);
        REQUIRE(right);
    }
    pthread_join(sender, NULL);
    free(r);
}

TEST(a_length_that_cannot_be_is_none)
{
    mf_ring *r = aligned_alloc(4096, sizeof *r);
    size_t count = 0;
    memset(r, 0, sizeof *r);
    memset(r->bytes, 0x7f, 8);
    atomic_store(&r->put, 16);
    CHECK(mf_ring_next(r, &count) && count == SIZE_MAX);
    memset(r->bytes, 0xff, 8); /* a ring whose counters are about to wrap around */
    CHECK(mf_ring_next(r, &count) && count == SIZE_MAX);
    free(r);
}

/* ---- two processes, simulated in this one, over rings and a link that must not be used */

static int no_send(mf_link *l, int to, int tag, const void *bytes, size_t count, uintptr_t *r)
{
    (void)l, (void)to, (void)tag, (void)bytes, (void)count, (void)r;
    return 1;
}

static int nothing_is_done(mf_link *l, uintptr_t *r, bool *done, size_t *count)
{
    (void)l, (void)r, (void)count;
    *done = false;
    return 0;
}

static mf_error_object *link_error(mf_link *l, int code)
{
    (void)l;
    return mf_error_new(MF_ERROR_PEER, "the link says %d", code);
}

static int nothing_comes(mf_link *l, int from, int tag, void *bytes, size_t most, uintptr_t *r)
{
    (void)l, (void)from, (void)tag, (void)bytes, (void)most, (void)r;
    return 0;
}

static struct {
    mf_link link;
    mf_shared_memory memory[2];
    mf_comm *comm[2];
} job;

static void open_job(void)
{
    static const int first_device[] = { 0, 1, 2 }, processes[] = { 0, 1 };
    mf_shared_invitation invitation;
    mf_error_object *error;
    job.link = (mf_link){ .most = 1, .tags = 2, .send = no_send, .receive = nothing_comes, .test = nothing_is_done, .error = link_error };
    REQUIRE(mf_shared_make(&job.memory[0], 2, &invitation));
    REQUIRE(mf_shared_open(&job.memory[1], 2, 1, &invitation));
    mf_shared_begin(&job.memory[0]);
    for (int p = 0; p < 2; p++) {
        job.comm[p] = mf_messages_new(&job.link, p, 2, first_device, 300, &error);
        REQUIRE(job.comm[p] && mf_messages_share(job.comm[p], &job.memory[p], processes));
    }
}

typedef struct end {
    _Atomic int ended;
    char said[256];
} end;

static void note(void *context, mf_error_object *error)
{
    end *e = context;
    snprintf(e->said, sizeof e->said, "%s", error ? error->message : "good");
    mf_error_ignore(error);
    atomic_store(&e->ended, 1);
}

static const char *outcome(end *e)
{
    while (!atomic_load(&e->ended))
        for (int p = 0; p < 2; p++)
            job.comm[p]->poll(job.comm[p]);
    atomic_store(&e->ended, 0);
    return e->said;
}

static bool polled_without_an_end(const end *e)
{
    for (int i = 0; i < 1000; i++)
        for (int p = 0; p < 2; p++)
            job.comm[p]->poll(job.comm[p]);
    return !atomic_load(&e->ended);
}

/* Sends these bytes, which the other side borrows. */
static mf_loan lend(const mf_message_tag *tag, const void *from, void *to, size_t count, end *sent)
{
    static end received;
    mf_loan loan = { 0 };
    job.comm[0]->send(job.comm[0], 1, tag, from, count, note, sent);
    job.comm[1]->borrow(job.comm[1], 0, tag, to, count, &loan, note, &received);
    CHECK_STR(outcome(&received), "good");
    return loan;
}

static void lend_and_give_up(void)
{
    enum { SIZE = 1 << 20 };
    static end sent, received;
    unsigned char *from = mf_memory_get_shared(SIZE), *to = malloc(SIZE), *elsewhere = malloc(SIZE);
    memset(from, 7, SIZE);
    memset(elsewhere, 8, SIZE);
    memset(to, 0, SIZE);
    mf_message_tag tag = { .call = 10, .description = "psum of float32[3]" };
    /* small payloads arrive with their header */
    mf_loan loan = lend(&tag, from, to, 5, &sent);
    CHECK(loan.at == to && !loan.id && to[4] == 7);
    CHECK_STR(outcome(&sent), "good");
    CHECK(job.comm[1]->return_loan(job.comm[1], 0, tag.call, &loan));
    /* large payloads stay in place, or in a copy, and their sends last until they are given back */
    for (int k = 0; k < 2; k++) {
        tag.place++;
        loan = lend(&tag, k ? elsewhere : from, to, SIZE, &sent);
        CHECK(loan.at != to && loan.id && ((const unsigned char *)loan.at)[SIZE - 1] == 7 + k);
        CHECK(polled_without_an_end(&sent));
        CHECK(job.comm[1]->return_loan(job.comm[1], 0, tag.call, &loan));
        CHECK_STR(outcome(&sent), "good");
        CHECK(!job.comm[1]->return_loan(job.comm[1], 0, tag.call, &loan)); /* a second time fails */
    }
    /* the owner may withdraw a loan, and the reader is told */
    tag.call++;
    loan = lend(&tag, from, to, SIZE, &sent);
    job.comm[0]->abort(job.comm[0], tag.call, "the disk is full");
    CHECK_CONTAINS(outcome(&sent), "the disk is full");
    CHECK(!job.comm[1]->return_loan(job.comm[1], 0, tag.call, &loan));
    /* a loan that is being copied cannot be withdrawn, so the copy is complete */
    tag.call++;
    job.comm[0]->send(job.comm[0], 1, &tag, from, SIZE, note, &sent);
    job.comm[1]->receive(job.comm[1], 0, &tag, to, SIZE, note, &received);
    CHECK_STR(outcome(&received), "good");
    CHECK_STR(outcome(&sent), "good");
    CHECK(!memcmp(from, to, SIZE));
    mf_memory_put(from, SIZE);
    free(to);
    free(elsewhere);
}

TEST(payloads_and_withdrawn_offers)
{
    enum { SIZE = 3 << 20 };
    static const size_t sizes[] = { 0, 5, INLINE_NEAR, INLINE_NEAR + 1, SIZE };
    static end sent, received;
    unsigned char *from[2] = { NULL, malloc(SIZE) }, *to = malloc(SIZE); /* in shared memory, and not */
    open_job();
    from[0] = mf_memory_get_shared(SIZE);
    CHECK(mf_shared_find(&job.memory[0], from[0], SIZE) && !mf_shared_find(&job.memory[0], from[1], SIZE));
    mf_message_tag tag = { .description = "psum of float32[3]" };
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++, tag.place++) {
            memset(from[k], (int)(i + 7), SIZE);
            memset(to, 0, SIZE);
            job.comm[0]->send(job.comm[0], 1, &tag, from[k], sizes[i], note, &sent);
            job.comm[1]->receive(job.comm[1], 0, &tag, to, sizes[i], note, &received);
            CHECK_STR(outcome(&received), "good");
            CHECK_STR(outcome(&sent), "good");
            CHECK(!memcmp(from[k], to, sizes[i]));
        }
    mf_message_tag other = tag;
    other.check = 1;
    job.comm[0]->send(job.comm[0], 1, &tag, from[0], SIZE, note, &sent);
    job.comm[1]->receive(job.comm[1], 0, &other, to, SIZE, note, &received);
    CHECK_CONTAINS(outcome(&sent), "process 1 computes something else here");
    CHECK_CONTAINS(outcome(&received), "process 0 computes something else here");
    /* an offer that is withdrawn before it is taken */
    tag.call = 1;
    job.comm[0]->send(job.comm[0], 1, &tag, from[0], SIZE, note, &sent);
    job.comm[0]->abort(job.comm[0], 1, "the disk is full");
    CHECK_CONTAINS(outcome(&sent), "the disk is full");
    job.comm[1]->receive(job.comm[1], 0, &tag, to, SIZE, note, &received);
    CHECK_CONTAINS(outcome(&received), "process 0");
    lend_and_give_up(); /* in the same job, because a process can have only one */
    mf_memory_put(from[0], SIZE);
    free(from[1]);
    free(to);
}
