/* Programs that a plugin cannot run as one program: in steps that alternate between the plugin and the CPU. Compared with Manyfold's CPU.
 * Uses XLA's CPU plugin twice: once told to accept no handler, like any other plugin, and once not; skipped if there is none. */
#include "cpu_plugin.h"

static mf_device_list devices(void)
{
    static bool tried;
    if (!tried) {
        setenv("MF_PJRT_HOST_CALLS", "0", 1);
        register_cpu_plugin("steps");
        unsetenv("MF_PJRT_HOST_CALLS");
        register_cpu_plugin("handler");
    }
    tried = true;
    return mf_devices_of("steps");
}

static const char *text(mf_value v) { return mf_str(v); }

static char printed[4096];
static void keep_line(const char *line, void *context)
{
    (void)context;
    size_t at = strlen(printed);
    snprintf(printed + at, sizeof printed - at, "%s;", line);
}
static int count_lines(const char *line)
{
    int count = 0;
    for (const char *at = printed; (at = strstr(at, line)); at++)
        count++;
    return count;
}
static void listen(void)
{
    printed[0] = 0;
    mf_set_print_hook(keep_line, NULL);
}

/* ---- on one device */

static mf_value thrice(mf_value x) { return mf_mul(x, 3); }
static mf_value tripled(mf_value x) { return mf_pure_callback(thrice, mf_struct(MF_SHAPE(2), MF_F32), x); }
static mf_value less(mf_value x) { return mf_sub(tripled(x), 1); }
static mf_value unchanged(mf_value x) { return x; }
static mf_value print_and_go_on(mf_value x)
{
    mf_debug_print("x is {}", x);
    return mf_add(x, 1);
}
static mf_value call_in_the_middle(mf_value x) { return mf_add(tripled(mf_add(x, 1)), x); }
static mf_value call_and_nothing_else(mf_value x) { return tripled(x); }
static mf_value one_call_behind_another(mf_value x) { return tripled(mf_neg(tripled(x))); }
static mf_value round_of_calls(mf_value i, mf_value x) { return mf_add(tripled(x), i); }
static mf_value calls_in_a_loop(mf_value x) { return mf_fori_loop(0, 3, round_of_calls, mf_mul(x, 2)); }
static mf_value calls_in_a_branch(mf_value x) { return mf_cond(mf_greater(mf_sum(x), 1), less, unchanged, x); }
static mf_value inputs_and_constants(mf_value x) { return mf_tuple(x, tripled(x), mf_ones(MF_SHAPE(2), MF_I32), mf_add(x, x)); }
static mf_value only_a_print(mf_value x)
{
    mf_debug_print("x is {}", x);
    return x;
}
static mf_value calls_of_rows(mf_value x) { return mf_call(mf_vmap(tripled), mf_stack(mf_list(x, mf_neg(x)), 0)); }
static mf_value key_and_call(mf_value x)
{
    mf_value key = mf_random_key(3);
    return mf_tuple(mf_random_split(key, 2), tripled(x), mf_random_uniform(key, MF_SHAPE(2), MF_F32));
}

TEST(steps_give_what_the_cpu_gives)
{
    PLUGIN_OR_SKIP;
    static const struct {
        mf_fn1 f;
        const char *steps;
    } rows[] = {
        { print_and_go_on, "2 steps, 1 of them on the host" },       { call_in_the_middle, "3 steps, 1 of them on the host" },
        { call_and_nothing_else, "2 steps, 1 of them on the host" }, { one_call_behind_another, "4 steps, 2 of them on the host" },
        { calls_in_a_loop, "3 steps, 1 of them on the host" },       { calls_in_a_branch, "3 steps, 1 of them on the host" },
        { inputs_and_constants, "3 steps, 1 of them on the host" },  { only_a_print, "2 steps, 1 of them on the host" },
        { calls_of_rows, "3 steps, 1 of them on the host" },         { key_and_call, "3 steps, 1 of them on the host" },
    };
    mf_value x = mf_arange(2, MF_F32), there = mf_device_put(x, devices().at[3]);
    listen();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mf_value ours = mf_call(mf_jit(rows[i].f), x);
        mf_function f = mf_jit(rows[i].f);
        CHECK_CONTAINS(mf_as_text(mf_compile(f, there), MF_TEXT_PLAN), rows[i].steps);
        for (int k = 0; k < 2; k++) {
            mf_value theirs = mf_tree_leaves(mf_call(f, there));
            CHECK_STR(text(theirs), text(mf_tree_leaves(ours)));
            for (int l = 0; l < mf_len(theirs); l++) {
                mf_device_list on = mf_devices_of_array(mf_get(theirs, l));
                REQUIRE(CHECK_EQ_INT(on.count, 1));
                CHECK_STR(mf_device_platform(on.at[0]), "steps");
                CHECK_EQ_INT(mf_device_id(on.at[0]), 3);
            }
        }
    }
    mf_set_print_hook(NULL, NULL);
}

