/* Programs on XLA's CPU plugin, compared with Manyfold's CPU. Skipped if there is no plugin: MF_PJRT_PLUGIN names one, or
 * scripts/fetch_pjrt_plugin.sh has downloaded one. */
#include "cpu_plugin.h"

static mf_device_list devices(void)
{
    static bool tried;
    if (!tried)
        register_cpu_plugin("plugin");
    tried = true;
    return mf_devices_of("plugin");
}

static const char *text(mf_value v) { return mf_str(v); }
static bool is_there(mf_value v)
{
    mf_device_list on = mf_devices_of_array(v);
    return on.count && !strcmp(mf_device_platform(on.at[0]), "plugin");
}
static mf_value put(mf_value v, int device) { return mf_device_put(v, devices().at[device]); }

/* This must be the first test, because an unhandled error stays the status of the process. */
TEST(the_error_of_a_checked_op_is_one)
{
    PLUGIN_OR_SKIP;
    REQUIRE(mf_set_checks("nan") == MF_OK);
    {
        MF_SCOPE;
        CHECK_CONTAINS(mf_error(mf_log(mf_device_put(mf_array(MF_F32, MF_SHAPE(2), -1, 1), devices().at[2]))), "encountered in log");
    }
    CHECK_EQ_INT(mf_exit_status(), 0);
    CHECK_EQ_INT(mf_set_checks(""), MF_OK);
}

TEST(arrays_are_put_and_read)
{
    PLUGIN_OR_SKIP;
    mf_value x = put(mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3)), 3), keys = put(mf_random_split(mf_random_key(1), 3), 2);
    CHECK(is_there(x) && is_there(keys));
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(x).at[0]), 3);
    CHECK_STR(text(x), "[[0. 1. 2.]\n [3. 4. 5.]]");
    CHECK_STR(text(mf_get(x, 1)), "[3. 4. 5.]");
    CHECK_NEAR(mf_item_f64(mf_get(x, 1, 2)), 5, 0);
    mf_value back = mf_device_put(x, mf_devices_of("cpu").at[0]);
    CHECK_STR(mf_device_platform(mf_devices_of_array(back).at[0]), "cpu");
    CHECK_STR(text(mf_add(back, 1)), "[[1. 2. 3.]\n [4. 5. 6.]]");
    mf_value bits = mf_random_uniform(mf_get(keys, 2), MF_SHAPE(2), MF_F32);
    CHECK(is_there(bits));
    CHECK_STR(text(bits), text(mf_random_uniform(mf_get(mf_random_split(mf_random_key(1), 3), 2), MF_SHAPE(2), MF_F32)));
    CHECK_STR(text(put(mf_zeros(MF_SHAPE(0, 2), MF_I64), 0)), text(mf_zeros(MF_SHAPE(0, 2), MF_I64)));
}

TEST(ops_run_where_their_arrays_are)
{
    PLUGIN_OR_SKIP;
    mf_value x = put(mf_array(MF_F32, MF_SHAPE(4), 3, 1, 4, 1), 5), y = mf_sort(mf_mul(x, 2));
    CHECK(is_there(y));
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(y).at[0]), 5);
    CHECK_STR(text(y), "[2. 2. 6. 8.]");
    mf_value halves = mf_get(mf_swapaxes(mf_reshape(x, MF_SHAPE(2, 2)), 0, 1), 1); /* a view of a view */
    CHECK_STR(text(mf_add(halves, mf_ones(MF_SHAPE(2), MF_F32))), "[2. 2.]");
    mf_value other = mf_device_put(mf_ones(MF_SHAPE(4), MF_F32), mf_devices_of("cpu").at[1]), two = mf_add(x, other);
    CHECK_EQ_INT(mf_error_status(two), MF_ERROR_DEVICE);
    CHECK_CONTAINS(mf_error(two), "to devices of plugin, and another, float32[4], to devices of cpu");
}

static mf_value next(mf_value x) { return mf_add(x, 1); }

/* More than the plugin copies with one thread, in pieces; the last piece is shorter. */
/* A scalar whose number is known on the host is still converted on its device. */
TEST(a_scalar_is_converted_where_it_is)
{
    PLUGIN_OR_SKIP;
    mf_value s = mf_device_put(mf_scalar(3, MF_F32), devices().at[5]), x = mf_device_put(mf_arange(4, MF_BF16), devices().at[5]);
    mf_block_until_ready(s);
    CHECK(mf_devices_of_array(mf_astype(s, MF_BF16)).at[0].handle == devices().at[5].handle);
    CHECK(mf_devices_of_array(mf_mean(x)).at[0].handle == devices().at[5].handle);
    CHECK_STR(text(mf_add(mf_mean(x), x)), "[1.5 2.5 3.5 4.5]");
}

TEST(large_results_are_read)
{
    PLUGIN_OR_SKIP;
    enum { COUNT = (1 << 20) + 5 };
    int *numbers = malloc(COUNT * sizeof *numbers);
    REQUIRE(numbers);
    mf_value x = mf_call(mf_jit(next), put(mf_arange(COUNT, MF_I32), 2));
    REQUIRE(mf_to_host(x, MF_I32, numbers, COUNT) == MF_OK);
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += numbers[i] != i + 1;
    CHECK_EQ_INT(wrong, 0);
    mf_value rows = mf_call(mf_pmap(next, .backend = "plugin"), mf_reshape(mf_arange(N << 18, MF_I32), MF_SHAPE(N, 1 << 18)));
    CHECK_STR(text(mf_get(mf_shard(rows, 5), mf_range(0, 3))), "[1310721 1310722 1310723]");
    CHECK_EQ_INT(mf_to_host(mf_shard(rows, 7), MF_I32, numbers, 1 << 18), MF_OK);
    CHECK_EQ_INT(numbers[(1 << 18) - 1], N << 18);
    free(numbers);
}

