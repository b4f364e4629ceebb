/* Many threads at the same time: some call one mapped function, some trace their own functions, others clear the caches, request another
 * number of devices, profile, and cause errors. Every result is right, and the thread sanitizer reports nothing. Eight devices. */
#include "check.h"

#include <manyfold.h>
#include <pthread.h>
#include <unistd.h>

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

static _Atomic bool stop;
static _Atomic int wrong, calls;
static mf_value shared; /* kept: 1 .. 8 */
static char profile[64];

static void expect(double got, double expected)
{
    if (!(fabs(got - expected) < 1e-5))
        wrong++;
    calls++;
}

static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value loss(mf_value x) { return mf_sum(mf_square(mf_call(mf_pmap(normalize, "i"), x))); }
static mf_value scale(void *by, mf_value x) { return mf_mul(mf_psum(x, "i"), *(double *)by); }
static mf_value step(mf_value c, mf_value x) { return mf_tuple(mf_add(c, mf_psum(x, "i")), c); }
static mf_value loop(mf_value x) { return mf_get(mf_scan(step, x, mf_mul(x, mf_ones(MF_SHAPE(3), MF_F32))), 0); }

static void *call_the_same(void *unused)
{
    while (!stop) {
        MF_SCOPE;
        expect(mf_item_f64(mf_sum(mf_call(mf_pmap(normalize, "i"), shared))), 1);
        expect(mf_item_f64(mf_sum(mf_call(mf_pmap(loop, "i"), shared))), 36 + 8 * 3 * 36);
        expect(mf_item_f64(mf_sum(mf_call(mf_jit(mf_grad(loss)), shared))), mf_item_f64(mf_sum(mf_call(mf_grad(loss), shared))));
    }
    return unused;
}

static void *trace_new_ones(void *number)
{
    for (double by = (double)(intptr_t)number; !stop; by += 10) {
        MF_SCOPE;
        mf_function f = mf_pmap(mf_closure(scale, &by), "i");
        mf_value a = mf_call(f, shared), b = mf_call(f, mf_add(shared, 1)); /* both in flight */
        expect(mf_item_f64(mf_get(b, 7)), 44 * by);
        expect(mf_item_f64(mf_get(a, 0)), 36 * by);
    }
    return number;
}

static void *make_errors(void *unused)
{
    while (!stop) {
        MF_SCOPE;
        mf_value e = mf_call(mf_pmap(normalize, "j"), shared);
        expect(mf_error(e) && strstr(mf_error(e), "unbound axis name: i"), 1);
        e = mf_call(mf_pmap(normalize, "i"), mf_ones(MF_SHAPE(9), MF_F32));
        expect(mf_error(e) && strstr(mf_error(e), "requires 9 replicas"), 1);
    }
    return unused;
}

static void *meddle(void *unused)
{
    while (!stop) {
        MF_SCOPE;
        mf_clear_caches();
        expect(mf_set_num_cpu_devices(8), MF_OK);
        expect(mf_set_num_cpu_devices(4), MF_ERROR_DEVICE);
        expect(mf_profiler_start_trace(profile), MF_OK);
        usleep(500);
        expect(mf_profiler_stop_trace(), MF_OK);
        (void)mf_cache_read();
        (void)mf_memory_stats();
        (void)mf_first_error(NULL);
    }
    return unused;
}

TEST(everything_at_once)
{
    static void *(*const jobs[])(void *) = { call_the_same, call_the_same, trace_new_ones, trace_new_ones, make_errors, meddle };
    enum { THREADS = sizeof jobs / sizeof *jobs, LEAST = 120, TRIES = 4000 };
    pthread_t threads[THREADS];
    int64_t before = mf_memory_stats().live_bytes;
    snprintf(profile, sizeof profile, "/tmp/manyfold_profile_%ld.json", (long)getpid());
    shared = mf_keep(mf_add(mf_arange(8, MF_F32), 1));
    REQUIRE(mf_devices().count == 8 && mf_devices_of("cpu").count == 8); /* from here on their number is fixed */
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, jobs[i], (void *)(intptr_t)(i + 1)) == 0);
    for (int i = 0; i < TRIES && (i < 100 || calls < LEAST); i++)
        usleep(5000);
    stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    (void)unlink(profile);
    CHECK_EQ_INT(wrong, 0);
    CHECK(calls >= LEAST);
    mf_release(shared);
    mf_clear_caches();
    CHECK(mf_memory_stats().live_bytes <= before + (1 << 20)); /* workers keep their scratch memory */
    printf("(%d results) ", calls);
}
