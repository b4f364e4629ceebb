/* Losses with Optax's names and formulas. Invariant: masked-out elements do not contribute to the value, and their derivative is 0. */
#include "nn/losses/loss_checks.h"

#include <math.h>

/* ---- arguments */

/* Unset, or an error: labels do not broadcast with the first `rank` dimensions of the logits, aligned at the last of these; or, with
 * same_rank, have another rank. */
static mf_value check_labels(const char *loss, mf_value logits, mf_value labels, int rank, bool same_rank, const char *wanted)
{
    mf_shape have = mf_shape_of(labels), want = mf_shape_of(logits);
    bool fits = !same_rank || have.rank == rank;
    for (int i = 1; fits && i <= rank && i <= have.rank; i++) {
        int64_t h = have.dims[have.rank - i], w = want.dims[rank - i];
        fits = h == w || h == 1 || w == 1;
    }
    if (fits || have.rank < 0 || want.rank < 1)
        return (mf_value){ 0 };
    return mf_make_error(MF_ERROR_SHAPE, "%s: labels of the shape %s do not go with logits of the shape %s: %s", loss, mf_str_shape(have),
                         mf_str_shape(want), wanted);
}

/* ---- cross-entropy over classes */

/* Logits and options, with the class axis moved to the end. */
typedef struct classes {
    mf_value logits, where, weights; /* unset: no mask, equal weights */
    double smoothing;
} classes;

static const mf_cross_entropy_options last_axis = { .axis = -1 };

static mf_value read_classes(const char *loss, mf_value logits, const mf_cross_entropy_options *o, classes *c)
{
    int rank = mf_ndim(logits);
    *c = (classes){ logits, o->where, o->weights, o->label_smoothing };
    if (rank < 0)
        return logits;
    if (rank == 0 || o->axis < -rank || o->axis >= rank)
        return mf_make_error(MF_ERROR_AXIS, "%s: axis %d is none of logits of the shape %s", loss, o->axis,
                             mf_str_shape(mf_shape_of(logits)));
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: label_smoothing is %g; it must be from 0 to 1", loss, o->label_smoothing);
    c->logits = mf_moveaxis(logits, o->axis, -1);
    if (c->where.handle)
        c->where = mf_ndim(o->where) == rank ? mf_moveaxis(o->where, o->axis, -1) : mf_expand_dims(o->where, -1);
    if (c->weights.handle && (mf_ndim(c->weights) != 1 || mf_dim(c->weights, 0) != mf_dim(c->logits, -1)))
        return mf_make_error(MF_ERROR_SHAPE, "%s: weights of the shape %s are not one for each of %lld classes", loss,
                             mf_str_shape(mf_shape_of(c->weights)), (long long)mf_dim(c->logits, -1));
    return (mf_value){ 0 };
}

/* The logits with a number in masked-out places whose exponential is 0. */
static mf_value masked(const classes *c)
{
    double least = mf_dtype_of(c->logits) == MF_F16 ? -6e4 : -1e30;
    return c->where.handle ? mf_where(c->where, c->logits, least) : c->logits;
}

static mf_value over_classes(mf_value x, const classes *c) { return mf_sum(x, .axis = -1, .where = c->where); }

static mf_value class_count(const classes *c)
{
    if (!c->where.handle)
        return mf_f((double)mf_dim(c->logits, -1));
    mf_value all = mf_broadcast_to(c->where, mf_shape_of(c->logits));
    return mf_maximum(mf_sum(mf_astype(all, mf_dtype_of(c->logits)), .axis = -1, .keepdims = true), 1);
}

static mf_value with_labels(const classes *c, mf_value labels)
{
    if (c->smoothing != 0)
        labels = mf_add(mf_mul(labels, 1 - c->smoothing), mf_div(c->smoothing, class_count(c)));
    return c->weights.handle ? mf_mul(labels, c->weights) : labels;
}

