/* States (cells) in every transform: hidden inputs and outputs, restored after an error. */
#include "check_values.h"

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

static mf_state count, seen;
static mf_value ones(int n) { return mf_ones(MF_SHAPE(n), MF_F32); }
/* The states are created once, because a cached program keeps using those it was traced with. */
static void start(double number)
{
    if (!count.handle) {
        count = mf_hidden_state(mf_scalar(number, MF_F32));
        seen = mf_batch_state(mf_zeros(MF_SHAPE(4), MF_F32));
    }
    mf_state_set_value(count, mf_scalar(number, MF_F32));
    mf_state_set_value(seen, mf_zeros(MF_SHAPE(4), MF_F32));
}
#define COUNT_IS(number) CHECK_NEAR(mf_item_f64(mf_state_value(count)), number, 1e-6)
#define SEEN_IS(text)    CHECK_STR(mf_str(mf_state_value(seen)), text)

static mf_value bump(mf_value x)
{
    mf_state_set_value(count, mf_add(mf_state_value(count), 1));
    return mf_mul(x, mf_state_value(count));
}
static mf_value only_read(mf_value x) { return mf_mul(x, mf_state_value(count)); }
static mf_value only_write(mf_value x) { return mf_state_set_value(count, mf_sum(x)); }

TEST(read_and_written)
{
    start(5);
    TEXT(mf_call(mf_jit(only_read), ones(2)), "[5. 5.]");
    COUNT_IS(5);
    TEXT(mf_call(mf_jit(only_write), ones(3)), "3.0");
    COUNT_IS(3);
    TEXT(mf_call(mf_jit(bump), ones(2)), "[4. 4.]");
    mf_state_set_value(count, mf_scalar(10, MF_F32)); /* the next call sees the new value */
    TEXT(mf_call(mf_jit(bump), ones(2)), "[11. 11.]");
    TEXT(mf_call(mf_jit(mf_jit(bump)), ones(2)), "[12. 12.]");
}

/* ---- control flow */

static mf_value below_10(mf_value x) { return mf_less(x, 10); }
static mf_value loop_body(mf_value x) { return mf_add(x, mf_sum(bump(ones(1)))); }
static mf_value loop(mf_value x) { return mf_while(below_10, loop_body, x); }
static mf_value test_bumps(mf_value x) { return mf_less(mf_add(x, mf_sum(bump(ones(1)))), 10); }
static mf_value one_more(mf_value x) { return mf_add(x, 1); }
static mf_value loop_with_test(mf_value x) { return mf_while(test_bumps, one_more, x); }
static mf_value same(mf_value x) { return x; }
static mf_value bump_twice(mf_value x) { return bump(bump(x)); }
static mf_value branch(mf_value p, mf_value x) { return mf_cond(p, bump, same, x); }
static mf_value choose(mf_value k, mf_value x) { return mf_switch(k, x, bump, same, bump_twice); }
static mf_value count_step(mf_value i, mf_value x) { return mf_add(mf_mul(0, i), mf_add(x, mf_sum(bump(ones(1))))); }
static mf_value counted_loop(mf_value x) { return mf_fori_loop(0, 3, count_step, x); }

TEST(control_flow_carries_cells)
{
    start(0);
    TEXT(mf_call(mf_jit(loop), mf_scalar(0, MF_F32)), "10.0"); /* 1 + 2 + 3 + 4 */
    COUNT_IS(4);
    start(0);
    TEXT(loop(mf_scalar(0, MF_F32)), "10.0"); /* outside a trace too */
    COUNT_IS(4);
    start(0);
    TEXT(mf_call(mf_jit(branch), true, ones(1)), "[1.]");
    TEXT(mf_call(mf_jit(branch), false, ones(1)), "[1.]");
    COUNT_IS(1);
    TEXT(branch(mf_b(true), ones(1)), "[2.]");
    TEXT(mf_call(mf_jit(choose), 2, ones(1)), "[12.]"); /* 3 x 4 */
    TEXT(mf_call(mf_jit(choose), 1, ones(1)), "[1.]");
    COUNT_IS(4);
    start(0);
    TEXT(mf_call(mf_jit(counted_loop), mf_scalar(0, MF_F32)), "6.0");
    COUNT_IS(3);
    mf_state_set_value(count, mf_scalar(0, MF_F32));
    mf_value e = mf_call(mf_jit(loop_with_test), mf_scalar(0, MF_F32)); /* writes in a loop's condition would be lost */
    CHECK(mf_is_error(e));
    CHECK_CONTAINS(mf_error(e), "the test writes a HiddenState without a name");
    COUNT_IS(0);
}

