/* Layouts: values held once, donation, and fixed order: the memory of results, and that their bits depend on nothing else. */
#include "hash.h"
#include "numbers.h"

#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

enum { DEVICES = 8, LENGTH = 1 << 16 }; /* 256 KiB on each device */

static mf_value sum(mf_value v) { return mf_psum(v, "i"); }
static mf_value normalized(mf_value v) { return mf_div(mf_exp(v), mf_psum(mf_exp(v), "i")); }
static mf_value momentum(mf_value v) { return mf_add(mf_mul(v, 0.9), mf_pmean(mf_sin(v), "i")); }
static mf_value square(mf_value v) { return mf_mul(v, v); }
static mf_value add(mf_value a, mf_value b) { return mf_add(a, b); }

static float *make_numbers(int rows, bool alike)
{
    float *numbers = malloc((size_t)rows * LENGTH * sizeof *numbers);
    for (int d = 0; d < rows; d++)
        for (int i = 0; i < LENGTH; i++)
            numbers[d * LENGTH + i] = sinf((float)(i + (alike ? 0 : 977 * d))) * 3;
    return numbers;
}

static mf_value stacked(bool alike)
{
    float *numbers = make_numbers(DEVICES, alike);
    mf_value v = mf_from_host(MF_F32, MF_SHAPE(DEVICES, LENGTH), numbers);
    free(numbers);
    return v;
}

static int64_t live(void) { return mf_memory_stats().live_bytes; }

/* The memory of a call's results: the minimum of several calls, because a worker's first run of a kernel allocates temporaries that it
 * keeps, and memory borrowed by a run may be returned shortly after its result is ready. */
static int64_t weight(mf_function f, mf_value x)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 10; i++) {
        MF_SCOPE;
        mf_block_until_ready(mf_call(f, x));
        usleep(1000);
        int64_t before = live();
        mf_value y = mf_call(f, x);
        mf_block_until_ready(y);
        usleep(1000);
        int64_t grown = live() - before;
        least = grown < least ? grown : least;
    }
    return least;
}

TEST(what_is_the_same_everywhere_is_held_once)
{
    mf_value x = stacked(false);
    const int64_t row = LENGTH * 4;
    mf_value y = mf_call(mf_pmap(sum, "i"), x);
    CHECK(weight(mf_pmap(sum, "i"), x) < 2 * row);
    CHECK(weight(mf_pmap(square), y) < 2 * row); /* and results computed from it */
    CHECK(weight(mf_pmap(momentum, "i"), mf_broadcast_to(mf_get(x, 0), MF_SHAPE(DEVICES, LENGTH))) < 2 * row);
    CHECK(weight(mf_pmap(square), x) > 7 * row);
    int64_t before = live();
    mf_value w = mf_replicate(mf_get(x, 0), mf_devices());
    mf_block_until_ready(w);
    CHECK(live() - before < 2 * row);
    mf_value zeros = mf_replicate(mf_zeros(MF_SHAPE(LENGTH), MF_F32), mf_devices()); /* one element, seen as a row on every device */
    CHECK(weight(mf_pmap(square), zeros) < 2 * row);
    CHECK(weight(mf_pmap(momentum, "i"), zeros) < 2 * row);
    before = live();
    mf_value first = mf_get(y, 0), shards = mf_get(x, 3); /* views */
    mf_block_until_ready(first);
    mf_block_until_ready(shards);
    CHECK(live() - before < row / 2);
}

enum { INPUTS = 300 };

static mf_value last_square(mf_value list) { return square(mf_get(list, INPUTS - 1)); }

/* Of 300 inputs only the last is the same everywhere. */
TEST(any_input_may_be_held_once)
{
    mf_value inputs[INPUTS], row = mf_get(stacked(true), 0);
    for (int i = 0; i < INPUTS - 1; i++)
        inputs[i] = mf_arange(DEVICES, MF_F32);
    inputs[INPUTS - 1] = mf_replicate(row, mf_devices());
    mf_value list = mf_list_n(inputs, INPUTS);
    CHECK(weight(mf_pmap(last_square), list) < 2 * LENGTH * 4);
    CHECK(mf_item_bool(mf_array_equal(mf_get(mf_call(mf_pmap(last_square), list), 7), square(row))));
    inputs[INPUTS - 1] = stacked(false);
    list = mf_list_n(inputs, INPUTS);
    CHECK(mf_item_bool(mf_array_equal(mf_call(mf_pmap(last_square), list), square(stacked(false)))));
}

static void same_bits(mf_function f, mf_value a, mf_value b)
{
    size_t count = (size_t)DEVICES * LENGTH;
    float *p = malloc(count * sizeof *p), *q = malloc(count * sizeof *q);
    mf_to_host(mf_call(f, a), MF_F32, p, count);
    mf_to_host(mf_call(f, b), MF_F32, q, count);
    CHECK_BYTES(p, q, count * sizeof *p);
    free(p);
    free(q);
}

TEST(the_layout_changes_no_bit)
{
    mf_value apart = stacked(true), once = mf_broadcast_to(mf_get(apart, 0), MF_SHAPE(DEVICES, LENGTH));
    same_bits(mf_pmap(sum, "i"), apart, once);
    same_bits(mf_pmap(normalized, "i"), apart, once);
    same_bits(mf_pmap(momentum, "i"), apart, once);
    same_bits(mf_jit(mf_pmap(momentum, "i")), apart, once);
}

