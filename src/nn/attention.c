/* Attention as in Flax NNX: scaled dot-product attention, rotary position embeddings, masks, and MultiHeadAttention with its KV cache.
 * Queries, keys and values are (..., length, heads, depth); logits, weights and masks are (..., heads, queries, keys). For 16-bit inputs
 * logits and softmax are computed in f32, as in jax.nn.dot_product_attention. */
#include "nn/layer.h"

#include <math.h>

static bool wide(mf_dtype dtype) { return dtype != MF_F16 && dtype != MF_BF16; }
static mf_value in_dtype(mf_value x, mf_dtype dtype) { return dtype == MF_DTYPE_DEFAULT ? x : mf_astype(x, dtype); }
static bool failed(mf_value x) { return mf_kind_of(x) == MF_KIND_ERROR; } /* does not wait for x, unlike mf_is_error */

/* Reshapes x: its first `keep` dimensions stay, the rest become `last`. */
static mf_value reshape_last(mf_value x, int keep, int count, const int64_t *last)
{
    mf_shape shape = mf_shape_of(x);
    shape.rank = keep + count;
    if (shape.rank > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "attention: %d dimensions are needed, and there can be %d", shape.rank, MF_MAX_RANK);
    for (int i = 0; i < count; i++)
        shape.dims[keep + i] = last[i];
    return mf_reshape(x, shape);
}

/* ---- the scaled dot product */

/* None, or an error: the query a and b, the operand called `name`, do not fit. */
static mf_value check_operands(mf_value a, mf_value b, const char *name)
{
    mf_shape q = mf_shape_of(a), k = mf_shape_of(b);
    if (failed(a) || failed(b))
        return failed(a) ? a : b;
    if (q.rank < 3 || q.rank != k.rank)
        return mf_make_error(MF_ERROR_SHAPE, "attention: query %s and %s %s must have one rank, 3 or more: (..., length, heads, depth)",
                             mf_str_shape(q), name, mf_str_shape(k));
    for (int i = 0; i < q.rank - 3; i++)
        if (q.dims[i] != k.dims[i])
            return mf_make_error(MF_ERROR_SHAPE, "attention: query %s and %s %s differ in batch dimension %d", mf_str_shape(q), name,
                                 mf_str_shape(k), i);
    int64_t heads = q.dims[q.rank - 2], kv_heads = k.dims[k.rank - 2];
    if (kv_heads < 1 || heads % kv_heads != 0)
        return mf_make_error(MF_ERROR_SHAPE, "attention: %lld heads of the query are no multiple of %lld heads of the %s", (long long)heads,
                             (long long)kv_heads, name);
    return mf_none();
}

/* Contracts the last dimension of a with the depth of b, or with its length if over_length, for each batch entry and head. a_by_head: a is
 * (batch, heads, length, ...), else (batch, length, heads, ...). */
static mf_value product(mf_value a, mf_value b, bool a_by_head, bool over_length, mf_dtype wanted)
{
    int rank = mf_ndim(a), b_rank = mf_ndim(b), batch = b_rank - 3;
    mf_ints a_batch = MF_INTS0, b_batch = MF_INTS0;
    for (int i = 0; i < batch; i++)
        a_batch.at[i] = b_batch.at[i] = i;
    a_batch.count = b_batch.count = batch + 1;
    a_batch.at[batch] = a_by_head ? batch : batch + 1;
    b_batch.at[batch] = b_rank - 2;
    return mf_dot_general(a, b, .lhs_contracting = MF_INTS(rank - 1), .rhs_contracting = MF_INTS(over_length ? b_rank - 3 : b_rank - 1),
                          .lhs_batch = a_batch, .rhs_batch = b_batch, .preferred_element_type = wanted);
}

/* (..., q, heads, d), (..., k, kv_heads, d) -> (..., heads, q, k). In grouped-query attention (kv_heads < heads), the query heads that
 * share a key head are a separate dimension meanwhile. */
