"""The first five steps of the VAE of examples/vae_model.h as JAX, Flax and Optax compute them. Run with jax 0.10.2, flax 0.12.8, optax 0.2.8.

Parameters: leaf i, in the order of jax.tree.leaves, is fill(1000 + i, shape, 0.2). The images of step s, counted from 0, are
(fill(1 + s, shape, 1) + 1) / 2, divided among 8 devices. Device d has a key of its own, row d of split(PRNGKey(7), 8): each step splits it
into the next key and the one from which the noise is drawn.
"""
import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from known import Corpus, array_line
from sequences import fill

DEVICES, BATCH, PIXELS, HIDDEN, LATENTS, STEPS = 8, 16, 36, 24, 4, 5


class Encoder(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(PIXELS, HIDDEN, rngs=rngs)
        self.mean, self.log_variance = nnx.Linear(HIDDEN, LATENTS, rngs=rngs), nnx.Linear(HIDDEN, LATENTS, rngs=rngs)

    def __call__(self, x):
        h = nnx.relu(self.hidden(x))
        return self.mean(h), self.log_variance(h)


class Decoder(nnx.Module):
    def __init__(self, rngs):
        self.hidden, self.out = nnx.Linear(LATENTS, HIDDEN, rngs=rngs), nnx.Linear(HIDDEN, PIXELS, rngs=rngs)

    def __call__(self, z):
        return self.out(nnx.relu(self.hidden(z)))


class VAE(nnx.Module):
    def __init__(self, rngs):
        self.encoder, self.decoder = Encoder(rngs), Decoder(rngs)

    def __call__(self, x, key):
        mean, log_variance = self.encoder(x)
        z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape)
        return self.decoder(z), mean, log_variance


def main():
    graph, params = nnx.split(VAE(nnx.Rngs(0)))
    leaves, tree = jax.tree.flatten(params)
    params = jax.tree.unflatten(tree, [jnp.asarray(fill(1000 + i, a.shape, 0.2)) for i, a in enumerate(leaves)])
    tx = optax.adam(1e-2)

    def loss_fn(params, images, key):
        logits, mean, log_variance = nnx.merge(graph, params)(images, key)
        reconstruction = optax.sigmoid_binary_cross_entropy(logits, images).sum(-1).mean()
        kl = -0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance), -1).mean()
        return reconstruction + kl, (reconstruction, kl)

    def device_step(params, opt_state, key, images):
        key, draw = jax.random.split(key)
        (loss, (reconstruction, kl)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, images, draw)
        grads, means = jax.lax.pmean((grads, jnp.stack([loss, reconstruction, kl])), "devices")
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, key, means, grads

    step = jax.jit(jax.vmap(device_step, axis_name="devices", in_axes=(None, None, 0, 0), out_axes=(0, 0, 0, 0, 0)))
    norms = lambda t: jnp.stack([jnp.sqrt(jnp.sum(a * a)) for a in jax.tree.leaves(t)])  # noqa: E731
    opt_state, keys, answers, first = tx.init(params), jax.random.split(jax.random.PRNGKey(7), DEVICES), [], None
    for s in range(STEPS):
        images = (fill(1 + s, (DEVICES, BATCH // DEVICES, PIXELS), 1) + 1) / 2
        params, opt_state, keys, means, grads = step(params, opt_state, keys, images)
        params, opt_state, means, grads = jax.tree.map(lambda a: a[0], (params, opt_state, means, grads))  # the same on all devices
        answers.append(means)
        first = norms(grads) if first is None else first
    corpus = Corpus(__file__, f"known answers from jax {jax.__version__}, flax {flax.__version__}, optax {optax.__version__} on the CPU")
    corpus.cases += 1
    answers = np.asarray(answers)
    corpus.add("", "case vae", *(array_line(word, answers[:, i]) for i, word in enumerate(("losses", "reconstruction", "kl"))),
               array_line("gradient_norms", first), array_line("parameter_norms", norms(params)))
    corpus.save()


main()
