/* manyfold/optim.h - optimisers over trees of parameters, chains of gradient transformations, and
 * schedules for their rates; names, formulas and defaults are optax's. An optimiser is a constant:
 * its state is a tree that mf_optim_init makes and mf_optim_update moves on, so both work inside
 * every transform. Adam with clipping, schedule and decay:
 *     mf_function rate = mf_warmup_cosine_decay_schedule(0, 1e-3, 100, 10000);
 *     mf_optimizer tx = mf_chain(mf_clip_by_global_norm(1), mf_adamw(.schedule = rate));
 *     params = mf_optim_update(tx, grads, &opt_state, params);
 *
 * Parameters and gradients are trees of one structure, of floats of any shapes; the state has a
 * leaf of a parameter's shape for each moment, and a count. An optimiser of equal options is equal,
 * and lives as long as the process; values belong to the innermost scope; any thread. Errors:
 * MF_ERROR_ARGUMENT for a handle that is no optimiser, or one of wrong options, MF_ERROR_TREE where
 * the trees differ. */
#ifndef MANYFOLD_OPTIM_H
#define MANYFOLD_OPTIM_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>
#include <manyfold/state.h>

MF_BEGIN_

/* ---- what every optimiser does. tree -> tree: the state before the first step */
mf_value mf_optim_init(mf_optimizer o, mf_value params);
/* tree, tree -> tree: of gradients and parameters the new parameters; *opt_state moves on.
 * MF_ERROR_TREE for the state of another optimizer, which stays as it is */
mf_value mf_optim_update(mf_optimizer o, mf_value grads, mf_value *opt_state, mf_value params);
/* tree, tree -> tree: optax's update: what mf_apply_updates adds to the parameters */
mf_value mf_optim_transform(mf_optimizer o, mf_value updates, mf_value *opt_state, mf_value params);
/* tree, tree -> tree: the sums, in the parameters' dtypes */
mf_value mf_apply_updates(mf_value params, mf_value updates);

/* ---- optimisers. The rate is .learning_rate, or of .schedule, a function from the count of
 * steps made before, i32 (), to it. Their state is a dict of their moments and "count". mask and
 * mask_fn say which parameters decay: a filter by their paths ("encoder/kernel"), and a function
 * of a path ("['encoder']['kernel']") and the parameter that gives a bool; both, where both are
 * set. .mu_dtype, .accumulator_dtype: what the first moment is kept in. */
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
/* momentum 0: none */
typedef struct mf_sgd_options {
    mf_reserved begin_;
    double learning_rate, momentum;
    bool nesterov;
    mf_function schedule;
    mf_dtype accumulator_dtype;
    mf_reserved reserved_;
} mf_sgd_options;
mf_optimizer mf_sgd_opt(const mf_sgd_options *o);
/* centered: by the variance in place of the mean square; momentum of the scaled steps, 0: none */
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
typedef struct mf_adagrad_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3),
        initial_accumulator_value MF_DEFAULT_(0.1), eps MF_DEFAULT_(1e-7);
    mf_function schedule;
    mf_reserved reserved_;
} mf_adagrad_options;
mf_optimizer mf_adagrad_opt(const mf_adagrad_options *o);
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

/* ---- an optimiser over a model, and the train state. Both are trees for maps: of the first
 * mf_module_values(optimizer, mf_everything()), from which mf_module_merge(optimizer, values) makes
 * it again inside. */
/* module -> module: nnx.Optimizer: its members are the "model", the "opt_state" and the "step"; it
 * is called as the model is. wrt: which of the model's states it trains; unset: its parameters */
typedef struct mf_nn_optimizer_options {
    mf_filter wrt;
    mf_reserved reserved_;
} mf_nn_optimizer_options;
mf_module mf_nn_optimizer_opt(mf_module model, mf_optimizer tx, const mf_nn_optimizer_options *o);
/* tree -> C: one step of model, state and count; the gradients are those of mf_grad(.states = wrt),
 * by their paths from the model or from the optimizer.
 * MF_ERROR_TREE where they have other states; then nothing moves, and a call that is being traced
 * becomes the error */
