/* split and merge: modules of given values, traced ones too, whose states belong to the call that makes them. */
#include "check_values.h"

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

/* y = kernel x, and the running mean of what went in; noise of a key of its own where it says so. */
static mf_value scale_call(mf_module self, mf_value x)
{
    mf_state mean = mf_member_state(self, "mean");
    (void)mf_state_set_value(mean, mf_add(mf_mul(mf_state_value(mean), 0.5), mf_mul(mf_mean(x), 0.5)));
    mf_value y = mf_mul(x, mf_state_value(mf_member_state(self, "kernel")));
    if (mf_member_number(self, "noisy") == 0)
        return y;
    return mf_add(y, mf_random_uniform(mf_random_next(mf_member_state(self, "rngs")), mf_shape_of(x), MF_F32));
}
static mf_module scale(double kernel, int noisy)
{
    return mf_module_new("Scale", scale_call, "kernel", mf_param_state(mf_scalar(kernel, MF_F32)), "mean",
                         mf_batch_state(mf_scalar(0, MF_F32)), "rngs", mf_random_state(3), "noisy", noisy);
}
static mf_value net_call(mf_module self, mf_value x)
{
    return mf_call(mf_member_module(self, "head"), mf_call(mf_member_module(self, "body"), x));
}
static mf_module net(int noisy) { return mf_module_new("Net", net_call, "body", scale(2, noisy), "head", scale(3, noisy)); }

TEST(merged_states_are_fresh)
{
    MF_SCOPE;
    mf_module m = net(0);
    mf_value params, rest;
    mf_unpack(mf_module_split(m, mf_of_type(MF_PARAM_STATE), mf_everything()), &params, &rest);
    TEXT(params, "{'body': {'kernel': 2.0}, 'head': {'kernel': 3.0}}");
    TEXT(rest, "{'body': {'mean': 0.0, 'rngs': [0 3]}, 'head': {'mean': 0.0, 'rngs': [0 3]}}");
    params = mf_set(params, 5.0, "head", "kernel");
    mf_module other = mf_module_merge(m, params, rest), back = mf_module_merge(m, mf_module_values(m, mf_everything()));
    TEXT(mf_call(other, 1.0), "10.0");
    TEXT(mf_call(back, 1.0), "6.0");
    TEXT(mf_call(m, 2.0), "12.0");
    mf_filter means = mf_of_type(MF_BATCH_STATE);
    TEXT(mf_module_values(other, means), "{'body': {'mean': 0.5}, 'head': {'mean': 1.0}}");
    TEXT(mf_module_values(m, means), "{'body': {'mean': 1.0}, 'head': {'mean': 2.0}}");
    /* any shapes: a dimension of devices in front, say */
    mf_module wide = mf_module_merge(m, mf_set(params, mf_arange(3, MF_F32), "head", "kernel"), rest);
    TEXT(mf_call(wide, 1.0), "[0. 2. 4.]");
}

TEST(a_part_has_paths_of_its_own)
{
    MF_SCOPE;
    mf_module m = net(0), body = mf_member_module(m, "body"), part = mf_module_merge(body, mf_module_values(body, mf_everything()));
    mf_filter params = mf_of_type(MF_PARAM_STATE);
    TEXT(mf_call(mf_grad(part, .states = params), 7.0), "{'kernel': 7.0}");
    mf_module whole = mf_module_merge(m, mf_module_values(m, mf_everything()));
    TEXT(mf_call(mf_grad(whole, .states = params), 7.0), "{'body': {'kernel': 21.0}, 'head': {'kernel': 14.0}}");
    mf_module taken = mf_module_new("Outer", net_call, "body", part, "head", scale(1, 0));
    TEXT(mf_call(mf_grad(taken, .states = params), 7.0), "{'body': {'kernel': 7.0}, 'head': {'kernel': 14.0}}");
}

TEST(what_is_shared_stays_shared)
{
    MF_SCOPE;
    mf_module one = scale(2, 0), both = mf_module_new("Twice", net_call, "body", one, "head", one);
    mf_module m = mf_module_merge(both, mf_set(mf_module_values(both, mf_everything()), 5.0, "body", "kernel"));
    TEXT(mf_call(m, 1.0), "25.0");
    TEXT(mf_get(mf_module_values(m, mf_of_type(MF_BATCH_STATE)), "head"), "{'mean': 2.75}"); /* (1 / 2 + 5) / 2: one cell, seen twice */
}

/* ---- traced values */