static mf_value fewer_seen(mf_value x) { return mf_mul(mf_state_set_value(seen, ones(3)), x); }
static mf_value none_seen(mf_value x) { return mf_mul(ones(3), x); }
static mf_value seen_i32(mf_value x) { return mf_mul(mf_state_set_value(seen, mf_astype(ones(4), MF_I32)), x); }
static mf_value see_less(mf_value x, mf_value y) { return mf_tuple(mf_mul(x, mf_sum(fewer_seen(y))), y); }
static mf_value see_in_loop(mf_value x) { return mf_sum(seen_i32(x)); }

TEST(control_flow_writes_what_cells_hold)
{
    start(0);
    mf_value x = mf_scalar(1, MF_F32);
    FAILS(mf_scan(see_less, x, ones(2)), "control flow writes float32[3] to a BatchState without a name, which holds float32[4]");
    FAILS(mf_cond(true, none_seen, fewer_seen, x), "control flow writes float32[3] to a BatchState without a name, which holds float32[4]");
    FAILS(mf_while(below_10, see_in_loop, x), "control flow writes int32[4] to a BatchState without a name, which holds float32[4]");
    SEEN_IS("[0. 0. 0. 0.]");
}

/* ---- transforms */

static mf_value bump_square(mf_value x) { return mf_mul(mf_mul(x, x), mf_sum(bump(ones(1)))); }
static mf_value remember(mf_value x)
{
    mf_state_set_value(seen, mf_mul(mf_stop_gradient(x), 2));
    return mf_sum(mf_mul(x, mf_state_value(seen)));
}
static mf_value scan_loss(mf_value x) { return mf_fori_loop(0, 3, count_step, x); }
static mf_value accumulate(mf_value x)
{
    mf_state_set_value(count, mf_add(mf_state_value(count), mf_sum(x)));
    return mf_mul(x, 1);
}

TEST(gradients_take_cells_along)
{
    start(0);
    TEXT(mf_call(mf_grad(bump_square), mf_scalar(3, MF_F32)), "6.0");
    COUNT_IS(1);
    mf_value both = mf_call(mf_value_and_grad(bump_square), mf_scalar(3, MF_F32));
    TEXT(both, "(18.0, 12.0)");
    COUNT_IS(2);
    TEXT(mf_jvp(bump_square, mf_tuple(mf_scalar(3, MF_F32)), mf_tuple(mf_scalar(1, MF_F32))), "(27.0, 18.0)");
    COUNT_IS(3);
    mf_function pull;
    TEXT(mf_vjp(bump_square, mf_tuple(mf_scalar(1, MF_F32)), &pull), "4.0");
    COUNT_IS(4);
    TEXT(mf_call(pull, mf_scalar(1, MF_F32)), "(8.0,)");
    COUNT_IS(4);
    start(0);
    TEXT(mf_call(mf_grad(remember), mf_arange(4, MF_F32)), "[0. 2. 4. 6.]");
    SEEN_IS("[0. 2. 4. 6.]");
    start(0);
    TEXT(mf_call(mf_grad(scan_loss), mf_scalar(1, MF_F32)), "1.0");
    COUNT_IS(3);
    start(0);
    TEXT(mf_call(mf_grad(mf_remat(bump_square)), mf_scalar(3, MF_F32)), "6.0");
    COUNT_IS(1);
}

static mf_value total(mf_value x)
{
    mf_state_set_value(count, mf_add(mf_state_value(count), mf_psum(x, "i")));
    return mf_mul(x, mf_state_value(count));
}
static mf_value own(mf_value x)
{
    mf_state_set_value(count, mf_add(mf_state_value(count), x));
    return x;
}
static mf_value own_row(mf_value x)
{
    mf_state_set_value(seen, mf_add(mf_state_value(seen), x));
    return mf_psum(mf_state_value(seen), "i");
}

