/* Runs: many unread ones, large ones on the pool, chains of pending results, donation, values held once, and errors. */
#include "check.h"
#include "run_text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static double got[1 << 20];

/* x / psum(x) any number of times, unread, which is known to fail in JAX. */
static void unread(int n, const char *shape)
{
    char text[1024], type[64];
    snprintf(type, sizeof type, "f32[%d%s]", n, shape);
    snprintf(text, sizeof text,
             "program (a: %s) { b: %s = pmap[axis_name=i, axis_size=%d, in_axes=(0), out_axes=(0), program=(x: f32[%s]) {"
             " s: f32[%s] = psum[axes=(i)] x\n y: f32[%s] = div x s\n return y }] a\n return b }",
             type, type, n, *shape ? shape + 1 : "", *shape ? shape + 1 : "", *shape ? shape + 1 : "");
    mf_error_object *error = NULL;
    mf_executable *x = executable_of(text, NULL, &error);
    REQUIRE(x);
    mf_array *in = counting(type, 1), *out[1] = { NULL };
    for (int k = 0; k < (*shape ? 300 : 10000); k++) {
        mf_drop(out[0]);
        REQUIRE(CHECK(start(x, &in, out)));
    }
    if (CHECK(read_array(out[0], got, in->type->size)))
        CHECK_NEAR(got[0], *shape ? 1.0 / (n + 4096.0 * n * (n - 1) / 2) : 2.0 / ((double)n * (n + 1)), 1e-6);
    mf_drop(out[0]);
    mf_drop(in);
    mf_drop(x);
}

TEST(ten_thousand_unread_on_8) { unread(8, ""); }
TEST(ten_thousand_unread_on_64) { unread(64, ""); }
TEST(large_unread_on_8) { unread(8, ",4096"); }
TEST(large_unread_on_64) { unread(64, ",4096"); }

/* ---- pending inputs */

static const char step_body[] =
    "program (p: f32[8,4096], x: f32[8,4096]) { q: f32[8,4096] = pmap[axis_name=i, axis_size=8, in_axes=(0,0), out_axes=(0), program=(p: f32[4096], x: f32[4096]) {"
    " d: f32[4096] = sub x p\n g: f32[4096] = psum[axes=(i)] d\n s: f32[4096] = add g g\n h: f32[4096] = div s s\n q: f32[4096] = add p h\n return q }] p x\n return q }";

/* Every step adds 1 to p, computed as a sum of differences divided by itself. */
static void chain(const bool *donated, bool once)
{
    mf_error_object *error = NULL;
    mf_array *in[2] = { once ? held_once("f32[8,4096]", 5) : counting("f32[8,4096]", 5), counting("f32[8,4096]", 1000000) }, *out[1];
    mf_executable *e = executable_for(step_body, donated, in, &error);
    REQUIRE(CHECK(e) || CHECK_NOTE("%s", mf_error_text(error)));
    for (int k = 0; k < 50; k++) {
        REQUIRE(CHECK(mf_executable_fits(e, in))); /* a result's layout is known before the result is ready */
        REQUIRE(CHECK(start(e, in, out)) || CHECK_NOTE("%s", run_error));
        mf_drop(in[0]);
        in[0] = out[0];
    }
    if (CHECK(read_array(in[0], got, 8 * 4096)) || CHECK_NOTE("%s", run_error))
        for (int k = 0; k < 8 * 4096; k += 1001)
            CHECK_NEAR(got[k], 55 + (once ? k % 4096 : k), 0);
    if (once)
        CHECK_EQ_INT(in[0]->strides[0], 0);
    mf_drop(in[0]);
    mf_drop(in[1]);
    mf_drop(e);
}

TEST(chains_of_pending_results) { chain(NULL, false); }
TEST(chains_of_what_is_held_once) { chain(NULL, true); }
TEST(chains_with_donation) { chain((const bool[]){ true, false }, false); }
TEST(chains_held_once_with_donation) { chain((const bool[]){ true, false }, true); }

TEST(donation_reuses_the_memory_and_deletes_the_array)
{
    mf_error_object *error = NULL;
    mf_executable *e = executable_of(
        "program (p: f32[8,64]) { q: f32[8,64] = pmap[axis_size=8, in_axes=(0), out_axes=(0), program=(p: f32[64]) { q: f32[64] = add p p\n return q }] p\n return q }",
        (const bool[]){ true }, &error);
    REQUIRE(e);
    mf_array *a = counting("f32[8,64]", 0), *out[1];
    const void *before = mf_array_data(a);
    REQUIRE(CHECK(start(e, &a, out)));
    CHECK(mf_array_data(out[0]) == before);
    CHECK(read_array(out[0], got, 512) && got[511] == 1022);
    mf_error_object *deleted = mf_array_wait(a);
    CHECK_CONTAINS(deleted ? mf_error_text(deleted) : NULL, "Array has been deleted with shape=float32[8,64].");
    mf_drop(deleted);
    CHECK(!start(e, &a, out + 0));
    CHECK_CONTAINS(run_error, "deleted");
    mf_drop(a);

    a = out[0];
    mf_array *view = mf_array_view(a, a->type, 0, a->strides, a->sharding); /* a view exists, so it is copied */
    REQUIRE(CHECK(start(e, &a, out)));
    CHECK(read_array(view, got, 512) && got[511] == 1022);
    CHECK(read_array(out[0], got, 512) && got[511] == 2044);
    mf_drop(view);
    mf_drop(a);
    mf_drop(out[0]);
    mf_drop(e);
}

