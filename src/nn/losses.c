/* Losses, optax's names and formulas. */
#include <manyfold.h>

/* Unset, or the error that labels of another shape are. They go with the first `rank` dimensions of the logits, from the last one on; a 1
 * stretches. */
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

mf_value(mf_softmax_cross_entropy)(mf_value logits, mf_value labels)
{
    MF_LAYER;
    mf_value wrong = check_labels("softmax_cross_entropy", logits, labels, mf_ndim(logits), false,
                                  "one number for each of the logits is needed");
    if (wrong.handle)
        return wrong;
    return mf_neg(mf_sum(mf_mul(labels, mf_log_softmax(logits, -1)), .axis = -1));
}

mf_value(mf_softmax_cross_entropy_with_integer_labels)(mf_value logits, mf_value labels)
{
    MF_LAYER;
    mf_value wrong = check_labels("softmax_cross_entropy_with_integer_labels", logits, labels, mf_ndim(logits) - 1, true,
                                  "one label for each row of logits is needed");
    if (wrong.handle)
        return wrong;
    mf_value picked = mf_squeeze(mf_take_along_axis(logits, mf_expand_dims(labels, -1), -1), -1);
    return mf_sub(mf_logsumexp(logits, -1), picked);
}
