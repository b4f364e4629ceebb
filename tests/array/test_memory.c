/* The caching allocator: freed blocks are reused, aligned and counted, with several threads. */
#include "array/array.h"
#include "check.h"

#include <pthread.h>

#if defined(__SANITIZE_ADDRESS__)
enum { CACHES = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { CACHES = 0 };
#else
enum { CACHES = 1 };
#endif
#else
enum { CACHES = 1 };
#endif

TEST(blocks_are_aligned_and_large_enough)
{
    for (size_t n = 0; n < (size_t)9 << 20; n = n * 5 / 4 + 17) {
        unsigned char *p = mf_memory_get(n);
        REQUIRE(p && (uintptr_t)p % 64 == 0);
        memset(p, 0x5a, n);
        mf_memory_put(p, n);
    }
    CHECK(mf_memory_get(SIZE_MAX) == NULL);
    mf_memory_put(NULL, 5);
}

TEST(a_repeating_program_asks_the_system_for_nothing)
{
    if (!CACHES)
        SKIP("under AddressSanitizer every block comes from malloc");
    static const size_t sizes[] = { 1, 64, 100, 5000, 70000, 1 << 20, 5 << 20, 33 << 20 };
    void *at[8];
    for (int round = 0; round < 3; round++) {
        int64_t before = mf_memory_read().system_allocations;
        for (int i = 0; i < 8; i++)
            at[i] = mf_memory_get(sizes[i]);
        for (int i = 0; i < 8; i++)
            mf_memory_put(at[i], sizes[i]);
        if (round)
            CHECK_EQ_INT(mf_memory_read().system_allocations, before);
    }
    CHECK(mf_memory_read().cached_bytes > 0);
    mf_memory_trim();
    CHECK_EQ_INT(mf_memory_read().cached_bytes, 0);
}

TEST(what_lies_idle_goes_back)
{
    if (!CACHES)
        SKIP("under AddressSanitizer every block comes from malloc");
    enum { ONCE = 40 << 20, STEADY = 5 << 20 };
    mf_memory_trim();
    mf_memory_put(mf_memory_get(ONCE), ONCE);
    mf_memory_put(mf_memory_get(STEADY), STEADY);
    CHECK(mf_memory_read().cached_bytes >= ONCE);
    int64_t before = mf_memory_read().system_allocations;
    for (int i = 0; i < 1 << 17; i++)
        mf_memory_put(mf_memory_get(STEADY), STEADY);
    CHECK(mf_memory_read().cached_bytes < ONCE);
    CHECK(mf_memory_read().cached_bytes >= STEADY);
    CHECK_EQ_INT(mf_memory_read().system_allocations, before);
}

TEST(live_and_peak_are_counted)
{
    mf_memory_reset_peak();
    mf_memory_counters before = mf_memory_read();
    void *p = mf_memory_get(1 << 20);
    mf_memory_put(p, 1 << 20);
    mf_memory_counters after = mf_memory_read();
    CHECK_EQ_INT(after.live_bytes, before.live_bytes);
    CHECK(after.peak_bytes >= before.live_bytes + (1 << 20));
    CHECK_EQ_INT(after.requests, before.requests + 1);
}

static int churn_done;

static void *churn(void *unused)
{
    unsigned seed = (unsigned)(uintptr_t)&seed;
    void *at[16] = { 0 };
    size_t size[16] = { 0 };
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        int k = (int)(seed >> 28);
        if (at[k] && *(size_t *)at[k] != size[k])
            return unused;
        mf_memory_put(at[k], size[k]);
        size[k] = 8 + (seed >> 8) % 20000;
        at[k] = mf_memory_get(size[k]);
        *(size_t *)at[k] = size[k];
    }
    for (int k = 0; k < 16; k++)
        mf_memory_put(at[k], size[k]);
    return &churn_done;
}

TEST(threads_do_not_share_blocks)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&t[i], NULL, churn, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        void *done;
        pthread_join(t[i], &done);
        CHECK(done == &churn_done);
    }
}
