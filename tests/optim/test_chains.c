/* Chains of transformations as values: their states, equality, masks and freezing, gradient accumulation, loss scaling, and the errors if
 * they do not fit. */
#include "check_values.h"

static mf_value numbers(double a, double b) { return mf_array_n(MF_F32, MF_SHAPE(2), (double[]){ a, b }, 2); }
static mf_value model(void) { return mf_dict("encoder", mf_dict("kernel", numbers(1, 2)), "head", mf_dict("kernel", numbers(3, 4))); }

/* ---- as values */

static mf_value same_rate(mf_value count) { return mf_add(0.5, mf_mul(mf_astype(count, MF_F32), 0)); }

static mf_optimizer in_a_scope(void)
{
    MF_SCOPE; /* the handles of the schedule and the filter end here, but not the objects */
    mf_filter heads = mf_path_contains("head");
    return mf_chain(mf_clip_by_global_norm(1), mf_adamw(.schedule = mf_fn(same_rate), .mask = heads));
}

TEST(equal_chains_are_one)
{
    MF_SCOPE;
    mf_optimizer a = in_a_scope(), b = in_a_scope();
    CHECK(a.handle && a.handle == b.handle);
    CHECK(mf_chain(mf_sgd(.learning_rate = 1)).handle != mf_chain(mf_sgd(.learning_rate = 2)).handle);
    mf_value params = model(), state = mf_optim_init(a, params);
    TEXT(state,
         "((), {'count': 0, 'mu': {'encoder': {'kernel': [0. 0.]}, 'head': {'kernel': [0. 0.]}}, 'nu': {'encoder': {'kernel': [0. 0.]}, "
         "'head': {'kernel': [0. 0.]}}})");
    params = mf_optim_update(a, params, &state, params);
    CHECK_NEAR(mf_item_f64(mf_get(params, "encoder", "kernel", 1)), 1.5, 1e-5);
    CHECK_NEAR(mf_item_f64(mf_get(params, "head", "kernel", 1)), 3.5 - 4 * 0.5e-4, 1e-5); /* decayed weights */
    CHECK(mf_function_keep(same_rate).handle == mf_function_keep(same_rate).handle);
    CHECK(mf_filter_keep(mf_everything()).handle == mf_filter_keep(mf_everything()).handle);
}

TEST(transform_gives_what_apply_adds)
{
    MF_SCOPE;
    mf_optimizer o = mf_chain(mf_scale_updates(2), mf_scale_by_learning_rate(0.25));
    mf_value x = numbers(4, 8), state = mf_optim_init(o, x), updates = mf_optim_transform(o, numbers(1, 2), &state, x);
    TEXT(updates, "[-0.5 -1. ]");
    TEXT(mf_apply_updates(x, updates), "[3.5 7. ]");
    CHECK_EQ_INT(mf_dtype_of(mf_apply_updates(mf_astype(x, MF_BF16), updates)), MF_BF16);
}

/* ---- parts of a tree */

TEST(frozen_parameters_stay_to_the_bit)
{
    MF_SCOPE;
    mf_value params = model();
    mf_optimizer o = mf_multi_transform(mf_path_contains("encoder"), mf_set_to_zero(), mf_everything(), mf_adam(0.1));
    mf_value state = mf_optim_init(o, params), next = mf_optim_update(o, params, &state, params);
    CHECK(mf_item_bool(mf_array_equal(mf_get(next, "encoder", "kernel"), mf_get(params, "encoder", "kernel"))));
    CHECK_NEAR(mf_item_f64(mf_get(next, "head", "kernel", 0)), 2.9, 1e-5);
    TEXT(mf_get(state, 1, "inner_state", "mu"),
         "{'encoder': {'kernel': None}, 'head': {'kernel': [0.3 0.4]}}"); /* the other parameters have no moments */
    mf_optimizer head = mf_masked(mf_sgd(1.0), mf_path_contains("head/kernel"));
    state = mf_optim_init(head, params);
    TEXT(mf_optim_transform(head, params, &state, params), "{'encoder': {'kernel': [1. 2.]}, 'head': {'kernel': [-3. -4.]}}");
    mf_optimizer partial = mf_multi_transform(mf_path_contains("encoder"), mf_sgd(1.0));
    FAILS(mf_optim_init(partial, params), "multi_transform: no filter accepts the parameter ['head']['kernel']");
}

