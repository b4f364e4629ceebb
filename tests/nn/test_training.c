/* Layers in training: statistics over all devices, separate keys for each device; and neither in evaluation mode. */
#include "check_values.h"
#include "steady.h"

enum { DEVICES = 4 };

static double greatest_difference(mf_value a, mf_value b)
{
    return mf_item_f64(mf_max(mf_abs(mf_sub(mf_astype(a, MF_F64), mf_astype(b, MF_F64)))));
}

/* ---- synchronised statistics */

static mf_value apply(void *context, mf_value x) { return mf_call(*(mf_module *)context, x); }

TEST(statistics_are_those_of_all_devices)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    mf_module together = mf_nn_batch_norm(mf_random_state(0), 3), apart = mf_nn_batch_norm(mf_random_state(0), 3, .axis_name = "devices");
    mf_value x = mf_random_normal(mf_random_key(1), MF_SHAPE(8, 5, 3), MF_F32), parts = mf_shard_batch(x, DEVICES);
    mf_value y = mf_call(mf_pmap(mf_closure(apply, &apart), .axis_name = "devices"), parts);
    CHECK(greatest_difference(mf_reshape(y, MF_SHAPE(8, 5, 3)), mf_call(together, x)) < 1e-5);
    CHECK_EQ_INT(mf_ndim(mf_state_value(mf_member_state(apart, "mean"))), 1);
    CHECK(greatest_difference(mf_state_value(mf_member_state(apart, "mean")), mf_state_value(mf_member_state(together, "mean"))) < 1e-6);
    CHECK(greatest_difference(mf_state_value(mf_member_state(apart, "var")), mf_state_value(mf_member_state(together, "var"))) < 1e-6);
}

/* With the states as trees: each device's statistics are results of the map. */
static mf_value step(void *context, mf_value values, mf_value x)
{
    mf_module m = mf_module_merge(*(mf_module *)context, values);
    mf_value y = mf_call(m, x);
    return mf_tuple(y, mf_module_values(m, mf_everything()));
}

TEST(statistics_go_through_maps_as_trees)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    mf_module m = mf_nn_batch_norm(mf_random_state(0), 3, .axis_name = "devices"), same = mf_nn_batch_norm(mf_random_state(0), 3);
    mf_value x = mf_random_normal(mf_random_key(1), MF_SHAPE(DEVICES, 2, 3), MF_F32);
    mf_value values = mf_replicate(mf_module_values(m, mf_everything()), mf_local_devices());
    mf_value out = mf_call(mf_pmap(mf_closure(step, &m), .axis_name = "devices"), values, x);
    REQUIRE(CHECK_STR(mf_error(out), NULL));
    mf_call(same, mf_reshape(x, MF_SHAPE(2 * DEVICES, 3)));
    mf_value mean = mf_get(out, 1, "mean");
    for (int i = 0; i < DEVICES; i++)
        CHECK(greatest_difference(mf_get(mean, i), mf_state_value(mf_member_state(same, "mean"))) < 1e-6);
    CHECK_NEAR(mf_item_f64(mf_max(mf_state_value(mf_member_state(m, "mean")))), 0, 0); /* m itself is unchanged */
}

TEST(evaluation_uses_and_keeps_the_averages)
{
    MF_SCOPE;
    mf_module m = mf_nn_batch_norm(mf_random_state(0), 2), still = mf_nn_eval(m);
    mf_value x = mf_array(MF_F32, MF_SHAPE(2, 2), 1, 2, 3, 4);
    CHECK(greatest_difference(mf_call(still, x), mf_div(x, sqrt(1 + 1e-5))) < 1e-6);
    CHECK_NEAR(mf_item_f64(mf_max(mf_state_value(mf_member_state(m, "mean")))), 0, 0);
    mf_call(mf_jit(m), x);
    CHECK_NEAR(mf_item_f64(mf_max(mf_state_value(mf_member_state(still, "mean")))), 0.03, 1e-7);
}

TEST(narrow_floats_are_normalised_in_wide_ones)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    mf_value x = mf_add(mf_random_normal(mf_random_key(1), MF_SHAPE(64, 8), MF_F32), 30), narrow = mf_astype(x, MF_BF16);
    const mf_module norms[] = { mf_nn_batch_norm(r, 8), mf_nn_layer_norm(r, 8), mf_nn_rms_norm(r, 8),
                                mf_nn_group_norm(r, 8, .num_groups = 2) };
    for (int i = 0; i < 4; i++) {
        mf_value y = mf_call(norms[i], narrow), wide = mf_call(norms[i], mf_astype(narrow, MF_F32));
        CHECK_EQ_INT(mf_dtype_of(y), MF_BF16);
        CHECK(greatest_difference(y, wide) < 0.04); /* values up to 4, rounded to 8 bits */
    }
    CHECK_EQ_INT(mf_dtype_of(mf_call(mf_nn_layer_norm(r, 8, .dtype = MF_BF16), x)), MF_BF16);
}

