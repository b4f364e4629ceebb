/* Interning: equal contents have one address, in all threads. */
#include "base/memory/alloc.h"
#include "base/memory/intern.h"
#include "check.h"

#include <pthread.h>

TEST(equal_things_have_one_address)
{
    char text[] = "loss";
    CHECK(mf_intern("loss") == mf_intern(text));
    CHECK(mf_intern("loss") != mf_intern("los"));
    CHECK(mf_intern_n("lossy", 4) == mf_intern("loss"));
    CHECK(mf_intern(NULL) == NULL);
    CHECK_STR(mf_intern(""), "");
    CHECK(mf_ints_of(3, 1, 2, 3) == mf_ints_intern((const int64_t[]){ 1, 2, 3 }, 3));
    CHECK(mf_ints_of(2, 1, 2) != mf_ints_of(2, 2, 1));
    CHECK_EQ_INT(mf_ints_of(0)->count, 0);
    CHECK(mf_ints_has(mf_ints_of(2, 5, -7), -7) && !mf_ints_has(mf_ints_of(1, 5), 6));
    const char *names[] = { "a", "b" };
    const mf_namelist *list = mf_names_intern(names, 2);
    CHECK(list == mf_names_intern((const char *const[]){ "a", "b" }, 2));
    CHECK_EQ_INT(mf_names_find(list, "b"), 1);
    CHECK_EQ_INT(mf_names_find(list, "c"), -1);
}

enum { THREADS = 4, STRINGS = 5000 };
static const char *seen[THREADS][STRINGS];

static void *intern_many(void *context)
{
    const char **at = context;
    char text[32];
    for (int i = 0; i < STRINGS; i++) {
        snprintf(text, sizeof text, "string %d", i);
        at[i] = mf_intern(text);
    }
    return NULL;
}

TEST(threads_agree)
{
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&t[i], NULL, intern_many, seen[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    int different = 0;
    for (int i = 0; i < STRINGS; i++)
        for (int k = 1; k < THREADS; k++)
            different += seen[k][i] != seen[0][i];
    CHECK_EQ_INT(different, 0);
    CHECK_STR(seen[0][4999], "string 4999");
}

TEST(arenas)
{
    mf_arena a = { 0 };
    size_t total = 0;
    for (size_t n = 0; n < 20000; n = n * 3 / 2 + 1) {
        unsigned char *p = mf_arena_alloc(&a, n);
        REQUIRE(p && (uintptr_t)p % 16 == 0);
        for (size_t i = 0; i < n; i++)
            total += p[i];
        memset(p, 0xff, n);
    }
    CHECK_EQ_UINT(total, 0);
    CHECK(mf_arena_alloc(&a, SIZE_MAX) == NULL);
    mf_arena_free(&a);
    int *v = NULL, capacity = 0;
    for (int i = 0; i < 1000; i++) {
        REQUIRE(mf_grow(&v, &capacity, i + 1, sizeof *v));
        v[i] = i;
    }
    CHECK_EQ_INT(v[999], 999);
    mf_free(v);
}
