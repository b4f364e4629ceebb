/* manyfold/optim.h - optimisers over trees of parameters, chains of gradient transformations, and
 * learning-rate schedules, under optax's names and with its formulas and defaults. An optimiser is
 * an immutable description: its state is a tree that mf_optim_init makes and mf_optim_update
 * advances, so both can be used inside every transform. Adam with weight decay, clipping and a
 * schedule:
 *     mf_function rate = mf_warmup_cosine_decay_schedule(0, 1e-3, 100, 10000);
 *     mf_optimizer tx = mf_chain(mf_clip_by_global_norm(1), mf_adamw(.schedule = rate));
 *     mf_value opt_state = mf_optim_init(tx, params);
 *     params = mf_optim_update(tx, grads, &opt_state, params);   each step
 *
 * Parameters and gradients are trees of one structure, with floats of any shapes; the state has,
 * for each moment, a leaf of each parameter's shape, and a count. Optimisers with equal options are
 * equal, and live as long as the process; values belong to the innermost scope; any thread. Errors:
 * MF_ERROR_ARGUMENT for a handle that is no optimiser, or one with wrong options (from
 * mf_optim_init); MF_ERROR_TREE where the trees differ. */
#ifndef MANYFOLD_OPTIM_H
#define MANYFOLD_OPTIM_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>
#include <manyfold/state.h>

MF_BEGIN_

/* ---- using an optimiser. tree -> tree: the state before the first step */
mf_value mf_optim_init(mf_optimizer o, mf_value params);
/* tree, tree -> tree: one step: the new parameters from gradients and parameters; *opt_state is
 * replaced by the next state. MF_ERROR_TREE for the state of another optimiser; *opt_state then
 * stays as it is */
mf_value mf_optim_update(mf_optimizer o, mf_value grads, mf_value *opt_state, mf_value params);
/* tree, tree -> tree: optax's update: what mf_apply_updates would add to the parameters; *opt_state
 * as above */
mf_value mf_optim_transform(mf_optimizer o, mf_value updates, mf_value *opt_state, mf_value params);
/* tree, tree -> tree: params + updates, in the parameters' dtypes */
mf_value mf_apply_updates(mf_value params, mf_value updates);
/* tree, tree, () -> tree: step_size * new + (1 - step_size) * old, leaf by leaf: a slowly following
 * copy of the parameters (a target network, or their moving average) */
mf_value mf_incremental_update(mf_value new_tensors, mf_value old_tensors, mf_value step_size);
/* tree, tree, (), () -> tree: the new leaves if steps is a multiple of update_period, else the old
 * ones */
mf_value mf_periodic_update(mf_value new_tensors, mf_value old_tensors, mf_value steps,
                            mf_value update_period);

/* ---- optimisers. Their state is a dict of their moments and "count".
 *   learning_rate, or schedule: a function from the number of steps made so far, an i32 (), to the
 *   rate; it takes precedence.
 *   mask, mask_fn: which parameters decay: a filter by their paths ("encoder/kernel"), and a
 *   function of a path ("['encoder']['kernel']") and the parameter that returns a bool. If both are
 *   set, both must accept; by default all decay.
 *   mu_dtype, accumulator_dtype: the dtype in which the first moment is kept; by default the
 *   parameter's. */
/* Adam (arXiv:1412.6980): minus the rate times m / (sqrt(v + eps_root) + eps), with the
 * bias-corrected moving averages m of the gradients (decay b1) and v of their squares (b2).
 * nesterov: NAdam */
typedef struct mf_adam_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999),
        eps MF_DEFAULT_(1e-8);
    mf_function schedule;
    double eps_root;
    bool nesterov;
    mf_dtype mu_dtype;
    mf_reserved reserved_;
} mf_adam_options;
mf_optimizer mf_adam_opt(const mf_adam_options *o);
/* AdamW (arXiv:1711.05101): weight_decay times the parameters is added to Adam's step before the
 * rate */
typedef struct mf_adamw_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999),
        eps MF_DEFAULT_(1e-8);
    mf_function schedule;
    double eps_root;
    bool nesterov;
    mf_dtype mu_dtype;
    double weight_decay MF_DEFAULT_(1e-4);
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_adamw_options;
mf_optimizer mf_adamw_opt(const mf_adamw_options *o);
/* SGD, with momentum: the sum of the gradients, decayed by `momentum` in each step (0: none).
 * learning_rate has no default: unset, nothing moves */
