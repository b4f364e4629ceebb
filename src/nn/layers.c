/* Layers as modules of parameter states: convolution and linear, with flax's shapes and initialisers (kernel lecun_normal, bias zero).
 * Parameters are f32 masters, or of param_dtype; the product runs in the layer's dtype, or in the input's where it has none, so a bf16
 * input gives a bf16 layer. */
#include <manyfold.h>

#include <math.h>

/* variance_scaling(1, fan_in, truncated_normal): the constant is the standard deviation of a normal cut at 2. */
static mf_value lecun_normal(mf_state rngs, mf_shape shape, int64_t fan_in, mf_dtype dtype)
{
    mf_value x = mf_random_truncated_normal(mf_random_next(rngs), -2, 2, shape, dtype);
    return mf_mul(x, sqrt(1.0 / (double)fan_in) / .87962566103423978);
}

static mf_value in_dtype_of(mf_value x, mf_value parameter) { return mf_astype(parameter, mf_dtype_of(x)); }

static mf_value in_layers_dtype(mf_module self, mf_value x)
{
    mf_dtype dtype = (mf_dtype)mf_member_number(self, "dtype");
    return dtype == MF_DTYPE_DEFAULT ? x : mf_astype(x, dtype);
}

static mf_dtype parameters_dtype(mf_dtype dtype) { return dtype == MF_DTYPE_DEFAULT ? MF_F32 : dtype; }

static mf_value with_bias(mf_module self, mf_value x)
{
    if (mf_member_number(self, "use_bias") == 0)
        return x;
    return mf_add(x, in_dtype_of(x, mf_state_value(mf_member_state(self, "bias"))));
}

/* ---- convolution */

static mf_value conv_call(mf_module self, mf_value x)
{
    mf_value kernel = mf_state_value(mf_member_state(self, "kernel"));
    x = in_layers_dtype(self, x);
    mf_ints strides = MF_INTS((int64_t)mf_member_number(self, "stride_0"), (int64_t)mf_member_number(self, "stride_1"));
    mf_value y = mf_conv_general_dilated(x, in_dtype_of(x, kernel), .window_strides = strides,
                                         .padding = (mf_padding)mf_member_number(self, "padding"));
    return with_bias(self, y);
}

/* None, or what is wrong with a list of one or two numbers, of which the first stands for both. */
static mf_value check_sizes(const char *what, mf_ints list)
{
    if (list.count < 0 || list.count > 2)
        return mf_make_error(MF_ERROR_ARGUMENT, "conv: %s has %d entries for 2 spatial dimensions", what, list.count);
    for (int i = 0; i < list.count; i++)
        if (list.at[i] < 1 || list.at[i] > INT32_MAX)
            return mf_make_error(MF_ERROR_ARGUMENT, "conv: entry %d of %s is %lld; it must be from 1 to 2^31 - 1", i, what,
                                 (long long)list.at[i]);
    return mf_none();
}

mf_module mf_nn_conv_opt(mf_state rngs, int in_features, int out_features, const mf_nn_conv_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_conv(rngs, in_features, out_features);
    mf_value wrong = check_sizes("kernel_size", o->kernel_size);
    wrong = mf_is_error(wrong) ? wrong : check_sizes("strides", o->strides);
    if (mf_is_error(wrong))
        return (mf_module){ wrong.handle };
    int64_t h = o->kernel_size.count > 0 ? o->kernel_size.at[0] : 1, w = o->kernel_size.count > 1 ? o->kernel_size.at[1] : h;
    int stride_0 = o->strides.count > 0 ? (int)o->strides.at[0] : 1, stride_1 = o->strides.count > 1 ? (int)o->strides.at[1] : stride_0;
    mf_dtype dtype = parameters_dtype(o->param_dtype);
    int padding = o->padding == MF_PADDING_DEFAULT ? MF_SAME : (int)o->padding;
    mf_state kernel = mf_param_state(lecun_normal(rngs, MF_SHAPE(h, w, in_features, out_features), h * w * in_features, dtype));
    if (o->no_bias)
        return mf_module_new("Conv", conv_call, "kernel", kernel, "stride_0", stride_0, "stride_1", stride_1, "padding", padding,
                             "use_bias", 0, "dtype", (int)o->dtype);
    mf_state bias = mf_param_state(mf_zeros(MF_SHAPE(out_features), dtype));
    return mf_module_new("Conv", conv_call, "kernel", kernel, "bias", bias, "stride_0", stride_0, "stride_1", stride_1, "padding", padding,
                         "use_bias", 1, "dtype", (int)o->dtype);
}

/* ---- linear */

static mf_value linear_call(mf_module self, mf_value x)
{
    mf_value kernel = mf_state_value(mf_member_state(self, "kernel"));
    x = in_layers_dtype(self, x);
    return with_bias(self, mf_matmul(x, in_dtype_of(x, kernel)));
}

mf_module mf_nn_linear_opt(mf_state rngs, int in_features, int out_features, const mf_nn_linear_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_linear(rngs, in_features, out_features);
    mf_dtype dtype = parameters_dtype(o->param_dtype);
    mf_state kernel = mf_param_state(lecun_normal(rngs, MF_SHAPE(in_features, out_features), in_features, dtype));
    if (o->no_bias)
        return mf_module_new("Linear", linear_call, "kernel", kernel, "use_bias", 0, "dtype", (int)o->dtype);
    mf_state bias = mf_param_state(mf_zeros(MF_SHAPE(out_features), dtype));
    return mf_module_new("Linear", linear_call, "kernel", kernel, "bias", bias, "use_bias", 1, "dtype", (int)o->dtype);
}

/* ---- losses, optax's formulas */

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
