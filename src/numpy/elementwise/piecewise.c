/* Piecewise activations: relu, relu6, leaky_relu, elu, celu, selu, hard_tanh, hard_sigmoid, hard_swish, sparse_plus,
 * sparse_sigmoid.
 * Invariant: where pieces meet, the derivative is jax.nn's: that of one of the pieces, not their mean, which maximum has. */
#include "numpy/floats.h"

/* The gradient is 1 where x > 0 and 0 elsewhere, also at 0 and NaN. relu(NaN) is NaN. */
mf_value(mf_relu)(mf_value x)
{
    MF_LAYER;
    return mf_where(mf_greater(x, 0), x, mf_stop_gradient(mf_maximum(x, 0)));
}

/* As for relu, the gradient at 0 and at 6 is 0. */
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

/* expm1 gets 0 where its result is not selected: if it overflowed, the gradient would be inf * 0 = NaN. */
mf_value(mf_elu)(mf_value x, double alpha)
{
    x = numpy_float(x);
    mf_value above = mf_greater(x, 0);
    return mf_where(above, x, mf_mul(mf_expm1(mf_where(above, 0, x)), mf_scalar(alpha, mf_dtype_of(x))));
}

/* At 0, maximum and minimum have half of their slopes, so the first derivative is 1/2 + 1/2; of the second a quarter is left, as in JAX. */
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

/* 0 up to -1, (x + 1)^2 / 4 up to 1, then x. */
mf_value(mf_sparse_plus)(mf_value x)
{
    MF_LAYER;
    x = numpy_float(x);
    mf_value rise = mf_mul(mf_square(mf_add(x, 1)), 0.25);
    return mf_where(mf_less_equal(x, -1), 0, mf_where(mf_greater_equal(x, 1), x, rise));
}

mf_value(mf_sparse_sigmoid)(mf_value x)
{
    MF_LAYER;
    return mf_mul(mf_clip(mf_add(numpy_float(x), 1), 0, 2), 0.5);
}