static mf_value logits_of(mf_value query, mf_value key)
{
    int rank = mf_ndim(query);
    int64_t heads = mf_dim(query, -2), kv_heads = mf_dim(key, -2), depth = mf_dim(query, -1);
    mf_dtype wanted = wide(mf_dtype_of(query)) ? MF_DTYPE_DEFAULT : MF_F32;
    if (heads == kv_heads)
        return product(query, key, false, false, wanted);
    query = reshape_last(query, rank - 2, 3, (int64_t[]){ kv_heads, heads / kv_heads, depth });
    mf_value logits = mf_swapaxes(product(query, key, false, false, wanted), -3, -2); /* (..., kv_heads, group, q, k) */
    return reshape_last(logits, rank - 3, 3, (int64_t[]){ heads, mf_dim(logits, -2), mf_dim(logits, -1) });
}

/* True where a query may attend to a key: the mask and, if causal, no later keys. Unset: everywhere. */
static mf_value mask_of(mf_value mask, bool causal, mf_value logits)
{
    mf_value seen = { 0 };
    if (mask.handle && mf_kind_of(mask) != MF_KIND_NONE)
        seen = mf_not_equal(mask, 0);
    if (!causal)
        return seen;
    mf_shape square = MF_SHAPE(mf_dim(logits, -2), mf_dim(logits, -1));
    mf_value earlier = mf_greater_equal(mf_iota(MF_I32, square, 0), mf_iota(MF_I32, square, 1));
    return seen.handle ? mf_logical_and(seen, earlier) : earlier;
}

static mf_value drop_weights(mf_value weights, int rank, const mf_dot_product_attention_options *o)
{
    if (!o->dropout_rng.handle)
        return mf_make_error(MF_ERROR_ARGUMENT, "attention: dropout needs a key, .dropout_rng");
    mf_shape shape = mf_shape_of(weights);
    for (int i = 0; !o->no_broadcast_dropout && i < rank - 2; i++)
        shape.dims[i] = 1;
    double keep = 1 - o->dropout_rate;
    mf_value kept = mf_astype(mf_random_bernoulli(o->dropout_rng, keep, shape), mf_dtype_of(weights));
    return mf_mul(weights, mf_div(kept, keep));
}

static mf_value weights_of(mf_value query, mf_value key, const mf_dot_product_attention_options *o)
{
    if (!(o->dropout_rate >= 0 && o->dropout_rate < 1))
        return mf_make_error(MF_ERROR_ARGUMENT, "attention: dropout_rate is %g; it must be at least 0 and below 1", o->dropout_rate);
    mf_value logits = mf_mul(logits_of(query, key), 1 / sqrt((double)mf_dim(query, -1)));
    if (o->bias.handle)
        logits = mf_add(logits, o->bias);
    mf_value seen = mask_of(o->mask, o->is_causal, logits);
    if (seen.handle) /* finite, so a fully masked row gets uniform weights, as in JAX */
        logits = mf_where(seen, logits, mf_scalar(-0.7 * 3.4028234663852886e38, mf_dtype_of(logits)));
    mf_value weights = mf_astype(mf_softmax(logits, -1), mf_dtype_of(query));
    return o->dropout_rate > 0 && !o->deterministic ? drop_weights(weights, mf_ndim(query), o) : weights;
}

mf_value mf_dot_product_attention_weights_opt(mf_value query, mf_value key, const mf_dot_product_attention_options *o)
{
    MF_LAYER;
    mf_dot_product_attention_options none = { 0 };
    o = o ? o : &none;
    mf_value wrong = check_operands(query, key, "key");
    if (failed(wrong))
        return wrong;
    if (mf_dim(query, -1) != mf_dim(key, -1))
        return mf_make_error(MF_ERROR_SHAPE, "attention: query %s and key %s differ in depth", mf_str_shape(mf_shape_of(query)),
                             mf_str_shape(mf_shape_of(key)));
    return weights_of(in_dtype(query, o->dtype), in_dtype(key, o->dtype), o);
}

