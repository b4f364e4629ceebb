/* Probability distributions against JAX, by rows (expressions.h). */
#include "check.h"
#include "expressions.h"

SUM_OF(norm_logpdf_of_scale, mf_stats_norm_logpdf(F(1, -2, 0), 0.5, x))
SUM_OF(norm_logpdf_of_loc, mf_stats_norm_logpdf(F(1, -2, 0), x, 2))
SUM_OF(norm_cdf_of_x, mf_stats_norm_cdf(x, 1, 2))
SUM_OF(norm_ppf_of_q, mf_stats_norm_ppf(x, 1, 2))
SUM_OF(uniform_cdf_of_x, mf_stats_uniform_cdf(x, 1, 2))
SUM_OF(expon_pdf_of_x, mf_stats_expon_pdf(x, 1, 2))
SUM_OF(laplace_cdf_of_x, mf_stats_laplace_cdf(x, 1, 2))
SUM_OF(gumbel_cdf_of_scale, mf_stats_gumbel_r_cdf(F(1, -2, 0), 0.5, x))
SUM_OF(gamma_logpdf_of_a, mf_stats_gamma_logpdf(F(1, 2, 0.25), x, 0, 2))
SUM_OF(gamma_cdf_of_scale, mf_stats_gamma_cdf(F(1, 2, 0.25), 3, 0, x))
SUM_OF(beta_logpdf_of_a, mf_stats_beta_logpdf(F(0.5, 0.25, 0.9), x, 3, 0, 1))
SUM_OF(t_logpdf_of_df, mf_stats_t_logpdf(F(0.5, 0.25, 0.9), x, 3, 2))
SUM_OF(truncnorm_logpdf_of_b, mf_stats_truncnorm_logpdf(F(0.5, 0.25, 0.9), -1, x, 0, 1))
SUM_OF(poisson_logpmf_of_mu, mf_stats_poisson_logpmf(F(0, 2, 1.5), x, 0))
SUM_OF(binom_logpmf_of_p, mf_stats_binom_logpmf(F(0, 2, 7), 5, x, 0))
SUM_OF(mvn_of_cov, mf_stats_multivariate_normal_logpdf(F(1, 2), F(0, 1), x))

