/* Distributions of integers: bernoulli, binom, geom, nbinom, poisson. Counts are floats inside; where one is none, the mass is 0. */
#include "numpy/stats/distribution.h"

#include <math.h>

#define UNUSED (void)b

static mf_value factorial(mf_value x) { return mf_lgamma(mf_add(x, 1)); } /* its logarithm */

/* ---- bernoulli: of k successes in one trial */
static mf_value bernoulli_logpmf(mf_value k, mf_value p, mf_value b)
{
    UNUSED;
    mf_value outside = mf_logical_or(mf_less(k, 0), mf_greater(k, 1));
    return mf_where(outside, STATS_LOG_ZERO, mf_add(mf_xlogy(k, p), mf_xlog1py(mf_sub(1, k), mf_neg(p))));
}
static mf_value bernoulli_cdf(mf_value k, mf_value p, mf_value b)
{
    UNUSED;
    mf_value right = mf_logical_and(stats_is_probability(p), mf_logical_not(mf_isnan(k)));
    mf_value steps = mf_where(mf_less(k, 0), 0, mf_where(mf_less(k, 1), mf_sub(1, p), 1));
    return mf_where(right, steps, (double)NAN);
}
static mf_value bernoulli_ppf(mf_value q, mf_value p, mf_value b)
{
    UNUSED;
    mf_value zero = mf_zeros_like(q), k = mf_where(mf_less_equal(q, mf_sub(1, p)), zero, mf_add(zero, 1));
    return mf_where(mf_logical_and(stats_is_probability(p), stats_is_probability(q)), k, (double)NAN);
}
STATS3(bernoulli_logpmf, STATS_LOGPMF, bernoulli_logpmf)
STATS3(bernoulli_pmf, STATS_PMF, bernoulli_logpmf)
STATS2(bernoulli_cdf, STATS_PLAIN, bernoulli_cdf)
STATS2(bernoulli_ppf, STATS_PLAIN, bernoulli_ppf)

/* ---- binom: of k successes in n trials */
static mf_value binom_logpmf(mf_value k, mf_value n, mf_value p)
{
    mf_value inside = mf_logical_and(mf_greater_equal(k, 0), mf_less(k, mf_add(n, 1))), y = mf_where(inside, k, 0);
    mf_value ways = mf_sub(factorial(n), mf_add(factorial(y), factorial(mf_sub(n, y))));
    mf_value each = mf_add(mf_xlogy(y, p), mf_xlog1py(mf_sub(n, y), mf_neg(p)));
    return mf_where(inside, mf_where(mf_equal(each, 0), 0, mf_add(ways, each)), STATS_LOG_ZERO);
}
STATS4(binom_logpmf, STATS_LOGPMF, binom_logpmf)
STATS4(binom_pmf, STATS_PMF, binom_logpmf)

/* ---- geom: of the first success in trial k */
static mf_value geom_logpmf(mf_value k, mf_value p, mf_value b)
{
    return UNUSED, mf_where(mf_less_equal(k, 0), STATS_LOG_ZERO, mf_add(mf_xlog1py(mf_sub(k, 1), mf_neg(p)), mf_log(p)));
}
STATS3(geom_logpmf, STATS_LOGPMF, geom_logpmf)
STATS3(geom_pmf, STATS_PMF, geom_logpmf)

/* ---- nbinom: of k failures before success n */
static mf_value nbinom_logpmf(mf_value k, mf_value n, mf_value p)
{
    mf_value outside = mf_less(k, 0), y = mf_where(outside, 0, k);
    mf_value ways = mf_sub(mf_sub(mf_lgamma(mf_add(y, n)), mf_lgamma(n)), factorial(y));
    return mf_where(outside, STATS_LOG_ZERO, mf_add(ways, mf_add(mf_xlogy(n, p), mf_xlog1py(y, mf_neg(p)))));
}
STATS4(nbinom_logpmf, STATS_LOGPMF, nbinom_logpmf)
STATS4(nbinom_pmf, STATS_PMF, nbinom_logpmf)

/* ---- poisson: of k events where mu are expected */
static mf_value poisson_logpmf(mf_value k, mf_value mu, mf_value b)
{
    UNUSED;
    mf_value outside = mf_logical_or(mf_less(k, 0), mf_not_equal(mf_round(k), k)), y = mf_where(outside, 0, k);
    return mf_where(outside, STATS_LOG_ZERO, mf_sub(mf_sub(mf_xlogy(y, mu), factorial(y)), mu));
}
static mf_value poisson_cdf(mf_value k, mf_value mu, mf_value b)
{
    UNUSED;
    mf_value outside = mf_less(k, 0);
    return mf_where(outside, 0, mf_gammaincc(mf_floor(mf_add(mf_where(outside, 0, k), 1)), mu));
}
STATS3(poisson_logpmf, STATS_LOGPMF, poisson_logpmf)
STATS3(poisson_pmf, STATS_PMF, poisson_logpmf)
STATS3(poisson_cdf, STATS_LOGPMF, poisson_cdf)
