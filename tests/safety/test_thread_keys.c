/* The process has used up all thread-specific keys before the library's first call: the host's keys stay intact, and the library works. */
#include "check.h"

#include <manyfold.h>
#include <pthread.h>

enum { MOST_KEYS = 4096 };

static pthread_key_t keys[MOST_KEYS];
static int key_count;
static void *_Atomic destroyed;

static void see(void *p) { destroyed = p; }

static void *use(void *own)
{
    pthread_setspecific(keys[0], own);
    {
        MF_SCOPE;
        mf_value sum = mf_sum(mf_add(mf_ones(MF_SHAPE(5000), MF_F32), 1));
        CHECK_NEAR(mf_item_f64(sum), 10000, 0);
    }
    (void)mf_add(mf_arange(5000, MF_F32), 1); /* the thread's outermost scope owns it */
    for (int i = 0; i < key_count; i++)
        CHECK(pthread_getspecific(keys[i]) == (i ? NULL : own));
    return own;
}

TEST(no_key_of_the_host_is_touched)
{
    int host = 0;
    pthread_t thread;
    while (key_count < MOST_KEYS && !pthread_key_create(&keys[key_count], key_count ? NULL : see))
        key_count++;
    CHECK(key_count > 0 && key_count < MOST_KEYS);
    int64_t before = mf_memory_stats().live_bytes;
    for (int i = 0; i < 3; i++) {
        pthread_create(&thread, NULL, use, &host);
        pthread_join(thread, NULL);
        CHECK(destroyed == &host);
        destroyed = NULL;
    }
    CHECK_EQ_INT(mf_memory_stats().live_bytes, before); /* what the threads' outermost scopes owned has ended with them */
}
