/* manyfold/special.h - special functions under the names of jax.scipy.special. erf, erf_inv and
 * lgamma are in manyfold/lax.h, logsumexp and the softmaxes in manyfold/nn.h.
 *
 * Shapes open a comment as in manyfold/base.h. Operands promote to floats and broadcast; f16 and
 * bf16 are computed in f32 and rounded once. All have derivatives of any order, unless stated.
 * Outside its domain a function is NaN, at a pole infinite.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_DTYPE for complex numbers
 * (except in xlogy, xlog1py and logit), MF_ERROR_SHAPE where operands do not broadcast. */
#ifndef MANYFOLD_SPECIAL_H
#define MANYFOLD_SPECIAL_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- the normal distribution. x -> x */
mf_value mf_erfc(mf_value x);     /* 1 - erf(x), accurate also for large x */
mf_value mf_erfcx(mf_value x);    /* e^(x^2) erfc(x), without underflow */
mf_value mf_ndtr(mf_value x);     /* the cumulative distribution function of N(0, 1) */
mf_value mf_log_ndtr(mf_value x); /* its logarithm, accurate in both tails */
mf_value mf_ndtri(mf_value p);    /* the inverse of ndtr */

/* ---- the gamma function and its relatives. x -> x */
mf_value mf_gamma(mf_value x);            /* sign times e^lgamma; NaN at negative integers */
mf_value mf_gammasgn(mf_value x);         /* its sign, -1 or 1; that of 0 at 0 */
mf_value mf_factorial(mf_value n);        /* gamma(n + 1), a float; 0 for a negative n */
mf_value mf_digamma(mf_value x);          /* the derivative of lgamma */
mf_value mf_polygamma(int n, mf_value x); /* the n-th derivative of digamma; for n > 0, x > 0 */
/* (...), (...) -> (...) */
mf_value mf_zeta(mf_value x, mf_value q); /* Hurwitz: sum over k >= 0 of (q + k)^-x; x > 1, q > 0 */
mf_value mf_beta(mf_value a, mf_value b); /* gamma(a) gamma(b) / gamma(a + b) */
mf_value mf_comb(mf_value n, mf_value k); /* n over k, a float; 0 unless 0 <= k <= n */
mf_value mf_poch(mf_value z, mf_value m); /* Pochhammer's symbol, gamma(z + m) / gamma(z) */
mf_value mf_betaln(mf_value a, mf_value b); /* lgamma(a) + lgamma(b) - lgamma(a + b); a, b > 0 */
/* (...), (...) -> (...): the regularised lower and upper incomplete gamma functions: the parts of
 * the integral of t^(a-1) e^-t below and above x, divided by gamma(a); a > 0, x >= 0 */
mf_value mf_gammainc(mf_value a, mf_value x);
mf_value mf_gammaincc(mf_value a, mf_value x);
/* (...), (...), (...) -> (...): the regularised incomplete beta function: the part of the integral
 * of t^(a-1) (1-t)^(b-1) over [0, 1] below x, divided by the whole; a, b >= 0, not both 0; 0 <= x
 * <= 1. With respect to a and b it has forward-mode derivatives only */
mf_value mf_betainc(mf_value a, mf_value b, mf_value x);
/* x -> x: the logarithm of the d-dimensional gamma function; a > (d - 1) / 2 */
mf_value mf_multigammaln(mf_value a, int d);

/* ---- exponential integrals. x -> x */
mf_value mf_expi(mf_value x); /* the integral of e^t / t from -inf to x; -inf at 0 */
mf_value mf_exp1(mf_value x); /* the integral of e^-t / t from x to inf; x >= 0 */
/* x -> x: the integral of e^(-x t) / t^n from 1 to inf; x >= 0. A negative order is
 * MF_ERROR_ARGUMENT */
mf_value mf_expn(int n, mf_value x);
/* x -> x: Spence's function: the integral of log(t) / (1 - t) from 1 to x, which is the dilogarithm
 * of 1 - x; x >= 0 */
mf_value mf_spence(mf_value x);

/* ---- Bessel functions. (...) -> (v + 1, ...): of the first kind, of the orders 0 to v, at most
 * 63: by a recurrence from order n_iter, which must exceed z and v by some tens. NaN at 0, as in
 * JAX */
mf_value mf_bessel_jn(mf_value z, int v, int n_iter MF_DEFAULT_(50));
/* ---- modified Bessel functions of the first kind, of order 0 and 1. x -> x */
mf_value mf_i0(mf_value x);
mf_value mf_i0e(mf_value x); /* e^-|x| i0(x), which does not overflow */
mf_value mf_i1(mf_value x);
mf_value mf_i1e(mf_value x); /* e^-|x| i1(x) */

/* ---- products with logarithms, in which 0 log 0 is 0. (...), (...) -> (...) */
mf_value mf_xlogy(mf_value x, mf_value y);    /* x log(y) */
mf_value mf_xlog1py(mf_value x, mf_value y);  /* x log(1 + y) */
mf_value mf_rel_entr(mf_value p, mf_value q); /* p log(p / q); inf for negative operands */
mf_value mf_kl_div(mf_value p, mf_value q);   /* rel_entr(p, q) - p + q */
/* x -> x */
mf_value mf_entr(mf_value x);  /* -x log(x); -inf below 0 */
mf_value mf_logit(mf_value p); /* log(p / (1 - p)), the inverse of mf_sigmoid */
/* (...), (...) -> (...): the transformations of Box and Cox: (x^lmbda - 1) / lmbda, log(x) for
 * lmbda 0, of x > 0; the same of 1 + x, accurate near 0 */
mf_value mf_boxcox(mf_value x, mf_value lmbda);
mf_value mf_boxcox1p(mf_value x, mf_value lmbda);

MF_END_

#include <manyfold/lift/special.h>

#endif
