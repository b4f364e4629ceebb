/* The system refuses threads: work for which the stack suffices runs on the calling thread, other work is an error; never a crash or an
 * endless wait. */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <manyfold.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool refuse;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &found, sizeof real);
    return refuse ? EAGAIN : real(thread, attributes, run, context);
}

static mf_value each(mf_value x) { return mf_psum(mf_sum(mf_matmul(x, x)), "i"); }
static mf_value loss(mf_value x) { return mf_sum(mf_square(mf_tanh(mf_matmul(x, x)))); }
static mf_value same(mf_value x) { return x; }
static mf_value passed_on(mf_value x) { return mf_add(mf_pure_callback(same, x, x), 1); }
static mf_value square(int n) { return mf_ones(MF_SHAPE(n, n), MF_F32); }

#define CALLS(X)                                                                                                                    \
    X(mf_sum(mf_add(square(64), 1)), 2 * 64 * 64)                                                                                   \
    X(mf_sum(mf_matmul(square(64), square(64))), 64.0 * 64 * 64)                                                                    \
    X(mf_sum(mf_matmul(square(500), square(500))), 500.0 * 500 * 500)                                                               \
    X(mf_sum(mf_matmul(mf_ones(MF_SHAPE(300, 300), MF_F64), mf_ones(MF_SHAPE(300, 300), MF_F64))), 300.0 * 300 * 300)               \
    X(mf_get(mf_call(mf_pmap(each, .axis_name = "i"), mf_ones(MF_SHAPE(2, 100, 100), MF_F32)), 0), 2e6)                             \
    X(mf_sum(mf_call(mf_grad(loss), mf_zeros(MF_SHAPE(50, 50), MF_F32))), 0)                                                        \
    X(mf_sum(mf_conv_general_dilated(mf_ones(MF_SHAPE(1, 32, 32, 3), MF_F32), mf_ones(MF_SHAPE(1, 1, 3, 2), MF_F32))), 6 * 32 * 32) \
    X(mf_sum(mf_call(mf_jit(passed_on), square(300))), 2 * 300 * 300)                                                               \
    X(mf_sum(mf_sort(mf_ones(MF_SHAPE(100000), MF_F32), 0)), 1e5)

static void *use(void *roomy)
{
    refuse = true;
#define X(call, wanted)                                                                                           \
    {                                                                                                             \
        MF_SCOPE;                                                                                                 \
        mf_value v = call;                                                                                        \
        (void)mf_block_until_ready(v);                                                                            \
        if (!CHECK(mf_is_error(v) ? !roomy && strstr(mf_error(v), "stack") : mf_item_f64(v) == (double)(wanted))) \
            CHECK_NOTE("%s: %s", #call, mf_is_error(v) ? mf_error(v) : mf_str(v));                                \
    }
    CALLS(X)
#undef X
    return roomy;
}

static void use_on(size_t stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    REQUIRE(pthread_attr_setstacksize(&attributes, stack) == 0);
    refuse = false;
    REQUIRE(pthread_create(&thread, &attributes, use, stack > 1 << 20 ? &refuse : NULL) == 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

TEST(what_has_stack_enough_computes)
{
    mf_set_num_cpu_devices(2);
    use_on((size_t)8 << 20);
}
TEST(what_has_not_is_an_error) { use_on((size_t)128 << 10); }
TEST(with_threads_again_all_works)
{
    refuse = false;
    CHECK_NEAR(mf_item_f64(mf_sum(mf_matmul(square(300), square(300)))), 300.0 * 300 * 300, 0);
}
