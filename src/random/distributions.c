/* Distributions computed from one or two uniform or normal numbers per element. Formulas and the order of draws are those of
 * jax/_src/random, so values agree with JAX's up to rounding in logarithms and sums. Invariant: a number depends only on its key and its
 * position. */
#include "random/draws.h"

#include <float.h>

/* finfo(d).tiny, the smallest normal number, and finfo(d).eps. */
static double tiny_of(mf_dtype d) { return d == MF_F64 ? DBL_MIN : d == MF_F16 ? 0x1p-14 : (double)FLT_MIN; }
static double epsilon_of(mf_dtype d)
{
    return d == MF_F64 ? DBL_EPSILON : d == MF_F16 ? 0x1p-10 : d == MF_BF16 ? 0x1p-7 : (double)FLT_EPSILON;
}

static mf_value uniform_from(mf_value key, mf_shape shape, mf_dtype dtype, double low)
{
    return mf_random_uniform_in(key, shape, dtype, mf_f(low), mf_f(1));
}

mf_value(mf_random_exponential)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    return mf_neg(mf_log1p(mf_neg(mf_random_uniform(key, shape, dtype)))); /* log(1 - u): u can be 0, but not 1 */
}

mf_value(mf_random_gumbel)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = random_float(dtype);
    return mf_neg(mf_log(mf_neg(mf_log(uniform_from(key, shape, dtype, tiny_of(dtype))))));
}

mf_value(mf_random_laplace)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = random_float(dtype);
    mf_value u = uniform_from(key, shape, dtype, epsilon_of(dtype) / 2 - 1);
    return mf_mul(mf_sign(u), mf_log1p(mf_neg(mf_abs(u))));
}

mf_value(mf_random_cauchy)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = random_float(dtype);
    mf_value u = uniform_from(key, shape, dtype, epsilon_of(dtype));
    return mf_tan(mf_mul(mf_scalar(3.141592653589793, dtype), mf_sub(u, mf_scalar(0.5, dtype))));
}

mf_value(mf_random_logistic)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = random_float(dtype);
    mf_value u = uniform_from(key, shape, dtype, tiny_of(dtype));
    return mf_sub(mf_log(u), mf_log1p(mf_neg(u)));
}

mf_value(mf_random_rademacher)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    mf_value heads = mf_astype(mf_random_bernoulli(key, 0.5, shape), dtype == MF_DTYPE_DEFAULT ? MF_I32 : dtype);
    return mf_sub(mf_mul(heads, 2), 1);
}

mf_value(mf_random_maxwell)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    if (shape.rank < 0 || shape.rank >= MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "random maxwell: at most %d dimensions, not %d", MF_MAX_RANK - 1, shape.rank);
    shape.dims[shape.rank++] = 3;
    return mf_norm(mf_random_normal(key, shape, dtype), -1);
}

/* ---- distributions with parameters, which broadcast to the shape */
static mf_value broadcast(mf_value parameter, mf_shape shape, mf_dtype dtype)
{
    return mf_broadcast_to(mf_astype(parameter, random_float(dtype)), shape);
}

mf_value(mf_random_lognormal)(mf_value key, mf_value sigma, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    return mf_exp(mf_mul(mf_random_normal(key, shape, dtype), broadcast(sigma, shape, dtype)));
}

mf_value(mf_random_pareto)(mf_value key, mf_value b, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    return mf_exp(mf_div(mf_random_exponential(key, shape, dtype), broadcast(b, shape, dtype)));
}

mf_value(mf_random_rayleigh)(mf_value key, mf_value scale, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    return mf_mul(broadcast(scale, shape, dtype), mf_sqrt(mf_mul(mf_log(mf_random_uniform(key, shape, dtype)), -2)));
}

mf_value(mf_random_weibull_min)(mf_value key, mf_value scale, mf_value concentration, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    mf_value e = mf_random_exponential(key, shape, dtype);
    return mf_mul(mf_pow(e, mf_reciprocal(broadcast(concentration, shape, dtype))), broadcast(scale, shape, dtype));
}

mf_value(mf_random_triangular)(mf_value key, mf_value left, mf_value mode, mf_value right, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    left = broadcast(left, shape, dtype);
    mode = broadcast(mode, shape, dtype);
    right = broadcast(right, shape, dtype);
    mf_value u = mf_random_uniform(key, shape, dtype), width = mf_sub(right, left), rise = mf_sub(mode, left);
    mf_value low = mf_add(left, mf_sqrt(mf_mul(mf_mul(u, width), rise)));
    mf_value high = mf_sub(right, mf_sqrt(mf_mul(mf_mul(mf_sub(1, u), width), mf_sub(right, mode))));
    return mf_where(mf_less(u, mf_div(rise, width)), low, high);
}

mf_value(mf_random_geometric)(mf_value key, mf_value p, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    mf_dtype d = random_is_float(mf_dtype_of(p)) ? mf_dtype_of(p) : MF_F32;
    mf_value u = mf_random_uniform(key, shape, d), tails = mf_log1p(mf_neg(broadcast(p, shape, d)));
    mf_value trials = mf_add(mf_floor(mf_div(mf_log(mf_where(mf_equal(u, 0), 1, u)), tails)), 1);
    return mf_astype(trials, dtype == MF_DTYPE_DEFAULT ? MF_I32 : dtype);
}

mf_value(mf_random_wald)(mf_value key, mf_value mean, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    mf_value keys = mf_random_split(key, 2), v = mf_random_normal(mf_get(keys, 0), shape, dtype);
    mf_value z = mf_random_uniform(mf_get(keys, 1), shape, dtype), y = mf_square(v);
    mean = broadcast(mean, shape, dtype);
    mf_value square = mf_square(mean), root = mf_sqrt(mf_add(mf_mul(mf_mul(mean, y), 4), mf_mul(square, mf_square(y))));
    mf_value x = mf_sub(mf_add(mean, mf_mul(mf_mul(square, y), 0.5)), mf_mul(mf_mul(mean, 0.5), root));
    return mf_where(mf_less_equal(z, mf_div(mean, mf_add(mean, x))), x, mf_div(square, x));
}