TEST(donation_without_a_map)
{
    mf_error_object *error = NULL;
    mf_executable *e = executable_of("program (p: f32[64], q: f32[64]) { r: f32[64] = add p q\n s: f32[64] = mul r q\n return s }",
                                     (const bool[]){ true, false }, &error);
    REQUIRE(e);
    mf_array *in[2] = { counting("f32[64]", 0), counting("f32[64]", 0) }, *out[1];
    const void *before = mf_array_data(in[0]);
    REQUIRE(CHECK(start(e, in, out)));
    CHECK(mf_array_data(out[0]) == before);
    CHECK(read_array(out[0], got, 64) && got[63] == 63 * 126);
    mf_drop(out[0]);
    drop_all(in, 2);
    mf_drop(e);
}

/* ---- held once, done once */

TEST(uniform_results_are_held_once)
{
    mf_error_object *error = NULL;
    mf_executable *e = executable_of(
        "program (a: f32[8,32]) { s: f32[8,32], m: f32[32] = pmap[axis_name=i, axis_size=8, in_axes=(0), out_axes=(0,None), program=(x: f32[32]) {"
        " s: f32[32] = psum[axes=(i)] x\n t: f32[32] = add s s\n return s, t }] a\n return s, m }",
        NULL, &error);
    REQUIRE(CHECK(e) || CHECK_NOTE("%s", mf_error_text(error)));
    mf_array *a = counting("f32[8,32]", 0), *out[2];
    REQUIRE(CHECK(start(e, &a, out)));
    CHECK_EQ_INT(out[0]->strides[0], 0);
    CHECK_EQ_INT(out[0]->sharding->device_count, 8);
    CHECK(read_array(out[0], got, 256) && got[0] == 896 && got[255] == 896 + 8 * 31 && got[224] == 896);
    CHECK(read_array(out[1], got, 32) && got[0] == 1792);
    drop_all(out, 2);
    mf_drop(a);
    mf_drop(e);
}

TEST(what_is_held_once_changes_no_bit)
{
    const char *text =
        "program (w: f32[8,16], x: f32[8,16]) { v: f32[8,16], y: f32[8,16] = pmap[axis_name=i, axis_size=8, in_axes=(0,0), out_axes=(0,0), program=(w: f32[16], x: f32[16]) {"
        " u: f32[16] = exp w\n z: f32[16] = mul u x\n g: f32[16] = psum[axes=(i)] z\n v: f32[16] = add w g\n y: f32[16] = add z v\n return v, y }] w x\n return v, y }";
    static double plain[128], once[128];
    mf_error_object *error = NULL;
    mf_array *held = held_once("f32[8,16]", 0), *full = mf_array_new(held->type), *x = counting("f32[8,16]", 1), *out[2];
    int64_t strides[MF_RANK];
    mf_contiguous_strides(held->type, strides);
    mf_copy_strided(2, held->type->dims, 4, mf_array_data(full), strides, mf_array_data(held), held->strides);
    mf_executable *plain_x = executable_of(text, NULL, &error), *held_x = executable_for(text, NULL, (mf_array *[]){ held, x }, &error);
    REQUIRE(plain_x && held_x);
    for (int round = 0; round < 4; round++) {
        mf_array *in[2] = { round % 2 ? full : held, x };
        CHECK(mf_executable_fits(plain_x, in) == round % 2 && mf_executable_fits(held_x, in) == !(round % 2));
        REQUIRE(CHECK(start(round % 2 ? plain_x : held_x, in, out)));
        CHECK_EQ_INT(out[0]->strides[0], round % 2 ? 64 : 0);
        for (int o = 0; o < 2; o++)
            CHECK(read_array(out[o], round % 2 ? plain + 0 : once + 0, 128));
        drop_all(out, 2);
        if (round % 2)
            CHECK_BYTES(plain, once, sizeof plain);
    }
    mf_text t = { 0 };
    mf_executable_describe(&t, held_x);
    CHECK_CONTAINS(t.at, "input 0: f32[8,16] shard f32[16] axis 0 held");
    mf_text_free(&t);
    mf_drop(held);
    mf_drop(full);
    mf_drop(x);
    mf_drop(plain_x);
    mf_drop(held_x);
}

/* ---- errors and the rest */