mf_value mf_softmax_cross_entropy_opt(mf_value logits, mf_value labels, const mf_cross_entropy_options *o)
{
    MF_LAYER;
    classes c;
    o = o ? o : &last_axis;
    mf_value wrong = loss_check_both(logits, labels);
    wrong = wrong.handle ? wrong : read_classes("softmax_cross_entropy", logits, o, &c);
    if (wrong.handle)
        return wrong;
    if (mf_ndim(labels) == mf_ndim(logits))
        labels = mf_moveaxis(labels, o->axis, -1);
    wrong = check_labels("softmax_cross_entropy", c.logits, labels, mf_ndim(c.logits), false,
                         "one number for each of the logits is needed");
    if (wrong.handle)
        return wrong;
    return mf_neg(over_classes(mf_mul(with_labels(&c, labels), mf_log_softmax(masked(&c), -1)), &c));
}

mf_value(mf_softmax_cross_entropy)(mf_value logits, mf_value labels)
{
    MF_LAYER;
    return mf_softmax_cross_entropy_opt(logits, labels, NULL);
}

/* logsumexp(logits) - logits[label]; weights and smoothing act as on one-hot labels. */
static mf_value of_integers(const classes *c, mf_value labels)
{
    mf_value logits = masked(c), log_sum = mf_logsumexp(logits, -1);
    mf_value picked = mf_squeeze(mf_take_along_axis(c->logits, mf_expand_dims(labels, -1), -1), -1);
    mf_value loss = mf_sub(log_sum, picked);
    if (c->weights.handle)
        loss = mf_mul(loss, mf_take(c->weights, labels, 0));
    if (c->smoothing == 0)
        return loss;
    mf_value every = mf_sub(mf_expand_dims(log_sum, -1), c->logits);
    every = c->weights.handle ? mf_mul(every, c->weights) : every;
    mf_value mean = over_classes(mf_div(every, class_count(c)), c);
    return mf_add(mf_mul(loss, 1 - c->smoothing), mf_mul(mean, c->smoothing));
}

mf_value mf_softmax_cross_entropy_with_integer_labels_opt(mf_value logits, mf_value labels, const mf_cross_entropy_options *o)
{
    MF_LAYER;
    static const char name[] = "softmax_cross_entropy_with_integer_labels";
    classes c;
    o = o ? o : &last_axis;
    mf_value wrong = loss_check_both(logits, labels);
    wrong = wrong.handle ? wrong : read_classes(name, logits, o, &c);
    wrong = wrong.handle ? wrong
                         : check_labels(name, c.logits, labels, mf_ndim(c.logits) - 1, true, "one label for each row of logits is needed");
    if (wrong.handle)
        return wrong;
    mf_value loss = of_integers(&c, labels);
    return c.where.handle ? mf_where(mf_any(mf_astype(c.where, MF_BOOL), .axis = -1), loss, 0) : loss;
}

mf_value(mf_softmax_cross_entropy_with_integer_labels)(mf_value logits, mf_value labels)
{
    MF_LAYER;
    return mf_softmax_cross_entropy_with_integer_labels_opt(logits, labels, NULL);
}

mf_value(mf_smooth_labels)(mf_value labels, double alpha)
{
    MF_LAYER;
    mf_value wrong = loss_check_floats("smooth_labels", "labels", labels);
    if (!wrong.handle && mf_ndim(labels) == 0)
        wrong = mf_make_error(MF_ERROR_SHAPE, "smooth_labels: labels have a number for each class along their last dimension");
    return wrong.handle ? wrong : mf_add(mf_mul(labels, 1 - alpha), alpha / (double)mf_dim(labels, -1));
}

mf_value(mf_sigmoid_binary_cross_entropy)(mf_value logits, mf_value labels)
{
    MF_LAYER;
    mf_value wrong = loss_check_floats_with("sigmoid_binary_cross_entropy", "logits", logits, labels);
    if (wrong.handle)
        return wrong;
    labels = mf_astype(labels, mf_dtype_of(logits));
    mf_value positive = mf_mul(labels, mf_log_sigmoid(logits)), negative = mf_mul(mf_sub(1, labels), mf_log_sigmoid(mf_neg(logits)));
    return mf_sub(mf_neg(positive), negative);
}

