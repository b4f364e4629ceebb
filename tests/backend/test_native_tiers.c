/* The two compile tiers, tested from outside: the same bits with every tier, every instruction set and any number of workers; processes
 * that end while loops are being compiled; invalid settings. Each case runs in a child process: this program again, with the name of a part
 * that is empty otherwise. */
#include <manyfold.h>

#include "backend/native/kernels/dnnl/dnnl.h"
#include "backend/native/kernels/kernels.h"
#include "check.h"
#include "hash.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* backend/native/native.h cannot be included here: its names are not public */
void mf_tier_up_drain(void);
bool mf_native_runs_here(void);

#define NEEDS_NATIVE()          \
    if (!mf_native_runs_here()) \
    SKIP("this machine cannot run the native engine")

/* ------------------------------------------------------------------ children */

extern char **environ;

/* Runs a part of this program in a child with NAME=value, ... in its environment; returns its status and what it wrote to the file
 * MF_TEST_RESULT. */
static int child(const char *part, const char *const *set, char *text, size_t size)
{
    char path[PATH_MAX], name[64], file[] = "/tmp/manyfold_tiers_XXXXXX", *arguments[] = { path, name, NULL }, *kept[8][2];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1), got;
    int fd = mkstemp(file), status = -1, count = 0;
    pid_t pid;
    path[length > 0 ? length : 0] = 0;
    snprintf(name, sizeof name, "%s", part);
    for (; set[count]; count++) {
        kept[count][0] = strndup(set[count], strcspn(set[count], "="));
        kept[count][1] = getenv(kept[count][0]) ? strdup(getenv(kept[count][0])) : NULL;
        setenv(kept[count][0], strchr(set[count], '=') + 1, 1);
    }
    setenv("MF_TEST_RESULT", file, 1);
    fflush(stdout);
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, 2, file, O_WRONLY | O_APPEND, 0);
    if (posix_spawn(&pid, path, &quiet, NULL, arguments, environ) == 0)
        waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&quiet);
    got = read(fd, text, size - 1);
    text[got > 0 ? got : 0] = 0;
    close(fd);
    unlink(file);
    unsetenv("MF_TEST_RESULT");
    while (count-- > 0) {
        kept[count][1] ? setenv(kept[count][0], kept[count][1], 1) : unsetenv(kept[count][0]);
        free(kept[count][0]);
        free(kept[count][1]);
    }
    return status;
}

static void put_result(const char *text)
{
    FILE *f = fopen(getenv("MF_TEST_RESULT"), "a");
    REQUIRE(f);
    fputs(text, f);
    fclose(f);
}

/* ------------------------------------------------------------------ the same bits */

static mf_value activations(mf_value x)
{
    mf_value m = mf_reshape(x, MF_SHAPE(64, -1));
    mf_value gelu = mf_mul(mf_mul(m, 0.5), mf_add(mf_erf(mf_mul(m, 0.70710678)), 1));
    mf_value trig = mf_sub(mf_sin(mf_mul(m, 9)), mf_mul(mf_cos(m), mf_log(mf_add(mf_abs(m), 1))));
    mf_value power = mf_pow(mf_add(mf_abs(m), 0.1), 1.7), rates = mf_sigmoid(mf_sub(gelu, trig));
    return mf_tuple(gelu, trig, power, rates);
}

static mf_value reduced(mf_value x)
{
    mf_value m = mf_reshape(x, MF_SHAPE(64, -1));
    mf_value centred = mf_sub(m, mf_mean(m, .axis = mf_axes(1), .keepdims = true));
    mf_value layer = mf_div(centred, mf_sqrt(mf_add(mf_mean(mf_square(centred), .axis = mf_axes(1), .keepdims = true), 1e-5)));
    mf_value small = mf_slice_in_dim(m, 3, 4, 1, 0);
    return mf_tuple(layer, mf_softmax(m, 1), mf_sum(m, 0), mf_max(m), mf_cumsum(small, 1), mf_psum(mf_sum(m), "i"),
                    mf_pmean(mf_astype(mf_mul(mf_astype(m, MF_BF16), 3), MF_F32), "i"));
}