/* (..., heads, q, k), (..., k, kv_heads, d) -> (..., q, heads, d) */
static mf_value weighted(mf_value weights, mf_value value)
{
    int rank = mf_ndim(value);
    int64_t heads = mf_dim(weights, -3), kv_heads = mf_dim(value, -2), queries = mf_dim(weights, -2), keys = mf_dim(weights, -1);
    if (heads == kv_heads)
        return mf_swapaxes(product(weights, value, true, true, MF_DTYPE_DEFAULT), -3, -2);
    weights = reshape_last(weights, rank - 3, 4, (int64_t[]){ kv_heads, heads / kv_heads, queries, keys });
    mf_value out = product(weights, value, true, true, MF_DTYPE_DEFAULT);
    return mf_swapaxes(reshape_last(out, rank - 3, 3, (int64_t[]){ heads, queries, mf_dim(value, -1) }), -3, -2);
}

mf_value mf_dot_product_attention_opt(mf_value query, mf_value key, mf_value value, const mf_dot_product_attention_options *o)
{
    MF_LAYER;
    mf_value weights = mf_dot_product_attention_weights_opt(query, key, o);
    mf_value wrong = failed(weights) ? weights : check_operands(query, value, "value");
    if (failed(wrong))
        return wrong;
    if (mf_dim(key, -3) != mf_dim(value, -3))
        return mf_make_error(MF_ERROR_SHAPE, "attention: key %s and value %s differ in length", mf_str_shape(mf_shape_of(key)),
                             mf_str_shape(mf_shape_of(value)));
    return weighted(weights, in_dtype(value, o ? o->dtype : MF_DTYPE_DEFAULT));
}

/* ---- masks */

mf_value(mf_make_attention_mask)(mf_value query_input, mf_value key_input)
{
    MF_LAYER;
    return mf_expand_dims(mf_mul(mf_expand_dims(query_input, -1), mf_expand_dims(key_input, -2)), -3);
}

mf_value(mf_make_causal_mask)(mf_value x)
{
    MF_LAYER;
    mf_shape shape = mf_shape_of(x);
    if (failed(x))
        return x;
    if (shape.rank < 1)
        return mf_make_error(MF_ERROR_SHAPE, "mf_make_causal_mask: x is a scalar; it must be (..., length)");
    mf_value at = mf_broadcast_to(mf_arange(shape.dims[shape.rank - 1], MF_I32), shape);
    mf_value seen = mf_greater_equal(mf_expand_dims(at, -1), mf_expand_dims(at, -2));
    return mf_astype(mf_expand_dims(seen, -3), MF_F32);
}

/* ---- rotary positions */

mf_value mf_rope_opt(mf_value x, mf_value positions, const mf_rope_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_rope(x, positions);
    if (failed(x))
        return x;
    int64_t depth = mf_dim(x, -1);
    if (mf_ndim(x) < 3 || depth % 2 != 0)
        return mf_make_error(MF_ERROR_SHAPE, "mf_rope: x is %s; it must be (..., length, heads, depth) of an even depth",
                             mf_str_shape(mf_shape_of(x)));
    if (!(o->max_wavelength > 0) || !(o->scale_factor >= 1))
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_rope: max_wavelength is %g and scale_factor %g; they must be above 0 and at least 1",
                             o->max_wavelength, o->scale_factor);
    mf_value fraction = mf_div(mf_mul(mf_arange(depth / 2, MF_F32), 2), (double)depth);
    mf_value angle = mf_div(mf_expand_dims(mf_astype(positions, MF_F32), -1), mf_pow(o->max_wavelength, fraction));
    angle = mf_expand_dims(mf_div(angle, o->scale_factor), -2); /* (..., length, 1, depth / 2) */
    mf_value halves = mf_split(x, 2, -1), sine = mf_sin(angle), cosine = mf_cos(angle);
    mf_value first = mf_get(halves, 0), second = mf_get(halves, 1);
    mf_value rotated = mf_list(mf_sub(mf_mul(first, cosine), mf_mul(second, sine)), mf_add(mf_mul(second, cosine), mf_mul(first, sine)));
    return mf_astype(mf_concatenate(rotated, -1), mf_dtype_of(x));
}

