/* Functions related to the gamma function: digamma, polygamma, zeta, betaln, multigammaln, gammainc, gammaincc.
 * Invariant: derivatives are functions of this family; loops run until every element has converged. */
#include "numpy/floats.h"

#include <math.h>

/* ---- digamma: the derivative of lgamma */
static mf_value digamma_of(mf_value x) { return mf_get(mf_jvp(mf_lgamma, mf_tuple(x), mf_tuple(mf_ones_like(x))), 1); }

mf_value(mf_digamma)(mf_value x) { return numpy_call_wide(mf_jit(digamma_of), numpy_real_float(x, "digamma")); }

/* ---- zeta(x, q): the sum of (q + k)^-x; nine terms are added, the rest is computed by the Euler-Maclaurin formula */
#define TERMS 9

/* (2k)! / B(2k) */
static const double quotients[] = { 12,
                                    -720,
                                    30240,
                                    -1209600,
                                    47900160,
                                    -1.8924375803183791606e9,
                                    7.47242496e10,
                                    -2.950130727918164224e12,
                                    1.1646782814350067249e14,
                                    -4.5979787224074726105e15,
                                    1.8152105401943546773e17,
                                    -7.1661652561756670113e18 };

static mf_value zeta_of(mf_value x, mf_value q)
{
    mf_dtype d = mf_dtype_of(x);
    mf_value inside = mf_logical_and(mf_greater(x, 1), mf_greater(q, 0)), s = mf_where(inside, x, 2), a = mf_where(inside, q, 1);
    mf_value sum = mf_zeros_like(s);
    for (int i = 0; i < TERMS; i++)
        sum = mf_add(sum, mf_pow(mf_add(a, i), mf_neg(s)));
    a = mf_add(a, TERMS);
    mf_value power = mf_pow(a, mf_neg(s)), factor = mf_div(mf_mul(power, s), a); /* s a^-(s+1) */
    sum = mf_add(mf_add(sum, mf_div(mf_mul(power, a), mf_sub(s, 1))), mf_mul(power, 0.5));
    for (int k = 0; k < (int)(sizeof quotients / sizeof *quotients); k++) {
        sum = mf_add(sum, mf_div(factor, mf_scalar(quotients[k], d)));
        mf_value next = mf_mul(mf_div(mf_add(s, 2 * k + 1), a), mf_div(mf_add(s, 2 * k + 2), a));
        factor = mf_mul(factor, next);
    }
    mf_value pole = mf_logical_or(mf_equal(x, 1),
                                  mf_logical_and(mf_greater(x, 1), mf_logical_and(mf_less_equal(q, 0), mf_equal(mf_floor(q), q))));
    return mf_where(inside, sum, mf_where(pole, (double)INFINITY, (double)NAN));
}

mf_value(mf_zeta)(mf_value x, mf_value q) { return numpy_call_real2("zeta", mf_jit(zeta_of), x, q); }

static mf_value polygamma_jvp(void *order, mf_value primals, mf_value tangents);

/* (-1)^(n+1) n! zeta(n + 1, x). */
static mf_value polygamma_value(void *order, mf_value x)
{
    int n = *(int *)order;
    mf_value zeta = zeta_of(mf_full_like(x, mf_f(n + 1)), x), factorial = mf_scalar(exp(lgamma(n + 1.0)), mf_dtype_of(x));
    return mf_mul(zeta, n % 2 ? factorial : mf_neg(factorial));
}

static mf_value polygamma_of(int n, mf_value x)
{
    return mf_call(mf_custom_jvp(mf_closure(polygamma_value, &n), mf_closure(polygamma_jvp, &n)), x);
}

static mf_value polygamma_jvp(void *order, mf_value primals, mf_value tangents)
{
    int n = *(int *)order;
    mf_value x = mf_get(primals, 0);
    return mf_tuple(polygamma_of(n, x), mf_mul(mf_get(tangents, 0), polygamma_of(n + 1, x)));
}

mf_value(mf_polygamma)(int n, mf_value x)
{
    MF_LAYER;
    if (n < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "polygamma: the order must not be negative, not %d", n);
    return n == 0 ? mf_digamma(x) : polygamma_of(n, numpy_real_float(x, "polygamma"));
}

