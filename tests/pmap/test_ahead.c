/* Ahead-of-time compilation: lowering to text, compiling for one signature, refusing others, and cost analysis; including the counterparts
 * of JAX's tests of lower and compile (CONFORMANCE.md). And the cache: hits, counts, clearing. */
#include "peer.h"

#include "array/array.h"

#include <math.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

FN(off_mean, mf_sub(v, mf_pmean(v, "i")))
FN(itself, v)
FN(twice_the_same, mf_add(mf_sin(v), mf_mul(mf_sin(v), mf_psum(1, "i"))))
FN(sorted_twice, mf_sort(mf_mul(mf_sort(v, 0), -1), 0))
FN(doubled, mf_add(v, v))
FN2(off_other_mean, x, y, mf_sub(x, mf_pmean(y, "i")))
FN2(both, x, y, mf_tuple(x, y))
FN2(power, x, n, mf_pow(x, n))
FN(of_tree, mf_add(mf_get(v, "a"), mf_get(v, "b")))
FN(waves_and_mean, mf_dict("s", mf_sin(v), "m", mf_tuple(mf_pmean(mf_sum(v), "i"), mf_none())))

static int traces;
static mf_value step(mf_value x, mf_value y)
{
    traces++;
    return mf_add(mf_mul(x, 2), mf_psum(mf_sum(y), "i"));
}
static mf_function mapped(void) { return mf_pmap(step, .axis_name = "i"); }
static mf_value rows(int n) { return mf_reshape(mf_arange(2 * n, MF_F32), MF_SHAPE(2, n)); }

static mf_function off(void) { return mf_pmap(off_mean, "i"); }
static mf_value x84(void) { return FLOATS(8, 4); }

