/* Counterparts of the peer's tests of plain maps, of constants, and of maps within jit. */
#include "peer.h"

/* ---- plain */

FN(minus_sum, mf_sub(v, mf_psum(v, "i")))
FN(minus_mean, mf_sub(v, mf_pmean(v, "i")))
FN(minus_max, mf_sub(v, mf_pmax(v, "i")))
FN(minus_min, mf_sub(v, mf_pmin(v, "i")))
FN(same, v)
FN(twice, mf_mul(2, v))

TEST(difference_from_sum)
{
    mf_value x = FLOATS(8, 4);
    EXPECT_SAME(mf_call(mf_pmap(minus_sum, "i"), x), mf_sub(x, mf_sum(x, 0)));
    EXPECT(mf_get(mf_call(mf_pmap(minus_sum, "i"), x), 0), -112, -119, -126, -133);
}

TEST(difference_from_mean)
{
    mf_value x = FLOATS(8, 4);
    EXPECT_SAME(mf_call(mf_pmap(minus_mean, "i"), x), mf_sub(x, mf_mean(x, 0)));
    EXPECT(mf_get(mf_call(mf_pmap(minus_mean, "i"), x), 0), -14, -14, -14, -14);
}

TEST(difference_from_extremes)
{
    mf_value x = FLOATS(8, 4);
    EXPECT_SAME(mf_call(mf_pmap(minus_max, "i"), x), mf_sub(x, mf_max(x, 0)));
    EXPECT_SAME(mf_call(mf_pmap(minus_min, "i"), x), mf_sub(x, mf_min(x, 0)));
}

FN2(first_of_two, x, y, ((void)y, x))
FN2(minus_sum_of_other, x, y, mf_sub(x, mf_psum(y, "i")))

TEST(partially_mapped)
{
    mf_value x = mf_scalar(3, MF_F32), y = FLOATS(8, 4);
    mf_value r = mf_call(mf_pmap(first_of_two, .in_axes = mf_axes(MF_NONE, 0)), x, y);
    EXPECT(r, 3, 3, 3, 3, 3, 3, 3, 3);
    CHECK_EQ_INT(mf_devices_of_array(r).count, 8); /* one row a device, though all are equal */
    CHECK_STR(mf_str(mf_shape_of(mf_shard(r, 7))), "()");
    r = mf_call(mf_pmap(minus_sum_of_other, "i", .in_axes = mf_axes(MF_NONE, 0)), x, y);
    EXPECT_SAME(r, mf_broadcast_to(mf_sub(3, mf_sum(y, 0)), MF_SHAPE(8, 4)));
    CHECK_EQ_INT(mf_devices_of_array(r).count, 8);
}

static mf_value sum_of_all(mf_value list)
{
    mf_value sum = mf_get(list, 0);
    for (int i = 1; i < mf_len(list); i++)
        sum = mf_add(sum, mf_get(list, i));
    return sum;
}

TEST(many_arguments)
{
    mf_value leaves[500];
    for (int i = 0; i < 500; i++)
        leaves[i] = mf_full(MF_SHAPE(8), mf_i(i));
    EXPECT_SAME(mf_call(mf_pmap(sum_of_all), mf_list_n(leaves, 500)), mf_full(MF_SHAPE(8), mf_i(499 * 250)));
}

FN(sum_over_batch, mf_psum(v, "batch"))

TEST(unbound_name) { EXPECT_ERROR(mf_call(mf_pmap(sum_over_batch), INTS(1, 4)), "unbound axis name: batch"); }

TEST(axis_below_another_pmap)
{
    mf_value r = mf_call(mf_pmap(minus_sum, "i", .in_axes = 1, .out_axes = 1), FLOATS(4, 8));
    EXPECT_SAME(r, mf_sub(FLOATS(4, 8), mf_sum(FLOATS(4, 8), .axis = 1, .keepdims = true)));
}

/* ---- more devices than there are */

FN(two_levels, mf_call(mf_pmap(twice), v))
FN(three, ((void)v, mf_i(3)))

TEST(more_than_the_devices)
{
    EXPECT_ERROR(mf_call(mf_pmap(twice), INTS(9)), "requires 9 replicas, but only 8");
    EXPECT_ERROR(mf_call(mf_pmap(twice), mf_ones(MF_SHAPE(9, 10), MF_F32)), "requires 9 replicas, but only 8");
    EXPECT_ERROR(mf_call(mf_pmap(two_levels), mf_ones(MF_SHAPE(8, 2, 10), MF_F32)), "requires 16 local devices");
    EXPECT(mf_call(mf_pmap(twice), INTS(8)), 0, 2, 4, 6, 8, 10, 12, 14);
}

