/* Distributions with shape parameters: gamma, chi2, beta, t, pareto, truncnorm, vonmises.
 * Invariant: a branch of a `where` that is not selected is finite, so that it never makes a derivative NaN. */
#include "numpy/stats/distribution.h"

#include <math.h>

#define UNUSED (void)b

/* ---- gamma; chi2 is gamma of df / 2 at z / 2 */
static mf_value gamma_logpdf(mf_value z, mf_value a, mf_value b)
{
    UNUSED;
    mf_value inside = mf_greater_equal(z, 0), y = mf_where(inside, z, 1);
    return mf_where(inside, mf_sub(mf_sub(mf_xlogy(mf_sub(a, 1), y), y), mf_lgamma(a)), STATS_LOG_ZERO);
}
static mf_value not_negative(mf_value z) { return mf_where(mf_less(z, 0), 0, z); }
static mf_value gamma_cdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_gammainc(a, not_negative(z)); }
static mf_value gamma_sf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_gammaincc(a, not_negative(z)); }
STATS4(gamma_logpdf, STATS_LOGPDF, gamma_logpdf)
STATS4(gamma_pdf, STATS_PDF, gamma_logpdf)
STATS4(gamma_cdf, STATS_CDF, gamma_cdf)
STATS4(gamma_logcdf, STATS_LOG_CDF, gamma_cdf)
STATS4(gamma_sf, STATS_CDF, gamma_sf)
STATS4(gamma_logsf, STATS_LOG_CDF, gamma_sf)

static mf_value half(mf_value x) { return mf_mul(x, 0.5); }
static mf_value chi2_logpdf(mf_value z, mf_value df, mf_value b) { return mf_sub(gamma_logpdf(half(z), half(df), b), M_LN2); }
static mf_value chi2_cdf(mf_value z, mf_value df, mf_value b) { return gamma_cdf(half(z), half(df), b); }
static mf_value chi2_sf(mf_value z, mf_value df, mf_value b) { return gamma_sf(half(z), half(df), b); }
STATS4(chi2_logpdf, STATS_LOGPDF, chi2_logpdf)
STATS4(chi2_pdf, STATS_PDF, chi2_logpdf)
STATS4(chi2_cdf, STATS_CDF, chi2_cdf)
STATS4(chi2_logcdf, STATS_LOG_CDF, chi2_cdf)
STATS4(chi2_sf, STATS_CDF, chi2_sf)
STATS4(chi2_logsf, STATS_LOG_CDF, chi2_sf)

/* ---- beta */
static mf_value beta_logpdf(mf_value z, mf_value a, mf_value b)
{
    mf_value outside = mf_logical_or(mf_less(z, 0), mf_greater(z, 1)), y = mf_where(outside, 0.5, z);
    mf_value wrong = mf_logical_or(mf_less_equal(a, 0), mf_less_equal(b, 0));
    mf_value inside = mf_add(mf_xlogy(mf_sub(a, 1), y), mf_xlog1py(mf_sub(b, 1), mf_neg(y)));
    return mf_where(wrong, (double)NAN, mf_where(outside, STATS_LOG_ZERO, mf_sub(inside, mf_betaln(a, b))));
}
static mf_value beta_cdf(mf_value z, mf_value a, mf_value b) { return mf_betainc(a, b, mf_clip(z, 0, 1)); }
static mf_value beta_sf(mf_value z, mf_value a, mf_value b) { return mf_betainc(b, a, mf_sub(1, mf_clip(z, 0, 1))); }
STATS5(beta_logpdf, STATS_LOGPDF, beta_logpdf)
STATS5(beta_pdf, STATS_PDF, beta_logpdf)
STATS5(beta_cdf, STATS_CDF, beta_cdf)
STATS5(beta_logcdf, STATS_LOG_CDF, beta_cdf)
STATS5(beta_sf, STATS_CDF, beta_sf)
STATS5(beta_logsf, STATS_LOG_CDF, beta_sf)

/* ---- t */
static mf_value t_logpdf(mf_value z, mf_value df, mf_value b)
{
    UNUSED;
    mf_value power = mf_add(half(df), 0.5), peak = mf_sub(mf_lgamma(power), mf_lgamma(half(df)));
    mf_value fall = mf_mul(power, mf_log1p(mf_div(mf_square(z), df)));
    return mf_sub(mf_sub(peak, half(mf_log(mf_mul(df, M_PI)))), fall);
}
STATS4(t_logpdf, STATS_LOGPDF, t_logpdf)
STATS4(t_pdf, STATS_PDF, t_logpdf)