static mf_value loss(mf_value w, mf_value x) { return mf_mean(mf_square(mf_tanh(mf_matmul(x, w)))); }

TEST(jit_grad_and_vmap_give_what_the_cpu_gives)
{
    PLUGIN_OR_SKIP;
    mf_value w = mf_div(mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(3, 2)), 6);
    mf_value x = mf_div(mf_reshape(mf_arange(24, MF_F32), MF_SHAPE(4, 2, 3)), 24), there = put(x, 1);
    mf_function grads = mf_jit(mf_vmap(mf_grad(loss), .in_axes = mf_axes(MF_NONE, 0)));
    mf_value ours = mf_call(grads, w, x), theirs = mf_call(grads, w, there);
    CHECK(is_there(theirs));
    float a[24], b[24];
    REQUIRE(mf_to_host(ours, MF_F32, a, 24) == MF_OK && mf_to_host(theirs, MF_F32, b, 24) == MF_OK);
    for (int i = 0; i < 24; i++)
        CHECK_NEAR((double)b[i], (double)a[i], 1e-6); /* sums of six products: a few units in the last place */
}

static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value turn(mf_value x)
{
    return mf_tuple(mf_pshuffle(x, "i", mf_list(1, 2, 3, 4, 5, 6, 7, 0)), mf_all_gather(x, 0, "i"), mf_axis_index("i"), mf_pmax(x, "i"));
}

TEST(maps_run_on_the_plugins_devices)
{
    PLUGIN_OR_SKIP;
    mf_value r = mf_call(mf_pmap(normalize, .axis_name = "i", .backend = "plugin"), mf_arange(4, MF_F32));
    CHECK(is_there(r));
    CHECK_EQ_INT(mf_devices_of_array(r).count, 4);
    CHECK_STR(text(r), "[0.         0.16666667 0.33333334 0.5       ]");
    CHECK_STR(text(mf_call(mf_pmap(normalize, .axis_name = "i", .backend = "plugin"), mf_mul(r, 2))),
              "[0.         0.16666667 0.33333334 0.5       ]");
    mf_value x = mf_arange(N, MF_I32);
    CHECK_STR(text(mf_call(mf_pmap(turn, .axis_name = "i", .backend = "plugin"), x)), text(mf_call(mf_pmap(turn, "i"), x)));
}

TEST(any_devices_in_any_order)
{
    PLUGIN_OR_SKIP;
    static const int orders[][4] = { { 7, 0, 3, 5 }, { 3, 2, 1, 0 }, { 6, 4, 2, 0 } };
    mf_value x = mf_arange(4, MF_F32);
    for (int k = 0; k < 3; k++) {
        mf_device at[4];
        for (int i = 0; i < 4; i++)
            at[i] = devices().at[orders[k][i]];
        x = mf_call(mf_pmap(normalize, .axis_name = "i", .devices = { 4, at }), x); /* from the devices of the previous map */
        CHECK_STR(text(x), "[0.         0.16666667 0.33333334 0.5       ]");
        for (int i = 0; i < 4; i++)
            CHECK_EQ_INT(mf_device_id(mf_devices_of_array(x).at[i]), orders[k][i]);
    }
}

static mf_value step(mf_value w, mf_value x) { return mf_sub(w, mf_mul(0.5, mf_pmean(mf_call(mf_grad(loss), w, x), "d"))); }

TEST(a_training_step_keeps_its_weights_there)
{
    PLUGIN_OR_SKIP;
    mf_value w = mf_ones(MF_SHAPE(3, 2), MF_F32), v = mf_ones(MF_SHAPE(3, 2), MF_F32),
             x = mf_div(mf_reshape(mf_arange(48, MF_F32), MF_SHAPE(N, 2, 3)), 48);
    mf_function theirs = mf_pmap(step, .axis_name = "d", .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE, .backend = "plugin",
                                 .donate_argnums = MF_INTS(0));
    mf_function ours = mf_pmap(step, .axis_name = "d", .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE);
    for (int i = 0; i < 10; i++) {
        mf_value next = mf_call(theirs, w, x);
        if (i)
            CHECK(mf_is_error(mf_add(w, 1))); /* it was donated */
        w = next;
        v = mf_call(ours, v, x);
    }
    CHECK(is_there(w));
    float a[6], b[6];
    REQUIRE(mf_to_host(w, MF_F32, a, 6) == MF_OK && mf_to_host(v, MF_F32, b, 6) == MF_OK);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR((double)a[i], (double)b[i], 1e-5);
}

static mf_value add_one(mf_value x) { return mf_add(x, 1); }

TEST(what_others_hold_is_not_donated)
{
    PLUGIN_OR_SKIP;
    mf_value x = put(mf_arange(4, MF_F32), 0), row = mf_get(x, 3), all = mf_reshape(x, MF_SHAPE(2, 2));
    mf_value r = mf_call(mf_jit(add_one, .donate_argnums = MF_INTS(0)), x);
    CHECK_STR(text(r), "[1. 2. 3. 4.]");
    CHECK_STR(text(row), "3.0");
    CHECK_STR(text(all), "[[0. 1.]\n [2. 3.]]");
    CHECK_CONTAINS(mf_error(mf_add(x, 1)), "Array has been deleted");
}

