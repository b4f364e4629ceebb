/* MF_CHECK and mf_set_checks: what they detect, the places that they report, and that values do not change. */
#include "check.h"

#include <manyfold.h>
#include <math.h>
#include <stdio.h>

__attribute__((constructor)) static void four_devices(void)
{
    setenv("MF_NUM_CPU_DEVICES", "4", 1);
    setenv("MF_CHECK", "nan", 1);
}

/* The call must give an error with this message that names this line. */
static int line_of_log;
#define BORN(call, words)                                                 \
    do {                                                                  \
        mf_value e_ = (call);                                             \
        char place_[32];                                                  \
        snprintf(place_, sizeof place_, "test_checks.c:%d", line_of_log); \
        CHECK(mf_is_error(e_));                                           \
        CHECK_CONTAINS(mf_error(e_), words);                              \
        CHECK_CONTAINS(mf_error_place(e_), place_);                       \
    } while (0)

static mf_value logs(mf_value x)
{
    mf_value y = mf_sub(x, 1);
    line_of_log = __LINE__ + 1;
    mf_value z = mf_log(y);
    return mf_add(mf_mul(z, 2), 1);
}
static mf_value scan_logs(mf_value carry, mf_value x) { return mf_tuple(mf_add(carry, logs(x)), x); }
static mf_value scanned(mf_value xs) { return mf_get(mf_scan(scan_logs, 0.0f, xs), 0); }
static mf_value summed(mf_value x) { return mf_psum(logs(x), "i"); }
static mf_value summed_logs(mf_value x) { return mf_sum(logs(x)); }
static mf_value unread(mf_value x)
{
    (void)logs(x);
    return x;
}

TEST(a_nan_is_found_where_it_is_born)
{
    mf_value good = mf_from_host(MF_F32, MF_SHAPE(4), (float[]){ 2, 3, 4, 5 }),
             bad = mf_from_host(MF_F32, MF_SHAPE(4), (float[]){ 2, 3, 0, 5 });
    const char *words = "invalid value (nan) encountered in log: element 2 of float32[4]",
               *one = "encountered in log: element 0 of float32[]";
    CHECK(!mf_is_error(logs(good)));
    BORN(logs(bad), words);
    BORN(mf_call(mf_jit(logs), bad), words);
    BORN(mf_call(mf_jit(scanned), bad), one);
    BORN(mf_call(mf_pmap(logs), bad), one);
    BORN(mf_call(mf_pmap(summed, "i"), bad), one);
    BORN(mf_call(mf_jit(mf_value_and_grad(summed_logs)), bad), words);
    BORN(mf_call(mf_vmap(logs), bad), words);
    CHECK_EQ_INT(mf_block_until_ready(mf_call(mf_jit(unread), bad)), MF_OK); /* dead code is not executed */
}

TEST(a_nan_that_is_given_is_none_that_is_born)
{
    mf_value x = mf_from_host(MF_F32, MF_SHAPE(2), (float[]){ NAN, 2 });
    mf_value y = mf_call(mf_jit(logs), x);
    CHECK_STR(mf_str(y), "[nan  1.]");
}

static mf_value sum_of_all(mf_value x) { return mf_psum(x, "i"); }
static mf_value scattered(mf_value x) { return mf_psum_scatter(x, 0, "i"); }

TEST(a_nan_that_is_born_between_devices)
{
    mf_value x = mf_from_host(MF_F32, MF_SHAPE(4), (float[]){ INFINITY, 2, -INFINITY, 5 }),
             y = mf_from_host(MF_F32, MF_SHAPE(4), (float[]){ NAN, 2, INFINITY, -INFINITY });
    line_of_log = __LINE__ - 7;
    BORN(mf_call(mf_pmap(sum_of_all, "i"), x), "invalid value (nan) encountered in psum: element 0 of float32[]");
    CHECK_STR(mf_str(mf_call(mf_pmap(sum_of_all, "i"), y)), "[nan nan nan nan]");
    line_of_log++;
    BORN(mf_call(mf_pmap(scattered, "i"), mf_broadcast_to(mf_reshape(x, MF_SHAPE(4, 1)), MF_SHAPE(4, 4))), "encountered in psum_scatter");
}