/* ---- gradient accumulation */

TEST(multi_steps_moves_by_the_mean)
{
    MF_SCOPE;
    mf_optimizer one = mf_adam(0.1), two = mf_multi_steps(one, 2);
    mf_value x = numbers(1, 2), y = x, a = mf_optim_init(one, x), b = mf_optim_init(two, y);
    for (int t = 0; t < 4; t++) {
        x = mf_optim_update(one, numbers(t, 2), &a, x);
        mf_value between = y;
        y = mf_optim_update(two, numbers(t - 1, 1), &b, y);
        CHECK(mf_item_bool(mf_array_equal(y, between)));
        y = mf_optim_update(two, numbers(t + 1, 3), &b, y);
        CHECK(mf_item_bool(mf_array_equal(x, y)));
    }
    CHECK_EQ_INT(mf_item_i64(mf_get(b, "gradient_step")), 4);
    CHECK_EQ_INT(mf_item_i64(mf_get(b, "mini_step")), 0);
}

TEST(steps_that_are_not_finite_are_left_out)
{
    MF_SCOPE;
    mf_optimizer o = mf_apply_if_finite(mf_sgd(1.0), 1);
    mf_value x = numbers(1, 2), state = mf_optim_init(o, x), none = numbers(1, (double)NAN);
    x = mf_optim_update(o, none, &state, x);
    TEXT(x, "[1. 2.]");
    TEXT(state, "{'inner_state': {'count': 0}, 'last_finite': False, 'notfinite_count': 1, 'total_notfinite': 1}");
    x = mf_optim_update(o, numbers(1, 1), &state, x);
    TEXT(x, "[0. 1.]");
    x = mf_optim_update(o, none, &state, x);
    x = mf_optim_update(o, none, &state, x); /* the second consecutive one is applied */
    CHECK(isnan(mf_item_f64(mf_get(x, 1))));
}

/* ---- loss scaling: doubled after 2 finite steps, halved after others, at least 1 */

TEST(the_loss_scale_moves)
{
    MF_SCOPE;
    mf_value s = mf_dynamic_loss_scale(8), x = mf_dict("w", mf_astype(numbers(1, 2), MF_F16));
    TEXT(mf_loss_scale(s, x), "{'w': [ 8. 16.]}");
    TEXT(mf_loss_unscale(s, mf_loss_scale(s, x)), "{'w': [1. 2.]}");
    CHECK_EQ_INT(mf_dtype_of(mf_get(mf_loss_unscale(s, x), "w")), MF_F16);
    const bool finite[] = { true, true, true, false, false, false, false, false, true };
    const double expected[] = { 8, 16, 16, 8, 4, 2, 1, 1, 1 };
    for (int i = 0; i < 9; i++) {
        s = mf_loss_scale_adjust(s, mf_b(finite[i]), .period = 2);
        CHECK_NEAR(mf_item_f64(mf_get(s, "loss_scale")), expected[i], 0);
    }
    mf_value large = mf_dynamic_loss_scale(3e38); /* twice that overflows */
    CHECK_NEAR(mf_item_f64(mf_get(mf_loss_scale_adjust(large, mf_b(true), .period = 1), "loss_scale")), 3e38, 1e-6);
    CHECK(mf_item_bool(mf_tree_all_finite(x)));
    CHECK(!mf_item_bool(mf_tree_all_finite(mf_list(x, numbers(1, (double)INFINITY)))));
    FAILS(mf_loss_scale_adjust(s, mf_b(true), .period = 0), "a period of 0 steps");
}

/* ---- errors */

