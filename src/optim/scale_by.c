/* Transformations with accumulated state: Optax's scale_by_*, trace and ema. */
#include "optim/moments.h"
#include "optim/transformation.h"

/* ---- adam. number: b1, b2, eps, eps_root; flag: nesterov */

static mf_value adam_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("count", mf_count_zero(), "mu", mf_zeros_in(params, t->dtype), "nu", mf_zeros_in(params, 0));
}

static mf_value adam_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    double b1 = t->number[0], b2 = t->number[1];
    mf_value count = mf_count_after(mf_get(*state, "count"));
    mf_value mu = mf_moment_after(updates, mf_get(*state, "mu"), b1, 1), nu = mf_moment_after(updates, mf_get(*state, "nu"), b2, 2);
    mf_value ahead = mf_moment_ahead(mu, updates, b1, count, t->flag[0]);
    *state = mf_dict("count", count, "mu", mf_tree_in(mu, t->dtype), "nu", nu);
    return mf_moment_quotient(ahead, mf_moment_corrected(nu, b2, count), t->number[2], t->number[3]);
}

static const mf_transformation_rule adam_rule = { "scale_by_adam", "count, mu, nu", .init = adam_init, .update = adam_update };

mf_optimizer mf_scale_by_adam_opt(const mf_scale_by_adam_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_scale_by_adam();
    return mf_transformation_make(&(mf_transformation){ .rule = &adam_rule,
                                                        .name = "scale_by_adam",
                                                        .number = { o->b1, o->b2, o->eps, o->eps_root },
                                                        .flag = { o->nesterov },
                                                        .dtype = o->mu_dtype },
                                  NULL, 0);
}

/* ---- rms, and stddev (centred). number: decay, eps, initial_scale; flag: eps_in_sqrt, bias_correction */

static mf_value rms_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("count", mf_count_zero(), "nu", mf_filled_like(params, t->number[2]));
}

static mf_value stddev_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("count", mf_count_zero(), "mu", mf_zeros_in(params, 0), "nu", mf_filled_like(params, t->number[2]));
}

typedef struct root {
    double eps;
    int64_t inside;
} root;

static mf_value by_root(const root *r, mf_value g, mf_value variance)
{
    mf_value by = r->inside ? mf_rsqrt(mf_add(variance, r->eps)) : mf_div(1, mf_add(mf_sqrt(variance), r->eps));
    return mf_mul(by, g);
}
static mf_value rms_leaf(void *r, mf_value g, mf_value n) { return by_root(r, g, n); }
static mf_value stddev_leaf(void *r, mf_value g, mf_value m, mf_value n) { return by_root(r, g, mf_sub(n, mf_square(m))); }

static mf_value rms_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    root r = { t->number[1], t->flag[0] };
    mf_value count = mf_count_after(mf_get(*state, "count")), nu = mf_moment_after(updates, mf_get(*state, "nu"), t->number[0], 2);
    *state = mf_dict("count", count, "nu", nu);
    return mf_tree_map(mf_closure(rms_leaf, &r), updates, t->flag[1] ? mf_moment_corrected(nu, t->number[0], count) : nu);
}

static mf_value stddev_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    root r = { t->number[1], t->flag[0] };
    double decay = t->number[0];
    mf_value count = mf_count_after(mf_get(*state, "count"));
    mf_value mu = mf_moment_after(updates, mf_get(*state, "mu"), decay, 1), nu = mf_moment_after(updates, mf_get(*state, "nu"), decay, 2);
    *state = mf_dict("count", count, "mu", mu, "nu", nu);
    if (!t->flag[1])
        return mf_tree_map(mf_closure(stddev_leaf, &r), updates, mu, nu);
    return mf_tree_map(mf_closure(stddev_leaf, &r), updates, mf_moment_corrected(mu, decay, count), mf_moment_corrected(nu, decay, count));
}

static const mf_transformation_rule rms_rule = { "scale_by_rms", "count, nu", .init = rms_init, .update = rms_update };
static const mf_transformation_rule stddev_rule = { "scale_by_stddev", "count, mu, nu", .init = stddev_init, .update = stddev_update };

static mf_optimizer by_rms(const mf_transformation_rule *rule, const mf_scale_by_rms_options *o)
{
    return mf_transformation_make(&(mf_transformation){ .rule = rule,
                                                        .name = rule->name,
                                                        .number = { o->decay, o->eps, o->initial_scale },
                                                        .flag = { o->eps_in_sqrt, o->bias_correction } },
                                  NULL, 0);
}

mf_optimizer mf_scale_by_rms_opt(const mf_scale_by_rms_options *o)
{
    MF_LAYER;
    return o ? by_rms(&rms_rule, o) : mf_scale_by_rms();
}

mf_optimizer mf_scale_by_stddev_opt(const mf_scale_by_rms_options *o)
{
    MF_LAYER;
    return o ? by_rms(&stddev_rule, o) : mf_scale_by_stddev();
}

/* ---- rss. number: initial_accumulator_value, eps */

static mf_value rss_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("sum_of_squares", mf_filled_like(params, t->number[0]));
}

static mf_value plus_square(mf_value g, mf_value sum) { return mf_add(mf_square(g), sum); }
static mf_value rss_leaf(void *eps, mf_value g, mf_value sum)
{
    return mf_mul(mf_where(mf_greater(sum, 0), mf_rsqrt(mf_add(sum, *(double *)eps)), 0.0), g);
}

