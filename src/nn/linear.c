/* flax.nnx's Linear and Embed, with its shapes and initialisers. Parameters are stored in param_dtype (f32 by default); the product is
 * computed in the layer's dtype or, if it has none, in the input's: a bf16 input gives a bf16 result. */
#include "nn/layer.h"

static bool is_float(mf_dtype d) { return d == MF_F16 || d == MF_BF16 || d == MF_F32 || d == MF_F64 || d == MF_C64 || d == MF_C128; }

mf_value layer_input(mf_module self, mf_value x)
{
    mf_dtype dtype = (mf_dtype)mf_member_number(self, "dtype");
    if (dtype == MF_DTYPE_DEFAULT)
        return is_float(mf_dtype_of(x)) ? x : mf_astype(x, MF_F32);
    return mf_astype(x, dtype);
}

mf_value layer_param(mf_module self, const char *name, mf_value x)
{
    return mf_astype(mf_state_value(mf_member_state(self, name)), mf_dtype_of(x));
}

bool layer_has(mf_module self, const char *flag) { return mf_member_number(self, flag) != 0; }

mf_value layer_check_features(mf_module self, mf_value x, int64_t features)
{
    mf_shape shape = mf_shape_of(x);
    if (shape.rank < 0 || (shape.rank > 0 && shape.dims[shape.rank - 1] == features))
        return (mf_value){ 0 };
    return mf_make_error(MF_ERROR_SHAPE, "%s: the last dimension of an input of the shape %s is to be %lld", mf_module_type(self),
                         mf_str_shape(shape), (long long)features);
}

/* ---- linear */

static mf_value linear_call(mf_module self, mf_value x)
{
    mf_value wrong = layer_check_features(self, x, (int64_t)mf_member_number(self, "in_features"));
    if (wrong.handle)
        return wrong;
    x = layer_input(self, x);
    mf_value y = mf_matmul(x, layer_param(self, "kernel", x));
    return layer_has(self, "use_bias") ? mf_add(y, layer_param(self, "bias", y)) : y;
}

mf_module mf_nn_linear_opt(mf_state rngs, int in_features, int out_features, const mf_nn_linear_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_linear(rngs, in_features, out_features);
    mf_value wrong = layer_check_count("Linear", "in_features", in_features);
    wrong = wrong.handle ? wrong : layer_check_count("Linear", "out_features", out_features);
    if (wrong.handle)
        return layer_error(wrong);
    layer_members m = { 0 };
    layer_add_param(&m, "kernel", rngs, o->kernel_init, mf_init_lecun_normal(), MF_SHAPE(in_features, out_features), o->param_dtype);
    if (!o->no_bias)
        layer_add_param(&m, "bias", rngs, o->bias_init, mf_init_zeros(), MF_SHAPE(out_features), o->param_dtype);
    layer_add(&m, "in_features", mf_node_int(in_features));
    layer_add(&m, "out_features", mf_node_int(out_features));
    layer_add(&m, "use_bias", mf_node_int(!o->no_bias));
    layer_add(&m, "dtype", mf_node_int((int)o->dtype));
    return mf_module_n("Linear", (mf_fm)linear_call, 1, m.at, m.count);
}

/* ---- embeddings */

static bool is_integer(mf_dtype d) { return d >= MF_I8 && d <= MF_U64; }

static mf_value table_of(mf_module self)
{
    mf_value table = mf_state_value(mf_member_state(self, "embedding"));
    mf_dtype dtype = (mf_dtype)mf_member_number(self, "dtype");
    return dtype == MF_DTYPE_DEFAULT ? table : mf_astype(table, dtype);
}

static mf_value embed_call(mf_module self, mf_value x)
{
    mf_value table = table_of(self);
    mf_shape shape = mf_shape_of(x);
    if (shape.rank >= 0 && !is_integer(mf_dtype_of(x)))
        return mf_make_error(MF_ERROR_DTYPE, "Embed: positions in the table are integers, not %s", mf_str_dtype(mf_dtype_of(x)));
    if (shape.rank >= 0 && shape.rank < MF_MAX_RANK && mf_dim(table, 0) == 1) {
        shape.dims[shape.rank++] = mf_dim(table, 1);
        return mf_broadcast_to(table, shape);
    }
    return mf_take(table, x, 0);
}

mf_value(mf_nn_embed_attend)(mf_module embed, mf_value query)
{
    MF_LAYER;
    mf_value table = table_of(embed);
    mf_value wrong = layer_check_features(embed, query, mf_dim(table, 1));
    if (mf_shape_of(table).rank == 2 && wrong.handle)
        return wrong;
    query = layer_input(embed, query);
    return mf_matmul(query, mf_transpose(mf_astype(table, mf_dtype_of(query)), MF_INTS(1, 0)));
}

mf_module mf_nn_embed_opt(mf_state rngs, int num_embeddings, int features, const mf_nn_embed_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_embed(rngs, num_embeddings, features);
    mf_value wrong = layer_check_count("Embed", "num_embeddings", num_embeddings);
    wrong = wrong.handle ? wrong : layer_check_count("Embed", "features", features);
    if (wrong.handle)
        return layer_error(wrong);
    layer_members m = { 0 };
    mf_initializer otherwise = mf_init_variance_scaling(1, .distribution = MF_INIT_NORMAL, .out_axis = 0);
    layer_add_param(&m, "embedding", rngs, o->embedding_init, otherwise, MF_SHAPE(num_embeddings, features), o->param_dtype);
    layer_add(&m, "num_embeddings", mf_node_int(num_embeddings));
    layer_add(&m, "features", mf_node_int(features));
    layer_add(&m, "dtype", mf_node_int((int)o->dtype));
    return mf_module_n("Embed", (mf_fm)embed_call, 1, m.at, m.count);
}