TEST(donating_what_the_host_lent_leaves_the_hosts_bytes)
{
    PLUGIN_OR_SKIP;
    mf_value x = put(mf_arange(1000, MF_F32), 0), y = put(x, 1); /* both refer to the same host memory */
    mf_value r = mf_call(mf_jit(add_one, .donate_argnums = MF_INTS(0)), x);
    CHECK_NEAR(mf_item_f64(mf_get(r, 999)), 1000, 0);
    CHECK_NEAR(mf_item_f64(mf_get(y, 999)), 999, 0);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_add(y, 0))), 499500, 0);
}

static mf_value with_index(mf_value x) { return mf_add(x, mf_axis_index("i")); }

TEST(maps_without_collectives)
{
    PLUGIN_OR_SKIP;
    mf_device turned[N];
    for (int i = 0; i < N; i++)
        turned[i] = devices().at[N - 1 - i];
    mf_function f = mf_pmap(add_one, .axis_name = "i", .devices = { N, turned }, .donate_argnums = MF_INTS(0));
    mf_value x = mf_call(f, mf_arange(N, MF_I32)), y = mf_call(f, x);
    CHECK_STR(text(y), "[2 3 4 5 6 7 8 9]");
    CHECK(mf_is_error(mf_add(x, 1)));
    for (int i = 0; i < N; i++)
        CHECK_EQ_INT(mf_device_id(mf_devices_of_array(y).at[i]), N - 1 - i);
    CHECK_STR(text(mf_call(mf_pmap(with_index, .axis_name = "i", .backend = "plugin"), mf_arange(N, MF_I32))), "[ 0  2  4  6  8 10 12 14]");
}

static mf_value total(mf_value x) { return mf_psum(x, "i"); }

static void leave_unread(mf_function f, mf_value x, int count)
{
    for (int i = 0; i < count; i++) {
        MF_SCOPE;
        (void)mf_call(f, x);
    }
}

static long resident_pages(void)
{
    long all, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages;
}

TEST(calls_that_nobody_reads)
{
    PLUGIN_OR_SKIP;
    mf_value x = mf_ones(MF_SHAPE(N), MF_I32), last = x, here = put(x, 3);
    mf_function f = mf_pmap(total, .axis_name = "i", .backend = "plugin"), g = mf_pmap(add_one, .axis_name = "i", .backend = "plugin");
    leave_unread(f, x, 10000);
    leave_unread(g, x, 10000);
    leave_unread(mf_jit(add_one), here, 10000);
    CHECK_STR(text(mf_call(g, x)), "[2 2 2 2 2 2 2 2]");
    CHECK_STR(text(mf_call(mf_jit(add_one), here)), "[2 2 2 2 2 2 2 2]");
    mf_value large = put(mf_zeros(MF_SHAPE(1 << 20), MF_F32), 3);
    CHECK_EQ_INT(mf_block_until_ready(mf_call(mf_jit(add_one), large)), MF_OK);
    long before = resident_pages();
    leave_unread(mf_jit(add_one), large, 500); /* 2 GiB of results */
    CHECK((resident_pages() - before) * sysconf(_SC_PAGESIZE) < 1 << 30);
    for (int i = 0; i < 5; i++)
        last = mf_call(f, last);
    CHECK_STR(text(last), "[32768 32768 32768 32768 32768 32768 32768 32768]");
}

static mf_value checked(mf_value x) { return mf_mul(mf_check_replicated(x, "i"), 2); }
static mf_value checked_round(mf_value c, mf_value x) { return mf_tuple(mf_add(c, mf_check_replicated(mf_add(c, x), "i")), x); }
static mf_value checked_scan(mf_value x) { return mf_get(mf_scan(checked_round, mf_get(x, 0), x), 0); }
static mf_value is_small(mf_value x) { return mf_less(mf_check_replicated(x, "i"), 20); }
static mf_value one_more(mf_value x) { return mf_add(x, 8); }
static mf_value half(mf_value x) { return mf_cond(true, checked, one_more, x); }
static mf_value checked_sum(mf_value x) { return mf_check_replicated(mf_psum(x, "i"), "i"); }

/* Checks that a map's error on the plugin equals the CPU's. */
static void same_error(mf_value (*fn)(mf_value), mf_value x)
{
    mf_value theirs = mf_call(mf_pmap(fn, "i", .backend = "plugin"), x), ours = mf_call(mf_pmap(fn, "i"), x);
    CHECK(mf_block_until_ready(ours) != MF_OK);
    CHECK(!mf_is_error(theirs) || mf_block_until_ready(theirs) != MF_OK);
    CHECK_STR(mf_error(theirs), mf_error(ours));
    CHECK_STR(mf_error_place(theirs), mf_error_place(ours));
}

