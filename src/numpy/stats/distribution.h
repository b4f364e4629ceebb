/* How the functions of a distribution follow from one formula of its standard form. */
#ifndef MF_NUMPY_STATS_DISTRIBUTION_H
#define MF_NUMPY_STATS_DISTRIBUTION_H

#include <manyfold.h>

#include <math.h>

/* A formula of x and up to two parameters, all of one float dtype and one shape; unused ones are unset. */
typedef mf_value (*stats_formula)(mf_value x, mf_value a, mf_value b);

/* What a function is, if its arguments are x, the parameters, loc and scale; z = (x - loc) / scale. */
typedef enum stats_kind {
    STATS_PLAIN,   /* the formula of all arguments: no loc, no scale */
    STATS_LOGPMF,  /* the formula of x - loc: no scale */
    STATS_PMF,     /* its exponential */
    STATS_LOGPDF,  /* the formula of z, minus log(scale) */
    STATS_PDF,     /* the exponential of that */
    STATS_CDF,     /* the formula of z: cdf, sf and others */
    STATS_LOG_CDF, /* its logarithm */
    STATS_PPF      /* the formula of x, times scale, plus loc */
} stats_kind;

/* The function of that name, with `count` arguments, of which at most 5. Compiled, as the special functions are. */
mf_value stats_apply(const char *name, stats_kind kind, stats_formula formula, const mf_value *arguments, int count);

#define STATS_LOG_ZERO (-(double)INFINITY)
/* Whether q is from 0 to 1. */
mf_value stats_is_probability(mf_value q);

/* Public functions of 2 to 5 arguments. */
#define STATS2(name, kind, formula) \
    mf_value(mf_stats_##name)(mf_value x, mf_value a) { return stats_apply(#name, kind, formula, (mf_value[]){ x, a }, 2); }
#define STATS3(name, kind, formula) \
    mf_value(mf_stats_##name)(mf_value x, mf_value a, mf_value b) { return stats_apply(#name, kind, formula, (mf_value[]){ x, a, b }, 3); }
#define STATS4(name, kind, formula)                                              \
    mf_value(mf_stats_##name)(mf_value x, mf_value a, mf_value b, mf_value c)    \
    {                                                                            \
        return stats_apply(#name, kind, formula, (mf_value[]){ x, a, b, c }, 4); \
    }
#define STATS5(name, kind, formula)                                                       \
    mf_value(mf_stats_##name)(mf_value x, mf_value a, mf_value b, mf_value c, mf_value d) \
    {                                                                                     \
        return stats_apply(#name, kind, formula, (mf_value[]){ x, a, b, c, d }, 5);       \
    }

#endif
