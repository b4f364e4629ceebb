/* Attention, compared with Flax NNX (tests/oracle/sequences.txt): values, and gradients by inputs and parameters; the KV cache; invalid
 * inputs. */
#include <manyfold.h>

#include "check.h"
#include "oracle/sequences.h"

#define ANSWERS MF_TESTS_DIR "/oracle/sequences.txt"
/* Sums of about ten products of f32 numbers near 1, in another order: about ten roundings of 6e-8. */
static const double near = 1e-5;

/* ---- functions of arrays */

typedef struct attention_case {
    const char *name;
    bool narrow, grouped, one, batches, masked, biased, causal, dropout, each;
} attention_case;

static mf_value mask(void)
{
    mf_value m = mf_greater(fill(7, MF_SHAPE(2, 1, 3, 5), 1), 0);
    return mf_at_set(m, mf_b(false), 1, 0, 2); /* attends to nothing */
}

static mf_value attention(void *context, mf_value q, mf_value k, mf_value v)
{
    const attention_case *c = context;
    mf_dot_product_attention_options o = { .is_causal = c->causal, .no_broadcast_dropout = c->each };
    if (c->masked)
        o.mask = mask();
    if (c->biased)
        o.bias = fill(6, MF_SHAPE(2, 4, 3, 5), 1);
    if (c->dropout) {
        o.dropout_rate = 0.4;
        o.dropout_rng = mf_random_key(7);
    }
    if (c->batches) {
        q = mf_expand_dims(q, 0);
        k = mf_expand_dims(k, 0);
        v = mf_expand_dims(v, 0);
    }
    return mf_dot_product_attention_opt(q, k, v, &o);
}

static mf_value weighted_attention(void *context, mf_value q, mf_value k, mf_value v) { return weighted_sum(attention(context, q, k, v)); }

static const attention_case attention_cases[] = {
    { .name = "attention" },
    { .name = "attention_own", .narrow = true },
    { .name = "attention_causal", .causal = true },
    { .name = "attention_masked", .masked = true, .biased = true },
    { .name = "attention_masked_causal", .masked = true, .causal = true },
    { .name = "attention_grouped", .grouped = true },
    { .name = "attention_dropout", .dropout = true },
    { .name = "attention_dropout_each", .dropout = true, .each = true },
    { .name = "attention_one", .one = true },
    { .name = "attention_batches", .batches = true },
};

TEST(attention_is_flaxs)
{
    for (int i = 0; i < (int)(sizeof attention_cases / sizeof *attention_cases); i++) {
        MF_SCOPE;
        attention_case c;
        memset(&c, 0, sizeof c);
        c = attention_cases[i];
        mf_value q = fill(1, MF_SHAPE(2, 3, 4, 6), 2), k = fill(2, MF_SHAPE(2, 5, 4, 6), 2), v = fill(3, MF_SHAPE(2, 5, 4, 6), 2);
        if (c.grouped) {
            k = fill(4, MF_SHAPE(2, 5, 2, 6), 2);
            v = fill(5, MF_SHAPE(2, 5, 2, 6), 2);
        }
        if (c.narrow)
            v = mf_slice_in_dim(v, 0, 2, 1, -1);
        if (c.one) {
            q = mf_get(q, 0);
            k = mf_get(k, 0);
            v = mf_get(v, 0);
        }
        is_answer(ANSWERS, c.name, "out", attention(&c, q, k, v), near);
        mf_value grads = mf_call(mf_grad(mf_closure(weighted_attention, &c), .argnums = MF_INTS(0, 1, 2)), q, k, v);
        is_answer(ANSWERS, c.name, "grad0", mf_get(grads, 0), near);
        is_answer(ANSWERS, c.name, "grad1", mf_get(grads, 1), near);
        is_answer(ANSWERS, c.name, "grad2", mf_get(grads, 2), near);
    }
}

static mf_value weights(mf_value q, mf_value k) { return mf_dot_product_attention_weights(q, k); }
static mf_value weighted_weights(mf_value q, mf_value k) { return weighted_sum(weights(q, k)); }

