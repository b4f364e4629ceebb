/* Ahead of time: lowering to text, compiling for one signature, refusing others, and what a compiled call says of its costs. And the
 * cache: what hits, what is counted, what clearing does. */
#include "check.h"

#include <manyfold.h>

static int traces;
static mf_value step(mf_value x, mf_value y)
{
    traces++;
    return mf_add(mf_mul(x, 2), mf_psum(mf_sum(y), "i"));
}
static mf_value power(mf_value x, mf_value n) { return mf_pow(x, n); }
static mf_value of_tree(mf_value t) { return mf_add(mf_get(t, "a"), mf_get(t, "b")); }

static mf_function mapped(void) { return mf_pmap(step, .axis_name = "i"); }
static mf_value rows(int n) { return mf_reshape(mf_arange(2 * n, MF_F32), MF_SHAPE(2, n)); }

TEST(lowering_shows_the_program)
{
    mf_set_num_cpu_devices(8);
    const char *text = mf_lower(mapped(), rows(3), rows(3));
    CHECK_CONTAINS(text, "pmap");
    CHECK_CONTAINS(text, "psum");
    CHECK_CONTAINS(text, "f32[2,3]");
    CHECK_CONTAINS(mf_lower(mapped(), 1.0, rows(3)), "rank 0");
}

TEST(a_compiled_call_runs_and_traces_nothing)
{
    traces = 0;
    mf_function f = mf_compile(mapped(), mf_zeros(MF_SHAPE(2, 3), MF_F32), mf_zeros(MF_SHAPE(2, 3), MF_F32));
    CHECK_STR(mf_str(mf_call(f, rows(3), rows(3))), "[[15. 17. 19.]\n [21. 23. 25.]]");
    mf_call(f, rows(3), rows(3));
    CHECK(traces <= 1); /* the test above may have traced it already */
}

TEST(other_types_and_trees_are_refused)
{
    mf_function f = mf_compile(mapped(), rows(3), rows(3));
    mf_value e = mf_call(f, mf_astype(rows(3), MF_I32), rows(3));
    CHECK_CONTAINS(mf_error(e), "Argument types differ from the types for which this computation was compiled.");
    CHECK_CONTAINS(mf_error(e), "argument 0 compiled with float32[2,3] and called with int32[2,3]");
    CHECK_CONTAINS(mf_error(mf_call(f, rows(4), rows(3))), "float32[2,4]");
    CHECK_CONTAINS(mf_error(mf_call(f, rows(3))), "does not match");
    mf_function g = mf_compile(mf_pmap(of_tree), mf_dict("a", rows(1), "b", rows(1)));
    CHECK_CONTAINS(mf_error(mf_call(g, mf_dict("a", rows(1), "c", rows(1)))), "does not match");
    CHECK_STR(mf_str(mf_call(g, mf_dict("a", rows(1), "b", rows(1)))), "[[0.]\n [2.]]");
    CHECK_CONTAINS(mf_error(mf_call(mf_jit(g), mf_dict("a", rows(1), "b", rows(1)))), "under a transform");
}

TEST(statics_are_part_of_the_signature)
{
    mf_function f = mf_compile(mf_pmap(power, .static_broadcasted_argnums = MF_INTS(1)), rows(2), 3);
    CHECK_STR(mf_str(mf_call(f, rows(2), 3)), "[[ 0.  1.]\n [ 8. 27.]]");
    CHECK_CONTAINS(mf_error(mf_call(f, rows(2), 2)), "static");
}

TEST(costs)
{
    mf_function f = mf_compile(mapped(), rows(3), rows(3));
    mf_call(f, rows(3), rows(3));
    mf_compiled_costs c;
    CHECK_EQ_INT(mf_compiled_analysis(f, &c), MF_OK);
    CHECK(c.flops >= 2 * (3 + 3 + 2)); /* 2 devices: a product, a sum of the result, two sums that reduce */
    CHECK(c.bytes_accessed > 0);
    CHECK_EQ_INT(c.argument_bytes, 48);
    CHECK_EQ_INT(c.result_bytes, 24);
    CHECK_EQ_INT(c.aliased_bytes, 0);
    CHECK(c.device_bytes > 0);
    f = mf_compile(mf_pmap(step, .axis_name = "i", .donate_argnums = MF_INTS(0)), rows(3), rows(3));
    CHECK_EQ_INT(mf_compiled_analysis(f, &c), MF_OK);
    CHECK_EQ_INT(c.aliased_bytes, 24);
}

TEST(the_cache_counts_and_clears)
{
    mf_clear_caches();
    mf_cache_counters before = mf_cache_read();
    traces = 0;
    for (int i = 0; i < 5; i++)
        mf_call(mapped(), rows(3), rows(3));
    mf_cache_counters after = mf_cache_read();
    CHECK_EQ_INT(traces, 1);
    CHECK_EQ_INT(after.hits - before.hits, 4);
    CHECK_EQ_INT(after.entries, mf_cache_read().entries);
    int64_t entries = after.entries;
    for (int i = 0; i < 100; i++)
        mf_call(mapped(), rows(3), rows(3));
    CHECK_EQ_INT(mf_cache_read().entries, entries);
    mf_clear_caches();
    CHECK_EQ_INT(mf_cache_read().entries, 0);
    mf_call(mapped(), rows(3), rows(3));
    CHECK_EQ_INT(traces, 2);
}

typedef struct number {
    double x;
} number;
static mf_value plus(void *context, mf_value x) { return mf_add(x, ((number *)context)->x); }

TEST(the_cache_has_a_limit)
{
    mf_clear_caches();
    for (int i = 0; i < 5000; i++) {
        MF_SCOPE;
        number n = { i };
        mf_program_text(mf_jit(mf_closure(plus, &n)), rows(1));
    }
    CHECK(mf_cache_read().entries <= 4096 + 64);
    mf_clear_caches();
}