/* ---- replicas */

static _Atomic int calls;
static mf_value another_number(mf_value x) { return mf_add(x, ++calls); }
static int line_of_call;
static mf_value unlike(mf_value x, mf_value w)
{
    line_of_call = __LINE__ + 1;
    mf_value n = mf_pure_callback(another_number, mf_struct(MF_SHAPE0, MF_F32), mf_sum(w));
    return mf_tuple(mf_mul(x, n), mf_mul(n, 2));
}
static mf_value alike(mf_value x, mf_value w)
{
    mf_value n = mf_sum(mf_sin(w)), all = mf_psum(mf_mul(x, n), "i");
    return mf_tuple(mf_add(mf_mul(x, n), all), mf_tuple(mf_mul(n, 2), mf_cos(all)));
}

TEST(replicas_that_differ)
{
    mf_value x = mf_arange(4, MF_F32), w = mf_arange(3, MF_F32);
    mf_axis in = mf_axes(0, MF_NONE), out = mf_axes(0, MF_NONE);
    mf_function f = mf_pmap(alike, "i", .in_axes = in, .out_axes = out), g = mf_pmap(unlike, .in_axes = in, .out_axes = out);
    CHECK_EQ_INT(mf_set_checks(""), MF_OK);
    mf_value right = mf_call(f, x, w);
    CHECK_EQ_INT(mf_block_until_ready(mf_call(g, x, w)), MF_OK);
    CHECK_EQ_INT(calls, 1); /* a value that is the same on all devices is computed once */
    CHECK_EQ_INT(mf_set_checks("replicated"), MF_OK);
    mf_value compared = mf_call(f, x, w);
    CHECK(mf_item_bool(mf_array_equal(mf_get(right, 0), mf_get(compared, 0))));
    CHECK(mf_item_bool(mf_array_equal(mf_get(right, 1, 0), mf_get(compared, 1, 0))));
    CHECK(mf_item_bool(mf_array_equal(mf_get(right, 1, 1), mf_get(compared, 1, 1))));
    mf_value e = mf_call(g, x, w);
    char place[32];
    CHECK(mf_block_until_ready(e) != MF_OK);
    snprintf(place, sizeof place, "test_checks.c:%d", line_of_call);
    CHECK_CONTAINS(mf_error(e), "check_replicated: pure_callback differs over the axis devices: ");
    CHECK_CONTAINS(mf_error_place(e), place);
    e = mf_call(mf_jit(g), x, w);
    CHECK(mf_block_until_ready(e) != MF_OK);
    CHECK_CONTAINS(mf_error(e), "pure_callback differs");
    CHECK_EQ_INT(mf_set_checks("nan"), MF_OK);
}

TEST(checks_are_set_and_change_no_number)
{
    mf_value x = mf_from_host(MF_F32, MF_SHAPE(3), (float[]){ 2, 3, 0.5 }),
             good = mf_from_host(MF_F32, MF_SHAPE(3), (float[]){ 2, 3, 4.5 });
    mf_function f = mf_jit(logs);
    mf_value checked = mf_call(f, good);
    mf_block_until_ready(checked);
    CHECK_EQ_INT(mf_set_checks(NULL), MF_OK);
    CHECK_STR(mf_str(mf_call(f, x)), "[1.        2.3862944       nan]");
    CHECK(mf_item_bool(mf_array_equal(checked, mf_call(f, good))));
    CHECK_EQ_INT(mf_set_checks("nan"), MF_OK);
    BORN(mf_call(f, x), "encountered in log");
    CHECK_EQ_INT(mf_set_checks("nan,inf"), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(mf_str(mf_call(f, x)), "encountered in log");
}