/* Runs each program many times, so that loops are swapped in between; the runs must agree, or there is no hash. */
TEST(part_bits)
{
    if (!getenv("MF_TEST_RESULT"))
        return;
    char text[64];
    uint64_t first = 0;
    int64_t devices = mf_device_count();
    mf_value base = mf_sub(mf_div(mf_astype(mf_arange(devices * 64 * 300, MF_I32), MF_F32), 9000), 1);
    mf_value x = mf_reshape(base, MF_SHAPE(devices, 64 * 300));
    for (int i = 0; i < 24; i++) {
        MF_SCOPE;
        uint64_t h = hash_parts(mf_call(mf_pmap(activations), x), HASH_START);
        h = hash_parts(mf_call(mf_pmap(reduced, "i"), x), h);
        first = i ? first : h;
        CHECK_EQ_UINT(h, first);
        if (i % 6 == 5)
            mf_tier_up_drain();
    }
    if (!strcmp(getenv("MF_COMPILE_TIER"), "1"))
        CHECK_EQ_INT(mf_compiler_read().loops, 0);
    else
        CHECK(mf_compiler_read().loops > 0);
    REQUIRE(check_failures == 0);
    snprintf(text, sizeof text, "%016" PRIx64 "\n", first);
    put_result(text);
}

/* Checks that the bits under these settings are those under the settings before. */
static void same_bits(const char *const *set, char expected[64])
{
    char text[256];
    bool ok = CHECK_EQ_INT(child("part_bits", set, text, sizeof text), 0) && CHECK_EQ_INT(strlen(text), 17);
    if (*expected)
        ok = ok && CHECK_STR(text, expected);
    else
        snprintf(expected, 64, "%.63s", text);
    for (int i = 0; !ok && set[i]; i++)
        CHECK_NOTE("%s", set[i]);
}

TEST(tiers_and_workers_give_the_same_bits)
{
    NEEDS_NATIVE();
    static const char *const workers[] = { "MF_NUM_THREADS=1", "MF_NUM_THREADS=2", "MF_NUM_THREADS=5" };
    static const char *const tiers[] = { "MF_COMPILE_TIER=1", "MF_COMPILE_TIER=2", "MF_COMPILE_TIER=background", "MF_COMPILE_TIER=loops" };
    char bits[64] = "";
    for (int t = 0; t < 4; t++)
        for (int w = 0; w < 3; w++)
            same_bits((const char *const[]){ "MF_NUM_CPU_DEVICES=3", workers[w], tiers[t], NULL }, bits);
}

TEST(instruction_sets_give_the_same_bits)
{
    char bits[64] = "";
    if (strcmp(mf_kernels_isa(), "avx512") != 0)
        SKIP("this machine has one instruction set to compare");
    static const char *const sets[] = { "MF_CPU_ISA=", "MF_CPU_ISA=avx512", "MF_CPU_ISA=avx2" };
    for (int i = 0; i < 3; i++) {
        same_bits((const char *const[]){ "MF_NUM_CPU_DEVICES=3", sets[i], "MF_COMPILE_TIER=1", NULL }, bits);
        same_bits((const char *const[]){ "MF_NUM_CPU_DEVICES=3", sets[i], "MF_COMPILE_TIER=loops", NULL }, bits);
    }
}

/* ------------------------------------------------------------------ zeros of both signs */