TEST(a_false_claim_of_being_the_same_is_an_error)
{
    PLUGIN_OR_SKIP;
    float same[N] = { 3, 3, 3, 3, 3, 3, 3, 3 }, some[N] = { 3, 3, 4, 3, 3, 5, 3, 3 }, zeroes[2] = { 0, -0.0f }, nan[2] = { NAN, NAN };
    mf_value other = mf_from_host(MF_F32, MF_SHAPE(N), some);
    same_error(checked, other);
    same_error(checked, mf_from_host(MF_F32, MF_SHAPE(2), zeroes));
    same_error(checked, mf_complex(other, other));
    same_error(checked, mf_astype(other, MF_BF16));
    same_error(checked, mf_astype(other, MF_I8));
    same_error(checked, mf_greater(other, 3));
    same_error(half, other);
    same_error(checked_scan, mf_stack(mf_list(mf_from_host(MF_F32, MF_SHAPE(N), same), other), 1));
    mf_function f = mf_pmap(checked, "i", .backend = "plugin");
    CHECK_STR(text(mf_call(f, mf_from_host(MF_F32, MF_SHAPE(N), same))), "[6. 6. 6. 6. 6. 6. 6. 6.]"); /* later calls work */
    CHECK_STR(text(mf_call(f, mf_from_host(MF_F32, MF_SHAPE(2), nan))), "[nan nan]");
    CHECK_STR(text(mf_call(mf_pmap(checked_sum, "i", .backend = "plugin"), other)), "[27. 27. 27. 27. 27. 27. 27. 27.]");
}

static mf_value add_all(mf_value x) { return mf_add(x, mf_psum(x, "i")); }
static mf_value counted(mf_value x) { return mf_while(is_small, add_all, x); }

/* Devices that would loop different numbers of times, with a sum over all in each iteration. */
TEST(a_false_claim_in_a_predicate_makes_nobody_wait)
{
    PLUGIN_OR_SKIP;
    same_error(counted, mf_arange(4, MF_F32));
    CHECK_STR(text(mf_call(mf_pmap(counted, "i", .backend = "plugin"), mf_ones(MF_SHAPE(4), MF_F32))), "[25. 25. 25. 25.]");
}

static mf_value logs(mf_value x) { return mf_add(mf_log(mf_sub(x, 1)), 1); }

TEST(a_nan_is_found_where_it_is_born)
{
    PLUGIN_OR_SKIP;
    float numbers[4] = { 2, 3, 0, NAN };
    REQUIRE(mf_set_checks("nan") == MF_OK);
    mf_value x = mf_from_host(MF_F32, MF_SHAPE(3), numbers), given = mf_from_host(MF_F32, MF_SHAPE(4), numbers);
    const char *words = "invalid value (nan) encountered in log: element 2 of float32[3], of operands without one";
    mf_value theirs = mf_call(mf_jit(logs), put(x, 1)), eager = logs(put(x, 1)), map = mf_call(mf_pmap(logs, "i", .backend = "plugin"), x);
    CHECK(mf_block_until_ready(theirs) != MF_OK && mf_block_until_ready(eager) != MF_OK && mf_block_until_ready(map) != MF_OK);
    CHECK_STR(mf_error(theirs), words);
    CHECK_STR(mf_error(eager), words);
    CHECK_CONTAINS(mf_error(map), "encountered in log: element 0 of float32[]");
    CHECK_CONTAINS(mf_error_place(theirs), "test_plugin.c");
    CHECK_CONTAINS(mf_error_place(eager), "test_plugin.c");
    CHECK_EQ_INT(mf_block_until_ready(mf_call(mf_jit(logs), put(given, 1))), MF_OK);
    CHECK_EQ_INT(mf_set_checks(""), MF_OK);
}

/* As in JAX 0.4.35 and 0.10.2 on the CPU: the entries below a NaN pivot are unchanged. */
TEST(lu_divides_nothing_by_nan)
{
    PLUGIN_OR_SKIP;
    float numbers[] = { NAN, 1, 1, 1 }, out[4];
    mf_value factors = mf_get(mf_lu(put(mf_from_host(MF_F32, MF_SHAPE(2, 2), numbers), 1)), 0);
    CHECK_EQ_INT(mf_to_host(factors, MF_F32, out, 4), MF_OK);
    CHECK(isnan(out[0]) && out[1] == 1 && out[2] == 1 && out[3] == 0);
}

/* ---- predicates that may differ between devices */
static mf_value sum_of(mf_value x) { return mf_psum(x, "i"); }
static mf_value unchanged_here(mf_value x) { return x; }
static mf_value sum_of_small(mf_value x) { return mf_cond(mf_less(x, 2), sum_of, unchanged_here, x); }
static mf_value once_more(mf_value x) { return mf_cond(mf_less(x, 100), sum_of_small, unchanged_here, x); }
static mf_value of_pairs(mf_value x) { return mf_psum(x, "i", .axis_index_groups = mf_list(mf_list(0, 1), mf_list(2, 3))); }
static mf_value below_50(mf_value x) { return mf_less(x, 50); }
static mf_value summed_in_pairs(mf_value x) { return mf_while(below_50, of_pairs, x); }
static mf_value all_and_pairs(mf_value x) { return mf_add(mf_psum(x, "i"), of_pairs(x)); }
static mf_value summed_both_ways(mf_value x) { return mf_while(below_50, all_and_pairs, x); }
static mf_value summed_inside(mf_value x) { return mf_while(below_50, sum_of_small, x); }
static mf_value loop_in_branch(mf_value x) { return mf_cond(mf_less(x, 20), summed_inside, unchanged_here, x); }

static mf_value mapped_there(mf_fn1 f, mf_value x) { return mf_call(mf_pmap(f, .axis_name = "i", .backend = "plugin"), x); }

