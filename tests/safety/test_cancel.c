/* A cancelled thread leaves the library's functions first: no lock stays locked, no call is half done, and the thread's objects are
 * released. Each call is made with a cancellation pending, so the first cancellation point inside would show. */
#include "check.h"

#include "base/handles/handle.h"

#include <manyfold.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static char npy[64], npz[64], trace[64];

/* A cancellation point, in functions that the library calls. */
static void poke(void) { (void)!write(-1, "", 1); }

static mf_value poking(mf_value x)
{
    poke();
    return mf_mul(x, x);
}

static mf_value total(mf_value x)
{
    poke();
    return mf_sum(x);
}

static mf_value each(mf_value x) { return mf_psum(mf_sum(mf_matmul(x, x)), "i"); }
static mf_value running(mf_value c, mf_value x) { return poke(), mf_tuple(mf_add(c, x), c); }
static mf_value called(mf_value x) { return mf_pure_callback(poking, x, x); }
static bool saves(const mf_saveable *v, const void *context) { return poke(), v != context; }
static void line(const char *text, void *context) { poke(), (void)text, (void)context; }
static void hook(mf_status status, const char *message, void *context) { poke(), (void)status, (void)message, (void)context; }
static mf_value twice(const void *context, mf_function f, const mf_value *a, int count)
{
    (void)context;
    poke();
    return mf_add(mf_call_n(f, a, count), 1);
}

static mf_value ones(int n) { return mf_ones(MF_SHAPE(n, n), MF_F32); }
static mf_value wrong(void) { return mf_add(mf_ones(MF_SHAPE(2), MF_F32), mf_ones(MF_SHAPE(3), MF_F32)); }

static void unhandled(void)
{
    MF_SCOPE;
    (void)wrong();
}

#define CALLS(X)                                                                                                                   \
    X(mf_block_until_ready(mf_call(mf_pmap(each, .axis_name = "i"), mf_ones(MF_SHAPE(2, 200, 200), MF_F32))))                      \
    X(mf_item_f64(mf_sum(mf_matmul(ones(300), ones(300)))))                                                                        \
    X(mf_call(mf_jit(poking), ones(3)))                                                                                            \
    X(mf_call(mf_grad(total), ones(3)))                                                                                            \
    X(mf_call(mf_vmap(poking), ones(3)))                                                                                           \
    X(mf_call(mf_jit(mf_grad(mf_remat(total, .policy = (mf_policy){ saves, NULL }))), ones(4)))                                    \
    X(mf_call(mf_jit(mf_decorate_n(mf_fn(poking), "twice", twice, NULL, 0)), ones(3)))                                             \
    X(mf_scan(running, mf_f(0), ones(3)))                                                                                          \
    X(mf_tree_map(poking, mf_tuple(1, 2)))                                                                                         \
    X(mf_call(mf_jit(called), ones(5)))                                                                                            \
    X(called(ones(2)))                                                                                                             \
    X(mf_debug_print("{}", ones(2)))                                                                                               \
    X(mf_block_until_ready(mf_conv_general_dilated(mf_ones(MF_SHAPE(2, 8, 8, 3), MF_F32), mf_ones(MF_SHAPE(3, 3, 3, 4), MF_F32)))) \
    X(mf_block_until_ready(mf_cholesky(mf_eye(4, MF_F32))))                                                                        \
    X(mf_str(wrong()))                                                                                                             \
    X(mf_error_place(wrong()))                                                                                                     \
    X(mf_str(mf_jit(poking)))                                                                                                      \
    X(unhandled())                                                                                                                 \
    X(mf_save_npy(npy, ones(100)))                                                                                                 \
    X(mf_load_npy(npy))                                                                                                            \
    X(mf_save_npz(npz, mf_dict("a", ones(100))))                                                                                   \
    X(mf_load_npz(npz))                                                                                                            \
    X(mf_load_tree(npz, mf_dict("a", ones(100))))                                                                                  \
    X(mf_load_idx(npy))                                                                                                            \
    X(mf_load_cifar10("/nowhere", "test"))                                                                                         \
    X(mf_load_fashion_mnist("/nowhere", "test"))                                                                                   \
    X(mf_random_next(mf_random_default()))                                                                                         \
    X(mf_random_normal(mf_random_key(1), MF_SHAPE(100), MF_F32))                                                                   \
    X(mf_nn_linear(mf_random_default(), 3, 3))                                                                                     \
    X(mf_adam(.learning_rate = 0.5))                                                                                               \
    X(mf_program_text(mf_fn(poking), ones(3)))                                                                                     \
    X(mf_profiler_start_trace(trace))                                                                                              \
    X(mf_profiler_stop_trace())                                                                                                    \
    X(mf_put_line(""))                                                                                                             \
    X(mf_first_error(NULL))                                                                                                        \
    X(mf_clear_caches())                                                                                                           \
    X(mf_exit_status())