/* ---- in maps */

static mf_value doubled(mf_value x) { return mf_mul(x, 2); }
static mf_value host_double(mf_value x) { return mf_pure_callback(doubled, mf_struct((mf_shape){ 0 }, MF_F32), x); }
static mf_value descent(mf_value w, mf_value x)
{
    mf_value gradient = mf_psum(mf_mul(w, x), "i");
    mf_debug_print("gradient {}", gradient);
    return mf_tuple(mf_sub(w, gradient), mf_pmean(x, "i"));
}
static mf_value sum_of_calls(mf_value x) { return mf_tuple(mf_psum(host_double(mf_add(x, mf_axis_index("i"))), "i"), x); }
static mf_value call_of_a_sum(mf_value x) { return mf_sub(host_double(mf_psum(x, "i")), x); }
static mf_value other_ways(mf_value x) { return mf_cond(mf_greater(x, 3), host_double, unchanged, mf_add(x, 1)); }
static mf_value row_of_a_map(mf_value x) { return mf_add(host_double(x), mf_psum(x, "j")); }
static mf_value rows_of_calls(mf_value x) { return mf_call(mf_pmap(row_of_a_map, "j"), mf_neg(x)); }
static mf_value map_in_a_map(mf_value x) { return mf_psum(mf_call(mf_pmap(row_of_a_map, "j"), mf_neg(x)), "i"); }
static mf_value map_of_calls(mf_value x) { return mf_call(mf_pmap(sum_of_calls, "i", .in_axes = 0, .backend = "steps"), x); }
static mf_value map_in_a_program(mf_value x)
{
    mf_value y = map_of_calls(mf_add(x, 1));
    return mf_tuple(mf_get(y, 0), mf_sum(mf_get(y, 1)), y);
}
static mf_value map_in_a_program_of_the_cpu(mf_value x)
{
    mf_value y = mf_call(mf_pmap(sum_of_calls, "i"), mf_add(x, 1));
    return mf_tuple(mf_get(y, 0), mf_sum(mf_get(y, 1)), y);
}

static void same_map(mf_value (*fn)(mf_value), mf_axis in, mf_axis out, mf_value x, int rows)
{
    mf_value ours = mf_tree_leaves(mf_call(mf_pmap(fn, "i", .in_axes = in, .out_axes = out, .axis_size = rows), x));
    mf_value theirs = mf_tree_leaves(mf_call(mf_pmap(fn, "i", .in_axes = in, .out_axes = out, .axis_size = rows, .backend = "steps"), x));
    REQUIRE(CHECK_EQ_INT(mf_len(theirs), mf_len(ours)));
    for (int i = 0; i < mf_len(ours); i++) {
        mf_device_list here = mf_devices_of_array(mf_get(ours, i)), there = mf_devices_of_array(mf_get(theirs, i));
        CHECK(!mf_is_error(mf_get(ours, i)));
        CHECK_STR(text(mf_get(theirs, i)), text(mf_get(ours, i)));
        REQUIRE(CHECK_EQ_INT(there.count, here.count));
        for (int d = 0; d < here.count; d++)
            CHECK_EQ_INT(mf_device_id(there.at[d]), mf_device_id(here.at[d]));
    }
}

TEST(maps_in_steps_give_what_the_cpu_gives)
{
    PLUGIN_OR_SKIP;
    mf_value x = mf_arange(N, MF_F32);
    same_map(sum_of_calls, 0, 0, x, 0);
    same_map(sum_of_calls, 0, mf_axes(MF_NONE, 0), x, 0);
    same_map(call_of_a_sum, 0, 0, x, 0);
    same_map(call_of_a_sum, MF_NONE, 0, mf_scalar(3, MF_F32), N);
    same_map(other_ways, 0, 0, x, 0);
    same_map(rows_of_calls, 0, 0, mf_reshape(x, MF_SHAPE(4, 2)), 0);
    same_map(rows_of_calls, 1, 1, mf_reshape(x, MF_SHAPE(2, 4)), 0);
    same_map(map_in_a_map, 0, 0, mf_reshape(x, MF_SHAPE(4, 2)), 0);
    same_map(map_in_a_map, 1, MF_NONE, mf_reshape(x, MF_SHAPE(4, 2)), 0);
    CHECK_STR(text(mf_call(mf_jit(map_in_a_program), x)), text(mf_call(mf_jit(map_in_a_program_of_the_cpu), x)));
}