typedef struct mf_sgd_options {
    mf_reserved begin_;
    double learning_rate, momentum;
    bool nesterov;
    mf_function schedule;
    mf_dtype accumulator_dtype;
    mf_reserved reserved_;
} mf_sgd_options;
mf_optimizer mf_sgd_opt(const mf_sgd_options *o);
/* RMSProp: the gradient divided by sqrt(v + eps), or with eps_in_sqrt false by sqrt(v) + eps, where
 * v, which starts at initial_scale, is the moving average of its square, or if centered of its
 * variance. momentum: of the resulting steps; 0: none */
typedef struct mf_rmsprop_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), decay MF_DEFAULT_(0.9), eps MF_DEFAULT_(1e-8),
        initial_scale;
    bool eps_in_sqrt MF_DEFAULT_(true), centered;
    double momentum;
    bool nesterov, bias_correction;
    mf_function schedule;
    mf_reserved reserved_;
} mf_rmsprop_options;
mf_optimizer mf_rmsprop_opt(const mf_rmsprop_options *o);
/* Adagrad: the gradient divided by sqrt(s + eps), where s, which starts at
 * initial_accumulator_value, is the sum of its squares */
typedef struct mf_adagrad_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3),
        initial_accumulator_value MF_DEFAULT_(0.1), eps MF_DEFAULT_(1e-7);
    mf_function schedule;
    mf_reserved reserved_;
} mf_adagrad_options;
mf_optimizer mf_adagrad_opt(const mf_adagrad_options *o);
/* LAMB (arXiv:1904.00962): Adam's step plus weight_decay times the parameters, times the trust
 * ratio of each leaf */
typedef struct mf_lamb_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999),
        eps MF_DEFAULT_(1e-6);
    mf_function schedule;
    double eps_root, weight_decay;
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_lamb_options;
mf_optimizer mf_lamb_opt(const mf_lamb_options *o);
/* Lion (arXiv:2302.06675): minus the rate times sign(b1 m + (1 - b1) g), plus weight_decay times
 * the parameters; m is the moving average of the gradients, with decay b2 */
typedef struct mf_lion_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.99);
    mf_function schedule;
    mf_dtype mu_dtype;
    double weight_decay MF_DEFAULT_(1e-3);
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_lion_options;
mf_optimizer mf_lion_opt(const mf_lion_options *o);
/* Adamax (arXiv:1412.6980): Adam with the decayed maximum of |g| + eps in place of the root of the
 * second moment. weight_decay as in AdamW (adamaxw) */
typedef struct mf_adamax_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999),
        eps MF_DEFAULT_(1e-8);
    mf_function schedule;
    double weight_decay;
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_adamax_options;
mf_optimizer mf_adamax_opt(const mf_adamax_options *o);
/* AdaBelief (arXiv:2010.07468): Adam with the moving average of (g - m)^2 */
typedef struct mf_adabelief_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999),
        eps MF_DEFAULT_(1e-16);
    mf_function schedule;
    double eps_root MF_DEFAULT_(1e-16);
    bool nesterov;
    mf_reserved reserved_;
} mf_adabelief_options;
mf_optimizer mf_adabelief_opt(const mf_adabelief_options *o);
/* RAdam (arXiv:1908.03265): Adam with a factor for the uncertainty of the second moment; just the
 * first one while that is worth fewer than `threshold` observations */
typedef struct mf_radam_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999),
        eps MF_DEFAULT_(1e-8);
    mf_function schedule;
    double eps_root, threshold MF_DEFAULT_(5.0);
    bool nesterov;
    mf_reserved reserved_;
} mf_radam_options;
mf_optimizer mf_radam_opt(const mf_radam_options *o);
/* AMSGrad (arXiv:1904.09237): Adam with the greatest of all corrected second moments so far */
typedef struct mf_amsgrad_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999),
        eps MF_DEFAULT_(1e-8);
    mf_function schedule;
    double eps_root;
    mf_dtype mu_dtype;
    mf_reserved reserved_;
} mf_amsgrad_options;
mf_optimizer mf_amsgrad_opt(const mf_amsgrad_options *o);
/* Yogi (Zaheer et al., NeurIPS 2018): Adam whose second moment moves by (1 - b2) g^2 towards g^2 */
typedef struct mf_yogi_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999),
        eps MF_DEFAULT_(1e-3);
    mf_function schedule;
    mf_reserved reserved_;
} mf_yogi_options;
mf_optimizer mf_yogi_opt(const mf_yogi_options *o);
/* Adadelta (arXiv:1212.5701): the gradient times the root mean square of past steps over that of
 * gradients, both decayed by rho. weight_decay is added to the gradient. learning_rate has no
 * default: unset, nothing moves */
