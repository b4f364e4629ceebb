/* Capture through maps, loops and switch; errors that travel and know their place; kept values; the cache; many threads. */
#include "check_values.h"

#include <pthread.h>

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

#define X4 mf_arange(4, MF_F32)

/* ---- how many arguments */

static mf_value nothing(void) { return mf_arange(2, MF_F32); }
static mf_value context_alone(void *c) { return mf_mul(*(double *)c, mf_axis_index("i")); }
static mf_value sixteen(mf_value a, mf_value b, mf_value c, mf_value d, mf_value e, mf_value f, mf_value g, mf_value h, mf_value i,
                        mf_value j, mf_value k, mf_value l, mf_value m, mf_value n, mf_value o, mf_value p)
{
    const mf_value all[] = { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p };
    mf_value sum = mf_f(0);
    for (int at = 0; at < 16; at++)
        sum = mf_add(mf_mul(sum, 2), all[at]);
    return sum;
}

TEST(functions_take_no_argument_to_sixteen)
{
    TEXT(mf_call(nothing), "[0. 1.]");
    TEXT(mf_call(mf_jit(nothing)), "[0. 1.]");
    TEXT(mf_call(mf_pmap(nothing, .axis_size = 2)), "[[0. 1.]\n [0. 1.]]");
    double half = 0.5;
    TEXT(mf_call(mf_vmap(mf_closure(context_alone, &half), "i", .axis_size = 3)), "[0.  0.5 1. ]");
    CHECK_CONTAINS(mf_program_text(nothing), "program ()");
    TEXT(mf_call(mf_jit(sixteen), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), "32769.0");
    TEXT(mf_call(mf_grad(sixteen, .argnums = MF_INTS(0, 15)), 1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1.0), "(32768.0, 1.0)");
    CHECK_CONTAINS(mf_error(mf_call(nothing, 1)), "takes 0 arguments but was called with 1");
    CHECK_CONTAINS(mf_error(mf_call(sixteen)), "takes 16 arguments but was called with 0");
}

static mf_value calls_itself(mf_value x) { return mf_call(mf_jit(calls_itself), mf_add(x, 1)); }
static mf_value down(mf_value depth, mf_value x)
{
    int n = (int)mf_item_i64(depth);
    return n ? mf_mul(mf_call(mf_jit(down, .static_argnums = MF_INTS(0)), n - 1, x), 2) : x;
}

TEST(a_function_that_calls_itself_without_end_is_an_error)
{
    CHECK_CONTAINS(mf_error(mf_call(mf_jit(calls_itself), 1.0)), "more than 256 functions are traced inside one another");
    TEXT(mf_call(mf_jit(down, .static_argnums = MF_INTS(0)), 20, 1.0), "1.048576e+06");
}

/* ---- what a loop and a map run over */

static mf_value count_up(mf_value c, mf_value x) { return mf_tuple(mf_add(c, 1), x); }

TEST(a_scan_over_nothing_needs_a_length)
{
    CHECK_CONTAINS(mf_error(mf_scan(count_up, 0, mf_none())), "scan got no values to scan over and .length not provided");
    CHECK_CONTAINS(mf_error(mf_scan(count_up, 0, mf_arange(2, MF_F32), .length = -1)), "length is -1");
    TEXT(mf_get(mf_scan(count_up, 0, mf_none(), .length = 3), 0), "3");
    TEXT(mf_get(mf_scan(count_up, 0, mf_zeros(MF_SHAPE(0), MF_F32)), 0), "0");
}

static mf_value with_index(mf_value x) { return mf_add(x, mf_axis_index("i")); }

TEST(a_map_over_nothing_runs_on_every_device)
{
    TEXT(mf_call(mf_pmap(with_index, "i", .in_axes = MF_NONE), 10), "[10 11 12 13 14 15 16 17]");
    TEXT(mf_call(mf_pmap(with_index, "i", .in_axes = MF_NONE, .axis_size = 2), 10), "[10 11]");
    TEXT(mf_call(mf_pmap(with_index, "i", .in_axes = MF_NONE, .devices = (mf_device_list){ 3, mf_devices().at }), 10), "[10 11 12]");
}

/* ---- capture */

