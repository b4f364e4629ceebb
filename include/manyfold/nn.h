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

#include <manyfold/array.h>
#include <manyfold/numpy.h>
#include <manyfold/state.h>

MF_BEGIN_

/* ---- activations. x -> x, element by element */
mf_value mf_relu(mf_value x); /* max(x, 0), with derivative 0 at 0; integers stay */
mf_value mf_sigmoid(mf_value x);
mf_value mf_gelu(mf_value x);        /* by tanh, as in JAX */
mf_value mf_gelu_exact(mf_value x);  /* by erf: jax.nn.gelu(x, approximate=False) */
mf_value mf_silu(mf_value x);        /* x sigmoid(x) */
mf_value mf_softplus(mf_value x);    /* log(1 + e^x) */
mf_value mf_log_sigmoid(mf_value x); /* log(sigmoid(x)), without underflow */
mf_value mf_leaky_relu(mf_value x, double negative_slope MF_DEFAULT_(0.01));
mf_value mf_elu(mf_value x, double alpha MF_DEFAULT_(1.0));
mf_value mf_celu(mf_value x, double alpha MF_DEFAULT_(1.0));
mf_value mf_selu(mf_value x);
mf_value mf_relu6(mf_value x);        /* min(max(x, 0), 6), with derivative 0 at 0 and at 6 */
mf_value mf_hard_tanh(mf_value x);    /* x held between -1 and 1; integers stay */
mf_value mf_hard_sigmoid(mf_value x); /* relu6(x + 3) / 6 */
mf_value mf_hard_swish(mf_value x);   /* x hard_sigmoid(x) */
mf_value mf_mish(mf_value x);         /* x tanh(softplus(x)) */
mf_value mf_soft_sign(mf_value x);    /* x / (1 + |x|) */
mf_value mf_squareplus(mf_value x, double b MF_DEFAULT_(4.0)); /* (x + sqrt(x^2 + b)) / 2 */

/* ---- along an axis */
/* (..., 2 n, ...) -> (..., n, ...): the first half times the sigmoid of the second */
mf_value mf_glu(mf_value x, int axis MF_DEFAULT_(-1));
/* (..., n, ...) -> (..., n, ...): less the mean, over the root of the variance plus .epsilon; .where:
 * the elements that count for both */
typedef struct mf_standardize_options {
    mf_reserved begin_;
    mf_axis axis MF_DEFAULT_(-1);
    double epsilon MF_DEFAULT_(1e-5);
    mf_value where;
    mf_reserved reserved_;
} mf_standardize_options;
mf_value mf_standardize(mf_value x);
mf_value mf_standardize_opt(mf_value x, const mf_standardize_options *o);
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
 * flax's; window_shape has an entry for each. Strides default to 1, padding to MF_VALID, or is
 * padding_low and padding_high; average counts the padding unless no_count_include_pad. */
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

/* ---- losses, optax's names and formulas: one number a row, or an element; mf_mean makes one */
/* weights: a factor for each class, (classes); label_smoothing a: labels times 1 - a, plus a /
 * classes; axis: the classes'; where: the logits that count, of their shape or without classes */
typedef struct mf_cross_entropy_options {
    mf_reserved begin_;
    double label_smoothing;
    mf_value weights, where;
    int axis MF_DEFAULT_(-1);
    mf_reserved reserved_;
} mf_cross_entropy_options;
/* (..., classes), (..., classes) -> (...): one a row; labels are probabilities */
mf_value mf_softmax_cross_entropy(mf_value logits, mf_value labels);
mf_value mf_softmax_cross_entropy_opt(mf_value logits, mf_value labels,
                                      const mf_cross_entropy_options *o);
/* (..., classes), (...) -> (...): labels are classes, i32 */
mf_value mf_softmax_cross_entropy_with_integer_labels(mf_value logits, mf_value labels);
mf_value mf_softmax_cross_entropy_with_integer_labels_opt(mf_value logits, mf_value labels,
                                                          const mf_cross_entropy_options *o);