/* The ops below only select among their operands, and neg reverses the order, so they must select alike if 1 and -1 replace 0 and -0. */
static mf_value whole_max(mf_value x) { return mf_max(x); }
static mf_value whole_min(mf_value x) { return mf_min(x); }
static mf_value row_max(mf_value x) { return mf_max(x, 1); }
static mf_value row_min(mf_value x) { return mf_min(x, 1); }
static mf_value column_max(mf_value x) { return mf_max(x, 0); }
static mf_value column_min(mf_value x) { return mf_min(x, 0); }
static mf_value turned(mf_value x) { return mf_maximum(mf_neg(x), mf_flip(x, 0)); }
static mf_value lesser(mf_value x) { return mf_minimum(mf_neg(x), mf_flip(x, 1)); }
static mf_value clipped(mf_value x) { return mf_clip(mf_flip(x, 1), mf_minimum(x, mf_neg(x)), x); }
static mf_value run_max(mf_value x) { return mf_cummax(x, 1); }
static mf_value run_min(mf_value x) { return mf_cummin(x, 0); }
static mf_value images(mf_value x) { return mf_reshape(x, MF_SHAPE(2, 8, 12, -1)); }
static mf_value pool_2x2(mf_value x) { return mf_max_pool(images(x), .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2)); }
static mf_value pool_3x3(mf_value x) { return mf_max_pool(images(x), .window_shape = MF_INTS(3, 3), .padding = MF_SAME); }
static mf_value windows_max(mf_value x) { return mf_reduce_window_max(x, .window = MF_INTS(3, 2), .strides = MF_INTS(1, 1)); }
static mf_value windows_min(mf_value x) { return mf_reduce_window_min(x, .window = MF_INTS(1, 5), .strides = MF_INTS(1, 1)); }
static mf_value joined_max(mf_value x) { return mf_index_max(x, mf_remainder(mf_arange(96, MF_I32), 7), mf_flip(x, 1)); }
static mf_value joined_min(mf_value x) { return mf_index_min(x, mf_remainder(mf_arange(96, MF_I32), 7), mf_flip(x, 1)); }
static mf_value rows_within(mf_value x) /* one step over rows */
{
    mf_value n = mf_neg(x), greatest = mf_max(n, .axis = mf_axes(1), .keepdims = true),
             least = mf_min(n, .axis = mf_axes(1), .keepdims = true);
    return mf_maximum(mf_minimum(mf_flip(n, 1), greatest), mf_neg(least));
}

static const struct {
    const char *name;
    mf_value (*run)(mf_value);
} choosing[] = {
#define CHOOSES(name) \
    {                 \
#name, name   \
    }
    CHOOSES(whole_max), CHOOSES(whole_min),   CHOOSES(row_max),     CHOOSES(row_min),    CHOOSES(column_max), CHOOSES(column_min),
    CHOOSES(turned),    CHOOSES(lesser),      CHOOSES(clipped),     CHOOSES(run_max),    CHOOSES(run_min),    CHOOSES(pool_2x2),
    CHOOSES(pool_3x3),  CHOOSES(windows_max), CHOOSES(windows_min), CHOOSES(joined_max), CHOOSES(joined_min), CHOOSES(rows_within),
#undef CHOOSES
};

/* Mostly one sign, so that the few elements of the other sign decide the result. */
static mf_value marks_of(mf_dtype dtype, int mostly)
{
    float at[96 * 70];
    for (uint32_t i = 0; i < 96 * 70; i++)
        at[i] = (float)((i * 2654435761u >> 16) % 9 == 0 ? -mostly : mostly);
    return mf_astype(mf_from_host(MF_F32, MF_SHAPE(96, 70), at), dtype);
}

TEST(part_zeros)
{
    if (!getenv("MF_TEST_RESULT"))
        return;
    static const mf_dtype dtypes[] = { MF_F32, MF_F64, MF_BF16, MF_F16 };
    for (size_t c = 0; c < sizeof choosing / sizeof *choosing; c++)
        for (int k = 0; k < 8; k++) {
            MF_SCOPE;
            mf_value marks = marks_of(dtypes[k / 2], k % 2 ? 1 : -1), zeros = mf_mul(marks, 0), got, want, wrong;
            for (int again = 0; again < 4; again++) {
                want = mf_call(mf_jit(choosing[c].run), marks);
                got = mf_call(mf_jit(choosing[c].run), zeros);
                mf_tier_up_drain();
            }
            wrong = mf_sum(mf_logical_or(mf_not_equal(got, 0), mf_not_equal(mf_less(mf_div(1, got), 0), mf_less(want, 0))));
            if (!CHECK_EQ_INT(mf_item_i64(wrong), 0))
                put_result(choosing[c].name), put_result("\n");
        }
    REQUIRE(check_failures == 0);
    put_result("right\n");
}

