/* grad and value_and_grad as users call them: what can be differentiated, and the structure of the gradients. */
#include "check_values.h"

/* ---- allow_int */

static mf_value scaled_sum(mf_value n, mf_value x) { return mf_sum(mf_mul(mf_get(n, 0), x)); }
static mf_value count_alone(mf_value n, mf_value b) { return mf_where(b, mf_mul(1.5, n), 0.0); }
static mf_value itself(mf_value n) { return n; }

TEST(integers_have_zeros)
{
    mf_value n = mf_arange(3, MF_I32), x = mf_arange(2, MF_F32);
    TEXT(mf_call(mf_grad(scaled_sum, .allow_int = true), n, x), "[0 0 0]");
    TEXT(mf_call(mf_grad(scaled_sum, .allow_int = true, .argnums = MF_INTS(0, 1)), n, x), "([0 0 0], [0. 0.])");
    mf_value g = mf_call(mf_jit(mf_grad(count_alone, .allow_int = true, .argnums = MF_INTS(0, 1))), 3, mf_b(true));
    TEXT(g, "(0, False)");
    CHECK_EQ_INT(mf_dtype_of(mf_get(g, 0)), MF_I32);
    FAILS(mf_call(mf_grad(scaled_sum), n, x), "argument 0 of scaled_sum is int32[3]; .allow_int takes integers and bools");
    FAILS(mf_call(mf_grad(itself, .allow_int = true), 3), "grad requires real-valued outputs; the output of itself is int32[]");
    FAILS(mf_call(mf_grad(itself, .allow_int = true), mf_string("a")), "a static");
}

/* ---- statics of the function inside */

static mf_value above_one(mf_value x, mf_value s) { return mf_item_f64(s) > 1 ? mf_mul(x, s) : x; }
static mf_value sum_above_one(mf_value x, mf_value s) { return mf_sum(above_one(x, s)); }

TEST(a_static_stays_one_through_grad_and_vmap)
{
    mf_value x = mf_arange(2, MF_F32), rows = mf_ones(MF_SHAPE(2, 3), MF_F32);
    mf_function pmapped = mf_pmap(above_one, .static_broadcasted_argnums = MF_INTS(1), .devices = mf_device_slice(mf_devices(), 0, 1));
    TEXT(mf_call(mf_grad(mf_jit(sum_above_one, .static_argnums = MF_INTS(1))), x, 2.0), "[2. 2.]");
    TEXT(mf_call(mf_grad(mf_remat(sum_above_one, .static_argnums = MF_INTS(-1))), x, 1), "[1. 1.]");
    TEXT(mf_call(mf_value_and_grad(mf_jit(sum_above_one, .static_argnums = MF_INTS(1))), x, 2.0), "(2.0, [2. 2.])");
    TEXT(mf_call(mf_grad(mf_grad(mf_jit(sum_above_one, .static_argnums = MF_INTS(1)))), 3.0, 2.0), "0.0");
    mf_axis first = mf_axes(0, MF_NONE);
    TEXT(mf_call(mf_vmap(mf_jit(sum_above_one, .static_argnums = MF_INTS(1)), .in_axes = first), rows, 2.0), "[6. 6.]");
    TEXT(mf_call(mf_vmap(pmapped, .in_axes = first), mf_ones(MF_SHAPE(2, 1), MF_F32), 2.0), "[[2.]\n [2.]]");
    FAILS(mf_call(mf_jit(pmapped), mf_ones(MF_SHAPE(1), MF_F32), 2.0),
          "static argument 1 of pmap(above_one) is a traced value (float32[])");
    FAILS(mf_call(mf_grad(mf_jit(sum_above_one, .static_argnums = MF_INTS(1)), .argnums = MF_INTS(1)), x, 2.0), "is a static");
}

static mf_value power(mf_value x, mf_value n)
{
    mf_value y = x;
    for (int64_t i = 1; i < mf_item_i64(n); i++)
        y = mf_mul(y, x);
    return y;
}
static mf_value sum_of_power(mf_value x, mf_value n) { return mf_sum(power(x, n)); }

TEST(a_static_stays_one_through_jacobians)
{
    mf_value x = mf_arange(3, MF_F32);
    mf_function f = mf_jit(power, .static_argnums = MF_INTS(1)), scalar = mf_jit(sum_of_power, .static_argnums = MF_INTS(-1));
    TEXT(mf_call(mf_jacfwd(f), x, 2), "[[0. 0. 0.]\n [0. 2. 0.]\n [0. 0. 4.]]");
    TEXT(mf_call(mf_jacrev(f), x, 2), "[[0. 0. 0.]\n [0. 2. 0.]\n [0. 0. 4.]]");
    TEXT(mf_call(mf_hessian(scalar), x, 3), "[[ 0.  0.  0.]\n [ 0.  6.  0.]\n [ 0.  0. 12.]]");
    TEXT(mf_call(mf_jit(mf_jacrev(mf_grad(scalar)), .static_argnums = MF_INTS(1)), 2.0, 3), "12.0");
}

