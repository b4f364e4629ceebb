/* The optimiser module and the train state: they make the same updates as mf_optim_update, alone and as trees through maps. */
#include "check_values.h"

__attribute__((constructor)) static void four_devices(void) { setenv("MF_NUM_CPU_DEVICES", "4", 1); }

static mf_value affine(mf_module self, mf_value x)
{
    mf_state seen = mf_member_state(self, "seen");
    (void)mf_state_set_value(seen, mf_add(mf_state_value(seen), 1));
    return mf_add(mf_mul(x, mf_state_value(mf_member_state(self, "kernel"))), mf_state_value(mf_member_state(self, "bias")));
}
static mf_module model(void)
{
    return mf_module_new("Affine", affine, "bias", mf_param_state(mf_scalar(1, MF_F32)), "kernel", mf_param_state(mf_scalar(2, MF_F32)),
                         "seen", mf_batch_state(mf_scalar(0, MF_I32)));
}
static mf_value loss_of(void *module, mf_value x) { return mf_mean(mf_square(mf_sub(mf_call(*(mf_module *)module, x), 7))); }
static mf_filter params(void) { return mf_of_type(MF_PARAM_STATE); }

/* ---- the optimiser over a model */

TEST(updates_model_state_and_count)
{
    MF_SCOPE;
    mf_module m = model(), o = mf_nn_optimizer(m, mf_adam(0.1));
    mf_value p = mf_module_values(m, params()), state = mf_optim_init(mf_adam(0.1), p);
    for (int i = 0; i < 3; i++) {
        mf_value grads = mf_call(mf_grad(mf_closure(loss_of, &o), .states = params()), mf_arange(4, MF_F32));
        mf_value model_grads = mf_get(grads, "model");
        p = mf_optim_update(mf_adam(0.1), model_grads, &state, p);
        CHECK_EQ_INT(mf_nn_optimizer_update(o, model_grads), MF_OK);
    }
    SAME(mf_get(mf_module_values(m, params()), "kernel"), mf_get(p, "kernel"));
    SAME(mf_get(mf_module_values(o, mf_path_contains("opt_state")), "opt_state", "nu", "bias"), mf_get(state, "nu", "bias"));
    TEXT(mf_module_values(o, mf_path_contains("step")), "{'step': 3}");
    TEXT(mf_get(mf_module_values(o, mf_of_type(MF_BATCH_STATE)), "model"), "{'seen': 3}");
}

TEST(trains_what_wrt_names)
{
    MF_SCOPE;
    mf_module m = model(), o = mf_nn_optimizer(m, mf_sgd(0.5), .wrt = mf_path_contains("bias"));
    CHECK_EQ_INT(mf_nn_optimizer_update(o, mf_dict("bias", mf_scalar(1, MF_F32))), MF_OK);
    TEXT(mf_module_values(m, params()), "{'bias': 0.5, 'kernel': 2.0}");
}

/* As in the guide: the state is passed and returned as a tree, and the optimiser is merged inside. */
static mf_value train_step(void *optimizer, mf_value values, mf_value x)
{
    mf_module o = mf_module_merge(*(mf_module *)optimizer, values), m = mf_member_module(o, "model");
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(loss_of, &m), .states = params()), x), &loss, &grads);
    mf_unpack(mf_pmean(mf_tuple(loss, grads), "devices"), &loss, &grads);
    mf_nn_optimizer_update(o, grads);
    return mf_tuple(mf_module_values(o, mf_everything()), loss);
}

TEST(an_optimizer_goes_through_pmap)
{
    MF_SCOPE;
    mf_module m = model(), o = mf_nn_optimizer(m, mf_adam(0.1));
    mf_value values = mf_module_values(o, mf_everything()), x = mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2)), loss = mf_none();
    mf_value replicated = mf_replicate(values, mf_local_devices());
    mf_function step = mf_pmap(mf_closure(train_step, &o), "devices");
    for (int i = 0; i < 2; i++)
        mf_unpack(mf_call(step, replicated, x), &replicated, &loss);
    TEXT(mf_get(replicated, "step"), "[2 2 2 2]");
    mf_value now = mf_unreplicate(replicated);
    mf_module one = mf_module_merge(o, values), inner = mf_member_module(one, "model");
    for (int i = 0; i < 2; i++) { /* the same on one device, with the whole batch */
        mf_value grads = mf_call(mf_grad(mf_closure(loss_of, &inner), .states = params()), x);
        CHECK_EQ_INT(mf_nn_optimizer_update(one, grads), MF_OK);
    }
    mf_value p = mf_get(mf_module_values(one, params()), "model");
    CHECK_NEAR(mf_item_f64(mf_get(now, "model", "kernel")), mf_item_f64(mf_get(p, "kernel")), 1e-6);
    CHECK_NEAR(mf_item_f64(mf_get(now, "model", "bias")), mf_item_f64(mf_get(p, "bias")), 1e-6);
    TEXT(mf_get(mf_module_values(o, mf_path_contains("step")), "step"), "0"); /* the module outside the map is unchanged */
}

