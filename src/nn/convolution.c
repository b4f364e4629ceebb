/* flax.nnx's Conv and ConvTranspose for one to three spatial dimensions. Invariant: the options of a layer are valid, and its lists have
 * one entry for each spatial dimension. */
#include "nn/layer.h"

enum { MOST_SPATIAL = 3 };

/* ---- options */

/* Expands *list to one entry for each spatial dimension: it has that many already, or one for all, or none, which means ones. Returns
 * unset, or an error: a wrong count, or an entry below 1. */
static mf_value broadcast_list(const char *layer, const char *what, mf_ints *list, int spatial)
{
    if (list->count != 0 && list->count != 1 && list->count != spatial)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: %s has %d entries for %d spatial dimensions", layer, what, list->count, spatial);
    for (int i = 0; i < list->count; i++)
        if (list->at[i] < 1 || list->at[i] > INT32_MAX)
            return mf_make_error(MF_ERROR_ARGUMENT, "%s: entry %d of %s is %lld; it must be from 1 to 2^31 - 1", layer, i, what,
                                 (long long)list->at[i]);
    for (int i = list->count; i < spatial; i++)
        list->at[i] = list->count ? list->at[0] : 1;
    list->count = spatial;
    return (mf_value){ 0 };
}

static mf_value check_padding(const char *layer, mf_padding padding, const mf_ints *low, const mf_ints *high, int spatial)
{
    if (low->count == 0 && high->count == 0)
        return padding == MF_CAUSAL && spatial != 1
                   ? mf_make_error(MF_ERROR_ARGUMENT, "%s: causal padding is for one spatial dimension, not %d", layer, spatial)
                   : (mf_value){ 0 };
    if (padding != MF_PADDING_DEFAULT)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: padding is given by name and by numbers", layer);
    const mf_ints *wrong = low->count != spatial ? low : high->count != spatial ? high : NULL;
    if (wrong)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: padding_%s has %d entries for %d spatial dimensions", layer,
                             wrong == low ? "low" : "high", wrong->count, spatial);
    return (mf_value){ 0 };
}

/* Checks the options, expands their lists and sets *kernel to the kernel's shape. Returns unset, or an error. */
static mf_value check_options(const char *layer, int in_features, int out_features, mf_nn_conv_options *o, mf_shape *kernel)
{
    int spatial = o->kernel_size.count ? o->kernel_size.count : 2;
    if (spatial < 0 || spatial > MOST_SPATIAL)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: kernel_size has %d entries; there are 1 to %d spatial dimensions", layer, spatial,
                             MOST_SPATIAL);
    mf_value wrong = layer_check_count(layer, "in_features", in_features);
    wrong = wrong.handle ? wrong : layer_check_count(layer, "out_features", out_features);
    wrong = wrong.handle ? wrong : broadcast_list(layer, "kernel_size", &o->kernel_size, spatial);
    wrong = wrong.handle ? wrong : broadcast_list(layer, "strides", &o->strides, spatial);
    wrong = wrong.handle ? wrong : broadcast_list(layer, "input_dilation", &o->input_dilation, spatial);
    wrong = wrong.handle ? wrong : broadcast_list(layer, "kernel_dilation", &o->kernel_dilation, spatial);
    wrong = wrong.handle ? wrong : check_padding(layer, o->padding, &o->padding_low, &o->padding_high, spatial);
    if (wrong.handle)
        return wrong;
    int64_t groups = o->feature_group_count ? o->feature_group_count : 1;
    if (groups < 1 || in_features % groups || out_features % groups)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: %d features in and %d out do not divide into %lld groups", layer, in_features,
                             out_features, (long long)groups);
    o->feature_group_count = groups;
    kernel->rank = spatial + 2;
    for (int i = 0; i < spatial; i++)
        kernel->dims[i] = o->kernel_size.at[i];
    kernel->dims[spatial] = in_features / groups;
    kernel->dims[spatial + 1] = out_features;
    return (mf_value){ 0 };
}

static mf_value check_mask(const char *layer, mf_value mask, mf_shape kernel)
{
    mf_shape have = mask.handle ? mf_shape_of(mask) : kernel;
    bool same = have.rank == kernel.rank;
    for (int i = 0; same && i < kernel.rank; i++)
        same = have.dims[i] == kernel.dims[i];
    return same ? (mf_value){ 0 }
                : mf_make_error(MF_ERROR_SHAPE, "%s: a mask of the shape %s does not go with a kernel of the shape %s", layer,
                                mf_str_shape(have), mf_str_shape(kernel));
}

