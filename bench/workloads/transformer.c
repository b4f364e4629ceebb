/* A step of a small causal transformer: two pre-norm layers of attention and an MLP, tied embeddings, value_and_grad, pmean, SGD. size: the
 * whole batch; factor: the width. */
#include "workload.h"

#include <math.h>

enum { LAYERS = 2, HEADS = 4, SEQUENCE = 64, VOCABULARY = 256 };

static mf_value norm(mf_value x, mf_value p)
{
    mf_value centred = mf_sub(x, mf_mean(x, -1, .keepdims = true));
    mf_value variance = mf_mean(mf_square(centred), -1, .keepdims = true);
    return mf_add(mf_mul(mf_mul(centred, mf_rsqrt(mf_add(variance, 1e-5))), mf_get(p, "scale")), mf_get(p, "bias"));
}

static mf_value attention(mf_value x, mf_value p)
{
    int64_t batch = mf_dim(x, 0), width = mf_dim(x, 2);
    mf_shape heads = MF_SHAPE(batch, SEQUENCE, HEADS, width / HEADS);
    mf_value parts = mf_split(mf_matmul(x, mf_get(p, "qkv")), 3, -1);
    mf_value q = mf_reshape(mf_get(parts, 0), heads), k = mf_reshape(mf_get(parts, 1), heads), v = mf_reshape(mf_get(parts, 2), heads);
    mf_value scores = mf_mul(mf_einsum("bqhe,bkhe->bhqk", q, k), 1 / sqrt((double)width / HEADS));
    mf_value before = mf_tril(mf_ones(MF_SHAPE(SEQUENCE, SEQUENCE), MF_BOOL), 0);
    mf_value weights = mf_softmax(mf_where(before, scores, -1e30), -1);
    mf_value mixed = mf_einsum("bhqk,bkhe->bqhe", weights, v);
    return mf_matmul(mf_reshape(mixed, MF_SHAPE(batch, SEQUENCE, width)), mf_get(p, "out"));
}

static mf_value perceptron(mf_value x, mf_value p) { return mf_matmul(mf_gelu(mf_matmul(x, mf_get(p, "up"))), mf_get(p, "down")); }

static mf_value halved(mf_value x) { return mf_astype(x, MF_BF16); }

static mf_value objective(mf_value p, mf_value tokens, mf_value labels)
{
    mf_value x = mf_add(mf_take(mf_get(p, "embedding"), tokens, 0), mf_get(p, "positions"));
    for (int l = 0; l < LAYERS; l++) {
        mf_value layer = mf_get(p, "layers", l);
        x = mf_add(x, attention(norm(x, mf_get(layer, "norm1")), layer));
        x = mf_add(x, perceptron(norm(x, mf_get(layer, "norm2")), layer));
    }
    mf_value logits = mf_matmul(norm(x, mf_get(p, "norm")), mf_transpose(mf_get(p, "embedding"), MF_INTS0));
    return mf_mean(mf_softmax_cross_entropy_with_integer_labels(mf_astype(logits, MF_F32), labels));
}

static mf_value objective_bf16(mf_value p, mf_value tokens, mf_value labels) { return objective(mf_tree_map(halved, p), tokens, labels); }

static mf_value descend(mf_value p, mf_value g) { return mf_sub(p, mf_mul(g, 0.1)); }

static mf_value step_of(mf_function loss_and_grads, mf_value p, mf_value tokens, mf_value labels)
{
    mf_value loss, grads;
    mf_unpack(mf_call(loss_and_grads, p, tokens, labels), &loss, &grads);
    grads = mf_pmean(grads, "devices");
    return mf_tuple(mf_tree_map(descend, p, grads), mf_pmean(loss, "devices"));
}

static mf_value step(mf_value p, mf_value tokens, mf_value labels) { return step_of(mf_value_and_grad(objective), p, tokens, labels); }
static mf_value step_bf16(mf_value p, mf_value tokens, mf_value labels)
{
    return step_of(mf_value_and_grad(objective_bf16), p, tokens, labels);
}

static mf_value norm_parameters(int64_t width)
{
    return mf_dict("scale", mf_ones(MF_SHAPE(width), MF_F32), "bias", mf_zeros(MF_SHAPE(width), MF_F32));
}

static mf_value weights(uint64_t seed, mf_shape shape) { return mf_mul(normal(seed, shape), 0.05); }

static mf_value layer_parameters(uint64_t seed, int64_t width)
{
    return mf_dict("norm1", norm_parameters(width), "norm2", norm_parameters(width), "qkv", weights(seed, MF_SHAPE(width, 3 * width)),
                   "out", weights(seed + 1, MF_SHAPE(width, width)), "up", weights(seed + 2, MF_SHAPE(width, 4 * width)), "down",
                   weights(seed + 3, MF_SHAPE(4 * width, width)));
}

static mf_value rows_of_devices(mf_value x) { return x; }

static void prepare_transformer(const workload *w)
{
    int64_t batch = w->size / devices, width = w->factor;
    mf_value p = mf_dict("embedding", weights(0, MF_SHAPE(VOCABULARY, width)), "positions", weights(1, MF_SHAPE(SEQUENCE, width)), "norm",
                         norm_parameters(width), "layers", mf_list(layer_parameters(2, width), layer_parameters(6, width)));
    mf_shape shape = MF_SHAPE(devices, batch, SEQUENCE);
    mf_value tokens = mf_random_randint(mf_random_key(10), shape, mf_i(0), mf_i(VOCABULARY), MF_I32);
    mf_value labels = mf_random_randint(mf_random_key(11), shape, mf_i(0), mf_i(VOCABULARY), MF_I32);
    mf_assign(&held[0], mf_replicate(p, mf_device_slice(mf_local_devices(), 0, devices)));
    mf_assign(&held[1], mf_call(mf_pmap(rows_of_devices), tokens));
    mf_assign(&held[2], mf_call(mf_pmap(rows_of_devices), labels));
    finish(held[2]);
}

static void call_step(mf_function f)
{
    mf_value p, loss;
    mf_unpack(mf_call(f, held[0], held[1], held[2]), &p, &loss);
    mf_assign(&held[0], p);
    finish(loss);
    finish(p);
}
static void call_transformer(void) { call_step(mf_pmap(step, .axis_name = "devices", .donate_argnums = MF_INTS(0))); }
static void call_transformer_bf16(void) { call_step(mf_pmap(step_bf16, .axis_name = "devices", .donate_argnums = MF_INTS(0))); }

static const workload rows[] = {
    { .name = "transformer_step_8_d16", prepare_transformer, call_transformer, 5, .size = 8, .factor = 16, .small = true },
    { .name = "transformer_step_32_d128", prepare_transformer, call_transformer, 3, .size = 32, .factor = 128 },
    { .name = "transformer_step_bfloat16_32_d128", prepare_transformer, call_transformer_bf16, 3, .size = 32, .factor = 128 },
};

const workload_list transformer_workloads = { rows, sizeof rows / sizeof *rows };