static int occurrences(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

/* ---- calls */

TEST(a_lowered_call_compiles_and_runs)
{
    mf_function lowered = mf_lower(off(), x84()), compiled = mf_lowered_compile(lowered);
    EXPECT_SAME(mf_call(compiled, x84()), mf_call(off(), x84()));
    mf_function stages[] = { lowered, compiled };
    for (int i = 0; i < COUNT(stages); i++) {
        mf_value in = mf_args_info(stages[i]), out = mf_out_info(stages[i]);
        CHECK_STR(mf_str(in), "(float32[8,4],)");
        CHECK_STR(mf_str(out), "float32[8,4]");
        CHECK_STR(mf_str(mf_shape_of(mf_get(in, 0))), "(8, 4)");
        CHECK_EQ_INT(mf_dtype_of(out), MF_F32);
    }
    CHECK_STR(mf_str(lowered), "lowered(pmap(off_mean))");
    CHECK_STR(mf_str(compiled), "compiled(pmap(off_mean))");
    EXPECT_ERROR(mf_call(lowered, x84()), "lowered, not compiled");
}

TEST(a_compiled_call_runs_and_traces_nothing)
{
    mf_clear_caches();
    traces = 0;
    mf_function f = mf_compile(mapped(), mf_struct(MF_SHAPE(2, 3), MF_F32), mf_struct(MF_SHAPE(2, 3), MF_F32));
    int64_t compiled = mf_cache_read().compilations;
    CHECK_EQ_INT(traces, 1);
    for (int i = 0; i < 3; i++)
        EXPECT(mf_call(f, rows(3), rows(3)), 15, 17, 19, 21, 23, 25);
    CHECK_EQ_INT(traces, 1);
    mf_call(mapped(), rows(3), rows(3)); /* ordinary calls use the program that was compiled ahead */
    CHECK_EQ_INT(mf_cache_read().compilations - compiled, 0);
    CHECK_EQ_INT(traces, 1);
}

static mf_value step_again(mf_value x)
{
    mf_value y = mf_call(mapped(), x, x);
    return mf_call(mapped(), y, x);
}
static mf_value more(mf_value i, mf_value x)
{
    (void)i;
    return mf_call(mapped(), x, x);
}
static mf_value loop_of_maps(mf_value x) { return mf_fori_loop(0, 3, more, x); }

/* The compiled function accepts arrays of any layout without compiling again. */
TEST(nothing_is_compiled_in_a_run)
{
    mf_value shape = mf_struct(MF_SHAPE(2, 3), MF_F32), row = mf_get(rows(3), 0);
    mf_function f[] = { mf_compile(mapped(), shape, shape), mf_compile(mf_jit(step_again), shape),
                        mf_compile(mf_jit(loop_of_maps), shape) };
    mf_value x[] = { rows(3), mf_replicate(row, mf_device_slice(mf_devices(), 0, 2)), mf_broadcast_to(row, MF_SHAPE(2, 3)),
                     mf_zeros(MF_SHAPE(2, 3), MF_F32) };
    int64_t segments = mf_cache_read().segments;
    CHECK(segments > 0);
    for (int i = 0; i < COUNT(x); i++) {
        mf_block_until_ready(mf_call(f[0], x[i], x[0]));
        mf_block_until_ready(mf_call(f[1], x[i]));
        mf_block_until_ready(mf_call(f[2], mf_call(f[1], x[i])));
    }
    CHECK_EQ_INT(mf_cache_read().segments - segments, 0);
}

static bool first_axis_is_held_once(mf_value v) { return ((const mf_array *)mf_object_of(v))->strides[0] == 0; }

/* A function compiled for arrays that are held once computes their results once, and accepts other arrays too. */
TEST(compiled_for_how_the_arguments_lie)
{
    mf_value once = mf_broadcast_to(FLOATS(3), MF_SHAPE(2, 3)), apart = rows(3);
    mf_function f = mf_compile(mf_pmap(doubled, "i"), once), g = mf_compile(mf_pmap(doubled, "i"), mf_struct(MF_SHAPE(2, 3), MF_F32));
    mf_value y = mf_call(f, once), z = mf_call(f, apart);
    CHECK(first_axis_is_held_once(y) && !first_axis_is_held_once(z));
    EXPECT(y, 0, 2, 4, 0, 2, 4);
    EXPECT(z, 0, 2, 4, 6, 8, 10);
    EXPECT_SAME(mf_call(g, once), y);
}

TEST(a_trivial_call)
{
    mf_value x = FLOATS(8);
    mf_function f = mf_compile(mf_pmap(itself, "i"), x);
    EXPECT_SAME(mf_call(f, x), mf_call(mf_pmap(itself, "i"), x));
    EXPECT(mf_call(f, x), 0, 1, 2, 3, 4, 5, 6, 7);
}

TEST(several_arguments)
{
    mf_function f = mf_compile(mf_pmap(off_other_mean, "i"), x84(), x84());
    EXPECT_SAME(mf_call(f, x84(), x84()), mf_call(mf_pmap(off_other_mean, "i"), x84(), x84()));
    EXPECT_SAME(mf_call(f, x84(), mf_mul(x84(), 2)), mf_call(mf_pmap(off_other_mean, "i"), x84(), mf_mul(x84(), 2)));
}

TEST(a_trivial_call_of_several_arguments)
{
    mf_value x = FLOATS(8), y = WAVES(8);
    mf_function f = mf_compile(mf_pmap(both, "i"), x, x);
    EXPECT_SAME(mf_call(f, x, y), mf_tuple(x, y));
    CHECK_STR(mf_str(mf_out_info(f)), "(float32[8], float32[8])");
}

TEST(structs_stand_for_arrays)
{
    mf_value s = mf_struct(MF_SHAPE(8, 4), MF_F32);
    EXPECT_SAME(mf_call(mf_compile(off(), s), x84()), mf_call(off(), x84()));
    CHECK_STR(mf_str(s), "float32[8,4]");
    CHECK_EQ_INT(mf_size(s), 32);
    CHECK_EQ_INT(mf_dim(s, -1), 4);
    CHECK_STR(mf_program_text(off(), s), mf_program_text(off(), x84()));
    CHECK_STR(mf_as_text(mf_lower(off(), s), MF_TEXT_OPTIMIZED), mf_as_text(mf_lower(off(), x84()), MF_TEXT_OPTIMIZED));
    CHECK_STR(mf_str(mf_eval_shape(mf_pmap(waves_and_mean, "i"), mf_struct(MF_SHAPE(8, 3), MF_BF16))),
              "{'m': (bfloat16[8], None), 's': bfloat16[8,3]}");
    /* structs have no numbers */
    EXPECT_ERROR(mf_call(off(), s), "is a struct (a shape and a dtype without numbers), not an array");
    EXPECT_ERROR(mf_call(mf_compile(off(), s), s), "is a struct");
    EXPECT_ERROR(mf_add(s, 1), "struct");
    EXPECT_ERROR(mf_struct(MF_SHAPE(-1), MF_F32), "no shape");
    EXPECT_ERROR(mf_eval_shape(off(), mf_struct(MF_SHAPE0, MF_F32)), "rank 0");
}

/* ---- refusals */

TEST(other_trees_are_refused)
{
    mf_function f = mf_compile(off(), x84());
    EXPECT_ERROR(mf_call(f, mf_list(x84())), "compiled with an input tree that does not match the one it was called with");
    EXPECT_ERROR(mf_call(f, x84(), x84()), "1 arguments against 2");
    mf_function g = mf_compile(mf_pmap(of_tree), mf_dict("a", rows(1), "b", rows(1)));
    EXPECT_ERROR(mf_call(g, mf_dict("a", rows(1), "c", rows(1))), "does not match");
    EXPECT(mf_call(g, mf_dict("a", rows(1), "b", rows(1))), 0, 2);
    EXPECT_ERROR(mf_call(mf_jit(g), mf_dict("a", rows(1), "b", rows(1))), "under a transform");
}

TEST(other_trees_are_refused_by_a_trivial_call)
{
    mf_function f = mf_compile(mf_pmap(itself, "i"), FLOATS(8));
    EXPECT_ERROR(mf_call(f, mf_list(FLOATS(8))), "compiled with an input tree that does not match the one it was called with");
}

TEST(other_types_are_refused)
{
    mf_function f = mf_compile(off(), x84());
    mf_value e = mf_call(f, INTS(8, 4));
    EXPECT_ERROR(e, "Argument types differ from the types for which this computation was compiled. The mismatches are: ");
    EXPECT_ERROR(e, "argument 0 compiled with float32[8,4] and called with int32[8,4]");
    EXPECT_ERROR(mf_call(f, FLOATS(8, 3)), "called with float32[8,3]");
    EXPECT_SAME(mf_call(f, x84()), mf_call(off(), x84()));
}

TEST(statics_are_part_of_the_signature)
{
    mf_function f = mf_compile(mf_pmap(power, .static_broadcasted_argnums = MF_INTS(1)), rows(2), 3);
    EXPECT(mf_call(f, rows(2), 3), 0, 1, 8, 27);
    EXPECT_ERROR(mf_call(f, rows(2), 2), "static");
}

/* ---- texts */

TEST(lowering_shows_the_program)
{
    const char *text = mf_as_text(mf_lower(off(), x84()), MF_TEXT_OPTIMIZED);
    CHECK_CONTAINS(text, "program (a: f32[8,4]) {");
    CHECK_CONTAINS(text, "pmap[axis_name=i, axis_size=8");
    CHECK_CONTAINS(text, "psum[axes=(i)");
    CHECK_CONTAINS(mf_as_text(mf_lower(mapped(), 1.0, rows(3)), MF_TEXT_OPTIMIZED), "rank 0");
}

TEST(a_lowered_call_has_two_texts)
{
    mf_function lowered = mf_lower(off(), x84());
    const char *traced = mf_as_text(lowered, MF_TEXT_TRACED), *optimized = mf_as_text(lowered, MF_TEXT_OPTIMIZED);
    CHECK_CONTAINS(traced, mf_program_text(off(), x84()));
    CHECK_STR(optimized, mf_as_text(mf_lower(off(), x84()), MF_TEXT_OPTIMIZED));
    CHECK_EQ_INT(occurrences(traced, " div "), 1); /* the mean divides by 8; optimised it multiplies by 0.125 */
    CHECK_EQ_INT(occurrences(optimized, " div "), 0);
    CHECK_STR(mf_as_text(lowered), traced);
    CHECK_STR(mf_as_text(mf_lowered_compile(lowered)), optimized);
    CHECK_CONTAINS(mf_as_text(lowered, MF_TEXT_PLAN), "only lowered");
    CHECK_CONTAINS(mf_as_text(off(), MF_TEXT_TRACED), "neither lowered nor compiled");
}

TEST(a_compiled_call_has_three_texts)
{
    mf_function f = mf_compile(off(), x84());
    CHECK_STR(mf_as_text(f, MF_TEXT_OPTIMIZED), mf_as_text(mf_lower(off(), x84()), MF_TEXT_OPTIMIZED));
    CHECK_CONTAINS(mf_as_text(f, MF_TEXT_TRACED), mf_program_text(off(), x84()));
    const char *plan = mf_as_text(f, MF_TEXT_PLAN);
    CHECK_CONTAINS(plan, "size 8");
    CHECK_CONTAINS(plan, "bytes of temporaries a worker");
}

TEST(the_text_tells_the_replicas)
{
    CHECK_CONTAINS(mf_as_text(mf_lower(off(), x84()), MF_TEXT_OPTIMIZED), "# replicas = 8, partitions = 1\n");
    CHECK_CONTAINS(mf_as_text(mf_lower(mf_pmap(mf_pmap(doubled)), FLOATS(2, 3)), MF_TEXT_OPTIMIZED), "# replicas = 6, partitions = 1\n");
    CHECK_CONTAINS(mf_as_text(mf_lower(mf_jit(doubled), FLOATS(2, 3)), MF_TEXT_OPTIMIZED), "# replicas = 1, partitions = 1\n");
}

TEST(the_text_tells_the_replicas_of_a_map_in_jit)
{
    CHECK_CONTAINS(mf_as_text(mf_lower(mf_jit(mf_pmap(doubled)), FLOATS(2, 2, 2)), MF_TEXT_OPTIMIZED), "# replicas = 2, partitions = 1\n");
}

/* ---- costs */

static mf_value product(mf_value a, mf_value b) { return mf_dot(a, b); }
static mf_value add_rows(mf_value c, mf_value row) { return mf_tuple(mf_add(c, row), mf_none()); }
FN(added_up, mf_get(mf_scan(add_rows, mf_zeros(MF_SHAPE(5), MF_F32), v), 0))
FN(below_100, mf_less(v, 100))
FN(doubled_up, mf_while(below_100, doubled, v))
FN(squared_twice, mf_square(mf_square(v)))
FN(either, mf_cond(mf_greater(mf_get(v, 0), 0), squared_twice, doubled, v))
static mf_value f32(int64_t m, int64_t n) { return mf_struct(MF_SHAPE(m, n), MF_F32); }

TEST(flops_have_formulas)
{
    struct {
        mf_function f;
        double flops, bytes;
    } cases[] = {
        { mf_lower(product, f32(7, 3), f32(3, 5)), 2 * 7 * 3 * 5, 4 * (21 + 15 + 35) },
        { mf_compile(product, f32(7, 3), f32(3, 5)), 2 * 7 * 3 * 5, 4 * (21 + 15 + 35) },
        { mf_lower(mf_vmap(product), mf_struct(MF_SHAPE(4, 7, 3), MF_F32), mf_struct(MF_SHAPE(4, 3, 5), MF_F32)), 4 * 2 * 7 * 3 * 5,
          4 * 4 * (21 + 15 + 35) },
        { mf_lower(mf_pmap(product), mf_struct(MF_SHAPE(4, 7, 3), MF_F32), mf_struct(MF_SHAPE(4, 3, 5), MF_F32)), 4 * 2 * 7 * 3 * 5,
          4 * 4 * (21 + 15 + 35) },
        { mf_lower(mf_jit(mf_jit(doubled)), f32(6, 5)), 30, 4 * 90 },
        { mf_lower(added_up, f32(6, 5)), 30, 6 * 4 * 15 },             /* all iterations of a scan */
        { mf_lower(doubled_up, mf_struct(MF_SHAPE0, MF_F32)), 2, -1 }, /* one iteration of a while: its condition and its body */
        { mf_lower(either, mf_struct(MF_SHAPE(5), MF_F32)), -1, -1 },
        { mf_lower(off(), x84()), 8 * (4 + 4 + 4), -1 }, /* on each device a sum, a quotient and a difference an element */
    };
    for (int i = 0; i < COUNT(cases); i++) {
        mf_costs c = mf_cost_analysis(cases[i].f);
        if (!CHECK(cases[i].flops < 0 || c.flops == cases[i].flops) || !CHECK(cases[i].bytes < 0 || c.bytes_accessed == cases[i].bytes))
            CHECK_NOTE("case %d: %g flops, %g bytes", i, c.flops, c.bytes_accessed);
    }
    double both = mf_cost_analysis(mf_lower(either, mf_struct(MF_SHAPE(5), MF_F32))).flops;
    double none = mf_cost_analysis(mf_lower(below_100, mf_struct(MF_SHAPE0, MF_F32))).flops;
    CHECK(both >= 10 && both <= 10 + 3 * none); /* only the more expensive branch, and the predicate */
}

TEST(costs_after_compiling)
{
    mf_function lowered = mf_lower(mf_pmap(twice_the_same, "i"), x84());
    mf_costs c = mf_cost_analysis(mf_lowered_compile(lowered)), cut = mf_cost_analysis(lowered);
    CHECK(c.flops > 0 && c.flops < cut.flops); /* equal sines are merged */
    CHECK(c.bytes_accessed > 0 && c.bytes_accessed < cut.bytes_accessed);
}

static void ignore(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

TEST(what_has_no_costs)
{
    mf_set_error_hook(ignore, NULL); /* no value carries this error */
    CHECK(isnan(mf_cost_analysis(mapped()).flops));
    CHECK_EQ_INT(mf_memory_analysis(mapped()).peak_memory_in_bytes, -1);
    CHECK_EQ_INT(mf_memory_analysis(mf_lower(off(), x84())).temp_size_in_bytes, -1);
    mf_set_error_hook(NULL, NULL);
}

TEST(memory_of_a_compiled_call)
{
    mf_compiled_memory_stats m = mf_memory_analysis(mf_compile(mf_pmap(step, "i"), rows(3), rows(3))); /* before the first call */
    CHECK_EQ_INT(m.argument_size_in_bytes, 48);
    CHECK_EQ_INT(m.output_size_in_bytes, 24);
    CHECK_EQ_INT(m.alias_size_in_bytes, 0);
    CHECK_EQ_INT(m.peak_memory_in_bytes, 48 + 24 + m.temp_size_in_bytes);
    CHECK(m.temp_size_in_bytes >= 2 * 4); /* the memory that the sum needs */
    m = mf_memory_analysis(mf_compile(mf_pmap(step, "i", .donate_argnums = MF_INTS(0)), rows(3), rows(3)));
    CHECK_EQ_INT(m.alias_size_in_bytes, 24);
    CHECK_EQ_INT(m.peak_memory_in_bytes, 48 + m.temp_size_in_bytes);
    CHECK(mf_memory_analysis(mf_compile(mf_jit(sorted_twice), FLOATS(100))).temp_size_in_bytes >= 400);
    m = mf_memory_analysis(mf_compile(mf_jit(doubled), FLOATS(100)));
    CHECK(m.temp_size_in_bytes < 400); /* no intermediate arrays */
    CHECK_EQ_INT(m.peak_memory_in_bytes, 800 + m.temp_size_in_bytes);
}

/* Sums that cut the program into segments: each waits for the previous one, while the results of two are kept. */
static mf_value sums_in_turn(mf_value x)
{
    mf_value y = mf_psum(mf_sin(x), "i"), z = mf_psum(mf_cos(y), "i");
    return mf_add(mf_psum(mf_sin(z), "i"), y);
}

/* The reported size suffices: no run takes more memory besides its arguments and results. */
TEST(a_run_takes_no_more_memory)
{
    enum { DEVICES = 4, N = 50000 };
    mf_value x = mf_ones(MF_SHAPE(DEVICES, N), MF_F32);
    mf_function f = mf_compile(mf_pmap(sums_in_turn, "i"), mf_struct(MF_SHAPE(DEVICES, N), MF_F32));
    mf_compiled_memory_stats m = mf_memory_analysis(f);
    x = mf_add(x, mf_reshape(mf_arange(DEVICES, MF_F32), MF_SHAPE(DEVICES, 1))); /* different rows */
    for (int i = 0; i < 3; i++) {
        MF_SCOPE;
        mf_block_until_ready(x);
        mf_memory_stats_reset();
        int64_t before = mf_memory_stats().live_bytes;
        mf_block_until_ready(mf_call(f, x));
        int64_t took = mf_memory_stats().peak_bytes - before, said = m.output_size_in_bytes + m.temp_size_in_bytes;
        if (!CHECK(took <= said + 4096) || !CHECK(took * 4 > said))
            CHECK_NOTE("it said %lld and took %lld bytes", (long long)said, (long long)took);
    }
}

/* ---- executables */

TEST(an_executable_is_an_object)
{
    mf_function f = mf_compile(off(), x84());
    mf_value kept;
    {
        MF_SCOPE;
        mf_value inner = mf_call(f, x84());
        kept = mf_escape(inner);
    }
    mf_clear_caches(); /* the executable is independent: clearing the caches does not end it */
    int64_t before = mf_cache_read().compilations;
    EXPECT_SAME(mf_call(f, x84()), kept);
    CHECK_EQ_INT(mf_cache_read().compilations, before);
}

TEST(the_executable_names_its_devices)
{
    mf_device_list all = mf_devices();
    mf_device two[] = { all.at[5], all.at[2] };
    mf_function f = mf_compile(mf_pmap(off_mean, "i", .devices = { 2, two }), FLOATS(2, 4));
    CHECK_CONTAINS(mf_as_text(f, MF_TEXT_OPTIMIZED), "devices=(5,2)");
    mf_device_list held = mf_devices_of_array(mf_call(f, FLOATS(2, 4)));
    CHECK_EQ_INT(held.count, 2);
    CHECK(held.at[0].handle == two[0].handle && held.at[1].handle == two[1].handle);
}

TEST(compiler_options)
{
    mf_function lowered = mf_lower(mf_pmap(twice_the_same, "i"), x84());
    mf_function f = mf_lowered_compile(lowered, .compiler_options = mf_dict("cse", mf_b(false)));
    CHECK_EQ_INT(occurrences(mf_as_text(f, MF_TEXT_OPTIMIZED), " sin "), 2);
    mf_function g = mf_lowered_compile(lowered, .compiler_options = mf_dict("cse", mf_b(true), "backend", "reference"));
    CHECK_EQ_INT(occurrences(mf_as_text(g, MF_TEXT_OPTIMIZED), " sin "), 1);
    EXPECT_SAME(mf_call(f, x84()), mf_call(mf_pmap(twice_the_same, "i"), x84()));
    EXPECT_SAME(mf_call(g, x84()), mf_call(f, x84()));
}

static mf_value refused(mf_function lowered, mf_value options)
{
    return mf_call(mf_lowered_compile(lowered, .compiler_options = options), x84());
}

TEST(other_compiler_options_are_refused)
{
    mf_function lowered = mf_lower(off(), x84());
    EXPECT_ERROR(refused(lowered, mf_dict("invalid_key", "invalid_value")), "No such compile option: 'invalid_key'");
    EXPECT_ERROR(refused(lowered, mf_dict("cse", "invalid_value")), "'invalid_value' is not a valid bool value");
    EXPECT_ERROR(refused(lowered, mf_dict("cse", 1)), "is not a valid bool value");
    EXPECT_ERROR(refused(lowered, mf_dict("backend", "abacus")), "abacus is not the name of a backend");
    EXPECT_ERROR(refused(lowered, mf_tuple(1)), "a dict");
    EXPECT_ERROR(refused(lowered, mf_dict("inline", mf_b(false))), "No such compile option");
    EXPECT_ERROR(refused(off(), mf_none()), "neither lowered nor compiled");
}

TEST(one_lowered_call_compiled_with_several_options)
{
    mf_function lowered = mf_lower(off(), x84());
    int64_t before = mf_cache_read().compilations;
    mf_function f[] = { mf_lowered_compile(lowered), mf_lowered_compile(lowered, .compiler_options = mf_dict("fold", mf_b(true))),
                        mf_lowered_compile(lowered, .compiler_options = mf_dict("fold", mf_b(false))) };
    CHECK_EQ_INT(mf_cache_read().compilations - before, 3);
    for (int i = 0; i < COUNT(f); i++)
        for (int k = 0; k < i; k++)
            CHECK(f[i].handle != f[k].handle);
    EXPECT_ERROR(refused(lowered, mf_dict("invalid_key", "invalid_value")), "No such compile option: 'invalid_key'");
    for (int i = 0; i < COUNT(f); i++)
        EXPECT_SAME(mf_call(f[i], x84()), mf_call(off(), x84()));
}

/* ---- the cache */

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