TEST(more_than_the_devices_for_a_constant)
{
    EXPECT_ERROR(mf_call(mf_pmap(three), INTS(9)), "requires 9 replicas, but only 8");
    EXPECT_ERROR(mf_call(mf_pmap(three), INTS(9)), "devices are available");
}

TEST(nested_constant_beyond_the_devices) { EXPECT_ERROR(mf_call(mf_pmap(mf_pmap(three)), INTS(2, 5, 3)), "requires 10 local devices"); }

/* ---- constants */

OVER(plus_last, v, mf_add(v, mf_get(w, 15)))

TEST(captured_constant)
{
    mf_value table = mf_arange(16, MF_I32), x = mf_arange(8, MF_I32);
    mf_function f = mf_pmap(mf_closure(plus_last, &table));
    EXPECT(mf_call(f, x), 15, 16, 17, 18, 19, 20, 21, 22);
    mf_cache_counters before = mf_cache_read();
    EXPECT(mf_call(f, x), 15, 16, 17, 18, 19, 20, 21, 22);
    EXPECT(mf_call(mf_pmap(mf_closure(plus_last, &table)), x), 15, 16, 17, 18, 19, 20, 21, 22); /* an equal closure is the same function */
    CHECK_EQ_INT(mf_cache_read().compilations, before.compilations);
    mf_value again = mf_arange(16, MF_I32);
    EXPECT(mf_call(mf_pmap(mf_closure(plus_last, &again)), x), 15, 16, 17, 18, 19, 20, 21, 22);
}

TEST(constant_on_shuffled_devices)
{
    mf_device order[7];
    static const int ids[7] = { 3, 6, 0, 5, 1, 4, 2 };
    for (int i = 0; i < 7; i++)
        order[i] = mf_devices().at[ids[i]];
    mf_value r = mf_call(mf_pmap(three, .devices = { 7, order }), INTS(7));
    EXPECT(r, 3, 3, 3, 3, 3, 3, 3);
    mf_device_list on = mf_devices_of_array(r);
    REQUIRE(CHECK_EQ_INT(on.count, 7));
    for (int i = 0; i < 7; i++)
        CHECK_EQ_INT(mf_device_id(on.at[i]), ids[i]);
}

FN(itself_and_three, mf_tuple(v, 3))

TEST(nested_constant)
{
    mf_value x = INTS(2, 4, 3), r = mf_call(mf_pmap(mf_pmap(three)), x);
    EXPECT_SAME(r, mf_full(MF_SHAPE(2, 4), mf_i(3)));
    mf_value sharded = mf_call(mf_pmap(mf_pmap(same)), mf_ones(MF_SHAPE(2, 4), MF_F32)),
             both = mf_call(mf_pmap(mf_pmap(itself_and_three)), x);
    CHECK_EQ_INT(mf_devices_of_array(r).count, 8);
    CHECK(mf_devices_of_array(r).at == mf_devices_of_array(sharded).at);
    CHECK(mf_devices_of_array(mf_get(both, 0)).at == mf_devices_of_array(mf_get(both, 1)).at);
}

FN(size, ((void)v, mf_axis_size("i")))
FN(sizes, ((void)v, mf_tuple(mf_axis_size("i"), mf_axis_size("j"), mf_axis_size("i", "j"))))

TEST(axis_size)
{
    EXPECT(mf_call(mf_pmap(size, "i"), INTS(8)), 8, 8, 8, 8, 8, 8, 8, 8);
    mf_value r = mf_call(mf_pmap(mf_pmap(sizes, "j"), "i"), INTS(4, 2, 4));
    for (int i = 0; i < 3; i++)
        CHECK_STR(mf_str(mf_shape_of(mf_get(r, i))), "(4, 2)");
    EXPECT(mf_get(r, 0), 4, 4, 4, 4, 4, 4, 4, 4);
    EXPECT(mf_get(r, 1), 2, 2, 2, 2, 2, 2, 2, 2);
    EXPECT(mf_get(r, 2), 8, 8, 8, 8, 8, 8, 8, 8);
}

FN(sum_of_f32_zero, ((void)v, mf_psum(mf_scalar(0, MF_F32), "i")))
FN(sum_of_i32_zero, ((void)v, mf_psum(mf_scalar(0, MF_I32), "i")))

