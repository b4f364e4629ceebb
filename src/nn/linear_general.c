/* flax.nnx's linear layers over several dimensions: LinearGeneral contracts the given axes of its input, Einsum computes a given einsum of
 * input and kernel. The dtype of the computation follows Linear's rules. */
#include "nn/layer.h"

#include <string.h>

typedef long long number;

static bool is_list(mf_ints sizes, int least) { return sizes.count >= least && sizes.count <= MF_MAX_RANK; }

/* The product of the sizes; 0 if a size is below 1 or the product exceeds INT32_MAX. */
static int64_t product_of(mf_ints sizes)
{
    int64_t product = 1;
    for (int i = 0; i < sizes.count; i++) {
        if (sizes.at[i] < 1 || sizes.at[i] > INT32_MAX / product)
            return 0;
        product *= sizes.at[i];
    }
    return product;
}

static void append(mf_shape *s, mf_ints sizes)
{
    for (int i = 0; i < sizes.count && s->rank < MF_MAX_RANK; i++)
        s->dims[s->rank++] = sizes.at[i];
}

/* ---- LinearGeneral */

/* Sets at[] to the contracted axes of x, counted from 0. Returns unset, or an error. */
static mf_value find_axes(mf_module self, mf_value x, int64_t *at)
{
    mf_ints axes = mf_member_ints(self, "axis"), sizes = mf_member_ints(self, "in_features"), batch = mf_member_ints(self, "batch_sizes");
    mf_shape shape = mf_shape_of(x);
    if (shape.rank < 0)
        return x;
    for (int i = 0; i < axes.count; i++) {
        at[i] = axes.at[i] < 0 ? axes.at[i] + shape.rank : axes.at[i];
        bool inside = at[i] >= batch.count && at[i] < shape.rank;
        for (int k = 0; k < i; k++)
            inside = inside && at[k] != at[i];
        if (!inside)
            return mf_make_error(MF_ERROR_SHAPE, "LinearGeneral: axis %lld does not suit an input of the shape %s", (number)axes.at[i],
                                 mf_str_shape(shape));
        if (shape.dims[at[i]] != sizes.at[i])
            return mf_make_error(MF_ERROR_SHAPE, "LinearGeneral: axis %lld of an input of the shape %s is to be %lld", (number)axes.at[i],
                                 mf_str_shape(shape), (number)sizes.at[i]);
    }
    for (int i = 0; i < batch.count; i++)
        if (i >= shape.rank || shape.dims[i] != batch.at[i])
            return mf_make_error(MF_ERROR_SHAPE, "LinearGeneral: an input of the shape %s is to begin with the batch_sizes, %lld along %d",
                                 mf_str_shape(shape), (number)batch.at[i], i);
    return (mf_value){ 0 };
}

static mf_value add_general_bias(mf_module self, mf_value y)
{
    mf_ints batch = mf_member_ints(self, "batch_sizes"), out = mf_member_ints(self, "out_features");
    mf_shape shape = { 0 };
    append(&shape, batch);
    while (shape.rank + out.count < mf_ndim(y))
        shape.dims[shape.rank++] = 1;
    append(&shape, out);
    return mf_add(y, mf_reshape(layer_param(self, "bias", y), shape));
}

/* first, first + 1, ... */
static mf_ints counting(int first, int count)
{
    mf_ints list = { .count = count };
    for (int i = 0; i < count; i++)
        list.at[i] = first + i;
    return list;
}

static mf_value general_call(mf_module self, mf_value x)
{
    mf_ints axes = mf_member_ints(self, "axis");
    int batches = mf_member_ints(self, "batch_sizes").count;
    mf_value wrong = find_axes(self, x, axes.at);
    if (wrong.handle)
        return wrong;
    x = layer_input(self, x);
    mf_value y = mf_dot_general(x, layer_param(self, "kernel", x), .lhs_contracting = axes,
                                .rhs_contracting = counting(batches, axes.count), .lhs_batch = counting(0, batches),
                                .rhs_batch = counting(0, batches));
    return layer_has(self, "use_bias") && mf_ndim(y) >= 0 ? add_general_bias(self, y) : y;
}

/* Initialised in the shape `made`, a matrix or vector, because that determines the initialiser's fans, as in Flax; then reshaped. */
static void add_reshaped(layer_members *m, const char *name, mf_state rngs, mf_initializer init, mf_shape made, mf_shape shape,
                         mf_dtype dtype)
{
    mf_value key = init.draws ? mf_random_next(rngs) : mf_none();
    layer_add(m, name, mf_node_state(mf_param_state(mf_reshape(mf_initialize(init, key, made, dtype), shape))));
}

static mf_value check_general(mf_ints in, mf_ints out, mf_ints axis, mf_ints batch)
{
    if (!is_list(in, 1) || !is_list(out, 1) || !is_list(batch, 0) || !product_of(in) || !product_of(out) || !product_of(batch))
        return mf_make_error(MF_ERROR_ARGUMENT,
                             "LinearGeneral: in_features and out_features have at least one size, and all of them and of "
                             "the batch_sizes are at least 1");
    if (in.count != axis.count)
        return mf_make_error(MF_ERROR_ARGUMENT, "LinearGeneral: in_features has %d sizes and axis %d; they must be as many", in.count,
                             axis.count);
    for (int i = 0; i < axis.count; i++)
        if (axis.at[i] < -MF_MAX_RANK || axis.at[i] >= MF_MAX_RANK)
            return mf_make_error(MF_ERROR_AXIS, "LinearGeneral: axis %lld is none of an array's, which has at most %d", (number)axis.at[i],
                                 MF_MAX_RANK);
    if (batch.count + in.count + out.count > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "LinearGeneral: a kernel of %d dimensions; there are %d at most",
                             batch.count + in.count + out.count, MF_MAX_RANK);
    return (mf_value){ 0 };
}

