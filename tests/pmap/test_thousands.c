/* One process of up to thousands: the messages that it sends and the memory that a collective takes grow at most logarithmically with the
 * number of processes. The other processes do not exist: what they would send are zeros, at once. */
#include "check.h"

#include "runtime/comm.h"

#include <malloc.h>
#include <manyfold.h>

enum { EACH = 4, MOST = 10000 };

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "40000", 1); }

static struct {
    int64_t messages, bytes, before, most;
} seen;

static int64_t held(void)
{
    struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
}

static void look(size_t count)
{
    int64_t more = held() - seen.before;
    seen.most = more > seen.most ? more : seen.most;
    seen.messages++;
    seen.bytes += (int64_t)count;
}

static void send(mf_comm *c, int peer, const mf_message_tag *tag, const void *bytes, size_t count, mf_message_done done, void *context)
{
    (void)tag, (void)bytes;
    CHECK(peer >= 0 && peer < c->size && peer != c->rank);
    look(count);
    done(context, NULL);
}

static void receive(mf_comm *c, int peer, const mf_message_tag *tag, void *bytes, size_t count, mf_message_done done, void *context)
{
    (void)tag;
    CHECK(peer >= 0 && peer < c->size && peer != c->rank);
    look(0);
    memset(bytes, 0, count);
    done(context, NULL);
}

static void nothing_to_abort(mf_comm *c, uint64_t call, const char *why) { (void)c, (void)call, (void)why; }
static void nothing_to_end(mf_comm *c, uint64_t call) { (void)c, (void)call; }

#define BODY(name, expression) \
    static mf_value name(mf_value x) { return (expression); }
BODY(sum, mf_psum(x, "i"))
BODY(compared, mf_check_replicated(x, "i"))
BODY(three_sums, mf_add(mf_psum(x, "i"), mf_pmax(mf_psum(mf_sin(x), "i"), "i")))
static mf_value shift(mf_value x)
{
    enum { ROWS = 4096 * EACH };
    static mf_value pairs[ROWS];
    for (int i = 0; i < ROWS; i++)
        pairs[i] = mf_tuple(i, (i + EACH + 1) % ROWS);
    return mf_ppermute(x, "i", mf_list_n(pairs, ROWS));
}

/* Of the first call of a compiled program, or of the second one. */
static void measure(int processes, mf_value (*body)(mf_value), int64_t width, bool again)
{
    static int first[MOST + 1];
    static mf_comm jobs[64]; /* programs are identified by their communicator */
    static int count;
    REQUIRE(CHECK(count < (int)(sizeof jobs / sizeof *jobs)));
    mf_comm *c = &jobs[count++];
    for (int p = 0; p <= processes; p++)
        first[p] = p * EACH;
    *c = (mf_comm){ .rank = processes / 3,
                    .size = processes,
                    .first_device = first,
                    .send = send,
                    .receive = receive,
                    .abort = nothing_to_abort,
                    .end = nothing_to_end };
    mf_comm_count_devices(c);
    mf_comm_set(c);
    {
        MF_SCOPE;
        mf_value x = mf_ones(MF_SHAPE(EACH, width), MF_F32);
        mf_function f = mf_compile_n(mf_pmap(body, "i"), &x, 1);
        for (int call = 0; call <= again; call++) {
            memset(&seen, 0, sizeof seen);
            seen.before = held();
            mf_value result = mf_call(f, x);
            if (body == compared) /* with zeros */
                CHECK_CONTAINS(mf_error(result), "hold other bits than device 0");
            else if (!CHECK(!mf_is_error(result) && mf_block_until_ready(result) == MF_OK))
                CHECK_NOTE("%d processes: %s", processes, mf_error(result));
            if (body == sum)
                CHECK_EQ_INT(mf_item_f64(mf_get(mf_get(result, 0), 0)), EACH);
        }
    }
    mf_comm_set(NULL);
    mf_comm_free_groups(c);
}

static int log2_of(int n)
{
    int l = 0;
    while (n >> l > 1)
        l++;
    return l;
}

/* From `from` processes on, collectives are relayed: then thousands take no more memory than these few, except for some more messages. */
static void hold(mf_value (*body)(mf_value), int sums, int64_t width, int from)
{
    static const int counts[] = { 16, 17, 65, 100, 1000, 4096, MOST };
    int64_t few[2] = { -1, -1 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int again = 0; again < 2 && counts[i] >= from; again++) {
            int log = log2_of(counts[i]);
            measure(counts[i], body, width, again);
            few[again] = few[again] < 0 ? seen.most : few[again];
            bool few_messages = CHECK(seen.messages <= sums * (4 * log + 4));
            bool few_bytes = CHECK(seen.bytes <= sums * (2 * log + 4) * width * (int64_t)sizeof(float));
            bool little_memory = CHECK(seen.most <= few[again] + 1024 + sums * log * width * (int64_t)sizeof(float));
            if (!few_messages || !few_bytes || !little_memory)
                CHECK_NOTE("%d processes, call %d: %lld messages, %lld bytes sent, %lld held, by few %lld", counts[i], again,
                           (long long)seen.messages, (long long)seen.bytes, (long long)seen.most, (long long)few[again]);
        }
}

TEST(a_sum_in_lockstep) { hold(sum, 1, 16, 16); }

TEST(sums_by_fibers) { hold(three_sums, 3, 2000, 16); }

TEST(large_sums_in_parts) { hold(three_sums, 3, 40000, 65); }

TEST(a_permutation_meets_its_partners)
{
    measure(4096, shift, 16, false);
    CHECK(seen.messages <= 4); /* to two, and from two */
    CHECK_EQ_INT(seen.bytes, EACH * 16 * (int64_t)sizeof(float));
    CHECK(seen.most < 32 << 10);
}

/* For a comparison, only a digest of 64 bytes per device is sent. */
TEST(a_comparison_sends_digests)
{
    measure(100, compared, 40000, false);
    CHECK(seen.bytes <= 2 * 100 * EACH * 64);
    CHECK(seen.most <= (32 << 10) + 100 * EACH * 64);
    measure(2, compared, 40000, false);
    CHECK_EQ_INT(seen.bytes, EACH * 16);
}
