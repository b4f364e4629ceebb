/* Distributions with a location and a scale alone: norm, uniform, expon, laplace, cauchy, logistic, gumbel_r, gumbel_l.
 * Invariant: a branch of a `where` that is not selected is finite, so that it never makes a derivative NaN. */
#include "numpy/stats/distribution.h"

#include <math.h>

#define UNUSED (void)a, (void)b

/* f, or NaN where q is no probability. */
static mf_value within(mf_value q, mf_value f) { return mf_where(stats_is_probability(q), f, (double)NAN); }

/* ---- norm */
static mf_value norm_logpdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_sub(mf_mul(mf_square(z), -0.5), 0.5 * log(2 * M_PI)); }
static mf_value norm_cdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_ndtr(z); }
static mf_value norm_sf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_ndtr(mf_neg(z)); }
static mf_value norm_logcdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_log_ndtr(z); }
static mf_value norm_logsf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_log_ndtr(mf_neg(z)); }
static mf_value norm_ppf(mf_value q, mf_value a, mf_value b) { return UNUSED, mf_ndtri(q); }
static mf_value norm_isf(mf_value q, mf_value a, mf_value b) { return UNUSED, mf_ndtri(mf_sub(1, q)); }
STATS3(norm_logpdf, STATS_LOGPDF, norm_logpdf)
STATS3(norm_pdf, STATS_PDF, norm_logpdf)
STATS3(norm_cdf, STATS_CDF, norm_cdf)
STATS3(norm_logcdf, STATS_CDF, norm_logcdf)
STATS3(norm_sf, STATS_CDF, norm_sf)
STATS3(norm_logsf, STATS_CDF, norm_logsf)
STATS3(norm_ppf, STATS_PPF, norm_ppf)
STATS3(norm_isf, STATS_PPF, norm_isf)

/* ---- uniform */
static mf_value uniform_logpdf(mf_value z, mf_value a, mf_value b)
{
    return UNUSED, mf_where(mf_logical_or(mf_less(z, 0), mf_greater(z, 1)), STATS_LOG_ZERO, mf_zeros_like(z));
}
static mf_value uniform_cdf(mf_value z, mf_value a, mf_value b)
{
    return UNUSED, mf_where(mf_less(z, 0), 0, mf_where(mf_greater(z, 1), 1, z));
}
static mf_value uniform_ppf(mf_value q, mf_value a, mf_value b) { return UNUSED, within(q, q); }
STATS3(uniform_logpdf, STATS_LOGPDF, uniform_logpdf)
STATS3(uniform_pdf, STATS_PDF, uniform_logpdf)
STATS3(uniform_cdf, STATS_CDF, uniform_cdf)
STATS3(uniform_ppf, STATS_PPF, uniform_ppf)

/* ---- expon */
static mf_value expon_logpdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_where(mf_less(z, 0), STATS_LOG_ZERO, mf_neg(z)); }
static mf_value expon_logsf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_where(mf_less(z, 0), 0, mf_neg(z)); }
static mf_value expon_sf(mf_value z, mf_value a, mf_value b) { return mf_exp(expon_logsf(z, a, b)); }
static mf_value expon_cdf(mf_value z, mf_value a, mf_value b) { return mf_neg(mf_expm1(expon_logsf(z, a, b))); }
static mf_value expon_ppf(mf_value q, mf_value a, mf_value b) { return UNUSED, within(q, mf_neg(mf_log1p(mf_neg(q)))); }
STATS3(expon_logpdf, STATS_LOGPDF, expon_logpdf)
STATS3(expon_pdf, STATS_PDF, expon_logpdf)
STATS3(expon_cdf, STATS_CDF, expon_cdf)
STATS3(expon_logcdf, STATS_LOG_CDF, expon_cdf)
STATS3(expon_sf, STATS_CDF, expon_sf)
STATS3(expon_logsf, STATS_CDF, expon_logsf)
STATS3(expon_ppf, STATS_PPF, expon_ppf)

/* ---- laplace */
static mf_value laplace_logpdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_neg(mf_add(mf_abs(z), log(2))); }
static mf_value laplace_cdf(mf_value z, mf_value a, mf_value b)
{
    UNUSED;
    mf_value left = mf_less_equal(z, 0), tail = mf_mul(mf_exp(mf_where(left, z, mf_neg(z))), 0.5);
    return mf_where(left, tail, mf_sub(1, tail));
}
STATS3(laplace_logpdf, STATS_LOGPDF, laplace_logpdf)
STATS3(laplace_pdf, STATS_PDF, laplace_logpdf)
STATS3(laplace_cdf, STATS_CDF, laplace_cdf)