mf_value(mf_hinge_loss)(mf_value predictions, mf_value targets)
{
    MF_LAYER;
    return mf_maximum(mf_sub(1, mf_mul(predictions, targets)), 0);
}

mf_value(mf_multiclass_hinge_loss)(mf_value scores, mf_value labels)
{
    MF_LAYER;
    mf_value wrong = loss_check_floats_with("multiclass_hinge_loss", "scores", scores, labels);
    wrong = wrong.handle
                ? wrong
                : check_labels("multiclass_hinge_loss", scores, labels, mf_ndim(scores) - 1, true, "one label for each row is needed");
    if (wrong.handle)
        return wrong;
    mf_value one_hot = mf_one_hot(labels, (int)mf_dim(scores, -1), .dtype = mf_dtype_of(scores));
    return mf_sub(mf_max(mf_sub(mf_add(scores, 1), one_hot), .axis = -1), mf_sum(mf_mul(scores, one_hot), .axis = -1));
}

mf_value(mf_perceptron_loss)(mf_value predictor_outputs, mf_value targets)
{
    MF_LAYER;
    mf_value wrong = loss_check_same("perceptron_loss", predictor_outputs, targets);
    return wrong.handle ? wrong : mf_maximum(mf_neg(mf_mul(predictor_outputs, targets)), 0);
}

/* log((1 - labels) p + labels (1 - p)), from the logarithms of p and 1 - p. The greater of those that count is taken out of the sum. */
static mf_value log_of_wrong(mf_value logits, mf_value labels)
{
    mf_value log_p = mf_log_sigmoid(logits), log_q = mf_log_sigmoid(mf_neg(logits)), least = mf_f(-(double)INFINITY);
    mf_value most = mf_stop_gradient(mf_maximum(mf_where(mf_equal(labels, 1), least, log_p), mf_where(mf_equal(labels, 0), least, log_q)));
    mf_value p = mf_mul(mf_sub(1, labels), mf_exp(mf_minimum(mf_sub(log_p, most), 80))); /* no infinity times 0 */
    mf_value q = mf_mul(labels, mf_exp(mf_minimum(mf_sub(log_q, most), 80)));
    return mf_add(mf_log(mf_add(p, q)), most);
}

mf_value mf_sigmoid_focal_loss_opt(mf_value logits, mf_value labels, const mf_sigmoid_focal_loss_options *o)
{
    MF_LAYER;
    double gamma = o ? o->gamma : 2, alpha = o ? o->alpha : 0;
    mf_value wrong = loss_check_floats_with("sigmoid_focal_loss", "logits", logits, labels);
    if (wrong.handle)
        return wrong;
    labels = mf_astype(labels, mf_dtype_of(logits));
    mf_value weight = mf_exp(mf_mul(log_of_wrong(logits, labels), gamma));
    mf_value loss = mf_mul(mf_sigmoid_binary_cross_entropy(logits, labels), weight);
    return alpha == 0 ? loss : mf_mul(mf_add(mf_mul(labels, alpha), mf_mul(mf_sub(1, labels), 1 - alpha)), loss);
}

mf_value(mf_poly_loss_cross_entropy)(mf_value logits, mf_value labels, double epsilon)
{
    MF_LAYER;
    mf_value entropy = mf_softmax_cross_entropy(logits, labels);
    if (mf_is_error(entropy))
        return entropy;
    return mf_add(entropy, mf_mul(mf_sum(mf_mul(labels, mf_sub(1, mf_softmax(logits))), .axis = -1), epsilon));
}

/* ---- distances */

mf_value(mf_squared_error)(mf_value predictions, mf_value targets)
{
    MF_LAYER;
    mf_value wrong = loss_check_same("squared_error", predictions, targets);
    return wrong.handle ? wrong : mf_square(mf_sub(predictions, targets));
}

