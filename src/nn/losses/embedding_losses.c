/* Losses of embeddings: triplet_margin_loss, ntxent. */
#include "nn/losses/loss_checks.h"

#include <float.h>
#include <math.h>

static const mf_triplet_margin_loss_options usual = { .axis = -1, .norm_degree = 2, .margin = 1, .eps = 1e-6 };

static mf_value distance(mf_value a, mf_value b, const mf_triplet_margin_loss_options *o)
{
    double degree = o->norm_degree;
    bool whole = degree == floor(degree) && fabs(degree) < 1e6;
    mf_value power = whole ? mf_integer_pow(mf_sub(a, b), (int)degree) : mf_pow(mf_sub(a, b), degree);
    return mf_pow(mf_add(mf_sum(power, .axis = o->axis), o->eps), 1 / degree);
}

mf_value mf_triplet_margin_loss_opt(mf_value anchors, mf_value positives, mf_value negatives, const mf_triplet_margin_loss_options *o)
{
    MF_LAYER;
    o = o ? o : &usual;
    mf_value wrong = loss_check_same("triplet_margin_loss", anchors, positives);
    wrong = wrong.handle ? wrong : loss_check_same("triplet_margin_loss", anchors, negatives);
    if (wrong.handle)
        return wrong;
    return mf_maximum(mf_add(mf_sub(distance(anchors, positives, o), distance(anchors, negatives, o)), o->margin), 0);
}

/* Rows are anchors, columns their partners. */
mf_value(mf_ntxent)(mf_value embeddings, mf_value labels, double temperature)
{
    MF_LAYER;
    mf_value wrong = loss_check_floats_with("ntxent", "embeddings", embeddings, labels);
    if (wrong.handle)
        return wrong;
    if (mf_ndim(embeddings) != 2 || mf_ndim(labels) != 1 || mf_dim(labels, 0) != mf_dim(embeddings, 0))
        return mf_make_error(MF_ERROR_SHAPE,
                             "ntxent: labels of the shape %s do not go with embeddings of the shape %s; (n) and (n, d) are needed",
                             mf_str(mf_shape_of(labels)), mf_str(mf_shape_of(embeddings)));
    int64_t n = mf_dim(labels, 0);
    double epsilon = mf_dtype_of(embeddings) == MF_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    mf_value cosine = mf_cosine_similarity(mf_expand_dims(embeddings, 0), mf_expand_dims(embeddings, 1), .epsilon = epsilon);
    mf_value logits = mf_div(cosine, temperature), self = mf_eye(n, MF_BOOL);
    mf_value same = mf_equal(mf_expand_dims(labels, 1), mf_expand_dims(labels, 0)), match = mf_logical_and(same, mf_logical_not(self));
    mf_value most = mf_stop_gradient(mf_max(mf_where(self, -(double)INFINITY, logits), .axis = 1, .keepdims = true));
    mf_value shifted = mf_sub(logits, most), size = mf_exp(mf_where(self, 0, shifted));
    mf_value others = mf_sum(mf_where(same, 0, size), .axis = 1, .keepdims = true);
    mf_value all = mf_where(match, mf_add(others, size), 1), each = mf_where(match, mf_sub(shifted, mf_log(all)), 0);
    return mf_neg(mf_div(mf_sum(each), mf_sum(mf_astype(match, mf_dtype_of(each)))));
}