static mf_value plus_outer(void *w, mf_value v) { return mf_add(v, *(mf_value *)w); }
static mf_value times_outer(void *w, mf_value v) { return mf_mul(v, *(mf_value *)w); }
static mf_value below_outer(void *w, mf_value v) { return mf_less(v, *(mf_value *)w); }
static mf_value step_outer(void *w, mf_value i, mf_value v) { return mf_add(v, mf_mul(*(mf_value *)w, i)); }
static mf_value psum_outer(void *w, mf_value v) { return mf_psum(mf_mul(v, *(mf_value *)w), "i"); }
static mf_value by_pmap(mf_value w) { return mf_call(mf_pmap(mf_closure(times_outer, &w)), X4); }
static mf_value by_psum(mf_value w) { return mf_call(mf_pmap(mf_closure(psum_outer, &w), "i", .out_axes = MF_NONE), X4); }
static mf_value by_while(mf_value w) { return mf_while(mf_closure(below_outer, &w), mf_closure(plus_outer, &w), mf_mul(w, 0.25)); }
static mf_value by_switch(mf_value w) { return mf_switch(1, X4, mf_closure(plus_outer, &w), mf_closure(times_outer, &w)); }
static mf_value by_fori(mf_value w) { return mf_fori_loop(0, 4, mf_closure(step_outer, &w), mf_scalar(0, MF_F32)); }
static mf_value by_remat(mf_value w) { return mf_call(mf_remat(mf_closure(times_outer, &w)), w); }
static mf_value summed_pmap(mf_value w) { return mf_sum(by_pmap(w)); }
static mf_value summed_switch(mf_value w) { return mf_sum(by_switch(w)); }

TEST(capture_through_maps_and_control_flow)
{
    mf_value two = mf_scalar(2, MF_F32);
    TEXT(mf_call(mf_jit(by_pmap), two), "[0. 2. 4. 6.]");
    TEXT(mf_call(mf_jit(by_psum), two), "12.0");
    TEXT(mf_call(mf_jit(by_while), two), "2.5");
    TEXT(mf_call(mf_jit(by_switch), two), "[0. 2. 4. 6.]");
    TEXT(mf_call(mf_jit(by_fori), two), "12.0");
    TEXT(mf_call(mf_jit(by_remat), two), "4.0");
    TEXT(mf_call(mf_grad(summed_pmap), two), "6.0");
    TEXT(mf_call(mf_grad(by_psum), two), "6.0");
    TEXT(mf_call(mf_grad(summed_switch), two), "6.0");
    TEXT(mf_call(mf_grad(by_fori), two), "6.0");
    TEXT(mf_call(mf_grad(by_remat), two), "4.0");
    TEXT(mf_call(mf_vmap(by_pmap), mf_arange(2, MF_F32)), "[[0. 0. 0. 0.]\n [0. 1. 2. 3.]]");
    TEXT(mf_call(mf_vmap(by_while), mf_arange(3, MF_F32)), "[0.   1.25 2.5 ]");
    TEXT(mf_call(mf_pmap(by_while), mf_arange(3, MF_F32)), "[0.   1.25 2.5 ]");
    TEXT(mf_call(mf_pmap(by_switch), mf_arange(2, MF_F32)), "[[0. 0. 0. 0.]\n [0. 1. 2. 3.]]");
}

static mf_value outer_tracer;
static mf_value use_outer(mf_value x) { return mf_add(x, outer_tracer); }
static mf_value give_out(mf_value x)
{
    outer_tracer = mf_mul(x, 3);
    return mf_call(mf_jit(use_outer), x); /* a global is seen too */
}

TEST(a_program_that_captured_is_not_reused_elsewhere)
{
    TEXT(mf_call(mf_jit(give_out), mf_scalar(1, MF_F32)), "4.0");
    outer_tracer = mf_scalar(10, MF_F32);
    TEXT(mf_call(mf_jit(use_outer), mf_scalar(1, MF_F32)), "11.0");
}

static mf_value capturing_rule(void *w, mf_value p, mf_value t) { return mf_tuple(mf_get(p, 0), mf_mul(mf_get(t, 0), *(mf_value *)w)); }
static mf_value same(mf_value x) { return x; }
static mf_value with_rule(mf_value w) { return mf_call(mf_custom_jvp(mf_fn(same), mf_closure(capturing_rule, &w)), w); }

TEST(a_rule_that_captures_a_tracer_says_so)
{
    mf_value e = mf_call(mf_grad(with_rule), mf_scalar(2, MF_F32));
    CHECK(mf_is_error(e));
    CHECK_CONTAINS(mf_error(e), "pass it as an argument");
}

static mf_value square_pair(mf_value c, mf_value x) { return mf_mul(c, x); }
static mf_value static_branch(mf_value x) { return (void)x, mf_string("text"); }
static mf_value static_step(mf_value c, mf_value x) { return mf_tuple(mf_add(c, x), mf_string("text")); }

TEST(control_flow_gives_arrays)
{
    mf_value bad[] = { mf_cond(true, static_branch, static_branch, 1.0), mf_scan(static_step, 0.0, X4), mf_while(static_branch, same, 1.0),
                       mf_scan(square_pair, 0.0, X4) };
    for (int i = 0; i < 4; i++)
        CHECK(mf_is_error(bad[i]) && mf_error(bad[i]));
}