/* ---- linear maps to and from heads: nnx.LinearGeneral */

static mf_value general_call(mf_module self, mf_value x)
{
    x = in_dtype(x, (mf_dtype)mf_member_number(self, "dtype"));
    if (failed(x))
        return x;
    mf_value kernel = mf_astype(mf_state_value(mf_member_state(self, "kernel")), mf_dtype_of(x));
    mf_value y = mf_tensordot(x, kernel, (int)mf_member_number(self, "axes"));
    if (mf_member_number(self, "use_bias") == 0)
        return y;
    return mf_add(y, mf_astype(mf_state_value(mf_member_state(self, "bias")), mf_dtype_of(y)));
}

static int64_t elements(mf_shape shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    return count;
}

/* Initialised in the shape `flat`, a matrix (all inputs, all outputs) or a vector, because that determines the initialiser's fans; then
 * reshaped. */
static mf_value made_flat(mf_initializer init, mf_initializer otherwise, mf_state rngs, mf_shape flat, mf_shape shape, mf_dtype dtype)
{
    init = init.make ? init : otherwise;
    return mf_reshape(mf_initialize(init, init.draws ? mf_random_next(rngs) : mf_none(), flat, dtype), shape);
}

static mf_module general(mf_state rngs, mf_shape kernel, int axes, const mf_nn_multi_head_attention_options *o, mf_initializer kernel_init,
                         mf_initializer bias_init)
{
    mf_dtype dtype = o->param_dtype == MF_DTYPE_DEFAULT ? MF_F32 : o->param_dtype;
    int64_t fan_in = 1;
    mf_shape out = { .rank = kernel.rank - axes };
    for (int i = 0; i < kernel.rank; i++)
        if (i < axes)
            fan_in *= kernel.dims[i];
        else
            out.dims[i - axes] = kernel.dims[i];
    mf_shape matrix = MF_SHAPE(fan_in, fan_in ? elements(kernel) / fan_in : 0);
    mf_state w = mf_param_state(made_flat(kernel_init, mf_init_lecun_normal(), rngs, matrix, kernel, dtype));
    if (o->no_bias)
        return mf_module_new("LinearGeneral", general_call, "kernel", w, "axes", axes, "use_bias", 0, "dtype", (int)o->dtype);
    mf_state b = mf_param_state(made_flat(bias_init, mf_init_zeros(), rngs, MF_SHAPE(elements(out)), out, dtype));
    return mf_module_new("LinearGeneral", general_call, "kernel", w, "bias", b, "axes", axes, "use_bias", 1, "dtype", (int)o->dtype);
}

/* ---- MultiHeadAttention */

static mf_value input_error(const char *name, mf_value x, int features)
{
    mf_shape shape = mf_shape_of(x);
    if (failed(x))
        return x;
    if (shape.rank < 2 || shape.dims[shape.rank - 1] != features)
        return mf_make_error(MF_ERROR_SHAPE, "MultiHeadAttention: %s is %s; it must be (..., length, %d)", name, mf_str_shape(shape),
                             features);
    return mf_none();
}

/* Writes the key and the value of position `index` to the cache, sets *key and *value to the whole cache and increments cache_index.
 * Returns the mask of the positions that are filled, or an error. */
