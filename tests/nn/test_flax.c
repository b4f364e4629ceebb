/* Layers, compared with flax.nnx: outputs, statistics and gradients from the same parameters; and initialisers, compared with JAX's. */
#include "check_values.h"
#include "nn/flax_answers.h"

/* ---- one layer */

typedef struct layer_case {
    mf_module m;
    flax_answers *a;
} layer_case;

/* (params, inputs) -> the sum of output * cotangent, and as auxiliary values the output and the statistics */
static mf_value weighted(void *context, mf_value params, mf_value inputs)
{
    const layer_case *c = context;
    mf_value in[8], stats = c->a->stats.handle ? c->a->stats : mf_dict_n(NULL, 0);
    int count = 0;
    for (; count < mf_len(inputs); count++)
        in[count] = mf_get(inputs, count);
    for (int i = count; i < c->a->in_count; i++)
        in[count++] = c->a->in[i]; /* integers */
    if (c->a->mask.handle)
        in[count++] = c->a->mask;
    mf_module m = mf_module_merge(c->m, params, stats);
    mf_value y = mf_call_n(mf_fn(m), in, count);
    mf_value after = mf_module_values(m, mf_of_type(MF_BATCH_STATE));
    return mf_tuple(mf_sum(mf_mul(y, c->a->cotangent)), mf_tuple(y, after));
}

static void check_layer(const char *name, mf_module m)
{
    MF_SCOPE;
    flax_answers a;
    if (!flax_read("layer", name, &a))
        return;
    layer_case c = { m, &a };
    mf_value floats = mf_list_n(a.in, a.din_count);
    mf_function f = mf_value_and_grad(mf_closure(weighted, &c), .argnums = MF_INTS(0, 1), .has_aux = true);
    mf_value value, gradients, loss, aux, grads, din;
    mf_unpack(mf_call(f, a.params, floats), &value, &gradients);
    const char *error = mf_error(value);
    if (!CHECK(!error)) {
        CHECK_NOTE("%s: %s", name, error);
        return;
    }
    mf_unpack(value, &loss, &aux);
    mf_unpack(gradients, &grads, &din);
    flax_near(name, "the output", mf_get(aux, 0), a.out, 1e-5);
    flax_near(name, "the gradient", grads, a.grads, 1e-5);
    if (a.after.handle)
        flax_near(name, "the statistics", mf_get(aux, 1), a.after, 1e-5);
    for (int i = 0; i < a.din_count; i++)
        flax_near(name, "the gradient of the input", mf_get(din, i), a.din[i], 1e-5);
}

TEST(linear_layers_are_flaxs)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    check_layer("linear", mf_nn_linear(r, 3, 4));
    check_layer("linear_plain", mf_nn_linear(r, 3, 2, .no_bias = true));
}

TEST(general_linear_layers_are_flaxs)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    check_layer("linear_general", mf_nn_linear_general(r, MF_INTS(2, 3), MF_INTS(4, 2), .axis = MF_INTS(1, -1)));
    check_layer("linear_general_inner", mf_nn_linear_general(r, MF_INTS(3), MF_INTS(2, 2), .axis = MF_INTS(-2), .no_bias = true));
    check_layer("linear_general_batch", mf_nn_linear_general(r, MF_INTS(3), MF_INTS(2, 4), .batch_sizes = MF_INTS(2)));
    check_layer("einsum", mf_nn_einsum(r, "nta,hab->nthb", MF_SHAPE(3, 2, 4), .bias_shape = MF_SHAPE(3, 4)));
    check_layer("einsum_plain", mf_nn_einsum(r, "ab, bc -> ca", MF_SHAPE(3, 2)));
    check_layer("einsum_dots", mf_nn_einsum(r, "...a,ab->...b", MF_SHAPE(3, 2), .bias_shape = MF_SHAPE(2)));
}

