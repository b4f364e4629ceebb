/* Counterparts of the peer's tests of the cache of traced and compiled maps. */
#include "peer.h"

#include <pthread.h>

FN(one_more, mf_add(v, 1))
FN(one_more_again, mf_add(v, 1))

static void *call_four_times(void *result)
{
    for (int i = 0; i < 4; i++) {
        MF_SCOPE;
        float numbers[8];
        mf_value y = mf_call(mf_pmap(one_more), mf_zeros(MF_SHAPE(8), MF_F32));
        if (mf_to_host(y, MF_F32, numbers, 8) != MF_OK || numbers[7] != 1)
            *(bool *)result = false;
    }
    return NULL;
}

TEST(one_entry_for_many_threads)
{
    pthread_t threads[2];
    bool good = true;
    mf_cache_counters before = mf_cache_read();
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, call_four_times, &good) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(good);
    mf_cache_counters after = mf_cache_read();
    CHECK_EQ_INT(after.traces - before.traces, 2); /* the map and the function in it */
    call_four_times(&good);
    CHECK_EQ_INT(mf_cache_read().traces, after.traces);
    CHECK_EQ_INT(mf_cache_read().compilations, after.compilations);
}

TEST(one_entry_for_many_calls)
{
    mf_function f = mf_pmap(one_more_again);
    mf_value x = mf_zeros(MF_SHAPE(8), MF_F32);
    mf_call(f, x);
    mf_cache_counters before = mf_cache_read();
    EXPECT(mf_call(f, x), 1, 1, 1, 1, 1, 1, 1, 1);
    mf_cache_counters after = mf_cache_read();
    CHECK_EQ_INT(after.entries, before.entries);
    CHECK_EQ_INT(after.traces, before.traces);
    CHECK(after.hits > before.hits);
}

OVER(ignore_argument, v, ((void)v, w))

/* A map over a function that holds a large array: once its scope and the cache have let go, nothing keeps the array. */
TEST(a_forgotten_map_lets_go_of_what_it_captured)
{
    mf_clear_caches();
    int64_t before = mf_memory_stats().live_bytes;
    {
        MF_SCOPE;
        mf_value x = mf_add(mf_ones(MF_SHAPE(1, 1 << 20), MF_F32), 1);
        EXPECT_SAME(mf_call(mf_pmap(mf_closure(ignore_argument, &x)), mf_ones(MF_SHAPE(1), MF_F32)), mf_expand_dims(x, 0));
        CHECK(mf_memory_stats().live_bytes >= before + (4 << 20));
    }
    mf_clear_caches();
    CHECK(mf_memory_stats().live_bytes < before + (1 << 20));
}