static mf_value cached(mf_module self, mf_value *key, mf_value *value, mf_value index)
{
    mf_state keys = mf_member_state(self, "cached_key"), values = mf_member_state(self, "cached_value");
    mf_value all = mf_state_value(keys);
    if (mf_kind_of(all) == MF_KIND_NONE)
        return mf_make_error(MF_ERROR_ARGUMENT, "MultiHeadAttention: decode needs a cache: call mf_nn_init_cache first");
    mf_shape wanted = mf_shape_of(all), have = mf_shape_of(*key);
    int axis = wanted.rank - 3;
    bool same = have.rank == wanted.rank;
    for (int i = 0; same && i < wanted.rank; i++)
        same = have.dims[i] == (i == axis ? 1 : wanted.dims[i]);
    if (!same)
        return mf_make_error(MF_ERROR_SHAPE, "MultiHeadAttention: the cache is %s, and a key %s: decode takes one position of its batch",
                             mf_str_shape(wanted), mf_str_shape(have));
    mf_dtype dtype = mf_dtype_of(all);
    *key = mf_state_set_value(keys, mf_dynamic_update_slice_in_dim(all, mf_astype(*key, dtype), index, axis));
    all = mf_state_value(values);
    *value = mf_state_set_value(values, mf_dynamic_update_slice_in_dim(all, mf_astype(*value, dtype), index, axis));
    if (failed(*key) || failed(*value))
        return failed(*key) ? *key : *value;
    mf_value next = mf_state_set_value(mf_member_state(self, "cache_index"), mf_add(index, 1));
    return failed(next) ? next : mf_less_equal(mf_arange(wanted.dims[axis], MF_I32), index);
}

static mf_value attend(mf_module self, mf_value q, mf_value k, mf_value v, const mf_nn_attend_options *o)
{
    bool decode = mf_member_number(self, "decode") != 0;
    double wavelength = mf_member_number(self, "rope_max_wavelength"), rate = mf_member_number(self, "dropout_rate");
    mf_value query = mf_call(mf_member_module(self, "query"), q), key = mf_call(mf_member_module(self, "key"), k);
    mf_value value = mf_call(mf_member_module(self, "value"), v), index = mf_state_value(mf_member_state(self, "cache_index"));
    mf_dot_product_attention_options a = { .mask = o->mask,
                                           .is_causal = !decode && (o->is_causal || mf_member_number(self, "is_causal") != 0),
                                           .dropout_rate = rate,
                                           .no_broadcast_dropout = mf_member_number(self, "broadcast_dropout") == 0,
                                           .deterministic = mf_member_number(self, "deterministic") != 0 };
    if (mf_member_kind(self, "query_ln") == MF_MEMBER_MODULE) {
        query = mf_call(mf_member_module(self, "query_ln"), query);
        key = mf_call(mf_member_module(self, "key_ln"), key);
    }
    if (wavelength > 0) {
        mf_value offset = decode ? index : mf_i(0);
        query = mf_rope(query, mf_add(mf_arange(mf_dim(query, -3), MF_I32), offset), .max_wavelength = wavelength);
        key = mf_rope(key, mf_add(mf_arange(mf_dim(key, -3), MF_I32), offset), .max_wavelength = wavelength);
    }
    if (decode) {
        mf_value seen = cached(self, &key, &value, index);
        a.mask = a.mask.handle ? mf_logical_and(mf_not_equal(a.mask, 0), seen) : seen;
    }
    if (rate > 0 && !a.deterministic)
        a.dropout_rng = mf_random_next(mf_member_state(self, "rngs"));
    a.dtype = mf_dtype_of(query);
    return mf_call(mf_member_module(self, "out"), mf_dot_product_attention_opt(query, key, value, &a));
}

mf_value mf_nn_attend_opt(mf_module attention, mf_value inputs_q, const mf_nn_attend_options *o)
{
    MF_LAYER;
    mf_nn_attend_options none = { 0 };
    o = o ? o : &none;
    mf_module out = mf_member_module(attention, "out");
    if (failed((mf_value){ out.handle }))
        return (mf_value){ out.handle };
    if (o->inputs_v.handle && !o->inputs_k.handle)
        return mf_make_error(MF_ERROR_ARGUMENT, "MultiHeadAttention: inputs_v without inputs_k; where both are one, pass it as inputs_k");
    mf_value k = o->inputs_k.handle ? o->inputs_k : inputs_q, v = o->inputs_v.handle ? o->inputs_v : k;
    int features = (int)mf_member_number(attention, "in_features"), kv_features = (int)mf_member_number(attention, "in_kv_features");
    mf_value wrong = input_error("inputs_q", inputs_q, features);
    wrong = failed(wrong) ? wrong : input_error("inputs_k", k, kv_features);
    wrong = failed(wrong) ? wrong : input_error("inputs_v", v, kv_features);
    return failed(wrong) ? wrong : attend(attention, inputs_q, k, v, o);
}

