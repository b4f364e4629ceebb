/* manyfold/nn.h - layers, and losses, on modules of named states (manyfold/state.h). */
#ifndef MANYFOLD_NN_H
#define MANYFOLD_NN_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/ops.h>
#include <manyfold/state.h>

MF_BEGIN_

/* NHWC convolution with bias; padding MF_SAME unless said, strides 1. Kernel HWIO, lecun_normal
 * from rngs as in flax. dtype is what a layer computes in, inputs and parameters converted to it
 * (the input's unless said); param_dtype what the parameters are kept in (f32). */
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
mf_module mf_nn_conv_opt(mf_state rngs, int in_features, int out_features,
                         const mf_nn_conv_options *o);
mf_module mf_nn_linear_opt(mf_state rngs, int in_features, int out_features,
                           const mf_nn_linear_options *o);
/* Over the last axis, one loss a row; labels are probabilities of logits' shape, or i32 classes.
 * optax's. */
mf_value mf_softmax_cross_entropy(mf_value logits, mf_value labels);
mf_value mf_softmax_cross_entropy_with_integer_labels(mf_value logits, mf_value labels);

MF_END_

#include <manyfold/lift/nn.h>

#endif
