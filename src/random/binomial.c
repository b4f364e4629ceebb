/* binomial: for a mean up to 10 by inversion with geometric gaps, above by transformed rejection (Hormann's BTRS). Formulas and draws are
 * those of jax.random.binomial. Invariant: every round draws for every element until the last one is accepted, so the number of an element
 * does not depend on when others are accepted. */
#include "random/draws.h"

#include <math.h>

static mf_value uniform_like(mf_value key, mf_value x) { return mf_random_uniform(key, mf_shape_of(x), mf_dtype_of(x)); }

/* ---- inversion. The carry is (key, gaps, sum of the gaps, count, log(1 - p)) */
static mf_value some_fit(mf_value carry) { return mf_any(mf_less_equal(mf_get(carry, 2), mf_get(carry, 3))); }

static mf_value next_gap(mf_value carry)
{
    mf_value key, gaps, sum, count, log_failure;
    mf_unpack(carry, &key, &gaps, &sum, &count, &log_failure);
    mf_value keys = mf_random_split(key, 2);
    if (mf_is_error(count) || mf_is_error(keys))
        return mf_is_error(keys) ? keys : count;
    gaps = mf_where(mf_less_equal(sum, count), mf_add(gaps, 1), gaps);
    mf_value gap = mf_ceil(mf_div(mf_log(uniform_like(mf_get(keys, 0), count)), log_failure));
    return mf_tuple(mf_get(keys, 1), gaps, mf_add(sum, gap), count, log_failure);
}

static mf_value by_inversion(mf_value key, mf_value count, mf_value p)
{
    mf_value zero = mf_zeros_like(p), carry = mf_tuple(key, zero, zero, count, mf_log1p(mf_neg(p)));
    return mf_sub(mf_get(mf_while(some_fit, next_gap, carry), 1), 1);
}

/* ---- rejection. The carry is (key, draws, accepted, count, p) */
static mf_value is_incomplete(mf_value carry) { return mf_logical_not(mf_all(mf_get(carry, 2))); }

/* log(k!) minus Stirling's approximation of it: from a table for k up to 9, else by the first terms of the series. */
static mf_value stirling_tail(mf_value k)
{
    static const double tails[] = { 0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
                                    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287 };
    mf_dtype d = mf_dtype_of(k);
    mf_value small = mf_less_equal(k, 9), safe = mf_clip(k, 0, 9), square = mf_square(mf_add(safe, 1));
    mf_value series = mf_sub(mf_scalar(1.0 / 360, d), mf_div(mf_scalar(1.0 / 1260, d), square));
    mf_value above = mf_div(mf_sub(mf_scalar(1.0 / 12, d), mf_div(series, square)), mf_add(safe, 1));
    mf_value table = mf_array_n(d, MF_SHAPE(10), tails, 10);
    return mf_where(small, mf_take(table, mf_astype(mf_floor(safe), MF_I32)), above);
}

static mf_value times_log(mf_value factor, mf_value over, mf_value under) { return mf_mul(factor, mf_log(mf_div(over, under))); }

/* log(P(k) / P(m)), m being the mode. */
static mf_value log_ratio(mf_value k, mf_value m, mf_value count, mf_value r)
{
    mf_value left = mf_add(mf_sub(count, m), 1), left_of_k = mf_add(mf_sub(count, k), 1);
    mf_value sum = times_log(mf_add(m, 0.5), mf_add(m, 1), mf_mul(r, left));
    sum = mf_add(sum, times_log(mf_add(count, 1), left, left_of_k));
    sum = mf_add(sum, times_log(mf_add(k, 0.5), mf_mul(r, left_of_k), mf_add(k, 1)));
    sum = mf_add(mf_add(sum, stirling_tail(m)), stirling_tail(mf_sub(count, m)));
    return mf_sub(mf_sub(sum, stirling_tail(k)), stirling_tail(mf_sub(count, k)));
}

