/* manyfold/stats.h - probability distributions under the names of jax.scipy.stats: densities,
 * distribution functions and their inverses. Random numbers of them are in manyfold/random.h.
 *
 * Shapes open a comment as in manyfold/base.h. Operands promote to floats and broadcast. Location
 * and scale come last, as in SciPy, and have no defaults: mf_stats_norm_logpdf(x, 0, 1). All have
 * gradients with respect to x and to all parameters that the special functions of
 * manyfold/special.h have. Outside a distribution's range a density is 0 and its logarithm -inf.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_DTYPE for complex numbers,
 * MF_ERROR_SHAPE where operands do not broadcast or fit. */
#ifndef MANYFOLD_STATS_H
#define MANYFOLD_STATS_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- distributions of z = (x - loc) / scale, by their densities at scale 1; scale > 0. pdf is the
 * density and logpdf its logarithm, cdf the probability of a smaller number, sf that of a greater
 * one, logcdf and logsf their logarithms; ppf is the inverse of cdf, and isf of sf, NaN for a q
 * that is no probability. (...), (...), (...) -> (...) */
/* the normal distribution: e^(-z^2 / 2) / sqrt(2 pi) */
mf_value mf_stats_norm_logpdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_norm_pdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_norm_cdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_norm_logcdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_norm_sf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_norm_logsf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_norm_ppf(mf_value q, mf_value loc, mf_value scale);
mf_value mf_stats_norm_isf(mf_value q, mf_value loc, mf_value scale);
/* 1 for z from 0 to 1 */
mf_value mf_stats_uniform_logpdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_uniform_pdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_uniform_cdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_uniform_ppf(mf_value q, mf_value loc, mf_value scale);
/* e^-z for z >= 0 */
mf_value mf_stats_expon_logpdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_expon_pdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_expon_cdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_expon_logcdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_expon_sf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_expon_logsf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_expon_ppf(mf_value q, mf_value loc, mf_value scale);
/* e^-|z| / 2 */
mf_value mf_stats_laplace_logpdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_laplace_pdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_laplace_cdf(mf_value x, mf_value loc, mf_value scale);
/* 1 / (pi (1 + z^2)) */
mf_value mf_stats_cauchy_logpdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_cauchy_pdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_cauchy_cdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_cauchy_logcdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_cauchy_sf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_cauchy_logsf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_cauchy_ppf(mf_value q, mf_value loc, mf_value scale);
mf_value mf_stats_cauchy_isf(mf_value q, mf_value loc, mf_value scale);
/* e^-z / (1 + e^-z)^2 */
mf_value mf_stats_logistic_logpdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_logistic_pdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_logistic_cdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_logistic_sf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_logistic_ppf(mf_value q, mf_value loc, mf_value scale);
mf_value mf_stats_logistic_isf(mf_value q, mf_value loc, mf_value scale);
/* of maxima: e^(-z - e^-z); of minima: e^(z - e^z). ppf is NaN also for 0 and 1 */
mf_value mf_stats_gumbel_r_logpdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_r_pdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_r_cdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_r_logcdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_r_sf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_r_logsf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_r_ppf(mf_value q, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_l_logpdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_l_pdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_l_cdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_l_logcdf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_l_sf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_l_logsf(mf_value x, mf_value loc, mf_value scale);
mf_value mf_stats_gumbel_l_ppf(mf_value q, mf_value loc, mf_value scale);

/* ---- with one shape parameter, likewise. (...), (...), (...), (...) -> (...) */
/* z^(a-1) e^-z / gamma(a) for z >= 0; a > 0 */
mf_value mf_stats_gamma_logpdf(mf_value x, mf_value a, mf_value loc, mf_value scale);
mf_value mf_stats_gamma_pdf(mf_value x, mf_value a, mf_value loc, mf_value scale);
mf_value mf_stats_gamma_cdf(mf_value x, mf_value a, mf_value loc, mf_value scale);
mf_value mf_stats_gamma_logcdf(mf_value x, mf_value a, mf_value loc, mf_value scale);
mf_value mf_stats_gamma_sf(mf_value x, mf_value a, mf_value loc, mf_value scale);
mf_value mf_stats_gamma_logsf(mf_value x, mf_value a, mf_value loc, mf_value scale);
/* the sum of the squares of df normal numbers: gamma with a = df / 2 and twice the scale */
mf_value mf_stats_chi2_logpdf(mf_value x, mf_value df, mf_value loc, mf_value scale);
mf_value mf_stats_chi2_pdf(mf_value x, mf_value df, mf_value loc, mf_value scale);
mf_value mf_stats_chi2_cdf(mf_value x, mf_value df, mf_value loc, mf_value scale);
mf_value mf_stats_chi2_logcdf(mf_value x, mf_value df, mf_value loc, mf_value scale);
mf_value mf_stats_chi2_sf(mf_value x, mf_value df, mf_value loc, mf_value scale);
mf_value mf_stats_chi2_logsf(mf_value x, mf_value df, mf_value loc, mf_value scale);
/* Student's t: proportional to (1 + z^2 / df)^(-(df+1)/2) */
mf_value mf_stats_t_logpdf(mf_value x, mf_value df, mf_value loc, mf_value scale);
mf_value mf_stats_t_pdf(mf_value x, mf_value df, mf_value loc, mf_value scale);
/* b / z^(b+1) for z >= 1 */
mf_value mf_stats_pareto_logpdf(mf_value x, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_pareto_pdf(mf_value x, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_pareto_cdf(mf_value x, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_pareto_logcdf(mf_value x, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_pareto_sf(mf_value x, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_pareto_logsf(mf_value x, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_pareto_ppf(mf_value q, mf_value b, mf_value loc, mf_value scale);

/* ---- with two, likewise. (...), (...), (...), (...), (...) -> (...) */
/* z^(a-1) (1-z)^(b-1) / B(a, b) for z from 0 to 1; NaN unless a and b are positive */
mf_value mf_stats_beta_logpdf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_beta_pdf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_beta_cdf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_beta_logcdf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_beta_sf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_beta_logsf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);
/* the normal distribution, limited to z from a to b; NaN unless a < b */
mf_value mf_stats_truncnorm_logpdf(mf_value x, mf_value a, mf_value b, mf_value loc,
                                   mf_value scale);
mf_value mf_stats_truncnorm_pdf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_truncnorm_cdf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_truncnorm_logcdf(mf_value x, mf_value a, mf_value b, mf_value loc,
                                   mf_value scale);
mf_value mf_stats_truncnorm_sf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);
mf_value mf_stats_truncnorm_logsf(mf_value x, mf_value a, mf_value b, mf_value loc, mf_value scale);

/* ---- angles. (...), (...) -> (...): proportional to e^(kappa cos(x)); NaN unless kappa > 0 */
mf_value mf_stats_vonmises_logpdf(mf_value x, mf_value kappa);
mf_value mf_stats_vonmises_pdf(mf_value x, mf_value kappa);

/* ---- counts: pmf is the probability of k, logpmf its logarithm; k counts from loc. Integers
 * become floats */
/* (...), (...), (...) -> (...): k successes in one trial of probability p */
mf_value mf_stats_bernoulli_logpmf(mf_value k, mf_value p, mf_value loc);
mf_value mf_stats_bernoulli_pmf(mf_value k, mf_value p, mf_value loc);
/* (...), (...) -> (...): NaN unless p, and q, are probabilities */
mf_value mf_stats_bernoulli_cdf(mf_value k, mf_value p);
mf_value mf_stats_bernoulli_ppf(mf_value q, mf_value p);
/* (...), (...), (...), (...) -> (...): k successes in n trials; k failures before success n */
mf_value mf_stats_binom_logpmf(mf_value k, mf_value n, mf_value p, mf_value loc);
mf_value mf_stats_binom_pmf(mf_value k, mf_value n, mf_value p, mf_value loc);
mf_value mf_stats_nbinom_logpmf(mf_value k, mf_value n, mf_value p, mf_value loc);
mf_value mf_stats_nbinom_pmf(mf_value k, mf_value n, mf_value p, mf_value loc);
/* (...), (...), (...) -> (...): the first success in trial k, from 1 */
mf_value mf_stats_geom_logpmf(mf_value k, mf_value p, mf_value loc);
mf_value mf_stats_geom_pmf(mf_value k, mf_value p, mf_value loc);
/* (...), (...), (...) -> (...): k events where mu are expected; 0 for a k that is no integer */
mf_value mf_stats_poisson_logpmf(mf_value k, mf_value mu, mf_value loc);
mf_value mf_stats_poisson_pmf(mf_value k, mf_value mu, mf_value loc);
mf_value mf_stats_poisson_cdf(mf_value k, mf_value mu, mf_value loc);

/* ---- vectors */
/* (..., n), (...), (..., n) -> (...): how often each of n outcomes of probabilities p occurred in n
 * trials; 0 where the counts x do not sum to n. x and n are integers (MF_ERROR_DTYPE) */
mf_value mf_stats_multinomial_logpmf(mf_value x, mf_value n, mf_value p);
mf_value mf_stats_multinomial_pmf(mf_value x, mf_value n, mf_value p);
/* (n, ...), (n) -> (...): the density of probabilities, proportional to the product of the
 * x^(alpha-1); 0 where they do not sum to 1 within 1e-6. x may lack its last row, (n - 1, ...) */
mf_value mf_stats_dirichlet_logpdf(mf_value x, mf_value alpha);
mf_value mf_stats_dirichlet_pdf(mf_value x, mf_value alpha);
/* (..., n), (..., n), (..., n, n) -> (...): the normal distribution of vectors, by the Cholesky
 * factor of cov; NaN where that is not positive definite. cov may be a number, the variance of
 * each element */
mf_value mf_stats_multivariate_normal_logpdf(mf_value x, mf_value mean, mf_value cov);
mf_value mf_stats_multivariate_normal_pdf(mf_value x, mf_value mean, mf_value cov);

MF_END_

#include <manyfold/lift/stats.h>

#endif
