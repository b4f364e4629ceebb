/* manyfold/random.h - random numbers from explicit keys: threefry 2x32, bit-equal to JAX's
 * default (partitionable) generator. A key is a u32[2] array. The same key always gives the same
 * numbers; split it before using it twice. */
#ifndef MANYFOLD_RANDOM_H
#define MANYFOLD_RANDOM_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/ops.h>

MF_BEGIN_

/* The block cipher itself: u32 operands of one shape; a tuple of two */
mf_value mf_threefry2x32(mf_value key, mf_value x1, mf_value x2);

mf_value mf_random_key(uint64_t seed);             /* jax.random.PRNGKey */
mf_value mf_random_split(mf_value key, int count); /* u32[count,2] */
mf_value mf_random_fold_in(mf_value key, mf_value data);
mf_value mf_random_bits(mf_value key, mf_shape shape, mf_dtype dtype);    /* u8, u16, u32, u64 */
mf_value mf_random_uniform(mf_value key, mf_shape shape, mf_dtype dtype); /* [0, 1) */
mf_value mf_random_uniform_in(mf_value key, mf_shape shape, mf_dtype dtype, mf_value low,
                              mf_value high);
mf_value mf_random_normal(mf_value key, mf_shape shape, mf_dtype dtype);
mf_value mf_random_truncated_normal(mf_value key, double low, double high, mf_shape shape,
                                    mf_dtype dtype);
/* [low, high) */
mf_value mf_random_randint(mf_value key, mf_shape shape, mf_value low, mf_value high,
                           mf_dtype dtype);
/* x with its slices along .axis in another order, or of a number x the numbers 0 .. x-1;
 * .independent: each line along the axis by itself. */
typedef struct mf_permutation_options {
    int axis;
    bool independent;
    mf_reserved reserved_;
} mf_permutation_options;
mf_value mf_random_permutation(mf_value key, mf_value x);
mf_value mf_random_permutation_opt(mf_value key, mf_value x, const mf_permutation_options *o);
mf_value mf_random_bernoulli(mf_value key, double p, mf_shape shape);         /* bool */
mf_value mf_random_exponential(mf_value key, mf_shape shape, mf_dtype dtype); /* rate 1 */
mf_value mf_random_gumbel(mf_value key, mf_shape shape, mf_dtype dtype);
mf_value mf_random_laplace(mf_value key, mf_shape shape, mf_dtype dtype);
mf_value mf_random_cauchy(mf_value key, mf_shape shape, mf_dtype dtype);
/* A broadcasts to shape; the first derivative with respect to a is mf_random_gamma_grad */
mf_value mf_random_gamma(mf_value key, mf_value a, mf_shape shape, mf_dtype dtype);
/* lax.random_gamma_grad: how a draw of gamma moves with a, its probability held fixed */
mf_value mf_random_gamma_grad(mf_value a, mf_value sample);
/* i32 positions along axis, of shape draws + (logits without axis) */
mf_value mf_random_categorical(mf_value key, mf_value logits, int axis, mf_shape draws);
/* jax.random.choice: entries of x along .axis, or of 0 .. x-1 when x is a number, by the
 * probabilities .p (equal when unset). */
typedef struct mf_choice_options {
    mf_value p;
    bool without_replacement;
    int axis;
    mf_reserved reserved_;
} mf_choice_options;
mf_value mf_random_choice_opt(mf_value key, mf_value x, mf_shape shape, const mf_choice_options *o);

MF_END_

#include <manyfold/lift/random.h>

#endif