static void add_members(layer_members *m, int in_features, int out_features, const mf_nn_conv_options *o)
{
    layer_add(m, "in_features", mf_node_int(in_features));
    layer_add(m, "out_features", mf_node_int(out_features));
    layer_add(m, "kernel_size", mf_node_ints(o->kernel_size));
    layer_add(m, "strides", mf_node_ints(o->strides));
    layer_add(m, "padding", mf_node_int((int)o->padding));
    layer_add(m, "padding_low", mf_node_ints(o->padding_low));
    layer_add(m, "padding_high", mf_node_ints(o->padding_high));
    layer_add(m, "kernel_dilation", mf_node_ints(o->kernel_dilation));
    layer_add(m, "use_bias", mf_node_int(!o->no_bias));
    layer_add(m, "dtype", mf_node_int((int)o->dtype));
    layer_add(m, "mask", mf_node_value(o->mask.handle ? o->mask : mf_none()));
}

/* ---- the input: any number of batch dimensions, flattened to one meanwhile */

typedef struct batched {
    mf_value x;
    mf_shape batch; /* the dimensions before the spatial ones */
} batched;

static mf_value check_input(mf_module self, mf_value x, int spatial)
{
    mf_value wrong = layer_check_features(self, x, (int64_t)mf_member_number(self, "in_features"));
    if (wrong.handle)
        return wrong;
    mf_shape shape = mf_shape_of(x);
    if (shape.rank >= 0 && shape.rank < spatial + 1)
        return mf_make_error(MF_ERROR_SHAPE, "%s: an input of the shape %s has no %d spatial dimensions and features", mf_module_type(self),
                             mf_str_shape(shape), spatial);
    return (mf_value){ 0 };
}

static batched with_one_batch(mf_value x, int spatial)
{
    mf_shape shape = mf_shape_of(x), flat = { .rank = spatial + 2, .dims = { 1 } };
    batched b = { x, { .rank = shape.rank - spatial - 1 } };
    for (int i = 0; i < b.batch.rank; i++)
        flat.dims[0] *= b.batch.dims[i] = shape.dims[i];
    for (int i = 0; i <= spatial && b.batch.rank >= 0; i++)
        flat.dims[i + 1] = shape.dims[b.batch.rank + i];
    if (b.batch.rank >= 0 && b.batch.rank != 1)
        b.x = mf_reshape(x, flat);
    return b;
}

static mf_value with_all_batches(mf_value y, mf_shape batch)
{
    mf_shape shape = mf_shape_of(y);
    if (batch.rank == 1 || batch.rank < 0 || shape.rank < 0)
        return y;
    for (int i = 1; i < shape.rank; i++)
        batch.dims[batch.rank + i - 1] = shape.dims[i];
    batch.rank += shape.rank - 1;
    return mf_reshape(y, batch);
}

static mf_value kernel_of(mf_module self, mf_value x)
{
    mf_value kernel = mf_state_value(mf_member_state(self, "kernel")), mask = mf_member_value(self, "mask");
    if (mf_kind_of(mask) != MF_KIND_NONE)
        kernel = mf_mul(kernel, mask);
    return mf_astype(kernel, mf_dtype_of(x));
}

/* ---- circular and reflecting padding: jnp.pad's "wrap" and "reflect" */

/* Continues x periodically: `low` elements before it and `high` behind it. */
static mf_value wrapped(mf_value x, int axis, int64_t low, int64_t high)
{
    enum { MOST_PARTS = 64 };
    int64_t n = mf_dim(x, axis);
    if (n < 1 || low / n + high / n + 3 > MOST_PARTS)
        return mf_make_error(MF_ERROR_SHAPE, "Conv: circular padding by %lld and %lld of a dimension of %lld", (long long)low,
                             (long long)high, (long long)n);
    mf_value parts[MOST_PARTS];
    int count = 0;
    if (low % n)
        parts[count++] = mf_slice_in_dim(x, n - low % n, n, 1, axis);
    for (int64_t i = 0; i < low / n + 1 + high / n; i++)
        parts[count++] = x;
    if (high % n)
        parts[count++] = mf_slice_in_dim(x, 0, high % n, 1, axis);
    return count == 1 ? x : mf_concatenate(mf_list_n(parts, count), axis);
}

static mf_value reflected(mf_value x, int axis, int64_t low, int64_t high)
{
    int64_t n = mf_dim(x, axis);
    if (low >= n || high >= n)
        return mf_make_error(MF_ERROR_SHAPE, "Conv: reflecting padding by %lld and %lld of a dimension of %lld", (long long)low,
                             (long long)high, (long long)n);
    mf_value parts[3];
    int count = 0;
    if (low)
        parts[count++] = mf_flip(mf_slice_in_dim(x, 1, low + 1, 1, axis), axis);
    parts[count++] = x;
    if (high)
        parts[count++] = mf_flip(mf_slice_in_dim(x, n - 1 - high, n - 1, 1, axis), axis);
    return count == 1 ? x : mf_concatenate(mf_list_n(parts, count), axis);
}

