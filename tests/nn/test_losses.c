/* Losses and pooling, compared with Optax and Flax, with their gradients; and errors for invalid arguments. */
#include "check.h"
#include "nn/flax_answers.h"

#include <math.h>

typedef mf_value (*loss_fn)(const mf_value *in, mf_value mask);
typedef struct loss_case {
    loss_fn f;
    const flax_answers *a;
} loss_case;

static mf_value weighted(void *context, mf_value floats)
{
    const loss_case *c = context;
    mf_value in[4];
    int count = 0;
    for (; count < mf_len(floats); count++)
        in[count] = mf_get(floats, count);
    for (int i = count; i < c->a->in_count; i++)
        in[i] = c->a->in[i];
    mf_value y = c->f(in, c->a->mask);
    return mf_tuple(mf_sum(mf_mul(y, c->a->cotangent)), y);
}

static void check_loss(const char *name, loss_fn f)
{
    MF_SCOPE;
    flax_answers a;
    if (!flax_read("loss", name, &a))
        return;
    loss_case c = { f, &a };
    mf_value floats = mf_list_n(a.in, a.din_count), value, din;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(weighted, &c), .has_aux = true), floats), &value, &din);
    const char *error = mf_error(value);
    if (!CHECK(!error)) {
        CHECK_NOTE("%s: %s", name, error);
        return;
    }
    flax_near(name, "the loss", mf_get(value, 1), a.out, 1e-5);
    for (int i = 0; i < a.din_count; i++)
        flax_near(name, "the gradient", mf_get(din, i), a.din[i], 1e-5);
}

/* ---- the cases, as the oracle computed them */

static mf_value array(const double *numbers) { return mf_array_n(MF_F32, MF_SHAPE(4), numbers, 4); }
static mf_value weights(void) { return array((const double[]){ 0.5, 1, 2, 0.25 }); }
static mf_value one_hot(void) { return mf_one_hot(mf_array(MF_I32, MF_SHAPE(3), 1, 3, 0), 4); }
static mf_value classes(void) { return mf_array(MF_I32, MF_SHAPE(3), 1, 3, 0); }

#define LOSS(name, expression)                              \
    static mf_value name(const mf_value *in, mf_value mask) \
    {                                                       \
        (void)mask;                                         \
        return expression;                                  \
    }
