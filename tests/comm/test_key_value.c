/* The key-value store in process 0 of a job whose other processes send arbitrary bytes: a wait ends with a value, a timeout, a death, or
 * when this process leaves, and no invalid message is accepted. With real processes: tests/distributed/job_plugin.c. */
#include "check.h"

#include "fake_link.h"

#include "base/memory/alloc.h"

#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void put(mf_comm *c, const char *key, const char *value) { CHECK(!c->put(c, key, strlen(key), value, strlen(value) + 1)); }

/* The value that is there now, or within `seconds`; "" if there is none; or an error's message. */
static const char *get(mf_comm *c, const char *key, double seconds)
{
    static char words[256];
    void *value;
    size_t count;
    mf_error_object *error = c->get(c, key, strlen(key), seconds, &value, &count);
    snprintf(words, sizeof words, "%s", error ? error->message : value ? (char *)value : "");
    CHECK(!value == !count);
    mf_error_ignore(error);
    mf_free(value);
    return words;
}

TEST(of_several_values_the_last_one_counts)
{
    mf_comm *c = open_comm();
    REQUIRE(c);
    CHECK_STR(get(c, "a", 0), "");
    put(c, "a", "one");
    put(c, "ab", "other");
    CHECK_STR(get(c, "a", 0), "one");
    put(c, "a", "two");
    CHECK_STR(get(c, "a", 5), "two");
    CHECK_STR(get(c, "b", 0.05), "");
    CHECK_CONTAINS(get(c, "", 0.01), "");
    char *long_key = calloc(1, MF_KEY_MOST + 2);
    memset(long_key, 'k', MF_KEY_MOST + 1);
    CHECK_CONTAINS(get(c, long_key, 0), "a key of 4097 bytes; 4096 are the most");
    free(long_key);
    leave(c);
}

static void bring_piece(mf_message_kind kind, uint64_t place, uint64_t total, const char *key, const char *piece)
{
    unsigned char bytes[sizeof(mf_message_header) + 64];
    size_t key_size = strlen(key), count = strlen(piece);
    mf_message_header h = { .magic = MAGIC,
                            .kind = kind,
                            .from = 1,
                            .key_bytes = (uint32_t)key_size,
                            .position = place,
                            .total = total,
                            .size = key_size + count };
    memcpy(bytes, &h, sizeof h);
    memcpy(bytes + sizeof h, key, key_size);
    memcpy(bytes + sizeof h + key_size, piece, count);
    bring(bytes, sizeof h + h.size);
}

/* The next message to process 2, which shares memory; its payload is appended to `words`. */
static mf_message_header take_answer(char *words)
{
    mf_ring *r = mf_shared_ring(&fake.shared, 0, 2);
    mf_message_header h = { .kind = MESSAGE_KINDS };
    const unsigned char *bytes = NULL;
    size_t count = 0;
    for (double start = now(); !(bytes = mf_ring_next(r, &count)) && now() - start < 30;)
        sched_yield();
    if (!bytes)
        return h;
    memcpy(&h, bytes, sizeof h);
    snprintf(words + strlen(words), 64, "%.*s", (int)h.size, (const char *)bytes + sizeof h);
    mf_ring_take(r, count);
    return h;
}

static void ask(uint64_t id, bool waits)
{
    unsigned char bytes[sizeof(mf_message_header) + 1];
    mf_message_header h = { .magic = MAGIC, .kind = KEY_GET, .from = 2, .id = id, .waits = waits, .size = 1 };
    memcpy(bytes, &h, sizeof h);
    bytes[sizeof h] = 'k';
    bring(bytes, sizeof bytes);
}

TEST(others_are_answered)
{
    char words[128] = "";
    mf_comm *c = open_comm();
    REQUIRE(c && CHECK(share(c)));
    ask(1, false);
    mf_message_header h = take_answer(words);
    CHECK(h.kind == KEY_ABSENT && h.id == 1 && !h.size);
    ask(2, true);
    ask(3, true);
    bring(&(mf_message_header){ .magic = MAGIC, .kind = KEY_GET_CANCEL, .from = 2, .id = 2 }, sizeof h);
    nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
    put(c, "k", "value");
    h = take_answer(words);
    CHECK(h.kind == KEY_VALUE && h.id == 3 && h.position == 0 && h.total == 6);
    CHECK_STR(words, "value");
    ask(4, true);
    CHECK(take_answer(words).id == 4);
    drain();
    leave(c);
}