TEST(convolutions_are_flaxs)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    mf_value mask = mf_remainder(mf_reshape(mf_arange(12, MF_F32), MF_SHAPE(3, 2, 2)), 2);
    check_layer("conv", mf_nn_conv(r, 2, 3, .kernel_size = MF_INTS(3, 2)));
    check_layer("conv_valid",
                mf_nn_conv(r, 2, 2, .kernel_size = MF_INTS(3, 3), .strides = MF_INTS(2, 1), .padding = MF_VALID, .no_bias = true));
    check_layer("conv_line", mf_nn_conv(r, 2, 3, .kernel_size = MF_INTS(3), .strides = MF_INTS(2)));
    check_layer("conv_cube", mf_nn_conv(r, 1, 2, .kernel_size = MF_INTS(2, 2, 3)));
    check_layer("conv_groups", mf_nn_conv(r, 2, 4, .kernel_size = MF_INTS(2, 2), .feature_group_count = 2));
    check_layer("conv_dilated", mf_nn_conv(r, 2, 2, .kernel_size = MF_INTS(2, 2), .kernel_dilation = MF_INTS(2)));
    check_layer("conv_spread", mf_nn_conv(r, 2, 2, .kernel_size = MF_INTS(3, 3), .input_dilation = MF_INTS(2), .padding_low = MF_INTS(1, 0),
                                          .padding_high = MF_INTS(2, 1)));
    check_layer("conv_circular", mf_nn_conv(r, 2, 2, .kernel_size = MF_INTS(4, 3), .padding = MF_CIRCULAR));
    check_layer("conv_reflect", mf_nn_conv(r, 2, 2, .kernel_size = MF_INTS(4, 3), .padding = MF_REFLECT));
    check_layer("conv_causal", mf_nn_conv(r, 2, 2, .kernel_size = MF_INTS(3), .kernel_dilation = MF_INTS(2), .padding = MF_CAUSAL));
    check_layer("conv_mask", mf_nn_conv(r, 2, 2, .kernel_size = MF_INTS(3), .mask = mask));
    check_layer("conv_no_batch", mf_nn_conv(r, 2, 2, .kernel_size = MF_INTS(2, 2)));
    check_layer("conv_batches", mf_nn_conv(r, 2, 2, .kernel_size = MF_INTS(2)));
}

TEST(transposed_convolutions_are_flaxs)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    check_layer("conv_transpose", mf_nn_conv_transpose(r, 2, 3, .kernel_size = MF_INTS(3, 2), .strides = MF_INTS(2, 2)));
    check_layer("conv_transpose_valid", mf_nn_conv_transpose(r, 2, 2, .kernel_size = MF_INTS(3), .strides = MF_INTS(2), .padding = MF_VALID,
                                                             .kernel_dilation = MF_INTS(2)));
    check_layer("conv_transpose_wide", mf_nn_conv_transpose(r, 2, 2, .kernel_size = MF_INTS(2), .strides = MF_INTS(3)));
    check_layer("conv_transpose_circular",
                mf_nn_conv_transpose(r, 2, 2, .kernel_size = MF_INTS(4, 3), .strides = MF_INTS(2, 2), .padding = MF_CIRCULAR));
    check_layer("conv_transpose_gradient",
                mf_nn_conv_transpose(r, 2, 3, .kernel_size = MF_INTS(3, 2), .strides = MF_INTS(2, 1), .transpose_kernel = true));
    check_layer("conv_transpose_pairs", mf_nn_conv_transpose(r, 2, 2, .kernel_size = MF_INTS(3), .strides = MF_INTS(2),
                                                             .padding_low = MF_INTS(2), .padding_high = MF_INTS(1)));
}

static mf_value attend(mf_module self, mf_value x) { return mf_nn_embed_attend(self, x); }