LOSS(entropy, mf_softmax_cross_entropy(in[0], in[1]))
LOSS(entropy_where, mf_softmax_cross_entropy(in[0], in[1], .where = mask))
LOSS(entropy_axis, mf_softmax_cross_entropy(in[0], in[1], .axis = 0))
LOSS(entropy_smooth, mf_softmax_cross_entropy(in[0], one_hot(), .label_smoothing = 0.1))
LOSS(entropy_weights, mf_softmax_cross_entropy(in[0], one_hot(), .label_smoothing = 0.1, .weights = weights()))
LOSS(integers, mf_softmax_cross_entropy_with_integer_labels(in[0], in[1]))
LOSS(integers_where, mf_softmax_cross_entropy_with_integer_labels(in[0], in[1], .where = mask))
LOSS(integers_axis, mf_softmax_cross_entropy_with_integer_labels(in[0], in[1], .axis = 0))
LOSS(integers_smooth, mf_softmax_cross_entropy_with_integer_labels(in[0], classes(), .label_smoothing = 0.1))
LOSS(integers_weights, mf_softmax_cross_entropy_with_integer_labels(in[0], classes(), .label_smoothing = 0.1, .weights = weights()))
LOSS(smooth, mf_smooth_labels(in[0], 0.1))
LOSS(binary, mf_sigmoid_binary_cross_entropy(in[0], in[1]))
LOSS(hinge, mf_hinge_loss(in[0], in[1]))
LOSS(multiclass_hinge, mf_multiclass_hinge_loss(in[0], in[1]))
LOSS(squared_error, mf_squared_error(in[0], in[1]))
LOSS(l2, mf_l2_loss(in[0], in[1]))
LOSS(huber, mf_huber_loss(in[0], in[1], 0.5))
LOSS(perceptron, mf_perceptron_loss(in[0], in[1]))
LOSS(focal, mf_sigmoid_focal_loss(in[0], in[1]))
LOSS(focal_alpha, mf_sigmoid_focal_loss(in[0], in[1], .alpha = 0.25, .gamma = 1.5))
LOSS(poly_loss, mf_poly_loss_cross_entropy(in[0], in[1], 1.5))
LOSS(generalized_kl, mf_generalized_kl_divergence(in[0], in[1], .axis = 0))
LOSS(triplet, mf_triplet_margin_loss(in[0], in[1], in[2]))
LOSS(triplet_4, mf_triplet_margin_loss(in[0], in[1], in[2], .axis = 0, .norm_degree = 4, .margin = 0.5))
LOSS(ntxent, mf_ntxent(in[0], in[1], 0.5))
LOSS(ctc, mf_ctc_loss(in[0], in[1], in[2], in[3]))
LOSS(ctc_blank, mf_ctc_loss(in[0], in[1], mf_remainder(in[2], 4), in[3], .blank_id = 4, .log_epsilon = -1e4))
LOSS(log_cosh, mf_log_cosh(in[0], in[1]))
LOSS(kl, mf_kl_divergence(in[0], in[1]))
LOSS(kl_where, mf_kl_divergence(in[0], in[1], .axis = 0, .where = mask))
LOSS(kl_log, mf_kl_divergence_with_log_targets(in[0], in[1]))
LOSS(similarity, mf_cosine_similarity(in[0], in[1]))
LOSS(distance, mf_cosine_distance(in[0], in[1], .epsilon = 1))
#define POOL .window_shape = MF_INTS(2, 3), .strides = MF_INTS(2, 1)
LOSS(max_pool, mf_max_pool(in[0], POOL, .padding = MF_SAME))
LOSS(min_pool, mf_min_pool(in[0], POOL))
LOSS(avg_pool, mf_avg_pool(in[0], POOL, .padding = MF_SAME))
LOSS(avg_pool_alone, mf_avg_pool(in[0], POOL, .padding = MF_SAME, .no_count_include_pad = true))
LOSS(avg_pool_pairs, mf_avg_pool(in[0], POOL, .padding_low = MF_INTS(1, 2), .padding_high = MF_INTS(0, 1), .no_count_include_pad = true))

TEST(losses_are_optaxs)
{
    check_loss("softmax_cross_entropy", entropy);
    check_loss("softmax_cross_entropy_where", entropy_where);
    check_loss("softmax_cross_entropy_axis", entropy_axis);
    check_loss("softmax_cross_entropy_smooth", entropy_smooth);
    check_loss("softmax_cross_entropy_smooth", integers_smooth);
    check_loss("softmax_cross_entropy_weights", entropy_weights);
    check_loss("softmax_cross_entropy_weights", integers_weights);
    check_loss("integer_labels", integers);
    check_loss("integer_labels_where", integers_where);
    check_loss("integer_labels_axis", integers_axis);
    check_loss("smooth_labels", smooth);
    check_loss("sigmoid_binary_cross_entropy", binary);
    check_loss("hinge", hinge);
    check_loss("multiclass_hinge", multiclass_hinge);
    check_loss("squared_error", squared_error);
    check_loss("l2", l2);
    check_loss("huber", huber);
    check_loss("log_cosh", log_cosh);
    check_loss("perceptron", perceptron);
    check_loss("focal", focal);
    check_loss("focal_alpha", focal_alpha);
    check_loss("poly_loss", poly_loss);
    check_loss("generalized_kl", generalized_kl);
    check_loss("triplet", triplet);
    check_loss("triplet_4", triplet_4);
    check_loss("ntxent", ntxent);
    check_loss("ctc", ctc);
    check_loss("ctc_blank", ctc_blank);
    check_loss("kl_divergence", kl);
    check_loss("kl_divergence_zeros", kl);
    check_loss("kl_divergence_where", kl_where);
    check_loss("kl_divergence_log", kl_log);
    check_loss("cosine_similarity", similarity);
    check_loss("cosine_distance", distance);
}