/* ---- dropout */

TEST(dropout_drops_and_keeps_the_mean)
{
    MF_SCOPE;
    mf_module m = mf_nn_dropout(mf_random_state(3), 0.5), still = mf_nn_eval(m);
    mf_value x = mf_ones(MF_SHAPE(100, 100), MF_F32), a = mf_call(m, x), b = mf_call(m, x);
    CHECK_NEAR(mf_item_f64(mf_mean(a)), 1, 0.05); /* five deviations of 10,000 draws */
    CHECK(!mf_item_bool(mf_array_equal(a, b)));
    CHECK(mf_item_bool(mf_all(mf_logical_or(mf_equal(a, 0), mf_equal(a, 2)))));
    mf_value key = mf_state_value(mf_member_state(m, "rngs"));
    CHECK(mf_item_bool(mf_array_equal(mf_call(still, x), x)));
    CHECK(mf_item_bool(mf_array_equal(mf_state_value(mf_member_state(m, "rngs")), key)));
    CHECK_NEAR(mf_item_f64(mf_max(mf_call(mf_nn_dropout(mf_random_state(3), 1), x))), 0, 0);
    CHECK(mf_item_bool(mf_array_equal(mf_call(mf_nn_dropout(mf_random_state(3), 0), x), x)));
}

TEST(dropout_draws_anew_on_each_device)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    mf_module m = mf_nn_dropout(mf_random_state(3), 0.5);
    mf_value y = mf_call(mf_pmap2(m, .axis_name = "devices"), mf_ones(MF_SHAPE(DEVICES, 64), MF_F32));
    REQUIRE(CHECK_STR(mf_error(y), NULL));
    for (int i = 1; i < DEVICES; i++)
        CHECK(!mf_item_bool(mf_array_equal(mf_get(y, 0), mf_get(y, i))));
    mf_value again = mf_call(mf_pmap2(mf_nn_dropout(mf_random_state(3), 0.5), .axis_name = "devices"),
                             mf_ones(MF_SHAPE(DEVICES, 64), MF_F32));
    CHECK(mf_item_bool(mf_array_equal(y, again)));
}

/* ---- rows and lists */

static mf_value both(mf_module self, mf_value x)
{
    (void)self;
    return mf_tuple(x, mf_neg(x));
}

TEST(rows_and_lists_hold_any_number)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    mf_module blocks[3] = { mf_nn_linear(r, 2, 2), mf_nn_linear(r, 2, 2), mf_nn_linear(r, 2, 2) }, list = mf_nn_list_n(blocks, 3);
    CHECK_EQ_INT(mf_member_count(list), 3);
    CHECK(mf_state_same(mf_member_state(mf_nn_at(list, 2), "kernel"), mf_member_state(blocks[2], "kernel")));
    CHECK_EQ_INT(mf_len(mf_module_values(list, mf_everything())), 3);
    FAILS(mf_nn_at(list, 3), "a list of 3 modules has no number 3");
    FAILS(mf_call(list, 1), "List of 3 modules was called");
    mf_module pair = mf_module_new("Both", both, "k", 1), row = mf_nn_sequential(pair, mf_add, mf_relu, blocks[0]);
    CHECK_NEAR(mf_item_f64(mf_max(mf_abs(mf_call(row, mf_ones(MF_SHAPE(2), MF_F32))))), 0, 0);
    CHECK(mf_state_same(mf_member_state(row, "layers/3/kernel"), mf_member_state(blocks[0], "kernel")));
    CHECK_EQ_INT(mf_len(mf_get(mf_module_values(row, mf_everything()), "layers")), 1);
    FAILS(mf_call(mf_nn_sequential(pair, mf_relu), 1), "but was called with 2");
    FAILS(mf_nn_sequential_n(NULL, -1), "a list of -1 modules");
}

TEST(wrong_options_name_the_layer)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    mf_value x = mf_ones(MF_SHAPE(2, 3), MF_F32);
    FAILS(mf_nn_dropout(r, 1.5), "Dropout: the rate is 1.5; it must be from 0 to 1");
    FAILS(mf_call(mf_nn_dropout(r, 0.5, .broadcast_dims = MF_INTS(2)), x), "Dropout: entry 0 of broadcast_dims, 2, is no dimension");
    FAILS(mf_nn_batch_norm(r, 0), "BatchNorm: num_features is 0; it must be at least 1");
    FAILS(mf_call(mf_nn_batch_norm(r, 4), x), "BatchNorm: an input of the shape (2, 3) has 3 features, the layer 4");
    FAILS(mf_call(mf_nn_batch_norm(r, 3, .axis = 2), x), "BatchNorm: entry 0 of axis, 2, is no dimension of an input of the shape (2, 3)");
    FAILS(mf_call(mf_nn_batch_norm(r, 3, .axis_name = "nowhere"), x), "nowhere");
    FAILS(mf_call(mf_nn_layer_norm(r, 4), x), "LayerNorm: an input of the shape (2, 3) has 3 features, the layer 4");
    FAILS(mf_call(mf_nn_layer_norm(r, 3, .reduction_axes = MF_INTS(5)), x), "LayerNorm: entry 0 of reduction_axes, 5");
    FAILS(mf_call(mf_nn_rms_norm(r, 3), x, x, x), "RMSNorm takes an input and perhaps a mask, not 3 arguments");
    FAILS(mf_nn_group_norm(r, 6, .num_groups = 4), "GroupNorm: 6 features do not divide into 4 groups");
    CHECK_STR(mf_error(mf_nn_group_norm(r, 6, .num_groups = 4)), "GroupNorm: 6 features do not divide into 4 groups");
    FAILS(mf_nn_group_norm(r, 6, .group_size = 4), "GroupNorm: 6 features do not divide into groups of 4");
    FAILS(mf_call(mf_nn_group_norm(r, 3, .num_groups = 1), mf_ones(MF_SHAPE(3), MF_F32)), "GroupNorm: an input of the shape (3,)");
}

