#!/usr/bin/env python3
"""Known answers of layers, losses and initialisers: flax.nnx, optax and jax.nn.initializers. README.md says what the lines are.

For each layer inputs, parameters and a cotangent of small dyadic numbers; then its output and the gradients of sum(output * cotangent).
"""
import os
import sys

import numpy as np

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import flax
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from known import Corpus, array_line

rng = np.random.default_rng(18)
corpus = Corpus(__file__, f"known answers from jax {jax.__version__}, flax {flax.__version__}, optax {optax.__version__} on the CPU")


def numbers(*shape, low=-8, high=8):
    return jnp.asarray(rng.integers(low, high + 1, shape) / 8.0, jnp.float32)


def flat(state):
    return {"/".join(map(str, path)): np.asarray(v.get_value()) for path, v in nnx.to_flat_state(state)}


def layer(name, module, *inputs, method=None, kwargs=None, positive=()):
    """Parameters are made anew; statistics start at numbers of their own."""
    graph, params, stats, rest = nnx.split(module, nnx.Param, nnx.BatchStat, ...)
    params = jax.tree.map(lambda p: numbers(*p.shape), params)
    stats = jax.tree.map(lambda p: numbers(*p.shape, low=1), stats)
    kwargs = kwargs or {}
    floats = [i for i, x in enumerate(inputs) if jnp.issubdtype(x.dtype, jnp.floating)]

    def f(params, xs):
        full = list(inputs)
        for i, x in zip(floats, xs):
            full[i] = x
        m = nnx.merge(graph, params, jax.tree.map(lambda s: s, stats), rest, copy=True)
        y = (getattr(m, method) if method else m)(*full, **kwargs)
        return y, nnx.state(m, nnx.BatchStat)

    y, after = f(params, [inputs[i] for i in floats])
    ct = numbers(*y.shape)
    loss = lambda p, xs: jnp.sum(f(p, xs)[0] * ct)
    dp, dx = jax.grad(loss, argnums=(0, 1))(params, [inputs[i] for i in floats])
    corpus.cases += 1
    corpus.add("", "layer " + name)
    corpus.add(*(array_line("in", x) for x in inputs))
    corpus.add(*(array_line("mask", x) for x in kwargs.values()))
    corpus.add(*(array_line("param " + k, v) for k, v in flat(params).items()))
    corpus.add(*(array_line("stat " + k, v) for k, v in flat(stats).items()))
    corpus.add(array_line("cotangent", ct), array_line("out", y))
    corpus.add(*(array_line("after " + k, v) for k, v in flat(after).items()))
    corpus.add(*(array_line("grad " + k, v) for k, v in flat(dp).items()))
    corpus.add(*(array_line("din", v) for v in dx))


r = nnx.Rngs(0)
layer("linear", nnx.Linear(3, 4, rngs=r), numbers(2, 2, 3))
layer("linear_plain", nnx.Linear(3, 2, use_bias=False, rngs=r), numbers(3))
image, line, cube = numbers(2, 4, 3, 2), numbers(1, 6, 2), numbers(1, 2, 3, 3, 1)
layer("conv", nnx.Conv(2, 3, (3, 2), rngs=r), image)
layer("conv_valid", nnx.Conv(2, 2, (3, 3), strides=(2, 1), padding="VALID", use_bias=False, rngs=r), image)
layer("conv_line", nnx.Conv(2, 3, 3, strides=2, rngs=r), line)
layer("conv_cube", nnx.Conv(1, 2, (2, 2, 3), rngs=r), cube)
layer("conv_groups", nnx.Conv(2, 4, (2, 2), feature_group_count=2, rngs=r), image)
layer("conv_dilated", nnx.Conv(2, 2, (2, 2), kernel_dilation=2, rngs=r), image[:1])
layer("conv_spread", nnx.Conv(2, 2, (3, 3), input_dilation=2, padding=((1, 2), (0, 1)), rngs=r), image)
layer("conv_circular", nnx.Conv(2, 2, (4, 3), padding="CIRCULAR", rngs=r), image[:1])
layer("conv_reflect", nnx.Conv(2, 2, (4, 3), padding="REFLECT", rngs=r), image[:1])
layer("conv_causal", nnx.Conv(2, 2, 3, kernel_dilation=2, padding="CAUSAL", rngs=r), line)
layer("conv_mask", nnx.Conv(2, 2, 3, mask=jnp.asarray(np.arange(12).reshape(3, 2, 2) % 2, jnp.float32), rngs=r), line)
layer("conv_no_batch", nnx.Conv(2, 2, (2, 2), rngs=r), image[0])
layer("conv_batches", nnx.Conv(2, 2, (2,), rngs=r), image)
layer("conv_transpose", nnx.ConvTranspose(2, 3, (3, 2), strides=(2, 2), rngs=r), image[:1])
layer("conv_transpose_valid", nnx.ConvTranspose(2, 2, 3, strides=2, padding="VALID", kernel_dilation=2, rngs=r), line)
layer("conv_transpose_wide", nnx.ConvTranspose(2, 2, 2, strides=3, rngs=r), line)
layer("conv_transpose_circular", nnx.ConvTranspose(2, 2, (4, 3), strides=(2, 2), padding="CIRCULAR", rngs=r), image[:1])
layer("conv_transpose_gradient", nnx.ConvTranspose(2, 3, (3, 2), strides=(2, 1), transpose_kernel=True, rngs=r), image[:1])
layer("conv_transpose_pairs", nnx.ConvTranspose(2, 2, 3, strides=2, padding=((2, 1),), rngs=r), line)
layer("embed", nnx.Embed(5, 3, rngs=r), jnp.asarray([[0, 4], [2, 4]], jnp.int32))
layer("embed_one", nnx.Embed(1, 3, rngs=r), jnp.asarray([0, 0], jnp.int32))
layer("embed_attend", nnx.Embed(5, 3, rngs=r), numbers(2, 3), method="attend")

key = jax.random.PRNGKey(7)
inits = jax.nn.initializers
for name, init, shape in (
    ("uniform", inits.uniform(0.5), (3, 4)),
    ("normal", inits.normal(0.02), (3, 4)),
    ("truncated_normal", inits.truncated_normal(0.1, lower=-1.0, upper=2.0), (3, 4)),
    ("lecun_normal", inits.lecun_normal(), (3, 2, 5)),
    ("lecun_uniform", inits.lecun_uniform(), (3, 2, 5)),
    ("glorot_normal", inits.glorot_normal(), (2, 3, 5)),
    ("glorot_uniform", inits.glorot_uniform(), (2, 3, 5)),
    ("he_normal", inits.he_normal(), (7, 3)),
    ("he_uniform", inits.he_uniform(), (7, 3)),
    ("geo", inits.variance_scaling(3.0, "fan_geo_avg", "uniform"), (7, 3)),
    ("out", inits.variance_scaling(0.5, "fan_out", "normal"), (7, 3)),
    ("embedding", inits.variance_scaling(1.0, "fan_in", "normal", out_axis=0), (5, 4)),
    ("tall", inits.orthogonal(2.0), (5, 3)),
    ("wide", inits.orthogonal(), (2, 2, 6)),
):
    corpus.cases += 1
    corpus.add("", "init " + name, array_line("out", init(key, shape, jnp.float32)))

corpus.save()