static void located(void)
{
    ROW(1e-5,
        "(stats.norm.logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.norm.pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), "
        "0.5, 2), stats.norm.cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.norm.logcdf(F(-30, -3, -0.5, 0, 0.25, 1, "
        "4, 20), 0.5, 2), stats.norm.sf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.norm.logsf(F(-30, -3, -0.5, 0, "
        "0.25, 1, 4, 20), 0.5, 2),)",
        mf_tuple(mf_stats_norm_logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_norm_pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_norm_cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_norm_logcdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_norm_sf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_norm_logsf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2)))
    ROW(1e-5, "(stats.norm.ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2), stats.norm.isf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2),)",
        mf_tuple(mf_stats_norm_ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2), mf_stats_norm_isf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2)))
    ROW(0, "(stats.norm.ppf(F(-0.5, 1.5, nan), 0, 1), stats.norm.isf(F(-0.5, 1.5, nan), 0, 1),)",
        mf_tuple(mf_stats_norm_ppf(F(-0.5, 1.5, nan_), 0, 1), mf_stats_norm_isf(F(-0.5, 1.5, nan_), 0, 1)))
    ROW(1e-11, "(stats.norm.logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), stats.norm.logsf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)),)",
        mf_tuple(mf_stats_norm_logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), mf_stats_norm_logsf(D(-3, -0.5, 0.25, 4), D(0.5), D(2))))
    ROW(1e-5,
        "(stats.uniform.logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.uniform.pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, "
        "20), 0.5, 2), stats.uniform.cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),)",
        mf_tuple(mf_stats_uniform_logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_uniform_pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_uniform_cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2)))
    ROW(1e-5, "(stats.uniform.ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2),)", mf_tuple(mf_stats_uniform_ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2)))
    ROW(0, "(stats.uniform.ppf(F(-0.5, 1.5, nan), 0, 1),)", mf_tuple(mf_stats_uniform_ppf(F(-0.5, 1.5, nan_), 0, 1)))
    ROW(1e-11, "(stats.uniform.logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), stats.uniform.cdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)),)",
        mf_tuple(mf_stats_uniform_logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), mf_stats_uniform_cdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2))))
    ROW(1e-5,
        "(stats.expon.logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.expon.pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, "
        "20), 0.5, 2), stats.expon.cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.expon.sf(F(-30, -3, -0.5, 0, 0.25, "
        "1, 4, 20), 0.5, 2), stats.expon.logsf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),)",
        mf_tuple(mf_stats_expon_logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_expon_pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_expon_cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_expon_sf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_expon_logsf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2)))
    ROW(1e-5, "(stats.expon.ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2),)", mf_tuple(mf_stats_expon_ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2)))
    ROW(0, "(stats.expon.ppf(F(-0.5, 1.5, nan), 0, 1),)", mf_tuple(mf_stats_expon_ppf(F(-0.5, 1.5, nan_), 0, 1)))
    ROW(1e-11, "(stats.expon.logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), stats.expon.logsf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)),)",
        mf_tuple(mf_stats_expon_logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), mf_stats_expon_logsf(D(-3, -0.5, 0.25, 4), D(0.5), D(2))))
    ROW(1e-5,
        "(stats.laplace.logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.laplace.pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, "
        "20), 0.5, 2), stats.laplace.cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),)",
        mf_tuple(mf_stats_laplace_logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_laplace_pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_laplace_cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2)))
    ROW(1e-11, "(stats.laplace.logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), stats.laplace.cdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)),)",
        mf_tuple(mf_stats_laplace_logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), mf_stats_laplace_cdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2))))
    ROW(1e-5,
        "(stats.cauchy.logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.cauchy.pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, "
        "20), 0.5, 2), stats.cauchy.cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.cauchy.logcdf(F(-30, -3, -0.5, 0, "
        "0.25, 1, 4, 20), 0.5, 2), stats.cauchy.sf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.cauchy.logsf(F(-30, -3, "
        "-0.5, 0, 0.25, 1, 4, 20), 0.5, 2),)",
        mf_tuple(mf_stats_cauchy_logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_cauchy_pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_cauchy_cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_cauchy_logcdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_cauchy_sf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_cauchy_logsf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2)))
    ROW(1e-5, "(stats.cauchy.ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2), stats.cauchy.isf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2),)",
        mf_tuple(mf_stats_cauchy_ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2), mf_stats_cauchy_isf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2)))
    ROW(1e-11, "(stats.cauchy.logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), stats.cauchy.logsf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)),)",
        mf_tuple(mf_stats_cauchy_logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), mf_stats_cauchy_logsf(D(-3, -0.5, 0.25, 4), D(0.5), D(2))))
    ROW(1e-5,
        "(stats.logistic.logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.logistic.pdf(F(-30, -3, -0.5, 0, 0.25, 1, "
        "4, 20), 0.5, 2), stats.logistic.cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2), stats.logistic.sf(F(-30, -3, -0.5, "
        "0, 0.25, 1, 4, 20), 0.5, 2),)",
        mf_tuple(mf_stats_logistic_logpdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_logistic_pdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_logistic_cdf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2),
                 mf_stats_logistic_sf(F(-30, -3, -0.5, 0, 0.25, 1, 4, 20), 0.5, 2)))
    ROW(1e-5, "(stats.logistic.ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2), stats.logistic.isf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2),)",
        mf_tuple(mf_stats_logistic_ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2), mf_stats_logistic_isf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2)))
    ROW(1e-11, "(stats.logistic.logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), stats.logistic.sf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)),)",
        mf_tuple(mf_stats_logistic_logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), mf_stats_logistic_sf(D(-3, -0.5, 0.25, 4), D(0.5), D(2))))
    ROW(1e-5,
        "(stats.gumbel_r.logpdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), stats.gumbel_r.pdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), "
        "stats.gumbel_r.cdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), stats.gumbel_r.logcdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), "
        "stats.gumbel_r.sf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2),)",
        mf_tuple(mf_stats_gumbel_r_logpdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), mf_stats_gumbel_r_pdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2),
                 mf_stats_gumbel_r_cdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), mf_stats_gumbel_r_logcdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2),
                 mf_stats_gumbel_r_sf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2)))
    ROW(1e-5, "(stats.gumbel_r.ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2),)",
        mf_tuple(mf_stats_gumbel_r_ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2)))
    ROW(0, "(stats.gumbel_r.ppf(F(-0.5, 1.5, nan), 0, 1),)", mf_tuple(mf_stats_gumbel_r_ppf(F(-0.5, 1.5, nan_), 0, 1)))
    ROW(1e-11, "(stats.gumbel_r.logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), stats.gumbel_r.sf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)),)",
        mf_tuple(mf_stats_gumbel_r_logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), mf_stats_gumbel_r_sf(D(-3, -0.5, 0.25, 4), D(0.5), D(2))))
    ROW(1e-5,
        "(stats.gumbel_l.logpdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), stats.gumbel_l.pdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), "
        "stats.gumbel_l.cdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), stats.gumbel_l.sf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), "
        "stats.gumbel_l.logsf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2),)",
        mf_tuple(mf_stats_gumbel_l_logpdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), mf_stats_gumbel_l_pdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2),
                 mf_stats_gumbel_l_cdf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2), mf_stats_gumbel_l_sf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2),
                 mf_stats_gumbel_l_logsf(F(-3, -0.5, 0, 0.25, 1, 4), 0.5, 2)))
    ROW(1e-5, "(stats.gumbel_l.ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2),)",
        mf_tuple(mf_stats_gumbel_l_ppf(F(0.01, 0.25, 0.5, 0.9), F(-1), 2)))
    ROW(0, "(stats.gumbel_l.ppf(F(-0.5, 1.5, nan), 0, 1),)", mf_tuple(mf_stats_gumbel_l_ppf(F(-0.5, 1.5, nan_), 0, 1)))
    ROW(1e-11, "(stats.gumbel_l.logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), stats.gumbel_l.logsf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)),)",
        mf_tuple(mf_stats_gumbel_l_logpdf(D(-3, -0.5, 0.25, 4), D(0.5), D(2)), mf_stats_gumbel_l_logsf(D(-3, -0.5, 0.25, 4), D(0.5), D(2))))
    ROW(1e-5, "(stats.gumbel_r.logsf(F(-1, 0, 1, 4), 0.5, 2),)", mf_tuple(mf_stats_gumbel_r_logsf(F(-1, 0, 1, 4), 0.5, 2)))
    ROW(1e-5, "(stats.gumbel_l.logcdf(F(-4, -1, 0, 1), 0.5, 2),)", mf_tuple(mf_stats_gumbel_l_logcdf(F(-4, -1, 0, 1), 0.5, 2)))
    ROW(1e-5, "(stats.expon.logcdf(F(1, 2, 4), 0.5, 2),)", mf_tuple(mf_stats_expon_logcdf(F(1, 2, 4), 0.5, 2)))
    ROW(3e-3, "(stats.norm.logpdf(H(-1, 2), 0, 1), stats.norm.pdf(I(1, 2), 0, 2), stats.norm.cdf(F(), 0, 1))",
        mf_tuple(mf_stats_norm_logpdf(H(-1, 2), 0, 1), mf_stats_norm_pdf(I(1, 2), 0, 2),
                 mf_stats_norm_cdf(mf_zeros(MF_SHAPE(0), MF_F32), 0, 1)))
}

