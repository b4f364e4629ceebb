/* The model of vae.c and its training step: a variational autoencoder (arXiv:1312.6114) of linear layers, as in Flax's examples. The module
 * holds the structure, a tree the parameters; the training state also holds a random key, a different one on each device. */
#ifndef EXAMPLES_VAE_MODEL_H
#define EXAMPLES_VAE_MODEL_H

#include <manyfold.h>

typedef struct vae_size {
    int pixels, hidden, latents;
} vae_size;

/* ---- the model */

static inline mf_value vae_part(mf_module self, const char *name, mf_value x) { return mf_call(mf_member_module(self, name), x); }

/* (n, pixels) -> tuple of two (n, latents): the mean and the log variance of each image's code */
static inline mf_value vae_encoder_call(mf_module self, mf_value images)
{
    mf_value h = mf_relu(vae_part(self, "hidden", images));
    return mf_tuple(vae_part(self, "mean", h), vae_part(self, "log_variance", h));
}

static inline mf_module vae_encoder(mf_state rngs, const vae_size *s)
{
    mf_module hidden = mf_nn_linear(rngs, s->pixels, s->hidden), mean = mf_nn_linear(rngs, s->hidden, s->latents);
    return mf_module_new("Encoder", vae_encoder_call, "hidden", hidden, "mean", mean, "log_variance",
                         mf_nn_linear(rngs, s->hidden, s->latents));
}

/* (n, latents) -> (n, pixels): the logits of the pixels' brightness */
static inline mf_value vae_decoder_call(mf_module self, mf_value codes)
{
    return vae_part(self, "out", mf_relu(vae_part(self, "hidden", codes)));
}

static inline mf_module vae_decoder(mf_state rngs, const vae_size *s)
{
    mf_module hidden = mf_nn_linear(rngs, s->latents, s->hidden);
    return mf_module_new("Decoder", vae_decoder_call, "hidden", hidden, "out", mf_nn_linear(rngs, s->hidden, s->pixels));
}

/* A sample of N(mean, exp(log_variance)) that is differentiable in both parameters: only the noise is random. */
static inline mf_value vae_reparametrize(mf_value key, mf_value mean, mf_value log_variance)
{
    mf_value noise = mf_random_normal(key, mf_shape_of(mean));
    return mf_add(mean, mf_mul(mf_exp(mf_mul(log_variance, 0.5)), noise));
}

/* (n, pixels), key -> tuple: logits (n, pixels), mean and log_variance (n, latents) */
static inline mf_value vae_call(mf_module self, mf_value images, mf_value key)
{
    mf_value mean, log_variance;
    mf_unpack(vae_part(self, "encoder", images), &mean, &log_variance);
    return mf_tuple(vae_part(self, "decoder", vae_reparametrize(key, mean, log_variance)), mean, log_variance);
}

static inline mf_module vae(mf_state rngs, const vae_size *s)
{
    mf_module encoder = vae_encoder(rngs, s);
    return mf_module_new("VAE", vae_call, "encoder", encoder, "decoder", vae_decoder(rngs, s));
}

/* ---- one step of training, as each device runs it */

typedef struct vae_trainer {
    mf_module model;
    mf_optimizer tx;
} vae_trainer; /* constant during training: the context of the closures below */

MF_RECORD(vae_state, params, opt_state, key);

/* images (n, pixels), key -> dict of (n): the negative ELBO of each image in nats ("loss"), and its terms: the reconstruction error and the
 * KL divergence of the code's distribution from the prior N(0, 1) */
static inline mf_value vae_costs(mf_module model, mf_value params, mf_value images, mf_value key)
{
    mf_value logits, mean, log_variance;
    mf_unpack(mf_apply(model, params, images, key), &logits, &mean, &log_variance);
    mf_value reconstruction = mf_sum(mf_sigmoid_binary_cross_entropy(logits, images), -1);
    mf_value spread = mf_sub(mf_sub(mf_add(log_variance, 1), mf_square(mean)), mf_exp(log_variance));
    mf_value kl = mf_mul(mf_sum(spread, -1), -0.5);
    return mf_dict("loss", mf_add(reconstruction, kl), "reconstruction", reconstruction, "kl", kl);
}

static inline mf_value vae_mean_of(mf_value x) { return mf_mean(x); }

/* params, images, key -> (loss, dict of means over the images) */
static inline mf_value vae_loss(void *trainer, mf_value params, mf_value images, mf_value key)
{
    mf_value means = mf_tree_map(mf_fn(vae_mean_of), vae_costs(((vae_trainer *)trainer)->model, params, images, key));
    return mf_tuple(mf_get(means, "loss"), means);
}

/* state, images (n, pixels) -> (state, dict of means). Each device draws its own noise; all make the same update. */
static inline mf_value vae_train_step(void *trainer, mf_value state, mf_value images)
{
    vae_trainer *t = trainer;
    vae_state s = vae_state_unpack(state);
    mf_value keys = mf_random_split(s.key, 2), loss_and_metrics, grads;
    mf_function grad_fn = mf_value_and_grad(mf_closure(vae_loss, t), .has_aux = true);
    mf_unpack(mf_call(grad_fn, s.params, images, mf_get(keys, 1)), &loss_and_metrics, &grads);
    grads = mf_pmean(grads, "devices");
    s.params = mf_optim_update(t->tx, grads, &s.opt_state, s.params);
    s.key = mf_get(keys, 0);
    return mf_tuple(vae_state_pack(s), mf_pmean(mf_get(loss_and_metrics, 1), "devices"));
}

/* Replicates parameters and optimiser state to all devices, and places one row of the keys on each. */
static inline mf_value vae_replicated(mf_value state)
{
    mf_device_list devices = mf_local_devices();
    vae_state s = vae_state_unpack(state);
    return vae_state_pack((vae_state){ mf_replicate(s.params, devices), mf_replicate(s.opt_state, devices), mf_place(s.key, devices) });
}

/* The state before the first step: the same parameters on each device, and a different key. The scope releases the unplaced keys: mf_place
 * copies nothing, and a step cannot reuse donated memory that other values share. */
static inline mf_value vae_first_state(const vae_trainer *t, mf_value params, mf_value key)
{
    MF_SCOPE;
    vae_state s = { params, mf_optim_init(t->tx, params), mf_random_split(key, mf_local_device_count()) };
    return mf_escape(vae_replicated(vae_state_pack(s)));
}

/* ---- pictures */

/* (n, 32, 32, 1) -> (n, 28 * 28): without the border that mf_load_fashion_mnist adds */
static inline mf_value vae_pixels(mf_value images)
{
    mf_value inner = mf_pad(images, 0.0f, MF_INTS(0, -2, -2, 0), MF_INTS(0, -2, -2, 0), MF_INTS(0, 0, 0, 0));
    return mf_reshape(inner, MF_SHAPE(mf_dim(images, 0), -1));
}

/* codes (n, latents) -> (n, pixels), from 0 to 1 */
static inline mf_value vae_generate(void *model, mf_value params, mf_value codes)
{
    mf_module decoder = mf_member_module(*(mf_module *)model, "decoder");
    return mf_sigmoid(mf_apply(decoder, mf_get(params, "decoder"), codes));
}

/* images (n, pixels) -> (n, pixels): the decoded means of their codes */
static inline mf_value vae_reconstruct(void *model, mf_value params, mf_value images)
{
    mf_module encoder = mf_member_module(*(mf_module *)model, "encoder");
    return vae_generate(model, params, mf_get(mf_apply(encoder, mf_get(params, "encoder"), images), 0));
}

#endif