TEST(weights_and_masks_are_flaxs)
{
    MF_SCOPE;
    mf_value q = fill(1, MF_SHAPE(2, 3, 4, 6), 2), k = fill(2, MF_SHAPE(2, 5, 4, 6), 2);
    mf_value grads = mf_call(mf_grad(weighted_weights, .argnums = MF_INTS(0, 1)), q, k);
    is_answer(ANSWERS, "attention_weights", "out", weights(q, k), near);
    is_answer(ANSWERS, "attention_weights", "grad0", mf_get(grads, 0), near);
    is_answer(ANSWERS, "attention_weights", "grad1", mf_get(grads, 1), near);
    mf_value tokens = mf_astype(mf_greater(fill(8, MF_SHAPE(2, 4), 1), 0), MF_F32);
    is_answer(ANSWERS, "masks", "attention", mf_make_attention_mask(tokens, tokens), 0);
    is_answer(ANSWERS, "masks", "causal", mf_make_causal_mask(tokens), 0);
}

static mf_value positions(void) { return mf_array(MF_I32, MF_SHAPE(2, 3), 0, 1, 2, 7, 100, 3); }
static mf_value turned(mf_value x) { return mf_rope(x, positions()); }
static mf_value turned_less(mf_value x) { return mf_rope(x, positions(), .max_wavelength = 100, .scale_factor = 4); }
static mf_value weighted_turned(mf_value x) { return weighted_sum(turned(x)); }
static mf_value weighted_turned_less(mf_value x) { return weighted_sum(turned_less(x)); }

TEST(rotary_positions_are_gemmas)
{
    MF_SCOPE;
    mf_value x = fill(1, MF_SHAPE(2, 3, 4, 6), 2);
    is_answer(ANSWERS, "rope", "out", turned(x), near);
    is_answer(ANSWERS, "rope", "grad0", mf_call(mf_grad(weighted_turned), x), near);
    is_answer(ANSWERS, "rope_scaled", "out", turned_less(x), near);
    is_answer(ANSWERS, "rope_scaled", "grad0", mf_call(mf_grad(weighted_turned_less), x), near);
}

/* ---- the module */

static mf_value causal_call(mf_module self, mf_value x) { return mf_nn_attend(mf_member_module(self, "inner"), x, .is_causal = true); }

static mf_value masked_call(mf_module self, mf_value x)
{
    return mf_nn_attend(mf_member_module(self, "inner"), x, .mask = mf_greater(fill(4, MF_SHAPE(2, 1, 4, 4), 1), 0));
}

/* Calls the module with the elements of a list as its inputs. */
static mf_value cross_call(mf_module self, mf_value inputs)
{
    return mf_call(mf_member_module(self, "inner"), mf_get(inputs, 0), mf_get(inputs, 1), mf_get(inputs, 2));
}

static mf_module around(mf_value (*call)(mf_module, mf_value), mf_module inner) { return mf_module_new("Around", call, "inner", inner); }

static mf_value weighted_module(void *context, mf_value params, mf_value inputs)
{
    return weighted_sum(mf_apply(*(mf_module *)context, params, inputs));
}

/* inputs: an array, or a list of arrays. */
static void check_module(const char *name, mf_module m, mf_value inputs, bool params_too)
{
    char word[16];
    mf_value params = filled_parameters(m);
    is_answer(ANSWERS, name, "out0", mf_apply(m, params, inputs), near);
    mf_value grads = mf_call(mf_grad(mf_closure(weighted_module, &m), .argnums = MF_INTS(0, 1)), params, inputs);
    mf_value by_params = mf_tree_leaves(mf_get(grads, 0)), by_inputs = mf_tree_leaves(mf_get(grads, 1));
    for (int i = 0; params_too && i < mf_len(by_params); i++) {
        snprintf(word, sizeof word, "param%d", i);
        is_answer(ANSWERS, name, word, mf_get(by_params, i), near);
    }
    for (int i = 0; i < mf_len(by_inputs); i++) {
        snprintf(word, sizeof word, "grad%d", i);
        is_answer(ANSWERS, name, word, mf_get(by_inputs, i), near);
    }
}