static void shaped(void)
{
    ROW(1e-5,
        "(stats.gamma.logpdf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), 0.5, 2), stats.gamma.pdf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), "
        "0.5, 2), stats.gamma.cdf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), 0.5, 2), stats.gamma.logcdf(F(0.75, 1, 4, 20), F(0.5, 1, "
        "3, 8), 0.5, 2), stats.gamma.sf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), 0.5, 2), stats.gamma.logsf(F(0.75, 1, 4, 20), "
        "F(0.5, 1, 3, 8), 0.5, 2),)",
        mf_tuple(mf_stats_gamma_logpdf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_gamma_pdf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_gamma_cdf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_gamma_logcdf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_gamma_sf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_gamma_logsf(F(0.75, 1, 4, 20), F(0.5, 1, 3, 8), 0.5, 2)))
    ROW(0,
        "(stats.gamma.logpdf(F(-1, 0), 2, 0.5, 2), stats.gamma.pdf(F(-1, 0), 2, 0.5, 2), stats.gamma.cdf(F(-1, 0), 2, 0.5, 2), "
        "stats.gamma.sf(F(-1, 0), 2, 0.5, 2),)",
        mf_tuple(mf_stats_gamma_logpdf(F(-1, 0), 2, 0.5, 2), mf_stats_gamma_pdf(F(-1, 0), 2, 0.5, 2),
                 mf_stats_gamma_cdf(F(-1, 0), 2, 0.5, 2), mf_stats_gamma_sf(F(-1, 0), 2, 0.5, 2)))
    ROW(1e-5,
        "(stats.chi2.logpdf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, 2), stats.chi2.pdf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, "
        "2), stats.chi2.cdf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, 2), stats.chi2.logcdf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), "
        "0.5, 2), stats.chi2.sf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, 2), stats.chi2.logsf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), "
        "0.5, 2),)",
        mf_tuple(mf_stats_chi2_logpdf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, 2),
                 mf_stats_chi2_pdf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, 2), mf_stats_chi2_cdf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, 2),
                 mf_stats_chi2_logcdf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, 2), mf_stats_chi2_sf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, 2),
                 mf_stats_chi2_logsf(F(0.75, 1, 4, 20), F(1, 2, 3, 8), 0.5, 2)))
    ROW(1e-11,
        "(stats.chi2.logpdf(D(0.75, 1, 4, 20), D(1, 2, 3, 8), D(0), D(1)), stats.chi2.cdf(D(0.75, 1, 4, 20), D(1, 2, 3, 8), "
        "D(0), D(1)), stats.chi2.sf(D(0.75, 1, 4, 20), D(1, 2, 3, 8), D(0), D(1)),)",
        mf_tuple(mf_stats_chi2_logpdf(D(0.75, 1, 4, 20), D(1, 2, 3, 8), D(0), D(1)),
                 mf_stats_chi2_cdf(D(0.75, 1, 4, 20), D(1, 2, 3, 8), D(0), D(1)),
                 mf_stats_chi2_sf(D(0.75, 1, 4, 20), D(1, 2, 3, 8), D(0), D(1))))
    ROW(1e-5,
        "(stats.t.logpdf(F(-30, -1, 0, 0.25, 4), F(1, 2, 3, 8, 30), 0.5, 2), stats.t.pdf(F(-30, -1, 0, 0.25, 4), F(1, 2, 3, 8, "
        "30), 0.5, 2),)",
        mf_tuple(mf_stats_t_logpdf(F(-30, -1, 0, 0.25, 4), F(1, 2, 3, 8, 30), 0.5, 2),
                 mf_stats_t_pdf(F(-30, -1, 0, 0.25, 4), F(1, 2, 3, 8, 30), 0.5, 2)))
    ROW(1e-11,
        "(stats.t.logpdf(D(-30, -1, 0, 0.25, 4), D(1, 2, 3, 8, 30), D(0.5), D(2)), stats.t.pdf(D(-30, -1, 0, 0.25, 4), D(1, 2, "
        "3, 8, 30), D(0.5), D(2)),)",
        mf_tuple(mf_stats_t_logpdf(D(-30, -1, 0, 0.25, 4), D(1, 2, 3, 8, 30), D(0.5), D(2)),
                 mf_stats_t_pdf(D(-30, -1, 0, 0.25, 4), D(1, 2, 3, 8, 30), D(0.5), D(2))))
    ROW(1e-5,
        "(stats.pareto.logpdf(F(2.75, 3, 4, 20), F(0.5, 1, 3, 8), 0.5, 2), stats.pareto.pdf(F(2.75, 3, 4, 20), F(0.5, 1, 3, "
        "8), 0.5, 2), stats.pareto.cdf(F(2.75, 3, 4, 20), F(0.5, 1, 3, 8), 0.5, 2), stats.pareto.logcdf(F(2.75, 3, 4, 20), "
        "F(0.5, 1, 3, 8), 0.5, 2), stats.pareto.sf(F(2.75, 3, 4, 20), F(0.5, 1, 3, 8), 0.5, 2), stats.pareto.logsf(F(2.75, 3, "
        "4, 20), F(0.5, 1, 3, 8), 0.5, 2),)",
        mf_tuple(mf_stats_pareto_logpdf(F(2.75, 3, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_pareto_pdf(F(2.75, 3, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_pareto_cdf(F(2.75, 3, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_pareto_logcdf(F(2.75, 3, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_pareto_sf(F(2.75, 3, 4, 20), F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_pareto_logsf(F(2.75, 3, 4, 20), F(0.5, 1, 3, 8), 0.5, 2)))
    ROW(0,
        "(stats.pareto.logpdf(F(-1, 0, 2), 3, 0.5, 2), stats.pareto.pdf(F(-1, 0, 2), 3, 0.5, 2), stats.pareto.cdf(F(-1, 0, 2), "
        "3, 0.5, 2), stats.pareto.sf(F(-1, 0, 2), 3, 0.5, 2), stats.pareto.logsf(F(-1, 0, 2), 3, 0.5, 2),)",
        mf_tuple(mf_stats_pareto_logpdf(F(-1, 0, 2), 3, 0.5, 2), mf_stats_pareto_pdf(F(-1, 0, 2), 3, 0.5, 2),
                 mf_stats_pareto_cdf(F(-1, 0, 2), 3, 0.5, 2), mf_stats_pareto_sf(F(-1, 0, 2), 3, 0.5, 2),
                 mf_stats_pareto_logsf(F(-1, 0, 2), 3, 0.5, 2)))
    ROW(1e-5, "(stats.pareto.ppf(F(0.01, 0.25, 0.5, 0.9), 3, 0.5, 2),)", mf_tuple(mf_stats_pareto_ppf(F(0.01, 0.25, 0.5, 0.9), 3, 0.5, 2)))
    ROW(0, "(stats.pareto.ppf(F(-0.5, 1.5, nan), 3, 0, 1),)", mf_tuple(mf_stats_pareto_ppf(F(-0.5, 1.5, nan_), 3, 0, 1)))
    ROW(1e-5,
        "(stats.beta.logpdf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2), stats.beta.pdf(F(0.75, 1, 2, "
        "2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2), stats.beta.cdf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, "
        "1), 0.5, 2), stats.beta.logcdf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2), stats.beta.sf(F(0.75, "
        "1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2), stats.beta.logsf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, "
        "0.75, 5, 1), 0.5, 2),)",
        mf_tuple(mf_stats_beta_logpdf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2),
                 mf_stats_beta_pdf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2),
                 mf_stats_beta_cdf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2),
                 mf_stats_beta_logcdf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2),
                 mf_stats_beta_sf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2),
                 mf_stats_beta_logsf(F(0.75, 1, 2, 2.25), F(0.5, 1, 3, 8), F(2, 0.75, 5, 1), 0.5, 2)))
    ROW(1e-5,
        "(stats.beta.logpdf(F(-1, 0.5, 9, 1, 1), F(2, 2, 2, 1, 2), F(3, 3, 3, 2, 1), 0.5, F(2, 2, 2, 2, 2)), "
        "stats.beta.pdf(F(-1, 0.5, 9, 1, 1), F(2, 2, 2, 1, 2), F(3, 3, 3, 2, 1), 0.5, F(2, 2, 2, 2, 2)), stats.beta.cdf(F(-1, "
        "0.5, 9, 1, 1), F(2, 2, 2, 1, 2), F(3, 3, 3, 2, 1), 0.5, F(2, 2, 2, 2, 2)), stats.beta.sf(F(-1, 0.5, 9, 1, 1), F(2, 2, "
        "2, 1, 2), F(3, 3, 3, 2, 1), 0.5, F(2, 2, 2, 2, 2)),)",
        mf_tuple(mf_stats_beta_logpdf(F(-1, 0.5, 9, 1, 1), F(2, 2, 2, 1, 2), F(3, 3, 3, 2, 1), 0.5, F(2, 2, 2, 2, 2)),
                 mf_stats_beta_pdf(F(-1, 0.5, 9, 1, 1), F(2, 2, 2, 1, 2), F(3, 3, 3, 2, 1), 0.5, F(2, 2, 2, 2, 2)),
                 mf_stats_beta_cdf(F(-1, 0.5, 9, 1, 1), F(2, 2, 2, 1, 2), F(3, 3, 3, 2, 1), 0.5, F(2, 2, 2, 2, 2)),
                 mf_stats_beta_sf(F(-1, 0.5, 9, 1, 1), F(2, 2, 2, 1, 2), F(3, 3, 3, 2, 1), 0.5, F(2, 2, 2, 2, 2))))
    ROW(0, "(stats.beta.logpdf(F(0.5, 0.5), F(0, 1), F(1, -1), 0, 1),)",
        mf_tuple(mf_stats_beta_logpdf(F(0.5, 0.5), F(0, 1), F(1, -1), 0, 1)))
    ROW(2e-5,
        "(stats.truncnorm.logpdf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2), stats.truncnorm.pdf(F(0.75, 1, 2, 2.25), "
        "-1, F(0.5, 1, 3, 8), 0.5, 2), stats.truncnorm.cdf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2), "
        "stats.truncnorm.logcdf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2), stats.truncnorm.sf(F(0.75, 1, 2, 2.25), -1, "
        "F(0.5, 1, 3, 8), 0.5, 2), stats.truncnorm.logsf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2),)",
        mf_tuple(mf_stats_truncnorm_logpdf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_truncnorm_pdf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_truncnorm_cdf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_truncnorm_logcdf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_truncnorm_sf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2),
                 mf_stats_truncnorm_logsf(F(0.75, 1, 2, 2.25), -1, F(0.5, 1, 3, 8), 0.5, 2)))
    ROW(1e-4,
        "(stats.truncnorm.logpdf(F(3, 3.5, 9), F(2, 2, -9), F(4, 8, -2), 0, 1), stats.truncnorm.cdf(F(3, 3.5, 9), F(2, 2, -9), "
        "F(4, 8, -2), 0, 1), stats.truncnorm.sf(F(3, 3.5, 9), F(2, 2, -9), F(4, 8, -2), 0, 1),)",
        mf_tuple(mf_stats_truncnorm_logpdf(F(3, 3.5, 9), F(2, 2, -9), F(4, 8, -2), 0, 1),
                 mf_stats_truncnorm_cdf(F(3, 3.5, 9), F(2, 2, -9), F(4, 8, -2), 0, 1),
                 mf_stats_truncnorm_sf(F(3, 3.5, 9), F(2, 2, -9), F(4, 8, -2), 0, 1)))
    ROW(0,
        "(stats.truncnorm.logpdf(F(-2, 3, 1), F(-1, -1, 2), F(1, 1, 1), 0, 1), stats.truncnorm.cdf(F(-2, 3, 1), F(-1, -1, 2), "
        "F(1, 1, 1), 0, 1), stats.truncnorm.sf(F(-2, 3, 1), F(-1, -1, 2), F(1, 1, 1), 0, 1),)",
        mf_tuple(mf_stats_truncnorm_logpdf(F(-2, 3, 1), F(-1, -1, 2), F(1, 1, 1), 0, 1),
                 mf_stats_truncnorm_cdf(F(-2, 3, 1), F(-1, -1, 2), F(1, 1, 1), 0, 1),
                 mf_stats_truncnorm_sf(F(-2, 3, 1), F(-1, -1, 2), F(1, 1, 1), 0, 1)))
    ROW(1e-9,
        "(stats.truncnorm.logpdf(D(0.75, 1, 2, 2.25), D(-1), D(0.5, 1, 3, 8), D(0.5), D(2)), stats.truncnorm.logcdf(D(0.75, 1, "
        "2, 2.25), D(-1), D(0.5, 1, 3, 8), D(0.5), D(2)), stats.truncnorm.logsf(D(0.75, 1, 2, 2.25), D(-1), D(0.5, 1, 3, 8), "
        "D(0.5), D(2)),)",
        mf_tuple(mf_stats_truncnorm_logpdf(D(0.75, 1, 2, 2.25), D(-1), D(0.5, 1, 3, 8), D(0.5), D(2)),
                 mf_stats_truncnorm_logcdf(D(0.75, 1, 2, 2.25), D(-1), D(0.5, 1, 3, 8), D(0.5), D(2)),
                 mf_stats_truncnorm_logsf(D(0.75, 1, 2, 2.25), D(-1), D(0.5, 1, 3, 8), D(0.5), D(2))))
    ROW(1e-5, "(stats.vonmises.logpdf(F(-3, 0, 1, 2), F(0.5, 1, 30, -1)), stats.vonmises.pdf(F(-3, 0, 1, 2), F(0.5, 1, 30, -1)),)",
        mf_tuple(mf_stats_vonmises_logpdf(F(-3, 0, 1, 2), F(0.5, 1, 30, -1)), mf_stats_vonmises_pdf(F(-3, 0, 1, 2), F(0.5, 1, 30, -1))))
}

static void counts_and_vectors(void)
{
    ROW(1e-5, "(stats.bernoulli.logpmf(I(-1, 0, 1, 2), 0.25, 0), stats.bernoulli.pmf(I(-1, 0, 1, 2), 0.25, 0),)",
        mf_tuple(mf_stats_bernoulli_logpmf(I(-1, 0, 1, 2), 0.25, 0), mf_stats_bernoulli_pmf(I(-1, 0, 1, 2), 0.25, 0)))
    ROW(1e-5, "(stats.bernoulli.cdf(F(-1, 0, 0.5, 1, nan, 1), F(0.25, 0.25, 0.25, 0.25, 0.25, 2)),)",
        mf_tuple(mf_stats_bernoulli_cdf(F(-1, 0, 0.5, 1, nan_, 1), F(0.25, 0.25, 0.25, 0.25, 0.25, 2))))
    ROW(0, "(stats.bernoulli.ppf(F(-1, 0.5, 0.75, 0.8, nan, 0.5), F(0.25, 0.25, 0.25, 0.25, 0.25, 2)),)",
        mf_tuple(mf_stats_bernoulli_ppf(F(-1, 0.5, 0.75, 0.8, nan_, 0.5), F(0.25, 0.25, 0.25, 0.25, 0.25, 2))))
    ROW(1e-5, "(stats.binom.logpmf(I(-1, 0, 2, 5, 6), 5, 0.25, 0), stats.binom.pmf(I(-1, 0, 2, 5, 6), 5, 0.25, 0),)",
        mf_tuple(mf_stats_binom_logpmf(I(-1, 0, 2, 5, 6), 5, 0.25, 0), mf_stats_binom_pmf(I(-1, 0, 2, 5, 6), 5, 0.25, 0)))
    ROW(1e-5, "(stats.binom.pmf(I(0, 5, 0), I(5, 5, 0), F(0, 1, 0.5), 0),)",
        mf_tuple(mf_stats_binom_pmf(I(0, 5, 0), I(5, 5, 0), F(0, 1, 0.5), 0)))
    ROW(1e-11, "(stats.binom.logpmf(D(2, 30), D(5, 90), D(0.25), D(0)),)",
        mf_tuple(mf_stats_binom_logpmf(D(2, 30), D(5, 90), D(0.25), D(0))))
    ROW(1e-5, "(stats.nbinom.logpmf(I(-1, 0, 2, 5, 6), 5, 0.25, 0), stats.nbinom.pmf(I(-1, 0, 2, 5, 6), 5, 0.25, 0),)",
        mf_tuple(mf_stats_nbinom_logpmf(I(-1, 0, 2, 5, 6), 5, 0.25, 0), mf_stats_nbinom_pmf(I(-1, 0, 2, 5, 6), 5, 0.25, 0)))
    ROW(1e-5, "(stats.geom.logpmf(I(0, 1, 2, 5, 6), 0.25, 0), stats.geom.pmf(I(0, 1, 2, 5, 6), 0.25, 0),)",
        mf_tuple(mf_stats_geom_logpmf(I(0, 1, 2, 5, 6), 0.25, 0), mf_stats_geom_pmf(I(0, 1, 2, 5, 6), 0.25, 0)))
    ROW(1e-5,
        "(stats.poisson.logpmf(F(-1, 0, 2, 5, 6), F(0.5, 0, 4, 4, 4), 0), stats.poisson.pmf(F(-1, 0, 2, 5, 6), F(0.5, 0, 4, 4, "
        "4), 0), stats.poisson.cdf(F(-1, 0, 2, 5, 6), F(0.5, 0, 4, 4, 4), 0),)",
        mf_tuple(mf_stats_poisson_logpmf(F(-1, 0, 2, 5, 6), F(0.5, 0, 4, 4, 4), 0),
                 mf_stats_poisson_pmf(F(-1, 0, 2, 5, 6), F(0.5, 0, 4, 4, 4), 0),
                 mf_stats_poisson_cdf(F(-1, 0, 2, 5, 6), F(0.5, 0, 4, 4, 4), 0)))
    ROW(1e-5, "(stats.poisson.logpmf(F(1.5, 4), 2, 1), stats.poisson.pmf(F(1.5, 4), 2, 1),)",
        mf_tuple(mf_stats_poisson_logpmf(F(1.5, 4), 2, 1), mf_stats_poisson_pmf(F(1.5, 4), 2, 1)))
    ROW(1e-5,
        "(stats.multinomial.logpmf(I(1, 2, 3), 6, F(0.25, 0.25, 0.5)), stats.multinomial.pmf(I(1, 2, 3), 6, F(0.25, 0.25, "
        "0.5)),)",
        mf_tuple(mf_stats_multinomial_logpmf(I(1, 2, 3), 6, F(0.25, 0.25, 0.5)),
                 mf_stats_multinomial_pmf(I(1, 2, 3), 6, F(0.25, 0.25, 0.5))))
    ROW(0,
        "(stats.multinomial.logpmf(I(1, 2, 4), 6, F(0.25, 0.25, 0.5)), stats.multinomial.pmf(I(1, 2, 4), 6, F(0.25, 0.25, "
        "0.5)),)",
        mf_tuple(mf_stats_multinomial_logpmf(I(1, 2, 4), 6, F(0.25, 0.25, 0.5)),
                 mf_stats_multinomial_pmf(I(1, 2, 4), 6, F(0.25, 0.25, 0.5))))
    ROW(1e-5, "(stats.dirichlet.logpdf(F(0.25, 0.25, 0.5), F(1, 2, 3)), stats.dirichlet.pdf(F(0.25, 0.25, 0.5), F(1, 2, 3)),)",
        mf_tuple(mf_stats_dirichlet_logpdf(F(0.25, 0.25, 0.5), F(1, 2, 3)), mf_stats_dirichlet_pdf(F(0.25, 0.25, 0.5), F(1, 2, 3))))
    ROW(1e-5, "(stats.dirichlet.logpdf(F(0.25, 0.25), F(1, 2, 3)),)", mf_tuple(mf_stats_dirichlet_logpdf(F(0.25, 0.25), F(1, 2, 3))))
    ROW(0, "(stats.dirichlet.logpdf(F(0.25, 0.25, 0.25), F(1, 2, 3)),)",
        mf_tuple(mf_stats_dirichlet_logpdf(F(0.25, 0.25, 0.25), F(1, 2, 3))))
    ROW(1e-5,
        "(stats.multivariate_normal.logpdf(grid[:, :2], F(0.5, 1), spread), stats.multivariate_normal.pdf(grid[:, :2], F(0.5, "
        "1), spread),)",
        mf_tuple(mf_stats_multivariate_normal_logpdf(mf_slice_in_dim(grid(), 0, 2, 1, 1), F(0.5, 1), spread()),
                 mf_stats_multivariate_normal_pdf(mf_slice_in_dim(grid(), 0, 2, 1, 1), F(0.5, 1), spread())))
    ROW(1e-5,
        "(stats.multivariate_normal.logpdf(grid[:, :2], F(0.5, 1), 2.), stats.multivariate_normal.pdf(grid[:, :2], F(0.5, 1), "
        "2.),)",
        mf_tuple(mf_stats_multivariate_normal_logpdf(mf_slice_in_dim(grid(), 0, 2, 1, 1), F(0.5, 1), 2.),
                 mf_stats_multivariate_normal_pdf(mf_slice_in_dim(grid(), 0, 2, 1, 1), F(0.5, 1), 2.)))
    ROW(1e-5, "(stats.multivariate_normal.logpdf(F(1, 2), 0.5, 2.),)", mf_tuple(mf_stats_multivariate_normal_logpdf(F(1, 2), 0.5, 2.)))
    ROW(1e-5, "(stats.multivariate_normal.logpdf(F(0, 1), F(0, 0), stack([spread, 2 * spread])),)",
        mf_tuple(mf_stats_multivariate_normal_logpdf(F(0, 1), F(0, 0), mf_stack(mf_list(spread(), mf_mul(2, spread()))))))
}

static void gradients(void)
{
    ROW(1e-5, "grad(lambda x: sum(stats.norm.logpdf(F(1, -2, 0), 0.5, x)))(F(1, 2, 3))", mf_call(mf_grad(norm_logpdf_of_scale), F(1, 2, 3)))
    ROW(1e-5, "grad(lambda x: sum(stats.norm.logpdf(F(1, -2, 0), x, 2)))(F(1, 2, 3))", mf_call(mf_grad(norm_logpdf_of_loc), F(1, 2, 3)))
    ROW(1e-5, "grad(lambda x: sum(stats.norm.cdf(x, 1, 2)))(F(1, -2, 3))", mf_call(mf_grad(norm_cdf_of_x), F(1, -2, 3)))
    ROW(1e-5, "grad(lambda x: sum(stats.norm.ppf(x, 1, 2)))(F(0.1, 0.5, 0.9))", mf_call(mf_grad(norm_ppf_of_q), F(0.1, 0.5, 0.9)))
    ROW(0, "grad(lambda x: sum(stats.uniform.cdf(x, 1, 2)))(F(0, 1, 2, 3, 5))", mf_call(mf_grad(uniform_cdf_of_x), F(0, 1, 2, 3, 5)))
    ROW(1e-5, "grad(lambda x: sum(stats.expon.pdf(x, 1, 2)))(F(0, 1, 2, 30))", mf_call(mf_grad(expon_pdf_of_x), F(0, 1, 2, 30)))
    ROW(1e-5, "grad(lambda x: sum(stats.laplace.cdf(x, 1, 2)))(F(0, 1, 2, 30))", mf_call(mf_grad(laplace_cdf_of_x), F(0, 1, 2, 30)))
    ROW(1e-5, "grad(lambda x: sum(stats.gumbel_r.cdf(F(1, -2, 0), 0.5, x)))(F(1, 2, 3))", mf_call(mf_grad(gumbel_cdf_of_scale), F(1, 2, 3)))
    ROW(1e-4, "grad(lambda x: sum(stats.gamma.logpdf(F(1, 2, 0.25), x, 0, 2)))(F(1, 2, 3))",
        mf_call(mf_grad(gamma_logpdf_of_a), F(1, 2, 3)))
    ROW(1e-4, "grad(lambda x: sum(stats.gamma.cdf(F(1, 2, 0.25), 3, 0, x)))(F(1, 2, 3))", mf_call(mf_grad(gamma_cdf_of_scale), F(1, 2, 3)))
    ROW(1e-4, "grad(lambda x: sum(stats.beta.logpdf(F(0.5, 0.25, 0.9), x, 3, 0, 1)))(F(1, 2, 3))",
        mf_call(mf_grad(beta_logpdf_of_a), F(1, 2, 3)))
    ROW(1e-5, "grad(lambda x: sum(stats.t.logpdf(F(0.5, 0.25, 0.9), x, 3, 2)))(F(1, 2, 3))", mf_call(mf_grad(t_logpdf_of_df), F(1, 2, 3)))
    ROW(1e-4, "grad(lambda x: sum(stats.truncnorm.logpdf(F(0.5, 0.25, 0.9), -1, x, 0, 1)))(F(1, 2, 3))",
        mf_call(mf_grad(truncnorm_logpdf_of_b), F(1, 2, 3)))
    ROW(1e-5, "grad(lambda x: sum(stats.poisson.logpmf(F(0, 2, 1.5), x, 0)))(F(1, 2, 3))",
        mf_call(mf_grad(poisson_logpmf_of_mu), F(1, 2, 3)))
    ROW(1e-5, "grad(lambda x: sum(stats.binom.logpmf(F(0, 2, 7), 5, x, 0)))(F(0.25, 0.5, 0.5))",
        mf_call(mf_grad(binom_logpmf_of_p), F(0.25, 0.5, 0.5)))
    ROW(1e-4, "grad(lambda x: sum(stats.multivariate_normal.logpdf(F(1, 2), F(0, 1), x)))(spread)", mf_call(mf_grad(mvn_of_cov), spread()))
}

static void all_rows(void)
{
    located();
    shaped();
    counts_and_vectors();
    gradients();
}

TEST(values_and_gradients_are_jax_s)
{
    MF_SCOPE;
    all_rows();
    expressions_compare("stats.txt");
}

/* ---- inside transforms */
static mf_value log_density(mf_value x, mf_value loc) { return mf_stats_norm_logpdf(x, loc, 2); }

TEST(rows_are_mapped)
{
    MF_SCOPE;
    mf_value x = mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(3, 2)), loc = F(1, 2, 3);
    mf_value wanted = mf_stats_norm_logpdf(x, mf_expand_dims(loc, 1), 2);
    CHECK_STR(mf_str(mf_allclose(mf_call(mf_jit(mf_vmap(log_density)), x, loc), wanted)), "True");
}

TEST(what_does_not_fit_is_an_error)
{
    MF_SCOPE;
    mf_value x = F(1, 2), z = mf_c(0, 1), square = spread();
    struct {
        mf_value value;
        const char *expected;
    } refused[] = {
        { mf_stats_norm_logpdf(z, 0, 1), "norm_logpdf: is defined for floats, not for complex64" },
        { mf_stats_gamma_cdf(x, F(1, 2, 3), 0, 1), "add" },
        { mf_stats_multinomial_logpmf(x, 6, F(0.5, 0.5)), "multinomial_logpmf: x and n must be integers, not float32 and int32" },
        { mf_stats_dirichlet_logpdf(x, square), "dirichlet_logpdf: alpha of (n) and x of (n, ...) or (n - 1, ...) are needed, not (2, 2)" },
        { mf_stats_dirichlet_logpdf(F(1, 2, 3, 4), x), "dirichlet_logpdf: alpha of (n)" },
        { mf_stats_multivariate_normal_logpdf(x, F(1, 2, 3), square), "multivariate_normal_logpdf: a covariance of (..., n, n)" },
        { mf_stats_multivariate_normal_pdf(x, x, z), "multivariate_normal_logpdf: is defined for floats" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_CONTAINS(mf_error(refused[i].value), refused[i].expected);
}