TEST(embeddings_are_flaxs)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    check_layer("embed", mf_nn_embed(r, 5, 3));
    check_layer("embed_one", mf_nn_embed(r, 1, 3));
    mf_state table = mf_member_state(mf_nn_embed(r, 5, 3), "embedding");
    check_layer("embed_attend", mf_module_new("Attend", attend, "embedding", table, "dtype", MF_F32));
}

/* ---- initialisers */

TEST(initialisers_are_jaxs)
{
    MF_SCOPE;
    const struct {
        const char *name;
        mf_initializer init;
        mf_shape shape;
        double tolerance; /* 0: bit for bit */
    } cases[] = {
        { "uniform", mf_init_uniform(0.5), MF_SHAPE(3, 4), 0 },
        { "normal", mf_init_normal(0.02), MF_SHAPE(3, 4), 1e-6 },
        { "truncated_normal", mf_init_truncated_normal(0.1, -1, 2), MF_SHAPE(3, 4), 1e-6 },
        { "lecun_normal", mf_init_lecun_normal(), MF_SHAPE(3, 2, 5), 1e-6 },
        { "lecun_uniform", mf_init_lecun_uniform(), MF_SHAPE(3, 2, 5), 0 },
        { "glorot_normal", mf_init_glorot_normal(), MF_SHAPE(2, 3, 5), 1e-6 },
        { "glorot_uniform", mf_init_glorot_uniform(), MF_SHAPE(2, 3, 5), 0 },
        { "he_normal", mf_init_he_normal(), MF_SHAPE(7, 3), 1e-6 },
        { "he_uniform", mf_init_he_uniform(), MF_SHAPE(7, 3), 0 },
        { "geo", mf_init_variance_scaling(3, .mode = MF_FAN_GEO_AVG, .distribution = MF_INIT_UNIFORM), MF_SHAPE(7, 3), 0 },
        { "out", mf_init_variance_scaling(0.5, .mode = MF_FAN_OUT, .distribution = MF_INIT_NORMAL), MF_SHAPE(7, 3), 1e-6 },
        { "embedding", mf_init_variance_scaling(1, .distribution = MF_INIT_NORMAL, .out_axis = 0), MF_SHAPE(5, 4), 1e-6 },
        { "tall", mf_init_orthogonal(2), MF_SHAPE(5, 3), 1e-6 },
        { "wide", mf_init_orthogonal(1), MF_SHAPE(2, 2, 6), 1e-6 },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        flax_answers a;
        REQUIRE(flax_read("init", cases[i].name, &a));
        flax_near(cases[i].name, "the initialiser", mf_initialize(cases[i].init, mf_random_key(7), cases[i].shape, MF_F32), a.out,
                  cases[i].tolerance);
    }
    CHECK_NEAR(mf_item_f64(mf_max(mf_initialize(mf_init_constant(3), mf_random_key(7), MF_SHAPE(2), MF_F32))), 3, 0);
    CHECK_EQ_INT(mf_dtype_of(mf_initialize(mf_init_orthogonal(1), mf_random_key(7), MF_SHAPE(2, 2), MF_BF16)), MF_BF16);
}

static mf_value sevens(mf_value key, mf_shape shape, mf_dtype dtype)
{
    (void)key;
    (void)dtype;
    return mf_full(shape, 7);
}

TEST(layers_take_initialisers)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    mf_module m = mf_nn_linear(r, 2, 3, .kernel_init = mf_init_constant(2), .bias_init = mf_init_function(sevens));
    CHECK_STR(mf_str(mf_call(m, mf_ones(MF_SHAPE(1, 2), MF_F32))), "[[11. 11. 11.]]");
    m = mf_nn_conv(r, 1, 1, .kernel_size = MF_INTS(2), .kernel_init = mf_init_ones(), .param_dtype = MF_BF16);
    CHECK_EQ_INT(mf_dtype_of(mf_state_value(mf_member_state(m, "kernel"))), MF_BF16);
}

/* ---- wrong options and inputs */

