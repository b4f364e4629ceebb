/* manyfold/nn.h - neural networks: activations, softmax and pooling as jax.nn's and flax's, losses
 * as optax's, and layers, metrics and attention as flax.nnx's. Layers are modules of named states
 * (manyfold/state.h).
 *
 * Shapes open a comment as in manyfold/base.h: "..." is any number of dimensions; "Of a -> b" is
 * what a layer takes and returns when it is called. Integers become f32; f16 and bf16 are kept.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE, MF_ERROR_DTYPE and
 * MF_ERROR_AXIS as in manyfold/numpy.h; for a layer they are the result of its call. */
#ifndef MANYFOLD_NN_H
#define MANYFOLD_NN_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/array.h>
#include <manyfold/numpy.h>
#include <manyfold/state.h>

MF_BEGIN_

/* ---- activations. x -> x, element by element; names and formulas are jax.nn's */
mf_value mf_relu(mf_value x);        /* max(x, 0), with derivative 0 at 0; integers are kept */
mf_value mf_sigmoid(mf_value x);     /* 1 / (1 + e^-x) */
mf_value mf_gelu(mf_value x);        /* the tanh approximation, JAX's default */
mf_value mf_gelu_exact(mf_value x);  /* x Phi(x), by erf: jax.nn.gelu(x, approximate=False) */
mf_value mf_silu(mf_value x);        /* x sigmoid(x) */
mf_value mf_softplus(mf_value x);    /* log(1 + e^x) */
mf_value mf_log_sigmoid(mf_value x); /* log(sigmoid(x)), without underflow */
/* x for x > 0; otherwise negative_slope x; alpha (e^x - 1); alpha (e^(x / alpha) - 1) */
mf_value mf_leaky_relu(mf_value x, double negative_slope MF_DEFAULT_(0.01));
mf_value mf_elu(mf_value x, double alpha MF_DEFAULT_(1.0));
mf_value mf_celu(mf_value x, double alpha MF_DEFAULT_(1.0));
/* scale (x, or alpha (e^x - 1) for x <= 0), with the two constants of arXiv:1706.02515 */
mf_value mf_selu(mf_value x);
mf_value mf_relu6(mf_value x);          /* min(max(x, 0), 6), with derivative 0 at 0 and at 6 */
mf_value mf_hard_tanh(mf_value x);      /* min(max(x, -1), 1); integers are kept */
mf_value mf_hard_sigmoid(mf_value x);   /* relu6(x + 3) / 6 */
mf_value mf_hard_swish(mf_value x);     /* x hard_sigmoid(x) */
mf_value mf_mish(mf_value x);           /* x tanh(softplus(x)) */
mf_value mf_sparse_plus(mf_value x);    /* 0 up to -1, (x + 1)^2 / 4 up to 1, then x */
mf_value mf_sparse_sigmoid(mf_value x); /* (x + 1) / 2, limited to [0, 1] */
mf_value mf_log1mexp(mf_value x);       /* log(1 - e^-x), accurate everywhere; x >= 0 */
mf_value mf_soft_sign(mf_value x);      /* x / (1 + |x|) */
mf_value mf_squareplus(mf_value x, double b MF_DEFAULT_(4.0)); /* (x + sqrt(x^2 + b)) / 2 */

/* ---- along an axis */
/* (..., 2 n, ...) -> (..., n, ...): the first half along the axis times the sigmoid of the
 * second */
mf_value mf_glu(mf_value x, int axis MF_DEFAULT_(-1));
/* (..., n, ...) -> (..., n, ...): (x - mean) / sqrt(variance + .epsilon) along an axis,
 * mf_axes(...) or MF_ALL. .where: a mask of the elements that count for mean and variance */