/* x -> x: labels (1 - alpha) + alpha / classes, which are along the last dimension */
mf_value mf_smooth_labels(mf_value labels, double alpha);
/* (...), (...) -> (...): labels are 0 and 1, or between */
mf_value mf_sigmoid_binary_cross_entropy(mf_value logits, mf_value labels);
/* (...), (...) -> (...): max(0, 1 - predictions targets): targets are -1 and 1 */
mf_value mf_hinge_loss(mf_value predictions, mf_value targets);
/* (..., classes), (...) -> (...): labels are classes */
mf_value mf_multiclass_hinge_loss(mf_value scores, mf_value labels);
/* x, x -> x: of one shape (MF_ERROR_SHAPE): error^2; half of it; half of it up to delta, then linear;
 * log(cosh(error)) */
mf_value mf_squared_error(mf_value predictions, mf_value targets);
mf_value mf_l2_loss(mf_value predictions, mf_value targets);
mf_value mf_huber_loss(mf_value predictions, mf_value targets, double delta MF_DEFAULT_(1.0));
mf_value mf_log_cosh(mf_value predictions, mf_value targets);
typedef struct mf_distance_options {
    mf_reserved begin_;
    mf_axis axis MF_DEFAULT_(-1);
    mf_value where;
    double epsilon; /* of cosines: the least square of a length */
    mf_reserved reserved_;
} mf_distance_options;
/* (..., n), (..., n) -> (...): the sum of targets (log(targets) - log_predictions) over an axis; 0
 * where targets are 0 */
mf_value mf_kl_divergence_opt(mf_value log_predictions, mf_value targets,
                              const mf_distance_options *o);
/* (..., n), (..., n) -> (...) */
mf_value mf_kl_divergence_with_log_targets_opt(mf_value log_predictions, mf_value log_targets,
                                               const mf_distance_options *o);
/* (..., n), (..., n) -> (...): the cosine of the angle between two vectors, and 1 less that */
mf_value mf_cosine_similarity_opt(mf_value predictions, mf_value targets,
                                  const mf_distance_options *o);
mf_value mf_cosine_distance_opt(mf_value predictions, mf_value targets,
                                const mf_distance_options *o);

/* ---- initialisers, jax.nn.initializers' by name and, from the same key, by value. They are options
 * of layers: mf_nn_linear(rngs, 3, 4, .kernel_init = mf_init_he_normal()); unset is the layer's own. */
typedef mf_value (*mf_init_fn)(mf_value key, mf_shape shape, mf_dtype dtype);
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
mf_initializer mf_init_truncated_normal(double stddev, double lower, double upper);
/* Of the last two dimensions as a matrix of inputs and outputs, the others its field: with variance
 * 2 / in (he), 1 / in (lecun) or 2 / (in + out) (glorot); normal ones are cut at 2 deviations */
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
/* Variance scale / n, n the inputs, the outputs or a mean of both */
mf_initializer mf_init_variance_scaling_opt(double scale, const mf_variance_scaling_options *o);
/* Orthogonal columns, or rows, of the last dimension and the product of the others */
mf_initializer mf_init_orthogonal(double scale);
mf_initializer mf_init_function(mf_init_fn f); /* one's own */
/* (2) -> shape: what it makes from a key; f32 unless said. MF_ERROR_SHAPE where it does not suit */
mf_value mf_initialize(mf_initializer init, mf_value key, mf_shape shape, mf_dtype dtype);

/* ---- layers, flax.nnx's, with parameters from rngs, a random state: kernels lecun_normal, biases
 * zeros, scales ones unless said. dtype is what a layer computes in, inputs and parameters
 * converted to it (the input's unless said); param_dtype what the parameters are kept in (f32).
 * Wrong options are MF_ERROR_ARGUMENT in place of the module, a wrong input MF_ERROR_SHAPE or
 * MF_ERROR_DTYPE in place of its result; both name the layer. */
