/* Optax's named optimisers (adam, sgd, ...) as flat chains: the state is one dict with the items of all parts, which share one "count". */
#include "optim/transformation.h"

#include <stdlib.h>
#include <string.h>

/* ---- flat chains */

/* The whole state with the items of one part's state, except the shared "count". */
static mf_value with_items(mf_value whole, mf_value part)
{
    int n = mf_kind_of(part) == MF_KIND_DICT ? mf_len(part) : 0;
    for (int i = 0; i < n; i++)
        if (strcmp(mf_key(part, i), "count") != 0)
            whole = mf_set(whole, mf_get(part, mf_key(part, i)), mf_key(part, i));
    return whole;
}

static mf_value flat_init(const mf_transformation *t, mf_value params)
{
    mf_value whole = mf_dict("count", mf_count_zero());
    for (int i = 0; i < t->count; i++) {
        mf_value part = mf_transformation_init(t->parts[i], params);
        if (mf_kind_of(part) == MF_KIND_ERROR)
            return part;
        whole = with_items(whole, part);
    }
    return whole;
}

/* The items of the state that belong to a part, selected by its rule's keys. */
static mf_value part_of(mf_value state, const char *keys)
{
    char copy[256], *rest = copy;
    mf_value part = mf_dict();
    if (!*keys)
        return mf_tuple_n(NULL, 0);
    strncpy(copy, keys, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    for (char *key; (key = strtok_r(rest, ", ", &rest));)
        part = mf_set(part, mf_get(state, key), key);
    return part;
}

static mf_value flat_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    mf_value whole = mf_dict("count", mf_count_after(mf_get(*state, "count")));
    for (int i = 0; i < t->count; i++) {
        mf_value part = part_of(*state, mf_transformation_of(t->parts[i])->rule->keys);
        updates = mf_transformation_update(t->parts[i], updates, &part, params);
        if (mf_kind_of(part) == MF_KIND_ERROR)
            return *state = part;
        whole = with_items(whole, part);
    }
    *state = whole;
    return updates;
}

static const mf_transformation_rule flat_rule = { "flat", NULL, .flat = true, .init = flat_init, .update = flat_update };

/* A flat chain of the parts that are set. */
static mf_optimizer flat(const char *name, mf_optimizer a, mf_optimizer b, mf_optimizer c, mf_optimizer d)
{
    const mf_optimizer given[] = { a, b, c, d };
    mf_optimizer parts[4];
    int count = 0;
    for (int i = 0; i < 4; i++)
        if (given[i].handle)
            parts[count++] = given[i];
    if (count < 1) /* only in the child of a fork, where all parts are unset */
        return (mf_optimizer){ 0 };
    return mf_transformation_make(&(mf_transformation){ .rule = &flat_rule, .name = name }, parts, count);
}

static const mf_optimizer nothing;

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