static mf_value step_of(void *model, mf_value values, mf_value x)
{
    mf_module m = mf_module_merge(*(mf_module *)model, values);
    mf_value y = mf_call(m, x);
    return mf_tuple(y, mf_module_values(m, mf_everything()));
}

TEST(in_jit)
{
    MF_SCOPE;
    mf_module m = net(0);
    mf_value values = mf_module_values(m, mf_everything()), expected = mf_tuple(mf_none(), values), got = expected;
    mf_function step = mf_closure(step_of, &m), compiled = mf_jit(step);
    for (int i = 1; i < 4; i++) {
        expected = mf_call(step, mf_get(expected, 1), mf_f(i));
        got = mf_call(compiled, mf_get(got, 1), mf_f(i));
    }
    TEXT(got, mf_str(expected));
    TEXT(mf_module_values(m, mf_everything()), mf_str(values)); /* untouched */
}

static mf_value loss_of(void *merged, mf_value x) { return mf_sum(mf_square(mf_call(*(mf_module *)merged, x))); }
static mf_value trained(void *model, mf_value values, mf_value x)
{
    mf_module m = mf_module_merge(*(mf_module *)model, values);
    mf_value loss, grads;
    mf_filter params = mf_of_type(MF_PARAM_STATE);
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(loss_of, &m), .states = params), x), &loss, &grads);
    return mf_tuple(loss, grads, mf_module_values(m, mf_of_type(MF_BATCH_STATE)));
}

TEST(gradients_by_merged_states)
{
    MF_SCOPE;
    mf_module m = net(0);
    mf_value values = mf_module_values(m, mf_everything());
    const char *expected = "(36.0, {'body': {'kernel': 36.0}, 'head': {'kernel': 24.0}}, {'body': {'mean': 0.5}, 'head': {'mean': 1.0}})";
    TEXT(mf_call(mf_closure(trained, &m), values, 1.0), expected);
    TEXT(mf_call(mf_jit(mf_closure(trained, &m)), values, 1.0), expected);
    mf_value loss = mf_get(mf_call(mf_jit(mf_closure(trained, &m)), mf_set(values, 4.0, "head", "kernel"), 1.0), 0);
    TEXT(loss, "64.0"); /* the same program, other values */
}

/* A merge inside what is differentiated: by the values, as nnx.grad of a function of the state. */
static mf_value loss_of_values(void *model, mf_value params, mf_value rest, mf_value x)
{
    mf_module m = mf_module_merge(*(mf_module *)model, params, rest);
    return mf_sum(mf_square(mf_call(m, x)));
}
TEST(gradients_by_values)
{
    MF_SCOPE;
    mf_module m = net(0);
    mf_value params, rest;
    mf_unpack(mf_module_split(m, mf_of_type(MF_PARAM_STATE), mf_everything()), &params, &rest);
    mf_function g = mf_grad(mf_closure(loss_of_values, &m));
    TEXT(mf_call(g, params, rest, 1.0), "{'body': {'kernel': 36.0}, 'head': {'kernel': 24.0}}");
    TEXT(mf_call(mf_jit(g), params, rest, 1.0), "{'body': {'kernel': 36.0}, 'head': {'kernel': 24.0}}");
    TEXT(mf_get(mf_call(mf_vmap(g, .in_axes = mf_axes(MF_NONE, MF_NONE, 0)), params, rest, mf_arange(3, MF_F32)), "head", "kernel"),
         "[ 0. 24. 96.]");
}

static mf_value device_step(void *model, mf_value values, mf_value x)
{
    mf_module m = mf_module_merge(*(mf_module *)model, values);
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(loss_of, &m), .states = mf_of_type(MF_PARAM_STATE)), x), &loss, &grads);
    return mf_tuple(mf_pmean(mf_tuple(loss, grads), "devices"), mf_module_values(m, mf_everything()));
}

TEST(through_pmap)
{
    MF_SCOPE;
    for (int noisy = 0; noisy < 2; noisy++) {
        mf_module m = net(noisy);
        mf_value values = mf_module_values(m, mf_everything()), x = mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2));
        mf_function step = mf_closure(device_step, &m);
        mf_value got = mf_call(mf_pmap(step, "devices", .in_axes = mf_axes(MF_NONE, 0)), values, x);
        mf_value means = mf_get(got, 1, "body", "mean");
        TEXT(means, "[0.25 1.25 2.25 3.25]");
        mf_value again = mf_call(mf_pmap(step, "devices"), mf_get(got, 1), x); /* each device goes on from its own */
        TEXT(mf_get(again, 1, "body", "mean"), "[0.375 1.875 3.375 4.875]");
        mf_value keys = mf_get(again, 1, "body", "rngs"), first = mf_get(values, "body", "rngs");
        CHECK_EQ_INT(mf_item_bool(mf_array_equal(mf_get(keys, 0), first)), !noisy);
        mf_value by_vmap = mf_call(mf_vmap(step, "devices"), mf_get(got, 1), x);
        CHECK(mf_item_bool(mf_allclose(mf_get(again, 1, "head", "mean"), mf_get(by_vmap, 1, "head", "mean"))));
    }
}

