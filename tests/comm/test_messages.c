/* Invalid messages: a link, and rings in shared memory, that deliver arbitrary bytes as headers while this process sends and receives.
 * Whatever arrives, each operation ends exactly once, and nothing is written outside its buffer. */
#include "check.h"

#include "fake_link.h"

#include "base/text/location.h"

enum { BUFFER = 90000 };

static uint64_t randomness;

static uint32_t draw(uint32_t below)
{
    randomness = randomness * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(randomness >> 33) % below;
}

typedef struct own_operation {
    bool done;
    unsigned char *bytes;
} own_operation;

static void ended(void *context, mf_error_object *error)
{
    own_operation *op = context;
    if (!CHECK(!__atomic_exchange_n(&op->done, true, __ATOMIC_SEQ_CST)))
        CHECK_NOTE("done twice");
    mf_error_ignore(error);
    free(op->bytes); /* from now on a write there is a bug */
    op->bytes = NULL;
    __atomic_fetch_sub(&fake.under_way, 1, __ATOMIC_SEQ_CST);
}

static void operate(mf_comm *c, own_operation *op)
{
    mf_message_tag tag = { .call = draw(4), .place = draw(3), .check = draw(2), .description = draw(2) ? "psum of float32[3]" : NULL };
    size_t count = draw(3) ? draw(64) : draw(BUFFER);
    op->bytes = malloc(count + 1);
    memset(op->bytes, 1, count + 1);
    __atomic_fetch_add(&fake.under_way, 1, __ATOMIC_SEQ_CST);
    int other = 1 + (int)draw(PROCESSES - 1);
    if (draw(2))
        c->receive(c, other, &tag, op->bytes, count, ended, op);
    else
        c->send(c, other, &tag, op->bytes, count, ended, op);
}

/* Mostly well-formed. */
static void bring_any(void)
{
    static unsigned char bytes[sizeof(mf_message_header) + SLOT];
    uint64_t few = draw(64), many = draw(80000);
    mf_message_header h = { .magic = draw(40) ? MAGIC : draw(1u << 30),
                            .kind = draw(MESSAGE_KINDS + 2),
                            .from = 1 + draw(PROCESSES),
                            .text_bytes = draw(3) ? 0 : draw(100),
                            .call = draw(5),
                            .place = draw(3),
                            .check = draw(2),
                            .size = draw(3) ? few : many,
                            .id = draw(40),
                            .taken = draw(1u << 20),
                            .at = draw(4)    ? 0
                                  : draw(20) ? 1 + draw(1u << 20)
                                             : UINT64_MAX - draw(64) };
    if (h.from == PROCESSES)
        h.from = draw(40) ? 1 : draw(1u << 30);
    if (draw(200) == 0)
        h.size = UINT64_MAX - draw(64);
    bool wide = h.kind == OFFER || h.kind == CLEAR_TO_SEND;
    size_t payload = (wide ? 0 : h.size) + (h.kind <= OFFER ? h.text_bytes : 0);
    if (draw(100) == 0)
        payload = draw(80000);
    size_t count = sizeof h + (payload < SLOT ? payload : 0);
    memcpy(bytes, &h, sizeof h);
    count = draw(300) ? count : draw((uint32_t)sizeof h);
    int by = 1 + (int)draw(NEAR);
    if (by == NEAR) {
        bring(bytes, count);
        return;
    }
    if (draw(2))
        atomic_store(&mf_shared_offers(&fake.shared, by)[h.id % MF_OFFERS], h.id * OFFER_STATES + OFFERED);
    mf_ring_put(mf_shared_ring(&fake.shared, by, 0), (mf_ring_part[3]){ { bytes, count }, { "", 0 }, { "", 0 } });
}

static void storm(uint64_t seed)
{
    enum { rounds = 300 };
    static own_operation ops[rounds];
    randomness = seed;
    mf_comm *c = open_comm();
    memset(ops, 0, sizeof ops);
    REQUIRE(c);
    CHECK(share(c));
    for (int i = 0; i < rounds; i++) {
        operate(c, &ops[i]);
        bring_any();
        drain();
        if (draw(4) == 0)
            c->poll(c);
        if (draw(20) == 0)
            c->abort(c, draw(4), "failed here");
        if (draw(20) == 0)
            c->end(c, draw(5));
        if (draw(300) == 0)
            mf_messages_died(c, 1 + (int)draw(PROCESSES - 1));
    }
    for (int i = 0; i < 100; i++) { /* until nothing waits for room */
        drain();
        c->poll(c);
    }
    leave(c);
    CHECK_EQ_INT(fake.under_way, 0);
    for (int i = 0; i < rounds; i++)
        CHECK(ops[i].done);
}

