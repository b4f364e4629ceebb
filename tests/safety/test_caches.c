/* The caches of oneDNN's primitives and of compiled loops are bounded (those of programs and ops: tests/trace/test_many.c). More are
 * created than are kept, also by threads that clear all programs between runs of others; a program's own objects stay, and the results are
 * right. */
#if MF_HAVE_NATIVE
#include "backend/native/kernels/dnnl/dnnl.h"
#include "backend/native/llvm/tier_up.h"

#include "check.h"

#include <manyfold.h>
#include <pthread.h>

enum { KEPT = 8, MADE = 60, THREADS = 4, ROUNDS = 40 };

static bool is_native(void) { return !strcmp(mf_default_backend(), "native"); }

/* ------------------------------------------------------------------ primitives */

static mf_value product(mf_value x, mf_value y) { return mf_matmul(x, y); }

/* Sums 200 elements; `number` makes each problem a different one. */
static bool product_is_right(mf_function f, int number)
{
    MF_SCOPE;
    mf_value r = mf_call(f, mf_ones(MF_SHAPE(160, 200), MF_F32), mf_ones(MF_SHAPE(200, 160 + number), MF_F32));
    return mf_item_f64(mf_min(r)) == 200 && mf_item_f64(mf_max(r)) == 200;
}

TEST(primitives_are_bounded)
{
    if (!is_native() || !mf_dnnl_supports(MF_F32))
        SKIP("no oneDNN");
    MF_SCOPE;
    mf_dnnl_cache_most = KEPT;
    mf_function held = mf_compile(product, mf_ones(MF_SHAPE(160, 200), MF_F32), mf_ones(MF_SHAPE(200, 160), MF_F32));
    CHECK(product_is_right(held, 0));
    int most = 0;
    for (int i = 1; i <= MADE; i++) {
        if (!CHECK(product_is_right(mf_fn(product), i)))
            CHECK_NOTE("product number %d", i);
        mf_clear_caches();
        most = mf_dnnl_cache_count() > most ? mf_dnnl_cache_count() : most;
    }
    CHECK(most > 1 && most <= KEPT);
    CHECK(product_is_right(held, 0));
    mf_dnnl_cache_most = 512;
}

/* ------------------------------------------------------------------ loops */

static mf_value chain(const void *number, mf_function unused, const mf_value *x, int count)
{
    (void)unused, (void)count;
    return mf_add(mf_mul(mf_sub(x[0], 3), *(const double *)number), 1);
}

static mf_function chain_of(double number) { return mf_decorate_n(mf_fn(product), "chain", chain, &number, sizeof number); }

static bool chain_is_right(mf_function f, double number)
{
    MF_SCOPE;
    mf_value r = mf_call(f, mf_full(MF_SHAPE(5000), mf_scalar(5, MF_F32)));
    return mf_item_f64(mf_min(r)) == 2 * number + 1 && mf_item_f64(mf_max(r)) == 2 * number + 1;
}

TEST(loops_are_bounded)
{
    if (!is_native())
        SKIP("no native backend");
    MF_SCOPE;
    mf_native_tiers = MF_TIERS_LOOPS;
    mf_loop_cache_most = KEPT;
    int64_t before = mf_compiler_read().loops;
    mf_function held = mf_compile(chain_of(-1), mf_full(MF_SHAPE(5000), mf_scalar(5, MF_F32)));
    CHECK(chain_is_right(held, -1));
    int most = 0;
    for (int i = 1; i <= MADE; i++) {
        if (!CHECK(chain_is_right(chain_of(i), i)))
            CHECK_NOTE("chain number %d", i);
        mf_clear_caches();
        most = mf_loop_cache_count() > most ? mf_loop_cache_count() : most;
    }
    CHECK(most > 1 && most <= KEPT);
    CHECK(mf_compiler_read().loops - before > MADE || mf_compiler_read().failures);
    CHECK(chain_is_right(held, -1));
    mf_loop_cache_most = 1024;
    mf_native_tiers = MF_TIERS_AS_ASKED;
}

/* ------------------------------------------------------------------ both, while others run */

static void *work(void *which)
{
    int first = *(int *)which, *wrong = which;
    *wrong = 0;
    MF_SCOPE;
    mf_function own = chain_of(100 + first);
    for (int i = 0; i < ROUNDS; i++) {
        MF_SCOPE;
        *wrong += !chain_is_right(own, 100 + first) + !chain_is_right(chain_of(i % 7), i % 7);
        if (i % 4 == 0)
            *wrong += !product_is_right(mf_fn(product), i % 3);
        if (i % 5 == first)
            mf_clear_caches();
    }
    return NULL;
}

TEST(what_runs_is_never_evicted)
{
    if (!is_native())
        SKIP("no native backend");
    pthread_t threads[THREADS];
    int which[THREADS];
    mf_native_tiers = MF_TIERS_LOOPS;
    mf_loop_cache_most = mf_dnnl_cache_most = 1;
    for (int i = 0; i < THREADS; i++) {
        which[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &which[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ_INT(which[i], 0);
    }
    mf_loop_cache_most = 1024;
    mf_dnnl_cache_most = 512;
    mf_native_tiers = MF_TIERS_AS_ASKED;
}
#else
#include "check.h"
#endif
