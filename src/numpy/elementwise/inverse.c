/* Elementary functions composed of others: hypot, fmod, trunc, log2, log10, asinh, acosh, atanh.
 * Invariant: no intermediate square overflows if the result is finite, and results near 0 keep full relative accuracy. */
#include "numpy/floats.h"

#include <math.h>

mf_value(mf_hypot)(mf_value a, mf_value b)
{
    MF_LAYER;
    numpy_common_float(&a, &b);
    a = mf_abs(numpy_real_float(a, "hypot"));
    b = mf_abs(numpy_real_float(b, "hypot"));
    mf_value infinite = mf_logical_or(mf_isinf(a), mf_isinf(b)), large = mf_maximum(a, b), small = mf_minimum(a, b);
    mf_value zero = mf_equal(large, 0), ratio = mf_div(small, mf_where(zero, 1, large));
    mf_value length = mf_where(zero, large, mf_mul(large, mf_sqrt(mf_add(mf_square(ratio), 1))));
    return mf_where(infinite, (double)INFINITY, length);
}

/* Of integers x % 0 is 0, as mf_remainder's and NumPy's; lax.rem's is x. */
mf_value(mf_fmod)(mf_value a, mf_value b)
{
    MF_LAYER;
    numpy_common(&a, &b);
    mf_dtype d = mf_dtype_of(b);
    if (d == MF_BOOL)
        return mf_zeros_like(mf_astype(b, MF_I32));
    return mf_lax_rem(a, d >= MF_I8 && d < MF_F16 ? mf_where(mf_equal(b, 0), 1, b) : b);
}

mf_value(mf_trunc)(mf_value x)
{
    MF_LAYER;
    x = numpy_is_complex(x) ? numpy_real_float(x, "trunc") : x;
    return mf_where(mf_less(x, 0), mf_ceil(x), mf_floor(x));
}

/* Divides a logarithm by log(base); a complex one by parts. */
static mf_value over(mf_value logarithm, double base)
{
    if (numpy_is_complex(logarithm))
        return mf_complex(over(mf_real(logarithm), base), over(mf_imag(logarithm), base));
    return mf_div(logarithm, mf_scalar(base, mf_dtype_of(logarithm)));
}

mf_value(mf_log2)(mf_value x)
{
    MF_LAYER;
    return over(mf_log(x), 0.6931471805599453);
}

mf_value(mf_log10)(mf_value x)
{
    MF_LAYER;
    return over(mf_log(x), 2.302585092994046);
}

/* ---- inverse hyperbolic functions, with custom derivatives: those of the composed formulas would be inaccurate */
static mf_value asinh_of(mf_value x)
{
    mf_value size = mf_abs(x), wide = mf_greater(size, 1e4), safe = mf_where(wide, 1, size), square = mf_square(safe);
    mf_value near = mf_log1p(mf_add(safe, mf_div(square, mf_add(mf_sqrt(mf_add(square, 1)), 1))));
    mf_value far = mf_add(mf_log(mf_where(wide, size, 1)), 0.6931471805599453);
    return mf_where(mf_equal(x, 0), x, mf_mul(mf_sign(x), mf_where(wide, far, near)));
}

static mf_value asinh_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), slope = mf_rsqrt(mf_add(mf_square(x), 1));
    return mf_tuple(mf_call(mf_custom_jvp(asinh_of, asinh_jvp), x), mf_mul(mf_get(tangents, 0), slope));
}

static mf_value acosh_of(mf_value x)
{
    mf_value wide = mf_greater(x, 1e4), above = mf_sub(mf_where(wide, 1, x), 1); /* x - 1 */
    mf_value near = mf_log1p(mf_add(above, mf_sqrt(mf_mul(above, mf_add(above, 2)))));
    mf_value far = mf_add(mf_log(mf_where(wide, x, 1)), 0.6931471805599453);
    return mf_where(mf_less(x, 1), (double)NAN, mf_where(wide, far, near));
}

static mf_value acosh_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), slope = mf_rsqrt(mf_sub(mf_square(x), 1));
    return mf_tuple(mf_call(mf_custom_jvp(acosh_of, acosh_jvp), x), mf_mul(mf_get(tangents, 0), slope));
}

static mf_value atanh_of(mf_value x) { return mf_mul(mf_sub(mf_log1p(x), mf_log1p(mf_neg(x))), 0.5); }

static mf_value atanh_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), slope = mf_reciprocal(mf_mul(mf_add(x, 1), mf_sub(1, x)));
    return mf_tuple(mf_call(mf_custom_jvp(atanh_of, atanh_jvp), x), mf_mul(mf_get(tangents, 0), slope));
}

/* ---- complex inverse hyperbolic functions: the inverse trigonometric ones, rotated by i or -i. The rotation exchanges the parts, because
 * a product with i would lose the sign of a zero, which tells on which side of a branch cut the number lies. */
static mf_value times_i(mf_value z) { return mf_complex(mf_neg(mf_imag(z)), mf_real(z)); }
static mf_value times_minus_i(mf_value z) { return mf_complex(mf_imag(z), mf_neg(mf_real(z))); }
static mf_value complex_asinh(mf_value z) { return times_minus_i(mf_asin(times_i(z))); }
static mf_value complex_atanh(mf_value z) { return times_minus_i(mf_atan(times_i(z))); }

/* i or -i times acos(z), whichever has a nonnegative real part. */
static mf_value complex_acosh(mf_value z)
{
    mf_value angle = mf_acos(z), left = mf_signbit(mf_imag(angle));
    return mf_where(left, times_i(angle), times_minus_i(angle));
}

static mf_value inverse(mf_value x, mf_function of_real, mf_value (*of_complex)(mf_value))
{
    return numpy_is_complex(x) ? of_complex(x) : numpy_call_wide(of_real, numpy_float(x));
}

mf_value(mf_asinh)(mf_value x)
{
    MF_LAYER;
    return inverse(x, mf_custom_jvp(asinh_of, asinh_jvp), complex_asinh);
}

mf_value(mf_acosh)(mf_value x)
{
    MF_LAYER;
    return inverse(x, mf_custom_jvp(acosh_of, acosh_jvp), complex_acosh);
}

mf_value(mf_atanh)(mf_value x)
{
    MF_LAYER;
    return inverse(x, mf_custom_jvp(atanh_of, atanh_jvp), complex_atanh);
}