TEST(multi_head_attention_is_flaxs)
{
    MF_SCOPE;
    mf_state rngs = mf_random_state(0);
    mf_value x = fill(1, MF_SHAPE(2, 4, 6), 1), y = fill(2, MF_SHAPE(2, 3, 5), 1), z = fill(3, MF_SHAPE(2, 3, 5), 1);
    check_module("mha", mf_nn_multi_head_attention(rngs, 2, 6), x, true);
    check_module("mha_no_bias", mf_nn_multi_head_attention(rngs, 2, 6, .no_bias = true), x, false);
    check_module("mha_causal", mf_nn_multi_head_attention(rngs, 2, 6, .is_causal = true), x, false);
    check_module("mha_causal", around(causal_call, mf_nn_multi_head_attention(rngs, 2, 6)), x, false);
    check_module("mha_masked", around(masked_call, mf_nn_multi_head_attention(rngs, 2, 6, .qkv_features = 8, .out_features = 3)), x, false);
    check_module("mha_cross", around(cross_call, mf_nn_multi_head_attention(rngs, 2, 6, .in_kv_features = 5)), mf_list(x, y, z), true);
    check_module("mha_grouped", mf_nn_multi_head_attention(rngs, 4, 6, .qkv_features = 8, .num_kv_heads = 2), x, true);
    mf_module normalized = mf_nn_multi_head_attention(rngs, 2, 6, .qkv_features = 8, .normalize_qk = true, .rope_max_wavelength = 10000);
    check_module("mha_normalized", normalized, x, true);
    mf_module rope = mf_nn_multi_head_attention(rngs, 2, 6, .qkv_features = 8, .is_causal = true, .rope_max_wavelength = 10000);
    check_module("mha_rope", rope, x, false);
}

/* The outputs, computed position by position with the cache. */
static mf_value decoded(mf_module m, mf_value x)
{
    mf_value steps = mf_list();
    mf_function step = mf_jit(m);
    for (int i = 0; i < mf_dim(x, 1); i++)
        steps = i == 0 ? mf_call(step, mf_slice_in_dim(x, i, i + 1, 1, 1))
                       : mf_concatenate(mf_list(steps, mf_call(step, mf_slice_in_dim(x, i, i + 1, 1, 1))), 1);
    return steps;
}

TEST(the_cache_is_flaxs)
{
    MF_SCOPE;
    mf_value x = fill(1, MF_SHAPE(2, 4, 6), 1);
    mf_module trained = mf_nn_multi_head_attention(mf_random_state(0), 2, 6), m = mf_nn_view(trained, .decode = true);
    REQUIRE(mf_module_update(m, filled_parameters(m)) == MF_OK);
    REQUIRE(mf_nn_init_cache(m, MF_SHAPE(2, 4, 6), MF_F32) == MF_OK);
    is_answer(ANSWERS, "mha_decode", "out0", decoded(m, x), near);
    is_answer(ANSWERS, "mha_decode", "cached_key", mf_state_value(mf_member_state(m, "cached_key")), near);
    is_answer(ANSWERS, "mha_decode", "index", mf_state_value(mf_member_state(m, "cache_index")), 0);
    REQUIRE(mf_nn_init_cache(m, MF_SHAPE(2, 4, 6), MF_F32) == MF_OK); /* starts again */
    is_answer(ANSWERS, "mha_decode", "out0", decoded(m, x), near);
}

static mf_value second(mf_module self, mf_value x) { return mf_call(mf_member_module(self, "b"), mf_call(mf_member_module(self, "a"), x)); }

TEST(all_caches_of_a_model_are_made_at_once)
{
    MF_SCOPE;
    mf_state rngs = mf_random_state(0);
    mf_module a = mf_nn_multi_head_attention(rngs, 2, 6, .out_features = 4),
              b = around(causal_call, mf_nn_multi_head_attention(rngs, 2, 4));
    mf_module model = mf_nn_view(mf_module_new("Model", second, "a", a, "b", b), .decode = true);
    REQUIRE(mf_nn_init_cache(model, MF_SHAPE(3, 5, 6), MF_F32) == MF_OK);
    CHECK_STR(mf_str(mf_shape_of(mf_state_value(mf_member_state(model, "a/cached_key")))), "(3, 5, 2, 3)");
    CHECK_STR(mf_str(mf_shape_of(mf_state_value(mf_member_state(model, "b/inner/cached_value")))), "(3, 5, 2, 2)");
    CHECK_STR(mf_error(mf_call(model, fill(1, MF_SHAPE(3, 1, 6), 1))), NULL);
}