TEST(every_path_orders_zeros_by_their_signs)
{
    static const char *const sets[] = { "MF_CPU_ISA=", "MF_CPU_ISA=avx2", "MF_CPU_ISA=generic" };
    static const char *const tiers[] = { "MF_COMPILE_TIER=1", "MF_COMPILE_TIER=2", "MF_COMPILE_TIER=loops" };
    char text[1024];
    for (int i = 0; i < 9; i++) {
        const char *const set[] = { sets[i / 3], tiers[i % 3], NULL };
        if (!CHECK_EQ_INT(child("part_zeros", set, text, sizeof text), 0) || !CHECK_STR(text, "right\n"))
            CHECK_NOTE("%s %s", set[0], set[1]);
    }
}

/* ------------------------------------------------------------------ oneDNN's instruction sets */

/* The kernel for a product, whose name contains its instruction set. */
TEST(part_products)
{
    if (!getenv("MF_TEST_RESULT"))
        return;
    for (int i = 0; i < 2; i++) {
        const mf_dtype dtype = i ? MF_BF16 : MF_F32;
        const mf_dnnl_primitive *p = mf_dnnl_matmul_create(&(mf_dnnl_matmul){ .dtype = dtype, .result = dtype, .m = 64, .n = 64, .k = 64 },
                                                           &(bool){ 0 });
        put_result(p ? mf_dnnl_describe(p) : "none");
        put_result("\n");
    }
}

TEST(a_cap_holds_for_products)
{
    static const char *const caps[] = { "MF_CPU_ISA=amx", "MF_CPU_ISA=avx512_bf16", "MF_CPU_ISA=avx512", "MF_CPU_ISA=avx2",
                                        "MF_CPU_ISA=generic" };
    static const char *const above[] = { NULL, "amx", "bf16", "512", "avx" };
    char text[1024];
    if (!mf_dnnl_supports(MF_F32))
        SKIP("oneDNN is not installed");
    for (int i = 0; i < 5; i++) {
        CHECK_EQ_INT(child("part_products", (const char *const[]){ caps[i], NULL }, text, sizeof text), 0);
        for (int k = 1; k <= i; k++)
            if (!CHECK(!strstr(text, above[k])))
                CHECK_NOTE("%s: %s", caps[i], text);
        if (i > 1) /* emulated instruction sets are not used */
            CHECK_CONTAINS(text, "\nnone\n");
    }
}

/* ------------------------------------------------------------------ ends */

static double wave_factor; /* makes each loop a different one */
static mf_value waves(mf_value x) { return mf_add(mf_mul(mf_sin(x), mf_cos(x)), mf_tanh(mf_exp(mf_mul(x, wave_factor)))); }

static mf_value wave_input(int64_t size) { return mf_div(mf_astype(mf_arange(size, MF_I32), MF_F32), (double)size); }

static int64_t loops_asked_for(void)
{
    mf_compiler_counters c = mf_compiler_read();
    return c.loops + c.failures + c.waiting;
}

/* Runs until the loop has been requested. */
static void run_waves(int64_t size)
{
    MF_SCOPE;
    mf_value x = wave_input(size);
    int64_t before = loops_asked_for();
    wave_factor = (double)size;
    for (int i = 0; i < 1000 && loops_asked_for() == before; i++) {
        MF_SCOPE;
        CHECK_EQ_INT(mf_block_until_ready(mf_call(mf_jit(waves), x)), MF_OK);
    }
    CHECK(loops_asked_for() > before);
}

static void wait_ms(int ms) { nanosleep(&(struct timespec){ 0, ms * 1000000L }, NULL); }
static int asked_ms(void) { return getenv("MF_TEST_WAIT") ? atoi(getenv("MF_TEST_WAIT")) : 0; }
static bool way_is(const char *way) { return getenv("MF_TEST_WAY") && !strcmp(getenv("MF_TEST_WAY"), way); }

static void *exit_on_thread(void *user)
{
    if (user) {
        MF_SCOPE;
        CHECK_EQ_INT(mf_item_i64(mf_add(1, 2)), 3);
    }
    wait_ms(asked_ms());
    exit(check_failures ? 1 : 0);
}