TEST(wrong_options_and_inputs_name_the_layer)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    mf_value x = mf_ones(MF_SHAPE(2, 4, 4, 3), MF_F32);
    FAILS(mf_nn_linear(r, 0, 2), "Linear: in_features is 0; it must be at least 1");
    FAILS(mf_nn_linear_general(r, MF_INTS(2, 0), MF_INTS(2), .axis = MF_INTS(0, 1)), "all of them and of the batch_sizes are at least 1");
    FAILS(mf_nn_linear_general(r, MF_INTS(2, 3), MF_INTS(2)), "LinearGeneral: in_features has 2 sizes and axis 1; they must be as many");
    FAILS(mf_nn_einsum(r, "ab,bc", MF_SHAPE(3, 2)), "Einsum: the subscripts are \"ab,bc\"; they must name two operands");
    FAILS(mf_nn_einsum(r, "ab,bc,cd->ad", MF_SHAPE(3, 2)), "they must name two operands");
    FAILS(mf_nn_einsum(r, "ab,b...->a", MF_SHAPE(3)), "must be a letter for each dimension of its shape, (3,)");
    FAILS(mf_nn_einsum(r, "ab,bc->ac", MF_SHAPE(3)), "must be a letter for each dimension of its shape, (3,)");
    FAILS(mf_nn_conv(r, 3, 2, .kernel_size = MF_INTS(3, 3, 3, 3)), "Conv: kernel_size has 4 entries; there are 1 to 3 spatial dimensions");
    FAILS(mf_nn_conv(r, 3, 2, .kernel_size = MF_INTS(3, 3), .strides = MF_INTS(1, 1, 1)), "Conv: strides has 3 entries for 2");
    FAILS(mf_nn_conv(r, 3, 2, .kernel_size = MF_INTS(3, 0)), "Conv: entry 1 of kernel_size is 0");
    FAILS(mf_nn_conv(r, 3, 2, .feature_group_count = 2), "Conv: 3 features in and 2 out do not divide into 2 groups");
    FAILS(mf_nn_conv(r, 3, 2, .padding = MF_CAUSAL), "Conv: causal padding is for one spatial dimension, not 2");
    FAILS(mf_nn_conv(r, 3, 2, .padding = MF_SAME, .padding_low = MF_INTS(1, 1)), "Conv: padding is given by name and by numbers");
    FAILS(mf_nn_conv(r, 3, 2, .padding_low = MF_INTS(1, 1)), "Conv: padding_high has 0 entries for 2");
    FAILS(mf_nn_conv(r, 3, 2, .mask = mf_ones(MF_SHAPE(3), MF_F32)),
          "Conv: a mask of the shape (3,) does not go with a kernel of the shape");
    FAILS(mf_nn_conv_transpose(r, 3, 2, .padding = MF_CAUSAL), "ConvTranspose: padding is SAME, VALID, CIRCULAR or in numbers");
    FAILS(mf_call(mf_nn_linear_general(r, MF_INTS(3, 4), MF_INTS(2), .axis = MF_INTS(-1, 4)), x),
          "LinearGeneral: axis 4 does not suit an input of the shape (2, 4, 4, 3)");
    FAILS(mf_call(mf_nn_linear_general(r, MF_INTS(4, 4), MF_INTS(2), .axis = MF_INTS(1, -3)), x),
          "LinearGeneral: axis -3 does not suit an input of the shape (2, 4, 4, 3)");
    FAILS(mf_call(mf_nn_linear_general(r, MF_INTS(5), MF_INTS(2), .axis = MF_INTS(-2)), x),
          "LinearGeneral: axis -2 of an input of the shape (2, 4, 4, 3) is to be 5");
    FAILS(mf_call(mf_nn_linear_general(r, MF_INTS(3), MF_INTS(2), .batch_sizes = MF_INTS(3)), x),
          "LinearGeneral: an input of the shape (2, 4, 4, 3) is to begin with the batch_sizes, 3 along 0");
    FAILS(mf_call(mf_nn_einsum(r, "ab,bc->ac", MF_SHAPE(3, 2)), x), "einsum \"ab,bc->ac\"");
    FAILS(mf_call(mf_nn_linear(r, 4, 2), x), "Linear: the last dimension of an input of the shape (2, 4, 4, 3) is to be 4");
    FAILS(mf_call(mf_nn_conv(r, 2, 2), x), "Conv: the last dimension of an input of the shape (2, 4, 4, 3) is to be 2");
    FAILS(mf_call(mf_nn_conv(r, 3, 2), mf_ones(MF_SHAPE(4, 3), MF_F32)), "Conv: an input of the shape (4, 3) has no 2 spatial dimensions");
    FAILS(mf_call(mf_nn_conv(r, 3, 2, .kernel_size = MF_INTS(11, 11), .padding = MF_REFLECT), x), "reflecting padding by 5 and 5");
    FAILS(mf_call(mf_nn_embed(r, 4, 2), x), "Embed: positions in the table are integers, not float32");
    FAILS(mf_nn_embed_attend(mf_nn_embed(r, 4, 2), x), "Embed: the last dimension");
    FAILS(mf_call(mf_nn_linear(r, 4, 2), mf_make_error(MF_ERROR_IO, "no file")), "no file");
    FAILS(mf_nn_linear(r, 2, 2, .kernel_init = mf_init_variance_scaling(1, .in_axis = 5)), "has no inputs and outputs there");
    FAILS(mf_max_pool(x, .window_shape = MF_INTS(2, 2), .padding = MF_CIRCULAR), "padding is MF_SAME, MF_VALID or in numbers");
    FAILS(mf_conv_general_dilated(x, x, .padding = MF_CAUSAL), "padding is MF_SAME, MF_VALID or in numbers");
}

