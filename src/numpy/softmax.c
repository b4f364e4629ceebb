/* logsumexp, softmax, log_softmax, and the smooth activations gelu, silu, softplus.
 * Invariant: the greatest element is taken out before exponentials, so nothing overflows; no gradient flows through it. */
#include "numpy/floats.h"

/* Of complex numbers the greatest real part, which is what makes an exponential large; of no numbers 0. */
static mf_value greatest(mf_value x, mf_axis axis)
{
    if (mf_size(x) == 0)
        return mf_sum(mf_real(x), .axis = axis, .keepdims = true);
    return mf_stop_gradient(mf_max(mf_real(x), .axis = axis, .keepdims = true));
}

mf_value(mf_logsumexp)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    x = numpy_float(x);
    mf_value top = greatest(x, axis);
    top = mf_where(mf_isfinite(top), top, 0); /* minus infinity everywhere: its logsumexp, not NaN */
    mf_value sum = mf_sum(mf_exp(mf_sub(x, top)), .axis = axis);
    return mf_add(mf_log(sum), mf_squeeze(top, axis));
}

mf_value(mf_softmax)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    x = numpy_float(x);
    mf_value e = mf_exp(mf_sub(x, greatest(x, axis)));
    return mf_div(e, mf_sum(e, .axis = axis, .keepdims = true));
}

mf_value(mf_log_softmax)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    x = numpy_float(x);
    mf_value shifted = mf_sub(x, greatest(x, axis));
    return mf_sub(shifted, mf_log(mf_sum(mf_exp(shifted), .axis = axis, .keepdims = true)));
}

/* By tanh, as jax.nn.gelu does unless told otherwise: x (1 + t) / 2 with t = tanh(sqrt(2 / pi) (x + 0.044715 x^3)). */
typedef struct gelu_parts {
    mf_value square, t, share; /* share = (1 + t) / 2 */
} gelu_parts;

static const double root = 0.7978845608028654 /* sqrt(2 / pi) */, cubic = 0.044715 * 0.7978845608028654;

static gelu_parts gelu_parts_of(mf_value x)
{
    mf_value square = mf_square(x), t = mf_tanh(mf_mul(x, mf_add(mf_mul(square, cubic), root)));
    return (gelu_parts){ square, t, mf_mul(mf_add(t, 1), 0.5) };
}

static mf_value gelu(mf_value x) { return mf_mul(x, gelu_parts_of(x).share); }

/* Half of the products that the parts' slopes would take; where share or 1 - t is 0, so is what follows, however large x. */
static mf_value gelu_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0);
    gelu_parts p = gelu_parts_of(x);
    mf_value inner = mf_add(mf_mul(p.square, 3 * cubic), root);
    mf_value slope = mf_add(p.share, mf_mul(mf_mul(p.share, mf_mul(x, mf_sub(1, p.t))), inner));
    return mf_tuple(mf_mul(x, p.share), mf_mul(mf_get(tangents, 0), slope));
}

mf_value(mf_gelu)(mf_value x)
{
    MF_LAYER;
    return mf_call(mf_custom_jvp(gelu, gelu_jvp), numpy_float(x));
}

/* Half of erfc(z) for z of at least 1, in f32: Cephes' polynomials in 1 / z^2, one below 2 and one above. */
static mf_value half_tail(mf_value z)
{
    static const float near[] = { 2.326819970068386e-2f,  -1.387039388740657e-1f, 3.687424674597105e-1f,
                                  -5.824733027278666e-1f, 6.210004621745983e-1f,  -4.944515323274145e-1f,
                                  3.404879937665872e-1f,  -2.741127028184656e-1f, 5.638259427386472e-1f };
    static const float far[] = { 0,
                                 -1.047766399936249e+1f,
                                 1.297719955372516e+1f,
                                 -7.495518717768503e+0f,
                                 2.921019019210786e+0f,
                                 -1.015265279202700e+0f,
                                 4.218463358204948e-1f,
                                 -2.820767439740514e-1f,
                                 5.641895067754075e-1f };
    mf_value square = mf_mul(z, z), q = mf_div(1, square), low = mf_f((double)near[0]), high = mf_f((double)far[0]);
    for (int i = 1; i < 9; i++) {
        low = mf_add(mf_mul(low, q), (double)near[i]);
        high = mf_add(mf_mul(high, q), (double)far[i]);
    }
    return mf_mul(mf_div(mf_mul(mf_exp(mf_neg(square)), 0.5), z), mf_where(mf_less(z, 2), low, high));
}

/* The normal distribution's, which is small without being the difference of large numbers. */
static mf_value distribution(mf_value x)
{
    mf_value z = mf_mul(x, mf_scalar(0.7071067811865476 /* sqrt(1 / 2) */, mf_dtype_of(x)));
    mf_value middle = mf_add(mf_mul(mf_erf(z), 0.5), 0.5);
    if (mf_dtype_of(x) == MF_F64)
        return middle;
    mf_value size = mf_abs(z), outside = mf_logical_not(mf_less_equal(size, 1)), tail = half_tail(mf_where(outside, size, 1));
    return mf_where(outside, mf_where(mf_less(z, 0), tail, mf_sub(1, tail)), middle);
}

static mf_value distribution_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), density = mf_exp(mf_mul(mf_mul(x, x), -0.5));
    density = mf_mul(density, mf_scalar(0.3989422804014327 /* 1 / sqrt(2 pi) */, mf_dtype_of(x)));
    return mf_tuple(mf_call(mf_custom_jvp(distribution, distribution_jvp), x), mf_mul(mf_get(tangents, 0), density));
}

mf_value(mf_gelu_exact)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    mf_dtype d = mf_dtype_of(x);
    mf_value wide = d == MF_F16 || d == MF_BF16 ? mf_astype(x, MF_F32) : x;
    return mf_astype(mf_mul(wide, mf_call(mf_custom_jvp(distribution, distribution_jvp), wide)), d);
}

mf_value(mf_silu)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    return mf_mul(x, mf_sigmoid(x));
}

/* log(1 + e^x); of real numbers with one exponential and no custom rule. At 0 the first term has slope 1, the second -1/2, because that of abs is 1 there. */
mf_value(mf_softplus)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    if (numpy_is_complex(x))
        return mf_logaddexp(x, 0);
    return mf_add(mf_where(mf_less(x, 0), 0, x), mf_log1p(mf_exp(mf_neg(mf_abs(x)))));
}

mf_value(mf_log_sigmoid)(mf_value x)
{
    MF_LAYER;
    return mf_neg(mf_softplus(mf_neg(x)));
}