/* Requests a loop and ends the process some milliseconds later. */
TEST(part_end)
{
    if (!getenv("MF_TEST_RESULT"))
        return;
    pthread_t other;
    run_waves(100000);
    if (way_is("clear"))
        mf_clear_caches();
    if (way_is("thread")) /* ended by a thread that has never called the library, while libLLVM is loaded */
        mf_tier_up_drain();
    if (way_is("thread") || way_is("using thread")) {
        pthread_create(&other, NULL, exit_on_thread, way_is("thread") ? NULL : &other);
        for (int size = 100001;; size++)
            run_waves(size); /* and more work for the compiler */
    }
    wait_ms(asked_ms());
    if (way_is("exit"))
        exit(check_failures ? 1 : 0);
}

/* Ends before, during and after the loading of libLLVM and the compilation. */
static void end_all_ways(const char *tier, int from_ms, int to_ms)
{
    static const char *const ways[] = { "return", "exit", "thread", "using thread", "clear" };
    char wait[32], way[32], text[1024];
    for (int i = 0, ms = from_ms; ms < to_ms; ms++, i++) {
        snprintf(wait, sizeof wait, "MF_TEST_WAIT=%d", ms);
        snprintf(way, sizeof way, "MF_TEST_WAY=%s", ways[i % 5]);
        const char *const set[] = { tier, wait, way, NULL };
        if (!CHECK_EQ_INT(child("part_end", set, text, sizeof text), 0))
            CHECK_NOTE("%s, after %d ms by %s: %s", tier, ms, ways[i % 5], text);
        CHECK_STR(text, "");
    }
}

TEST(processes_end_while_loops_are_made)
{
    NEEDS_NATIVE();
    end_all_ways("MF_COMPILE_TIER=background", 20, 75);
}

TEST(processes_end_while_others_compile)
{
    NEEDS_NATIVE();
    end_all_ways("MF_COMPILE_TIER=2", 0, 20);
}

/* ------------------------------------------------------------------ forks */

static void fork_once(void)
{
    int status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        mf_value v = mf_add(1, 2);
        exit(mf_is_error(v) ? 0 : 1); /* runs all exit handlers, including libLLVM's */
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_EQ_INT(status, 0);
}

/* Forks before, during and after the loading of libLLVM and many compilations. The parent continues. */
TEST(part_fork)
{
    if (!getenv("MF_TEST_RESULT"))
        return;
    for (int i = 0; i < 20; i++) {
        run_waves(100000 + i);
        fork_once();
        wait_ms(i % 4);
        fork_once();
    }
    mf_tier_up_drain();
    CHECK_EQ_INT(mf_compiler_read().loops, 20);
    CHECK_EQ_INT(mf_compiler_read().failures, 0);
}

TEST(processes_fork_while_loops_are_made)
{
    NEEDS_NATIVE();
    /* A leak checker reports memory of the parent's threads as leaked in a child. */
    static const char *const set[] = { "MF_COMPILE_TIER=background", "ASAN_OPTIONS=detect_leaks=0", NULL };
    char text[4096];
    for (int i = 0; i < 3; i++)
        if (!CHECK_EQ_INT(child("part_fork", set, text, sizeof text), 0))
            CHECK_NOTE("%s", text);
}

/* ------------------------------------------------------------------ settings */

TEST(unknown_settings_are_named)
{
    NEEDS_NATIVE();
    char text[1024];
    CHECK_EQ_INT(child("part_end", (const char *const[]){ "MF_COMPILE_TIER=3", "MF_TEST_WAIT=0", NULL }, text, sizeof text), 0);
    CHECK_CONTAINS(text, "MF_COMPILE_TIER=3 is ignored: it can be background, 1, 2 or loops");
    CHECK_EQ_INT(child("part_end", (const char *const[]){ "MF_CPU_ISA=mmx", "MF_TEST_WAIT=0", NULL }, text, sizeof text), 0);
    CHECK_CONTAINS(text, "MF_CPU_ISA=mmx is ignored: it can be");
}