typedef struct mf_adadelta_options {
    mf_reserved begin_;
    double learning_rate, rho MF_DEFAULT_(0.9), eps MF_DEFAULT_(1e-6);
    mf_function schedule;
    double weight_decay;
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_adadelta_options;
mf_optimizer mf_adadelta_opt(const mf_adadelta_options *o);
/* Adafactor (arXiv:1804.04235): the gradient over the root of its second moment, of which a leaf
 * whose two greatest dimensions have min_dim_size_to_factor or more keeps only the means over each
 * (unless no_factored); limited by mf_clip_by_block_rms(clipping_threshold) (0: not); times the
 * rate (unset: 1), and, unless no_multiply_by_parameter_scale, times the root mean square of the
 * parameters (at least 1e-3). The moment's decay is 1 - (steps - decay_offset)^-decay_rate.
 * momentum, weight_decay_rate: 0: none */
typedef struct mf_adafactor_options {
    mf_reserved begin_;
    double learning_rate;
    mf_function schedule;
    int64_t min_dim_size_to_factor MF_DEFAULT_(128);
    double decay_rate MF_DEFAULT_(0.8);
    int64_t decay_offset;
    bool no_multiply_by_parameter_scale, no_factored;
    double clipping_threshold MF_DEFAULT_(1.0), momentum, weight_decay_rate, eps MF_DEFAULT_(1e-30);
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_adafactor_options;
mf_optimizer mf_adafactor_opt(const mf_adafactor_options *o);
/* LARS (arXiv:1708.03888): SGD with momentum of gradients that mf_scale_by_trust_ratio scaled.
 * learning_rate has no default */
typedef struct mf_lars_options {
    mf_reserved begin_;
    double learning_rate, weight_decay,
        trust_coefficient MF_DEFAULT_(0.001), eps, momentum MF_DEFAULT_(0.9);
    bool nesterov;
    mf_function schedule;
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_lars_options;
mf_optimizer mf_lars_opt(const mf_lars_options *o);

/* ---- an optimiser bound to a model, and train states. Both pass through maps as trees: of an
 * optimiser that is mf_module_values(optimizer, mf_everything()), from which
 * mf_module_merge(optimizer, values) rebuilds it inside the map. */
/* module -> module: nnx.Optimizer: a module with the members "model", "opt_state" and "step";
 * calling it calls the model. wrt: the states of the model to train; by default its parameters */
typedef struct mf_nn_optimizer_options {
    mf_filter wrt;
    mf_reserved reserved_;
} mf_nn_optimizer_options;
mf_module mf_nn_optimizer_opt(mf_module model, mf_optimizer tx, const mf_nn_optimizer_options *o);
/* tree -> C: one step of the model, the state and the count. The gradients are those of
 * mf_grad(.states = wrt), by their paths from the model or from the optimiser. MF_ERROR_TREE where
 * they are of other states; then nothing changes, and a call that is being traced becomes that
 * error */
mf_status mf_nn_optimizer_update(mf_module optimizer, mf_value grads);
/* tree -> dict: flax's TrainState.create: {"opt_state": ..., "params": ..., "step": 0, i32} */
mf_value mf_train_state_create(mf_optimizer tx, mf_value params);
/* dict, tree -> dict: the train state one step on; other members are kept as they are */
mf_value mf_train_state_apply_gradients(mf_optimizer tx, mf_value state, mf_value grads);

/* ---- combining optimisers. mf_chain(a, b, ...): one after the other; the state is a tuple of
 * theirs */
mf_optimizer mf_chain_n(const mf_optimizer *transformations, int count);
/* Applies inner to the leaves that mask and mask_fn accept (see above), and passes the others'
 * updates through */
typedef struct mf_masked_options {
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_masked_options;
mf_optimizer mf_masked_opt(mf_optimizer inner, const mf_masked_options *o);
/* Each leaf goes to the transformation of the first filter that accepts its path. Freezing a part:
 *     mf_multi_transform(mf_path_contains("encoder"), mf_set_to_zero(), mf_everything(), tx)
 * MF_ERROR_ARGUMENT, from mf_optim_init, where no filter accepts a leaf. */
typedef struct mf_transform_part_ {
    bool is_filter;
    mf_filter which;
    mf_optimizer transform;
} mf_transform_part_;
mf_transform_part_ mf_transform_part_filter(mf_filter which);
mf_transform_part_ mf_transform_part_transform(mf_optimizer transform);
mf_optimizer mf_multi_transform_n(const mf_transform_part_ *parts, int count);
/* optax.MultiSteps: every every_k calls a step of inner with the mean of the gradients since; zeros
 * in between */
mf_optimizer mf_multi_steps(mf_optimizer inner, int every_k);
/* optax.apply_if_finite: where a gradient is not finite, the updates are zeros and inner's state
 * stays; after more than max_consecutive_errors such steps in a row they pass through */
mf_optimizer mf_apply_if_finite(mf_optimizer inner, int max_consecutive_errors);

/* ---- building blocks: gradient transformations for mf_chain, optax's of the same name; where that
 * already means something else here, "_updates" is appended. They take updates, at first the
 * gradients, and give updates.
 * Adam's step without the rate */
typedef struct mf_scale_by_adam_options {
    mf_reserved begin_;
    double b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999), eps MF_DEFAULT_(1e-8), eps_root;
    mf_dtype mu_dtype;
    bool nesterov;
    mf_reserved reserved_;
} mf_scale_by_adam_options;
mf_optimizer mf_scale_by_adam_opt(const mf_scale_by_adam_options *o);
/* RMSProp's, and with the variance in place of the mean square */
typedef struct mf_scale_by_rms_options {
    mf_reserved begin_;
    double decay MF_DEFAULT_(0.9), eps MF_DEFAULT_(1e-8), initial_scale;
    bool eps_in_sqrt MF_DEFAULT_(true), bias_correction;
    mf_reserved reserved_;
} mf_scale_by_rms_options;
mf_optimizer mf_scale_by_rms_opt(const mf_scale_by_rms_options *o);
mf_optimizer mf_scale_by_stddev_opt(const mf_scale_by_rms_options *o);
/* Adagrad's */
typedef struct mf_scale_by_rss_options {
    mf_reserved begin_;
    double initial_accumulator_value MF_DEFAULT_(0.1), eps MF_DEFAULT_(1e-7);
    mf_reserved reserved_;
} mf_scale_by_rss_options;
mf_optimizer mf_scale_by_rss_opt(const mf_scale_by_rss_options *o);
/* Lion's */
typedef struct mf_scale_by_lion_options {
    mf_reserved begin_;
    double b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.99);
    mf_dtype mu_dtype;
    mf_reserved reserved_;
} mf_scale_by_lion_options;
mf_optimizer mf_scale_by_lion_opt(const mf_scale_by_lion_options *o);
/* Times the norm of the parameters over that of the updates, leaf by leaf, times trust_coefficient;
 * 1 where one of the norms is 0. min_norm: the least that a norm counts as; eps: added to the
 * divisor */
typedef struct mf_scale_by_trust_ratio_options {
    mf_reserved begin_;
    double min_norm, trust_coefficient MF_DEFAULT_(1.0), eps;
    mf_reserved reserved_;
} mf_scale_by_trust_ratio_options;
mf_optimizer mf_scale_by_trust_ratio_opt(const mf_scale_by_trust_ratio_options *o);
mf_optimizer mf_scale_by_sign(void); /* the sign of each element */
/* optax.trace: momentum: the sum of the updates so far, decayed by .decay in each step */
typedef struct mf_trace_updates_options {
    mf_reserved begin_;
    double decay MF_DEFAULT_(0.9);
    bool nesterov;
    mf_dtype accumulator_dtype;
    mf_reserved reserved_;
} mf_trace_updates_options;
mf_optimizer mf_trace_updates_opt(const mf_trace_updates_options *o);
/* optax.ema: the moving average of the updates: of gradients, or by mf_optim_transform of
 * parameters. debias: divides by 1 - decay^count */
typedef struct mf_ema_options {
    mf_reserved begin_;
    double decay MF_DEFAULT_(0.999);
    bool debias MF_DEFAULT_(true);
    mf_dtype accumulator_dtype;
    mf_reserved reserved_;
} mf_ema_options;
mf_optimizer mf_ema_opt(const mf_ema_options *o);
mf_optimizer mf_scale_updates(double step_size);         /* optax.scale: times step_size */
mf_optimizer mf_scale_by_schedule(mf_function schedule); /* times what the schedule returns */
/* Multiplies by minus the rate: the last block of a chain */
typedef struct mf_scale_by_learning_rate_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3);
    mf_function schedule;
    mf_reserved reserved_;
} mf_scale_by_learning_rate_options;
mf_optimizer mf_scale_by_learning_rate_opt(const mf_scale_by_learning_rate_options *o);
/* optax.clip: each element is limited to [-max_delta, max_delta] */
mf_optimizer mf_clip_updates(double max_delta);
/* Scaled down so that the norm of the whole tree is at most max_norm */
mf_optimizer mf_clip_by_global_norm(double max_norm);
/* Each leaf is scaled down so that its root mean square is at most threshold */
mf_optimizer mf_clip_by_block_rms(double threshold);
/* Adaptive gradient clipping (arXiv:2102.06171): each unit's gradient is scaled down so that its
 * norm is at most `clipping` times that of the unit's parameters, which counts as eps at least. A
 * unit is a vector, a column of a matrix, or what one output of a convolution's kernel depends on;
 * at most 5 dimensions */