TEST(a_step_with_prints_keeps_its_weights_there)
{
    PLUGIN_OR_SKIP;
    mf_function f = mf_pmap(descent, "i", .donate_argnums = MF_INTS(0), .backend = "steps"), g = mf_pmap(descent, "i");
    mf_value x = mf_div(mf_arange(N, MF_F32), 64), w = mf_call(mf_pmap(doubled, "i", .backend = "steps"), x), v = doubled(x), mean;
    CHECK_CONTAINS(mf_as_text(mf_compile(f, w, x), MF_TEXT_PLAN), "2 steps, 1 of them on the host");
    listen();
    for (int i = 0; i < 3; i++) {
        mf_value before = w;
        mf_unpack(mf_call(f, w, x), &w, &mean);
        CHECK_CONTAINS(mf_error(mf_add(before, 0)), "deleted");
        CHECK_EQ_INT(count_lines("gradient "), N);
        CHECK_EQ_INT(mf_devices_of_array(w).count, N);
        printed[0] = 0;
        mf_unpack(mf_call(g, v, x), &v, &mean);
        printed[0] = 0;
        CHECK_STR(text(w), text(v));
    }
    mf_set_print_hook(NULL, NULL);
}

/* ---- maps together with operations that happen once */

static const char *where; /* the backend of the maps */
static mf_value sum_with_all(mf_value x) { return mf_add(x, mf_psum(x, "i")); }
static mf_value map_of_eight(mf_value x) { return mf_call(mf_pmap(sum_with_all, "i", .backend = where), x); }
static mf_value print_beside_a_map(mf_value x)
{
    mf_debug_print("line");
    return map_of_eight(x);
}
static mf_value print_place(mf_value x)
{
    mf_debug_print("line {}", mf_axis_index("i"));
    return mf_add(x, mf_axis_index("i"));
}
static mf_value print_in_a_map_beside(mf_value x)
{
    return mf_tuple(map_of_eight(x), mf_call(mf_pmap(print_place, "i", .in_axes = 1, .out_axes = 1, .backend = where), x));
}
static mf_value below_four(mf_value i) { return mf_less(i, 4); }
static mf_value print_round(mf_value i)
{
    mf_debug_print("line {}", i);
    return mf_add(i, 1);
}
static mf_value print_until_four(mf_value x)
{
    return mf_while(below_four, print_round, mf_add(mf_axis_index("i"), mf_astype(mf_mul(mf_sum(x), 0), MF_I32)));
}
static mf_value rounds_in_a_map_beside(mf_value x)
{
    return mf_tuple(map_of_eight(x), mf_call(mf_pmap(print_until_four, "i", .in_axes = 1, .backend = where), x));
}
static mf_value print_and_inner_map(mf_value x)
{
    mf_debug_print("line {}", mf_axis_index("i"));
    return mf_call(mf_pmap(sum_with_all, "i"), x);
}
static mf_value print_around_a_map(mf_value x)
{
    return mf_call(mf_pmap(print_and_inner_map, "i", .backend = where), mf_reshape(mf_ravel(x), MF_SHAPE(4, 2, 3)));
}

TEST(the_host_is_called_as_often_as_the_program_says)
{
    PLUGIN_OR_SKIP;
    static const struct {
        mf_fn1 f;
        int lines;
    } rows[] = {
        { print_beside_a_map, 1 }, { print_in_a_map_beside, 3 }, { rounds_in_a_map_beside, 4 + 3 + 2 }, { print_around_a_map, 4 }
    };
    static const char *const backends[] = { "cpu", "steps", "handler" };
    mf_value x = mf_reshape(mf_arange(24, MF_F32), MF_SHAPE(8, 3));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char ours[1024] = "";
        for (int b = 0; b < 3; b++) {
            mf_clear_caches();
            where = backends[b];
            listen();
            mf_value r = mf_call(mf_jit(rows[i].f), x);
            CHECK_EQ_INT(mf_block_until_ready(r), MF_OK);
            CHECK_EQ_INT(count_lines("line"), rows[i].lines);
            if (b)
                CHECK_STR(text(r), ours);
            else
                snprintf(ours, sizeof ours, "%s", text(r));
        }
    }
    mf_set_print_hook(NULL, NULL);
}

/* ---- checks */

static mf_value logarithm(mf_value x) { return mf_log(x); }
static mf_value log_where_it_is_one(mf_value x)
{
    (void)x;
    return mf_cond(mf_greater(mf_axis_index("i"), 0), logarithm, unchanged, mf_sub(mf_astype(mf_axis_index("i"), MF_F32), 0.5));
}
static mf_value logs_in_a_map_beside(mf_value x)
{
    return mf_tuple(map_of_eight(x), mf_call(mf_pmap(log_where_it_is_one, "i", .in_axes = 1, .backend = where), x));
}
static mf_value nan_before_a_call(mf_value x)
{
    mf_value lost = mf_log(mf_sub(x, 5)), out = tripled(x);
    return mf_tuple(out, mf_add(lost, out));
}
static mf_value claim_before_a_call(mf_value w, mf_value x) { return mf_tuple(host_double(x), mf_mul(w, 0)); }