TEST(normalisations_are_flaxs)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    check_layer("batch_norm", mf_nn_batch_norm(r, 3));
    check_layer("batch_norm_running", mf_nn_eval(mf_nn_batch_norm(r, 3)));
    check_layer("batch_norm_options",
                mf_nn_batch_norm(r, 4, .axis = 1, .momentum = 0.5, .epsilon = 0.25, .no_bias = true, .no_fast_variance = true));
    check_layer("batch_norm_mask", mf_nn_batch_norm(r, 3, .no_scale = true));
    check_layer("layer_norm", mf_nn_layer_norm(r, 4));
    check_layer("layer_norm_axes", mf_nn_layer_norm(r, 4, .reduction_axes = MF_INTS(1, 2), .no_fast_variance = true, .epsilon = 0.5));
    check_layer("layer_norm_mask", mf_nn_layer_norm(r, 4));
    check_layer("rms_norm", mf_nn_rms_norm(r, 4));
    check_layer("group_norm", mf_nn_group_norm(r, 4, .num_groups = 2));
    check_layer("group_norm_size", mf_nn_group_norm(r, 6, .group_size = 2));
    check_layer("instance_norm", mf_nn_instance_norm(r, 4));
    check_layer("instance_norm_axes", mf_nn_instance_norm(r, 6, .feature_axes = MF_INTS(1, 3), .no_fast_variance = true));
}

TEST(layers_in_a_row_are_flaxs)
{
    MF_SCOPE;
    mf_state r = mf_random_state(0);
    check_layer("sequential", mf_nn_sequential(mf_nn_linear(r, 3, 4), mf_relu, mf_nn_linear(r, 4, 2)));
}

TEST(dropout_is_flaxs)
{
    MF_SCOPE;
    flax_answers a;
    REQUIRE(flax_read("init", "dropout", &a));
    mf_module m = mf_nn_dropout(mf_random_state(0), 0.25, .broadcast_dims = MF_INTS(-1));
    flax_near("dropout", "the output", mf_call(m, a.in[0], mf_random_key(7)), a.out, 1e-6); /* XLA multiplies by the reciprocal */
}
