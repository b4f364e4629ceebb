/* Running out of memory at any point gives an error value: every allocation of a program fails once, alone and together with all later
 * ones. The result is then right or an error; nothing crashes, no block, handle or array leaks, and the next run works. Every build injects
 * failures, through the linker (failing_malloc.h). */
#include "failing_malloc.h"

#include "array/array.h"
#include "base/handles/handle.h"
#include "check.h"
#include "run_text.h"
#include "small_programs.h"

#include <unistd.h>

static void ignore(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

/* ------------------------------------------------------------------ what must be as before */

typedef struct state {
    int64_t handles, bytes, blocks;
} state;

static state now(void)
{
    mf_clear_caches();
    mf_memory_trim();
    return (state){ mf_handle_live_count(), mf_memory_stats().live_bytes, failing_blocks() };
}

static bool within(state s, state before) { return s.handles <= before.handles && s.bytes <= before.bytes && s.blocks <= before.blocks; }

/* Workers release their references shortly after the result is ready. */
static state settled(state before)
{
    state s = now();
    for (int tries = 0; tries < 50 && !within(s, before); tries++) {
        usleep(1000);
        s = now();
    }
    return s;
}

/* ------------------------------------------------------------------ one round */

typedef struct attempt {
    int64_t n;          /* the number of the allocation that fails; 0: none */
    bool all;           /* and all later ones */
    bool failed, right; /* an allocation failed; the result was the number, not an error */
} attempt;

/* mf_exit_status remembers the first unhandled error; replaces it by an error that takes no memory. */
static void forget_errors(void)
{
    while (mf_first_error(NULL) != MF_OK) {
    }
    (void)mf_error_remember(mf_error_out_of_memory());
    (void)mf_first_error(NULL);
}

/* False after a failed check. */
static bool run_once(const small_program *p, attempt *r)
{
    MF_SCOPE;
    if (r->n)
        failing_start(r->n, r->all);
    mf_value v = p->run();
    double got = mf_item_f64(v);
    r->failed = failing_stop();
    const char *text = mf_error(v);
    r->right = fabs(got - p->expected) < 1e-3;
    forget_errors();
    return CHECK(r->right || (isnan(got) && (text || r->failed)));
}

static bool one_failure(const small_program *p, attempt *r, mf_value around)
{
    int64_t before = mf_handle_live_count();
    bool good = run_once(p, r) && CHECK_EQ_INT(mf_handle_live_count(), before);
    mf_clear_caches();
    MF_SCOPE;
    good = good & CHECK_STR(mf_str(around), "[[0. 1. 2.]\n [3. 4. 5.]]");
    return good || CHECK_NOTE("%s: allocation %d fails%s", p->name, (int)r->n, r->all ? " and all that follow" : "");
}

/* Fails every step-th allocation once; returns the number of failures. */
static int64_t fail_each_once(const small_program *p, mf_value around, bool all, int step)
{
    int64_t failures = 0;
    attempt r = { .n = 1, .all = all, .failed = true };
    for (; r.failed && r.n < 100000 && !check_failures; r.n += step) {
        (void)one_failure(p, &r, around);
        failures += r.failed;
    }
    return failures;
}

/* Interned objects are never freed, and failures cause new texts and trees to be interned; a worker keeps its scratch memory. So only
 * memory that grows every time counts as a leak. */
static int64_t fail_each(const small_program *p, mf_value around, bool all, int step)
{
    enum { TIMES = 6 };
    attempt fine = { 0 };
    int64_t failures = 0;
    state before = { 0 }, after = { .handles = 1 };
    for (int i = 0; i < TIMES && !within(after, before) && !check_failures; i++) {
        if (!CHECK(run_once(p, &fine) && fine.right))
            CHECK_NOTE("%s", p->name);
        before = now();
        failures = fail_each_once(p, around, all, step);
        after = settled(before);
    }
    if (!CHECK(within(after, before)))
        CHECK_NOTE("%s: each time %lld more handles, %lld bytes, %lld blocks", p->name, (long long)(after.handles - before.handles),
                   (long long)(after.bytes - before.bytes), (long long)(after.blocks - before.blocks));
    return failures;
}

/* Tests the program of this name; NULL: all programs. */
static void fail_in(const char *one, bool all, double inline_below, int step)
{
    mf_set_error_hook(ignore, NULL);
    small_programs_open();
    mf_executable_inline_below(inline_below);
    mf_value around = mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3));
    const char *only = getenv("MF_TEST_PROGRAM"), *checked = getenv("MF_SANITIZE");
    step *= checked && *checked ? 13 : 1; /* checks make each round slow */
    int64_t failures = 0;
    for (int i = 0; i < small_program_count && !check_failures; i++)
        if ((!one || !strcmp(one, small_programs[i].name)) && (!only || !strcmp(only, small_programs[i].name)))
            failures += fail_each(&small_programs[i], around, all, step);
    printf("(%lld allocations failed) ", (long long)failures);
    CHECK(failures > (one ? 10 : 200) || only);
    mf_executable_inline_below(200000);
    small_programs_close();
    mf_set_error_hook(NULL, NULL);
}

TEST(one_fails_inline) { fail_in(NULL, false, 1e12, 1); }
TEST(one_fails_on_the_pool) { fail_in(NULL, false, 0, 7); }
TEST(all_fail_from_one_on) { fail_in(NULL, true, 200000, 7); }

TEST(one_fails_while_kernels_are_compiled)
{
    compile_all_loops(true);
    fail_in("normalized", false, 200000, 1);
    compile_all_loops(false);
}

/* ------------------------------------------------------------------ sums over many devices */

TEST(a_sum_over_300_devices_is_right_or_no_sum)
{
    enum { MEMBERS = 300, COUNT = 8 };
    const mf_segment_compiler *backends[] = { mf_segment_compiler_default(), &mf_segment_compiler_reference };
    float in[MEMBERS][COUNT], out[COUNT] = { 0 };
    const void *pointers[MEMBERS];
    for (int m = 0; m < MEMBERS; m++) {
        pointers[m] = in[m];
        for (int i = 0; i < COUNT; i++)
            in[m][i] = (float)(m + i);
    }
    for (int b = 0; b < 2; b++)
        for (int fails = 0; fails < 2; fails++) {
            if (fails)
                failing_start(1, true);
            bool made = backends[b]->reduce(MF_REDUCE_SUM, MF_F32, pointers, MEMBERS, out, COUNT, 0, COUNT);
            bool failed = failing_stop() && fails;
            CHECK(made == !failed);
            CHECK(!made || out[7] == 44850 + 300 * 7);
            CHECK(backends[b]->reduce(MF_REDUCE_SUM, MF_F32, pointers, MEMBERS, out, COUNT, 3, 3)); /* nothing to do, nothing leaks */
        }
}
