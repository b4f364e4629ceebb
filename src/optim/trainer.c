/* Optimisers over models: nnx.Optimizer, a module that contains the model and the optimiser's state; and Flax's TrainState, a dict. Both
 * pass through transforms as trees. Invariant: an update changes everything (parameters, optimiser state, step) or, if it fails,
 * nothing. */
#include "optim/transformation.h"

#include <string.h>

/* The constants of an optimiser module, `tx` and the filter `wrt`, packed as one transformation whose mask is wrt: a module member can hold
 * its number. */
static mf_value over_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    return mf_transformation_update(t->parts[0], updates, state, params);
}
static const mf_transformation_rule over_rule = { .name = "optimizer", .update = over_update };

static mf_value call_model(mf_module self, mf_value x) { return mf_call(mf_member_module(self, "model"), x); }

static mf_module failed(mf_value error) { return (mf_module){ error.handle }; }

mf_module mf_nn_optimizer_opt(mf_module model, mf_optimizer tx, const mf_nn_optimizer_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_optimizer(model, tx);
    mf_filter wrt = o->wrt.handle ? o->wrt : mf_of_type(MF_PARAM_STATE);
    mf_transformation over = { .rule = &over_rule, .name = "optimizer", .mask = mf_kept_mask(wrt) };
    mf_optimizer constants = mf_transformation_make(&over, &tx, 1);
    mf_value params = mf_module_values(model, wrt);
    if (mf_kind_of(params) == MF_KIND_ERROR)
        return failed(params);
    const mf_transformation *t = mf_transformation_of(constants);
    if (t && t->rule != &over_rule)
        return failed(mf_optim_init(constants, params));
    mf_value opt_state = mf_optim_init(tx, params);
    if (mf_kind_of(opt_state) == MF_KIND_ERROR)
        return failed(opt_state);
    return mf_module_new("Optimizer", call_model, "model", model, "opt_state", mf_hidden_state(opt_state), "step",
                         mf_hidden_state(mf_count_zero()), "tx", mf_transformation_number(constants));
}

/* Writes the error to the states, so that a traced call fails as a whole: without the update it would compute something else. */
static mf_status give_up(mf_module optimizer, mf_value error)
{
    (void)mf_state_set_value(mf_member_state(optimizer, "step"), error);
    return mf_module_update(mf_member_module(optimizer, "model"), error);
}

/* The gradients of the model: if they were taken with respect to the optimizer's states, their paths begin with "model". */
static mf_value of_model(mf_value grads, mf_value params)
{
    bool outer = mf_kind_of(grads) == MF_KIND_DICT && mf_len(grads) == 1 && strcmp(mf_key(grads, 0), "model") == 0;
    bool own = mf_len(params) == 1 && strcmp(mf_key(params, 0), "model") == 0;
    return outer && !own ? mf_get(grads, "model") : grads;
}

mf_status(mf_nn_optimizer_update)(mf_module optimizer, mf_value grads)
{
    MF_LAYER;
    MF_SCOPE;
    const mf_transformation *t = mf_transformation_numbered(mf_member_number(optimizer, "tx"));
    mf_module model = mf_member_module(optimizer, "model");
    mf_state opt_state = mf_member_state(optimizer, "opt_state"), step = mf_member_state(optimizer, "step");
    if (!t || t->rule != &over_rule)
        return give_up(optimizer, mf_make_error(MF_ERROR_ARGUMENT, "mf_nn_optimizer_update: this is no module of mf_nn_optimizer"));
    mf_value next = mf_state_value(opt_state), params = mf_module_values(model, t->mask);
    params = mf_optim_update(t->parts[0], of_model(grads, params), &next, params);
    const mf_value after = mf_count_after(mf_state_value(step)), moved[] = { params, next, after };
    for (int i = 0; i < 3; i++) /* update all or none */
        if (mf_kind_of(moved[i]) == MF_KIND_ERROR)
            return give_up(optimizer, moved[i]);
    mf_status status = mf_module_update(model, params);
    if (status != MF_OK)
        return status;
    (void)mf_state_set_value(opt_state, next);
    (void)mf_state_set_value(step, after);
    return MF_OK;
}

/* ---- the train state */

mf_value(mf_train_state_create)(mf_optimizer tx, mf_value params)
{
    MF_LAYER;
    return mf_dict("opt_state", mf_optim_init(tx, params), "params", params, "step", mf_count_zero());
}

mf_value(mf_train_state_apply_gradients)(mf_optimizer tx, mf_value state, mf_value grads)
{
    MF_LAYER;
    mf_value opt_state = mf_get(state, "opt_state"), params = mf_get(state, "params"), step = mf_get(state, "step");
    if (mf_kind_of(step) == MF_KIND_ERROR)
        return step;
    params = mf_optim_update(tx, grads, &opt_state, params);
    if (mf_kind_of(params) == MF_KIND_ERROR)
        return params;
    state = mf_set(mf_set(state, opt_state, "opt_state"), params, "params"); /* other items of the dict stay */
    return mf_set(state, mf_count_after(step), "step");
}