/* ---- beta and the multivariate gamma function */
/* lgamma(b) - lgamma(a + b) for a <= b and b >= 8, by Stirling's series with the large terms cancelled (TOMS 708, algdiv). */
static mf_value lgamma_difference(mf_value a, mf_value b)
{
    static const double c[] = { .833333333333333e-01,  -.277777777760991e-02, .793650666825390e-03,
                                -.595202931351870e-03, .837308034031215e-03,  -.165322962780713e-02 };
    mf_value h = mf_div(a, b), x = mf_reciprocal(mf_add(h, 1)), share = mf_mul(h, x), square = mf_square(x),
             t = mf_square(mf_reciprocal(b));
    mf_value sums[6] = { mf_ones_like(x) };
    for (int i = 1; i < 6; i++) /* 1 + x + ... + x^(2i) */
        sums[i] = mf_add(mf_add(x, 1), mf_mul(square, sums[i - 1]));
    mf_value w = mf_mul(sums[5], c[5]);
    for (int i = 4; i >= 0; i--)
        w = mf_add(mf_mul(w, t), mf_mul(sums[i], c[i]));
    w = mf_mul(w, mf_div(share, b));
    mf_value u = mf_mul(mf_add(b, mf_sub(a, 0.5)), mf_log1p(h)), v = mf_mul(a, mf_sub(mf_log(b), 1));
    return mf_sub(mf_sub(w, u), v);
}

static mf_value betaln_of(mf_value a, mf_value b)
{
    mf_value small = mf_minimum(a, b), large = mf_maximum(a, b), stirling = mf_greater_equal(large, 8);
    mf_value sum = mf_sub(mf_lgamma(large), mf_lgamma(mf_add(small, large)));
    mf_value safe = mf_where(stirling, large, 8), safe_small = mf_where(stirling, small, 1);
    return mf_add(mf_lgamma(small), mf_where(stirling, lgamma_difference(safe_small, safe), sum));
}

mf_value(mf_betaln)(mf_value a, mf_value b) { return numpy_call_real2("betaln", mf_jit(betaln_of), a, b); }

mf_value(mf_multigammaln)(mf_value a, int d)
{
    MF_LAYER;
    a = numpy_real_float(a, "multigammaln");
    if (d < 1)
        return mf_make_error(MF_ERROR_ARGUMENT, "multigammaln: the dimension must be positive, not %d", d);
    mf_value halves = mf_mul(mf_arange(d, mf_dtype_of(a)), 0.5), sum = mf_sum(mf_lgamma(mf_sub(mf_expand_dims(a, -1), halves)), -1);
    return mf_add(sum, mf_scalar(0.25 * d * (d - 1) * 1.1447298858494002, mf_dtype_of(a)));
}

/* ---- the regularised incomplete gamma functions: a series for x <= a, a continued fraction for x > a */
/* The carry is (open, r, term, sum, x). */
static mf_value is_open(mf_value carry) { return mf_any(mf_get(carry, 0)); }

static mf_value next_term(mf_value carry)
{
    mf_value open = mf_get(carry, 0), x = mf_get(carry, 4), r = mf_add(mf_get(carry, 1), 1);
    mf_value term = mf_mul(mf_get(carry, 2), mf_div(x, r)), sum = mf_add(mf_get(carry, 3), term);
    mf_value goes_on = mf_logical_and(open, mf_greater(mf_div(term, sum), mf_scalar(numpy_epsilon(x), mf_dtype_of(x))));
    return mf_tuple(goes_on, mf_where(open, r, mf_get(carry, 1)), mf_where(open, term, mf_get(carry, 2)),
                    mf_where(open, sum, mf_get(carry, 3)), x);
}

static mf_value series(mf_value a, mf_value x)
{
    mf_value one = mf_ones_like(x);
    return mf_div(mf_get(mf_while(is_open, next_term, mf_tuple(mf_not_equal(x, 0), a, one, one, x)), 3), a);
}

/* The carry is (open, value, y, z, c, p1, q1, p2, q2): p and q are numerators and denominators of the last two convergents. */
static mf_value has_rounds_left(mf_value carry) { return mf_logical_and(mf_less(mf_get(carry, 4), 2000), mf_any(mf_get(carry, 0))); }

static mf_value next_convergent(mf_value carry)
{
    mf_value open, value, y, z, c, p1, q1, p2, q2;
    mf_unpack(carry, &open, &value, &y, &z, &c, &p1, &q1, &p2, &q2);
    mf_value epsilon = mf_scalar(numpy_epsilon(value), mf_dtype_of(value)), one = mf_ones_like(value);
    c = mf_add(c, 1);
    mf_value y1 = mf_add(y, 1), z1 = mf_add(z, 2), yc = mf_mul(y1, c);
    mf_value p = mf_sub(mf_mul(p1, z1), mf_mul(p2, yc)), q = mf_sub(mf_mul(q1, z1), mf_mul(q2, yc));
    mf_value holds = mf_not_equal(q, 0), r = mf_div(p, mf_where(holds, q, one)), safe = mf_where(mf_equal(r, 0), one, r);
    mf_value error = mf_where(holds, mf_abs(mf_div(mf_sub(value, r), safe)), one);
    mf_value scale = mf_where(mf_greater(mf_abs(p), mf_reciprocal(epsilon)), epsilon, one);
    mf_value moves = open;
    open = mf_logical_and(open, mf_greater(error, epsilon));
    return mf_tuple(open, mf_where(moves, mf_where(holds, r, value), value), mf_where(moves, y1, y), mf_where(moves, z1, z), c,
                    mf_where(moves, mf_mul(p, scale), p1), mf_where(moves, mf_mul(q, scale), q1), mf_where(moves, mf_mul(p1, scale), p2),
                    mf_where(moves, mf_mul(q1, scale), q2));
}