/* ---- with respect to states */

static mf_value apply_linear(mf_module self, mf_value x)
{
    return mf_add(mf_mul(mf_state_value(mf_member_state(self, "kernel")), x), mf_state_value(mf_member_state(self, "bias")));
}
static mf_value apply_net(mf_module self, mf_value x)
{
    mf_state seen = mf_member_state(self, "seen");
    (void)mf_state_set_value(seen, mf_add(mf_state_value(seen), 1));
    return mf_call(mf_member_module(self, "head"), mf_call(mf_member_module(self, "encoder"), x));
}
static mf_module linear(double kernel, double bias)
{
    return mf_module_new("Linear", apply_linear, "kernel", mf_param_state(mf_scalar(kernel, MF_F32)), "bias",
                         mf_param_state(mf_scalar(bias, MF_F32)));
}
static mf_module net(void)
{
    return mf_module_new("Net", apply_net, "encoder", linear(3, 1), "head", linear(2, 0), "seen", mf_batch_state(mf_scalar(0, MF_I32)));
}

TEST(states_by_filter)
{
    mf_module m = net();
    mf_filter params = mf_of_type(MF_PARAM_STATE), head = mf_filter_all(params, mf_path_contains("head"));
    mf_value x = mf_scalar(5, MF_F32); /* 2 (3 x + 1) */
    const char *all = "{'encoder': {'bias': 2.0, 'kernel': 10.0}, 'head': {'bias': 1.0, 'kernel': 16.0}}";
    TEXT(mf_call(mf_grad(m, .states = params), x), all);
    TEXT(mf_call(mf_jit(mf_grad(m, .states = params)), x), all);
    TEXT(mf_call(mf_value_and_grad(m, .states = head), x), "(32.0, {'head': {'bias': 1.0, 'kernel': 16.0}})");
    TEXT(mf_call(mf_grad(m, .states = head, .argnums = MF_INTS(0)), x), "({'head': {'bias': 1.0, 'kernel': 16.0}}, 6.0)");
    TEXT(mf_state_value(mf_member_state(m, "seen")), "4"); /* written once, as in a plain call */
    TEXT(mf_call(mf_grad(m), x), "6.0");
    mf_value summed = mf_call(mf_vmap(mf_grad(m, .states = head), .out_axes = 0), mf_stack(mf_list(x, x), 0));
    TEXT(summed, "{'head': {'bias': [1. 1.], 'kernel': [16. 16.]}}");
    mf_value ints = mf_call(mf_grad(m, .states = mf_everything(), .allow_int = true), x);
    TEXT(mf_get(ints, "seen"), "0");
    FAILS(mf_call(mf_grad(m, .states = mf_everything()), x), "state seen of Net is int32[]");
    FAILS(mf_call(mf_grad(m, .states = mf_path_contains("tail")), x), "reads no state that the filter of .states accepts");
    FAILS(mf_call(mf_grad(m, .states = mf_path_contains("")), x), "no name is given");
}

/* A frozen encoder: a training loop with a filter. */
static mf_value descend(mf_value value, mf_value gradient) { return mf_sub(value, mf_mul(0.001, gradient)); }
static mf_value error_of(void *m, mf_value x) { return mf_square(mf_sub(mf_call(*(mf_module *)m, x), 7.0)); }

TEST(training_with_a_frozen_submodule)
{
    mf_module m = net();
    mf_filter trained = mf_filter_all(mf_of_type(MF_PARAM_STATE), mf_filter_not(mf_path_contains("encoder")));
    mf_function f = mf_jit(mf_value_and_grad(mf_closure(error_of, &m), .states = trained));
    double loss = 0;
    for (int step = 0; step < 50; step++) {
        mf_value pair = mf_call(f, mf_scalar(5, MF_F32));
        loss = mf_item_f64(mf_get(pair, 0));
        mf_module_update(m, mf_tree_map(descend, mf_module_values(m, trained), mf_get(pair, 1)));
    }
    CHECK(loss < 1e-6);
    TEXT(mf_module_values(m, mf_path_contains("encoder")), "{'encoder': {'bias': 1.0, 'kernel': 3.0}}");
}

static mf_value of_states(void *states, mf_value x)
{
    mf_state *s = states;
    return mf_mul(mf_mul(mf_state_value(s[0]), mf_state_value(s[1])), x);
}

