/* poisson: for lam below 10 by multiplying uniforms (Knuth), else by transformed rejection (Hormann). Formulas and draws are those of
 * jax/_src/random. Invariant: every round draws for every element until the last one is accepted, so the number of an element does not
 * depend on when others are accepted. */
#include "random/draws.h"

/* Multiplies uniforms until their product is at most e^-lam. The carry is (k, key, log_product, lam). */
static mf_value counts_on(mf_value carry) { return mf_any(mf_greater(mf_get(carry, 2), mf_neg(mf_get(carry, 3)))); }

static mf_value next_factor(mf_value carry)
{
    mf_value keys = mf_random_split(mf_get(carry, 1), 2), product = mf_get(carry, 2), lam = mf_get(carry, 3);
    if (mf_is_error(lam))
        return lam; /* an error has no shape */
    mf_value k = mf_add(mf_get(carry, 0), mf_astype(mf_greater(product, mf_neg(lam)), MF_I32));
    mf_value u = mf_random_uniform(mf_get(keys, 1), mf_shape_of(lam), MF_F32);
    return mf_tuple(k, mf_get(keys, 0), mf_add(product, mf_log(u)), lam);
}

static mf_value counted(mf_value key, mf_value lam)
{
    mf_value zero = mf_zeros_like(lam);
    return mf_sub(mf_get(mf_while(counts_on, next_factor, mf_tuple(mf_astype(zero, MF_I32), key, zero, lam)), 0), 1);
}

/* The carry is (k, accepted, key, lam). */
static mf_value is_incomplete(mf_value carry) { return mf_logical_not(mf_all(mf_get(carry, 1))); }

static mf_value next_trial(mf_value carry)
{
    mf_value lam = mf_get(carry, 3), keys = mf_random_split(mf_get(carry, 2), 3);
    if (mf_is_error(lam))
        return lam;
    mf_value b = mf_add(mf_mul(mf_sqrt(lam), 2.53), 0.931), a = mf_add(mf_mul(b, 0.02483), -0.059);
    mf_value inverse = mf_add(mf_div(1.1328, mf_sub(b, 3.4)), 1.1239), quick = mf_sub(0.9277, mf_div(3.6224, mf_sub(b, 2)));
    mf_value u = mf_sub(mf_random_uniform(mf_get(keys, 1), mf_shape_of(lam), MF_F32), 0.5), distance = mf_sub(0.5, mf_abs(u));
    mf_value v = mf_random_uniform(mf_get(keys, 2), mf_shape_of(lam), MF_F32);
    mf_value k = mf_floor(mf_add(mf_add(mf_mul(mf_add(mf_div(mf_mul(a, 2), distance), b), u), lam), 0.43));
    mf_value s = mf_log(mf_div(mf_mul(v, inverse), mf_add(mf_div(a, mf_square(distance)), b)));
    mf_value t = mf_sub(mf_sub(mf_mul(k, mf_log(lam)), lam), mf_lgamma(mf_add(k, 1)));
    mf_value at_once = mf_logical_and(mf_greater_equal(distance, 0.07), mf_less_equal(v, quick));
    mf_value rejected = mf_logical_or(mf_less(k, 0), mf_logical_and(mf_less(distance, 0.013), mf_greater(v, distance)));
    mf_value accepted = mf_logical_or(at_once, mf_logical_and(mf_logical_not(rejected), mf_less_equal(s, t)));
    return mf_tuple(mf_where(accepted, k, mf_get(carry, 0)), mf_logical_or(mf_get(carry, 1), accepted), mf_get(keys, 0), lam);
}

static mf_value rejected(mf_value key, mf_value lam)
{
    mf_value none = mf_astype(mf_zeros_like(lam), MF_BOOL);
    return mf_get(mf_while(is_incomplete, next_trial, mf_tuple(mf_neg(mf_ones_like(lam)), none, key, lam)), 0);
}

mf_value(mf_random_poisson)(mf_value key, mf_value lam, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = dtype == MF_DTYPE_DEFAULT ? MF_I32 : dtype;
    if (dtype < MF_I8 || dtype > MF_U64)
        return mf_make_error(MF_ERROR_DTYPE, "poisson needs an integer dtype, not %s", mf_str_dtype(dtype));
    lam = mf_broadcast_to(mf_astype(lam, MF_F32), shape);
    if (mf_is_error(lam))
        return lam;
    mf_value wrong = mf_logical_not(mf_greater_equal(lam, 0)), few = mf_less(lam, 10);
    mf_value small = mf_astype(counted(key, mf_where(few, mf_maximum(lam, 0), 0)), dtype);
    mf_value large = mf_astype(rejected(key, mf_where(few, 1e5, mf_where(wrong, 1e5, lam))), dtype);
    mf_value draws = mf_where(mf_equal(lam, 0), mf_zeros_like(small), mf_where(few, small, large));
    return mf_where(wrong, mf_scalar(-1, dtype), draws);
}
