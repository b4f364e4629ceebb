#!/usr/bin/env python3
"""Known answers of layers, losses and initialisers: flax.nnx, optax and jax.nn.initializers. README.md describes the lines.

For each layer: inputs, parameters and a cotangent, all multiples of a power of 1/2; then its output and the gradients of
sum(output * cotangent).
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
    """Parameters are replaced by generated ones, and so are the initial statistics."""
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

narrow = numbers(4, 3)
layer("batch_norm", nnx.BatchNorm(3, rngs=r), numbers(2, 2, 2, 3))
layer("batch_norm_running", nnx.BatchNorm(3, use_running_average=True, rngs=r), narrow)
layer("batch_norm_options", nnx.BatchNorm(4, axis=1, momentum=0.5, epsilon=0.25, use_bias=False, use_fast_variance=False, rngs=r), numbers(2, 4, 2))
layer("batch_norm_mask", nnx.BatchNorm(3, use_scale=False, rngs=r), narrow, kwargs={"mask": jnp.asarray([[True], [False], [True], [True]])})
layer("layer_norm", nnx.LayerNorm(4, rngs=r), numbers(2, 2, 4))
layer("layer_norm_axes", nnx.LayerNorm(4, reduction_axes=(1, 2), use_fast_variance=False, epsilon=0.5, rngs=r), numbers(2, 2, 4))
layer("layer_norm_mask", nnx.LayerNorm(4, rngs=r), numbers(2, 4), kwargs={"mask": jnp.asarray([[True, True, False, True], [True, False, True, True]])})
layer("rms_norm", nnx.RMSNorm(4, rngs=r), numbers(2, 2, 4))
layer("group_norm", nnx.GroupNorm(4, num_groups=2, rngs=r), numbers(2, 2, 2, 4))
layer("group_norm_size", nnx.GroupNorm(6, num_groups=None, group_size=2, rngs=r), numbers(2, 6))
layer("sequential", nnx.Sequential(nnx.Linear(3, 4, rngs=r), nnx.relu, nnx.Linear(4, 2, rngs=r)), numbers(2, 3))


def loss(name, f, *inputs, floats=2, where=None):
    """The inputs, a mask, and the gradients of the first inputs."""
    out = f(*inputs, **({} if where is None else {"where": where}))
    ct = numbers(*out.shape)
    grads = jax.grad(lambda *a: jnp.sum(f(*a, *inputs[floats:], **({} if where is None else {"where": where})) * ct), argnums=tuple(range(floats)))(*inputs[:floats])
    corpus.cases += 1
    corpus.add("", "loss " + name, *(array_line("in", x) for x in inputs))
    corpus.add(*([array_line("mask", where)] if where is not None else []))
    corpus.add(array_line("cotangent", ct), array_line("out", out), *(array_line("din", g) for g in grads))


logits, classes = numbers(3, 4), jnp.asarray([1, 3, 0], jnp.int32)
one = jax.nn.one_hot(classes, 4)
spread = jax.nn.softmax(numbers(3, 4))
weights = jnp.asarray([0.5, 1.0, 2.0, 0.25], jnp.float32)
part = jnp.asarray([[True, True, False, True], [True, False, True, True], [True, True, True, True]])
with_integers = optax.softmax_cross_entropy_with_integer_labels
loss("softmax_cross_entropy", optax.softmax_cross_entropy, logits, spread)
loss("softmax_cross_entropy_where", optax.softmax_cross_entropy, logits, one, floats=1, where=part)
loss("softmax_cross_entropy_axis", lambda a, b: optax.softmax_cross_entropy(a, b, axis=0), logits, spread)
loss("softmax_cross_entropy_smooth", lambda a: optax.softmax_cross_entropy(a, optax.smooth_labels(one, 0.1)), logits, floats=1)
loss("softmax_cross_entropy_weights", lambda a: -(weights * optax.smooth_labels(one, 0.1) * jax.nn.log_softmax(a)).sum(-1), logits, floats=1)
loss("integer_labels", with_integers, logits, classes, floats=1)
loss("integer_labels_where", with_integers, logits, classes, floats=1, where=part)
loss("integer_labels_axis", lambda a, b: with_integers(a, b, axis=0), logits, jnp.asarray([1, 2, 0, 0], jnp.int32), floats=1)
loss("smooth_labels", lambda a: optax.smooth_labels(a, 0.1), spread, floats=1)
loss("sigmoid_binary_cross_entropy", optax.sigmoid_binary_cross_entropy, numbers(3, 4, low=-80, high=80), spread)
loss("hinge", optax.hinge_loss, numbers(6), jnp.asarray([1, -1, 1, -1, 1, 1], jnp.float32))
loss("multiclass_hinge", optax.losses.multiclass_hinge_loss, logits, classes, floats=1)
loss("squared_error", optax.squared_error, logits, spread)
loss("l2", optax.l2_loss, logits, spread)
loss("huber", lambda a, b: optax.huber_loss(a, b, delta=0.5), logits, spread)
loss("log_cosh", optax.log_cosh, logits, spread)
loss("kl_divergence", optax.kl_divergence, jax.nn.log_softmax(logits), spread)
loss("kl_divergence_zeros", optax.kl_divergence, jax.nn.log_softmax(logits), one, floats=1)
loss("kl_divergence_where", lambda a, b, where: optax.kl_divergence(a, b, axis=0, where=where), jax.nn.log_softmax(logits), spread, where=part)
loss("kl_divergence_log", optax.losses.kl_divergence_with_log_targets, jax.nn.log_softmax(logits), jnp.log(spread))
loss("cosine_similarity", optax.cosine_similarity, logits, spread)
loss("cosine_distance", lambda a, b: optax.cosine_distance(a, b, epsilon=1.0), logits, spread)

images = numbers(1, 4, 5, 2)
pool = dict(window_shape=(2, 3), strides=(2, 1))
loss("max_pool", lambda x: nnx.max_pool(x, **pool, padding="SAME"), images, floats=1)
loss("min_pool", lambda x: nnx.min_pool(x, **pool), images, floats=1)
loss("avg_pool", lambda x: nnx.avg_pool(x, **pool, padding="SAME"), images, floats=1)
loss("avg_pool_alone", lambda x: nnx.avg_pool(x, **pool, padding="SAME", count_include_pad=False), images, floats=1)
loss("avg_pool_pairs", lambda x: nnx.avg_pool(x, **pool, padding=((1, 0), (2, 1)), count_include_pad=False), images, floats=1)
corpus.cases += 1
bits = jax.random.bernoulli(jax.random.PRNGKey(7), 0.75, (3, 1))
x = numbers(3, 4)
corpus.add("", "init dropout", array_line("in", x), array_line("out", nnx.Dropout(0.25, broadcast_dims=(-1,))(x, rngs=jax.random.PRNGKey(7))))

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

layer("instance_norm", nnx.InstanceNorm(4, rngs=r), numbers(2, 3, 2, 4))
layer("instance_norm_axes", nnx.InstanceNorm(6, feature_axes=(1, 3), use_fast_variance=False, rngs=r), numbers(2, 2, 4, 3))

layer("linear_general", nnx.LinearGeneral((2, 3), (4, 2), axis=(1, -1), rngs=r), numbers(2, 2, 3))
layer("linear_general_inner", nnx.LinearGeneral(3, (2, 2), axis=-2, use_bias=False, rngs=r), numbers(2, 3, 2))
layer("linear_general_batch", nnx.LinearGeneral((3,), (2, 4), batch_axis={0: 2}, rngs=r), numbers(2, 5, 3))
layer("einsum", nnx.Einsum("nta,hab->nthb", (3, 2, 4), (3, 4), rngs=r), numbers(2, 5, 2))
layer("einsum_plain", nnx.Einsum("ab, bc -> ca", (3, 2), rngs=r), numbers(2, 3))
layer("einsum_dots", nnx.Einsum("...a,ab->...b", (3, 2), (2,), rngs=r), numbers(2, 4, 3))

rng = np.random.default_rng(19)  # so that the cases above may change
logits, spread = numbers(3, 4), jax.nn.softmax(numbers(3, 4))
scores = jnp.asarray([[1, -2, 0.5, 3], [0, 100, -100, 4], [-30, 2, 1, -1]], jnp.float32)
targets = jnp.asarray([[1, 0, 1, 1], [0, 1, 1, 0.25], [0, 0.5, 1, 0]], jnp.float32)
loss("perceptron", optax.losses.perceptron_loss, scores, jnp.sign(targets - 0.4))
loss("focal", optax.losses.sigmoid_focal_loss, scores, targets, floats=1)
loss("focal_alpha", lambda a, b: optax.losses.sigmoid_focal_loss(a, b, alpha=0.25, gamma=1.5), scores, targets, floats=1)
loss("poly_loss", lambda a, b: optax.losses.poly_loss_cross_entropy(a, b, epsilon=1.5), logits, spread)
loss("generalized_kl", lambda a, b: optax.losses.generalized_kl_divergence(a, b, axis=0), jax.nn.log_softmax(logits), spread)
loss("triplet", optax.losses.triplet_margin_loss, logits, scores, logits[::-1] + 1, floats=3)
loss("triplet_4", lambda a, b, c: optax.losses.triplet_margin_loss(a, b, c, axis=0, norm_degree=4, margin=0.5), logits, scores, logits[::-1] + 1, floats=3)
loss("ntxent", lambda a, b: optax.losses.ntxent(a, b, 0.5), numbers(6, 3), jnp.asarray([0, 1, 0, 2, 1, 0], jnp.int32), floats=1)
sounds, ends = numbers(3, 7, 5), jnp.asarray(np.arange(7) >= np.asarray([[7], [5], [6]]), jnp.float32)
words, word_ends = jnp.asarray([[1, 1, 2], [3, 4, 0], [2, 2, 2]], jnp.int32), jnp.asarray([[0, 0, 0], [0, 0, 1], [0, 0, 0]], jnp.float32)
loss("ctc", optax.losses.ctc_loss, sounds, ends, words, word_ends, floats=1)
loss("ctc_blank", lambda a, b, c, d: optax.losses.ctc_loss(a, b, c % 4, d, blank_id=4, log_epsilon=-1e4), sounds, ends, words, word_ends, floats=1)

corpus.save()