TEST(any_header)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        storm(seed);
}

static char said[256];

static void remember(void *context, mf_error_object *error)
{
    (void)context;
    snprintf(said, sizeof said, "%s", error ? error->message : "good");
    mf_error_ignore(error);
    __atomic_fetch_sub(&fake.under_way, 1, __ATOMIC_SEQ_CST);
}

/* One header for a receive of four bytes from process 1, in call 0 at place 0 with check 0. */
static const struct {
    const char *name, *said;
    mf_message_header head;
    size_t count; /* the bytes after the header */
} answers[] = {
    { "the message", "good", { .kind = DATA, .from = 1, .size = 4 }, 4 },
    { "another check", "process 1 computes something else here", { .kind = DATA, .from = 1, .size = 4, .check = 1 }, 4 },
    { "another size", "process 1 computes something else here", { .kind = DATA, .from = 1, .size = 8 }, 8 },
    { "an offer", "good", { .kind = OFFER, .from = 1, .size = 4 }, 0 },
    { "an offer of another size", "process 1 computes something else here", { .kind = OFFER, .from = 1, .size = 1u << 30 }, 0 },
    { "a size that is not that of the bytes", "is none of this library's", { .kind = DATA, .from = 1, .size = 4 }, 5 },
    { "words that are not there", "is none of this library's", { .kind = DATA, .from = 1, .size = 4, .text_bytes = 9 }, 4 },
    { "a process that there is not", "is none of this library's", { .kind = DATA, .from = PROCESSES, .size = 4 }, 4 },
    { "a kind that there is not", "is none of this library's", { .kind = MESSAGE_KINDS, .from = 1 }, 0 },
    { "a tag that there is not", "is none of this library's", { .kind = CLEAR_TO_SEND, .from = 1, .link_tag = 64 }, 0 },
    { "the end of its call", "process 1 ended its call 0 without this collective", { .kind = CALL_OVER, .from = 1 }, 0 },
};

TEST(each_answer_ends_the_receipt)
{
    static unsigned char bytes[256], place[4];
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        mf_comm *c = open_comm();
        mf_message_tag tag = { 0 };
        mf_message_header h = answers[i].head;
        fake.under_way = 1;
        c->receive(c, 1, &tag, place, sizeof place, remember, NULL);
        h.magic = MAGIC;
        memcpy(bytes, &h, sizeof h);
        bring(bytes, sizeof h + answers[i].count);
        while (__atomic_load_n(&fake.under_way, __ATOMIC_SEQ_CST))
            c->poll(c);
        if (!CHECK_CONTAINS(said, answers[i].said))
            CHECK_NOTE("%s", answers[i].name);
        leave(c);
    }
}

/* ------------------------------------------------------------------ places */

static void check_decoded(const char *text, const char *words)
{
    mf_text t = { 0 };
    mf_location_decode(&t, text, strlen(text));
    CHECK_STR(t.at ? t.at : "", words);
    mf_text_free(&t);
}

TEST(places_of_other_processes)
{
    mf_text t = { 0 };
    char words[512];
    mf_text_put(&t, "at ");
    mf_location_encode(&t, "", __builtin_return_address(0), "");
    mf_text_put(&t, ", it says");
    REQUIRE(!t.failed);
    snprintf(words, sizeof words, "at %s, it says", mf_location_of(__builtin_return_address(0)));
    check_decoded(t.at, words);
    mf_text_free(&t);
    mf_location_encode(&t, " (", words, ")"); /* no address of code */
    mf_location_encode(&t, " (", NULL, ")");
    CHECK_EQ_UINT(t.count, 0);

    check_decoded("at \1abc 12 program\1, it says", "at program+0x12, it says"); /* from another build */
    check_decoded("at \1"
                  "0 12 program\1.",
                  "at program+0x12.");
    check_decoded("at \1abc 12 progr", "at ");
    check_decoded("\1\1\1 \1\1-\1", "");
    check_decoded("", "");
}