mf_status mf_nn_optimizer_update(mf_module optimizer, mf_value grads);
/* tree -> dict: flax's TrainState.create: {"opt_state": ..., "params": ..., "step": i32 ()} */
mf_value mf_train_state_create(mf_optimizer tx, mf_value params);
/* dict, tree -> dict: one step on; other members stay as they are */
mf_value mf_train_state_apply_gradients(mf_optimizer tx, mf_value state, mf_value grads);

/* ---- combining. mf_chain(a, b, ...): one after the other; the state is a tuple of theirs */
mf_optimizer mf_chain_n(const mf_optimizer *transformations, int count);
/* inner for the leaves that mask and mask_fn accept; the others pass as they are */
typedef struct mf_masked_options {
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_masked_options;
mf_optimizer mf_masked_opt(mf_optimizer inner, const mf_masked_options *o);
/* Each leaf by the transformation of the first filter that accepts its path, so freezing is
 *     mf_multi_transform(mf_path_contains("encoder"), mf_set_to_zero(), mf_everything(), tx)
 * MF_ERROR_ARGUMENT, by mf_optim_init, where none does. */
typedef struct mf_transform_part_ {
    bool is_filter;
    mf_filter which;
    mf_optimizer transform;
} mf_transform_part_;
mf_transform_part_ mf_transform_part_filter(mf_filter which);
mf_transform_part_ mf_transform_part_transform(mf_optimizer transform);
mf_optimizer mf_multi_transform_n(const mf_transform_part_ *parts, int count);
/* optax.MultiSteps: a step of inner by the mean of every_k gradients, zeros in between */
mf_optimizer mf_multi_steps(mf_optimizer inner, int every_k);
/* optax.apply_if_finite: where a gradient is not finite, zeros, and inner's state stays; after more
 * than so many in a row they pass */
mf_optimizer mf_apply_if_finite(mf_optimizer inner, int max_consecutive_errors);

/* ---- building blocks. Where a plain name means something else here, "_updates" follows it. */
typedef struct mf_scale_by_adam_options {
    mf_reserved begin_;
    double b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999), eps MF_DEFAULT_(1e-8), eps_root;
    mf_dtype mu_dtype;
    bool nesterov;
    mf_reserved reserved_;
} mf_scale_by_adam_options;
mf_optimizer mf_scale_by_adam_opt(const mf_scale_by_adam_options *o);
typedef struct mf_scale_by_rms_options {
    mf_reserved begin_;
    double decay MF_DEFAULT_(0.9), eps MF_DEFAULT_(1e-8), initial_scale;
    bool eps_in_sqrt MF_DEFAULT_(true), bias_correction;
    mf_reserved reserved_;
} mf_scale_by_rms_options;
mf_optimizer mf_scale_by_rms_opt(const mf_scale_by_rms_options *o);
mf_optimizer mf_scale_by_stddev_opt(const mf_scale_by_rms_options *o);
typedef struct mf_scale_by_rss_options {
    mf_reserved begin_;
    double initial_accumulator_value MF_DEFAULT_(0.1), eps MF_DEFAULT_(1e-7);
    mf_reserved reserved_;
} mf_scale_by_rss_options;
mf_optimizer mf_scale_by_rss_opt(const mf_scale_by_rss_options *o);
typedef struct mf_scale_by_lion_options {
    mf_reserved begin_;
    double b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.99);
    mf_dtype mu_dtype;
    mf_reserved reserved_;
} mf_scale_by_lion_options;
mf_optimizer mf_scale_by_lion_opt(const mf_scale_by_lion_options *o);
typedef struct mf_scale_by_trust_ratio_options {
    mf_reserved begin_;
    double min_norm, trust_coefficient MF_DEFAULT_(1.0), eps;
    mf_reserved reserved_;
} mf_scale_by_trust_ratio_options;
mf_optimizer mf_scale_by_trust_ratio_opt(const mf_scale_by_trust_ratio_options *o);
mf_optimizer mf_scale_by_sign(void);
/* optax.trace: momentum */
typedef struct mf_trace_updates_options {
    mf_reserved begin_;
    double decay MF_DEFAULT_(0.9);
    bool nesterov;
    mf_dtype accumulator_dtype;
    mf_reserved reserved_;
} mf_trace_updates_options;
mf_optimizer mf_trace_updates_opt(const mf_trace_updates_options *o);
/* The exponential moving average of what comes, gradients or, by mf_optim_transform, parameters */
typedef struct mf_ema_options {
    mf_reserved begin_;
    double decay MF_DEFAULT_(0.999);
    bool debias MF_DEFAULT_(true);
    mf_dtype accumulator_dtype;
    mf_reserved reserved_;
} mf_ema_options;
mf_optimizer mf_ema_opt(const mf_ema_options *o);
mf_optimizer mf_scale_updates(double step_size); /* optax.scale */
mf_optimizer mf_scale_by_schedule(mf_function schedule);
/* by minus the rate: the last of a chain of blocks */
typedef struct mf_scale_by_learning_rate_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3);
    mf_function schedule;
    mf_reserved reserved_;
} mf_scale_by_learning_rate_options;
mf_optimizer mf_scale_by_learning_rate_opt(const mf_scale_by_learning_rate_options *o);
mf_optimizer mf_clip_updates(double max_delta); /* optax.clip */
mf_optimizer mf_clip_by_global_norm(double max_norm);
typedef struct mf_add_decayed_weights_options {
    mf_reserved begin_;
    double weight_decay;
    mf_filter mask;
    mf_function mask_fn;
    mf_reserved reserved_;
} mf_add_decayed_weights_options;
mf_optimizer mf_add_decayed_weights_opt(const mf_add_decayed_weights_options *o);
mf_optimizer mf_set_to_zero(void);