#define X(call) { #call, false },
static struct {
    const char *text;
    bool returned;
} calls[] = { CALLS(X) };
#undef X
enum { COUNT = sizeof calls / sizeof *calls };

static void make_call(int which)
{
    int i = 0;
#define X(call)         \
    if (which == i++) { \
        (void)(call);   \
        return;         \
    }
    CALLS(X)
#undef X
}

static void *with_cancellation_pending(void *which)
{
    int i = *(int *)which;
    pthread_cancel(pthread_self());
    make_call(i);
    calls[i].returned = true;
    pthread_testcancel();
    return NULL;
}

TEST(a_call_returns_before_its_thread_is_cancelled)
{
    snprintf(npy, sizeof npy, "/tmp/mf_cancel_%d.npy", (int)getpid());
    snprintf(npz, sizeof npz, "/tmp/mf_cancel_%d.npz", (int)getpid());
    snprintf(trace, sizeof trace, "/tmp/mf_cancel_%d.json", (int)getpid());
    mf_set_num_cpu_devices(2);
    mf_set_error_hook(hook, NULL);
    mf_set_print_hook(line, NULL);
    int64_t handles = mf_handle_live_count();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < COUNT; i++) {
            pthread_t thread;
            void *result = NULL;
            calls[i].returned = false;
            REQUIRE(pthread_create(&thread, NULL, with_cancellation_pending, &i) == 0);
            pthread_join(thread, &result);
            if (!CHECK(calls[i].returned && result == PTHREAD_CANCELED))
                CHECK_NOTE("%s was left in the middle", calls[i].text);
        }
    CHECK_EQ_INT(mf_handle_live_count(), handles);
    mf_set_error_hook(NULL, NULL);
    mf_set_print_hook(NULL, NULL);
    unlink(npy);
    unlink(npz);
    unlink(trace);
}

/* ---- while it waits */

static atomic_bool waits, go;

static mf_value until_told(mf_value x)
{
    waits = true;
    while (!go)
        usleep(100);
    return x;
}

static mf_value slow(mf_value x) { return mf_pure_callback(until_told, x, mf_psum(x, "i")); }

static void *wait_for_it(void *returned)
{
    mf_value v = mf_call(mf_pmap(slow, .axis_name = "i"), mf_ones(MF_SHAPE(2, 3), MF_F32));
    *(bool *)returned = mf_block_until_ready(v) == MF_OK;
    for (;;)
        pthread_testcancel();
    return NULL;
}

TEST(a_thread_that_waits_is_cancelled_when_it_has_its_result)
{
    pthread_t thread;
    bool returned = false;
    void *result = NULL;
    mf_set_num_cpu_devices(2);
    REQUIRE(pthread_create(&thread, NULL, wait_for_it, &returned) == 0);
    while (!waits)
        usleep(100);
    pthread_cancel(thread);
    usleep(1000);
    go = true;
    pthread_join(thread, &result);
    CHECK(returned && result == PTHREAD_CANCELED);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_matmul(ones(50), ones(50)))), 125000, 0); /* and all other threads continue */
}
