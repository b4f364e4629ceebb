/* Products with logarithms: xlogy, xlog1py, entr, rel_entr, kl_div, logit.
 * Invariant: 0 log 0 is 0, and the branch of a `where` that is not selected never makes a derivative NaN. */
#include "numpy/floats.h"

#include <math.h>

/* x * logarithm(y); 0 if x is 0, unless y is NaN. */
static mf_value product(mf_value x, mf_value y, mf_function logarithm)
{
    mf_value counts = mf_logical_or(mf_not_equal(x, 0), mf_isnan(y));
    return mf_where(counts, mf_mul(x, mf_call(logarithm, y)), mf_zeros_like(x));
}

static mf_value xlogy_of(mf_value x, mf_value y) { return product(x, y, mf_fn(mf_log)); }
static mf_value xlog1py_of(mf_value x, mf_value y) { return product(x, y, mf_fn(mf_log1p)); }

static mf_value xlogy_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), y = mf_get(primals, 1);
    mf_value slope = mf_add(mf_mul(mf_get(tangents, 0), mf_log(y)), mf_mul(mf_get(tangents, 1), mf_div(x, y)));
    return mf_tuple(mf_call(mf_custom_jvp(xlogy_of, xlogy_jvp), x, y), slope);
}

static mf_value xlog1py_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), y = mf_get(primals, 1);
    mf_value slope = mf_add(mf_mul(mf_get(tangents, 0), mf_log1p(y)), mf_mul(mf_get(tangents, 1), mf_div(x, mf_add(y, 1))));
    return mf_tuple(mf_call(mf_custom_jvp(xlog1py_of, xlog1py_jvp), x, y), slope);
}

mf_value(mf_xlogy)(mf_value x, mf_value y)
{
    numpy_common_float(&x, &y);
    return mf_call(mf_custom_jvp(xlogy_of, xlogy_jvp), x, y);
}

mf_value(mf_xlog1py)(mf_value x, mf_value y)
{
    numpy_common_float(&x, &y);
    return mf_call(mf_custom_jvp(xlog1py_of, xlog1py_jvp), x, y);
}

/* x log x, with the derivative log x + 1. */
static mf_value xlogx(mf_value x) { return xlogy_of(x, x); }

static mf_value xlogx_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0);
    return mf_tuple(mf_call(mf_custom_jvp(xlogx, xlogx_jvp), x), mf_mul(mf_get(tangents, 0), mf_add(mf_log(x), 1)));
}

mf_value(mf_entr)(mf_value x)
{
    MF_LAYER;
    x = numpy_real_float(x, "entr");
    return mf_where(mf_less(x, 0), -(double)INFINITY, mf_neg(mf_call(mf_custom_jvp(xlogx, xlogx_jvp), x)));
}

mf_value(mf_rel_entr)(mf_value p, mf_value q)
{
    MF_LAYER;
    numpy_common_float(&p, &q);
    p = numpy_real_float(p, "rel_entr");
    mf_value both = mf_logical_and(mf_greater(p, 0), mf_greater(q, 0)), none = mf_logical_and(mf_equal(p, 0), mf_greater_equal(q, 0));
    mf_value x = mf_where(both, p, 1), y = mf_where(both, q, 1);
    mf_value value = mf_sub(mf_call(mf_custom_jvp(xlogx, xlogx_jvp), x), mf_xlogy(x, y));
    return mf_where(both, value, mf_where(none, 0, (double)INFINITY));
}

mf_value(mf_kl_div)(mf_value p, mf_value q)
{
    MF_LAYER;
    return mf_add(mf_sub(mf_rel_entr(p, q), p), q);
}

mf_value(mf_logit)(mf_value p)
{
    MF_LAYER;
    p = numpy_float(p);
    return mf_log(mf_div(p, mf_sub(1, p)));
}