TEST(states_of_others)
{
    MF_SCOPE;
    mf_value x = numbers(1, 2), adam = mf_optim_init(mf_adam(), x);
    mf_optimizer chain = mf_chain(mf_clip_updates(1), mf_sgd(1.0));
    FAILS(mf_optim_update(chain, x, &adam, x),
          "the state of chain is a tuple of 2, but this one has count, mu, nu: mf_optim_init of another");
    mf_value pair = mf_tuple(mf_tuple(), adam);
    FAILS(mf_optim_update(chain, x, &pair, x), "the state of sgd is a dict of count, but this one has count, mu, nu");
    mf_value three = mf_tuple(mf_tuple(), mf_tuple(), mf_tuple());
    FAILS(mf_optim_update(chain, x, &three, x), "the state of chain is a tuple of 2, but this one has 3");
    mf_optimizer many = mf_multi_steps(mf_sgd(1.0), 2);
    mf_value inner = mf_set(mf_optim_init(many, x), 1, "inner_opt_state", "count");
    CHECK(!mf_is_error(mf_optim_update(many, x, &inner, x)));
    inner = mf_dict("acc_grads", x, "gradient_step", 0, "inner_opt_state", adam, "mini_step", 0);
    FAILS(mf_optim_update(many, x, &inner, x), "the state of sgd is a dict of count, but this one has count, mu, nu");
}

TEST(gradients_of_another_tree)
{
    MF_SCOPE;
    mf_value w = mf_dict("w", numbers(1, 2)), state = mf_optim_init(mf_adam(), w);
    FAILS(mf_optim_update(mf_adam(), mf_dict("v", numbers(1, 2)), &state, w),
          "mf_optim_update: the gradients must have the tree of the parameters, which differs at the top: a dict with keys {w} against");
    FAILS(mf_optim_update(mf_adam(), mf_tuple(w, w), &state, w), "a dict with keys {w} against a tuple of 2");
}

static mf_value fails_at_once(mf_optimizer o) { return mf_optim_init(o, mf_f(1)); }

TEST(options_that_make_no_sense)
{
    MF_SCOPE;
    mf_value x = numbers(1, 2), state = mf_tuple();
    mf_optimizer none = { 0 };
    FAILS(fails_at_once(mf_chain(mf_sgd(1.0), none)), "chain: number 2 of its transformations is no optimizer");
    FAILS(mf_optim_update(mf_chain(none), x, &state, x), "chain: number 1");
    FAILS(fails_at_once(mf_adamw(.mask = mf_path_contains(""))), "add_decayed_weights: mf_path_contains: no name is given");
    FAILS(fails_at_once(mf_chain_n(NULL, -1)), "chain of -1");
    FAILS(fails_at_once(mf_multi_steps(mf_adam(), 0)), "a step of 0 gradients");
    FAILS(fails_at_once(mf_multi_transform(mf_everything())), "pairs of a filter and a transformation");
    FAILS(fails_at_once(mf_multi_transform(mf_adam(), mf_everything())), "argument 1 is no filter");
    FAILS(fails_at_once(mf_scale_by_schedule((mf_function){ 0 })), "no schedule is given");
    FAILS(mf_call(mf_cosine_decay_schedule(0.1, 0), 3), "cosine_decay_schedule: decay_steps is 0; it must be more than 0");
    FAILS(mf_call(mf_warmup_cosine_decay_schedule(0, 0.1, 10, 10), 3), "decay_steps is 10; it must be more than 10");
    FAILS(mf_call(mf_piecewise_constant_schedule(0.1, 10), 3), "pairs of a boundary and a scale");
    FAILS(mf_call(mf_piecewise_constant_schedule(0.1, 10, -1), 3), "pairs of a boundary and a scale");
    mf_optimizer late = mf_sgd(.schedule = mf_cosine_decay_schedule(0.1, 0));
    state = mf_optim_init(late, x);
    FAILS(mf_optim_update(late, x, &state, x), "decay_steps is 0");
    TEXT(mf_call(mf_linear_schedule(0.5, 1, 0), 3), "0.5"); /* as in Optax: 0 steps mean a constant */
    mf_optimizer adam = mf_adam();
    state = mf_optim_init(adam, model());
    FAILS(mf_optim_update(adam, x, &state, x), "mf_tree_map: the first tree and tree 1 part at the top");
}