static mf_value padded_by_itself(mf_value x, mf_padding padding, mf_ints size, mf_ints dilation)
{
    for (int i = 0; i < size.count; i++) {
        int64_t k = (size.at[i] - 1) * dilation.at[i] + 1, low = (k - 1) / 2, high = k / 2;
        x = padding == MF_CIRCULAR ? wrapped(x, i + 1, low, high) : reflected(x, i + 1, low, high);
    }
    return x;
}

/* ---- convolution */

static mf_value convolved(mf_module self, mf_value x)
{
    mf_padding padding = (mf_padding)mf_member_number(self, "padding");
    mf_ints size = mf_member_ints(self, "kernel_size"), dilation = mf_member_ints(self, "kernel_dilation");
    mf_conv_options o = { .window_strides = mf_member_ints(self, "strides"),
                          .lhs_dilation = mf_member_ints(self, "input_dilation"),
                          .rhs_dilation = dilation,
                          .padding_low = mf_member_ints(self, "padding_low"),
                          .padding_high = mf_member_ints(self, "padding_high"),
                          .feature_group_count = (int64_t)mf_member_number(self, "feature_group_count") };
    if (padding == MF_CIRCULAR || padding == MF_REFLECT)
        x = padded_by_itself(x, padding, size, dilation);
    else if (padding == MF_CAUSAL)
        x = mf_pad(x, 0, MF_INTS(0, dilation.at[0] * (size.at[0] - 1), 0), MF_INTS(0, 0, 0), MF_INTS(0, 0, 0));
    else if (o.padding_low.count == 0 && padding != MF_VALID)
        o.padding = MF_SAME;
    return mf_conv_general_dilated_opt(x, kernel_of(self, x), &o);
}

static mf_value conv_call(mf_module self, mf_value x)
{
    int spatial = mf_member_ints(self, "kernel_size").count;
    mf_value wrong = check_input(self, x, spatial);
    if (wrong.handle)
        return wrong;
    batched b = with_one_batch(layer_input(self, x), spatial);
    mf_value y = convolved(self, b.x);
    y = layer_has(self, "use_bias") ? mf_add(y, layer_param(self, "bias", y)) : y;
    return with_all_batches(y, b.batch);
}

mf_module mf_nn_conv_opt(mf_state rngs, int in_features, int out_features, const mf_nn_conv_options *o)
{
    MF_LAYER;
    mf_nn_conv_options full = o ? *o : (mf_nn_conv_options){ 0 };
    mf_shape kernel = { 0 };
    mf_value wrong = check_options("Conv", in_features, out_features, &full, &kernel);
    wrong = wrong.handle ? wrong : check_mask("Conv", full.mask, kernel);
    if (wrong.handle)
        return layer_error(wrong);
    layer_members m = { 0 };
    layer_add_param(&m, "kernel", rngs, full.kernel_init, mf_init_lecun_normal(), kernel, full.param_dtype);
    if (!full.no_bias)
        layer_add_param(&m, "bias", rngs, full.bias_init, mf_init_zeros(), MF_SHAPE(out_features), full.param_dtype);
    add_members(&m, in_features, out_features, &full);
    layer_add(&m, "input_dilation", mf_node_ints(full.input_dilation));
    layer_add(&m, "feature_group_count", mf_node_double((double)full.feature_group_count));
    return mf_module_n("Conv", (mf_fm)conv_call, 1, m.at, m.count);
}

/* ---- transposed convolution */

/* lax.conv_transpose's padding: with SAME the output is strides times as large as the input; with VALID (and CIRCULAR) it has all elements
 * that the kernel reaches. k: the size of the dilated kernel. */
static void transposed_padding(mf_padding padding, int64_t k, int64_t stride, int64_t *low, int64_t *high)
{
    bool valid = padding == MF_VALID || padding == MF_CIRCULAR;
    int64_t all = k + stride - 2 + (valid && k > stride ? k - stride : 0);
    *low = valid || stride > k - 1 ? k - 1 : (all + 1) / 2;
    *high = all - *low;
}

/* The kernel of the gradient of a convolution with this kernel: spatial dimensions flipped, input and output features swapped. */
static mf_value transposed_kernel(mf_value kernel, int spatial)
{
    for (int i = 0; i < spatial; i++)
        kernel = mf_flip(kernel, i);
    return mf_swapaxes(kernel, spatial, spatial + 1);
}