TEST(maps_broadcast_cells_or_follow_rules)
{
    start(0);
    TEXT(mf_call(mf_vmap(bump), ones(3)), "[1. 1. 1.]");
    COUNT_IS(1);
    TEXT(mf_call(mf_pmap(bump), ones(3)), "[2. 2. 2.]");
    COUNT_IS(2);
    TEXT(mf_call(mf_pmap(total, "i"), ones(4)), "[6. 6. 6. 6.]");
    COUNT_IS(6);
    mf_value e = mf_call(mf_pmap(own), ones(4)); /* would differ between devices */
    CHECK(mf_is_error(e));
    CHECK_CONTAINS(mf_error(e), "state");
    COUNT_IS(6);
    e = mf_call(mf_vmap(own), ones(4));
    CHECK(mf_is_error(e));
    mf_error(e);
    COUNT_IS(6);
    mf_state_axis_rules rows = MF_STATE_AXES(0, mf_of_type(MF_BATCH_STATE));
    mf_function f = mf_pmap2(own_row, .axis_name = "i", .state_in_axes = rows, .state_out_axes = rows);
    TEXT(mf_call(f, mf_arange(4, MF_F32)), "[6. 6. 6. 6.]");
    SEEN_IS("[0. 1. 2. 3.]");
    TEXT(mf_call(f, mf_arange(4, MF_F32)), "[12. 12. 12. 12.]");
    SEEN_IS("[0. 2. 4. 6.]");
}

/* ---- errors restore the states */

static mf_value write_and_fail(mf_value x)
{
    bump(x);
    mf_state_set_value(seen, ones(4));
    return mf_make_error(MF_ERROR_ARGUMENT, "after the write");
}
static mf_value write_and_misfit(mf_value x)
{
    bump(x);
    return mf_add(x, ones(7));
}
static mf_value sum(mf_value x) { return mf_psum(x, "i"); }
static mf_value disagree(mf_value x)
{
    mf_state_set_value(count, mf_psum(x, "i"));
    return mf_cond(mf_less(mf_axis_index("i"), 2), sum, same, x);
}
static mf_value disagree_first(mf_value x)
{
    mf_value y = mf_cond(mf_less(mf_axis_index("i"), 2), sum, same, x);
    mf_state_set_value(count, mf_psum(y, "i"));
    return x;
}

TEST(an_error_while_tracing_restores)
{
    start(7);
    mf_function functions[] = { mf_jit(write_and_fail), mf_pmap(write_and_fail), mf_vmap(write_and_fail), mf_jit(write_and_misfit) };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            mf_value e = mf_call(functions[i], ones(2));
            CHECK(mf_is_error(e));
            mf_error(e);
            COUNT_IS(7);
            SEEN_IS("[0. 0. 0. 0.]");
        }
    TEXT(mf_call(mf_jit(bump), ones(1)), "[8.]");
}

static mf_value write_a_misfit(mf_value x)
{
    mf_state_set_value(count, mf_add(x, ones(7))); /* the error is not a result of the call */
    return x;
}

TEST(a_write_that_fails_fails_the_call)
{
    start(7);
    mf_function functions[] = { mf_jit(write_a_misfit), mf_pmap(mf_jit(write_a_misfit)) };
    for (int i = 0; i < 2; i++) {
        mf_value e = mf_call(functions[i], mf_ones(MF_SHAPE(2, 2), MF_F32));
        CHECK(mf_is_error(e));
        CHECK_CONTAINS(mf_error(e), "shapes");
        COUNT_IS(7);
    }
}

TEST(an_error_while_running_restores)
{
    mf_function functions[] = { mf_pmap(disagree, "i"), mf_pmap(disagree_first, "i"), mf_jit(mf_pmap(disagree, "i")) };
    for (int i = 0; i < 3; i++) {
        start(7);
        mf_value e = mf_call(functions[i], mf_arange(4, MF_F32));
        CHECK(mf_block_until_ready(e) != MF_OK);
        CHECK(mf_is_error(e));
        CHECK_CONTAINS(mf_error(e), "device");
        COUNT_IS(7);
        TEXT(mf_call(mf_jit(bump), ones(1)), "[8.]");
    }
}

TEST(a_cell_that_is_read_before_the_failure_is_known)
{
    start(7);
    mf_value e = mf_call(mf_pmap(disagree, "i"), mf_arange(4, MF_F32));
    mf_value then = mf_call(mf_jit(bump), ones(1)); /* queued after it: fails with it, or sees the old value */
    if (mf_block_until_ready(then) == MF_OK)
        TEXT(then, "[8.]");
    mf_block_until_ready(e);
    mf_error(e);
    mf_error(then);
    mf_value value = mf_state_value(count);
    CHECK_EQ_INT(mf_block_until_ready(value), MF_OK);
}