/* ---- schedules: functions from a count of steps, () from 0, to (). Wrong numbers are the
 * error of their call (MF_ERROR_ARGUMENT). */
mf_function mf_constant_schedule(double value);
mf_function mf_linear_schedule(double init_value, double end_value, int64_t transition_steps,
                               int64_t transition_begin MF_DEFAULT_(0));
mf_function mf_polynomial_schedule(double init_value, double end_value, double power,
                                   int64_t transition_steps,
                                   int64_t transition_begin MF_DEFAULT_(0));
typedef struct mf_cosine_decay_schedule_options {
    mf_reserved begin_;
    double alpha, exponent MF_DEFAULT_(1.0);
    mf_reserved reserved_;
} mf_cosine_decay_schedule_options;
mf_function mf_cosine_decay_schedule_opt(double init_value, int64_t decay_steps,
                                         const mf_cosine_decay_schedule_options *o);
/* decay_steps counts from the beginning: warm-up and decay together */
typedef struct mf_warmup_cosine_decay_schedule_options {
    mf_reserved begin_;
    double end_value, exponent MF_DEFAULT_(1.0);
    mf_reserved reserved_;
} mf_warmup_cosine_decay_schedule_options;
mf_function mf_warmup_cosine_decay_schedule_opt(double init_value, double peak_value,
                                                int64_t warmup_steps, int64_t decay_steps,
                                                const mf_warmup_cosine_decay_schedule_options *o);
/* end_value 0: without an end */
typedef struct mf_exponential_decay_options {
    int64_t transition_begin;
    bool staircase;
    double end_value;
    mf_reserved reserved_;
} mf_exponential_decay_options;
mf_function mf_exponential_decay_opt(double init_value, int64_t transition_steps, double decay_rate,
                                     const mf_exponential_decay_options *o);
/* mf_piecewise_constant_schedule(0.1, 1000, 0.5, 2000, 0.1): from each boundary on times its scale;
 * at most 32 pairs */
mf_function mf_piecewise_constant_schedule_n(double init_value, const double *boundaries_and_scales,
                                             int count);

/* ---- loss scaling, for f16: jmp's DynamicLossScale. -> dict: {"counter": i32, "loss_scale": f32},
 * both () */
mf_value mf_dynamic_loss_scale(double initial);
/* dict, tree -> tree: the loss times the scale; the gradients over it */
mf_value mf_loss_scale(mf_value loss_scale, mf_value tree);
mf_value mf_loss_unscale(mf_value loss_scale, mf_value tree);
/* tree -> (): whether all leaves are finite, a bool */
mf_value mf_tree_all_finite(mf_value tree);
/* dict, () -> dict: times factor after a period of finite gradients, over it after others */
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
