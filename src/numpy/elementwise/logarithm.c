/* logaddexp, cumlogsumexp and log1mexp. Invariant of the first two: the greater operand is subtracted before the exponential, so nothing
 * overflows. The derivative by an operand x is its share exp(x - sum), also if the sum is infinite. If both operands are -inf, the
 * derivatives of logaddexp are NaN, as in JAX; those of cumlogsumexp, which pads with -inf, are 1. */
#include "numpy/axis.h"
#include "numpy/floats.h"

#include <math.h>

/* The angle, reduced to [-pi, pi). */
static mf_value wrapped_angle(mf_value angle)
{
    mf_value turn = mf_scalar(6.283185307179586, mf_dtype_of(angle)), half = mf_scalar(3.141592653589793, mf_dtype_of(angle));
    return mf_sub(mf_remainder(mf_add(angle, half), turn), half);
}

/* log(1 + z) for |z| <= 1, accurate near 0. */
static mf_value complex_log1p(mf_value z)
{
    mf_value re = mf_real(z), im = mf_imag(z);
    mf_value square = mf_add(mf_mul(re, mf_add(re, 2)), mf_square(im)); /* |1 + z|^2 - 1 */
    return mf_complex(mf_mul(mf_log1p(square), 0.5), mf_atan2(im, mf_add(re, 1)));
}

static mf_value joined_complex(mf_value a, mf_value b)
{
    mf_value top = mf_maximum(a, b); /* the operand with the greater real part */
    mf_value sum = mf_add(top, complex_log1p(mf_exp(mf_sub(mf_add(a, b), mf_mul(top, 2)))));
    return mf_complex(mf_real(sum), wrapped_angle(mf_imag(sum)));
}

static mf_value joined(mf_value a, mf_value b)
{
    if (numpy_is_complex(a))
        return joined_complex(a, b);
    mf_value distance = mf_sub(a, b); /* NaN if both are the same infinity */
    return mf_where(mf_isnan(distance), mf_add(a, b), mf_add(mf_maximum(a, b), mf_log1p(mf_exp(mf_neg(mf_abs(distance))))));
}

static mf_value finite_or_zero(mf_value x) { return mf_where(mf_isinf(mf_real(x)), 0, x); }

/* exp(x - sum): 0 if only x is -inf, 1 if x and sum are the same infinity. */
static mf_value share(mf_value x, mf_value sum)
{
    return mf_exp(mf_sub(mf_where(mf_equal(x, sum), finite_or_zero(x), x), finite_or_zero(sum)));
}

/* `sum` must come from a call with this rule, so that higher derivatives use it too: the derivatives of maximum and abs are wrong where
 * operands are equal. */
static mf_value joined_tangent(mf_value primals, mf_value tangents, mf_value sum)
{
    mf_value first = mf_mul(mf_get(tangents, 0), share(mf_get(primals, 0), sum));
    return mf_add(first, mf_mul(mf_get(tangents, 1), share(mf_get(primals, 1), sum)));
}

static mf_value running_jvp(mf_value primals, mf_value tangents)
{
    mf_value sum = mf_call(mf_custom_jvp(joined, running_jvp), mf_get(primals, 0), mf_get(primals, 1));
    return mf_tuple(sum, joined_tangent(primals, tangents, sum));
}

static mf_value logaddexp_jvp(mf_value primals, mf_value tangents)
{
    mf_value sum = mf_call(mf_custom_jvp(joined, logaddexp_jvp), mf_get(primals, 0), mf_get(primals, 1));
    mf_value factor = mf_where(mf_equal(sum, -(double)INFINITY), (double)NAN, 1.0);
    return mf_tuple(sum, mf_mul(joined_tangent(primals, tangents, sum), factor));
}

mf_value(mf_logaddexp)(mf_value a, mf_value b)
{
    numpy_common_float(&a, &b);
    return mf_call(mf_custom_jvp(joined, logaddexp_jvp), a, b);
}

/* A parallel prefix scan in log2(n) rounds: each round joins every element with the one 1, 2, 4, ... places before it (behind it, if
 * reverse). */
mf_value mf_cumlogsumexp_opt(mf_value x, const mf_cumulative_options *o)
{
    MF_LAYER;
    x = numpy_float(x);
    int at = numpy_axis(&x, o ? o->axis : 0, "cumlogsumexp"), rank = mf_ndim(x);
    if (at < 0)
        return x;
    mf_function join = mf_custom_jvp(joined, running_jvp);
    for (int64_t by = 1; by < mf_dim(x, at); by *= 2) {
        mf_ints low = { .count = rank }, high = { .count = rank };
        low.at[at] = o && o->reverse ? -by : by;
        high.at[at] = -low.at[at];
        x = mf_call(join, x, mf_pad(x, mf_scalar(-(double)INFINITY, mf_dtype_of(x)), low, high, MF_INTS0));
    }
    return x;
}

mf_value(mf_cumlogsumexp)(mf_value x, mf_axis axis) { return mf_cumlogsumexp_opt(x, &(mf_cumulative_options){ .axis = axis }); }

/* log(1 - e^-x): where x is small by expm1, else by log1p. */
static mf_value log1mexp_value(mf_value x)
{
    mf_value near = mf_less(x, 0.6931471805599453);
    mf_value by_expm1 = mf_log(mf_neg(mf_expm1(mf_neg(mf_where(near, x, 1)))));
    return mf_where(near, by_expm1, mf_log1p(mf_neg(mf_exp(mf_neg(mf_where(near, 1, x))))));
}

/* 1 / (e^x - 1) */
static mf_value log1mexp_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), y = mf_call(mf_custom_jvp(log1mexp_value, log1mexp_jvp), x);
    return mf_tuple(y, mf_div(mf_get(tangents, 0), mf_expm1(x)));
}

mf_value(mf_log1mexp)(mf_value x)
{
    MF_LAYER;
    return mf_call(mf_custom_jvp(log1mexp_value, log1mexp_jvp), numpy_real_float(x, "log1mexp"));
}