mf_optimizer mf_adaptive_grad_clip(double clipping, double eps MF_DEFAULT_(1e-3));
mf_optimizer mf_zero_nans(void); /* replaces NaN by 0 */
/* Adds weight_decay times the parameters, where mask and mask_fn accept them */
typedef struct mf_add_decayed_weights_options {
    mf_reserved begin_;
    double weight_decay;
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_add_decayed_weights_options;
mf_optimizer mf_add_decayed_weights_opt(const mf_add_decayed_weights_options *o);
mf_optimizer mf_set_to_zero(void); /* zeros: nothing moves */

/* ---- schedules: functions from a number of steps, () from 0, to a rate, (). Wrong numbers are the
 * error of the call (MF_ERROR_ARGUMENT). In polynomial and linear schedules transition_steps of 0
 * or less gives a constant init_value, as in optax. */
/* The value; the line from init_value to end_value over transition_steps, beginning after
 * transition_begin; the same along (1 - progress)^power */
mf_function mf_constant_schedule(double value);
mf_function mf_linear_schedule(double init_value, double end_value, int64_t transition_steps,
                               int64_t transition_begin MF_DEFAULT_(0));
mf_function mf_polynomial_schedule(double init_value, double end_value, double power,
                                   int64_t transition_steps,
                                   int64_t transition_begin MF_DEFAULT_(0));
/* From init_value to alpha init_value: init_value ((1 - alpha) c^exponent + alpha), where c falls
 * from 1 to 0 along half a cosine over decay_steps */
typedef struct mf_cosine_decay_schedule_options {
    mf_reserved begin_;
    double alpha, exponent MF_DEFAULT_(1.0);
    mf_reserved reserved_;
} mf_cosine_decay_schedule_options;
mf_function mf_cosine_decay_schedule_opt(double init_value, int64_t decay_steps,
                                         const mf_cosine_decay_schedule_options *o);
/* Linear from init_value to peak_value over warmup_steps, then along a cosine to end_value at step
 * decay_steps, which counts from step 0 */
typedef struct mf_warmup_cosine_decay_schedule_options {
    mf_reserved begin_;
    double end_value, exponent MF_DEFAULT_(1.0);
    mf_reserved reserved_;
} mf_warmup_cosine_decay_schedule_options;
mf_function mf_warmup_cosine_decay_schedule_opt(double init_value, double peak_value,
                                                int64_t warmup_steps, int64_t decay_steps,
                                                const mf_warmup_cosine_decay_schedule_options *o);
/* init_value decay_rate^(n / transition_steps), n the steps after transition_begin; staircase: n /
 * transition_steps is rounded down. end_value: the bound at which the decay stops; 0: none */
typedef struct mf_exponential_decay_options {
    int64_t transition_begin;
    bool staircase;
    double end_value;
    mf_reserved reserved_;
} mf_exponential_decay_options;
mf_function mf_exponential_decay_opt(double init_value, int64_t transition_steps, double decay_rate,
                                     const mf_exponential_decay_options *o);
/* mf_piecewise_constant_schedule(0.1, 1000, 0.5, 2000, 0.1): from each boundary on, the rate is
 * multiplied by its scale: 0.1, 0.05, 0.005. At most 32 pairs; count counts both */
mf_function mf_piecewise_constant_schedule_n(double init_value, const double *boundaries_and_scales,
                                             int count);

/* before(n) for n < boundary, then after(n - boundary). Several: mf_join_schedules(
 * mf_join_schedules(a, 10, b), 30, c), where b begins at step 10 and c at step 30 */
mf_function mf_join_schedules(mf_function before, int64_t boundary, mf_function after);
/* Linear from init_value to peak_value over warmup_steps; then constant, or mf_exponential_decay,
 * whose step 0 is the end of the warm-up */
mf_function mf_warmup_constant_schedule(double init_value, double peak_value, int64_t warmup_steps);
mf_function mf_warmup_exponential_decay_schedule_opt(double init_value, double peak_value,
                                                     int64_t warmup_steps, int64_t transition_steps,
                                                     double decay_rate,
                                                     const mf_exponential_decay_options *o);
/* One cycle (arXiv:1708.07120): from peak_value / div_factor to peak_value at pct_start of
 * transition_steps, and back: linearly to where it began at pct_final and to that /
 * final_div_factor at the end; or directly along a cosine (which ignores pct_final) */
typedef struct mf_onecycle_schedule_options {
    mf_reserved begin_;
    double pct_start MF_DEFAULT_(0.3), pct_final MF_DEFAULT_(0.85), div_factor MF_DEFAULT_(25.0),
        final_div_factor MF_DEFAULT_(1e4);
    mf_reserved reserved_;
} mf_onecycle_schedule_options;
mf_function mf_linear_onecycle_schedule_opt(int64_t transition_steps, double peak_value,
                                            const mf_onecycle_schedule_options *o);
mf_function mf_cosine_onecycle_schedule_opt(int64_t transition_steps, double peak_value,
                                            const mf_onecycle_schedule_options *o);

/* ---- loss scaling for f16, as jmp's DynamicLossScale: multiply the loss by a scale so that small
 * gradients do not underflow, divide the gradients by it, skip steps whose gradients are not
 * finite, and adjust the scale. -> dict: {"counter": i32 (), "loss_scale": f32 ()} */
mf_value mf_dynamic_loss_scale(double initial);
/* dict, tree -> tree: the loss times the scale; the gradients divided by it */
mf_value mf_loss_scale(mf_value loss_scale, mf_value tree);
mf_value mf_loss_unscale(mf_value loss_scale, mf_value tree);
/* tree -> (): bool: whether all elements of all leaves are finite */
mf_value mf_tree_all_finite(mf_value tree);
/* dict, () -> dict: the scale after a step: times factor after `period` steps with finite
 * gradients, divided by it (but not below min_loss_scale) after a step without */
typedef struct mf_loss_scale_adjust_options {
    mf_reserved begin_;
    int period MF_DEFAULT_(2000);
    double factor MF_DEFAULT_(2.0), min_loss_scale MF_DEFAULT_(1.0);
    mf_reserved reserved_;
} mf_loss_scale_adjust_options;
mf_value mf_loss_scale_adjust_opt(mf_value loss_scale, mf_value grads_finite,
                                  const mf_loss_scale_adjust_options *o);

#ifndef __cplusplus
#define mf_chain(...) mf_chain_n(MF_STRUCTS_(mf_optimizer, __VA_ARGS__))
/* clang-format off */
#define mf_transform_part(x) \
    _Generic((x), mf_filter: mf_transform_part_filter, mf_optimizer: mf_transform_part_transform)(x)
/* clang-format on */
#define mf_multi_transform(...) \
    mf_multi_transform_n(MF_ITEMS_(mf_transform_part_, mf_transform_part, __VA_ARGS__))
#define mf_piecewise_constant_schedule(init_value, ...)                                        \
    mf_piecewise_constant_schedule_n(init_value, (const double[]){ MF_NUMBERS_(__VA_ARGS__) }, \
                                     MF_LENGTH_(__VA_ARGS__))
#endif

MF_END_

#ifdef __cplusplus
template <class... T> inline mf_optimizer mf_chain(T... t)
{
    const mf_optimizer v[] = { t... };
    return mf_chain_n(v, (int)sizeof...(T));
}
inline mf_transform_part_ mf_transform_part(mf_filter f) { return mf_transform_part_filter(f); }
inline mf_transform_part_ mf_transform_part(mf_optimizer t)
{
    return mf_transform_part_transform(t);
}
template <class... P> inline mf_optimizer mf_multi_transform(P... p)
{
    const mf_transform_part_ v[] = { mf_transform_part(p)... };
    return mf_multi_transform_n(v, (int)sizeof...(P));
}
template <class... N> inline mf_function mf_piecewise_constant_schedule(double init_value, N... n)
{
    const double v[] = { (double)n... };
    return mf_piecewise_constant_schedule_n(init_value, v, (int)sizeof...(N));
}
#endif

#include <manyfold/lift/optim.h>

#endif