TEST(values_come_in_pieces)
{
    mf_comm *c = open_comm();
    REQUIRE(c);
    bring_piece(KEY_PUT, 0, 9, "k", "abcd");
    bring_piece(KEY_PUT, 4, 9, "k", "efgh");
    CHECK_STR(get(c, "k", 0.05), "");
    bring_piece(KEY_PUT, 7, 9, "k", "i"); /* not the next piece */
    bring_piece(KEY_PUT, 8, 9, "k", "too much");
    bring_piece(KEY_PUT, 8, 7, "k", "");
    bring_piece(KEY_VALUE, 0, 3, "", "abc"); /* not requested */
    CHECK_STR(get(c, "k", 0.05), "");
    bring(&(mf_message_header){ .magic = MAGIC, .kind = KEY_GET, .from = 2, .id = 5 }, sizeof(mf_message_header));
    bring(&(mf_message_header){ .magic = MAGIC, .kind = KEY_GET_CANCEL, .from = 2, .id = 5 }, sizeof(mf_message_header));
    bring(&(mf_message_header){ .magic = MAGIC, .kind = KEY_GET_CANCEL, .from = 2, .id = 6 }, sizeof(mf_message_header));
    bring_piece(KEY_PUT, 8, 9, "k", "");
    bring_piece(KEY_PUT, 8, 9, "k", "\n");
    CHECK_STR(get(c, "k", 5), "abcdefgh\n");
    leave(c);
}

typedef struct waiter {
    mf_comm *comm;
    pthread_t thread;
    double seconds;
    char words[256];
} waiter;

static void *wait_long(void *at)
{
    waiter *w = at;
    void *value;
    size_t count;
    double start = now();
    mf_error_object *error = w->comm->get(w->comm, "late", 4, 60, &value, &count);
    snprintf(w->words, sizeof w->words, "%s", error ? error->message : value ? (char *)value : "");
    w->seconds = now() - start;
    mf_error_ignore(error);
    mf_free(value);
    return NULL;
}

static waiter *begin_waiting(mf_comm *c)
{
    static waiter w;
    w = (waiter){ .comm = c };
    CHECK_EQ_INT(pthread_create(&w.thread, NULL, wait_long, &w), 0);
    nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    return &w;
}

static const char *words_of(waiter *w)
{
    pthread_join(w->thread, NULL);
    CHECK(w->seconds < 30);
    return w->words;
}

TEST(a_wait_ends)
{
    mf_comm *c = open_comm();
    REQUIRE(c);
    waiter *w = begin_waiting(c);
    put(c, "late", "but here");
    CHECK_STR(words_of(w), "but here");
    leave(c);
    c = open_comm();
    REQUIRE(c);
    w = begin_waiting(c);
    mf_messages_died(c, 2);
    CHECK_CONTAINS(words_of(w), "process 2 has died");
    CHECK_CONTAINS(get(c, "late", 60), "process 2 has died");
    put(c, "late", "kept");
    leave(c);
    c = open_comm();
    REQUIRE(c);
    w = begin_waiting(c);
    for (uint32_t p = 1; p < PROCESSES; p++)
        bring(&(mf_message_header){ .magic = MAGIC, .kind = LEAVING, .from = p }, sizeof(mf_message_header));
    c->leave(c, "the test is over");
    CHECK_CONTAINS(words_of(w), "this process has left the job: the test is over");
    CHECK_CONTAINS(get(c, "late", 60), "this process has left the job");
    mf_error_object *error = c->put(c, "a", 1, "b", 1);
    CHECK(error != NULL);
    mf_error_ignore(error);
    mf_messages_free(c);
}
