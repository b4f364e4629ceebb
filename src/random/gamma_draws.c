/* gamma, and the distributions computed from it: loggamma, beta, dirichlet, chisquare, f, t, generalized_normal, ball. Formulas and the
 * order of draws are those of jax/_src/random. Invariant: the rejection loop runs for each element separately, with its own key, so a
 * number does not depend on the other elements. */
#include "random/draws.h"

/* ---- gamma, by the rejection method of Marsaglia and Tsang: d * (1 + c * normal)^3 */

/* The inner loop draws until v = 1 + c * x is positive. The carry is (key, x, v, c). */
static mf_value base_is_not_positive(mf_value carry) { return mf_less_equal(mf_get(carry, 2), mf_zeros_like(mf_get(carry, 2))); }

static mf_value next_base(mf_value carry)
{
    mf_value keys = mf_random_split(mf_get(carry, 0), 2), c = mf_get(carry, 3);
    mf_value x = mf_random_normal(mf_get(keys, 1), MF_SHAPE0, mf_dtype_of(c));
    return mf_tuple(mf_get(keys, 0), x, mf_add(mf_ones_like(x), mf_mul(x, c)), c);
}

/* The outer loop's carry is (key, x^2, v^3, u, c, d). */
static mf_value is_rejected(mf_value carry)
{
    mf_value x = mf_get(carry, 1), v = mf_get(carry, 2), u = mf_get(carry, 3), d = mf_get(carry, 5), one = mf_ones_like(v);
    mf_value quick = mf_greater_equal(u, mf_sub(one, mf_mul(mf_mul(x, x), 0.0331)));
    mf_value bound = mf_add(mf_mul(x, 0.5), mf_mul(d, mf_add(mf_sub(one, v), mf_log(v))));
    return mf_logical_and(quick, mf_greater_equal(mf_log(u), bound));
}

static mf_value next_trial(mf_value carry)
{
    mf_value keys = mf_random_split(mf_get(carry, 0), 3), c = mf_get(carry, 4), zero = mf_zeros_like(c);
    mf_value base = mf_while(base_is_not_positive, next_base, mf_tuple(mf_get(keys, 1), zero, mf_sub(zero, 1), c));
    mf_value x = mf_get(base, 1), v = mf_get(base, 2);
    mf_value u = mf_random_uniform(mf_get(keys, 2), MF_SHAPE0, mf_dtype_of(c));
    return mf_tuple(mf_get(keys, 0), mf_mul(x, x), mf_mul(mf_mul(v, v), v), u, c, mf_get(carry, 5));
}

/* Gamma(a), or its logarithm, because for small a the number itself underflows. For a < 1 it is Gamma(a + 1) * u^(1/a). */
static mf_value drawn(mf_value key, mf_value a, bool logarithm)
{
    mf_dtype dtype = mf_dtype_of(a);
    mf_value one = mf_ones_like(a), zero = mf_zeros_like(a), third = mf_scalar(1.0 / 3, dtype), large = mf_greater_equal(a, one);
    mf_value d = mf_sub(mf_where(large, a, mf_add(a, one)), third), c = mf_div(third, mf_sqrt(d)), keys = mf_random_split(key, 2);
    mf_value accepted = mf_get(mf_while(is_rejected, next_trial, mf_tuple(mf_get(keys, 0), zero, one, mf_add(one, one), c, d)), 2);
    mf_value u = mf_random_uniform(mf_get(keys, 1), MF_SHAPE0, dtype);
    if (!logarithm)
        return mf_mul(mf_mul(d, accepted), mf_where(large, one, mf_pow(mf_sub(one, u), mf_div(one, a))));
    mf_value log_u = mf_log1p(mf_neg(u)), small = mf_logical_and(mf_logical_not(large), mf_not_equal(log_u, 0));
    return mf_add(mf_add(mf_log(d), mf_log(accepted)), mf_where(small, mf_mul(log_u, mf_div(one, a)), zero));
}

static mf_value gamma_of_one(mf_value key, mf_value a) { return drawn(key, a, false); }
static mf_value loggamma_of_one(mf_value key, mf_value a) { return drawn(key, a, true); }
static mf_value gamma_of_each(mf_value keys, mf_value a) { return mf_call(mf_vmap(gamma_of_one), keys, a); }
static mf_value loggamma_of_each(mf_value keys, mf_value a) { return mf_call(mf_vmap(loggamma_of_one), keys, a); }

/* Differentiating through the loop would ignore that acceptance depends on a, so this is the implicit derivative. Keys have no tangent. */
static mf_value gamma_jvp(mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 1), draws = gamma_of_each(mf_get(primals, 0), a);
    return mf_tuple(draws, mf_mul(mf_get(tangents, 1), mf_random_gamma_grad(a, draws)));
}

static mf_value loggamma_jvp(mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 1), logs = loggamma_of_each(mf_get(primals, 0), a), draws = mf_exp(logs);
    mf_value slope = mf_div(mf_random_gamma_grad(a, draws), mf_where(mf_equal(draws, 0), 1, draws));
    return mf_tuple(logs, mf_mul(mf_get(tangents, 1), slope));
}