static mf_value next_trial(mf_value carry)
{
    mf_value key, draws, accepted, count, p;
    mf_unpack(carry, &key, &draws, &accepted, &count, &p);
    mf_value keys = mf_random_split(key, 3);
    if (mf_is_error(p) || mf_is_error(keys))
        return mf_is_error(keys) ? keys : p;
    mf_value mean = mf_mul(count, p), deviation = mf_sqrt(mf_mul(mean, mf_sub(1, p)));
    mf_value b = mf_add(mf_mul(deviation, 2.53), 1.15), a = mf_add(mf_add(mf_mul(b, 0.0248), -0.0873), mf_mul(p, 0.01));
    mf_value quick = mf_sub(0.92, mf_div(4.2, b)), r = mf_div(p, mf_sub(1, p));
    mf_value alpha = mf_mul(mf_add(mf_div(5.1, b), 2.83), deviation), m = mf_floor(mf_mul(mf_add(count, 1), p));
    mf_value u = mf_sub(uniform_like(mf_get(keys, 1), p), 0.5), v = uniform_like(mf_get(keys, 2), p);
    mf_value distance = mf_sub(0.5, mf_abs(u));
    mf_value at_once = mf_logical_and(mf_greater_equal(distance, 0.07), mf_less_equal(v, quick));
    mf_value k = mf_floor(mf_add(mf_mul(mf_add(mf_div(mf_mul(a, 2), distance), b), u), mf_add(mean, 0.5)));
    mf_value outside = mf_logical_or(mf_less(k, 0), mf_greater(k, count));
    mf_value bound = mf_log(mf_div(mf_mul(v, alpha), mf_add(mf_div(a, mf_square(distance)), b)));
    mf_value fits = mf_logical_and(mf_logical_not(outside), mf_less_equal(bound, log_ratio(k, m, count, r)));
    mf_value now = mf_logical_or(at_once, fits);
    return mf_tuple(mf_get(keys, 0), mf_where(now, k, draws), mf_logical_or(accepted, now), count, p);
}

static mf_value by_rejection(mf_value key, mf_value count, mf_value p)
{
    mf_value none = mf_astype(mf_zeros_like(p), MF_BOOL);
    return mf_get(mf_while(is_incomplete, next_trial, mf_tuple(key, mf_full_like(p, -1), none, count, p)), 1);
}

/* Draws the number of the rarer outcome. Both methods run for all elements; an element that does not need a method gets parameters with
 * which it finishes quickly. */
static mf_value binomial(mf_value key, mf_value n, mf_value p)
{
    mf_value rare = mf_less(p, 0.5), q = mf_where(rare, p, mf_sub(1, p));
    mf_value no_count = mf_logical_or(mf_isnan(n), mf_less(n, 0)), wrong_q = mf_logical_or(mf_isnan(q), mf_less(q, 0));
    mf_value endless = mf_isinf(n);
    q = mf_where(wrong_q, 0.01, q);
    mf_value inverts = mf_logical_or(no_count, mf_less_equal(mf_mul(n, q), 10)), count = mf_floor(n);
    mf_value draws = mf_where(inverts, by_inversion(key, mf_where(inverts, count, 0), q),
                              by_rejection(key, mf_where(inverts, 1e4, count), mf_where(inverts, 0.5, q)));
    mf_value wrong = mf_logical_or(wrong_q, no_count);
    draws = mf_where(wrong, (double)NAN, mf_where(endless, (double)INFINITY, draws));
    return mf_where(mf_logical_or(mf_logical_or(rare, no_count), mf_logical_or(mf_isnan(p), endless)), draws, mf_sub(count, draws));
}

mf_value(mf_random_binomial)(mf_value key, mf_value n, mf_value p, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = random_float(dtype);
    if (dtype != MF_F32 && dtype != MF_F64)
        return mf_make_error(MF_ERROR_DTYPE, "binomial needs float32 or float64, not %s", mf_str_dtype(dtype));
    n = mf_broadcast_to(mf_astype(n, dtype), shape);
    p = mf_broadcast_to(mf_astype(p, dtype), shape);
    return mf_call(mf_jit(binomial), key, n, p);
}