/* Circular padding: what lies beyond strides times the input's size wraps around and is added at the other end. */
static mf_value folded(mf_value y, mf_shape in, mf_ints strides, bool transpose_kernel)
{
    mf_ints low = { .count = in.rank }, high = { .count = in.rank }, interior = { .count = in.rank };
    for (int i = 1; i < in.rank - 1; i++) {
        int64_t size = in.dims[i] * strides.at[i - 1], twice = 2 * size, over = mf_dim(y, i) - size;
        int64_t missing = twice > 0 ? ((-over) % twice + twice) % twice : 0;
        low.at[i] = transpose_kernel ? missing / 2 : (missing + 1) / 2;
        high.at[i] = missing - low.at[i];
    }
    y = mf_pad(y, 0, low, high, interior);
    for (int i = 1; i < in.rank - 1; i++) {
        mf_shape shape = mf_shape_of(y), split = shape;
        int64_t size = in.dims[i] * strides.at[i - 1];
        if (shape.rank < 0 || size < 1 || shape.rank >= MF_MAX_RANK)
            return y;
        for (int k = shape.rank++; k > i; k--)
            split.dims[k] = split.dims[k - 1];
        split.rank = shape.rank;
        split.dims[i] /= size;
        split.dims[i + 1] = size;
        y = mf_sum(mf_reshape(y, split), .axis = i);
    }
    return y;
}

static mf_value transposed(mf_module self, mf_value x)
{
    mf_padding padding = (mf_padding)mf_member_number(self, "padding");
    mf_ints size = mf_member_ints(self, "kernel_size"), strides = mf_member_ints(self, "strides");
    bool transpose_kernel = layer_has(self, "transpose_kernel");
    mf_conv_options o = { .lhs_dilation = strides,
                          .rhs_dilation = mf_member_ints(self, "kernel_dilation"),
                          .padding_low = mf_member_ints(self, "padding_low"),
                          .padding_high = mf_member_ints(self, "padding_high") };
    if (o.padding_low.count == 0) {
        o.padding_low.count = o.padding_high.count = size.count;
        for (int i = 0; i < size.count; i++)
            transposed_padding(padding, (size.at[i] - 1) * o.rhs_dilation.at[i] + 1, strides.at[i], &o.padding_low.at[i],
                               &o.padding_high.at[i]);
    }
    mf_value kernel = kernel_of(self, x);
    mf_value y = mf_conv_general_dilated_opt(x, transpose_kernel ? transposed_kernel(kernel, size.count) : kernel, &o);
    return padding == MF_CIRCULAR ? folded(y, mf_shape_of(x), strides, transpose_kernel) : y;
}

static mf_value conv_transpose_call(mf_module self, mf_value x)
{
    int spatial = mf_member_ints(self, "kernel_size").count;
    mf_value wrong = check_input(self, x, spatial);
    if (wrong.handle)
        return wrong;
    batched b = with_one_batch(layer_input(self, x), spatial);
    mf_value y = transposed(self, b.x);
    y = layer_has(self, "use_bias") ? mf_add(y, layer_param(self, "bias", y)) : y;
    return with_all_batches(y, b.batch);
}

static mf_nn_conv_options as_conv_options(const mf_nn_conv_transpose_options *o)
{
    return (mf_nn_conv_options){ .kernel_size = o->kernel_size,
                                 .strides = o->strides,
                                 .padding = o->padding,
                                 .padding_low = o->padding_low,
                                 .padding_high = o->padding_high,
                                 .kernel_dilation = o->kernel_dilation,
                                 .no_bias = o->no_bias,
                                 .dtype = o->dtype,
                                 .mask = o->mask };
}

mf_module mf_nn_conv_transpose_opt(mf_state rngs, int in_features, int out_features, const mf_nn_conv_transpose_options *o)
{
    MF_LAYER;
    static const mf_nn_conv_transpose_options none;
    o = o ? o : &none;
    mf_nn_conv_options full = as_conv_options(o);
    mf_shape kernel = { 0 };
    mf_value wrong = full.padding == MF_CAUSAL || full.padding == MF_REFLECT
                         ? mf_make_error(MF_ERROR_ARGUMENT, "ConvTranspose: padding is SAME, VALID, CIRCULAR or in numbers")
                         : check_options("ConvTranspose", in_features, out_features, &full, &kernel);
    if (!wrong.handle && o->transpose_kernel) {
        kernel.dims[kernel.rank - 2] = out_features;
        kernel.dims[kernel.rank - 1] = in_features;
    }
    wrong = wrong.handle ? wrong : check_mask("ConvTranspose", o->mask, kernel);
    if (wrong.handle)
        return layer_error(wrong);
    layer_members m = { 0 };
    layer_add_param(&m, "kernel", rngs, o->kernel_init, mf_init_lecun_normal(), kernel, o->param_dtype);
    if (!o->no_bias)
        layer_add_param(&m, "bias", rngs, o->bias_init, mf_init_zeros(), MF_SHAPE(out_features), o->param_dtype);
    add_members(&m, in_features, out_features, &full);
    layer_add(&m, "transpose_kernel", mf_node_int(o->transpose_kernel));
    return mf_module_n("ConvTranspose", (mf_fm)conv_transpose_call, 1, m.at, m.count);
}