static mf_value continued_fraction(mf_value a, mf_value x, mf_value chosen)
{
    mf_value one = mf_ones_like(x), y = mf_sub(one, a), z = mf_add(mf_add(x, y), one), p1 = mf_add(x, one), q1 = mf_mul(z, x);
    mf_value carry = mf_tuple(chosen, mf_div(p1, q1), y, z, mf_scalar(0, mf_dtype_of(x)), p1, q1, one, x);
    return mf_get(mf_while(has_rounds_left, next_convergent, carry), 1);
}

/* The lower or upper regularised function. Both methods run for all elements, with harmless arguments where their result is not used. */
static mf_value share(mf_value a, mf_value x, bool upper)
{
    mf_value wrong = mf_logical_or(mf_logical_or(mf_less(x, 0), mf_less(a, 0)), mf_logical_or(mf_isnan(mf_add(a, x)), mf_isinf(a)));
    wrong = mf_logical_or(wrong, mf_logical_and(mf_equal(a, 0), mf_equal(x, 0)));
    mf_value nothing = mf_equal(x, 0), whole = mf_logical_or(mf_equal(x, (double)INFINITY), mf_equal(a, 0));
    mf_value usual = mf_logical_not(mf_logical_or(wrong, mf_logical_or(nothing, whole)));
    mf_value right = mf_logical_and(mf_greater_equal(x, 1), mf_greater(x, a));
    mf_value safe_a = mf_where(usual, a, 1), safe_x = mf_where(usual, x, 1);
    mf_value scale = mf_exp(mf_sub(mf_sub(mf_mul(safe_a, mf_log(safe_x)), safe_x), mf_lgamma(safe_a)));
    mf_value by_series = mf_mul(scale, series(mf_where(right, 1, safe_a), mf_where(right, 1, safe_x)));
    mf_value takes_fraction = mf_logical_and(usual, right);
    mf_value by_fraction = mf_mul(
        scale, continued_fraction(mf_where(takes_fraction, safe_a, 1), mf_where(takes_fraction, safe_x, 2), takes_fraction));
    mf_value part = mf_where(right, upper ? by_fraction : mf_sub(1, by_fraction), upper ? mf_sub(1, by_series) : by_series);
    part = mf_where(nothing, upper ? 1 : 0, mf_where(whole, upper ? 0 : 1, part));
    return mf_where(wrong, (double)NAN, part);
}

static mf_value lower(mf_value a, mf_value x) { return share(a, x, false); }
static mf_value upper(mf_value a, mf_value x) { return share(a, x, true); }

/* The derivative by x is the density; the derivative by a is minus the density times dx/da at constant probability (random_gamma_grad). */
static mf_value lower_tangent(mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 0), x = mf_get(primals, 1);
    mf_value density = mf_exp(mf_sub(mf_sub(mf_xlogy(mf_sub(a, 1), x), x), mf_lgamma(a)));
    mf_value by_a = mf_neg(mf_mul(density, mf_random_gamma_grad(a, x)));
    return mf_add(mf_mul(mf_get(tangents, 0), by_a), mf_mul(mf_get(tangents, 1), density));
}

static mf_value lower_jvp(mf_value primals, mf_value tangents)
{
    return mf_tuple(mf_call(mf_custom_jvp(lower, lower_jvp), mf_get(primals, 0), mf_get(primals, 1)), lower_tangent(primals, tangents));
}

static mf_value upper_jvp(mf_value primals, mf_value tangents)
{
    return mf_tuple(mf_call(mf_custom_jvp(upper, upper_jvp), mf_get(primals, 0), mf_get(primals, 1)),
                    mf_neg(lower_tangent(primals, tangents)));
}

static mf_value gammainc_of(mf_value a, mf_value x) { return mf_call(mf_custom_jvp(lower, lower_jvp), a, x); }
static mf_value gammaincc_of(mf_value a, mf_value x) { return mf_call(mf_custom_jvp(upper, upper_jvp), a, x); }

mf_value(mf_gammainc)(mf_value a, mf_value x) { return numpy_call_real2("gammainc", mf_jit(gammainc_of), a, x); }
mf_value(mf_gammaincc)(mf_value a, mf_value x) { return numpy_call_real2("gammaincc", mf_jit(gammaincc_of), a, x); }