/* The call operator: inputs_q, then optionally inputs_k, inputs_v and mask; None counts as not given. */
static mf_value attention_call(mf_module self, const mf_value *inputs, int count)
{
    mf_value given[4] = { { 0 } };
    if (count < 1 || count > 4)
        return mf_make_error(MF_ERROR_ARGUMENT, "MultiHeadAttention: takes inputs_q, inputs_k, inputs_v and a mask, but was called with %d",
                             count);
    for (int i = 0; i < count; i++)
        if (mf_kind_of(inputs[i]) != MF_KIND_NONE)
            given[i] = inputs[i];
    return mf_nn_attend(self, inputs[0], .inputs_k = given[1], .inputs_v = given[2], .mask = given[3]);
}

/* None, or an error about the numbers that are invalid or do not fit one another. */
static mf_value check_numbers(int heads, int kv_heads, int in_features, int features, int out_features, int in_kv_features, double rate)
{
    if (heads < 1 || kv_heads < 1 || in_features < 1 || features < 1 || out_features < 1 || in_kv_features < 1)
        return mf_make_error(MF_ERROR_ARGUMENT, "MultiHeadAttention: numbers of heads and features must be above 0");
    if (features % heads != 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "MultiHeadAttention: qkv_features (%d) must be divisible by num_heads (%d)", features,
                             heads);
    if (heads % kv_heads != 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "MultiHeadAttention: num_heads (%d) must be divisible by num_kv_heads (%d)", heads,
                             kv_heads);
    if (!(rate >= 0 && rate < 1))
        return mf_make_error(MF_ERROR_ARGUMENT, "MultiHeadAttention: dropout_rate is %g; it must be at least 0 and below 1", rate);
    return mf_none();
}

mf_module mf_nn_multi_head_attention_opt(mf_state rngs, int num_heads, int in_features, const mf_nn_multi_head_attention_options *o)
{
    MF_LAYER;
    mf_nn_multi_head_attention_options none = { 0 };
    o = o ? o : &none;
    int features = o->qkv_features ? o->qkv_features : in_features, out_features = o->out_features ? o->out_features : in_features;
    int kv_heads = o->num_kv_heads ? o->num_kv_heads : num_heads, kv_features = o->in_kv_features ? o->in_kv_features : in_features;
    mf_value wrong = check_numbers(num_heads, kv_heads, in_features, features, out_features, kv_features, o->dropout_rate);
    if (failed(wrong))
        return (mf_module){ wrong.handle };
    int depth = features / num_heads;
    mf_initializer out_kernel = o->out_kernel_init.make ? o->out_kernel_init : o->kernel_init;
    mf_initializer out_bias = o->out_bias_init.make ? o->out_bias_init : o->bias_init;
    mf_shape to_heads = MF_SHAPE(in_features, num_heads, depth), to_kv_heads = MF_SHAPE(kv_features, kv_heads, depth);
    mf_node_ members[] = { mf_node("query"),
                           mf_node(general(rngs, to_heads, 1, o, o->kernel_init, o->bias_init)),
                           mf_node("key"),
                           mf_node(general(rngs, to_kv_heads, 1, o, o->kernel_init, o->bias_init)),
                           mf_node("value"),
                           mf_node(general(rngs, to_kv_heads, 1, o, o->kernel_init, o->bias_init)),
                           mf_node("out"),
                           mf_node(general(rngs, MF_SHAPE(num_heads, depth, out_features), 2, o, out_kernel, out_bias)),
                           mf_node("cached_key"),
                           mf_node(mf_hidden_state(mf_none())),
                           mf_node("cached_value"),
                           mf_node(mf_hidden_state(mf_none())),
                           mf_node("cache_index"),
                           mf_node(mf_hidden_state(mf_none())),
                           mf_node("num_kv_heads"),
                           mf_node(kv_heads),
                           mf_node("head_dim"),
                           mf_node(depth),
                           mf_node("in_features"),
                           mf_node(in_features),
                           mf_node("in_kv_features"),
                           mf_node(kv_features),
                           mf_node("dropout_rate"),
                           mf_node(o->dropout_rate),
                           mf_node("broadcast_dropout"),
                           mf_node((int)!o->no_broadcast_dropout),
                           mf_node("deterministic"),
                           mf_node((int)o->deterministic),
                           mf_node("decode"),
                           mf_node((int)o->decode),
                           mf_node("is_causal"),
                           mf_node((int)o->is_causal),
                           mf_node("rope_max_wavelength"),
                           mf_node(o->rope_max_wavelength) };
    layer_members all = { 0 };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        all.at[all.count++] = members[i];
    if (o->dropout_rate > 0) /* only dropout needs a random state */
        layer_add(&all, "rngs", mf_node(mf_random_state_of_key(mf_random_next(rngs))));
    if (o->normalize_qk) {
        layer_add(&all, "query_ln",
                  mf_node(mf_nn_layer_norm(rngs, depth, .no_bias = true, .dtype = o->dtype, .param_dtype = o->param_dtype)));
        layer_add(&all, "key_ln",
                  mf_node(mf_nn_layer_norm(rngs, depth, .no_bias = true, .dtype = o->dtype, .param_dtype = o->param_dtype)));
    }
    return mf_module_n("MultiHeadAttention", (mf_fm)attention_call, -1, all.at, all.count);
}