static mf_value rss_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    double eps = t->number[1];
    mf_value sum = mf_tree_map(plus_square, updates, mf_get(*state, "sum_of_squares"));
    *state = mf_dict("sum_of_squares", sum);
    return mf_tree_map(mf_closure(rss_leaf, &eps), updates, sum);
}

static const mf_transformation_rule rss_rule = { "scale_by_rss", "sum_of_squares", .init = rss_init, .update = rss_update };

mf_optimizer mf_scale_by_rss_opt(const mf_scale_by_rss_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_scale_by_rss();
    return mf_transformation_make(
        &(mf_transformation){ .rule = &rss_rule, .name = "scale_by_rss", .number = { o->initial_accumulator_value, o->eps } }, NULL, 0);
}

/* ---- lion. number: b1, b2 */

static mf_value lion_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("count", mf_count_zero(), "mu", mf_zeros_in(params, t->dtype));
}

static mf_value sign_leaf(mf_value x) { return mf_sign(x); }

static mf_value lion_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    mf_value mu = mf_get(*state, "mu"), mixed = mf_moment_after(updates, mu, t->number[0], 1);
    mf_value next = mf_tree_in(mf_moment_after(updates, mu, t->number[1], 1), t->dtype);
    *state = mf_dict("count", mf_count_after(mf_get(*state, "count")), "mu", next);
    return mf_tree_map(sign_leaf, mixed);
}

static const mf_transformation_rule lion_rule = { "scale_by_lion", "count, mu", .init = lion_init, .update = lion_update };

mf_optimizer mf_scale_by_lion_opt(const mf_scale_by_lion_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_scale_by_lion();
    return mf_transformation_make(
        &(mf_transformation){ .rule = &lion_rule, .name = "scale_by_lion", .number = { o->b1, o->b2 }, .dtype = o->mu_dtype }, NULL, 0);
}

/* ---- trust ratio. number: min_norm, trust_coefficient, eps */

typedef struct trust {
    double min_norm, coefficient, eps;
} trust;

static mf_value norm_from(mf_value x, double min_norm)
{
    mf_value norm = mf_sqrt(mf_sum(mf_square(x)));
    return mf_maximum(norm, min_norm);
}

static mf_value trust_leaf(void *context, mf_value u, mf_value p)
{
    const trust *c = context;
    mf_value param_norm = norm_from(p, c->min_norm), update_norm = norm_from(u, c->min_norm);
    mf_value ratio = mf_div(mf_mul(param_norm, c->coefficient), c->eps != 0 ? mf_add(update_norm, c->eps) : update_norm);
    mf_value zero = mf_logical_or(mf_equal(param_norm, 0), mf_equal(update_norm, 0));
    return mf_mul(u, mf_where(zero, mf_ones_like(ratio), ratio));
}

static mf_value trust_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)state;
    trust c = { t->number[0], t->number[1], t->number[2] };
    return mf_tree_map(mf_closure(trust_leaf, &c), updates, params);
}

static const mf_transformation_rule trust_rule = { "scale_by_trust_ratio", "", .update = trust_update };

mf_optimizer mf_scale_by_trust_ratio_opt(const mf_scale_by_trust_ratio_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_scale_by_trust_ratio();
    return mf_transformation_make(&(mf_transformation){ .rule = &trust_rule,
                                                        .name = "scale_by_trust_ratio",
                                                        .number = { o->min_norm, o->trust_coefficient, o->eps } },
                                  NULL, 0);
}

/* ---- trace. number: decay; flag: nesterov */

static mf_value trace_init(const mf_transformation *t, mf_value params) { return mf_dict("trace", mf_zeros_in(params, t->dtype)); }

static mf_value trace_leaf(void *decay, mf_value g, mf_value trace) { return mf_add(g, mf_mul(trace, *(double *)decay)); }

static mf_value trace_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    double decay = t->number[0];
    mf_value trace = mf_tree_map(mf_closure(trace_leaf, &decay), updates, mf_get(*state, "trace"));
    *state = mf_dict("trace", mf_tree_in(trace, t->dtype));
    return t->flag[0] ? mf_tree_map(mf_closure(trace_leaf, &decay), updates, trace) : trace;
}

static const mf_transformation_rule trace_rule = { "trace", "trace", .init = trace_init, .update = trace_update };

mf_optimizer mf_trace_updates_opt(const mf_trace_updates_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_trace_updates();
    return mf_transformation_make(
        &(mf_transformation){
            .rule = &trace_rule, .name = "trace", .number = { o->decay }, .flag = { o->nesterov }, .dtype = o->accumulator_dtype },
        NULL, 0);
}

/* ---- exponential moving average. number: decay; flag: debias */

static mf_value ema_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("count", mf_count_zero(), "ema", mf_zeros_in(params, t->dtype));
}

static mf_value ema_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    mf_value count = mf_count_after(mf_get(*state, "count")), ema = mf_moment_after(updates, mf_get(*state, "ema"), t->number[0], 1);
    *state = mf_dict("count", count, "ema", mf_tree_in(ema, t->dtype));
    return t->flag[0] ? mf_moment_corrected(ema, t->number[0], count) : ema;
}

static const mf_transformation_rule ema_rule = { "ema", "count, ema", .init = ema_init, .update = ema_update };

mf_optimizer mf_ema_opt(const mf_ema_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_ema();
    return mf_transformation_make(
        &(mf_transformation){
            .rule = &ema_rule, .name = "ema", .number = { o->decay }, .flag = { o->debias }, .dtype = o->accumulator_dtype },
        NULL, 0);
}
