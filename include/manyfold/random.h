/* manyfold/random.h - random numbers from explicit keys, as jax.random: threefry 2x32, bit for bit
 * JAX's default generator (jax_threefry_partitionable).
 *
 * A key is a u32 array of shape (2). The same key always gives the same numbers, so split it before
 * it is used again:
 *     mf_value keys = mf_random_split(key, 2);
 *     mf_value x = mf_random_normal(mf_get(keys, 0), MF_SHAPE(3));
 * Shapes open a comment as in manyfold/base.h; `shape` is that of the result. dtype is f32
 * by default (f16, bf16 and f64 are allowed); i32 for integers. Distributions without comment are
 * jax.random's standard ones.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_DTYPE for a key that is none,
 * and for a dtype that cannot be drawn; MF_ERROR_SHAPE. */
#ifndef MANYFOLD_RANDOM_H
#define MANYFOLD_RANDOM_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* (2), x, x -> tuple of x: the block cipher threefry 2x32 itself, of u32 */
mf_value mf_threefry2x32(mf_value key, mf_value x1, mf_value x2);

/* ---- keys */
/* -> (2): jax.random.PRNGKey: the key of a seed */
mf_value mf_random_key(uint64_t seed);
/* (2) -> (count, 2): as many independent keys, 2 by default */
mf_value mf_random_split(mf_value key, int count MF_DEFAULT_(2));
/* (2), () -> (2): a key for each integer, such as a step or a device's index. One integer only
 * (MF_ERROR_SHAPE); use mf_vmap for several */
mf_value mf_random_fold_in(mf_value key, mf_value data);

/* ---- draws. (2) -> shape */
mf_value mf_random_bits(mf_value key, mf_shape shape,
                        mf_dtype dtype MF_DEFAULT_({})); /* u8, u16, u32 (the default) or u64 */
mf_value mf_random_uniform(mf_value key, mf_shape shape,
                           mf_dtype dtype MF_DEFAULT_({})); /* in [0, 1) */