TEST(states_without_a_module)
{
    mf_state two[2] = { mf_param_state(mf_scalar(2, MF_F32)), mf_param_state(mf_scalar(3, MF_F32)) };
    mf_function f = mf_closure(of_states, (mf_state(*)[2])two);
    TEXT(mf_call(mf_grad(f, .states = mf_everything()), 5.0), "{'0': 15.0, '1': 10.0}");
    (void)mf_module_new("A", apply_net, "w", two[0]);
    (void)mf_module_new("B", apply_net, "w", two[1]);
    FAILS(mf_call(mf_grad(f, .states = mf_everything()), 5.0), "two states are at w");
}

/* Reads w, writes 2 w + m into it and the mean of x into m, then reads w again: (2 w + m) x. */
static mf_value writes_states(void *states, mf_value x)
{
    mf_state *s = states;
    (void)mf_state_set_value(s[0], mf_add(mf_mul(2, mf_state_value(s[0])), mf_state_value(s[1])));
    (void)mf_state_set_value(s[1], mf_mean(x));
    return mf_sum(mf_mul(mf_state_value(s[0]), x));
}
static mf_value writes_and_fails(void *states, mf_value x) { return mf_add(writes_states(states, x), mf_ones(MF_SHAPE(7), MF_F32)); }

static void check_written(mf_function (*wrapped)(mf_function f))
{
    mf_state s[2] = { mf_param_state(mf_scalar(3, MF_F32)), mf_batch_state(mf_scalar(1, MF_F32)) };
    mf_value x = mf_array(MF_F32, MF_SHAPE(2), 4, 6);
    mf_function f = mf_closure(writes_states, (mf_state(*)[2])s);
    TEXT(mf_call(wrapped(mf_value_and_grad(f, .states = mf_everything())), x), "(70.0, {'0': 20.0, '1': 10.0})");
    TEXT(mf_state_value(s[0]), "7.0"); /* of the values before the call; written once */
    TEXT(mf_state_value(s[1]), "5.0");
    TEXT(mf_call(wrapped(mf_grad(f, .states = mf_of_type(MF_PARAM_STATE))), x), "{'0': 20.0}");
    TEXT(mf_state_value(s[0]), "19.0");
    TEXT(mf_call(wrapped(mf_grad(f, .states = mf_of_type(MF_BATCH_STATE), .argnums = MF_INTS(0))), x), "({'0': 10.0}, [43. 43.])");
    TEXT(mf_state_value(s[0]), "43.0");
    FAILS(mf_call(wrapped(mf_grad(mf_closure(writes_and_fails, (mf_state(*)[2])s), .states = mf_everything())), x), "had shape float32[7]");
    TEXT(mf_state_value(s[0]), "43.0"); /* an error leaves the states unchanged */
    TEXT(mf_state_value(s[1]), "5.0");
}

static mf_function as_is(mf_function f) { return f; }
static mf_function jitted(mf_function f) { return mf_jit(f); }

TEST(states_that_are_written)
{
    check_written(as_is);
    check_written(jitted);
}

/* pmax has no derivative, and of what is not differentiated by none is asked for. */
static mf_value by_greatest(mf_value x, mf_value w) { return mf_mul(mf_mul(mf_square(w), w), mf_pmax(x, "i")); }
static mf_value greatest_last(mf_value w, mf_value x) { return by_greatest(x, w); }
static mf_value pulled_back(mf_value w, mf_value x)
{
    mf_function pullback;
    (void)mf_vjp(mf_partial(by_greatest, x), mf_tuple(w), &pullback);
    return mf_get(mf_call(pullback, 1.0), 0);
}

TEST(what_is_captured_is_not_differentiated)
{
    MF_SCOPE;
    mf_value w = mf_array(MF_F32, MF_SHAPE(2), 1, 2), x = mf_array(MF_F32, MF_SHAPE(2), 3, 5);
    TEXT(mf_call(mf_vmap(mf_jacrev(greatest_last), "i"), w, x), "[15. 60.]");
    TEXT(mf_call(mf_vmap(mf_hessian(greatest_last), "i"), w, x), "[30. 60.]");
    TEXT(mf_call(mf_pmap(mf_hessian(greatest_last), "i", .devices = mf_device_slice(mf_devices(), 0, 1)), mf_get(w, mf_range(0, 1)),
                 mf_get(x, mf_range(0, 1))),
         "[18.]");
    TEXT(mf_call(mf_vmap(pulled_back, "i"), w, x), "[15. 60.]");
    FAILS(mf_call(mf_vmap(mf_jacrev(greatest_last, .argnums = MF_INTS(1)), "i"), w, x), "Differentiation rule for 'pmax'");
}