/* ---- cauchy */
static mf_value cauchy_logpdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_neg(mf_add(mf_log1p(mf_square(z)), log(M_PI))); }
static mf_value cauchy_cdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_add(mf_mul(mf_atan(z), 1 / M_PI), 0.5); }
static mf_value cauchy_sf(mf_value z, mf_value a, mf_value b) { return cauchy_cdf(mf_neg(z), a, b); }
static mf_value cauchy_ppf(mf_value q, mf_value a, mf_value b) { return UNUSED, mf_tan(mf_sub(mf_mul(q, M_PI), M_PI_2)); }
static mf_value cauchy_isf(mf_value q, mf_value a, mf_value b) { return mf_neg(cauchy_ppf(q, a, b)); }
STATS3(cauchy_logpdf, STATS_LOGPDF, cauchy_logpdf)
STATS3(cauchy_pdf, STATS_PDF, cauchy_logpdf)
STATS3(cauchy_cdf, STATS_CDF, cauchy_cdf)
STATS3(cauchy_logcdf, STATS_LOG_CDF, cauchy_cdf)
STATS3(cauchy_sf, STATS_CDF, cauchy_sf)
STATS3(cauchy_logsf, STATS_LOG_CDF, cauchy_sf)
STATS3(cauchy_ppf, STATS_PPF, cauchy_ppf)
STATS3(cauchy_isf, STATS_PPF, cauchy_isf)

/* ---- logistic */
static mf_value logistic_logpdf(mf_value z, mf_value a, mf_value b)
{
    UNUSED;
    mf_value half = mf_mul(z, 0.5);
    return mf_mul(mf_logaddexp(half, mf_neg(half)), -2);
}
static mf_value logistic_cdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_sigmoid(z); }
static mf_value logistic_sf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_sigmoid(mf_neg(z)); }
static mf_value logistic_ppf(mf_value q, mf_value a, mf_value b) { return UNUSED, mf_logit(q); }
static mf_value logistic_isf(mf_value q, mf_value a, mf_value b) { return UNUSED, mf_neg(mf_logit(q)); }
STATS3(logistic_logpdf, STATS_LOGPDF, logistic_logpdf)
STATS3(logistic_pdf, STATS_PDF, logistic_logpdf)
STATS3(logistic_cdf, STATS_CDF, logistic_cdf)
STATS3(logistic_sf, STATS_CDF, logistic_sf)
STATS3(logistic_ppf, STATS_PPF, logistic_ppf)
STATS3(logistic_isf, STATS_PPF, logistic_isf)

/* ---- gumbel_r, of maxima, and gumbel_l, of minima: the distribution of -z */
static mf_value gumbel_logpdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_neg(mf_add(z, mf_exp(mf_neg(z)))); }
static mf_value gumbel_logcdf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_neg(mf_exp(mf_neg(z))); }
static mf_value gumbel_cdf(mf_value z, mf_value a, mf_value b) { return mf_exp(gumbel_logcdf(z, a, b)); }
static mf_value gumbel_sf(mf_value z, mf_value a, mf_value b) { return mf_neg(mf_expm1(gumbel_logcdf(z, a, b))); }

static mf_value gumbel_logsf(mf_value z, mf_value a, mf_value b) { return UNUSED, mf_log1mexp(mf_exp(mf_neg(z))); }
/* Whether 0 < q < 1. */
static mf_value strictly_inside(mf_value q) { return mf_logical_and(mf_greater(q, 0), mf_less(q, 1)); }
static mf_value gumbel_ppf(mf_value q, mf_value a, mf_value b)
{
    UNUSED;
    mf_value inside = strictly_inside(q);
    return mf_where(inside, mf_neg(mf_log(mf_neg(mf_log(mf_where(inside, q, 0.5))))), (double)NAN);
}
STATS3(gumbel_r_logpdf, STATS_LOGPDF, gumbel_logpdf)
STATS3(gumbel_r_pdf, STATS_PDF, gumbel_logpdf)
STATS3(gumbel_r_cdf, STATS_CDF, gumbel_cdf)
STATS3(gumbel_r_logcdf, STATS_CDF, gumbel_logcdf)
STATS3(gumbel_r_sf, STATS_CDF, gumbel_sf)
STATS3(gumbel_r_logsf, STATS_CDF, gumbel_logsf)
STATS3(gumbel_r_ppf, STATS_PPF, gumbel_ppf)

static mf_value mirrored_logpdf(mf_value z, mf_value a, mf_value b) { return gumbel_logpdf(mf_neg(z), a, b); }
static mf_value mirrored_cdf(mf_value z, mf_value a, mf_value b) { return gumbel_sf(mf_neg(z), a, b); }
static mf_value mirrored_logcdf(mf_value z, mf_value a, mf_value b) { return gumbel_logsf(mf_neg(z), a, b); }
static mf_value mirrored_sf(mf_value z, mf_value a, mf_value b) { return gumbel_cdf(mf_neg(z), a, b); }
static mf_value mirrored_logsf(mf_value z, mf_value a, mf_value b) { return gumbel_logcdf(mf_neg(z), a, b); }
static mf_value mirrored_ppf(mf_value q, mf_value a, mf_value b)
{
    UNUSED;
    mf_value inside = strictly_inside(q);
    return mf_where(inside, mf_log(mf_neg(mf_log1p(mf_neg(mf_where(inside, q, 0.5))))), (double)NAN);
}
STATS3(gumbel_l_logpdf, STATS_LOGPDF, mirrored_logpdf)
STATS3(gumbel_l_pdf, STATS_PDF, mirrored_logpdf)
STATS3(gumbel_l_cdf, STATS_CDF, mirrored_cdf)
STATS3(gumbel_l_logcdf, STATS_CDF, mirrored_logcdf)
STATS3(gumbel_l_sf, STATS_CDF, mirrored_sf)
STATS3(gumbel_l_logsf, STATS_CDF, mirrored_logsf)
STATS3(gumbel_l_ppf, STATS_PPF, mirrored_ppf)