TEST(devices_agree_on_predicates)
{
    PLUGIN_OR_SKIP;
    static const struct {
        mf_fn1 f;
        float in[4], out[4];
        const char *error; /* or NULL */
    } rows[] = {
        { sum_of_small, { 1, 1, 1, 1 }, { 4, 4, 4, 4 }, NULL },
        { sum_of_small, { 5, 6, 7, 8 }, { 5, 6, 7, 8 }, NULL },
        { sum_of_small,
          { 0, 1, 2, 3 },
          { 0 },
          "psum over 'i' stands in a cond, which devices 2, 3 go through otherwise than devices 0, 1" },
        { sum_of_small, { 5, 6, 7, 1 }, { 0 }, "which devices 0, 1, 2 go through otherwise than device 3" },
        { once_more, { 1, 1, 1, 1 }, { 4, 4, 4, 4 }, NULL },
        { once_more, { 200, 300, 400, 500 }, { 200, 300, 400, 500 }, NULL },
        { once_more, { 1, 200, 1, 1 }, { 0 }, "which device 1 goes through otherwise than devices 0, 2, 3" },
        { once_more, { 1, 50, 1, 1 }, { 0 }, "which device 1 goes through otherwise than devices 0, 2, 3" },
        { summed_in_pairs, { 1, 2, 30, 40 }, { 96, 96, 70, 70 }, NULL }, /* each pair has its own number of iterations */
        { summed_in_pairs, { 1, 2, 60, 70 }, { 96, 96, 60, 70 }, NULL },
        { summed_in_pairs, { 1, 60, 2, 3 }, { 0 }, "psum over 'i' stands in a while, which device 0 goes through otherwise than device 1" },
        { summed_both_ways, { 1, 1, 1, 1 }, { 216, 216, 216, 216 }, NULL },
        { summed_both_ways, { 60, 1, 60, 60 }, { 0 }, "which device 1 goes through otherwise than devices 0, 2, 3" },
        { loop_in_branch, { 20, 20, 30, 40 }, { 20, 20, 30, 40 }, NULL },
        { loop_in_branch, { 1, 60, 60, 60 }, { 0 }, "which devices 1, 2, 3 go through otherwise than device 0" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mf_value y = mapped_there(rows[i].f, mf_from_host(MF_F32, MF_SHAPE(4), rows[i].in));
        float out[4];
        mf_status status = mf_to_host(y, MF_F32, out, 4);
        CHECK_EQ_INT(status == MF_OK, !rows[i].error);
        if (rows[i].error)
            CHECK_CONTAINS(mf_error(y), rows[i].error);
        else if (status == MF_OK)
            CHECK(memcmp(out, rows[i].out, sizeof out) == 0);
    }
}

TEST(what_a_plugin_cannot_do_is_an_error)
{
    PLUGIN_OR_SKIP;
    mf_value t = mf_call(mf_pmap(total, .axis_name = "i", .backend = "plugin"), mf_arange(N + 1, MF_F32));
    CHECK_CONTAINS(mf_error(t), "requires 9 replicas");
}

/* ---- small maps as one program */

static bool stacks(void)
{
    const char *off = getenv("MF_PJRT_STACK");
    return !(off && !strcmp(off, "0"));
}
/* The text of the plan, which tells how the map runs. */
static const char *runs_as(mf_function f, mf_value x) { return mf_as_text(mf_compile(f, x), MF_TEXT_PLAN); }

static mf_value share_of(mf_value x) { return mf_tuple(mf_div(x, mf_psum(x, "i")), mf_mul(mf_axis_index("i"), x), mf_psum(x, "i")); }
static mf_value turned_rows(mf_value x) { return mf_tuple(mf_pshuffle(x, "i", mf_list(1, 2, 3, 4, 5, 6, 7, 0)), mf_all_gather(x, 0, "i")); }
static mf_value in_pairs(mf_value x)
{
    return mf_psum(x, "i", .axis_index_groups = mf_list(mf_list(0, 5), mf_list(1, 4), mf_list(2, 7), mf_list(3, 6)));
}
static mf_value dice(mf_value key) { return mf_random_uniform(mf_random_fold_in(key, mf_axis_index("i")), MF_SHAPE(3), MF_F32); }

static void same_map(mf_value (*fn)(mf_value), mf_value x)
{
    mf_value theirs = mf_tree_leaves(mf_call(mf_pmap(fn, "i", .backend = "plugin"), x));
    mf_value ours = mf_tree_leaves(mf_call(mf_pmap(fn, "i"), x));
    for (int i = 0; i < mf_len(ours); i++) {
        CHECK_STR(text(mf_get(theirs, i)), text(mf_get(ours, i)));
        CHECK_EQ_INT(mf_devices_of_array(mf_get(theirs, i)).count, N);
    }
}

static mf_value above_one(mf_value x) { return mf_not_equal(x, 1); }
static mf_value less_one(mf_value x) { return mf_sub(x, 1); }
static mf_value counted_down(mf_value x) { return mf_while(above_one, less_one, x); }
static mf_value unchanged(mf_value x) { return x; }
/* A row of 0 would count down forever. */
static mf_value counted_where_it_ends(mf_value x) { return mf_cond(mf_greater(x, 0), counted_down, unchanged, x); }

TEST(small_maps_are_one_program)
{
    PLUGIN_OR_SKIP;
    mf_value x = mf_add(mf_arange(N, MF_F32), 1), large = mf_ones(MF_SHAPE(N, 1 << 18), MF_F32);
    mf_function sums = mf_pmap(total, "i", .backend = "plugin");
    CHECK_CONTAINS(runs_as(sums, x),
                   stacks() ? "1 replica, with the rows of 8 devices" : "8 replicas, each with all of the arguments or its row");
    CHECK_CONTAINS(runs_as(sums, large), "8 replicas");                                /* large enough for one thread per replica */
    CHECK_CONTAINS(runs_as(mf_pmap(turn, "i", .backend = "plugin"), x), "8 replicas"); /* it has an extremum of floats */
    same_map(share_of, x);                                                             /* computed by division, not by a reciprocal */
    same_map(turned_rows, mf_arange(N, MF_I32));
    same_map(in_pairs, x);
    same_map(counted_where_it_ends, mf_arange(N, MF_F32));
    same_map(dice, mf_random_split(mf_random_key(7), N));
}

static mf_value widest(mf_value x) { return mf_pmax(mf_mul(x, 2), "i"); } /* of floats: replicas */
static mf_value sums_and_rows(mf_value x) { return mf_tuple(mf_psum(x, "i"), mf_add(x, 1)); }

/* Rows that a small map computed in one program are used by replicas, and vice versa. */
TEST(rows_go_from_small_maps_to_replicas_and_back)
{
    PLUGIN_OR_SKIP;
    mf_value ours = mf_reshape(mf_arange(3 * N, MF_F32), MF_SHAPE(3, N)), theirs = ours;
    for (int i = 0; i < 3; i++) {
        mf_function f = mf_pmap(sums_and_rows, "i", .in_axes = 1, .out_axes = 1), g = mf_pmap(widest, "i", .in_axes = 1, .out_axes = 1);
        mf_function on_theirs = mf_pmap(sums_and_rows, "i", .in_axes = 1, .out_axes = 1, .backend = "plugin", .donate_argnums = MF_INTS(0));
        mf_function widest_of_theirs = mf_pmap(widest, "i", .in_axes = 1, .out_axes = 1, .backend = "plugin");
        mf_value sums, rows, their_sums, their_rows;
        mf_unpack(mf_call(f, ours), &sums, &rows);
        mf_unpack(mf_call(on_theirs, theirs), &their_sums, &their_rows);
        mf_value most = mf_call(widest_of_theirs, their_rows);
        CHECK_STR(text(their_sums), text(sums));
        CHECK_STR(text(mf_get(mf_swapaxes(their_rows, 0, 1), 3)), text(mf_get(mf_swapaxes(rows, 0, 1), 3)));
        CHECK_STR(text(mf_shard(most, 5)), text(mf_shard(mf_call(g, rows), 5)));
        ours = mf_call(g, rows);
        theirs = most;
    }
    CHECK_STR(text(theirs), text(ours));
    CHECK_STR(text(mf_add(theirs, theirs)), text(mf_mul(ours, 2)));
}

/* ---- maps in maps */

static mf_value plus_place(mf_value x) { return mf_add(mf_mul(x, mf_add(mf_axis_index("i"), 1)), mf_psum(x, "i", "j")); }
static mf_value swapped(mf_value x) { return mf_transpose(x, MF_INTS(1, 0)); }
static mf_value negated(mf_value x) { return mf_neg(x); }
static mf_value map_of_rows(mf_value x) { return mf_call(mf_pmap(plus_place, "j"), x); }
static mf_value map_of_columns(mf_value x) { return mf_call(mf_pmap(swapped, "j", .in_axes = 1, .out_axes = 2), x); }
static mf_value map_and_its_sum(mf_value x)
{
    mf_value y = map_of_rows(x);
    return mf_tuple(y, mf_sum(y), y, x);
}
static mf_value map_that_is_changed(mf_value x) { return mf_add(map_of_rows(x), mf_sum(x)); }
static mf_value map_of_the_same(mf_value x) { return mf_call(mf_pmap(negated, "j"), mf_psum(x, "i")); }
static mf_value map_of_maps(mf_value x) { return mf_call(mf_pmap(map_of_rows, "k"), x); }
static mf_value die(mf_value key)
{
    return mf_tuple(mf_random_uniform(key, MF_SHAPE(2), MF_F32), mf_random_fold_in(key, mf_axis_index("j")));
}
static mf_value map_of_dice(mf_value keys) { return mf_call(mf_pmap(die, "j"), keys); }
static mf_value two_maps_of_it(mf_value x)
{
    return mf_tuple(map_of_rows(x), mf_call(mf_pmap(negated, "k", .in_axes = 1, .out_axes = 1), x));
}
static mf_value map_after_map(mf_value x) { return map_of_rows(map_of_rows(x)); }

/* Checks that values and devices equal the CPU's, and that a nested map accepts its own result, also as a donated argument. */
static void same_nested_map(mf_value (*fn)(mf_value), mf_axis axis, mf_axis out_axis, mf_value x, bool again)
{
    mf_function f = mf_pmap(fn, "i", .in_axes = axis, .out_axes = out_axis);
    mf_function on_theirs = mf_pmap(fn, "i", .in_axes = axis, .out_axes = out_axis, .backend = "plugin");
    mf_function taking = mf_pmap(fn, "i", .in_axes = axis, .out_axes = out_axis, .backend = "plugin", .donate_argnums = MF_INTS(0));
    mf_value ours = mf_tree_leaves(mf_call(f, x)), theirs = mf_tree_leaves(mf_call(on_theirs, x));
    REQUIRE(CHECK_EQ_INT(mf_len(ours), mf_len(theirs)));
    for (int i = 0; i < mf_len(ours); i++) {
        mf_device_list there = mf_devices_of_array(mf_get(theirs, i)), here = mf_devices_of_array(mf_get(ours, i));
        REQUIRE(CHECK(!mf_is_error(mf_get(ours, i))));
        CHECK_STR(text(mf_get(theirs, i)), text(mf_get(ours, i)));
        REQUIRE(CHECK_EQ_INT(there.count, here.count));
        for (int d = 0; d < here.count; d++) {
            CHECK_EQ_INT(mf_device_id(there.at[d]), mf_device_id(here.at[d]));
            CHECK_STR(text(mf_shard(mf_get(theirs, i), d)), text(mf_shard(mf_get(ours, i), d)));
        }
    }
    for (int k = 0; again && k < 3; k++) {
        ours = mf_call(f, k ? ours : x);
        theirs = mf_call(k == 1 ? on_theirs : taking, k ? theirs : mf_add(x, 0));
        CHECK(!mf_is_error(ours));
        CHECK_STR(text(theirs), text(ours));
    }
}

TEST(results_of_nested_maps_lie_on_all_devices)
{
    PLUGIN_OR_SKIP;
    mf_value x = mf_reshape(mf_arange(24, MF_F32), MF_SHAPE(2, 4, 3));
    same_nested_map(map_of_rows, 0, 0, x, true);
    same_nested_map(map_of_rows, 1, 1, mf_swapaxes(x, 0, 1), true);
    same_nested_map(map_of_rows, 2, 0, mf_transpose(x, MF_INTS(1, 2, 0)), false);
    same_nested_map(map_of_columns, 0, 1, mf_reshape(mf_arange(48, MF_F32), MF_SHAPE(2, 3, 4, 2)), false);
    same_nested_map(map_and_its_sum, 0, 0, x, false);
    same_nested_map(map_that_is_changed, 0, 0, x, true);
    same_nested_map(map_of_the_same, 0, MF_NONE, x, false);
    same_nested_map(map_of_the_same, 0, 0, x, true);
    same_nested_map(map_after_map, 0, 0, x, true);
    same_nested_map(map_of_maps, 0, 0, mf_reshape(mf_arange(24, MF_F32), MF_SHAPE(2, 2, 2, 3)), true);
    same_nested_map(map_of_maps, 1, 2, mf_reshape(mf_arange(24, MF_F32), MF_SHAPE(2, 2, 2, 3)), false);
    same_nested_map(map_of_rows, 0, 0, mf_zeros(MF_SHAPE(2, 4, 0), MF_F32), true);
    same_nested_map(two_maps_of_it, 0, 0, mf_reshape(mf_arange(32, MF_F32), MF_SHAPE(2, 4, 4)), false);
    same_nested_map(map_of_dice, 0, 0, mf_reshape(mf_random_split(mf_random_key(7), 8), MF_SHAPE(2, 4, 2)), false);
    mf_function rows = mf_pmap(map_of_columns, "i", .backend = "plugin");
    CHECK(!strstr(mf_as_text(mf_lower(rows, mf_ones(MF_SHAPE(2, 3, 4, 2), MF_F32)), MF_TEXT_STABLEHLO), "all_gather"));
}

/* ---- two maps that cannot both be replicas */

static const char *where; /* the backend of the maps */
static mf_value place_and_sum(mf_value x) { return mf_tuple(mf_add(mf_mul(x, mf_axis_index("i")), mf_psum(x, "i")), mf_psum(1, "i")); }
static mf_value map_of_eight(mf_value x) { return mf_call(mf_pmap(place_and_sum, "i", .backend = where), x); }
static mf_value map_of_three(mf_value x)
{
    return mf_call(mf_pmap(place_and_sum, "i", .in_axes = 1, .out_axes = mf_axes(1, MF_NONE), .backend = where), x);
}
static mf_value maps_of_eight_and_three(mf_value x)
{
    mf_value y = mf_get(map_of_eight(x), 0);
    return mf_tuple(y, map_of_three(y), mf_sum(y));
}
static mf_value total_of_both(mf_value x)
{
    mf_value y = maps_of_eight_and_three(x);
    return mf_add(mf_mul(mf_get(y, 2), 2), mf_sum(mf_mul(mf_get(mf_get(y, 1), 0), x)));
}
static mf_value gradient_of_both(mf_value x) { return mf_call(mf_grad(total_of_both), x); }
static mf_value maps_of_three_and_of_two(mf_value x) /* nested in a map of two: six devices, three for each inner map */
{
    return mf_tuple(mf_call(mf_pmap(place_and_sum, "i"), x), mf_call(mf_pmap(place_and_sum, "i", .in_axes = 1), x));
}
static mf_value mapped_in_two(mf_value x) { return mf_call(mf_pmap(maps_of_three_and_of_two, "k", .backend = where), x); }
static mf_value on_devices_from(int first, mf_value x)
{
    mf_device_list two = mf_device_slice(mf_devices_of(where), first, first + 2);
    return mf_call(mf_pmap(place_and_sum, "i", .devices = two), x);
}
static mf_value maps_of_other_devices(mf_value x)
{
    mf_value y = mf_reshape(x, MF_SHAPE(4, 2, 3));
    return mf_tuple(on_devices_from(4, mf_get(y, 0)), on_devices_from(2, mf_get(y, 3)), on_devices_from(4, mf_get(y, 2)));
}
static mf_value map_of_three_less(mf_value x) { return map_of_three(mf_sub(x, 1)); }
static mf_value maps_in_a_branch(mf_value x) { return mf_cond(mf_greater(mf_sum(x), 0), map_of_three, map_of_three_less, x); }

TEST(maps_that_cannot_be_replicas_run_nevertheless)
{
    PLUGIN_OR_SKIP;
    mf_value x = mf_reshape(mf_arange(24, MF_F32), MF_SHAPE(8, 3)), y = mf_reshape(mf_arange(12, MF_F32), MF_SHAPE(2, 3, 2));
    static const struct {
        mf_fn1 f;
        int rank;
        const char *runs; /* as separate steps, or as rows of one program */
    } rows[] = { { maps_of_eight_and_three, 2, "steps, 0 of them on the host" },
                 { gradient_of_both, 2, "steps, 0 of them on the host" },
                 { mapped_in_two, 3, "6 replicas" },
                 { maps_of_other_devices, 2, "steps, 0 of them on the host" },
                 { maps_in_a_branch, 2, "3 replicas" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mf_value of = rows[i].rank == 2 ? x : y;
        where = "cpu";
        mf_value ours = mf_tree_leaves(mf_call(mf_jit(rows[i].f), of));
        mf_clear_caches(); /* otherwise the trace would be reused */
        where = "plugin";
        mf_function f = mf_jit(rows[i].f);
        CHECK_CONTAINS(mf_as_text(mf_compile(f, of), MF_TEXT_PLAN), rows[i].runs);
        mf_value theirs = mf_tree_leaves(mf_call(f, of));
        for (int l = 0; l < mf_len(ours); l++) {
            CHECK(!mf_is_error(mf_get(ours, l)) && is_there(mf_get(theirs, l)));
            CHECK_STR(text(mf_get(theirs, l)), text(mf_get(ours, l)));
        }
    }
    CHECK_CONTAINS(mf_as_text(mf_lower(mf_jit(maps_of_eight_and_three), x), MF_TEXT_STABLEHLO), "mhlo.num_replicas = 8");
}

static mf_value toss(mf_value key, mf_value i) { return mf_random_uniform(mf_random_fold_in(key, i), MF_SHAPE0, MF_F32); }
static mf_value tosses(mf_value key) { return mf_call(mf_vmap(toss, .in_axes = mf_axes(MF_NONE, 0)), key, mf_arange(5, MF_I32)); }

/* XLA's compiler would spend unbounded time on folding computations of 0, 1, 2, ... */
TEST(what_counts_is_hidden_from_the_compiler)
{
    PLUGIN_OR_SKIP;
    mf_value key = mf_random_key(3);
    CHECK_STR(text(mf_call(mf_jit(tosses), mf_device_put(key, devices().at[0]))), text(mf_call(mf_jit(tosses), key)));
}

/* ---- calls of the host */

static char printed[4096];
static void keep_line(const char *line, void *context)
{
    (void)context;
    size_t at = strlen(printed);
    snprintf(printed + at, sizeof printed - at, "%s;", line);
}

static mf_value checked_by_print(mf_value i, mf_value x)
{
    mf_debug_print("round {}", i);
    return x;
}

static mf_value talk(mf_value x)
{
    mf_debug_print("first {}", x);
    mf_value y = mf_fori_loop(0, 2, checked_by_print, mf_mul(x, 2));
    mf_debug_print("last");
    return y;
}

static mf_value on_cpu(mf_value x) { return mf_mul(x, mf_arange(2, MF_F32)); }
static mf_value by_host(mf_value x) { return mf_pure_callback(on_cpu, mf_struct(MF_SHAPE(2), MF_F32), x); }
static mf_value on_plugin(mf_value x) { return mf_device_put(mf_add(mf_device_put(x, devices().at[0]), 1), mf_devices_of("cpu").at[0]); }
static mf_value by_itself(mf_value x) { return mf_pure_callback(on_plugin, mf_struct(MF_SHAPE(2), MF_F32), x); }
static mf_value refused(mf_value x)
{
    (void)x;
    return mf_make_error(MF_ERROR_IO, "the disk is full");
}
static mf_value full(mf_value x) { return mf_psum(mf_pure_callback(refused, mf_struct((mf_shape){ 0 }, MF_F32), x), "i"); }

TEST(programs_call_the_host)
{
    PLUGIN_OR_SKIP;
    mf_value x = put(mf_arange(2, MF_F32), 3), r;
    if (strstr(runs_as(mf_jit(by_host), x), "of them on the host"))
        SKIP("this plugin takes no handler: test_steps");
    mf_set_print_hook(keep_line, NULL);
    for (int i = 0; i < 2; i++) {
        printed[0] = 0;
        CHECK_STR(text(mf_call(mf_jit(talk), x)), "[0. 2.]");
        CHECK_STR(printed, "first [0. 1.];round 0;round 1;last;");
    }
    mf_set_print_hook(NULL, NULL);
    CHECK_STR(text(mf_call(mf_jit(by_host), x)), "[0. 1.]");
    CHECK_CONTAINS(mf_error(mf_call(mf_jit(by_itself), x)), "cannot run programs on plugin: it would wait for itself");
    mf_function f = mf_pmap(full, .axis_name = "i", .backend = "plugin");
    for (int i = 0; i < 3; i++) { /* no device waits forever in the sum */
        r = mf_call(f, mf_arange(N, MF_F32));
        CHECK_EQ_INT(mf_block_until_ready(r), MF_ERROR_IO);
        CHECK_CONTAINS(mf_error(r), "the disk is full");
    }
    CHECK_STR(text(mf_call(mf_jit(by_host), x)), "[0. 1.]");
}