TEST(position_by_position_is_causal_attention)
{
    MF_SCOPE;
    mf_value x = fill(1, MF_SHAPE(3, 7, 6), 1);
    mf_module all = mf_nn_multi_head_attention(mf_random_state(3), 2, 6, .qkv_features = 8, .is_causal = true, .rope_max_wavelength = 100),
              one = mf_nn_multi_head_attention(mf_random_state(3), 2, 6, .qkv_features = 8, .decode = true, .rope_max_wavelength = 100);
    REQUIRE(mf_nn_init_cache(one, MF_SHAPE(3, 9, 6), MF_F32) == MF_OK);
    CHECK(mf_item_f64(mf_max(mf_abs(mf_sub(mf_call(all, x), decoded(one, x))))) < near);
}

static bool is_all(mf_module m, const char *path, double number)
{
    return mf_item_bool(mf_all(mf_equal(mf_state_value(mf_member_state(m, path)), number)));
}

TEST(initialisers_are_the_ones_given)
{
    MF_SCOPE;
    mf_module m = mf_nn_multi_head_attention(mf_random_state(0), 2, 6, .kernel_init = mf_init_constant(2),
                                             .bias_init = mf_init_constant(3));
    CHECK(is_all(m, "query/kernel", 2) && is_all(m, "key/kernel", 2) && is_all(m, "value/kernel", 2) && is_all(m, "out/kernel", 2));
    CHECK(is_all(m, "query/bias", 3) && is_all(m, "key/bias", 3) && is_all(m, "value/bias", 3) && is_all(m, "out/bias", 3));
    m = mf_nn_multi_head_attention(mf_random_state(0), 2, 6, .out_kernel_init = mf_init_constant(4), .out_bias_init = mf_init_constant(5));
    CHECK(is_all(m, "out/kernel", 4) && is_all(m, "out/bias", 5) && is_all(m, "query/bias", 0) && !is_all(m, "query/kernel", 4));
}

TEST(kernels_are_made_as_matrices)
{
    MF_SCOPE;
    mf_module m = mf_nn_multi_head_attention(mf_random_state(7), 2, 6, .kernel_init = mf_init_orthogonal(1));
    mf_value kernel = mf_reshape(mf_state_value(mf_member_state(m, "out/kernel")), MF_SHAPE(6, 6));
    mf_value off = mf_sub(mf_matmul(kernel, mf_transpose(kernel, MF_INTS0)), mf_eye(6, MF_F32));
    CHECK_NEAR(mf_item_f64(mf_max(mf_abs(off))), 0, 1e-5);
    mf_module linear = mf_nn_linear_general(mf_random_state(7), MF_INTS(6), MF_INTS(2, 3), .kernel_init = mf_init_orthogonal(1));
    mf_value first = mf_state_value(mf_member_state(linear, "kernel"));
    CHECK(mf_item_bool(mf_array_equal(first, mf_state_value(mf_member_state(m, "query/kernel")))));
}

TEST(dropout_follows_its_flag_and_its_own_key)
{
    MF_SCOPE;
    mf_value x = fill(1, MF_SHAPE(2, 4, 6), 1);
    mf_module on = mf_nn_multi_head_attention(mf_random_state(0), 2, 6, .dropout_rate = 0.5);
    mf_module off = mf_nn_multi_head_attention(mf_random_state(0), 2, 6, .dropout_rate = 0.5, .deterministic = true);
    mf_module none = mf_nn_multi_head_attention(mf_random_state(0), 2, 6);
    mf_value first = mf_call(on, x), second = mf_call(on, x);
    CHECK(!mf_item_bool(mf_array_equal(first, second)));
    CHECK(mf_item_bool(mf_array_equal(mf_call(off, x), mf_call(none, x))));
    CHECK(!mf_item_bool(mf_array_equal(first, mf_call(none, x))));
}

TEST(half_precision_sums_in_f32)
{
    MF_SCOPE;
    mf_value x = fill(1, MF_SHAPE(2, 4, 6), 1);
    mf_module wide = mf_nn_multi_head_attention(mf_random_state(0), 2, 6),
              narrow = mf_nn_multi_head_attention(mf_random_state(0), 2, 6, .dtype = MF_BF16);
    mf_value y = mf_call(narrow, x);
    CHECK_EQ_INT(mf_dtype_of(y), MF_BF16);
    CHECK_EQ_INT(mf_dtype_of(mf_state_value(mf_member_state(mf_member_module(narrow, "query"), "kernel"))), MF_F32);
    /* Numbers below 1, rounded to 8 bits about four times */
    CHECK(mf_item_f64(mf_max(mf_abs(mf_sub(mf_call(wide, x), mf_astype(y, MF_F32))))) < 4.0 / 256);
}

