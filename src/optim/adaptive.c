/* Adam's relatives: adamax, adabelief, radam, amsgrad, yogi; and adadelta. Each is a flat chain of its rule and the learning rate.
 * In all rules number is b1, b2, eps, eps_root, unless stated. */
#include "optim/moments.h"
#include "optim/transformation.h"

static mf_optimizer chain_of(const mf_transformation *t, mf_optimizer decay, double learning_rate, mf_function schedule)
{
    mf_optimizer parts[] = { mf_transformation_make(t, NULL, 0), decay, mf_scale_by_learning_rate(learning_rate, schedule) };
    return mf_flat_chain(t->name, parts, 3);
}

static const mf_optimizer no_decay;

static mf_value two_moments_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("count", mf_count_zero(), "mu", mf_zeros_in(params, t->dtype), "nu", mf_zeros_in(params, 0));
}

/* ---- adamax: nu is the decayed maximum of |g| + eps */
typedef struct infinity {
    double decay, eps;
} infinity;

static mf_value infinity_leaf(void *context, mf_value g, mf_value v)
{
    const infinity *c = context;
    return mf_maximum(mf_add(mf_abs(g), c->eps), mf_mul(v, c->decay));
}

static mf_value quotient(mf_value m, mf_value v) { return mf_div(m, v); }

static mf_value adamax_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    infinity c = { t->number[1], t->number[2] };
    mf_value count = mf_count_after(mf_get(*state, "count")), mu = mf_moment_after(updates, mf_get(*state, "mu"), t->number[0], 1);
    mf_value nu = mf_tree_map(mf_closure(infinity_leaf, &c), updates, mf_get(*state, "nu"));
    *state = mf_dict("count", count, "mu", mu, "nu", nu);
    return mf_tree_map(quotient, mf_moment_corrected(mu, t->number[0], count), nu);
}

static const mf_transformation_rule adamax_rule = { "scale_by_adamax", "count, mu, nu", .init = two_moments_init, .update = adamax_update };

mf_optimizer mf_adamax_opt(const mf_adamax_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_adamax();
    const mf_transformation t = { .rule = &adamax_rule, .name = "adamax", .number = { o->b1, o->b2, o->eps } };
    mf_optimizer decay = o->weight_decay != 0 ? mf_add_decayed_weights(o->weight_decay, o->mask, o->mask_fn) : no_decay;
    return chain_of(&t, decay, o->learning_rate, o->schedule);
}

/* ---- adabelief: nu is the average square of g - mu, plus eps_root in each step. flag: nesterov */
static mf_value difference(mf_value g, mf_value m) { return mf_sub(g, m); }
static mf_value plus_leaf(void *eps, mf_value v) { return mf_add(v, *(double *)eps); }

static mf_value belief_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    double b1 = t->number[0], b2 = t->number[1], eps_root = t->number[3];
    mf_value count = mf_count_after(mf_get(*state, "count")), mu = mf_moment_after(updates, mf_get(*state, "mu"), b1, 1);
    mf_value surprise = mf_tree_map(difference, updates, mu);
    mf_value nu = mf_tree_map(mf_closure(plus_leaf, &eps_root), mf_moment_after(surprise, mf_get(*state, "nu"), b2, 2));
    *state = mf_dict("count", count, "mu", mu, "nu", nu);
    return mf_moment_quotient(mf_moment_ahead(mu, updates, b1, count, t->flag[0]), mf_moment_corrected(nu, b2, count), t->number[2], 0);
}

static const mf_transformation_rule belief_rule = { "scale_by_belief", "count, mu, nu", .init = two_moments_init, .update = belief_update };

mf_optimizer mf_adabelief_opt(const mf_adabelief_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_adabelief();
    const mf_transformation t = {
        .rule = &belief_rule, .name = "adabelief", .number = { o->b1, o->b2, o->eps, o->eps_root }, .flag = { o->nesterov }
    };
    return chain_of(&t, no_decay, o->learning_rate, o->schedule);
}

/* ---- radam. The fifth number is the threshold. flag: nesterov */
typedef struct rectification {
    mf_value known, factor; /* whether the variance is known well enough */
} rectification;

static mf_value rectified_leaf(void *context, mf_value step, mf_value m)
{
    const rectification *r = context;
    return mf_where(r->known, mf_mul(step, mf_astype(r->factor, mf_dtype_of(step))), m);
}

/* The number of observations that the average of squares is worth, and the factor that this implies (arXiv:1908.03265). */
static rectification rectified(double b2, double threshold, mf_value count)
{
    double most = 2 / (1 - b2) - 1;
    mf_value power = mf_pow(mf_scalar(b2, MF_F32), mf_astype(count, MF_F32));
    mf_value worth = mf_sub(most, mf_div(mf_mul(mf_mul(mf_astype(count, MF_F32), 2), power), mf_sub(1, power)));
    mf_value inside = mf_div(mf_mul(mf_mul(mf_sub(worth, 4), mf_sub(worth, 2)), most), mf_mul(worth, (most - 4) * (most - 2)));
    return (rectification){ mf_greater_equal(worth, threshold), mf_sqrt(inside) };
}

static mf_value radam_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    double b1 = t->number[0], b2 = t->number[1];
    mf_value count = mf_count_after(mf_get(*state, "count")), mu = mf_moment_after(updates, mf_get(*state, "mu"), b1, 1);
    mf_value nu = mf_moment_after(updates, mf_get(*state, "nu"), b2, 2), ahead = mf_moment_ahead(mu, updates, b1, count, t->flag[0]);
    *state = mf_dict("count", count, "mu", mu, "nu", nu);
    rectification r = rectified(b2, t->number[4], count);
    mf_value step = mf_moment_quotient(ahead, mf_moment_corrected(nu, b2, count), t->number[2], t->number[3]);
    return mf_tree_map(mf_closure(rectified_leaf, &r), step, ahead);
}

