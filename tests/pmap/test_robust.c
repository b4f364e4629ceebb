/* Invalid calls, a hundred times each, with live arrays around them: each returns its error, nothing leaks or is lost, and the next valid
 * call works. runtime/test_memory_out.c tests running out of memory. Eight devices. */
#include "base/handles/handle.h"
#include "bad_calls.h"
#include "check.h"

#include <manyfold.h>
#include <unistd.h>

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

static mf_value square(mf_value x) { return mf_mul(x, x); }
static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }

/* ------------------------------------------------------------------ what must be as before */

typedef struct state {
    int64_t handles, bytes;
} state;

static state now(void) { return (state){ mf_handle_live_count(), mf_memory_stats().live_bytes }; }

/* Workers release their references shortly after the result is ready. */
static bool back_at(state before, state *after)
{
    for (int tries = 0; tries < 400; tries++) {
        *after = now();
        if (after->handles <= before.handles && after->bytes <= before.bytes)
            return true;
        usleep(5000);
    }
    return false;
}

static void expect_back(const char *what, state before)
{
    state after;
    if (!CHECK(back_at(before, &after)))
        CHECK_NOTE("%s: %lld handles and %lld bytes, before %lld and %lld", what, (long long)after.handles, (long long)after.bytes,
                   (long long)before.handles, (long long)before.bytes);
}

static bool error_comes(const bad_call *c)
{
    MF_SCOPE;
    mf_value v = c->call();
    mf_status status = mf_block_until_ready(v);
    const char *text = mf_error(v);
    return CHECK(status != MF_OK) && CHECK_CONTAINS(text, c->says);
}

static bool good_call_works(void)
{
    MF_SCOPE;
    return CHECK_STR(mf_str(mf_call(mf_pmap(normalize, "i"), mf_arange(4, MF_F32))), "[0.         0.16666667 0.33333334 0.5       ]");
}

static int unseen; /* errors that were not reported */
static void count_unseen(mf_status status, const char *message, void *context)
{
    (void)context;
    unseen++;
    printf("(nobody saw status %d: %s) ", (int)status, message);
}

static void repeat(const bad_call *c, mf_value around)
{
    bool fine = error_comes(c) && good_call_works() && error_comes(c); /* from now on everything that is cached exists */
    state before = now();
    for (int i = 0; i < 100 && fine; i++)
        fine = error_comes(c);
    if (strcmp(c->name, "tracer_escapes") == 0) /* which clears the caches: the good call was not in them before */
        mf_clear_caches();
    expect_back(c->name, before);
    fine = fine && good_call_works() && CHECK_STR(mf_str(around), "[[0. 1. 2.]\n [3. 4. 5.]]");
    if (!fine)
        CHECK_NOTE("%s", c->name);
}

TEST(bad_calls_leave_nothing_behind)
{
    mf_set_error_hook(count_unseen, NULL);
    for (int i = 0; i < bad_call_count; i++) {
        MF_SCOPE;
        mf_value around = mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3)), sharded = mf_call(mf_pmap(square), mf_arange(8, MF_F32));
        repeat(&bad_calls[i], around);
        CHECK_NEAR(mf_item_f64(mf_sum(sharded)), 140, 0);
    }
    CHECK_EQ_INT(unseen, 0);
    mf_set_error_hook(NULL, NULL);
}