TEST(pools_are_flaxs)
{
    check_loss("max_pool", max_pool);
    check_loss("min_pool", min_pool);
    check_loss("avg_pool", avg_pool);
    check_loss("avg_pool_alone", avg_pool_alone);
    check_loss("avg_pool_pairs", avg_pool_pairs);
}

/* ---- everything masked out */

static mf_value nowhere(mf_value logits)
{
    mf_value none = mf_zeros(MF_SHAPE(2, 3), MF_BOOL);
    mf_value a = mf_softmax_cross_entropy(logits, mf_ones(MF_SHAPE(2, 3), MF_F32), .where = none);
    mf_value b = mf_softmax_cross_entropy_with_integer_labels(logits, mf_zeros(MF_SHAPE(2), MF_I32), .where = none);
    return mf_sum(mf_add(a, b));
}

TEST(rows_that_are_masked_out_have_no_part)
{
    MF_SCOPE;
    mf_value x = mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3)), value, gradient;
    mf_unpack(mf_call(mf_value_and_grad(nowhere), x), &value, &gradient);
    CHECK_NEAR(mf_item_f64(value), 0, 0);
    CHECK_NEAR(mf_item_f64(mf_max(mf_abs(gradient))), 0, 0);
}

TEST(wrong_arguments_are_named)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(4, 10), MF_F32), integers_of_4 = mf_zeros(MF_SHAPE(4), MF_I32), wide = mf_ones(MF_SHAPE(4, 9), MF_F32);
    const struct {
        mf_value result;
        const char *words;
    } cases[] = {
        { mf_squared_error(x, wide), "squared_error: targets of the shape (4, 9) do not go with predictions of the shape (4, 10)" },
        { mf_huber_loss(integers_of_4, integers_of_4), "huber_loss: predictions are floats, not int32" },
        { mf_l2_loss(mf_list(x), x), "l2_loss: predictions are an array of floats, not a tree" },
        { mf_sigmoid_binary_cross_entropy(integers_of_4, 1), "logits are floats, not int32" },
        { mf_softmax_cross_entropy(x, x, .axis = 2), "softmax_cross_entropy: axis 2 is none of logits of the shape (4, 10)" },
        { mf_softmax_cross_entropy(x, x, .label_smoothing = 1.5), "label_smoothing is 1.5; it must be from 0 to 1" },
        { mf_softmax_cross_entropy(x, x, .weights = wide), "weights of the shape (4, 9) are not one for each of 10 classes" },
        { mf_perceptron_loss(x, mf_zeros(MF_SHAPE(5), MF_F32)), "perceptron_loss: targets of the shape (5,)" },
        { mf_sigmoid_focal_loss(mf_zeros(MF_SHAPE(2), MF_I32), x), "sigmoid_focal_loss: logits are floats, not int32" },
        { mf_triplet_margin_loss(x, x, mf_zeros(MF_SHAPE(5), MF_F32)), "triplet_margin_loss: targets of the shape (5,)" },
        { mf_ntxent(x, mf_zeros(MF_SHAPE(5), MF_I32)), "ntxent: labels of the shape (5,)" },
        { mf_ctc_loss(x, x, x, x), "ctc_loss: logits (n, t, classes) with paddings (n, t)" },
        { mf_multiclass_hinge_loss(x, mf_zeros(MF_SHAPE(5), MF_I32)), "multiclass_hinge_loss: labels of the shape (5,)" },
        { mf_kl_divergence(x, integers_of_4), "kl_divergence: targets are floats, not int32" },
        { mf_cosine_distance(x, mf_make_error(MF_ERROR_IO, "no targets")), "no targets" },
        { mf_avg_pool(x, .window_shape = MF_INTS(2), .padding_low = MF_INTS(1, 1)), "avg_pool" },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const char *message = mf_error(cases[i].result);
        if (!CHECK(message && strstr(message, cases[i].words)))
            CHECK_NOTE("case %d: %s", i, message ? message : "no error");
    }
}