mf_module mf_nn_linear_general_opt(mf_state rngs, mf_ints in_features, mf_ints out_features, const mf_nn_linear_general_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_linear_general(rngs, in_features, out_features);
    mf_ints axis = o->axis.count ? o->axis : MF_INTS(-1), batch = o->batch_sizes;
    mf_value wrong = check_general(in_features, out_features, axis, batch);
    if (wrong.handle)
        return layer_error(wrong);
    int64_t batches = product_of(batch), in = product_of(in_features), out = product_of(out_features);
    mf_shape kernel = { 0 }, bias = { 0 };
    append(&kernel, batch);
    append(&kernel, in_features);
    append(&kernel, out_features);
    append(&bias, batch);
    append(&bias, out_features);
    layer_members m = { 0 };
    add_reshaped(&m, "kernel", rngs, o->kernel_init.make ? o->kernel_init : mf_init_lecun_normal(), MF_SHAPE(batches * in, out), kernel,
                 o->param_dtype);
    if (!o->no_bias)
        add_reshaped(&m, "bias", rngs, o->bias_init.make ? o->bias_init : mf_init_zeros(), MF_SHAPE(batches * out), bias, o->param_dtype);
    layer_add(&m, "in_features", mf_node_ints(in_features));
    layer_add(&m, "out_features", mf_node_ints(out_features));
    layer_add(&m, "axis", mf_node_ints(axis));
    layer_add(&m, "batch_sizes", mf_node_ints(batch));
    layer_add(&m, "use_bias", mf_node_int(!o->no_bias));
    layer_add(&m, "dtype", mf_node_int((int)o->dtype));
    return mf_module_n("LinearGeneral", (mf_fm)general_call, 1, m.at, m.count);
}

/* ---- Einsum */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* The shape in which the bias broadcasts to the result y. The dimensions of y are the letters of the last term and those of its "..."; the
 * bias has the kernel's size along each letter that the kernel has, else 1. */
static mf_shape bias_beside(const char *subscripts, mf_value kernel, mf_value y)
{
    const char *second = strchr(subscripts, ',') + 1, *arrow = strstr(second, "->"), *last = arrow + 2;
    mf_shape sizes = mf_shape_of(kernel), shape = { 0 };
    int letters = 0;
    for (const char *p = last; *p; p++)
        letters += is_letter(*p);
    for (const char *p = last; *p; p++) {
        int at = 0;
        const char *k = second;
        for (; k < arrow && *k != *p; k++)
            at += is_letter(*k);
        if (is_letter(*p))
            shape.dims[shape.rank++] = k < arrow ? sizes.dims[at] : 1;
        for (int i = letters; *p == '.' && p[1] == '.' && p[2] == '.' && i < mf_ndim(y); i++)
            shape.dims[shape.rank++] = 1;
    }
    return shape;
}

static mf_value einsum_call(mf_module self, mf_value x)
{
    const char *subscripts = mf_member_text(self, "einsum_str");
    x = layer_input(self, x);
    mf_value kernel = layer_param(self, "kernel", x), both[] = { x, kernel }, y = mf_einsum_n(subscripts, both, 2);
    if (!layer_has(self, "use_bias") || mf_ndim(y) < 0)
        return y;
    return mf_add(y, mf_reshape(layer_param(self, "bias", y), bias_beside(subscripts, kernel, y)));
}

static mf_value check_subscripts(const char *subscripts, mf_shape kernel)
{
    if (kernel.rank < 1 || kernel.rank > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "Einsum: the kernel has between 1 and %d dimensions, not %d", MF_MAX_RANK, kernel.rank);
    const char *comma = subscripts ? strchr(subscripts, ',') : NULL, *arrow = comma ? strstr(comma, "->") : NULL;
    if (!arrow || strchr(comma + 1, ','))
        return mf_make_error(MF_ERROR_ARGUMENT,
                             "Einsum: the subscripts are \"%s\"; they must name two operands and, after \"->\", the result",
                             subscripts ? subscripts : "");
    int letters = 0;
    bool dots = false;
    for (const char *p = comma; p < arrow; p++) {
        letters += is_letter(*p);
        dots = dots || *p == '.';
    }
    if (dots || letters != kernel.rank)
        return mf_make_error(MF_ERROR_SHAPE,
                             "Einsum: the kernel's subscripts in \"%s\" must be a letter for each dimension of its shape, %s", subscripts,
                             mf_str_shape(kernel));
    return (mf_value){ 0 };
}

mf_module mf_nn_einsum_opt(mf_state rngs, const char *subscripts, mf_shape kernel_shape, const mf_nn_einsum_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_einsum(rngs, subscripts, kernel_shape);
    mf_value wrong = check_subscripts(subscripts, kernel_shape);
    if (wrong.handle)
        return layer_error(wrong);
    bool bias = o->bias_shape.rank > 0;
    layer_members m = { 0 };
    layer_add_param(&m, "kernel", rngs, o->kernel_init, mf_init_lecun_normal(), kernel_shape, o->param_dtype);
    if (bias)
        layer_add_param(&m, "bias", rngs, o->bias_init, mf_init_zeros(), o->bias_shape, o->param_dtype);
    layer_add(&m, "einsum_str", mf_node_name(subscripts));
    layer_add(&m, "use_bias", mf_node_int(bias));
    layer_add(&m, "dtype", mf_node_int((int)o->dtype));
    return mf_module_n("Einsum", (mf_fm)einsum_call, 1, m.at, m.count);
}