TEST(equal_values_are_added_not_multiplied)
{
    /* 8 x 0.1f by the balanced tree doubles three times and is exact; over 3 devices 0.1f + 0.1f + 0.1f is not 3 x 0.1f */
    mf_value three = mf_broadcast_to(mf_scalar(0.1, MF_F32), MF_SHAPE(3));
    float tenth = 0.1f, tree = (tenth + tenth) + tenth, got[3];
    mf_to_host(mf_call(mf_pmap(sum, "i"), three), MF_F32, got, 3);
    CHECK_BYTES(&got[0], &tree, sizeof tree);
    mf_value large = mf_broadcast_to(mf_scalar(16777215, MF_F32), MF_SHAPE(7)); /* 2^24 - 1 */
    float l = 16777215, wanted = ((l + l) + (l + l)) + ((l + l) + l), seven[7];
    mf_to_host(mf_call(mf_pmap(sum, "i"), large), MF_F32, seven, 7);
    CHECK_BYTES(&seven[0], &wanted, sizeof wanted);
}

/* ---- donation */

TEST(a_donated_array_gives_its_memory)
{
    mf_function f = mf_pmap(square, .donate_argnums = MF_INTS(0));
    int64_t least = INT64_MAX;
    mf_value x = mf_none(), y = x;
    for (int i = 0; i < 5; i++) { /* the first one compiles */
        x = stacked(false);
        int64_t before = live();
        mf_memory_stats_reset();
        y = mf_call(f, x);
        mf_block_until_ready(y);
        int64_t grown = mf_memory_stats().peak_bytes - before;
        least = grown < least ? grown : least;
        CHECK(mf_is_deleted(x));
    }
    CHECK(least < LENGTH * 4 * 2);
    float first[1];
    mf_to_host(mf_get(y, 7, 5), MF_F32, first, 1);
    float own = sinf(5 + 977 * 7) * 3;
    CHECK_NEAR(first[0], own * own, 1e-6);
}

TEST(a_live_view_keeps_what_it_sees)
{
    mf_value x = stacked(false), view = mf_get(x, 2), again = stacked(false);
    mf_value y = mf_call(mf_pmap(square, .donate_argnums = MF_INTS(0)), x);
    mf_block_until_ready(y);
    CHECK(mf_is_deleted(x));
    CHECK(!mf_is_deleted(view));
    CHECK(mf_item_bool(mf_array_equal(view, mf_get(again, 2))));
    CHECK(mf_item_bool(mf_array_equal(y, mf_mul(again, again))));
}

TEST(a_pending_reader_reads_what_was)
{
    for (int round = 0; round < 5; round++) {
        MF_SCOPE;
        mf_value x = stacked(false), sums = mf_call(mf_pmap(sum, "i"), x), y = mf_call(mf_pmap(square, .donate_argnums = MF_INTS(0)), x);
        mf_value again = stacked(false);
        CHECK(mf_item_bool(mf_array_equal(sums, mf_call(mf_pmap(sum, "i"), again))));
        CHECK(mf_item_bool(mf_array_equal(y, mf_mul(again, again))));
    }
}

TEST(a_failed_call_donates_nothing)
{
    mf_value x = stacked(false);
    EXPECT_ERROR(mf_call(mf_pmap(add, .donate_argnums = MF_INTS(0)), x, F32(1, 2)), "inconsistent");
    CHECK(!mf_is_deleted(x));
    EXPECT_ERROR(mf_call(mf_pmap(add, .donate_argnums = MF_INTS(0, 1)), x, x), "donate");
    CHECK(!mf_is_deleted(x));
    CHECK_EQ_INT(mf_block_until_ready(mf_sum(x)), MF_OK);
}

/* ---- the number of workers changes no bit */

static mf_value mixed(mf_value v)
{
    mf_value m = mf_reshape(v, MF_SHAPE(256, 256));
    return mf_tuple(mf_sum(v), mf_mean(m, 0), mf_matmul(m, mf_transpose(m, MF_INTS0)), mf_softmax(m, 1), mf_cumsum(v, 0));
}

TEST(bits_for_workers)
{
    if (!getenv("MF_TEST_BITS"))
        return;
    mf_value x = stacked(false);
    uint64_t h = HASH_START;
    h = hash_of(mf_call(mf_pmap(sum, "i"), x), h);
    h = hash_of(mf_call(mf_pmap(normalized, "i"), x), h);
    h = hash_parts(mf_call(mf_pmap(mixed), x), h);
    FILE *f = fopen(getenv("MF_TEST_BITS"), "w");
    REQUIRE(f);
    fprintf(f, "%016" PRIx64 "\n", h);
    fclose(f);
}

static bool bits_with(const char *workers, char *text, int size)
{
    char path[PATH_MAX], file[] = "/tmp/manyfold_bits_XXXXXX";
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    int fd = mkstemp(file);
    setenv("MF_TEST_BITS", file, 1);
    setenv("MF_NUM_THREADS", workers, 1);
    char part[] = "bits_for_workers", *arguments[] = { path, part, NULL };
    pid_t child;
    int status = -1;
    fflush(stdout);
    if (posix_spawn(&child, path, NULL, NULL, arguments, environ) == 0)
        waitpid(child, &status, 0);
    ssize_t got = read(fd, text, (size_t)size - 1);
    text[got > 0 ? got : 0] = 0;
    close(fd);
    unlink(file);
    unsetenv("MF_TEST_BITS");
    unsetenv("MF_NUM_THREADS");
    return status == 0 && got > 0;
}

TEST(any_number_of_workers_gives_the_same_bits)
{
    if (getenv("MF_TEST_BITS"))
        return;
    static const char *const workers[] = { "1", "2", "5" };
    char first[64] = "", text[64];
    for (int i = 0; i < 3; i++) {
        CHECK(bits_with(workers[i], i ? text : first, sizeof text));
        if (i)
            CHECK_STR(text, first);
    }
}