TEST(wrong_inputs_are_named)
{
    MF_SCOPE;
    mf_state rngs = mf_random_state(0);
    mf_value q = fill(1, MF_SHAPE(2, 3, 4, 6), 1), k = fill(2, MF_SHAPE(2, 5, 4, 6), 1), x = fill(1, MF_SHAPE(2, 4, 6), 1);
    mf_module m = mf_nn_multi_head_attention(rngs, 2, 6), decode = mf_nn_multi_head_attention(rngs, 2, 6, .decode = true);
    mf_module started = mf_nn_multi_head_attention(rngs, 2, 6, .decode = true), linear = mf_nn_linear(rngs, 6, 6);
    REQUIRE(mf_nn_init_cache(started, MF_SHAPE(2, 4, 6), MF_F32) == MF_OK);
    const struct {
        mf_value result;
        const char *words;
    } cases[] = {
        { mf_dot_product_attention(q, fill(2, MF_SHAPE(5, 4, 6), 1), k), "must have one rank" },
        { mf_dot_product_attention(q, fill(2, MF_SHAPE(3, 5, 4, 6), 1), k), "batch dimension 0" },
        { mf_dot_product_attention(q, fill(2, MF_SHAPE(2, 5, 3, 6), 1), k), "4 heads of the query are no multiple of 3 heads of the key" },
        { mf_dot_product_attention(q, fill(2, MF_SHAPE(2, 5, 4, 5), 1), k), "differ in depth" },
        { mf_dot_product_attention(q, fill(2, MF_SHAPE(2, 7, 4, 6), 1), k), "differ in length" },
        { mf_dot_product_attention(q, k, k, .dropout_rate = 0.5), ".dropout_rng" },
        { mf_dot_product_attention(q, k, k, .dropout_rate = 1), "dropout_rate is 1" },
        { mf_rope(fill(1, MF_SHAPE(2, 3, 5), 1), mf_i(0)), "even depth" },
        { mf_rope(q, mf_i(0), .scale_factor = 0.5), "scale_factor 0.5" },
        { mf_make_causal_mask(mf_f(1)), "a scalar" },
        { mf_call(m, fill(1, MF_SHAPE(2, 4, 5), 1)), "inputs_q is (2, 4, 5); it must be (..., length, 6)" },
        { mf_nn_attend(m, x, .inputs_k = fill(1, MF_SHAPE(2, 4, 5), 1)), "inputs_k is (2, 4, 5)" },
        { mf_nn_attend(m, x, .inputs_v = x), "inputs_v without inputs_k" },
        { mf_nn_attend(linear, x), "module Linear has no module named out" },
        { mf_call(decode, x), "mf_nn_init_cache first" },
        { mf_call(started, x), "decode takes one position" },
        { mf_call(mf_nn_multi_head_attention(rngs, 4, 6), x), "qkv_features (6) must be divisible by num_heads (4)" },
        { mf_call(mf_nn_multi_head_attention(rngs, 3, 6, .num_kv_heads = 2), x), "num_heads (3) must be divisible by num_kv_heads (2)" },
        { mf_call(mf_nn_multi_head_attention(rngs, 0, 6), x), "above 0" },
        { mf_call(mf_nn_multi_head_attention(rngs, 2, 6, .dropout_rate = 1.5), x), "dropout_rate is 1.5" },
        { mf_call(m, x, x, x, mf_none(), x), "was called with 5" },
        { mf_call(m, mf_make_error(MF_ERROR_IO, "no words")), "no words" },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const char *message = mf_error(cases[i].result);
        if (!CHECK(message && strstr(message, cases[i].words)))
            CHECK_NOTE("case %d: %s", i, message ? message : "no error");
    }
    CHECK_EQ_INT(mf_nn_init_cache(linear, MF_SHAPE(2, 4, 6), MF_F32), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_nn_init_cache(m, MF_SHAPE(4), MF_F32), MF_ERROR_SHAPE);
    CHECK_EQ_INT(mf_nn_init_cache((mf_module){ 0 }, MF_SHAPE(2, 4, 6), MF_F32), MF_ERROR_ARGUMENT);
}
