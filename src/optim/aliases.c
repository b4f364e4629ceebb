/* Optax's named optimisers (adam, sgd, lars, ...) as flat chains of public building blocks. */
#include "optim/transformation.h"

static const mf_optimizer nothing;

static mf_optimizer flat(const char *name, mf_optimizer a, mf_optimizer b, mf_optimizer c, mf_optimizer d)
{
    return mf_flat_chain(name, (mf_optimizer[]){ a, b, c, d }, 4);
}

/* ---- adam and its variants */

mf_optimizer mf_adam_opt(const mf_adam_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_adam();
    mf_optimizer by = mf_scale_by_adam(.b1 = o->b1, .b2 = o->b2, .eps = o->eps, .eps_root = o->eps_root, .mu_dtype = o->mu_dtype,
                                       .nesterov = o->nesterov);
    return flat("adam", by, mf_scale_by_learning_rate(o->learning_rate, o->schedule), nothing, nothing);
}

mf_optimizer mf_adamw_opt(const mf_adamw_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_adamw();
    mf_optimizer by = mf_scale_by_adam(.b1 = o->b1, .b2 = o->b2, .eps = o->eps, .eps_root = o->eps_root, .mu_dtype = o->mu_dtype,
                                       .nesterov = o->nesterov);
    mf_optimizer decay = mf_add_decayed_weights(o->weight_decay, o->mask, o->mask_fn);
    return flat("adamw", by, decay, mf_scale_by_learning_rate(o->learning_rate, o->schedule), nothing);
}

mf_optimizer mf_lamb_opt(const mf_lamb_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_lamb();
    mf_optimizer by = mf_scale_by_adam(.b1 = o->b1, .b2 = o->b2, .eps = o->eps, .eps_root = o->eps_root);
    mf_optimizer decay = mf_add_decayed_weights(o->weight_decay, o->mask, o->mask_fn);
    return flat("lamb", by, decay, mf_scale_by_trust_ratio(), mf_scale_by_learning_rate(o->learning_rate, o->schedule));
}

mf_optimizer mf_lion_opt(const mf_lion_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_lion();
    mf_optimizer decay = mf_add_decayed_weights(o->weight_decay, o->mask, o->mask_fn);
    return flat("lion", mf_scale_by_lion(.b1 = o->b1, .b2 = o->b2, .mu_dtype = o->mu_dtype), decay,
                mf_scale_by_learning_rate(o->learning_rate, o->schedule), nothing);
}

/* ---- the others */

mf_optimizer mf_sgd_opt(const mf_sgd_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_sgd();
    mf_optimizer rate = mf_scale_by_learning_rate(o->learning_rate, o->schedule);
    if (o->momentum == 0)
        return flat("sgd", rate, nothing, nothing, nothing);
    mf_optimizer trace = mf_trace_updates(.decay = o->momentum, .nesterov = o->nesterov, .accumulator_dtype = o->accumulator_dtype);
    return flat("sgd with momentum", trace, rate, nothing, nothing);
}

mf_optimizer mf_rmsprop_opt(const mf_rmsprop_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_rmsprop();
    const mf_scale_by_rms_options by = { .decay = o->decay,
                                         .eps = o->eps,
                                         .initial_scale = o->initial_scale,
                                         .eps_in_sqrt = o->eps_in_sqrt,
                                         .bias_correction = o->bias_correction };
    mf_optimizer rate = mf_scale_by_learning_rate(o->learning_rate, o->schedule);
    mf_optimizer trace = o->momentum == 0 ? nothing : mf_trace_updates(.decay = o->momentum, .nesterov = o->nesterov);
    return flat("rmsprop", o->centered ? mf_scale_by_stddev_opt(&by) : mf_scale_by_rms_opt(&by), rate, trace, nothing);
}

mf_optimizer mf_adagrad_opt(const mf_adagrad_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_adagrad();
    mf_optimizer by = mf_scale_by_rss(.initial_accumulator_value = o->initial_accumulator_value, .eps = o->eps);
    return flat("adagrad", by, mf_scale_by_learning_rate(o->learning_rate, o->schedule), nothing, nothing);
}

mf_optimizer mf_lars_opt(const mf_lars_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_lars();
    mf_optimizer decay = mf_add_decayed_weights(o->weight_decay, o->mask, o->mask_fn);
    return flat("lars", decay, mf_scale_by_trust_ratio(.trust_coefficient = o->trust_coefficient, .eps = o->eps),
                mf_scale_by_learning_rate(o->learning_rate, o->schedule), mf_trace_updates(.decay = o->momentum, .nesterov = o->nesterov));
}
