/* logsumexp, logmeanexp, softmax, log_softmax, standardize, and the smooth activations (gelu, silu, softplus, ...).
 * Invariant: the maximum is subtracted before exponentials, so nothing overflows; no gradient flows through it. */
#include "numpy/axis.h"
#include "numpy/floats.h"

#include <math.h>

/* The maximum; of complex numbers the maximum of the real parts, which determine the size of the exponentials; 0 if x is empty. */
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
    if (!numpy_reduces(&x, axis, "logsumexp"))
        return x;
    mf_value top = greatest(x, axis);
    top = mf_where(mf_isfinite(top), top, 0); /* if all are -inf, the result must be -inf, not NaN */
    mf_value sum = mf_sum(mf_exp(mf_sub(x, top)), .axis = axis);
    return mf_add(mf_log(sum), mf_squeeze(top, axis));
}

mf_value(mf_softmax)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    x = numpy_float(x);
    if (!numpy_reduces(&x, axis, "softmax"))
        return x;
    mf_value e = mf_exp(mf_sub(x, greatest(x, axis)));
    return mf_div(e, mf_sum(e, .axis = axis, .keepdims = true));
}

mf_value(mf_log_softmax)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    x = numpy_float(x);
    if (!numpy_reduces(&x, axis, "log_softmax"))
        return x;
    mf_value shifted = mf_sub(x, greatest(x, axis));
    return mf_sub(shifted, mf_log(mf_sum(mf_exp(shifted), .axis = axis, .keepdims = true)));
}

/* The tanh approximation, jax.nn.gelu's default: x * (1 + t) / 2 with t = tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)). */
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

/* share + share * x * (1 - t) * (root + 3 * cubic * x^2): half the multiplications of the chain rule. For large |x|, share or 1 - t is
 * exactly 0. Where the square of x overflows, the slope is NaN, as in JAX: bounding it would cost every model an array. */
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

static mf_value gelu_exact(mf_value x) { return mf_mul(x, mf_ndtr(x)); }

mf_value(mf_gelu_exact)(mf_value x)
{
    MF_LAYER;
    return numpy_call_wide(mf_fn(gelu_exact), numpy_real_float(x, "gelu"));
}

mf_value(mf_silu)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    return mf_mul(x, mf_sigmoid(x));
}

mf_value(mf_glu)(mf_value x, int axis)
{
    MF_LAYER;
    mf_value halves = mf_split(x, 2, axis);
    return mf_mul(mf_get(halves, 0), mf_sigmoid(mf_get(halves, 1)));
}

mf_value(mf_mish)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    return mf_mul(x, mf_tanh(mf_softplus(x)));
}

mf_value(mf_squareplus)(mf_value x, double b)
{
    MF_LAYER;
    x = numpy_float(x);
    return mf_mul(mf_add(x, mf_sqrt(mf_add(mf_square(x), b))), 0.5);
}

mf_value(mf_soft_sign)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    return mf_div(x, mf_add(mf_abs(x), 1));
}

mf_value mf_standardize_opt(mf_value x, const mf_standardize_options *o)
{
    MF_LAYER;
    static const mf_standardize_options usual = { .axis = -1, .epsilon = 1e-5 };
    o = o ? o : &usual;
    x = numpy_float(x);
    mf_value mean = mf_mean(x, .axis = o->axis, .keepdims = true, .where = o->where);
    mf_value variance = mf_var(x, .axis = o->axis, .keepdims = true, .where = o->where);
    return mf_mul(mf_sub(x, mean), mf_rsqrt(mf_add(variance, o->epsilon)));
}

mf_value(mf_standardize)(mf_value x) { return mf_standardize_opt(x, NULL); }

/* log(1 + e^x). For real numbers max(x, 0) + log1p(e^-|x|), which needs no custom derivative: at 0 the first term has slope 1 and the
 * second -1/2, because abs has slope 1 there. */
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

mf_value(mf_logmeanexp)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    mf_value sum = mf_logsumexp(x, axis);
    if (mf_is_error(sum))
        return sum;
    double shares = mf_size(sum) > 0 ? (double)mf_size(x) / (double)mf_size(sum) : 1;
    return mf_sub(sum, log(shares));
}
