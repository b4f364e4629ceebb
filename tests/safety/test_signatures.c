/* Unboundedly many signatures: ops, functions and loops of ever new shapes leave no more behind than the caches keep. Some thousands of
 * each; MF_SIGNATURES sets another number and prints the growth of the process, for example for a million (docs/SAFETY.md). */
#include "check.h"

#include <manyfold.h>
#include <stdlib.h>

enum { SIGNATURES = 5000, RANK = 8, BASE = 5, KEPT = 4096, STEPS = 4 };

static int64_t wanted(void)
{
    const char *text = getenv("MF_SIGNATURES");
    return text ? strtoll(text, NULL, 10) : SIGNATURES;
}

static double resident_mib(void)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "VmRSS:", 6))
            kib = strtod(line + 6, NULL);
    if (f)
        fclose(f);
    return kib / 1024;
}

/* A different type for each number below 1,562,500, with few elements. */
static mf_value ones(int64_t number)
{
    static const mf_dtype dtypes[] = { MF_F32, MF_I32, MF_F64, MF_I64 };
    mf_shape s = { .rank = RANK };
    int64_t digits = number / 4;
    for (int i = 0; i < RANK; i++, digits /= BASE)
        s.dims[i] = 1 + digits % BASE;
    return mf_ones(s, dtypes[number % 4]);
}

static mf_value affine(mf_value x) { return mf_add(mf_mul(x, 2), 1); }
static mf_value scaled(void *c, mf_value x) { return mf_mul(x, (double)*(const int64_t *)c); }
static mf_value turn(void *c, mf_value carry, mf_value x)
{
    return mf_tuple(mf_add(carry, mf_mul(x, (double)*(const int64_t *)c)), mf_none());
}
static mf_value added_up(void *c, mf_value xs) { return mf_get(mf_scan(mf_closure(turn, (const int64_t *)c), 0.0, xs), 0); }

static bool op(int64_t n) { return mf_item_f64(mf_max(mf_mul(ones(n), 3))) == 3; }
static bool function(int64_t n) { return mf_item_f64(mf_max(mf_call(mf_jit(affine), ones(n)))) == 3; }
static bool closure(int64_t n)
{
    return mf_item_f64(mf_max(mf_call(mf_jit(mf_closure(scaled, &n)), mf_ones(MF_SHAPE(8), MF_F32)))) == (double)n;
}
static bool loop(int64_t n)
{
    return mf_item_f64(mf_call(mf_jit(mf_closure(added_up, &n)), mf_ones(MF_SHAPE(STEPS), MF_F32))) == (double)(STEPS * n);
}

/* Runs every number below `count`; the numbers of live and cached objects never exceed their bounds. */
static void go_through(const char *what, bool (*run)(int64_t n))
{
    int64_t count = wanted(), wrong = 0, most_bytes = 0, most_entries = 0, most_ops = 0;
    mf_clear_caches();
    int64_t before = mf_memory_stats().live_bytes;
    double resident = resident_mib();
    for (int64_t n = 1; n <= count; n++) {
        MF_SCOPE;
        wrong += !run(n);
        if (n % 64)
            continue;
        int64_t bytes = mf_memory_stats().live_bytes - before;
        mf_cache_counters c = mf_cache_read();
        most_bytes = bytes > most_bytes ? bytes : most_bytes;
        most_entries = c.entries > most_entries ? c.entries : most_entries;
        most_ops = c.ops > most_ops ? c.ops : most_ops;
    }
    if (getenv("MF_SIGNATURES"))
        printf("%s: %lld signatures, %lld programs and %lld ops kept at most, process from %.0f to %.0f MiB\n", what, (long long)count,
               (long long)most_entries, (long long)most_ops, resident, resident_mib());
    CHECK_EQ_INT(wrong, 0);
    CHECK(most_entries <= KEPT);
    CHECK(most_ops <= KEPT);
    CHECK(most_bytes <= (int64_t)64 << 20);
    mf_clear_caches();
    CHECK_EQ_INT(mf_memory_stats().live_bytes, before);
    CHECK_EQ_INT(mf_cache_read().entries + mf_cache_read().ops, 0);
}

TEST(ops) { go_through("ops", op); }
TEST(functions) { go_through("functions", function); }
TEST(closures) { go_through("closures", closure); }
TEST(loops) { go_through("loops", loop); }