static const mf_transformation_rule radam_rule = { "scale_by_radam", "count, mu, nu", .init = two_moments_init, .update = radam_update };

mf_optimizer mf_radam_opt(const mf_radam_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_radam();
    const mf_transformation t = {
        .rule = &radam_rule, .name = "radam", .number = { o->b1, o->b2, o->eps, o->eps_root, o->threshold }, .flag = { o->nesterov }
    };
    return chain_of(&t, no_decay, o->learning_rate, o->schedule);
}

/* ---- amsgrad: divides by the greatest of the corrected second moments */
static mf_value amsgrad_init(const mf_transformation *t, mf_value params)
{
    mf_value zeros = mf_zeros_in(params, 0);
    return mf_dict("count", mf_count_zero(), "mu", mf_zeros_in(params, t->dtype), "nu", zeros, "nu_max", zeros);
}

static mf_value greater(mf_value a, mf_value b) { return mf_maximum(a, b); }

static mf_value amsgrad_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    double b1 = t->number[0], b2 = t->number[1];
    mf_value count = mf_count_after(mf_get(*state, "count")), mu = mf_moment_after(updates, mf_get(*state, "mu"), b1, 1);
    mf_value nu = mf_moment_after(updates, mf_get(*state, "nu"), b2, 2);
    mf_value most = mf_tree_map(greater, mf_get(*state, "nu_max"), mf_moment_corrected(nu, b2, count));
    *state = mf_dict("count", count, "mu", mf_tree_in(mu, t->dtype), "nu", nu, "nu_max", most);
    return mf_moment_quotient(mf_moment_corrected(mu, b1, count), most, t->number[2], t->number[3]);
}

static const mf_transformation_rule amsgrad_rule = { "scale_by_amsgrad", "count, mu, nu, nu_max", .init = amsgrad_init,
                                                     .update = amsgrad_update };

mf_optimizer mf_amsgrad_opt(const mf_amsgrad_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_amsgrad();
    const mf_transformation t = {
        .rule = &amsgrad_rule, .name = "amsgrad", .number = { o->b1, o->b2, o->eps, o->eps_root }, .dtype = o->mu_dtype
    };
    return chain_of(&t, no_decay, o->learning_rate, o->schedule);
}

/* ---- yogi: the second moment moves by at most (1 - b2) g^2. number: b1, b2, eps, initial_accumulator_value */
static mf_value yogi_init(const mf_transformation *t, mf_value params)
{
    mf_value start = mf_filled_like(params, t->number[3]);
    return mf_dict("count", mf_count_zero(), "mu", start, "nu", start);
}

static mf_value yogi_leaf(void *b2, mf_value g, mf_value v)
{
    mf_value square = mf_square(g);
    return mf_sub(v, mf_mul(mf_mul(mf_sign(mf_sub(v, square)), square), 1 - *(double *)b2));
}

static mf_value yogi_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    double b1 = t->number[0], b2 = t->number[1];
    mf_value count = mf_count_after(mf_get(*state, "count")), mu = mf_moment_after(updates, mf_get(*state, "mu"), b1, 1);
    mf_value nu = mf_tree_map(mf_closure(yogi_leaf, &b2), updates, mf_get(*state, "nu"));
    *state = mf_dict("count", count, "mu", mu, "nu", nu);
    return mf_moment_quotient(mf_moment_corrected(mu, b1, count), mf_moment_corrected(nu, b2, count), t->number[2], 0);
}

static const mf_transformation_rule yogi_rule = { "scale_by_yogi", "count, mu, nu", .init = yogi_init, .update = yogi_update };

mf_optimizer mf_yogi_opt(const mf_yogi_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_yogi();
    const mf_transformation t = { .rule = &yogi_rule, .name = "yogi", .number = { o->b1, o->b2, o->eps, 1e-6 } };
    return chain_of(&t, no_decay, o->learning_rate, o->schedule);
}

/* ---- adadelta: the root mean square of past steps over that of gradients. number: rho, eps */
static mf_value adadelta_init(const mf_transformation *t, mf_value params)
{
    (void)t;
    mf_value zeros = mf_zeros_in(params, 0);
    return mf_dict("e_g", zeros, "e_x", zeros);
}

static mf_value adadelta_leaf(void *eps, mf_value g, mf_value gradients, mf_value steps)
{
    double e = *(double *)eps;
    return mf_mul(mf_div(mf_sqrt(mf_add(steps, e)), mf_sqrt(mf_add(gradients, e))), g);
}

static mf_value adadelta_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    double rho = t->number[0], eps = t->number[1];
    mf_value gradients = mf_moment_after(updates, mf_get(*state, "e_g"), rho, 2), before = mf_get(*state, "e_x");
    mf_value step = mf_tree_map(mf_closure(adadelta_leaf, &eps), updates, gradients, before);
    *state = mf_dict("e_g", gradients, "e_x", mf_moment_after(step, before, rho, 2));
    return step;
}

static const mf_transformation_rule adadelta_rule = { "scale_by_adadelta", "e_g, e_x", .init = adadelta_init, .update = adadelta_update };

mf_optimizer mf_adadelta_opt(const mf_adadelta_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_adadelta();
    const mf_transformation t = { .rule = &adadelta_rule, .name = "adadelta", .number = { o->rho, o->eps } };
    mf_optimizer parts[] = { mf_add_decayed_weights(o->weight_decay, o->mask, o->mask_fn), mf_transformation_make(&t, NULL, 0),
                             mf_scale_by_learning_rate(o->learning_rate, o->schedule) };
    return mf_flat_chain("adadelta", parts, 3);
}