/* ---- errors */

static mf_value square(mf_value x) { return mf_mul(x, x); }
static int first_line;
static mf_value two_errors(mf_value x)
{
    first_line = __LINE__ + 1;
    mf_value first = mf_add(x, mf_ones(MF_SHAPE(7), MF_F32)), second = mf_reshape(x, MF_SHAPE(5));
    CHECK(mf_is_error(first) && mf_is_error(second));
    mf_error(second);
    return mf_mul(mf_exp(first), second);
}

TEST(the_first_error_wins_and_travels)
{
    mf_value e = mf_make_error(MF_ERROR_IO, "the first"), f = mf_make_error(MF_ERROR_SHAPE, "the second");
    mf_value r = mf_sum(mf_call(mf_pmap(square), mf_add(mf_tuple_n(&e, 1), f)));
    CHECK(mf_is_error(r));
    r = mf_mul(mf_exp(e), f);
    CHECK_EQ_INT(mf_error_status(r), MF_ERROR_IO);
    CHECK_CONTAINS(mf_error(r), "the first");
    r = mf_call(mf_jit(square), mf_dict("a", X4, "b", e));
    CHECK_EQ_INT(mf_error_status(r), MF_ERROR_IO);
    mf_error(f);
    for (int k = 0; k < 3; k++) {
        mf_function f3 = k == 0 ? mf_jit(two_errors) : k == 1 ? mf_pmap(two_errors) : mf_vmap(two_errors);
        r = mf_call(f3, mf_ones(MF_SHAPE(3, 3), MF_F32));
        CHECK_EQ_INT(mf_error_status(r), MF_ERROR_SHAPE);
        const char *place = mf_error_place(r);
        char wanted[64];
        snprintf(wanted, sizeof wanted, "test_more_contracts.c:%d", first_line);
        if (place && strchr(place, ':'))
            CHECK_CONTAINS(place, wanted);
        else
            CHECK(place != NULL);
    }
}

static int reports;
static mf_status last_status;
static char last_message[256];
static void hook(mf_status status, const char *message, void *context)
{
    *(int *)context += 1;
    last_status = status;
    snprintf(last_message, sizeof last_message, "%s", message);
}

TEST(an_unobserved_error_is_reported_once)
{
    mf_set_error_hook(hook, &reports);
    {
        MF_SCOPE;
        mf_value bad = mf_add(mf_ones(MF_SHAPE(2), MF_F32), mf_ones(MF_SHAPE(3), MF_F32));
        mf_value travelled = mf_exp(mf_call(mf_pmap(square), mf_sum(bad)));
        CHECK(mf_is_error(travelled));
    }
    CHECK_EQ_INT(reports, 1);
    CHECK_EQ_INT(last_status, MF_ERROR_SHAPE);
    CHECK_CONTAINS(last_message, "3");
    {
        MF_SCOPE;
        mf_value bad = mf_call(mf_jit(two_errors), mf_ones(MF_SHAPE(3, 3), MF_F32));
        CHECK_EQ_INT(mf_error_status(bad), MF_ERROR_SHAPE); /* asking is observing */
    }
    CHECK_EQ_INT(reports, 1);
    mf_set_error_hook(NULL, NULL);
}

/* ---- handles */

TEST(a_stale_handle_names_both_places)
{
    mf_value stale;
    {
        MF_SCOPE;
        stale = mf_add(X4, 1);
    }
    mf_value e = mf_call(mf_pmap(square), stale);
    CHECK_EQ_INT(mf_error_status(e), MF_ERROR_SCOPE);
    CHECK_CONTAINS(mf_error(e), "scope");
    mf_value t = mf_tuple(X4, stale);
    CHECK(mf_is_error(t));
    mf_error(t);
}

static mf_value make(void)
{
    MF_SCOPE;
    mf_value x = mf_call(mf_pmap(square), X4);
    return mf_escape(mf_tuple(x, mf_dict("sum", mf_sum(x))));
}

TEST(escaped_and_kept_trees_live)
{
    mf_value t = make();
    TEXT(t, "([0. 1. 4. 9.], {'sum': 14.0})");
    mf_value kept;
    {
        MF_SCOPE;
        kept = mf_keep(make());
    }
    TEXT(kept, "([0. 1. 4. 9.], {'sum': 14.0})");
    mf_release(kept);
    mf_value e = mf_get(kept, 0);
    CHECK(mf_is_error(e));
    mf_error(e);
}

/* ---- numbers */

static mf_value int_ops(mf_value x, mf_value y)
{
    return mf_tuple(mf_lax_div(x, y), mf_lax_rem(x, y), mf_left_shift(x, 40), mf_astype(mf_mul(mf_astype(x, MF_F32), 6e9), MF_I32));
}

