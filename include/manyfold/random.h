/* manyfold/random.h - random numbers from explicit keys: threefry 2x32, bit-equal to JAX's default (partitionable) generator.
 * A key is a u32[2] array. The same key always gives the same numbers; split it before using it twice. */
#ifndef MANYFOLD_RANDOM_H
#define MANYFOLD_RANDOM_H

#include <manyfold/ops.h>

MF_BEGIN_

mf_value mf_threefry2x32(mf_value key, mf_value x1, mf_value x2); /* the block cipher itself: u32 operands of one shape; a tuple of two */
mf_value mf_random_key(uint64_t seed);                /* jax.random.PRNGKey */
mf_value mf_random_split(mf_value key, int count);    /* u32[count,2] */
mf_value mf_random_fold_in(mf_value key, mf_value data);
mf_value mf_random_bits(mf_value key, mf_shape shape, mf_dtype dtype);                 /* u8, u16, u32, u64 */
mf_value mf_random_uniform(mf_value key, mf_shape shape, mf_dtype dtype);              /* [0, 1) */
mf_value mf_random_uniform_in(mf_value key, mf_shape shape, mf_dtype dtype, mf_value low, mf_value high);
mf_value mf_random_normal(mf_value key, mf_shape shape, mf_dtype dtype);
mf_value mf_random_truncated_normal(mf_value key, double low, double high, mf_shape shape, mf_dtype dtype);
mf_value mf_random_randint(mf_value key, mf_shape shape, mf_value low, mf_value high, mf_dtype dtype);   /* [low, high) */
mf_value mf_random_permutation(mf_value key, int64_t count);                           /* of 0 .. count-1 */
mf_value mf_random_bernoulli(mf_value key, double p, mf_shape shape);                  /* bool */
#ifndef __cplusplus
#define mf_random_fold_in(key, data) MF_2_(mf_random_fold_in, key, data)
#endif

MF_END_

#endif