typedef struct mf_nn_linear_options {
    bool no_bias;
    mf_dtype dtype, param_dtype;
    mf_initializer kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_linear_options;
/* Of (..., in_features) -> (..., out_features): x kernel + bias */
mf_module mf_nn_linear_opt(mf_state rngs, int in_features, int out_features,
                           const mf_nn_linear_options *o);
/* axis: the input's, one for each of the in_features, the last one unless said. batch_sizes: of the
 * input's first dimensions, each index of which has a kernel and a bias of its own. */
typedef struct mf_nn_linear_general_options {
    mf_ints axis, batch_sizes;
    bool no_bias;
    mf_dtype dtype, param_dtype;
    mf_initializer kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_linear_general_options;
/* Of (..., in_features..., ...) -> (batch_sizes..., ..., out_features...): a sum over those axes */
mf_module mf_nn_linear_general_opt(mf_state rngs, mf_ints in_features, mf_ints out_features,
                                   const mf_nn_linear_general_options *o);
/* bias_shape: no bias unless said; it has the dimensions of the kernel that the result has. */
typedef struct mf_nn_einsum_options {
    mf_shape bias_shape;
    mf_dtype dtype, param_dtype;
    mf_initializer kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_einsum_options;
/* Of input -> by the subscripts: mf_nn_einsum(rngs, "nta,hab->nthb", MF_SHAPE(8, 2, 4)) is
 * mf_einsum of the input and the kernel, whose subscripts have no "...", and the bias beside it */
mf_module mf_nn_einsum_opt(mf_state rngs, const char *subscripts, mf_shape kernel_shape,
                           const mf_nn_einsum_options *o);
/* kernel_size has an entry for each of the 1 to 3 spatial dimensions (unset: 1 by 1), the other
 * lists one for each or one for all, ones unless said. padding is MF_SAME unless said, MF_VALID,
 * MF_CIRCULAR, MF_REFLECT, of one dimension MF_CAUSAL, or padding_low and padding_high. mask is
 * multiplied with the kernel. */
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
/* Of (..., h, w, in_features) -> (..., h', w', out_features); kernel HWIO, I the features in of a
 * group */
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
/* Of (..., h, w, in_features) -> (..., h', w', out_features): strides apart in the output, as
 * lax.conv_transpose; kernel HWIO, with transpose_kernel HWOI and flipped: a convolution's
 * gradient */
mf_module mf_nn_conv_transpose_opt(mf_state rngs, int in_features, int out_features,
                                   const mf_nn_conv_transpose_options *o);
typedef struct mf_nn_embed_options {
    mf_dtype dtype, param_dtype;
    mf_initializer embedding_init;
    mf_reserved reserved_;
} mf_nn_embed_options;
/* Of integers (...) -> (..., features): rows of a table, normal with variance 1 / features; beyond
 * the table NaN. dtype is the table's unless said. */
mf_module mf_nn_embed_opt(mf_state rngs, int num_embeddings, int features,
                          const mf_nn_embed_options *o);
/* (..., features) -> (..., num_embeddings): the products with all rows of an Embed's table: logits
 * where input and output share it */
mf_value mf_nn_embed_attend(mf_module embed, mf_value query);

/* Normalised layers: (x - mean) / sqrt(var + epsilon) scale + bias. Statistics are those of the
 * input over the reduced dimensions, taken in f32 at least; a second input is a mask of what counts
 * in them, which broadcasts to the first: mf_call(norm, x, mask). With axis_name they are the means
 * over that axis of a map too: synchronised. fast variance: mean of squares less square of mean.
 * BatchNorm: of (..., num_features), axis the features', over all other dimensions; training, its
 * states mean and var move: momentum times what they are, and the rest of the batch's; with
 * use_running_average they are the statistics. */
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
/* Over reduction_axes, the last dimension unless said; parameters lie along feature_axes, likewise.
 * RMSNorm: without mean and bias. */
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
/* Of (n, ..., num_features): over each example's positions and the features of a group: num_groups
 * of them, or as many as group_size gives */
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
/* Of (n, ..., num_features): over each example's positions, each feature by itself; parameters lie
 * along feature_axes, the last dimension unless said, never the first (MF_ERROR_AXIS) */
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

/* Of x -> x: each element 0 with probability rate, else over 1 - rate; x itself where deterministic.
 * Draws from its own random state, which rngs has split off (so a map draws for each device), or
 * from a key: mf_call(dropout, x, key). The same along broadcast_dims */
typedef struct mf_nn_dropout_options {
    bool deterministic;
    mf_ints broadcast_dims;
    mf_reserved reserved_;
} mf_nn_dropout_options;
mf_module mf_nn_dropout_opt(mf_state rngs, double rate, const mf_nn_dropout_options *o);

/* nnx.Sequential: modules and functions one after the other, of any number: mf_nn_sequential(conv,
 * mf_relu, dense), in C++ mf_fn(f) for functions; what one gives is the next one's input, a tuple
 * its inputs. Their paths are "layers/0", "layers/1". nnx.List: modules to go through by
 * mf_member_count and mf_nn_at, paths "0", "1". MF_ERROR_ARGUMENT beyond */
mf_module mf_nn_sequential_n(const mf_function *layers, int count);
mf_module mf_nn_list_n(const mf_module *modules, int count);
mf_module mf_nn_at(mf_module list, int index);
#ifndef __cplusplus
#define mf_nn_sequential(...) mf_nn_sequential_n(MF_ITEMS_(mf_function, mf_fn, __VA_ARGS__))
#define mf_nn_list(...) mf_nn_list_n(MF_STRUCTS_(mf_module, __VA_ARGS__))
#endif

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

/* ---- metrics, nnx.metrics': modules with a state of sums. mf_call(metric, batch) gives the sums of
 * a batch, a dict of its "logits", "labels", "values", "mask", without touching the state; sums can
 * be added, carried and go through mf_psum, and mf_nn_metric_result makes numbers of them. Or
 * mf_nn_metric_update adds them to the state, over all devices with axis_name, so that each device
 * holds the same; mf_nn_metric_compute is what they come to, mf_nn_metric_reset begins anew. Counts
 * are i64 and sums f64, so results are those of all examples at once, however these are spread over
 * batches and devices. Of no example they are NaN. A mask, which broadcasts, says what counts. */
/* The mean of the batch's "values", or of another name: mf_nn_average("loss") */
mf_module mf_nn_average(const char *argname);
/* How many of "logits" (..., classes) are greatest at "labels" (...), or have that among the k
 * greatest; binary: both (...), whether logits of threshold and more are positive labels */
typedef struct mf_nn_accuracy_options {
    mf_reserved begin_;
    int k MF_DEFAULT_(1);
    bool binary;
    double threshold;
    mf_reserved reserved_;
} mf_nn_accuracy_options;
mf_module mf_nn_accuracy_opt(const mf_nn_accuracy_options *o);
/* How often label i was taken for class j, i64 (num_classes, num_classes); what is no class is left
 * out */
mf_module mf_nn_confusion_matrix(int num_classes);
/* Several: mf_nn_multi_metric("loss", mf_nn_average("loss"), "top5", mf_nn_accuracy(.k = 5)), whose
 * sums and results are dicts; a mask may be a dict of one for each */
mf_module mf_nn_multi_metric_n(const mf_node_ *metrics, int count);
typedef struct mf_nn_metric_options {
    const char *axis_name;
    mf_reserved reserved_;
} mf_nn_metric_options;
/* dict -> tree: adds the batch's sums, which it gives */
mf_value mf_nn_metric_update_opt(mf_module metric, mf_value batch, const mf_nn_metric_options *o);
/* tree -> tree: what sums come to, f32 */
mf_value mf_nn_metric_result(mf_module metric, mf_value sums);
/* -> tree: of all batches since the last reset */
mf_value mf_nn_metric_compute(mf_module metric);
mf_status mf_nn_metric_reset(mf_module metric);
#ifndef __cplusplus
#define mf_nn_multi_metric(...) mf_nn_multi_metric_n(MF_ITEMS_(mf_node_, mf_node, __VA_ARGS__))
#endif

/* -> text: a table of a model, as flax's tabulate: a row a module, with the path, the type, and the
 * name, dtype and shape of each state, numbers and bytes, also of all that is below; a state that is
 * shared counts once. mf_print(model) prints it. Lives as long as the process */
const char *mf_nn_tabulate(mf_module model);
#ifndef __cplusplus
#undef mf_print
/* clang-format off */
#define mf_print(x) \
    mf_put_line(_Generic((x), mf_module: mf_nn_tabulate, default: MF_STR_(x))(x))
/* clang-format on */
#endif

/* ---- attention. The batch dimensions "..." are any number of them; MF_ERROR_SHAPE where those of
 * query, key and value differ. */
/* bias: is added to the logits; mask: a query sees a key where it is not 0. Both broadcast to
 * (..., heads, q, k). is_causal: no query sees a key behind its own position. Heads of the keys may
 * be fewer, each for as many of the query's (grouped queries). With a dropout_rate weights are
 * dropped by the key dropout_rng, the same for all of a batch and all heads unless
 * no_broadcast_dropout. dtype: of the computation, the query's unless said; logits and softmax are
 * f32 at least. */
typedef struct mf_dot_product_attention_options {
    mf_value bias, mask, dropout_rng;
    double dropout_rate;
    bool is_causal, no_broadcast_dropout, deterministic;
    mf_dtype dtype;
    mf_reserved reserved_;
} mf_dot_product_attention_options;
/* (..., q, heads, d), (..., k, heads, d), (..., k, heads, e) -> (..., q, heads, e): of each query
 * the mean of the values, weighted by the softmax of query key / sqrt(d) */
mf_value mf_dot_product_attention_opt(mf_value query, mf_value key, mf_value value,
                                      const mf_dot_product_attention_options *o);
/* (..., q, heads, d), (..., k, heads, d) -> (..., heads, q, k): those weights */
mf_value mf_dot_product_attention_weights_opt(mf_value query, mf_value key,
                                              const mf_dot_product_attention_options *o);
/* (..., q), (..., k) -> (..., 1, q, k): the products of all pairs: of inputs that are 1 where
 * there is a token and 0 where there is none, where a query may look. mf_logical_and joins masks */
mf_value mf_make_attention_mask(mf_value query_input, mf_value key_input);
/* (..., n) -> (..., 1, n, n): f32, 1 where the key is not behind the query */
mf_value mf_make_causal_mask(mf_value x);
/* (..., n, heads, d), (..., n) -> (..., n, heads, d): rotary position embedding (RoFormer,
 * arXiv:2104.09864): x[i] and x[i + d/2] are turned as a pair by the angle
 * position / max_wavelength^(2 i / d) / scale_factor, the layout of Flax's Gemma (apply_rope) and
 * of Llama. d is even (MF_ERROR_SHAPE). */
typedef struct mf_rope_options {
    mf_reserved begin_;
    double max_wavelength MF_DEFAULT_(10000.0), scale_factor MF_DEFAULT_(1.0);
    mf_reserved reserved_;
} mf_rope_options;
mf_value mf_rope_opt(mf_value x, mf_value positions, const mf_rope_options *o);

/* Of (..., length, in_features) -> (..., length, out_features): nnx.MultiHeadAttention. Modules
 * query, key and value with kernels (in, heads, d), d = qkv_features / num_heads, and out with
 * (heads, d, out). qkv_features, out_features and in_kv_features are in_features unless said,
 * num_kv_heads num_heads. rope_max_wavelength: above 0 queries and keys are turned by mf_rope, by
 * their positions. normalize_qk: LayerNorms without bias, query_ln and
 * key_ln, over each head's d before that. Members deterministic and decode are flags; dropout draws from the member rngs.
 * decode: one position at a time: its key and value go into the cache, which mf_nn_init_cache has
 * made, and it sees those that are there; beyond the cache's length the last one is written over.
 * Kernels are made as matrices of all inputs and all outputs; out's initialisers are the others'
 * unless said. MF_ERROR_ARGUMENT where numbers do not divide. */
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
/* (..., q, in) -> (..., q, out): such a module of its inputs. inputs_k (..., k, in_kv): the query's
 * unless said; inputs_v: the key's. mf_call(attention, inputs_q, inputs_k, inputs_v, mask), of as
 * many as there are, is the same. */
typedef struct mf_nn_attend_options {
    mf_value inputs_k, inputs_v, mask;
    bool is_causal;
    mf_reserved reserved_;
} mf_nn_attend_options;
mf_value mf_nn_attend_opt(mf_module attention, mf_value inputs_q, const mf_nn_attend_options *o);
/* Empty caches, f32 unless said, for inputs of (..., length, features), in every
 * MultiHeadAttention of a module. MF_ERROR_ARGUMENT where there is none */
mf_status mf_nn_init_cache(mf_module m, mf_shape input_shape, mf_dtype dtype);

/* ---- recurrent layers. A cell is a module of (carry, input) that gives (carry, output); any such
 * module goes into an RNN, those of one's own with an initial_carry. h, c: (..., hidden_features).
 * gate_fn is sigmoid and activation_fn tanh unless said; residual is the simple cell's. Kernels of
 * the carry (recurrent_kernel_init) are orthogonal, those of the inputs lecun_normal and biases
 * zeros unless said. MF_ERROR_SHAPE names the cell. */
typedef struct mf_nn_cell_options {
    bool residual;
    mf_function gate_fn, activation_fn;
    mf_dtype dtype, param_dtype;
    mf_initializer kernel_init, recurrent_kernel_init, bias_init;
    mf_reserved reserved_;
} mf_nn_cell_options;
/* Of h, (..., in_features) -> (h, h): nnx.SimpleCell: tanh(dense_i(x) + dense_h(h)), or with
 * residual tanh(... + h). It computes in f32 unless said */
mf_module mf_nn_simple_cell_opt(mf_state rngs, int in_features, int hidden_features,
                                const mf_nn_cell_options *o);
/* Of h, (..., in_features) -> (h, h): nnx.GRUCell: gates r, z, n, in this order in dense_i and
 * dense_h */
mf_module mf_nn_gru_cell_opt(mf_state rngs, int in_features, int hidden_features,
                             const mf_nn_cell_options *o);
/* Of (c, h), (..., in_features) -> ((c, h), h): nnx.LSTMCell: gates i, f, g, o, of maps ii, if_, ig,
 * io of the input and hi, hf, hg, ho of h */
mf_module mf_nn_lstm_cell_opt(mf_state rngs, int in_features, int hidden_features,
                              const mf_nn_cell_options *o);
/* The same with one map of the input and one of h, dense_i and dense_h, gates in this order; the
 * faster one */
mf_module mf_nn_optimized_lstm_cell_opt(mf_state rngs, int in_features, int hidden_features,
                                        const mf_nn_cell_options *o);
/* -> tree: of zeros: such a cell's first carry for inputs of (..., in_features) */
mf_value mf_nn_initialize_carry(mf_module cell, mf_shape input_shape);

/* Of (..., time, features) -> (..., time, out): nnx.RNN: the cell over the steps of sequences, by
 * mf_scan. mf_call(rnn, inputs, initial_carry, seq_lengths), of as many as there are, None for
 * none: seq_lengths (...) are i32. time_major: (time, ..., features). return_carry: (carry,
 * outputs), of a sequence with a length the carry of its last step. reverse: from the end of each
 * sequence, what is behind its length stays there; outputs in the order of the steps, with
 * keep_order in that of the inputs. unroll: mf_scan's, steps in one round. */
typedef struct mf_nn_rnn_options {
    bool time_major, return_carry, reverse, keep_order;
    int unroll;
    mf_reserved reserved_;
} mf_nn_rnn_options;
mf_module mf_nn_rnn_opt(mf_module cell, const mf_nn_rnn_options *o);
/* Of the same arguments, initial_carry a tuple of two: nnx.Bidirectional: two RNNs, of which the
 * second runs backwards and keeps the order; merge_fn(forward, backward) joins their outputs,
 * along the last axis unless said. Of their own options unroll alone counts. */
typedef struct mf_nn_bidirectional_options {
    bool time_major, return_carry;
    mf_function merge_fn;
    mf_reserved reserved_;
} mf_nn_bidirectional_options;
mf_module mf_nn_bidirectional_opt(mf_module forward_rnn, mf_module backward_rnn,
                                  const mf_nn_bidirectional_options *o);
/* (batch, time, ...) -> (batch, time, ...): backwards along time, what is behind a sequence's
 * length stays there; time_major: (time, batch, ...). num_batch_dims: 1 unless said. */
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