TEST(sum_of_a_constant_keeps_its_dtype)
{
    CHECK_EQ_INT(mf_dtype_of(mf_call(mf_pmap(sum_of_f32_zero, "i"), INTS(8))), MF_F32);
    CHECK_EQ_INT(mf_dtype_of(mf_call(mf_pmap(sum_of_i32_zero, "i"), INTS(8))), MF_I32);
}

FN(sum, mf_psum(v, "i"))
FN(mean, mf_pmean(v, "i"))

TEST(sum_and_mean_of_bool)
{
    mf_value x = mf_array(MF_BOOL, MF_SHAPE(2), 1, 0);
    EXPECT(mf_call(mf_pmap(sum, "i"), x), 1, 1);
    EXPECT(mf_call(mf_pmap(mean, "i"), x), 0.5, 0.5);
    CHECK_EQ_INT(mf_dtype_of(mf_call(mf_pmap(sum, "i"), x)), MF_I32);
}

FN2(plus, x, y, mf_add(x, y))

TEST(numbers_as_unmapped_arguments)
{
    mf_value x = mf_zeros(MF_SHAPE(8, 5), MF_F32);
    for (int i = 0; i < 2; i++)
        EXPECT_SAME(mf_call(mf_pmap(plus, .in_axes = mf_axes(0, MF_NONE)), x, 2.0), mf_full(MF_SHAPE(8, 5), mf_scalar(2, MF_F32)));
}

TEST(more_elements_than_an_int_counts)
{
    mf_value row = mf_call(mf_pmap(same), mf_ones(MF_SHAPE(1, 1, 1024), MF_I8));
    mf_value all = mf_broadcast_to(row, MF_SHAPE(8, 267736, 1024)); /* a view: two gigabytes that nobody has to hold */
    CHECK_EQ_INT(mf_size(all), 8ll * 267736 * 1024);
    CHECK_EQ_INT(mf_item_i64(mf_get(all, 7, 267735, 1023)), 1);
}

/* ---- static arguments */

typedef double (*number_fn)(void);
static double three_exactly(void) { return 3; }
static double four_exactly(void) { return 4; }
static mf_value sine_of_sum(mf_value x, mf_value f)
{
    size_t size;
    const number_fn *call = mf_static_data(f, &size);
    return mf_sin(mf_add(x, (*call)()));
}

TEST(static_argument_that_is_a_function)
{
    mf_value x = FLOATS(8, 4);
    mf_function f = mf_pmap(sine_of_sum, "i", .static_broadcasted_argnums = MF_INTS(1));
    number_fn three = three_exactly, four = four_exactly;
    EXPECT_SAME(mf_call(f, x, mf_static_bytes(&three, sizeof three)), mf_sin(mf_add(x, 3.0)));
    EXPECT_SAME(mf_call(f, x, mf_static_bytes(&four, sizeof four)), mf_sin(mf_add(x, 4.0)));
}

typedef struct object {
    int amount;
} object;
static mf_value method(mf_value self, mf_value x)
{
    size_t size;
    const object *o = mf_static_data(self, &size);
    return mf_add(x, o->amount);
}

TEST(static_argument_that_is_an_object)
{
    object two = { 2 }, five = { 5 };
    mf_function f = mf_pmap(method, .static_broadcasted_argnums = MF_INTS(0));
    EXPECT(mf_call(f, mf_static_bytes(&two, sizeof two), I32(3, 3, 3)), 5, 5, 5);
    EXPECT(mf_call(f, mf_static_bytes(&five, sizeof five), I32(3, 3, 3)), 8, 8, 8);
}

FN2(plus_three, x, y, ((void)y, mf_add(x, 3)))

TEST(static_argument_that_is_none)
{
    mf_value v = mf_call(mf_pmap(plus_three, .static_broadcasted_argnums = MF_INTS(1)), mf_full(MF_SHAPE(8), mf_i(1)),
                         mf_ones(MF_SHAPE(3), MF_F32));
    EXPECT_ERROR(v, "static");
}

/* ---- jit around and within */

TEST(jit_of_pmap_and_pmap_of_jit)
{
    mf_value x = FLOATS(8, 4), expected = mf_sub(x, mf_sum(x, 0));
    EXPECT_SAME(mf_call(mf_jit(mf_pmap(minus_sum, "i")), x), expected);
    EXPECT_SAME(mf_call(mf_pmap(mf_jit(minus_sum), "i"), x), expected);
}