/* ---- memory: a call that cannot fail updates in place the states that nobody else holds */

static mf_state big;
static mf_value squared(mf_value w) { return mf_square(w); }
static mf_value grow_big(mf_value x)
{
    mf_state_set_value(big, mf_tree_map(squared, mf_state_value(big)));
    return mf_mul(x, 2);
}
static mf_value grow_big_and_check(mf_value x) { return mf_check_replicated(grow_big(x), "i"); }
static mf_value root(mf_value x) { return grow_big(mf_sum(mf_cholesky(x))); }

enum { BIG = 16 << 20 }; /* bytes of each of the two leaves: too much for a map to run in lockstep */
static void start_big(void)
{
    if (!big.handle)
        big = mf_param_state(mf_zeros(MF_SHAPE(1), MF_F32));
    MF_SCOPE;
    mf_value leaf = mf_zeros(MF_SHAPE(BIG / 4), MF_F32);
    mf_state_set_value(big, mf_tuple(mf_add(leaf, 1.25), mf_add(leaf, 1.25)));
    mf_block_until_ready(mf_state_value(big));
}
static double big_at(int leaf)
{
    MF_SCOPE;
    return mf_item_f64(mf_max(mf_get(mf_state_value(big), leaf)));
}

/* The peak of array memory in a second call, beyond what is live now. */
static int64_t peak_of(mf_function f, mf_value x)
{
    MF_SCOPE;
    mf_block_until_ready(mf_call(f, x));
    int64_t before = mf_memory_stats().live_bytes;
    mf_memory_stats_reset();
    mf_block_until_ready(mf_call(f, x));
    return mf_memory_stats().peak_bytes - before;
}

TEST(cells_are_computed_in_place)
{
    mf_function functions[] = { mf_jit(grow_big), mf_pmap2(grow_big, "i"), mf_pmap(grow_big, "i"), mf_jit(mf_pmap2(grow_big, "i")) };
    for (int i = 0; i < 4; i++) {
        start_big();
        CHECK(peak_of(functions[i], mf_arange(8, MF_F32)) < BIG / 2);
        CHECK_NEAR(big_at(0), 2.44140625, 0);
        CHECK_NEAR(big_at(1), 2.44140625, 0);
    }
}

TEST(cells_that_others_hold_are_copied)
{
    start_big();
    mf_value held = mf_get(mf_state_value(big), 1), part = mf_get(mf_get(mf_state_value(big), 0), mf_range(7, 9));
    mf_state twin = mf_param_state(mf_state_value(big)); /* the same arrays in two cells */
    mf_block_until_ready(mf_call(mf_jit(grow_big), ones(1)));
    CHECK_NEAR(mf_item_f64(mf_max(held)), 1.25, 0);
    TEXT(part, "[1.25 1.25]");
    CHECK_NEAR(mf_item_f64(mf_max(mf_get(mf_state_value(twin), 0))), 1.25, 0);
    CHECK_NEAR(big_at(0), 1.5625, 0);
    CHECK_NEAR(big_at(1), 1.5625, 0);
    mf_value both = mf_state_value(big); /* only a handle on the tree */
    mf_block_until_ready(mf_call(mf_jit(grow_big), ones(1)));
    CHECK_NEAR(mf_item_f64(mf_max(mf_get(both, 1))), 1.5625, 0);
}

TEST(a_call_that_may_fail_copies_cells)
{
    start_big();
    CHECK(peak_of(mf_pmap2(grow_big, "i"), ones(2)) < BIG / 2);
    CHECK(peak_of(mf_pmap2(grow_big_and_check, "i"), ones(2)) >= BIG);
    CHECK(peak_of(mf_jit(root), mf_eye(2, MF_F32)) >= BIG);
    double before = big_at(0);
    mf_value e = mf_call(mf_pmap2(grow_big_and_check, "i"), mf_arange(2, MF_F32));
    CHECK(mf_block_until_ready(e) != MF_OK);
    CHECK_CONTAINS(mf_error(e), "replicated");
    CHECK_NEAR(big_at(0), before, 0);
}

static mf_value check_alike(mf_value x) { return mf_check_replicated(x, "i"); }