static mf_value careless_step(void *optimizer, mf_value x)
{
    mf_nn_optimizer_update(*(mf_module *)optimizer, mf_dict("kernel", x));
    return x;
}

TEST(what_an_optimizer_refuses)
{
    MF_SCOPE;
    mf_module m = model(), o = mf_nn_optimizer(m, mf_sgd(0.5));
    CHECK_EQ_INT(mf_nn_optimizer_update(o, mf_dict("kernel", 1.0)), MF_ERROR_TREE);
    CHECK_EQ_INT(mf_nn_optimizer_update(m, mf_dict("kernel", 1.0)), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_nn_optimizer_update(o, mf_make_error(MF_ERROR_IO, "gone")), MF_ERROR_IO);
    FAILS(mf_call(mf_jit(mf_closure(careless_step, &o)), mf_scalar(1, MF_F32)),
          "the gradients must have the tree"); /* an update is never skipped silently */
    TEXT(mf_module_values(o, mf_path_contains("step")), "{'step': 0}");
    TEXT(mf_module_values(m, params()), "{'bias': 1.0, 'kernel': 2.0}");
    FAILS(mf_static(mf_nn_optimizer(m, (mf_optimizer){ 0 })), "number 1 of its transformations is no optimizer");
    FAILS(mf_static(mf_nn_optimizer((mf_module){ 0 }, mf_adam())), "not a module");
    FAILS(mf_static(mf_nn_optimizer(m, mf_adam(), .wrt = mf_path_contains(""))), "no name is given");
}

/* ---- the train state */

static mf_value state_step(void *tx, mf_value state, mf_value grads)
{
    return mf_train_state_apply_gradients(*(mf_optimizer *)tx, state, mf_pmean(grads, "devices"));
}

TEST(a_train_state_moves_on)
{
    MF_SCOPE;
    mf_optimizer tx = mf_sgd(0.5, 0.9);
    mf_value p = mf_dict("w", mf_ones(MF_SHAPE(2), MF_F32)), g = mf_dict("w", mf_arange(2, MF_F32));
    mf_value state = mf_train_state_create(tx, p);
    TEXT(state, "{'opt_state': {'count': 0, 'trace': {'w': [0. 0.]}}, 'params': {'w': [1. 1.]}, 'step': 0}");
    state = mf_train_state_apply_gradients(tx, state, g);
    TEXT(state, "{'opt_state': {'count': 1, 'trace': {'w': [0. 1.]}}, 'params': {'w': [1.  0.5]}, 'step': 1}");
    mf_value more = mf_dict("batch_stats", 3, "opt_state", mf_get(state, "opt_state"), "params", p, "step", 7);
    more = mf_train_state_apply_gradients(tx, more, g);
    TEXT(mf_get(more, "batch_stats"), "3");
    TEXT(mf_get(more, "step"), "8");
    mf_value rows = mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2)); /* the means are 3 and 4 */
    mf_function step = mf_pmap(mf_closure(state_step, &tx), "devices", .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE);
    TEXT(mf_get(mf_call(step, mf_train_state_create(tx, p), mf_dict("w", rows)), "params"), "{'w': [-0.5 -1. ]}");
    FAILS(mf_train_state_apply_gradients(tx, p, g), "no key 'step'");
    FAILS(mf_train_state_apply_gradients(mf_adam(), mf_train_state_create(tx, p), g), "the state of adam is a dict of count, mu, nu");
    FAILS(mf_train_state_create((mf_optimizer){ 0 }, p), "not an optimizer");
}