mf_value mf_random_normal(mf_value key, mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_truncated_normal(mf_value key, double low, double high, mf_shape shape,
                                    mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_exponential(mf_value key, mf_shape shape,
                               mf_dtype dtype MF_DEFAULT_({})); /* of rate 1 */
mf_value mf_random_gumbel(mf_value key, mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_laplace(mf_value key, mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_cauchy(mf_value key, mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_logistic(mf_value key, mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_maxwell(mf_value key, mf_shape shape,
                           mf_dtype dtype MF_DEFAULT_({})); /* |3 normals| */
mf_value mf_random_rademacher(mf_value key, mf_shape shape,
                              mf_dtype dtype MF_DEFAULT_({})); /* -1 or 1; i32 */
/* (2), (...) -> shape: the parameters broadcast to the shape; draws have derivatives with respect
 * to them where they are smooth functions of them */
mf_value mf_random_lognormal(mf_value key, mf_value sigma, mf_shape shape,
                             mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_pareto(mf_value key, mf_value b, mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_rayleigh(mf_value key, mf_value scale, mf_shape shape,
                            mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_wald(mf_value key, mf_value mean, mf_shape shape,
                        mf_dtype dtype MF_DEFAULT_({}));
/* (2), (...), (...) -> shape: the same */
mf_value mf_random_weibull_min(mf_value key, mf_value scale, mf_value concentration, mf_shape shape,
                               mf_dtype dtype MF_DEFAULT_({}));
/* (2), (...), (...), (...) -> shape: the same */
mf_value mf_random_triangular(mf_value key, mf_value left, mf_value mode, mf_value right,
                              mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
/* (2), (...) -> shape: integers: the number of trials up to the first success, from 1; the number
 * of events where lam are expected (-1 for a negative lam or NaN) */
mf_value mf_random_geometric(mf_value key, mf_value p, mf_shape shape,
                             mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_poisson(mf_value key, mf_value lam, mf_shape shape,
                           mf_dtype dtype MF_DEFAULT_({}));
/* (2), (...), (...) -> shape: f32 or f64: the number of successes in n trials of probability p; NaN
 * for a negative n or a p outside [0, 1] */
mf_value mf_random_binomial(mf_value key, mf_value n, mf_value p, mf_shape shape,
                            mf_dtype dtype MF_DEFAULT_({}));
/* (2), (...) -> shape: bool: true with probability p, which broadcasts to the shape */
mf_value mf_random_bernoulli(mf_value key, mf_value p, mf_shape shape);
/* (2), (...), (...) -> shape: in [low, high), which broadcast to the shape */
mf_value mf_random_uniform_in(mf_value key, mf_shape shape, mf_dtype dtype, mf_value low,
                              mf_value high);
/* (2), (...), (...) -> shape: integers in [low, high), which broadcast to the shape */
mf_value mf_random_randint(mf_value key, mf_shape shape, mf_value low, mf_value high,
                           mf_dtype dtype MF_DEFAULT_({}));
/* (2), (..., n, ...) -> (..., n, ...): the slices of x along .axis (0 by default) in random order;
 * of an integer n, the numbers 0, ..., n - 1. .independent: permutes each line along the axis by
 * itself */
typedef struct mf_permutation_options {
    int axis;
    bool independent;
    mf_reserved reserved_;
} mf_permutation_options;
mf_value mf_random_permutation(mf_value key, mf_value x);
mf_value mf_random_permutation_opt(mf_value key, mf_value x, const mf_permutation_options *o);
/* (2), (...) -> shape: the parameter broadcasts to the shape. Draws of gamma have a first
 * derivative with respect to a, mf_random_gamma_grad */
mf_value mf_random_gamma(mf_value key, mf_value a, mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_loggamma(mf_value key, mf_value a, mf_shape shape,
                            mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_chisquare(mf_value key, mf_value df, mf_shape shape,
                             mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_t(mf_value key, mf_value df, mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
/* (2), (...), (...) -> shape: both parameters broadcast to the shape */
mf_value mf_random_beta(mf_value key, mf_value a, mf_value b, mf_shape shape,
                        mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_random_f(mf_value key, mf_value dfnum, mf_value dfden, mf_shape shape,
                     mf_dtype dtype MF_DEFAULT_({}));
/* (2) -> shape: with a density proportional to e^-|x|^p; for p = 2 a normal distribution with
 * variance 1/2 */
mf_value mf_random_generalized_normal(mf_value key, double p, mf_shape shape,
                                      mf_dtype dtype MF_DEFAULT_({}));
/* (2), (..., n) -> shape + (n): probabilities, which sum to 1 */
mf_value mf_random_dirichlet(mf_value key, mf_value alpha, mf_shape shape,
                             mf_dtype dtype MF_DEFAULT_({}));
/* (...), (...) -> (...): lax.random_gamma_grad: the derivative of a draw of gamma with respect to
 * a, at fixed probability */
mf_value mf_random_gamma_grad(mf_value a, mf_value sample);
/* (2), (..., n, ...) -> draws, then (...): i32: positions along axis, with probabilities
 * softmax(logits) */
mf_value mf_random_categorical(mf_value key, mf_value logits, int axis, mf_shape draws);
/* (2), (..., n, ...) -> (..., shape, ...): jax.random.choice: entries of x along .axis (0 by
 * default), or for an integer x of 0, ..., x - 1; .p: their probabilities, (n), equal by default */
typedef struct mf_choice_options {
    mf_value p;
    bool without_replacement;
    int axis;
    mf_reserved reserved_;
} mf_choice_options;
mf_value mf_random_choice_opt(mf_value key, mf_value x, mf_shape shape, const mf_choice_options *o);

/* ---- vectors and matrices */
/* (2) -> shape + (d): uniform in the unit ball of the p-norm */
mf_value mf_random_ball(mf_value key, int d, double p, mf_shape shape,
                        mf_dtype dtype MF_DEFAULT_({}));
/* (2), (..., n), (..., n, n) -> shape + (n): by the Cholesky factor of the covariance; NaN where
 * that is not positive definite */
mf_value mf_random_multivariate_normal(mf_value key, mf_value mean, mf_value cov, mf_shape shape,
                                       mf_dtype dtype MF_DEFAULT_({}));
/* (2) -> shape + (n, n): uniformly distributed (Haar) orthogonal matrices */
mf_value mf_random_orthogonal(mf_value key, int n, mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));

MF_END_

#include <manyfold/lift/random.h>

#endif
