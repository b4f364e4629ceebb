/* manyfold/nn.h - neural networks: activations, softmax and pooling as jax.nn's and flax's, losses
 * as optax's, and layers, which are modules of named states (manyfold/state.h).
 *
 * Shapes open a comment as in manyfold/numpy.h: "..." is any number of dimensions. Integers become
 * f32; f16 and bf16 stay.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE, MF_ERROR_DTYPE and
 * MF_ERROR_AXIS as there; a layer finds out when it is called. */
#ifndef MANYFOLD_NN_H
#define MANYFOLD_NN_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>
#include <manyfold/state.h>

MF_BEGIN_

/* ---- activations. x -> x, element by element */
mf_value mf_relu(mf_value x); /* max(x, 0), with derivative 0 at 0; integers stay */
mf_value mf_sigmoid(mf_value x);
mf_value mf_gelu(mf_value x);       /* by tanh, as in JAX */
mf_value mf_gelu_exact(mf_value x); /* by erf: jax.nn.gelu(x, approximate=False) */
mf_value mf_silu(mf_value x);       /* x sigmoid(x) */
mf_value mf_softplus(mf_value x);   /* log(1 + e^x) */
mf_value mf_leaky_relu(mf_value x, double negative_slope MF_DEFAULT_(0.01));
mf_value mf_elu(mf_value x, double alpha MF_DEFAULT_(1.0));
mf_value mf_hard_swish(mf_value x);

/* ---- along an axis */
/* (..., n, ...) -> (...): log of the sum of e^x, without overflow */
mf_value mf_logsumexp(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* x -> x: e^x over its sum along an axis, and the logarithm of that */
mf_value mf_softmax(mf_value x, mf_axis axis MF_DEFAULT_(-1));
mf_value mf_log_softmax(mf_value x, mf_axis axis MF_DEFAULT_(-1));
/* (...) -> (..., num_classes): one where x is the class, else zero, along a new dimension: the
 * last, or .axis of the result; f32 or .dtype */
typedef struct mf_one_hot_options {
    mf_reserved begin_;
    int axis MF_DEFAULT_(-1);
    mf_dtype dtype;
    mf_reserved reserved_;
} mf_one_hot_options;
mf_value mf_one_hot(mf_value x, int num_classes);
mf_value mf_one_hot_opt(mf_value x, int num_classes, const mf_one_hot_options *o);
/* (n, h, w, c) -> (n, h', w', c): over the spatial dimensions, which stand before the last, as
 * flax's; window_shape has an entry for each. Strides default to 1, padding to MF_VALID; average
 * counts the padding. */
typedef struct mf_pool_options {
    mf_ints window_shape, strides;
    mf_padding padding;
    mf_reserved reserved_;
} mf_pool_options;
mf_value mf_max_pool_opt(mf_value x, const mf_pool_options *o);
mf_value mf_avg_pool_opt(mf_value x, const mf_pool_options *o);

/* ---- losses */
/* (..., classes), (..., classes) -> (...): one a row; labels are probabilities */
mf_value mf_softmax_cross_entropy(mf_value logits, mf_value labels);
/* (..., classes), (...) -> (...): labels are classes, i32 */
mf_value mf_softmax_cross_entropy_with_integer_labels(mf_value logits, mf_value labels);

/* ---- layers, with parameters from rngs, a random state, as in flax: kernels lecun_normal, biases
 * zeros. dtype is what a layer computes in, inputs and parameters converted to it (the input's
 * unless said); param_dtype what the parameters are kept in (f32). */
typedef struct mf_nn_conv_options {
    mf_ints kernel_size, strides;
    mf_padding padding;
    bool no_bias;
    mf_dtype dtype, param_dtype;
    mf_reserved reserved_;
} mf_nn_conv_options;
typedef struct mf_nn_linear_options {
    bool no_bias;
    mf_dtype dtype, param_dtype;
    mf_reserved reserved_;
} mf_nn_linear_options;
/* Of (n, h, w, in_features) -> (n, h', w', out_features); kernel HWIO, of one or two sizes (one: a
 * square), padding MF_SAME unless said, strides 1 */
mf_module mf_nn_conv_opt(mf_state rngs, int in_features, int out_features,
                         const mf_nn_conv_options *o);
/* Of (..., in_features) -> (..., out_features): x kernel + bias */
mf_module mf_nn_linear_opt(mf_state rngs, int in_features, int out_features,
                           const mf_nn_linear_options *o);

/* ---- training or not. Modules have flags, as flax.nnx's: "deterministic" of those that draw
 * (dropout), "use_running_average" of those that gather statistics, "decode" of those that
 * generate. nnx.view: a module over the same states with these set in it and its members; see
 * mf_module_view, which sets any member. Nothing changes in m, so what was traced of it stays
 * true. -1: as it is. MF_ERROR_ARGUMENT for a flag that no module has. */
typedef struct mf_nn_view_options {
    mf_reserved begin_;
    int8_t deterministic MF_DEFAULT_(-1);
    int8_t use_running_average MF_DEFAULT_(-1);
    int8_t decode MF_DEFAULT_(-1);
    mf_reserved reserved_;
} mf_nn_view_options;
mf_module mf_nn_view_opt(mf_module m, const mf_nn_view_options *o);
/* Views with both flags, where there are such: false for training, true to evaluate */
mf_module mf_nn_train(mf_module m);
mf_module mf_nn_eval(mf_module m);

MF_END_

#include <manyfold/lift/nn.h>

#endif