typedef struct mf_standardize_options {
    mf_reserved begin_;
    mf_axis axis MF_DEFAULT_(-1);
    double epsilon MF_DEFAULT_(1e-5);
    mf_value where;
    mf_reserved reserved_;
} mf_standardize_options;
mf_value mf_standardize(mf_value x);
mf_value mf_standardize_opt(mf_value x, const mf_standardize_options *o);
/* (..., n, ...) -> (...): log of the sum of e^x along the axes, without overflow */
mf_value mf_logsumexp(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., n, ...) -> (...): the same of their mean */
mf_value mf_logmeanexp(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* x -> x: e^x divided by its sum along the axes, and the logarithm of that */
mf_value mf_softmax(mf_value x, mf_axis axis MF_DEFAULT_(-1));
mf_value mf_log_softmax(mf_value x, mf_axis axis MF_DEFAULT_(-1));
/* (...) -> (..., num_classes): 1 at the class that x is, else 0; all zeros where x is no class. The
 * new dimension is the last one, or number .axis of the result. f32, or .dtype */
typedef struct mf_one_hot_options {
    mf_reserved begin_;
    int axis MF_DEFAULT_(-1);
    mf_dtype dtype;
    mf_reserved reserved_;
} mf_one_hot_options;
mf_value mf_one_hot(mf_value x, int num_classes);
mf_value mf_one_hot_opt(mf_value x, int num_classes, const mf_one_hot_options *o);
/* (n, h, w, c) -> (n, h', w', c): flax's pooling, over any number of spatial dimensions, between
 * the first and the last. window_shape must be given and has an entry for each; strides too, 1 by
 * default. padding is MF_VALID by default, or MF_SAME, or padding_low and padding_high. mf_avg_pool
 * divides by the window's size, including padding, unless no_count_include_pad */
typedef struct mf_pool_options {
    mf_ints window_shape, strides;
    mf_padding padding;
    mf_ints padding_low, padding_high;
    bool no_count_include_pad;
    mf_reserved reserved_;
} mf_pool_options;
mf_value mf_max_pool_opt(mf_value x, const mf_pool_options *o);
mf_value mf_min_pool_opt(mf_value x, const mf_pool_options *o);
mf_value mf_avg_pool_opt(mf_value x, const mf_pool_options *o);

/* ---- losses, with optax's names and formulas: one number for each row or element, of which
 * mf_mean makes a loss
 * label_smoothing a: labels become (1 - a) labels + a / classes. weights: a factor for each class,
 * (classes). axis: the dimension of the classes. where: a mask of the logits that count, in their
 * shape, or one without the classes */
typedef struct mf_cross_entropy_options {
    mf_reserved begin_;
    double label_smoothing;
    mf_value weights, where;
    int axis MF_DEFAULT_(-1);
    mf_reserved reserved_;
} mf_cross_entropy_options;
/* (..., classes), (..., classes) -> (...): one for each row; the labels are probabilities */
mf_value mf_softmax_cross_entropy(mf_value logits, mf_value labels);
mf_value mf_softmax_cross_entropy_opt(mf_value logits, mf_value labels,
                                      const mf_cross_entropy_options *o);
/* (..., classes), (...) -> (...): the labels are class numbers, integers; NaN for one that is no
 * class */
mf_value mf_softmax_cross_entropy_with_integer_labels(mf_value logits, mf_value labels);
mf_value mf_softmax_cross_entropy_with_integer_labels_opt(mf_value logits, mf_value labels,
                                                          const mf_cross_entropy_options *o);
/* x -> x: (1 - alpha) labels + alpha / classes, the classes along the last dimension */
mf_value mf_smooth_labels(mf_value labels, double alpha);
/* (...), (...) -> (...): labels are 0 or 1, or between */
mf_value mf_sigmoid_binary_cross_entropy(mf_value logits, mf_value labels);
/* (...), (...) -> (...): max(0, 1 - predictions targets); targets are -1 or 1 */
mf_value mf_hinge_loss(mf_value predictions, mf_value targets);
/* (..., classes), (...) -> (...): labels are class numbers; max(0, 1 + the best wrong score - the
 * right one) */
mf_value mf_multiclass_hinge_loss(mf_value scores, mf_value labels);
/* x, x -> x: of one shape: max(0, -outputs targets); targets are -1 or 1 */
mf_value mf_perceptron_loss(mf_value predictor_outputs, mf_value targets);
/* (...), (...) -> (...): focal loss (arXiv:1708.02002): the binary cross-entropy times (1 - the
 * probability of the label)^gamma, and, unless alpha is 0, times alpha for label 1 and 1 - alpha
 * for label 0 */
typedef struct mf_sigmoid_focal_loss_options {
    mf_reserved begin_;
    double alpha, gamma MF_DEFAULT_(2.0);
    mf_reserved reserved_;
} mf_sigmoid_focal_loss_options;
mf_value mf_sigmoid_focal_loss_opt(mf_value logits, mf_value labels,
                                   const mf_sigmoid_focal_loss_options *o);
/* (..., classes), (..., classes) -> (...): PolyLoss (arXiv:2204.12511): softmax_cross_entropy plus
 * epsilon times the sum of labels (1 - probabilities) */
mf_value mf_poly_loss_cross_entropy(mf_value logits, mf_value labels,
                                    double epsilon MF_DEFAULT_(2.0));
/* (n, t, classes), (n, t), (n, k), (n, k) -> (n): connectionist temporal classification (Graves et
 * al., ICML 2006): minus the logarithm of the probability of the labels, in order, with blanks and
 * repetitions between. Paddings are 1 where a sequence has ended. labels are class numbers other
 * than blank_id, 0 by default. log_epsilon: what stands for the logarithm of 0 */
typedef struct mf_ctc_loss_options {
    mf_reserved begin_;
    int blank_id;
    double log_epsilon MF_DEFAULT_(-1e5);
    mf_reserved reserved_;
} mf_ctc_loss_options;
mf_value mf_ctc_loss_opt(mf_value logits, mf_value logit_paddings, mf_value labels,
                         mf_value label_paddings, const mf_ctc_loss_options *o);
/* (..., n), (..., n), (..., n) -> (...): of one shape: max(0, the distance of the first two - that
 * of the first and the third + margin), where a distance is (the sum of (a - b)^norm_degree over
 * .axis + eps)^(1 / norm_degree) */
typedef struct mf_triplet_margin_loss_options {
    mf_reserved begin_;
    int axis MF_DEFAULT_(-1);
    double norm_degree MF_DEFAULT_(2.0), margin MF_DEFAULT_(1.0), eps MF_DEFAULT_(1e-6);
    mf_reserved reserved_;
} mf_triplet_margin_loss_options;
mf_value mf_triplet_margin_loss_opt(mf_value anchors, mf_value positives, mf_value negatives,
                                    const mf_triplet_margin_loss_options *o);
/* (n, d), (n) -> (): NT-Xent (SimCLR, arXiv:2002.05709): the mean, over all pairs of equal labels,
 * of the cross-entropy of the pair among all pairs of different labels, by cosines / temperature */
mf_value mf_ntxent(mf_value embeddings, mf_value labels, double temperature MF_DEFAULT_(0.07));
/* x, x -> x: of one shape (MF_ERROR_SHAPE). With error = predictions - targets: error^2; error^2 /
 * 2; error^2 / 2 up to delta and linear beyond; log(cosh(error)) */
mf_value mf_squared_error(mf_value predictions, mf_value targets);
mf_value mf_l2_loss(mf_value predictions, mf_value targets);
mf_value mf_huber_loss(mf_value predictions, mf_value targets, double delta MF_DEFAULT_(1.0));
mf_value mf_log_cosh(mf_value predictions, mf_value targets);
typedef struct mf_distance_options {
    mf_reserved begin_;
    mf_axis axis MF_DEFAULT_(-1);
    mf_value where;
    double epsilon; /* of cosines: a lower bound of the squared norms; 0: a zero vector gives NaN */
    mf_reserved reserved_;
} mf_distance_options;
/* (..., n), (..., n) -> (...): the sum of targets (log(targets) - log_predictions) over .axis;
 * terms whose target is 0 are 0 */
mf_value mf_kl_divergence_opt(mf_value log_predictions, mf_value targets,
                              const mf_distance_options *o);
/* (..., n), (..., n) -> (...): the same from log(targets) */
mf_value mf_kl_divergence_with_log_targets_opt(mf_value log_predictions, mf_value log_targets,
                                               const mf_distance_options *o);
/* (..., n), (..., n) -> (...): kl_divergence plus the sum of predictions - targets, for targets
 * that do not sum to 1 */
mf_value mf_generalized_kl_divergence_opt(mf_value log_predictions, mf_value targets,
                                          const mf_distance_options *o);
/* (..., n), (..., n) -> (...): the cosine of the angle between two vectors; 1 minus that */
mf_value mf_cosine_similarity_opt(mf_value predictions, mf_value targets,
                                  const mf_distance_options *o);
mf_value mf_cosine_distance_opt(mf_value predictions, mf_value targets,
                                const mf_distance_options *o);

/* ---- initialisers: those of jax.nn.initializers by name and, from the same key, by value. Pass
 * them as options of layers: mf_nn_linear(rngs, 3, 4, .kernel_init = mf_init_he_normal()); unset,
 * the layer uses its own. */
typedef mf_value (*mf_init_fn)(mf_value key, mf_shape shape, mf_dtype dtype);
/* Made by the functions below; { 0 } is unset */
typedef struct mf_initializer {
    mf_value (*make)(const struct mf_initializer *self, mf_value key, mf_shape shape,
                     mf_dtype dtype);
    mf_init_fn function;
    double numbers[5];
    bool draws;
} mf_initializer;
mf_initializer mf_init_zeros(void);
mf_initializer mf_init_ones(void);
mf_initializer mf_init_constant(double c);
mf_initializer mf_init_uniform(double scale); /* [0, scale) */
mf_initializer mf_init_normal(double stddev);
/* stddev times a normal number between lower and upper */
mf_initializer mf_init_truncated_normal(double stddev, double lower, double upper);
/* The last two dimensions are a matrix of inputs and outputs, the others its receptive field; the
 * variance is 2 / fan_in (he), 1 / fan_in (lecun) or 2 / (fan_in + fan_out) (glorot). The normal
 * ones are truncated at 2 standard deviations. */
mf_initializer mf_init_lecun_normal(void);
mf_initializer mf_init_lecun_uniform(void);
mf_initializer mf_init_glorot_normal(void);
mf_initializer mf_init_glorot_uniform(void);
mf_initializer mf_init_he_normal(void);
mf_initializer mf_init_he_uniform(void);
typedef enum mf_fan_mode {
    MF_FAN_IN = 0,
    MF_FAN_OUT,
    MF_FAN_AVG,
    MF_FAN_GEO_AVG
} mf_fan_mode;
typedef enum mf_init_distribution {
    MF_INIT_TRUNCATED_NORMAL = 0,
    MF_INIT_NORMAL,
    MF_INIT_UNIFORM
} mf_init_distribution;
typedef struct mf_variance_scaling_options {
    mf_reserved begin_;
    mf_fan_mode mode;
    mf_init_distribution distribution;
    int in_axis MF_DEFAULT_(-2);
    int out_axis MF_DEFAULT_(-1);
    mf_reserved reserved_;
} mf_variance_scaling_options;
/* jax.nn.initializers.variance_scaling: the variance is scale / n, where n is fan_in, fan_out, or
 * their arithmetic or geometric mean */
mf_initializer mf_init_variance_scaling_opt(double scale, const mf_variance_scaling_options *o);
/* Orthogonal columns or rows, of the matrix of the last dimension and the product of the others,
 * times scale */
mf_initializer mf_init_orthogonal(double scale);
mf_initializer mf_init_function(mf_init_fn f); /* your own; no context */
/* (2) -> shape: calls the initialiser with a key; f32 by default. MF_ERROR_SHAPE where it does not
 * fit the shape */
mf_value mf_initialize(mf_initializer init, mf_value key, mf_shape shape, mf_dtype dtype);

/* ---- layers, flax.nnx's. Parameters are drawn from rngs, a random state: by default kernels by
 * lecun_normal, biases zeros, scales ones. dtype: what a layer computes in, to which input and
 * parameters are converted; by default the input's (where flax promotes it with the parameters').
 * param_dtype: what the parameters are stored in; f32 by default. A wrong option is
 * MF_ERROR_ARGUMENT, a wrong input MF_ERROR_SHAPE or MF_ERROR_DTYPE; both are the result of the
 * call, and name the layer. */
typedef struct mf_nn_linear_options {
    bool no_bias;
    mf_dtype dtype, param_dtype;
    mf_initializer kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_linear_options;
/* Of (..., in_features) -> (..., out_features): nnx.Linear: x kernel + bias */
mf_module mf_nn_linear_opt(mf_state rngs, int in_features, int out_features,
                           const mf_nn_linear_options *o);
/* axis: the input's dimensions to contract, one for each of the in_features; the last by default.
 * batch_sizes: the sizes of the input's first dimensions, if each of their indices has a kernel and
 * a bias of its own. */
typedef struct mf_nn_linear_general_options {
    mf_ints axis, batch_sizes;
    bool no_bias;
    mf_dtype dtype, param_dtype;
    mf_initializer kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_linear_general_options;
/* Of (..., in_features..., ...) -> (batch_sizes..., ..., out_features...): nnx.LinearGeneral: a
 * product that is summed over the axes */
mf_module mf_nn_linear_general_opt(mf_state rngs, mf_ints in_features, mf_ints out_features,
                                   const mf_nn_linear_general_options *o);
/* bias_shape: no bias by default; it has the dimensions of the kernel that appear in the result. */
typedef struct mf_nn_einsum_options {
    mf_shape bias_shape;
    mf_dtype dtype, param_dtype;
    mf_initializer kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_einsum_options;
/* Of input -> by the subscripts: nnx.Einsum: mf_nn_einsum(rngs, "nta,hab->nthb", MF_SHAPE(8, 2, 4))
 * is mf_einsum of the input and the kernel, plus the bias. The kernel's subscripts have no "..." */
mf_module mf_nn_einsum_opt(mf_state rngs, const char *subscripts, mf_shape kernel_shape,
                           const mf_nn_einsum_options *o);
/* kernel_size has an entry for each spatial dimension, 1 to 3 of them ((1, 1) by default); the
 * other lists have one for each or a single one for all, 1 by default. padding: MF_SAME (the
 * default), MF_VALID, MF_CIRCULAR, MF_REFLECT, in one dimension MF_CAUSAL, or padding_low and
 * padding_high. mask: is multiplied with the kernel. */
typedef struct mf_nn_conv_options {
    mf_ints kernel_size, strides;
    mf_padding padding;
    bool no_bias;
    mf_dtype dtype, param_dtype;
    mf_ints padding_low, padding_high, input_dilation, kernel_dilation;
    int64_t feature_group_count;
    mf_value mask;
    mf_initializer kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_conv_options;
/* Of (..., h, w, in_features) -> (..., h', w', out_features): nnx.Conv. The kernel is HWIO, where I
 * is in_features / feature_group_count */
mf_module mf_nn_conv_opt(mf_state rngs, int in_features, int out_features,
                         const mf_nn_conv_options *o);
typedef struct mf_nn_conv_transpose_options {
    mf_ints kernel_size, strides;
    mf_padding padding;
    bool no_bias, transpose_kernel;
    mf_dtype dtype, param_dtype;
    mf_ints padding_low, padding_high, kernel_dilation;
    mf_value mask;
    mf_initializer kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_conv_transpose_options;
/* Of (..., h, w, in_features) -> (..., h', w', out_features): nnx.ConvTranspose,
 * lax.conv_transpose: strides spread the input apart. The kernel is HWIO; with transpose_kernel it
 * is HWOI and flipped, as in the gradient of a convolution */
mf_module mf_nn_conv_transpose_opt(mf_state rngs, int in_features, int out_features,
                                   const mf_nn_conv_transpose_options *o);
typedef struct mf_nn_embed_options {
    mf_dtype dtype, param_dtype;
    mf_initializer embedding_init;
    mf_reserved reserved_;
} mf_nn_embed_options;
/* Of integers (...) -> (..., features): nnx.Embed: rows of a table, drawn normal with variance 1 /
 * features. Negative numbers count from the end; beyond the table the row is NaN. dtype is the
 * table's by default */
mf_module mf_nn_embed_opt(mf_state rngs, int num_embeddings, int features,
                          const mf_nn_embed_options *o);
/* (..., features) -> (..., num_embeddings): the dot products with all rows of an Embed's table: the
 * logits of a model whose input and output share it */
mf_value mf_nn_embed_attend(mf_module embed, mf_value query);

/* Normalisation: (x - mean) / sqrt(var + epsilon) * scale + bias. Mean and variance are those of
 * the input over the reduced dimensions, computed in f32 at least. A second input is a mask of the
 * elements that count for them, which broadcasts to the first: mf_call(norm, x, mask). With
 * axis_name they are also averaged over that axis of a map (synchronised normalisation), within
 * axis_index_groups. no_fast_variance: computes mean((x - mean)^2) instead of mean(x^2) - mean^2.
 * Of (..., num_features) -> the same: nnx.BatchNorm: axis is that of the features; reduces all
 * other dimensions. In training its states mean and var become momentum * old + (1 - momentum) *
 * batch's; with use_running_average they are used as the statistics, and do not change. */
typedef struct mf_nn_batch_norm_options {
    mf_reserved begin_;
    const char *axis_name;
    bool use_running_average;
    int axis MF_DEFAULT_(-1);
    double momentum MF_DEFAULT_(0.99);
    double epsilon MF_DEFAULT_(1e-5);
    bool no_bias, no_scale, no_fast_variance;
    mf_dtype dtype, param_dtype;
    mf_initializer bias_init, scale_init;
    mf_value axis_index_groups;
    mf_reserved reserved_;
} mf_nn_batch_norm_options;
mf_module mf_nn_batch_norm_opt(mf_state rngs, int num_features, const mf_nn_batch_norm_options *o);
/* Of x -> x: nnx.LayerNorm: over reduction_axes, the last dimension by default; scale and bias lie
 * along feature_axes, likewise. nnx.RMSNorm: x / sqrt(mean(x^2) + epsilon) * scale: no mean and no
 * bias. */
typedef struct mf_nn_layer_norm_options {
    mf_reserved begin_;
    const char *axis_name;
    double epsilon MF_DEFAULT_(1e-6);
    mf_ints reduction_axes, feature_axes;
    bool no_bias, no_scale, no_fast_variance;
    mf_dtype dtype, param_dtype;
    mf_initializer bias_init, scale_init;
    mf_value axis_index_groups;
    mf_reserved reserved_;
} mf_nn_layer_norm_options;
mf_module mf_nn_layer_norm_opt(mf_state rngs, int num_features, const mf_nn_layer_norm_options *o);
typedef struct mf_nn_rms_norm_options {
    mf_reserved begin_;
    const char *axis_name;
    double epsilon MF_DEFAULT_(1e-6);
    mf_ints reduction_axes, feature_axes;
    bool no_scale, no_fast_variance;
    mf_dtype dtype, param_dtype;
    mf_initializer scale_init;
    mf_value axis_index_groups;
    mf_reserved reserved_;
} mf_nn_rms_norm_options;
mf_module mf_nn_rms_norm_opt(mf_state rngs, int num_features, const mf_nn_rms_norm_options *o);
/* Of (n, ..., num_features) -> the same: nnx.GroupNorm: for each example, over all positions and
 * the features of a group.
 * There are num_groups groups, or, if group_size is set, groups of that many features */
typedef struct mf_nn_group_norm_options {
    mf_reserved begin_;
    const char *axis_name;
    int num_groups MF_DEFAULT_(32);
    int group_size;
    double epsilon MF_DEFAULT_(1e-6);
    bool no_bias, no_scale, no_fast_variance;
    mf_dtype dtype, param_dtype;
    mf_initializer bias_init, scale_init;
    mf_value axis_index_groups;
    mf_reserved reserved_;
} mf_nn_group_norm_options;
mf_module mf_nn_group_norm_opt(mf_state rngs, int num_features, const mf_nn_group_norm_options *o);
/* Of (n, ..., num_features) -> the same: nnx.InstanceNorm: for each example and feature, over all
 * positions. scale and bias lie along feature_axes, the last dimension by default, never the first
 * (MF_ERROR_AXIS) */
typedef struct mf_nn_instance_norm_options {
    mf_reserved begin_;
    const char *axis_name;
    double epsilon MF_DEFAULT_(1e-6);
    mf_ints feature_axes;
    bool no_bias, no_scale, no_fast_variance;
    mf_dtype dtype, param_dtype;
    mf_initializer bias_init, scale_init;
    mf_value axis_index_groups;
    mf_reserved reserved_;
} mf_nn_instance_norm_options;
mf_module mf_nn_instance_norm_opt(mf_state rngs, int num_features,
                                  const mf_nn_instance_norm_options *o);

/* Of x -> x: nnx.Dropout: each element is 0 with probability rate, and otherwise divided by 1 -
 * rate; x itself if deterministic. The mask is the same along broadcast_dims. Draws from a random
 * state of its own, split off rngs, or from a key: mf_call(dropout, x, key). mf_pmap2 and mf_vmap2
 * split that state, so that each row has a mask of its own; in mf_pmap and mf_vmap all rows have
 * the same mask */
typedef struct mf_nn_dropout_options {
    bool deterministic;
    mf_ints broadcast_dims;
    mf_reserved reserved_;
} mf_nn_dropout_options;
mf_module mf_nn_dropout_opt(mf_state rngs, double rate, const mf_nn_dropout_options *o);

/* nnx.Sequential: any number of modules and functions, one after the other: mf_nn_sequential(conv,
 * mf_relu, dense); in C++ wrap functions: mf_fn(f). Each result is the next one's input; a tuple is
 * its inputs. Their paths are "layers/0", "layers/1", .... nnx.List: modules to be visited with
 * mf_member_count and mf_nn_at, with the paths "0", "1", ...; MF_ERROR_ARGUMENT for an index out of
 * range */
mf_module mf_nn_sequential_n(const mf_function *layers, int count);
mf_module mf_nn_list_n(const mf_module *modules, int count);
mf_module mf_nn_at(mf_module list, int index);
#ifndef __cplusplus
#define mf_nn_sequential(...) mf_nn_sequential_n(MF_ITEMS_(mf_function, mf_fn, __VA_ARGS__))
#define mf_nn_list(...) mf_nn_list_n(MF_STRUCTS_(mf_module, __VA_ARGS__))
#endif

/* ---- training and evaluation. Modules have flags, as in flax.nnx: "deterministic" (dropout),
 * "use_running_average" (batch normalisation) and "decode" (attention). mf_nn_view, nnx.view: a
 * module over the same states with flags changed in it and its submodules: mf_nn_view(model,
 * .deterministic = true); mf_module_view sets any member. m does not change, so its traces stay
 * valid. -1: as it is. MF_ERROR_ARGUMENT for a flag that no submodule has. */
typedef struct mf_nn_view_options {
    mf_reserved begin_;
    int8_t deterministic MF_DEFAULT_(-1);
    int8_t use_running_average MF_DEFAULT_(-1);
    int8_t decode MF_DEFAULT_(-1);
    mf_reserved reserved_;
} mf_nn_view_options;
mf_module mf_nn_view_opt(mf_module m, const mf_nn_view_options *o);
/* Views with deterministic and use_running_average, where they exist, set to false (train) or true
 * (eval) */
mf_module mf_nn_train(mf_module m);
mf_module mf_nn_eval(mf_module m);

/* ---- metrics, nnx.metrics': modules with a state of sums.
 *   mf_call(metric, batch) returns the sums of a batch, a dict with its "logits", "labels",
 *   "values" and "mask", and leaves the state alone. Sums can be added, carried through loops, and
 *   passed to mf_psum; mf_nn_metric_result turns them into numbers.
 *   mf_nn_metric_update adds the batch's sums to the state; with axis_name over all devices, so
 *   that all hold the same. mf_nn_metric_compute gives the result, mf_nn_metric_reset starts again.
 * Counts are i64 and sums f64, so that results do not depend on how examples are divided into
 * batches and devices. Without examples a result is NaN. A "mask", which broadcasts, selects the
 * examples that count.
 * nnx.metrics.Average: the mean of the batch's "values", or of another name:
 * mf_nn_average("loss") */
mf_module mf_nn_average(const char *argname);
/* nnx.metrics.Accuracy: how often the greatest of "logits" (..., classes) is at "labels" (...), or
 * the label is among the k greatest. binary: both are (...), and logits of threshold or more count
 * as label 1 */
typedef struct mf_nn_accuracy_options {
    mf_reserved begin_;
    int k MF_DEFAULT_(1);
    bool binary;
    double threshold;
    mf_reserved reserved_;
} mf_nn_accuracy_options;
mf_module mf_nn_accuracy_opt(const mf_nn_accuracy_options *o);
/* Result (num_classes, num_classes), i64: element (i, j) counts the examples of label i that were
 * classified as j; labels that are no class are left out */
mf_module mf_nn_confusion_matrix(int num_classes);
/* Several metrics: mf_nn_multi_metric("loss", mf_nn_average("loss"), "top5", mf_nn_accuracy(.k =
 * 5)). Sums and results are dicts; "mask" may be a dict with one for each */
mf_module mf_nn_multi_metric_n(const mf_node_ *metrics, int count);
typedef struct mf_nn_metric_options {
    const char *axis_name;
    mf_reserved reserved_;
} mf_nn_metric_options;
/* dict -> tree: adds the batch's sums to the state, and returns them */
mf_value mf_nn_metric_update_opt(mf_module metric, mf_value batch, const mf_nn_metric_options *o);
/* tree -> tree: the result of sums, f32 (of a confusion matrix i64) */
mf_value mf_nn_metric_result(mf_module metric, mf_value sums);
/* -> tree: the result of all batches since the last reset */
mf_value mf_nn_metric_compute(mf_module metric);
mf_status mf_nn_metric_reset(mf_module metric); /* sets the sums to zero */
#ifndef __cplusplus
#define mf_nn_multi_metric(...) mf_nn_multi_metric_n(MF_ITEMS_(mf_node_, mf_node, __VA_ARGS__))
#endif

/* -> text: flax's tabulate: a table with a row for each module: its path, type, and the name, dtype
 * and shape of each state, with numbers and bytes, including submodules; a shared state counts
 * once. mf_print(model) prints it. Lives as long as the process */
const char *mf_nn_tabulate(mf_module model);
#ifndef __cplusplus
#undef mf_print
/* clang-format off */
#define mf_print(x) \
    mf_put_line(_Generic((x), mf_module: mf_nn_tabulate, default: MF_STR_(x))(x))
/* clang-format on */
#endif

/* ---- attention. "..." is any number of batch dimensions, which must agree between query, key and
 * value (MF_ERROR_SHAPE).
 *   bias: is added to the logits. mask: a query attends to a key where it is not 0. Both broadcast
 *   to (..., heads, q, k).
 *   is_causal: a query attends only to keys at its own position and before.
 *   Keys and values may have fewer heads, each shared by the same number of query heads
 *   (grouped-query attention).
 *   dropout_rate: drops weights, by the key dropout_rng, with the same mask for the whole batch and
 *   all heads, unless no_broadcast_dropout; not if deterministic.
 *   dtype: what is computed in, by default the query's; logits and softmax are in f32 at least. */
typedef struct mf_dot_product_attention_options {
    mf_value bias, mask, dropout_rng;
    double dropout_rate;
    bool is_causal, no_broadcast_dropout, deterministic;
    mf_dtype dtype;
    mf_reserved reserved_;
} mf_dot_product_attention_options;
/* (..., q, heads, d), (..., k, heads, d), (..., k, heads, e) -> (..., q, heads, e):
 * nnx.dot_product_attention: for each query the values averaged with the weights softmax(query .
 * key / sqrt(d)) */
mf_value mf_dot_product_attention_opt(mf_value query, mf_value key, mf_value value,
                                      const mf_dot_product_attention_options *o);
/* (..., q, heads, d), (..., k, heads, d) -> (..., heads, q, k): the weights alone */
mf_value mf_dot_product_attention_weights_opt(mf_value query, mf_value key,
                                              const mf_dot_product_attention_options *o);
/* (..., q), (..., k) -> (..., 1, q, k): the product of each pair; for inputs that are 1 at tokens
 * and 0 at padding, the mask of what may be attended to. mf_logical_and combines masks */
mf_value mf_make_attention_mask(mf_value query_input, mf_value key_input);
/* (..., n) -> (..., 1, n, n): f32, 1 where the key's position is at most the query's; reads x's
 * shape only */
mf_value mf_make_causal_mask(mf_value x);
/* (..., n, heads, d), (..., n) -> (..., n, heads, d): rotary position embedding (RoFormer,
 * arXiv:2104.09864): rotates each pair x[i], x[i + d/2] by the angle position / max_wavelength^(2 i
 * / d) / scale_factor. This pairing is that of Flax's Gemma (apply_rope) and of Llama. d must be
 * even (MF_ERROR_SHAPE). */
typedef struct mf_rope_options {
    mf_reserved begin_;
    double max_wavelength MF_DEFAULT_(10000.0), scale_factor MF_DEFAULT_(1.0);
    mf_reserved reserved_;
} mf_rope_options;
mf_value mf_rope_opt(mf_value x, mf_value positions, const mf_rope_options *o);

/* Of (..., length, in_features) -> (..., length, out_features): nnx.MultiHeadAttention. Its members
 * query, key and value have kernels (in, heads, d) with d = qkv_features / num_heads, and out has
 * (heads, d, out).
 *   qkv_features, out_features, in_kv_features: in_features by default; num_kv_heads: num_heads by
 *   default. MF_ERROR_ARGUMENT where they do not divide.
 *   rope_max_wavelength: if above 0, queries and keys are rotated by mf_rope, by their positions.
 *   normalize_qk: LayerNorms without bias, query_ln and key_ln, over d, before the rotation.
 *   deterministic, decode: flags, see mf_nn_view. Dropout draws from the member rngs.
 *   decode: takes one position at a time: its key and value are stored in the cache that
 *   mf_nn_init_cache made, and it attends to those stored so far. Beyond the cache's length, the
 *   last entry is overwritten.
 *   kernel_init, bias_init: kernels are drawn as matrices of all inputs by all outputs.
 *   out_kernel_init, out_bias_init: those of out; by default the same. */
typedef struct mf_nn_multi_head_attention_options {
    int qkv_features, out_features, num_kv_heads, in_kv_features;
    double dropout_rate, rope_max_wavelength;
    bool no_bias, is_causal, no_broadcast_dropout, deterministic, decode, normalize_qk;
    mf_dtype dtype, param_dtype;
    mf_initializer kernel_init, bias_init, out_kernel_init, out_bias_init;
    mf_reserved reserved_;
} mf_nn_multi_head_attention_options;
mf_module mf_nn_multi_head_attention_opt(mf_state rngs, int num_heads, int in_features,
                                         const mf_nn_multi_head_attention_options *o);
/* (..., q, in) -> (..., q, out): calls such a module with options. inputs_k, (..., k, in_kv), is
 * inputs_q by default; inputs_v is inputs_k by default. mf_call(attention, inputs_q, inputs_k,
 * inputs_v, mask), with trailing arguments left out, does the same. */
typedef struct mf_nn_attend_options {
    mf_value inputs_k, inputs_v, mask;
    bool is_causal;
    mf_reserved reserved_;
} mf_nn_attend_options;
mf_value mf_nn_attend_opt(mf_module attention, mf_value inputs_q, const mf_nn_attend_options *o);
/* Allocates empty caches, f32 by default, for inputs of (..., length, features), in every
 * MultiHeadAttention of a module. MF_ERROR_ARGUMENT where there is none */
mf_status mf_nn_init_cache(mf_module m, mf_shape input_shape, mf_dtype dtype);

/* ---- recurrent layers. A cell is a module (carry, input) -> (carry, output); any such module can
 * go into an RNN (one of your own needs an initial_carry). h, c: (..., hidden_features). gate_fn is
 * sigmoid and activation_fn tanh by default; residual is for the simple cell. By default kernels of
 * the carry (recurrent_kernel_init) are orthogonal, those of the input lecun_normal, and biases
 * zeros. MF_ERROR_SHAPE names the cell. */
typedef struct mf_nn_cell_options {
    bool residual;
    mf_function gate_fn, activation_fn;
    mf_dtype dtype, param_dtype;
    mf_initializer kernel_init, recurrent_kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_cell_options;
/* Of h, (..., in_features) -> (h, h): nnx.SimpleCell: tanh(dense_i(x) + dense_h(h)), or with
 * residual tanh(dense_i(x) + dense_h(h) + h). Computes in f32 unless dtype is set */
mf_module mf_nn_simple_cell_opt(mf_state rngs, int in_features, int hidden_features,
                                const mf_nn_cell_options *o);
/* Of h, (..., in_features) -> (h, h): nnx.GRUCell: dense_i and dense_h compute the gates r, z, n,
 * in this order */
mf_module mf_nn_gru_cell_opt(mf_state rngs, int in_features, int hidden_features,
                             const mf_nn_cell_options *o);
/* Of (c, h), (..., in_features) -> ((c, h), h): nnx.LSTMCell: gates i, f, g, o, each with a map of
 * the input (ii, if_, ig, io) and one of h (hi, hf, hg, ho) */
mf_module mf_nn_lstm_cell_opt(mf_state rngs, int in_features, int hidden_features,
                              const mf_nn_cell_options *o);
/* nnx.OptimizedLSTMCell: the same function with a single map of the input, dense_i, and one of h,
 * dense_h, which compute the gates in this order; faster */
mf_module mf_nn_optimized_lstm_cell_opt(mf_state rngs, int in_features, int hidden_features,
                                        const mf_nn_cell_options *o);
/* -> tree: zeros: the first carry of such a cell for inputs of (..., in_features) */
mf_value mf_nn_initialize_carry(mf_module cell, mf_shape input_shape);

/* Of (..., time, features) -> (..., time, out): nnx.RNN: runs a cell over the time steps of
 * sequences, by mf_scan. mf_call(rnn, inputs, initial_carry, seq_lengths), with trailing arguments
 * left out or None; seq_lengths are i32 (...).
 *   time_major: the input is (time, ..., features).
 *   return_carry: returns (carry, outputs); for a sequence with a length, the carry after its last
 *   step.
 *   reverse: begins at the end of each sequence (padding stays in its place). Outputs are in the
 *   order of the steps, or with keep_order in that of the inputs.
 *   unroll: as in mf_scan. */
typedef struct mf_nn_rnn_options {
    bool time_major, return_carry, reverse, keep_order;
    int unroll;
    mf_reserved reserved_;
} mf_nn_rnn_options;
mf_module mf_nn_rnn_opt(mf_module cell, const mf_nn_rnn_options *o);
/* Of the same arguments, with initial_carry a tuple of two: nnx.Bidirectional: two RNNs, of which
 * the second runs backwards with keep_order. merge_fn(forward, backward) joins their outputs, by
 * default along the last axis. Of the RNNs' own options only unroll is used. */
typedef struct mf_nn_bidirectional_options {
    bool time_major, return_carry;
    mf_function merge_fn;
    mf_reserved reserved_;
} mf_nn_bidirectional_options;
mf_module mf_nn_bidirectional_opt(mf_module forward_rnn, mf_module backward_rnn,
                                  const mf_nn_bidirectional_options *o);
/* (batch, time, ...) -> (batch, time, ...): nnx.flip_sequences: reverses each sequence in time;
 * what lies behind its length, seq_lengths (batch), stays in place. time_major: x is (time, batch,
 * ...). num_batch_dims: 1 by default. */
typedef struct mf_flip_sequences_options {
    mf_value seq_lengths;
    int num_batch_dims;
    bool time_major;
    mf_reserved reserved_;
} mf_flip_sequences_options;
mf_value mf_flip_sequences_opt(mf_value x, const mf_flip_sequences_options *o);

MF_END_

#ifdef __cplusplus
inline void mf_print(mf_module model) { mf_put_line(mf_nn_tabulate(model)); }
template <class... F> inline mf_module mf_nn_sequential(F... layers)
{
    const mf_function v[] = { mf_function(layers)... };
    return mf_nn_sequential_n(v, (int)sizeof...(F));
}
template <class... M> inline mf_module mf_nn_list(M... modules)
{
    const mf_module v[] = { modules... };
    return mf_nn_list_n(v, (int)sizeof...(M));
}
template <class... N> inline mf_module mf_nn_multi_metric(N... n)
{
    const mf_node_ metrics[] = { mf_node(n)... };
    return mf_nn_multi_metric_n(metrics, (int)sizeof...(N));
}
#endif

#include <manyfold/lift/nn.h>

#endif