/* ---- training steps of a whole model */

static mf_value loss_of(void *context, mf_value params, mf_value x)
{
    mf_value y = mf_apply(*(mf_module *)context, params, x);
    return mf_mean(mf_squared_error(y, mf_ones_like(y)));
}

static mf_value stepped(mf_value p, mf_value g) { return mf_sub(p, mf_mul(g, 0.1)); }

static mf_value train_step(void *context, mf_value params, mf_value x)
{
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(loss_of, (mf_module *)context)), params, x), &loss, &grads);
    return mf_tuple(mf_tree_map(stepped, params, mf_pmean(grads, "devices")), mf_pmean(loss, "devices"));
}

static double one_step(mf_function step, mf_value *params, mf_value x)
{
    MF_SCOPE;
    mf_value next, loss;
    mf_unpack(mf_call(step, *params, x), &next, &loss);
    mf_assign(params, next);
    return mf_item_f64(mf_get(loss, 0));
}

/* With batch statistics and keys as states that the map handles implicitly. */
TEST(a_steady_step_takes_no_array_memory)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    mf_state r = mf_random_state(0);
    mf_module m = mf_nn_sequential(mf_nn_linear(r, 8, 16), mf_nn_batch_norm(r, 16, .axis_name = "devices"), mf_relu, mf_nn_dropout(r, 0.1),
                                   mf_nn_layer_norm(r, 16), mf_nn_linear(r, 16, 4));
    mf_value params = mf_replicate(mf_module_values(m, mf_of_type(MF_PARAM_STATE)), mf_local_devices());
    mf_value x = mf_random_normal(mf_random_key(1), MF_SHAPE(DEVICES, 8, 8), MF_F32);
    mf_function step = mf_pmap2(mf_closure(train_step, &m), .axis_name = "devices", .donate_argnums = MF_INTS(0));
    double first = one_step(step, &params, x), last = first;
    REQUIRE(CHECK_STR(mf_error(params), NULL));
    for (int i = 0; i < 5; i++)
        one_step(step, &params, x);
    CHECK_STEADY(last = one_step(step, &params, x));
    CHECK(last < first);
}

/* ---- gradients through synchronised statistics */

static mf_value cubes_of(void *context, mf_value params, mf_value x)
{
    return mf_mean(mf_integer_pow(mf_apply(*(mf_module *)context, params, x), 3));
}

static mf_value mean_gradient(void *context, mf_value params, mf_value x)
{
    return mf_pmean(mf_call(mf_grad(mf_closure(cubes_of, (mf_module *)context)), params, x), "devices");
}

TEST(gradients_are_those_of_the_whole_batch)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    mf_state r = mf_random_state(0), same = mf_random_state(0);
    mf_module apart = mf_nn_sequential(mf_nn_linear(r, 3, 5), mf_nn_batch_norm(r, 5, .axis_name = "devices"));
    mf_module together = mf_nn_sequential(mf_nn_linear(same, 3, 5), mf_nn_batch_norm(same, 5));
    mf_value params = mf_module_values(apart, mf_of_type(MF_PARAM_STATE));
    mf_value x = mf_random_normal(mf_random_key(1), MF_SHAPE(4 * DEVICES, 3), MF_F32);
    mf_value whole = mf_tree_leaves(mf_call(mf_grad(mf_closure(cubes_of, &together)), params, x));
    mf_function f = mf_pmap2(mf_closure(mean_gradient, &apart), .axis_name = "devices", .in_axes = mf_axes(MF_NONE, 0));
    mf_value parts = mf_tree_leaves(mf_unreplicate(mf_call(f, params, mf_shard_batch(x, DEVICES))));
    REQUIRE(CHECK_STR(mf_error(parts), NULL));
    CHECK_EQ_INT(mf_len(parts), 4);
    for (int i = 0; i < 4; i++)
        CHECK(greatest_difference(mf_get(parts, i), mf_get(whole, i)) < 1e-5);
}
