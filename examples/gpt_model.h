/* The model of gpt.c and its training step: a GPT-style decoder over bytes, with rotary position embeddings; the logits reuse the embedding
 * table (tied weights). The module holds the structure, a tree the parameters; the keys that dropout draws from stay in the module's
 * states. */
#ifndef EXAMPLES_GPT_MODEL_H
#define EXAMPLES_GPT_MODEL_H

#include <manyfold.h>

#include <stdio.h>

typedef struct gpt_size {
    int vocabulary, layers, heads, features;
    double dropout;
    mf_dtype dtype; /* of the computation; the parameters are f32 */
} gpt_size;

/* ---- the model: tokens (batch, length) -> logits (batch, length, vocabulary), f32 */

static inline mf_value gpt_part(mf_module self, const char *name, mf_value x) { return mf_call(mf_member_module(self, name), x); }

static inline mf_value gpt_block_call(mf_module self, mf_value x)
{
    mf_value seen = gpt_part(self, "attention", gpt_part(self, "norm1", x));
    x = mf_add(x, gpt_part(self, "dropout1", seen));
    mf_value thought = gpt_part(self, "down", mf_gelu(gpt_part(self, "up", gpt_part(self, "norm2", x))));
    return mf_add(x, gpt_part(self, "dropout2", thought));
}

static inline mf_module gpt_block(mf_state rngs, const gpt_size *s)
{
    int n = s->features;
    mf_module attention = mf_nn_multi_head_attention(rngs, s->heads, n, .is_causal = true, .rope_max_wavelength = 10000,
                                                     .dropout_rate = s->dropout, .dtype = s->dtype);
    mf_module norm1 = mf_nn_layer_norm(rngs, n), norm2 = mf_nn_layer_norm(rngs, n, .no_fast_variance = true);
    mf_module up = mf_nn_linear(rngs, n, 4 * n, .dtype = s->dtype), down = mf_nn_linear(rngs, 4 * n, n, .dtype = s->dtype);
    return mf_module_new("Block", gpt_block_call, "norm1", norm1, "attention", attention, "dropout1", mf_nn_dropout(rngs, s->dropout),
                         "norm2", norm2, "up", up, "down", down, "dropout2", mf_nn_dropout(rngs, s->dropout));
}

static inline mf_value gpt_call(mf_module self, mf_value tokens)
{
    mf_value x = gpt_part(self, "dropout", gpt_part(self, "embed", tokens));
    for (int i = 0; i < (int)mf_member_number(self, "layers"); i++) {
        char name[24];
        snprintf(name, sizeof name, "block%d", i);
        x = gpt_part(self, name, x);
    }
    return mf_astype(mf_nn_embed_attend(mf_member_module(self, "embed"), gpt_part(self, "norm", x)), MF_F32);
}

enum { gpt_most_layers = 64 };

static inline mf_module gpt(mf_state rngs, const gpt_size *s)
{
    char name[24];
    mf_node_ members[2 * (gpt_most_layers + 4)] = {
        mf_node("embed"),   mf_node(mf_nn_embed(rngs, s->vocabulary, s->features, .dtype = s->dtype)),
        mf_node("dropout"), mf_node(mf_nn_dropout(rngs, s->dropout)),
        mf_node("norm"),    mf_node(mf_nn_layer_norm(rngs, s->features)),
        mf_node("layers"),  mf_node(s->layers)
    };
    int count = 8;
    for (int i = 0; i < s->layers && i < gpt_most_layers; i++) {
        snprintf(name, sizeof name, "block%d", i);
        members[count++] = mf_node(name);
        members[count++] = mf_node(gpt_block(rngs, s));
    }
    return mf_module_n("GPT", (mf_fm)gpt_call, 1, members, count);
}

/* ---- one step of training, as each device runs it */

typedef struct gpt_trainer {
    mf_module model;
    mf_optimizer tx;
    int64_t accumulate; /* micro-batches a step */
} gpt_trainer;          /* constant during training: the context of the closures below */

MF_RECORD(gpt_state, params, opt_state);

/* tokens (batch, length + 1) -> (): the mean cross-entropy of predicting each token from the tokens before it. */
static inline mf_value gpt_loss(void *trainer, mf_value params, mf_value tokens)
{
    int64_t length = mf_dim(tokens, -1) - 1;
    mf_value before = mf_slice_in_dim(tokens, 0, length, 1, -1), next = mf_slice_in_dim(tokens, 1, length + 1, 1, -1);
    return mf_mean(mf_softmax_cross_entropy_with_integer_labels(mf_apply(((gpt_trainer *)trainer)->model, params, before), next));
}

typedef struct gpt_micro {
    gpt_trainer *trainer;
    mf_value params;
} gpt_micro;

/* The scan's body: adds one micro-batch's loss and gradients to the sums. */
static inline mf_value gpt_accumulate(void *context, mf_value sums, mf_value tokens)
{
    gpt_micro *m = context;
    mf_value loss_and_grads = mf_call(mf_value_and_grad(mf_closure(gpt_loss, m->trainer)), m->params, tokens);
    return mf_tuple(mf_tree_map(mf_fn(mf_add), sums, loss_and_grads), mf_none());
}

static inline mf_value gpt_mean(void *count, mf_value sum) { return mf_div(sum, (double)*(int64_t *)count); }

/* state, tokens (batch, length + 1) -> (state, loss): one update by the mean gradient of all micro-batches on all devices. */
static inline mf_value gpt_train_step(void *trainer, mf_value state, mf_value tokens)
{
    gpt_trainer *t = trainer;
    gpt_state s = gpt_state_unpack(state);
    gpt_micro m = { t, s.params };
    mf_value sums = mf_tuple(mf_zeros(MF_SHAPE0), mf_tree_map(mf_fn(mf_zeros_like), s.params)), loss, grads;
    mf_value micro = mf_reshape(tokens, MF_SHAPE(t->accumulate, -1, mf_dim(tokens, -1)));
    sums = mf_get(mf_scan(mf_closure(gpt_accumulate, &m), sums, micro), 0);
    mf_unpack(mf_pmean(mf_tree_map(mf_closure(gpt_mean, &t->accumulate), sums), "devices"), &loss, &grads);
    s.params = mf_optim_update(t->tx, grads, &s.opt_state, s.params);
    return mf_tuple(gpt_state_pack(s), loss);
}

/* ---- sampling */

/* token (), key, temperature () -> the next token. The model sees this token and, in its KV cache, all tokens before it. */
static inline mf_value gpt_next(void *model, mf_value token, mf_value key, mf_value temperature)
{
    mf_value logits = mf_ravel(mf_call(*(mf_module *)model, mf_reshape(token, MF_SHAPE(1, 1))));
    mf_value drawn = mf_random_categorical(key, mf_div(logits, mf_maximum(temperature, 1e-6)), -1, MF_SHAPE0);
    return mf_where(mf_equal(temperature, 0), mf_argmax(logits), drawn);
}

#endif