/* Sets up the cache of one MultiHeadAttention. shape: of its inputs, (..., length, features). */
static mf_value init_one(mf_module m, mf_shape shape, mf_dtype dtype)
{
    shape.dims[shape.rank - 1] = (int64_t)mf_member_number(m, "num_kv_heads");
    shape.dims[shape.rank++] = (int64_t)mf_member_number(m, "head_dim");
    mf_value zeros = mf_zeros(shape, dtype == MF_DTYPE_DEFAULT ? MF_F32 : dtype);
    if (failed(zeros))
        return zeros;
    mf_value set = mf_state_set_value(mf_member_state(m, "cached_key"), zeros);
    set = failed(set) ? set : mf_state_set_value(mf_member_state(m, "cached_value"), mf_zeros_like(zeros));
    return failed(set) ? set : mf_state_set_value(mf_member_state(m, "cache_index"), mf_zeros(MF_SHAPE0, MF_I32));
}

/* Sets up the caches in m and its submodules and counts them in *made; stops at the first error. */
static mf_value init_all(mf_module m, mf_shape shape, mf_dtype dtype, int *made)
{
    mf_value wrong = mf_none();
    if (mf_member_kind(m, "cached_key") == MF_MEMBER_STATE) {
        ++*made;
        wrong = init_one(m, shape, dtype);
    }
    for (int i = 0, count = mf_member_count(m); i < count && !failed(wrong); i++)
        if (mf_member_kind(m, mf_member_name(m, i)) == MF_MEMBER_MODULE)
            wrong = init_all(mf_member_module(m, mf_member_name(m, i)), shape, dtype, made);
    return wrong;
}

mf_status mf_nn_init_cache(mf_module m, mf_shape input_shape, mf_dtype dtype)
{
    MF_LAYER;
    MF_SCOPE;
    int made = 0;
    mf_value wrong = { m.handle };
    if (!failed(wrong))
        wrong = mf_struct(input_shape, MF_F32); /* an error if the shape is invalid */
    if (!failed(wrong) && (input_shape.rank < 2 || input_shape.rank >= MF_MAX_RANK))
        wrong = mf_make_error(MF_ERROR_SHAPE, "mf_nn_init_cache: the input is %s; it must be (..., length, features)",
                              mf_str_shape(input_shape));
    else if (!failed(wrong))
        wrong = init_all(m, input_shape, dtype, &made);
    if (!failed(wrong) && !made)
        wrong = mf_make_error(MF_ERROR_ARGUMENT, "mf_nn_init_cache: there is no MultiHeadAttention in the module %s", mf_module_type(m));
    return failed(wrong) ? mf_block_until_ready(wrong) : MF_OK;
}