static mf_value through(void *model, mf_value values, mf_value x)
{
    mf_value pair = mf_call(mf_closure(step_of, (mf_module *)model), values, x);
    return mf_tuple(mf_get(pair, 1), mf_get(pair, 0));
}
static mf_value call_it(void *merged, mf_value none, mf_value x) { return mf_tuple(none, mf_call(*(mf_module *)merged, x)); }
static mf_value scanned(void *model, mf_value values, mf_value xs)
{
    mf_module m = mf_module_merge(*(mf_module *)model, values);
    mf_value ys = mf_get(mf_scan(mf_closure(call_it, &m), mf_none(), xs), 1);
    return mf_tuple(mf_module_values(m, mf_everything()), ys);
}

/* As the carry of a scan, and as states that a scan's body writes. */
TEST(in_scan)
{
    MF_SCOPE;
    mf_module m = net(0);
    mf_value values = mf_module_values(m, mf_everything()), xs = mf_arange(4, MF_F32);
    const char *as_carry = mf_str(mf_scan(mf_closure(through, &m), values, xs));
    CHECK_CONTAINS(as_carry, "[ 0.  6. 12. 18.]");
    TEXT(mf_call(mf_closure(scanned, &m), values, xs), as_carry);
    TEXT(mf_call(mf_jit(mf_closure(scanned, &m)), values, xs), as_carry);
}

/* ---- states that are made inside a transform belong to the call */

static mf_value made_inside(mf_value x)
{
    mf_module m = scale(2, 1);
    mf_value y = mf_call(m, x);
    mf_state count = mf_hidden_state(mf_mul(x, 2));
    (void)mf_state_set_value(count, mf_add(mf_state_value(count), 1));
    return mf_tuple(y, mf_state_value(count));
}

TEST(made_inside_a_call)
{
    MF_SCOPE;
    mf_function f = mf_jit(mf_fn(made_inside));
    const char *first = mf_str(mf_call(f, 1.0));
    TEXT(mf_call(mf_fn(made_inside), 1.0), first);
    TEXT(mf_call(f, 1.0), first); /* the same key again: it was made in the call */
}

static mf_state kept;
static mf_value leak(mf_value x)
{
    kept = mf_hidden_state(x);
    return x;
}
TEST(a_state_that_is_kept_says_so)
{
    MF_SCOPE;
    CHECK(!mf_is_error(mf_call(mf_jit(mf_fn(leak)), 1.0)));
    FAILS(mf_state_value(kept), "was used after its trace had ended");
}

TEST(what_does_not_fit)
{
    MF_SCOPE;
    mf_module m = net(0);
    mf_value params, rest;
    mf_filter only = mf_of_type(MF_PARAM_STATE);
    mf_unpack(mf_module_split(m, only, mf_everything()), &params, &rest);
    FAILS(mf_static(mf_module_merge(m, params)), "mf_module_merge: the values have no body/mean");
    FAILS(mf_static(mf_module_merge(m, params, params, rest)), "mf_module_merge: state body/kernel is in several of the trees");
    FAILS(mf_static(mf_module_merge(m, params, rest, mf_dict("tail", 1))), "module Net has no state or module named tail");
    FAILS(mf_static(mf_module_merge(m, mf_dict("body", 1, "head", 2))), "the values of Scale at body are no dict");
    FAILS(mf_static(mf_module_merge(m, mf_arange(3, MF_F32))), "the values of Net are no dict");
    FAILS(mf_static(mf_module_merge(m, mf_set(params, mf_make_error(MF_ERROR_IO, "gone"), "body", "kernel"), rest)), "gone");
    FAILS(mf_static(mf_module_merge((mf_module){ 0 }, params)), "not a module");
    FAILS(mf_module_split(m, only), "mf_module_split: no filter accepts the states below body");
    FAILS(mf_module_split((mf_module){ 0 }, only), "not a module");
    FAILS(mf_module_split_n(m, NULL, 0), "at least one filter");
}