TEST(integers_follow_jax)
{
    mf_value x = mf_array(MF_I32, MF_SHAPE(4), 5, -2147483648.0, 7, -7), y = mf_array(MF_I32, MF_SHAPE(4), 0, -1, -2, 2);
    const char *wanted = "([         -1 -2147483648          -3          -3], [ 5  0  1 -1], [0 0 0 0], "
                         "[ 2147483647 -2147483648  2147483647 -2147483648])";
    TEXT(int_ops(x, y), wanted);
    TEXT(mf_call(mf_jit(int_ops), x, y), wanted);
    TEXT(mf_call(mf_pmap(int_ops), x, y), wanted);
    TEXT(mf_astype(mf_array(MF_F32, MF_SHAPE(3), NAN, 3e10, -3e10), MF_I32), "[          0  2147483647 -2147483648]");
}

/* ---- numbers that are computed while somebody needs them */

static mf_value psum_of_outer(void *w, mf_value v) { return mf_add(mf_mul(v, 0), mf_psum(*(mf_value *)w, "i")); }
static mf_value power(mf_value v, mf_value n) { return mf_pow(v, n); }
static mf_value plus_index(mf_value i, mf_value c) { return mf_add(c, i); }
static mf_value count_to(void *n, mf_value v) { return mf_fori_loop(0, *(mf_value *)n, plus_index, v); }
static mf_value pending_three(int i) /* still being computed, at place i of a small array */
{
    mf_value big = mf_call(mf_pmap(square), mf_ones(MF_SHAPE(8, 20000), MF_F32));
    mf_value zero = mf_sub(mf_max(big), 1), list = mf_array(MF_F32, MF_SHAPE(3), 1, 2, 3);
    return mf_astype(mf_get(mf_add(list, zero), i), MF_I32);
}

TEST(pending_scalars_are_waited_for)
{
    for (int round = 0; round < 5; round++) {
        MF_SCOPE;
        mf_value three = pending_three(2);
        TEXT(mf_call(mf_pmap(mf_closure(psum_of_outer, &three), "i"), mf_zeros(MF_SHAPE(2), MF_F32)), "[6. 6.]");
        TEXT(mf_call(mf_pmap(power, .static_broadcasted_argnums = MF_INTS(1)), mf_array(MF_F32, MF_SHAPE(2), 2, 3), pending_three(2)),
             "[ 8. 27.]");
        mf_value two = pending_three(1);
        TEXT(mf_call(mf_grad(mf_closure(count_to, &two)), mf_scalar(1, MF_F32)), "1.0");
    }
}

/* ---- the cache, from one thread and many */

static _Atomic int traces;
static mf_value counted(mf_value x)
{
    traces++;
    return mf_div(x, mf_psum(x, "i"));
}

TEST(repeated_calls_grow_nothing)
{
    traces = 0;
    mf_value x = X4;
    mf_block_until_ready(mf_call(mf_pmap(counted, "i"), x));
    mf_cache_counters before = mf_cache_read();
    for (int i = 0; i < 200; i++) {
        MF_SCOPE;
        mf_block_until_ready(mf_call(mf_pmap(counted, "i"), x));
        mf_block_until_ready(mf_call(mf_pmap(counted, "i"), mf_add(x, 1)));
    }
    mf_cache_counters after = mf_cache_read();
    CHECK_EQ_INT(traces, 1);
    CHECK(after.entries - before.entries <= 1); /* the add */
    CHECK(after.compilations - before.compilations <= 1);
    CHECK(after.hits > before.hits);
    mf_clear_caches();
    CHECK_EQ_INT(mf_cache_read().entries, 0);
    TEXT(mf_sum(mf_call(mf_pmap(counted, "i"), x)), "1.0");
    CHECK_EQ_INT(traces, 2);
}

static void *call_many_times(void *p)
{
    mf_value kept = *(mf_value *)p;
    for (int i = 0; i < 50; i++) {
        MF_SCOPE;
        mf_value r = mf_call(mf_pmap(counted, "i"), kept);
        if (fabs(mf_item_f64(mf_sum(r)) - 1) > 1e-6)
            return NULL;
        r = mf_call(mf_jit(mf_grad(mf_fn(mf_sum))), kept);
        if (mf_item_f64(mf_sum(r)) != 8)
            return NULL;
    }
    return p;
}

TEST(eight_threads_call_one_function)
{
    mf_clear_caches();
    traces = 0;
    mf_value x = mf_keep(mf_add(mf_arange(8, MF_F32), 1));
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, call_many_times, &x);
    for (int i = 0; i < 8; i++) {
        void *r;
        pthread_join(t[i], &r);
        CHECK(r != NULL);
    }
    CHECK_EQ_INT(traces, 1);
    mf_release(x);
}
