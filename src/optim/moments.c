/* Moving averages of gradients. Invariant: every number is converted to the dtype of the leaf that it goes with. */
#include "optim/moments.h"

#include "optim/transformation.h"

typedef struct moment {
    double decay;
    int64_t order;
} moment;

static mf_value moment_leaf(void *context, mf_value g, mf_value m)
{
    const moment *o = context;
    return mf_add(mf_mul(o->order == 2 ? mf_square(g) : g, 1 - o->decay), mf_mul(m, o->decay));
}

mf_value mf_moment_after(mf_value updates, mf_value moments, double decay, int order)
{
    moment o = { decay, order };
    return mf_tree_map(mf_closure(moment_leaf, &o), updates, moments);
}

/* 1 - decay^count. In the first steps it is close to 0: in f32 it has the relative error 6e-5, too much for parameters in f64. */
static mf_value correction_in(double decay, mf_value count, mf_dtype dtype)
{
    return mf_sub(1, mf_pow(mf_scalar(decay, dtype), mf_astype(count, dtype)));
}

typedef struct correction {
    double decay;
    mf_value count, single;
} correction;

static mf_value divide_leaf(void *context, mf_value x)
{
    const correction *c = context;
    mf_dtype dtype = mf_dtype_of(x);
    return mf_div(x, dtype == MF_F64 ? correction_in(c->decay, c->count, dtype) : mf_astype(c->single, dtype));
}

mf_value mf_moment_corrected(mf_value tree, double decay, mf_value count)
{
    correction c = { decay, count, correction_in(decay, count, MF_F32) };
    return mf_tree_map(mf_closure(divide_leaf, &c), tree);
}

static mf_value lerp_leaf(void *decay, mf_value m, mf_value g)
{
    double b = *(double *)decay;
    return mf_add(mf_mul(m, b), mf_mul(g, 1 - b));
}

mf_value mf_moment_ahead(mf_value mu, mf_value updates, double decay, mf_value count, bool nesterov)
{
    if (!nesterov)
        return mf_moment_corrected(mu, decay, count);
    mf_value next = mf_moment_corrected(mu, decay, mf_count_after(count));
    return mf_tree_map(mf_closure(lerp_leaf, &decay), next, mf_moment_corrected(updates, decay, count));
}

static mf_value quotient_leaf(void *eps, mf_value m, mf_value v)
{
    const double *e = eps;
    return mf_div(m, mf_add(mf_sqrt(e[1] != 0 ? mf_add(v, e[1]) : v), e[0]));
}

mf_value mf_moment_quotient(mf_value mu, mf_value nu, double eps, double eps_root)
{
    double both[2] = { eps, eps_root };
    return mf_tree_map(mf_closure(quotient_leaf, &both), mu, nu);
}

mf_value mf_root_mean_square(mf_value x) { return mf_sqrt(mf_mean(mf_square(x))); }

static mf_value filled(void *with, mf_value x) { return mf_full_like(x, *(double *)with); }
mf_value mf_filled_like(mf_value params, double with) { return mf_tree_map(mf_closure(filled, &with), params); }
