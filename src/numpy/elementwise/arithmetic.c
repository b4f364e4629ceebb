/* Arithmetic functions composed of primitives: signs, steps, angles, divmod, gcd and lcm.
 * Invariant: results equal jax.numpy's, also for zeros, infinities and NaN. */
#include "numpy/floats.h"

#include <math.h>

/* ---- signs */
static mf_dtype word_of(mf_dtype d) { return d == MF_F64 ? MF_I64 : d == MF_F16 || d == MF_BF16 ? MF_I16 : MF_I32; }

mf_value(mf_signbit)(mf_value x)
{
    MF_LAYER;
    mf_dtype d = mf_dtype_of(x);
    if (numpy_is_complex(x))
        return numpy_real_float(x, "signbit");
    return mf_less(d >= MF_F16 && d <= MF_F64 ? mf_bitcast(x, word_of(d)) : x, 0);
}

mf_value(mf_copysign)(mf_value a, mf_value b)
{
    MF_LAYER;
    numpy_common_float(&a, &b);
    return mf_where(mf_equal(mf_signbit(a), mf_signbit(b)), a, mf_neg(a));
}

mf_value(mf_heaviside)(mf_value x, mf_value at_zero)
{
    MF_LAYER;
    numpy_common_float(&x, &at_zero);
    x = numpy_real_float(x, "heaviside");
    mf_value sides = mf_where(mf_less(x, 0), 0, mf_where(mf_greater(x, 0), 1, x)); /* NaN stays */
    return mf_where(mf_equal(x, 0), at_zero, sides);
}

mf_value(mf_isposinf)(mf_value x)
{
    MF_LAYER;
    return mf_equal(numpy_real_float(x, "isposinf"), (double)INFINITY);
}

mf_value(mf_isneginf)(mf_value x)
{
    MF_LAYER;
    return mf_equal(numpy_real_float(x, "isneginf"), -(double)INFINITY);
}

mf_value(mf_fmax)(mf_value a, mf_value b)
{
    MF_LAYER;
    return mf_where(mf_logical_or(mf_greater(a, b), mf_isnan(b)), a, b);
}

mf_value(mf_fmin)(mf_value a, mf_value b)
{
    MF_LAYER;
    return mf_where(mf_logical_or(mf_less(a, b), mf_isnan(b)), a, b);
}

/* ---- angles */
static mf_value times(mf_value x, double factor, const char *op)
{
    x = numpy_real_float(x, op);
    return mf_mul(x, mf_scalar(factor, mf_dtype_of(x)));
}

mf_value(mf_deg2rad)(mf_value x)
{
    MF_LAYER;
    return times(x, 0.017453292519943295, "deg2rad");
}

mf_value(mf_rad2deg)(mf_value x)
{
    MF_LAYER;
    return times(x, 57.29577951308232, "rad2deg");
}

/* Near 0 computed by its series, so that the derivatives are right there too. */
mf_value(mf_sinc)(mf_value x)
{
    MF_LAYER;
    mf_value angle = times(x, 3.141592653589793, "sinc"), near = mf_less(mf_abs(angle), 0.01);
    mf_value small = mf_where(near, angle, 0), large = mf_where(near, 1, angle), square = mf_square(small);
    mf_value series = mf_sub(1, mf_mul(mf_div(square, 6), mf_sub(1, mf_mul(mf_div(square, 20), mf_sub(1, mf_div(square, 42))))));
    return mf_where(near, series, mf_div(mf_sin(large), large));
}

mf_value(mf_logaddexp2)(mf_value a, mf_value b)
{
    MF_LAYER;
    numpy_common_float(&a, &b);
    mf_value ln2 = mf_scalar(0.6931471805599453, mf_dtype_of(a));
    return mf_div(mf_logaddexp(mf_mul(a, ln2), mf_mul(b, ln2)), ln2);
}

/* ---- integers */
mf_value(mf_divmod)(mf_value a, mf_value b)
{
    MF_LAYER;
    mf_value quotient = mf_floor_divide(a, b), rest = mf_remainder(a, b);
    return mf_is_error(quotient) ? quotient : mf_tuple(quotient, rest);
}

/* The Euclidean algorithm, elementwise, until every second number is 0. */
static mf_value unfinished(mf_value pair) { return mf_any(mf_not_equal(mf_get(pair, 1), 0)); }

static mf_value euclid(mf_value pair)
{
    mf_value a = mf_get(pair, 0), b = mf_get(pair, 1), done = mf_equal(b, 0);
    return mf_tuple(mf_where(done, a, b), mf_where(done, b, mf_lax_rem(a, mf_where(done, mf_ones_like(b), b))));
}

mf_value(mf_gcd)(mf_value a, mf_value b)
{
    MF_LAYER;
    numpy_common(&a, &b);
    mf_dtype d = mf_dtype_of(a);
    if (mf_is_error(a))
        return a;
    if (d < MF_I8 || d >= MF_F16)
        return mf_make_error(MF_ERROR_DTYPE, "gcd and lcm: are defined for integers, not for %s", mf_str(d));
    return mf_get(mf_while(unfinished, euclid, mf_tuple(mf_abs(a), mf_abs(b))), 0);
}

mf_value(mf_lcm)(mf_value a, mf_value b)
{
    MF_LAYER;
    mf_value divisor = mf_gcd(a, b), none = mf_equal(divisor, 0);
    return mf_where(none, divisor, mf_mul(mf_abs(a), mf_lax_div(mf_abs(b), mf_where(none, mf_ones_like(divisor), divisor))));
}