mf_value(mf_l2_loss)(mf_value predictions, mf_value targets)
{
    MF_LAYER;
    mf_value wrong = loss_check_same("l2_loss", predictions, targets);
    return wrong.handle ? wrong : mf_mul(mf_square(mf_sub(predictions, targets)), 0.5);
}

mf_value(mf_huber_loss)(mf_value predictions, mf_value targets, double delta)
{
    MF_LAYER;
    mf_value wrong = loss_check_same("huber_loss", predictions, targets);
    if (wrong.handle)
        return wrong;
    mf_value size = mf_abs(mf_sub(predictions, targets)), quadratic = mf_minimum(size, delta), linear = mf_sub(size, quadratic);
    return mf_add(mf_mul(mf_square(quadratic), 0.5), mf_mul(linear, delta));
}

mf_value(mf_log_cosh)(mf_value predictions, mf_value targets)
{
    MF_LAYER;
    mf_value wrong = loss_check_same("log_cosh", predictions, targets);
    if (wrong.handle)
        return wrong;
    mf_value error = mf_sub(predictions, targets);
    return mf_sub(mf_logaddexp(error, mf_neg(error)), 0.69314718055994531);
}

static const mf_distance_options last = { .axis = -1 };

mf_value mf_kl_divergence_opt(mf_value log_predictions, mf_value targets, const mf_distance_options *o)
{
    MF_LAYER;
    o = o ? o : &last;
    mf_value wrong = loss_check_floats_with("kl_divergence", "log_predictions", log_predictions, targets);
    wrong = wrong.handle ? wrong : loss_check_floats("kl_divergence", "targets", targets);
    if (wrong.handle)
        return wrong;
    mf_value none = mf_equal(targets, 0), log_targets = mf_where(none, 0, mf_log(mf_where(none, 1, targets)));
    return mf_sum(mf_mul(targets, mf_sub(log_targets, log_predictions)), .axis = o->axis, .where = o->where);
}

mf_value mf_kl_divergence_with_log_targets_opt(mf_value log_predictions, mf_value log_targets, const mf_distance_options *o)
{
    MF_LAYER;
    o = o ? o : &last;
    mf_value wrong = loss_check_floats_with("kl_divergence_with_log_targets", "log_predictions", log_predictions, log_targets);
    wrong = wrong.handle ? wrong : loss_check_floats("kl_divergence_with_log_targets", "log_targets", log_targets);
    if (wrong.handle)
        return wrong;
    mf_value loss = mf_mul(mf_exp(log_targets), mf_sub(log_targets, log_predictions));
    return mf_sum(loss, .axis = o->axis, .where = o->where);
}

mf_value mf_generalized_kl_divergence_opt(mf_value log_predictions, mf_value targets, const mf_distance_options *o)
{
    MF_LAYER;
    o = o ? o : &last;
    mf_value divergence = mf_kl_divergence_opt(log_predictions, targets, o);
    if (mf_is_error(divergence))
        return divergence;
    return mf_add(divergence, mf_sum(mf_sub(mf_exp(log_predictions), targets), .axis = o->axis, .where = o->where));
}

static mf_value unit(mf_value x, const mf_distance_options *o)
{
    mf_value square = mf_sum(mf_square(x), .axis = o->axis, .where = o->where, .keepdims = true);
    return mf_div(x, mf_sqrt(mf_maximum(square, o->epsilon)));
}

mf_value mf_cosine_similarity_opt(mf_value predictions, mf_value targets, const mf_distance_options *o)
{
    MF_LAYER;
    o = o ? o : &last;
    mf_value wrong = loss_check_floats_with("cosine_similarity", "predictions", predictions, targets);
    wrong = wrong.handle ? wrong : loss_check_floats("cosine_similarity", "targets", targets);
    if (wrong.handle)
        return wrong;
    return mf_sum(mf_mul(unit(predictions, o), unit(targets, o)), .axis = o->axis, .where = o->where);
}

mf_value mf_cosine_distance_opt(mf_value predictions, mf_value targets, const mf_distance_options *o)
{
    MF_LAYER;
    return mf_sub(1, mf_cosine_similarity_opt(predictions, targets, o));
}
