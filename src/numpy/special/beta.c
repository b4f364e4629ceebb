/* The regularised incomplete beta function. Invariant: the continued fraction is evaluated on the side of the mean where it converges
 * quickly, and its loop runs until every element has converged. */
#include "numpy/floats.h"

#include <float.h>
#include <math.h>

/* The carry is (open, m, c, d, fraction, a, b, x): convergents by Lentz's method (Numerical Recipes, 6.4; NIST DLMF 8.17.22). */
static mf_value is_open(mf_value carry) { return mf_logical_and(mf_less(mf_get(carry, 1), 10000), mf_any(mf_get(carry, 0))); }

/* x, or a tiny number where x is nearer to 0. */
static mf_value not_zero(mf_value x)
{
    mf_value tiny = mf_scalar(mf_dtype_of(x) == MF_F64 ? DBL_MIN : (double)FLT_MIN, mf_dtype_of(x));
    return mf_where(mf_less(mf_abs(x), tiny), tiny, x);
}

/* One term of the fraction: d = 1 / (1 + term * d) and c = 1 + term / c. */
static void take_term(mf_value term, mf_value *c, mf_value *d)
{
    *d = mf_reciprocal(not_zero(mf_add(mf_mul(term, *d), 1)));
    *c = not_zero(mf_add(mf_div(term, *c), 1));
}

static mf_value next_convergent(mf_value carry)
{
    mf_value open, m, c, d, sum, a, b, x;
    mf_unpack(carry, &open, &m, &c, &d, &sum, &a, &b, &x);
    m = mf_add(m, 1);
    mf_value twice = mf_add(a, mf_mul(m, 2)), was_c = c, was_d = d;
    take_term(mf_div(mf_mul(mf_mul(m, mf_sub(b, m)), x), mf_mul(mf_sub(twice, 1), twice)), &c, &d);
    mf_value even = mf_mul(sum, mf_mul(c, d));
    take_term(mf_neg(mf_div(mf_mul(mf_mul(mf_add(a, m), mf_add(mf_add(a, b), m)), x), mf_mul(twice, mf_add(twice, 1)))), &c, &d);
    mf_value factor = mf_mul(c, d), next = mf_mul(even, factor);
    mf_value epsilon = mf_scalar(numpy_epsilon(x), mf_dtype_of(x));
    mf_value goes_on = mf_logical_and(open, mf_greater(mf_abs(mf_sub(factor, 1)), epsilon));
    return mf_tuple(goes_on, m, mf_where(open, c, was_c), mf_where(open, d, was_d), mf_where(open, next, sum), a, b, x);
}

/* The fraction that is multiplied by x^a (1 - x)^b / (a B(a, b)). */
static mf_value continued_fraction(mf_value a, mf_value b, mf_value x, mf_value usual)
{
    mf_value d = mf_reciprocal(not_zero(mf_sub(1, mf_div(mf_mul(mf_add(a, b), x), mf_add(a, 1)))));
    mf_value carry = mf_tuple(usual, mf_scalar(0, mf_dtype_of(x)), mf_ones_like(x), d, d, a, b, x);
    return mf_get(mf_while(is_open, next_convergent, carry), 4);
}

static mf_value log_density(mf_value a, mf_value b, mf_value x)
{
    return mf_sub(mf_add(mf_xlogy(mf_sub(a, 1), x), mf_xlog1py(mf_sub(b, 1), mf_neg(x))), mf_betaln(a, b));
}

static mf_value share(mf_value a, mf_value b, mf_value x)
{
    mf_value low = mf_logical_or(mf_equal(a, 0), mf_isinf(b)), high = mf_logical_or(mf_equal(b, 0), mf_isinf(a)); /* all mass at 0, at 1 */
    mf_value wrong = mf_logical_not(mf_logical_and(mf_logical_and(mf_greater_equal(a, 0), mf_greater_equal(b, 0)),
                                                   mf_logical_and(mf_greater_equal(x, 0), mf_less_equal(x, 1))));
    wrong = mf_logical_or(wrong, mf_logical_and(low, high));
    mf_value at_end = mf_where(low, mf_greater(x, 0), mf_where(high, mf_equal(x, 1), x));
    mf_value usual = mf_logical_and(mf_logical_not(mf_logical_or(wrong, mf_logical_or(low, high))),
                                    mf_logical_and(mf_greater(x, 0), mf_less(x, 1)));
    mf_value p = mf_where(usual, a, 1), q = mf_where(usual, b, 1), at = mf_where(usual, x, 0.25);
    mf_value upper = mf_greater(at, mf_div(mf_add(p, 1), mf_add(mf_add(p, q), 2))); /* right of the mean: use 1 - I(b, a, 1 - x) */
    mf_value first = mf_where(upper, q, p), second = mf_where(upper, p, q), from_end = mf_where(upper, mf_sub(1, at), at);
    mf_value scale = mf_exp(mf_sub(mf_add(mf_mul(p, mf_log(at)), mf_mul(q, mf_log1p(mf_neg(at)))), mf_betaln(p, q)));
    mf_value part = mf_div(mf_mul(scale, continued_fraction(first, second, from_end, usual)), first);
    part = mf_where(upper, mf_sub(1, part), part);
    return mf_where(wrong, (double)NAN, mf_where(usual, part, at_end));
}

/* The derivative by x is the density. The derivatives by a and b go through the loop, so they exist in forward mode only; JAX has none. */
static mf_value share_jvp(mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 0), b = mf_get(primals, 1), x = mf_get(primals, 2);
    mf_value density = mf_exp(log_density(a, b, x));
    mf_value by_a_and_b = mf_get(mf_jvp(share, mf_tuple(a, b, x), mf_tuple(mf_get(tangents, 0), mf_get(tangents, 1), mf_zeros_like(x))), 1);
    return mf_tuple(mf_call(mf_custom_jvp(share, share_jvp), a, b, x), mf_add(by_a_and_b, mf_mul(mf_get(tangents, 2), density)));
}

static mf_value betainc_of(mf_value a, mf_value b, mf_value x) { return mf_call(mf_custom_jvp(share, share_jvp), a, b, x); }

mf_value(mf_betainc)(mf_value a, mf_value b, mf_value x)
{
    MF_LAYER;
    mf_value v[] = { a, b, x };
    numpy_common_floats(v, 3);
    if (numpy_is_complex(v[0]))
        return numpy_real_float(v[0], "betainc");
    mf_dtype d = mf_dtype_of(v[0]);
    if (!numpy_is_half(d))
        return mf_call(mf_jit(betainc_of), v[0], v[1], v[2]);
    return mf_astype(mf_call(mf_jit(betainc_of), mf_astype(v[0], MF_F32), mf_astype(v[1], MF_F32), mf_astype(v[2], MF_F32)), d);
}
