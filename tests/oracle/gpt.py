"""The first five steps of the GPT of examples/gpt_model.h as JAX, Flax and Optax compute them. Run with jax 0.10.2, flax 0.12.8, optax 0.2.8.

Parameters: leaf i, in the order of jax.tree.leaves, is fill(1000 + i, shape, 0.1), plus 1 if it is the scale of a norm. The tokens of
step s, counted from 0, are fill(1 + s, (BATCH, LENGTH + 1), 1), whose range is divided into VOCABULARY equal parts. There is no dropout,
since its keys differ between the libraries. The C test divides the batch among 8 devices and two micro-batches, which gives the same means.
"""
import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from known import Corpus, array_line
from sequences import fill, rope

VOCABULARY, LAYERS, HEADS, FEATURES, LENGTH, BATCH, STEPS = 32, 4, 2, 16, 12, 16, 5


def turned(query, key, value, **options):
    at = lambda x: rope(x, jnp.arange(x.shape[-3]))  # noqa: E731
    return nnx.dot_product_attention(at(query), at(key), value, **options)


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm1, self.norm2 = nnx.LayerNorm(FEATURES, rngs=rngs), nnx.LayerNorm(FEATURES, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, FEATURES, decode=False, attention_fn=turned, rngs=rngs)
        self.up, self.down = nnx.Linear(FEATURES, 4 * FEATURES, rngs=rngs), nnx.Linear(4 * FEATURES, FEATURES, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm1(x), is_causal=True)
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class GPT(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(VOCABULARY, FEATURES, rngs=rngs)
        for i in range(LAYERS):
            setattr(self, f"block{i}", Block(rngs))
        self.norm = nnx.LayerNorm(FEATURES, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for i in range(LAYERS):
            x = getattr(self, f"block{i}")(x)
        return self.embed.attend(self.norm(x))


def main():
    graph, params = nnx.split(GPT(nnx.Rngs(0)))
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    params = jax.tree.unflatten(tree, [jnp.asarray(fill(1000 + i, a.shape, 0.1) + ("scale" in jax.tree_util.keystr(path)))
                                       for i, (path, a) in enumerate(leaves)])
    decays = jax.tree.unflatten(tree, ["kernel" in jax.tree_util.keystr(path) for path, _ in leaves])
    rate = optax.warmup_cosine_decay_schedule(0, 1e-2, 2, 20, end_value=1e-3)
    tx = optax.chain(optax.clip_by_global_norm(1), optax.adamw(rate, b2=0.99, weight_decay=0.1, mask=decays))

    def loss_fn(params, tokens):
        logits = nnx.merge(graph, params)(tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    @jax.jit
    def step(params, opt_state, tokens):
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss, grads

    norms = lambda t: jnp.stack([jnp.sqrt(jnp.sum(a * a)) for a in jax.tree.leaves(t)])  # noqa: E731
    opt_state, losses, first = tx.init(params), [], None
    for s in range(STEPS):
        tokens = np.floor((fill(1 + s, (BATCH, LENGTH + 1), 1) + 1) / 2 * VOCABULARY).astype(np.int32)
        params, opt_state, loss, grads = step(params, opt_state, tokens)
        losses.append(loss)
        first = norms(grads) if first is None else first
    corpus = Corpus(__file__, f"known answers from jax {jax.__version__}, flax {flax.__version__}, optax {optax.__version__} on the CPU")
    corpus.cases += 1
    corpus.add("", "case gpt", array_line("losses", np.asarray(losses)), array_line("gradient_norms", first),
               array_line("parameter_norms", norms(params)))
    corpus.save()


main()
