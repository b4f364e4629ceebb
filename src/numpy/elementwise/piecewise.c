/* Activations made of pieces: relu, relu6, leaky_relu, elu, celu, selu, hard_tanh, hard_sigmoid, hard_swish.
 * Invariant: where pieces meet the slopes are jax.nn's, one piece's or the other's, and never the mean that maximum has. */
#include "numpy/floats.h"

/* The gradient is 1 where x > 0, and 0 elsewhere: at 0 and at NaN too. A NaN stays one. */
mf_value(mf_relu)(mf_value x)
{
    MF_LAYER;
    return mf_where(mf_greater(x, 0), x, mf_stop_gradient(mf_maximum(x, 0)));
}

/* As of relu: at 0 and at 6 the gradient is 0. */
mf_value(mf_relu6)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    mf_value held = mf_stop_gradient(mf_minimum(mf_maximum(x, 0), 6));
    return mf_where(mf_logical_and(mf_greater(x, 0), mf_less(x, 6)), x, held);
}

mf_value(mf_leaky_relu)(mf_value x, double negative_slope)
{
    x = numpy_float(x);
    return mf_where(mf_greater_equal(x, 0), x, mf_mul(x, mf_scalar(negative_slope, mf_dtype_of(x))));
}

/* What is not chosen stays small, so that no infinity meets the zero of its cotangent. */
mf_value(mf_elu)(mf_value x, double alpha)
{
    x = numpy_float(x);
    mf_value above = mf_greater(x, 0);
    return mf_where(above, x, mf_mul(mf_expm1(mf_where(above, 0, x)), mf_scalar(alpha, mf_dtype_of(x))));
}

/* At 0 both halves have half of their slope, which is the first's whole one; of the second derivative a quarter is left, as in JAX. */
mf_value(mf_celu)(mf_value x, double alpha)
{
    MF_LAYER;
    x = numpy_float(x);
    mf_value scale = mf_scalar(alpha, mf_dtype_of(x));
    return mf_add(mf_maximum(x, 0), mf_mul(scale, mf_expm1(mf_div(mf_minimum(x, 0), scale))));
}

mf_value(mf_selu)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    return mf_mul(mf_elu(x, 1.6732632423543772), mf_scalar(1.0507009873554805, mf_dtype_of(x)));
}

mf_value(mf_hard_tanh)(mf_value x)
{
    MF_LAYER;
    return mf_where(mf_greater(x, 1), 1, mf_where(mf_less(x, -1), -1, x));
}

mf_value(mf_hard_sigmoid)(mf_value x)
{
    MF_LAYER;
    return mf_div(mf_relu6(mf_add(x, 3)), 6);
}

mf_value(mf_hard_swish)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    return mf_mul(x, mf_hard_sigmoid(x));
}