/* An operand that is an error, or deleted, makes the call fail before anything is overwritten. */
TEST(an_operand_that_fails_leaves_cells_alone)
{
    start_big();
    mf_function f = mf_jit(grow_big);
    mf_call(f, ones(4));
    mf_value late = mf_call(mf_pmap(check_alike, "i"), mf_arange(4, MF_F32)), gone = ones(4);
    mf_value e = mf_call(f, late);
    CHECK(mf_block_until_ready(e) != MF_OK);
    CHECK(mf_error(e) && mf_error(late));
    mf_delete(gone);
    CHECK_CONTAINS(mf_error(mf_call(f, gone)), "deleted");
    CHECK_NEAR(big_at(0), 1.5625, 0);
    CHECK_NEAR(big_at(1), 1.5625, 0);
}

TEST(module_as_a_pure_function)
{
    start(2);
    mf_value r = mf_call(mf_jit(accumulate), ones(3));
    TEXT(r, "[1. 1. 1.]");
    COUNT_IS(5);
}

/* ---- random states in maps with rules */

static mf_value draw(void *stream, mf_value scale)
{
    return mf_mul(mf_random_normal(mf_random_next(*(mf_state *)stream), MF_SHAPE0, MF_F32), scale);
}
static mf_value draw_twice(void *stream, mf_value scale) { return mf_tuple(draw(stream, scale), draw(stream, scale)); }

/* Computed by hand: the first of n + 1 keys becomes the state's, the others are the devices'. */
static mf_value drawn_with(mf_value keys, int count, mf_value *next)
{
    mf_value rows[8], split = mf_random_split(keys, count + 1);
    for (int i = 0; i < count; i++)
        rows[i] = mf_random_normal(mf_get(mf_random_split(mf_get(split, i + 1), 2), 1), MF_SHAPE0, MF_F32);
    *next = mf_get(split, 0);
    return mf_stack(mf_list_n(rows, count), 0);
}

TEST(every_device_draws_from_a_key_of_its_own)
{
    mf_value ones = mf_ones(MF_SHAPE(4), MF_F32), next;
    mf_state_axis_rules over_0 = MF_STATE_AXES(0, mf_of_type(MF_RANDOM_STATE));
    for (int with_rules = 0; with_rules < 2; with_rules++) {
        mf_state stream = mf_random_state(7);
        mf_function f = mf_closure(draw, &stream);
        f = with_rules ? mf_pmap2(f, "i", .state_in_axes = over_0, .state_out_axes = over_0) : mf_pmap2(f, "i");
        mf_value expected = drawn_with(mf_random_key(7), 4, &next);
        CHECK(mf_item_bool(mf_array_equal(mf_call(f, ones), expected)));
        CHECK(mf_item_bool(mf_array_equal(mf_state_value(stream), next)));
        expected = drawn_with(next, 4, &next);
        CHECK(mf_item_bool(mf_array_equal(mf_call(mf_jit(f), ones), expected)));
        CHECK(mf_item_bool(mf_array_equal(mf_state_value(stream), next)));
    }
    mf_state other = mf_random_state(8);
    mf_value twice = mf_call(mf_pmap2(mf_closure(draw_twice, &other), "i"), ones);
    CHECK(!mf_item_bool(mf_any(mf_equal(mf_get(twice, 0), mf_get(twice, 1)))));
}

/* One key per device, given by the user, is mapped by the rule; a plain pmap shares one key. */
TEST(keys_a_device_are_mapped)
{
    mf_value keys = mf_random_split(mf_random_key(3), 4), ones = mf_ones(MF_SHAPE(4), MF_F32), rows[4];
    mf_state_axis_rules over_0 = MF_STATE_AXES(0, mf_of_type(MF_RANDOM_STATE));
    mf_state stream = mf_random_state_of_key(keys), shared = mf_random_state(7);
    for (int i = 0; i < 4; i++)
        rows[i] = mf_random_normal(mf_get(mf_random_split(mf_get(keys, i), 2), 1), MF_SHAPE0, MF_F32);
    mf_value r = mf_call(mf_pmap2(mf_closure(draw, &stream), "i", .state_in_axes = over_0, .state_out_axes = over_0), ones);
    CHECK(mf_item_bool(mf_array_equal(r, mf_stack(mf_list_n(rows, 4), 0))));
    CHECK_STR(mf_str(mf_shape_of(mf_state_value(stream))), "(4, 2)");
    r = mf_call(mf_pmap(mf_closure(draw, &shared), "i"), ones);
    CHECK(mf_item_bool(mf_all(mf_equal(r, mf_get(r, 0)))));
}
