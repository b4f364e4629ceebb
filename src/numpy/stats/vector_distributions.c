/* Distributions of vectors: multinomial, dirichlet, multivariate_normal. */
#include "numpy/floats.h"
#include "numpy/stats/distribution.h"

#include <math.h>

/* Unset, or the first error of two operands, or that they are complex. */
static mf_value refused(const char *name, mf_value a, mf_value b)
{
    mf_value first = numpy_real_float(a, name), second = numpy_real_float(b, name);
    return mf_is_error(first) ? first : mf_is_error(second) ? second : (mf_value){ 0 };
}

static bool is_integer(mf_value x) { return mf_dtype_of(x) > MF_BOOL && mf_dtype_of(x) < MF_F16; }

/* ---- multinomial */
mf_value(mf_stats_multinomial_logpmf)(mf_value x, mf_value n, mf_value p)
{
    MF_LAYER;
    mf_value wrong = refused("multinomial_logpmf", x, p);
    if (wrong.handle)
        return wrong;
    if (!is_integer(x) || !is_integer(n))
        return mf_is_error(n) ? n
                              : mf_make_error(MF_ERROR_DTYPE, "multinomial_logpmf: x and n must be integers, not %s and %s",
                                              mf_str(mf_dtype_of(x)), mf_str(mf_dtype_of(n)));
    p = numpy_float(p);
    x = mf_astype(x, mf_dtype_of(p));
    n = mf_astype(n, mf_dtype_of(p));
    mf_value each = mf_sub(mf_xlogy(x, p), mf_lgamma(mf_add(x, 1)));
    mf_value whole = mf_add(mf_lgamma(mf_add(n, 1)), mf_sum(each, .axis = -1));
    return mf_where(mf_equal(mf_sum(x, .axis = -1), n), whole, STATS_LOG_ZERO);
}

mf_value(mf_stats_multinomial_pmf)(mf_value x, mf_value n, mf_value p)
{
    MF_LAYER;
    return mf_exp(mf_stats_multinomial_logpmf(x, n, p));
}

/* ---- dirichlet */
mf_value(mf_stats_dirichlet_logpdf)(mf_value x, mf_value alpha)
{
    MF_LAYER;
    mf_value wrong = refused("dirichlet_logpdf", x, alpha);
    if (wrong.handle)
        return wrong;
    int64_t n = mf_ndim(alpha) == 1 ? mf_dim(alpha, 0) : -1;
    if (n < 0 || mf_ndim(x) < 1 || (mf_dim(x, 0) != n && mf_dim(x, 0) != n - 1))
        return mf_make_error(MF_ERROR_SHAPE, "dirichlet_logpdf: alpha of (n) and x of (n, ...) or (n - 1, ...) are needed, not %s and %s",
                             mf_str(mf_shape_of(alpha)), mf_str(mf_shape_of(x)));
    numpy_promote_float(&x, &alpha);
    if (mf_dim(x, 0) != n)
        x = mf_concatenate(mf_list(x, mf_sub(1, mf_sum(x, .axis = 0, .keepdims = true))), 0);
    mf_value inside = mf_logical_and(mf_all(mf_greater(x, 0), 0), mf_less(mf_abs(mf_sub(mf_sum(x, 0), 1)), 1e-6));
    mf_value volume = mf_sub(mf_sum(mf_lgamma(alpha)), mf_lgamma(mf_sum(alpha)));
    for (int i = 1; i < mf_ndim(x); i++)
        alpha = mf_expand_dims(alpha, -1);
    return mf_where(inside, mf_sub(mf_sum(mf_xlogy(mf_sub(alpha, 1), x), 0), volume), STATS_LOG_ZERO);
}

mf_value(mf_stats_dirichlet_pdf)(mf_value x, mf_value alpha)
{
    MF_LAYER;
    return mf_exp(mf_stats_dirichlet_logpdf(x, alpha));
}

/* ---- multivariate_normal */
/* (..., n), (n, n) -> (...): y^T cov^-1 y + log det(cov), by the Cholesky factor L of cov: the solution of L s = y. */
static mf_value distance(mf_value y, mf_value cov)
{
    int64_t n = mf_dim(y, -1);
    mf_value l = mf_cholesky(cov), s = mf_triangular_solve(l, mf_expand_dims(y, -1), .left_side = true, .lower = true);
    mf_value squares = mf_sum(mf_square(mf_squeeze(s, -1)), .axis = -1);
    mf_value diagonal = mf_sum(mf_mul(l, mf_eye(n, mf_dtype_of(l))), .axis = -1);
    return mf_add(squares, mf_mul(mf_sum(mf_log(diagonal), .axis = -1), 2));
}

mf_value(mf_stats_multivariate_normal_logpdf)(mf_value x, mf_value mean, mf_value cov)
{
    MF_LAYER;
    mf_value wrong = refused("multivariate_normal_logpdf", x, mean);
    wrong = wrong.handle ? wrong : refused("multivariate_normal_logpdf", x, cov);
    if (wrong.handle)
        return wrong;
    int64_t n = mf_ndim(mean) > 0 ? mf_dim(mean, -1) : 1;
    bool fits = mf_ndim(cov) == 0 || (mf_ndim(mean) > 0 && mf_ndim(cov) > 1 && mf_dim(cov, -1) == n && mf_dim(cov, -2) == n);
    if (!fits)
        return mf_make_error(MF_ERROR_SHAPE,
                             "multivariate_normal_logpdf: a covariance of (..., n, n) or a variance is needed for a mean of "
                             "(..., n), not %s for %s",
                             mf_str(mf_shape_of(cov)), mf_str(mf_shape_of(mean)));
    mf_value y = mf_sub(x, mean);
    numpy_promote_float(&y, &cov);
    double constant = (double)n * log(2 * M_PI);
    if (mf_is_error(y) || mf_ndim(cov) == 0) {
        mf_value squares = mf_ndim(mean) > 0 ? mf_sum(mf_square(y), .axis = -1) : mf_square(y);
        return mf_mul(mf_add(mf_add(mf_div(squares, cov), mf_mul(mf_log(cov), (double)n)), constant), -0.5);
    }
    return mf_mul(mf_add(distance(y, cov), constant), -0.5);
}

mf_value(mf_stats_multivariate_normal_pdf)(mf_value x, mf_value mean, mf_value cov)
{
    MF_LAYER;
    return mf_exp(mf_stats_multivariate_normal_logpdf(x, mean, cov));
}
