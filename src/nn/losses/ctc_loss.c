/* Connectionist temporal classification: ctc_loss. Invariant: everything is in logarithms, with a large negative number for 0, so that
 * gradients are finite. */
#include "nn/losses/loss_checks.h"

/* (n, k + 1), (n, k): adds the scores to all states but the first. */
static mf_value with_scores(mf_value phi, mf_value added)
{
    mf_value first = mf_slice_in_dim(phi, 0, 1, 1, 1), later = mf_slice_in_dim(phi, 1, MF_END, 1, 1);
    return mf_concatenate(mf_list(first, mf_logaddexp(later, added)), 1);
}

static mf_value mixed(mf_value padding, mf_value before, mf_value after)
{
    return mf_add(mf_mul(padding, before), mf_mul(mf_sub(1, padding), after));
}

/* One time step. phi: the last symbol was blank; emit: it was label i. In a repeated label there must be a blank between. */
static mf_value step(void *log_epsilon, mf_value carry, mf_value x)
{
    mf_value phi, emit, repeat, log_emit, log_phi, padding;
    double never = *(double *)log_epsilon;
    mf_unpack(carry, &phi, &emit, &repeat);
    mf_unpack(x, &log_emit, &log_phi, &padding);
    mf_value reached = with_scores(phi, mf_add(emit, mf_mul(repeat, never)));
    mf_value front = mf_slice_in_dim(reached, 0, mf_dim(reached, 1) - 1, 1, 1);
    mf_value next_emit = mf_logaddexp(mf_add(front, log_emit), mf_add(emit, log_emit));
    mf_value by_blank = mf_add(mf_add(emit, log_phi), mf_mul(mf_sub(1, repeat), never));
    mf_value next_phi = with_scores(mf_add(reached, log_phi), by_blank);
    padding = mf_expand_dims(padding, 1);
    return mf_tuple(mf_tuple(mixed(padding, phi, next_phi), mixed(padding, emit, next_emit), repeat), mf_none());
}

static mf_value check_shapes(mf_value logits, mf_value logit_paddings, mf_value labels, mf_value label_paddings)
{
    mf_value wrong = loss_check_both(logits, logit_paddings);
    wrong = wrong.handle ? wrong : loss_check_both(labels, label_paddings);
    wrong = wrong.handle ? wrong : loss_check_floats("ctc_loss", "logits", logits);
    if (wrong.handle)
        return wrong;
    bool fits = mf_ndim(logits) == 3 && mf_ndim(labels) == 2 && mf_ndim(logit_paddings) == 2 && mf_ndim(label_paddings) == 2;
    for (int i = 0; fits && i < 2; i++)
        fits = mf_dim(logits, i) == mf_dim(logit_paddings, i) && mf_dim(labels, i) == mf_dim(label_paddings, i);
    if (fits && mf_dim(logits, 0) == mf_dim(labels, 0))
        return (mf_value){ 0 };
    return mf_make_error(
        MF_ERROR_SHAPE,
        "ctc_loss: logits (n, t, classes) with paddings (n, t), and labels (n, k) with paddings (n, k) are needed, not %s, "
        "%s, %s, %s",
        mf_str(mf_shape_of(logits)), mf_str(mf_shape_of(logit_paddings)), mf_str(mf_shape_of(labels)), mf_str(mf_shape_of(label_paddings)));
}

/* 1 where a label equals the next one. */
static mf_value repeated(mf_value labels, mf_dtype d)
{
    int64_t k = mf_dim(labels, 1);
    mf_value last = mf_zeros(MF_SHAPE(mf_dim(labels, 0), k > 0), d);
    if (k < 2)
        return last;
    mf_value equal = mf_equal(mf_slice_in_dim(labels, 0, k - 1, 1, 1), mf_slice_in_dim(labels, 1, k, 1, 1));
    return mf_concatenate(mf_list(mf_astype(equal, d), last), 1);
}

static const mf_ctc_loss_options usual = { .blank_id = 0, .log_epsilon = -1e5 };

mf_value mf_ctc_loss_opt(mf_value logits, mf_value logit_paddings, mf_value labels, mf_value label_paddings, const mf_ctc_loss_options *o)
{
    MF_LAYER;
    o = o ? o : &usual;
    mf_value wrong = check_shapes(logits, logit_paddings, labels, label_paddings);
    if (wrong.handle)
        return wrong;
    int classes = (int)mf_dim(logits, 2);
    if (o->blank_id < 0 || o->blank_id >= classes)
        return mf_make_error(MF_ERROR_ARGUMENT, "ctc_loss: the blank is class %d of %d", o->blank_id, classes);
    mf_dtype d = mf_dtype_of(logits);
    int64_t n = mf_dim(logits, 0), k = mf_dim(labels, 1);
    double never = o->log_epsilon;
    mf_value log_probs = mf_log_softmax(logits), chosen = mf_one_hot(labels, classes, .dtype = d);
    mf_value log_phi = mf_slice_in_dim(log_probs, o->blank_id, o->blank_id + 1, 1, 2);
    mf_value log_emit = mf_einsum("btk,bnk->btn", log_probs, chosen);
    mf_value paddings = mf_astype(logit_paddings, d);
    mf_value start = mf_full(MF_SHAPE(n, k), mf_scalar(never, d));
    mf_value carry = mf_tuple(mf_concatenate(mf_list(mf_zeros(MF_SHAPE(n, 1), d), start), 1), start, repeated(labels, d));
    mf_value steps = mf_tuple(mf_swapaxes(log_emit, 0, 1), mf_swapaxes(log_phi, 0, 1), mf_swapaxes(paddings, 0, 1));
    mf_value end = mf_scan(mf_closure(step, &never), carry, steps);
    if (mf_is_error(end))
        return end;
    mf_value last = with_scores(mf_get(end, 0, 0), mf_get(end, 0, 1));
    mf_value lengths = mf_sub(mf_i(k), mf_astype(mf_sum(label_paddings, .axis = 1), MF_I32));
    return mf_neg(mf_sum(mf_mul(last, mf_one_hot(lengths, (int)k + 1, .dtype = d)), .axis = 1));
}
