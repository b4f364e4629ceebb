/* logsumexp, softmax, log_softmax, and the activations relu, gelu, silu, softplus.
 * Invariant: the greatest element is taken out before exponentials, so nothing overflows; no gradient flows through it. */
#include <manyfold.h>

static mf_value as_float(mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    if (d == MF_I64 || d == MF_U64)
        return mf_astype(x, MF_F64);
    return d >= MF_BOOL && d < MF_F16 ? mf_astype(x, MF_F32) : x;
}

/* Of complex numbers the greatest real part, which is what makes an exponential large. */
static mf_value greatest(mf_value x, int axis)
{
    mf_dtype d = mf_dtype_of(x);
    return mf_stop_gradient(mf_max(d == MF_C64 || d == MF_C128 ? mf_real(x) : x, .axis = axis, .keepdims = true));
}

mf_value mf_logsumexp(mf_value x, int axis)
{
    x = as_float(x);
    mf_value top = greatest(x, axis);
    top = mf_where(mf_isfinite(top), top, 0); /* minus infinity everywhere: its logsumexp, not NaN */
    mf_value sum = mf_sum(mf_exp(mf_sub(x, top)), .axis = axis);
    return mf_add(mf_log(sum), mf_squeeze(top, axis));
}

mf_value mf_softmax(mf_value x, int axis)
{
    x = as_float(x);
    mf_value e = mf_exp(mf_sub(x, greatest(x, axis)));
    return mf_div(e, mf_sum(e, .axis = axis, .keepdims = true));
}

mf_value mf_log_softmax(mf_value x, int axis)
{
    x = as_float(x);
    mf_value shifted = mf_sub(x, greatest(x, axis));
    return mf_sub(shifted, mf_log(mf_sum(mf_exp(shifted), .axis = axis, .keepdims = true)));
}

/* The gradient is 1 where x > 0, and 0 elsewhere: at 0 and at NaN too. A NaN stays one. */
mf_value mf_relu(mf_value x) { return mf_where(mf_greater(x, 0), x, mf_stop_gradient(mf_maximum(x, 0))); }

/* By tanh, as jax.nn.gelu does unless told otherwise. */
mf_value mf_gelu(mf_value x)
{
    x = as_float(x);
    mf_value inner = mf_mul(mf_add(x, mf_mul(mf_mul(mf_mul(x, x), x), 0.044715)), 0.7978845608028654 /* sqrt(2 / pi) */);
    return mf_mul(x, mf_mul(mf_add(mf_tanh(inner), 1), 0.5));
}

mf_value mf_silu(mf_value x)
{
    x = as_float(x);
    return mf_mul(x, mf_sigmoid(x));
}

/* log(1 + e^x). At 0 the first term has slope 1, the second -1/2, because that of abs is 1 there. */
mf_value mf_softplus(mf_value x)
{
    x = as_float(x);
    return mf_add(mf_where(mf_less(x, 0), 0, x), mf_log1p(mf_exp(mf_neg(mf_abs(x)))));
}