TEST(results_that_are_inputs_and_constants)
{
    REQUIRE(run_text("program (a: f32[3], b: f32[3]) { return b, a, 7.0:f32[] }", 0, got, 3));
    CHECK(got[2] == 2);
    REQUIRE(run_text(
        "program (a: f32[3]) { b: f32[3], c: f32[3,3], d: f32[3] = pmap[axis_size=3, in_axes=(0), out_axes=(0,0,0), program=(x: f32[]) { return x, {1.0, 2.0, 3.0}:f32[3], x }] a\n return c, b, d }",
        0, got, 9));
    CHECK(got[0] == 1 && got[8] == 3);
    REQUIRE(run_text(
        "program (a: f32[3,2]) { b: f32[3,2], c: f32[3,2] = pmap[axis_size=3, in_axes=(0), out_axes=(0,0), program=(x: f32[2]) { y: f32[2] = neg x\n return y, y }] a\n return b, c }",
        1, got, 6));
    CHECK(got[5] == -5);
}

TEST(an_unbound_name_is_an_error)
{
    CHECK(!run_text("program (a: f32[3]) { b: f32[3] = psum[axes=(nobody)] a\n return b }", 0, got, 3));
    CHECK_CONTAINS(run_error, "nobody");
}

TEST(results_may_die_before_they_are_made)
{
    mf_error_object *error = NULL;
    mf_executable *e = executable_of(step_body, NULL, &error);
    REQUIRE(e);
    mf_array *in[2] = { counting("f32[8,4096]", 5), counting("f32[8,4096]", 9) }, *out[1];
    for (int k = 0; k < 200; k++)
        if (CHECK(start(e, in, out)))
            mf_drop(out[0]);
    drop_all(in, 2);
    mf_drop(e);
}

TEST(a_steady_step_asks_the_system_for_nothing)
{
    mf_error_object *error = NULL;
    mf_array *in[2] = { held_once("f32[8,4096]", 5), counting("f32[8,4096]", 1000000) }, *out[1];
    mf_executable *e = executable_for(step_body, (const bool[]){ true, false }, in, &error);
    REQUIRE(e);
    /* a worker allocates temporaries, which it keeps, when it first helps: so some window of steps must take no memory */
    bool steady = false;
    for (int window = 0; window < 10 && !steady; window++) {
        mf_memory_counters before = mf_memory_read();
        for (int k = 0; k < 20; k++) {
            REQUIRE(CHECK(start(e, in, out)));
            mf_drop(in[0]);
            in[0] = out[0];
            mf_error_object *wrong = mf_array_wait(in[0]);
            REQUIRE(CHECK(!wrong));
        }
        mf_memory_counters after = mf_memory_read();
        steady = window > 0 && after.live_bytes <= before.live_bytes;
#if !defined(__SANITIZE_ADDRESS__)
        steady = steady && after.system_allocations == before.system_allocations;
#endif
    }
    CHECK(steady);
    drop_all(in, 2);
    mf_drop(e);
}

/* ---- loops over pieces */

static void count_piece(void *context, int64_t i) { __atomic_fetch_add((int *)context + i, 1, __ATOMIC_RELAXED); }

/* The start and direction of a loop depend on the previous loop, so loops of many lengths run in sequence. */
TEST(parallel_for_runs_every_piece_once)
{
    static int times[1000];
    const int counts[] = { 1000, 2, 3, 997, 7, 64, 1, 255 };
    for (int round = 0; round < 1000; round++) {
        int count = counts[(round + round / 8) % 8];
        memset(times, 0, sizeof times);
        (round % 3 ? mf_parallel_for : mf_parallel_for_brief)(count, count_piece, times);
        bool once = true;
        for (int i = 0; i < 1000; i++)
            once = once && times[i] == (i < count);
        CHECK(once);
    }
}

/* A loop that begins while all cores are busy gets help as soon as one is free. */
static struct {
    pthread_t owner;
    _Atomic int entered;
    _Atomic bool both, inside, second;
    bool met;
} crowd;

static bool comes(const _Atomic bool *what) /* within ten seconds */
{
    for (int ms = 0; ms < 10000 && !atomic_load(what); ms++)
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    return atomic_load(what);
}

static void enter(void *unused, int64_t i)
{
    (void)unused, (void)i;
    atomic_store(&crowd.inside, true);
    if (atomic_fetch_add(&crowd.entered, 1) == 0)
        crowd.met = comes(&crowd.second);
    else
        atomic_store(&crowd.second, true);
}

static void fill_the_cores(void *unused, int64_t i)
{
    (void)unused, (void)i;
    if (pthread_equal(pthread_self(), crowd.owner)) {
        if (comes(&crowd.both))
            mf_parallel_for(2, enter, NULL);
    } else if (atomic_exchange(&crowd.both, true)) {
        atomic_store(&crowd.inside, true); /* two helpers were faster than the owner: release the first */
    } else {
        comes(&crowd.inside);
    }
}

TEST(loops_get_help_as_soon_as_a_core_is_free)
{
    if (mf_worker_count() != 2)
        return; /* with more cores one is free from the beginning; with one core there is no helper */
    crowd.owner = pthread_self();
    for (int times = 0; times < 100 && !crowd.entered; times++) {
        crowd.both = crowd.inside = false;
        mf_parallel_for(2, fill_the_cores, NULL);
    }
    CHECK(crowd.met);
}
