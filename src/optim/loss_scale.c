/* Loss scaling for f16, as jmp's DynamicLossScale: after `period` consecutive steps with finite gradients the scale is multiplied by the
 * factor; after a step with others it is divided by it. The state is a tree, so it works inside every transform. */
#include <manyfold.h>

mf_value mf_dynamic_loss_scale(double initial)
{
    MF_LAYER;
    return mf_dict("counter", mf_zeros(MF_SHAPE0, MF_I32), "loss_scale", mf_scalar(initial, MF_F32));
}

static mf_value times_leaf(void *by, mf_value x) { return mf_mul(x, mf_astype(*(mf_value *)by, mf_dtype_of(x))); }

mf_value(mf_loss_scale)(mf_value loss_scale, mf_value tree)
{
    MF_LAYER;
    mf_value by = mf_get(loss_scale, "loss_scale");
    return mf_tree_map(mf_closure(times_leaf, &by), tree);
}

mf_value(mf_loss_unscale)(mf_value loss_scale, mf_value tree)
{
    MF_LAYER;
    mf_value by = mf_div(1, mf_get(loss_scale, "loss_scale"));
    return mf_tree_map(mf_closure(times_leaf, &by), tree);
}

mf_value mf_loss_scale_adjust_opt(mf_value loss_scale, mf_value grads_finite, const mf_loss_scale_adjust_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_loss_scale_adjust(loss_scale, grads_finite);
    if (o->period < 1)
        return mf_make_error(MF_ERROR_ARGUMENT, "loss_scale_adjust: a period of %d steps; at least 1 is needed", o->period);
    mf_value scale = mf_get(loss_scale, "loss_scale"), counter = mf_get(loss_scale, "counter"), grown = mf_mul(scale, o->factor);
    mf_value grows = mf_logical_and(mf_equal(counter, o->period - 1), mf_isfinite(grown));
    mf_value shrunk = mf_maximum(mf_div(scale, o->factor), o->min_loss_scale);
    return mf_dict("counter", mf_where(grads_finite, mf_remainder(mf_add(counter, 1), o->period), 0), "loss_scale",
                   mf_where(grads_finite, mf_where(grows, grown, scale), shrunk));
}

static mf_value and_finite(mf_value so_far, mf_value x) { return mf_logical_and(so_far, mf_all(mf_isfinite(x))); }

mf_value(mf_tree_all_finite)(mf_value tree)
{
    MF_LAYER;
    return mf_tree_reduce(and_finite, tree, mf_b(true));
}