/* ---- pareto: z from 1 on */
static mf_value log_from_1(mf_value z) { return mf_log(mf_where(mf_less(z, 1), 1, z)); }
static mf_value pareto_logpdf(mf_value z, mf_value a, mf_value b)
{
    return UNUSED, mf_where(mf_less(z, 1), STATS_LOG_ZERO, mf_sub(mf_log(a), mf_mul(mf_add(a, 1), log_from_1(z))));
}
static mf_value pareto_logsf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_neg(mf_mul(a, log_from_1(z))); }
static mf_value pareto_sf(mf_value z, mf_value a, mf_value b) { return mf_exp(pareto_logsf(z, a, b)); }
static mf_value pareto_cdf(mf_value z, mf_value a, mf_value b) { return mf_neg(mf_expm1(pareto_logsf(z, a, b))); }
static mf_value pareto_ppf(mf_value q, mf_value a, mf_value b)
{
    UNUSED;
    mf_value inside = stats_is_probability(q);
    return mf_where(inside, mf_pow(mf_sub(1, mf_where(inside, q, 0.5)), mf_neg(mf_reciprocal(a))), (double)NAN);
}
STATS4(pareto_logpdf, STATS_LOGPDF, pareto_logpdf)
STATS4(pareto_pdf, STATS_PDF, pareto_logpdf)
STATS4(pareto_cdf, STATS_CDF, pareto_cdf)
STATS4(pareto_logcdf, STATS_LOG_CDF, pareto_cdf)
STATS4(pareto_sf, STATS_CDF, pareto_sf)
STATS4(pareto_logsf, STATS_CDF, pareto_logsf)
STATS4(pareto_ppf, STATS_PPF, pareto_ppf)

/* ---- truncnorm: a normal distribution between a and b, which are in units of the scale, from loc */
/* log(ndtr(b) - ndtr(a)), computed in the tail that both are in, so that it is no difference of numbers near 1. */
static mf_value log_mass(mf_value a, mf_value b)
{
    mf_value right = mf_greater(a, 0), left = mf_less_equal(b, 0), centre = mf_logical_not(mf_logical_or(left, right));
    mf_value low = mf_where(right, mf_neg(b), a), high = mf_where(right, mf_neg(a), b);
    mf_value nearer = mf_log_ndtr(high), share = mf_sub(mf_log_ndtr(low), nearer);
    mf_value tail = mf_add(nearer, mf_log(mf_neg(mf_expm1(mf_where(centre, -1, share)))));
    mf_value rest = mf_add(mf_ndtr(mf_where(centre, a, -1)), mf_ndtr(mf_neg(mf_where(centre, b, 1))));
    return mf_where(centre, mf_log1p(mf_neg(rest)), tail);
}

static mf_value unless_empty(mf_value a, mf_value b, mf_value y) { return mf_where(mf_greater_equal(a, b), (double)NAN, y); }

static mf_value truncnorm_logpdf(mf_value z, mf_value a, mf_value b)
{
    mf_value outside = mf_logical_or(mf_less(z, a), mf_greater(z, b));
    mf_value inside = mf_sub(mf_sub(mf_mul(mf_square(z), -0.5), 0.5 * log(2 * M_PI)), log_mass(a, b));
    return unless_empty(a, b, mf_where(outside, STATS_LOG_ZERO, inside));
}

/* Near 1 it is computed from the mass above z. */
static mf_value truncnorm_logcdf(mf_value z, mf_value a, mf_value b)
{
    mf_value below = mf_less_equal(z, a), above = mf_greater_equal(z, b), outside = mf_logical_or(below, above);
    mf_value y = mf_where(outside, half(mf_add(a, b)), z), whole = log_mass(a, b);
    mf_value lower = mf_sub(log_mass(a, y), whole), upper = mf_sub(log_mass(y, b), whole), close = mf_greater(lower, -0.1);
    mf_value value = mf_where(close, mf_log1p(mf_neg(mf_exp(mf_where(close, upper, -1)))), lower);
    return unless_empty(a, b, mf_where(below, STATS_LOG_ZERO, mf_where(above, 0, value)));
}
static mf_value truncnorm_logsf(mf_value z, mf_value a, mf_value b) { return truncnorm_logcdf(mf_neg(z), mf_neg(b), mf_neg(a)); }
static mf_value truncnorm_cdf(mf_value z, mf_value a, mf_value b) { return mf_exp(truncnorm_logcdf(z, a, b)); }
static mf_value truncnorm_sf(mf_value z, mf_value a, mf_value b) { return mf_exp(truncnorm_logsf(z, a, b)); }
STATS5(truncnorm_logpdf, STATS_LOGPDF, truncnorm_logpdf)
STATS5(truncnorm_pdf, STATS_PDF, truncnorm_logpdf)
STATS5(truncnorm_cdf, STATS_CDF, truncnorm_cdf)
STATS5(truncnorm_logcdf, STATS_CDF, truncnorm_logcdf)
STATS5(truncnorm_sf, STATS_CDF, truncnorm_sf)
STATS5(truncnorm_logsf, STATS_CDF, truncnorm_logsf)

/* ---- vonmises */
static mf_value vonmises_logpdf(mf_value x, mf_value kappa, mf_value b)
{
    UNUSED;
    mf_value y = mf_sub(mf_mul(kappa, mf_sub(mf_cos(x), 1)), mf_log(mf_mul(mf_i0e(kappa), 2 * M_PI)));
    return mf_where(mf_greater(kappa, 0), y, (double)NAN);
}
static mf_value vonmises_pdf(mf_value x, mf_value kappa, mf_value b) { return mf_exp(vonmises_logpdf(x, kappa, b)); }
STATS2(vonmises_logpdf, STATS_PLAIN, vonmises_logpdf)
STATS2(vonmises_pdf, STATS_PLAIN, vonmises_pdf)
