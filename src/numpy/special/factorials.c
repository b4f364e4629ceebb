/* The gamma function itself and what is composed of it: gamma, gammasgn, beta, factorial, comb, poch; and the Box-Cox transformations.
 * Invariant: quotients are computed from logarithms, so that they overflow only if their value does. */
#include "numpy/floats.h"

#include <math.h>

/* ---- gamma and beta */
static mf_value sign_of(mf_value x)
{
    mf_value floor = mf_floor(x), negative = mf_less(x, 0), odd = mf_not_equal(mf_remainder(floor, 2), 0);
    mf_value minus = mf_logical_or(mf_logical_and(negative, odd), mf_logical_and(mf_equal(x, 0), mf_signbit(x)));
    mf_value pole = mf_logical_or(mf_logical_and(negative, mf_equal(x, floor)), mf_isnan(x)), one = mf_ones_like(x);
    return mf_where(pole, (double)NAN, mf_where(minus, mf_neg(one), one));
}

static mf_value gamma_of(mf_value x) { return mf_mul(sign_of(x), mf_exp(mf_lgamma(x))); }

mf_value(mf_gamma)(mf_value x) { return numpy_call_wide(mf_jit(gamma_of), numpy_real_float(x, "gamma")); }
mf_value(mf_gammasgn)(mf_value x) { return numpy_call_wide(mf_jit(sign_of), numpy_real_float(x, "gammasgn")); }

static mf_value beta_of(mf_value a, mf_value b)
{
    return mf_mul(mf_mul(mf_mul(sign_of(a), sign_of(b)), sign_of(mf_add(a, b))), mf_exp(mf_betaln(a, b)));
}

mf_value(mf_beta)(mf_value a, mf_value b) { return numpy_call_real2("beta", mf_jit(beta_of), a, b); }

/* ---- counting */
static mf_value log_factorial(mf_value n) { return mf_lgamma(mf_add(n, 1)); }

static mf_value factorial_of(mf_value n)
{
    mf_value negative = mf_less(n, 0);
    return mf_where(negative, 0, mf_exp(log_factorial(mf_where(negative, 0, n))));
}

mf_value(mf_factorial)(mf_value n) { return numpy_call_wide(mf_jit(factorial_of), numpy_real_float(n, "factorial")); }

static mf_value comb_of(mf_value n, mf_value k)
{
    mf_value inside = mf_logical_and(mf_less_equal(k, n), mf_logical_and(mf_greater_equal(n, 0), mf_greater_equal(k, 0)));
    mf_value all = mf_where(inside, n, 0), some = mf_where(inside, k, 0);
    mf_value logarithm = mf_sub(mf_sub(log_factorial(all), log_factorial(some)), log_factorial(mf_sub(all, some)));
    return mf_where(inside, mf_exp(logarithm), 0);
}

mf_value(mf_comb)(mf_value n, mf_value k) { return numpy_call_real2("comb", mf_jit(comb_of), n, k); }

static mf_value poch_of(mf_value z, mf_value m)
{
    mf_value sum = mf_add(z, m), signs = mf_mul(sign_of(sum), sign_of(z));
    mf_value quotient = mf_mul(signs, mf_exp(mf_sub(mf_lgamma(sum), mf_lgamma(z))));
    return mf_where(mf_equal(m, 0), 1, quotient);
}

/* At m = 0, too, the derivative by m is digamma(z): the value is constant there only by its special case. */
static mf_value poch_jvp(mf_value primals, mf_value tangents)
{
    mf_value z = mf_get(primals, 0), m = mf_get(primals, 1), y = mf_call(mf_custom_jvp(poch_of, poch_jvp), z, m),
             by_m = mf_digamma(mf_add(z, m));
    mf_value slope = mf_add(mf_mul(mf_get(tangents, 0), mf_sub(by_m, mf_digamma(z))), mf_mul(mf_get(tangents, 1), by_m));
    return mf_tuple(y, mf_mul(y, slope));
}

static mf_value poch_compiled(mf_value z, mf_value m) { return mf_call(mf_custom_jvp(poch_of, poch_jvp), z, m); }

mf_value(mf_poch)(mf_value z, mf_value m) { return numpy_call_real2("poch", mf_jit(poch_compiled), z, m); }

/* ---- Box-Cox: (e^(lambda l) - 1) / lambda, where l is log(x) or log(1 + x), and l itself for lambda = 0 */
static mf_value transformed(mf_value l, mf_value lambda)
{
    mf_value zero = mf_equal(lambda, 0), safe = mf_where(zero, 1, lambda);
    return mf_where(zero, l, mf_div(mf_expm1(mf_mul(safe, l)), safe));
}

static mf_value boxcox_of(mf_value x, mf_value lambda) { return transformed(mf_log(x), lambda); }
static mf_value boxcox1p_of(mf_value x, mf_value lambda) { return transformed(mf_log1p(x), lambda); }

mf_value(mf_boxcox)(mf_value x, mf_value lmbda) { return numpy_call_real2("boxcox", mf_jit(boxcox_of), x, lmbda); }
mf_value(mf_boxcox1p)(mf_value x, mf_value lmbda) { return numpy_call_real2("boxcox1p", mf_jit(boxcox1p_of), x, lmbda); }