static mf_value each(mf_value key, mf_value a, mf_shape shape, mf_dtype dtype, mf_function draw, const char *name)
{
    dtype = random_float(dtype);
    if (!random_is_float(dtype))
        return random_no_float(name, dtype);
    a = mf_broadcast_to(mf_astype(a, dtype), shape);
    if (mf_is_error(a) || random_count(shape) == 0)
        return a;
    return mf_reshape(mf_call(draw, mf_random_split(key, (int)random_count(shape)), mf_ravel(a)), shape);
}

mf_value(mf_random_gamma)(mf_value key, mf_value a, mf_shape shape, mf_dtype dtype)
{
    return each(key, a, shape, dtype, mf_custom_jvp(gamma_of_each, gamma_jvp), "gamma");
}

mf_value(mf_random_loggamma)(mf_value key, mf_value a, mf_shape shape, mf_dtype dtype)
{
    return each(key, a, shape, dtype, mf_custom_jvp(loggamma_of_each, loggamma_jvp), "loggamma");
}

/* ---- computed from gamma */

/* x / (x + y) for two gammas, computed from logarithms because both may underflow. */
mf_value(mf_random_beta)(mf_value key, mf_value a, mf_value b, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    mf_value keys = mf_random_split(key, 2);
    mf_value first = mf_random_loggamma(mf_get(keys, 0), a, shape, dtype), second = mf_random_loggamma(mf_get(keys, 1), b, shape, dtype);
    mf_value top = mf_maximum(first, second), share = mf_exp(mf_sub(first, top));
    return mf_div(share, mf_add(share, mf_exp(mf_sub(second, top))));
}

mf_value(mf_random_dirichlet)(mf_value key, mf_value alpha, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    if (mf_ndim(alpha) < 1)
        return mf_is_error(alpha) ? alpha : mf_make_error(MF_ERROR_SHAPE, "dirichlet: alpha needs a dimension, that of the shares");
    if (shape.rank < 0 || shape.rank >= MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "dirichlet: at most %d dimensions, not %d", MF_MAX_RANK - 1, shape.rank);
    shape.dims[shape.rank++] = mf_dim(alpha, -1);
    return mf_softmax(mf_random_loggamma(key, alpha, shape, dtype), -1);
}

mf_value(mf_random_chisquare)(mf_value key, mf_value df, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    return mf_mul(mf_exp(mf_random_loggamma(key, mf_div(df, 2), shape, dtype)), 2);
}

mf_value(mf_random_f)(mf_value key, mf_value dfnum, mf_value dfden, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    mf_value keys = mf_random_split(key, 2); /* the denominator uses the first key */
    mf_value numerator = mf_random_chisquare(mf_get(keys, 1), dfnum, shape, dtype),
             denominator = mf_random_chisquare(mf_get(keys, 0), dfden, shape, dtype);
    mf_dtype d = mf_dtype_of(numerator);
    return mf_div(mf_div(numerator, mf_astype(dfnum, d)), mf_div(denominator, mf_astype(dfden, d)));
}

mf_value(mf_random_t)(mf_value key, mf_value df, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    mf_value keys = mf_random_split(key, 2), n = mf_random_normal(mf_get(keys, 0), shape, dtype),
             half = mf_div(mf_astype(df, random_float(dtype)), 2);
    return mf_mul(n, mf_sqrt(mf_div(half, mf_random_gamma(mf_get(keys, 1), half, shape, dtype))));
}

/* Density proportional to exp(-|x|^p). */
mf_value(mf_random_generalized_normal)(mf_value key, double p, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    mf_value keys = mf_random_split(key, 2), g = mf_random_gamma(mf_get(keys, 0), 1 / p, shape, dtype);
    return mf_mul(mf_random_rademacher(mf_get(keys, 1), shape, random_float(dtype)), mf_pow(g, mf_scalar(1 / p, random_float(dtype))));
}

/* Uniform in the unit ball of the p-norm in d dimensions. */
mf_value(mf_random_ball)(mf_value key, int d, double p, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    if (shape.rank < 0 || shape.rank >= MF_MAX_RANK || d < 0)
        return mf_make_error(MF_ERROR_SHAPE, "random ball: %d dimensions of points in %d dimensions", shape.rank, d);
    mf_shape points = shape;
    points.dims[points.rank++] = d;
    mf_value keys = mf_random_split(key, 2), g = mf_random_generalized_normal(mf_get(keys, 0), p, points, dtype);
    mf_value e = mf_random_exponential(mf_get(keys, 1), shape, dtype), power = mf_scalar(p, random_float(dtype));
    mf_value norm = mf_pow(mf_add(mf_sum(mf_pow(mf_abs(g), power), -1), e), mf_scalar(1 / p, random_float(dtype)));
    return mf_div(g, mf_expand_dims(norm, -1));
}