TEST(what_a_step_finds_out_is_the_calls_error)
{
    PLUGIN_OR_SKIP;
    mf_value x = mf_reshape(mf_arange(24, MF_F32), MF_SHAPE(8, 3)), two = mf_device_put(mf_arange(2, MF_F32), devices().at[1]);
    CHECK_EQ_INT(mf_set_checks("nan"), MF_OK);
    for (int i = 0; i < 5; i++) {
        mf_value r = mf_get(mf_call(mf_jit(nan_before_a_call), two), 0);
        CHECK_EQ_INT(mf_block_until_ready(r), MF_ERROR_ARGUMENT);
        CHECK_CONTAINS(mf_error(r), "invalid value (nan) encountered in log");
    }
    for (int b = 0; b < 2; b++) { /* no row computes a logarithm of another row's value */
        mf_clear_caches();
        where = b ? "steps" : "handler";
        CHECK_EQ_INT(mf_block_until_ready(mf_call(mf_jit(logs_in_a_map_beside), x)), MF_OK);
    }
    CHECK_EQ_INT(mf_set_checks(""), MF_OK);
    mf_function f = mf_pmap(claim_before_a_call, "i", .replicated_argnums = MF_INTS(0), .backend = "steps");
    mf_value r = mf_get(mf_call(f, mf_arange(N, MF_F32), mf_arange(N, MF_F32)), 0);
    CHECK(mf_block_until_ready(r) != MF_OK);
    CHECK_CONTAINS(mf_error(r), "differs");
}

/* ---- results */

static mf_value given_twice(mf_value x)
{
    mf_value y = mf_mul(tripled(x), 2);
    return mf_tuple(y, x, y, x);
}
static mf_value map_given_twice(mf_value x)
{
    mf_value y = map_of_calls(x);
    return mf_tuple(mf_get(y, 0), mf_get(y, 0));
}
static mf_value of_both(mf_value a, mf_value b)
{
    return mf_tuple(mf_add(a, 1), mf_mul(tripled(b), 2), tripled(b), mf_zeros(MF_SHAPE(2), MF_F32));
}

TEST(results_are_arrays_of_their_own_on_one_device)
{
    PLUGIN_OR_SKIP;
    mf_value a = mf_device_put(mf_arange(2, MF_F32), devices().at[1]), b = mf_device_put(mf_arange(2, MF_F32), devices().at[3]);
    mf_value r = mf_call(mf_jit(given_twice), a), both = mf_call(mf_jit(of_both), a, b),
             m = mf_call(mf_jit(map_given_twice), mf_arange(N, MF_F32));
    CHECK_EQ_INT(mf_delete(mf_get(r, 0)), MF_OK);
    CHECK_EQ_INT(mf_delete(mf_get(r, 1)), MF_OK);
    CHECK_EQ_INT(mf_delete(mf_get(m, 0)), MF_OK);
    CHECK_STR(text(mf_get(r, 2)), "[0. 6.]");
    CHECK_STR(text(mf_get(r, 3)), "[0. 1.]");
    CHECK(mf_block_until_ready(mf_get(m, 1)) == MF_OK);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(mf_device_id(mf_devices_of_array(mf_get(both, i)).at[0]), 1);
}

/* ---- errors */

static mf_value refused(mf_value x)
{
    (void)x;
    return mf_make_error(MF_ERROR_IO, "the disk is full");
}
static mf_value full(mf_value x) { return mf_psum(mf_pure_callback(refused, mf_struct((mf_shape){ 0 }, MF_F32), mf_add(x, 1)), "i"); }
static mf_value put_back(mf_value x) { return mf_device_put(mf_add(mf_device_put(x, devices().at[0]), 1), mf_devices_of("cpu").at[0]); }
static mf_value there_and_back(mf_value x) { return mf_pure_callback(put_back, mf_struct(MF_SHAPE(2), MF_F32), x); }

TEST(an_error_of_the_host_is_the_calls)
{
    PLUGIN_OR_SKIP;
    mf_value x = mf_arange(N, MF_F32);
    for (int i = 0; i < 3; i++) {
        mf_value r = mf_call(mf_pmap(full, "i", .backend = "steps"), x);
        CHECK_EQ_INT(mf_block_until_ready(r), MF_ERROR_IO);
        CHECK_CONTAINS(mf_error(r), "the disk is full");
        CHECK_STR(text(mf_call(mf_pmap(call_of_a_sum, "i", .backend = "steps"), x)), text(mf_call(mf_pmap(call_of_a_sum, "i"), x)));
    }
    mf_value two = mf_device_put(mf_arange(2, MF_F32), devices().at[1]);
    CHECK_STR(text(mf_call(mf_jit(there_and_back), two)),
              "[1. 2.]"); /* the plugin may be called in a callback: it does not wait for the host */
}