OVER(new_axis_times, v, mf_mul(mf_expand_dims(v, 0), w))
OVER(inner_jit, z, mf_call(mf_pmap(mf_closure(new_axis_times, &w)), z))
static mf_value jit_twice(mf_value x)
{
    mf_value y = mf_mul(mf_scalar(2, MF_F32), x);
    return mf_call(mf_jit(mf_closure(inner_jit, &y)), x);
}

TEST(pmap_in_jit_in_jit_over_a_capture)
{
    mf_value r = mf_call(mf_jit(jit_twice), mf_full(MF_SHAPE(1, 1), mf_scalar(3, MF_F32)));
    EXPECT(r, 18);
    CHECK_STR(mf_str(mf_shape_of(r)), "(1, 1, 1)");
}

static mf_value exchange(mf_value i, mf_value state)
{
    (void)i;
    return mf_call(mf_pmap(mf_jit(same), "x"), state);
}
FN(time_evolution, mf_fori_loop(0, 1, exchange, v))

TEST(pmap_in_a_loop_in_jit) { EXPECT_SAME(mf_call(mf_jit(time_evolution), mf_zeros(MF_SHAPE(8), MF_F32)), mf_zeros(MF_SHAPE(8), MF_F32)); }

FN2(pass_on, i, s, ((void)i, s))
FN2(multi_step, s, count, mf_fori_loop(0, count, pass_on, s))
OVER(count_captured, s, mf_call(mf_jit(multi_step), s, w))
FN2(multi_step_pmap, s, count, mf_call(mf_pmap(mf_closure(count_captured, &count), "x"), s))

TEST(traced_count_captured_by_pmap)
{
    EXPECT_SAME(mf_call(mf_jit(multi_step_pmap), mf_ones(MF_SHAPE(8, 100), MF_F32), 2), mf_ones(MF_SHAPE(8, 100), MF_F32));
}

TEST(jit_of_pmap_again_and_again)
{
    mf_function f = mf_jit(mf_pmap(twice));
    mf_value x = mf_ones(MF_SHAPE(2, 2, 2), MF_F32);
    for (int i = 0; i < 10; i++) {
        x = mf_call(f, x);
        mf_block_until_ready(x);
        CHECK_EQ_INT(mf_devices_of_array(x).count, 2);
    }
    EXPECT_SAME(x, mf_full(MF_SHAPE(2, 2, 2), mf_scalar(1024, MF_F32)));
}

static int errors_seen;
static void count_error(mf_status status, const char *message, void *context)
{
    (void)status, (void)message, (void)context;
    errors_seen++;
}

TEST(jit_of_pmap_needs_no_warning)
{
    mf_set_error_hook(count_error, NULL);
    mf_value r = mf_call(mf_jit(mf_pmap(same)), INTS(8));
    EXPECT(r, 0, 1, 2, 3, 4, 5, 6, 7);
    CHECK_EQ_INT(errors_seen, 0);
    CHECK_EQ_INT(mf_devices_of_array(r).count, 8); /* the results stay where the map put them: nothing is moved together */
    mf_set_error_hook(NULL, NULL);
}

FN(either, mf_cond(true, mf_pmap(same), mf_pmap(same), v))

TEST(pmaps_as_branches) { EXPECT_SAME(either(FLOATS(8, 2)), FLOATS(8, 2)); }

FN(one_hot_of_three, mf_astype(mf_equal(v, mf_arange(3, MF_I32)), MF_F32))

TEST(backend_by_name)
{
    mf_function f = mf_pmap(mf_pmap(one_hot_of_three, "i", .backend = "cpu"), "j", .backend = "cpu");
    mf_value r = mf_call(f, mf_reshape(I32(2, 1, 0, 0), MF_SHAPE(2, 2, 1)));
    EXPECT(r, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 0);
}

/* A matrix exponential by scaling and squaring, so deep that a small stack would not do: 2^-10 x to the 20th power, squared ten times. */
static mf_value exponential(mf_value x)
{
    mf_value y = mf_mul(x, 1.0 / 1024), term = mf_eye(200, MF_F32), sum = term;
    for (int i = 1; i <= 8; i++) {
        term = mf_div(mf_matmul(term, y), (double)i);
        sum = mf_add(sum, term);
    }
    for (int i = 0; i < 10; i++)
        sum = mf_matmul(sum, sum);
    return sum;
}

TEST(deep_program_on_every_device)
{
    mf_value x = mf_eye(200, MF_F32), r = mf_call(mf_pmap(exponential), mf_stack(mf_list(x, x), 0));
    EXPECT_CLOSE(mf_get(r, 1), mf_mul(x, exp(1)), 1e-3);
}
