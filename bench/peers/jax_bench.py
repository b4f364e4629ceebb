#!/usr/bin/env python3
"""The peer's side of the benchmark: the same workloads in JAX, driven one repetition at a time.

    jax_bench.py --list                        print the names of the workloads, one per line, and exit
    jax_bench.py [--devices 8]                 read names from standard input; after each, run that workload once more
    jax_bench.py --processes 2 [--devices 4]   the same as a job of several processes
    jax_bench.py [--devices 8] --only NAME...  run those without a driver, --repeat times in turn (A B A B ...)

A driver writes one name per line and reads one JSON object per line, so it can alternate between programs:

    {"peer": "jax 0.10.2", "devices": 8, "name": "dispatch_double", "seconds": 3.1e-05, "calls": 100, "round": 1, "rss_mib": 190.2}

`seconds` is the mean over the `calls` of this round, which last 20 ms together: other workloads have evicted the caches, and most of a round
should run warm. Each call is waited for before the next one (with more devices than cores, JAX's collectives otherwise wait for each
other). The first time that its name or its first_call_ name is requested, a workload is prepared and called twice, which compiles it; that
is not part of `seconds`. A `first_call_` figure is the time of the first call, with its inputs ready; requested again, the same figure is
returned. `startup` is the time from the first line of this script until the devices are usable. `rss_mib` is the peak memory of the process
so far: to measure the memory of one workload, start a new process for it. The first line of output is {"name": "ready"}; a name that fails
is answered by {"name": ..., "error": ...}, and the loop continues.

Names, shapes, dtypes and formulas are those of bench/workloads/*.c; normal numbers come from the same keys.
The reference releases are jax 0.10.2 (pmap on jit and shard_map) and jax 0.4.35 with jaxlib 0.4.34 and numpy below 2.2 (the
original pmap). The figures are meant for ratios within one interleaved run; absolute times on a shared machine mean little.
"""
import time

STARTED = time.perf_counter()

import argparse  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

from peer import Peer, WORKLOADS, names, workload  # noqa: E402


def sharded(jax, array):
    """The rows of the array, laid out on the devices, ready."""
    return jax.block_until_ready(jax.pmap(lambda a: a)(array))


def normal(jax, seed, shape):
    return jax.random.normal(jax.random.PRNGKey(seed), shape, jax.numpy.float32)


# ---- pmap itself

def on_tiny(jax, n, f, width=4):
    """The first call gets an ordinary array, as a user's would; the later ones get its result, which is on the devices."""
    x, laid_out = jax.block_until_ready(jax.numpy.arange(float(width) * n).reshape(n, width)), False

    def call():
        nonlocal x, laid_out
        out = f(x)
        if not laid_out:
            x, laid_out = out, True
        return out
    return call


@workload("warming", calls=10)
def warming(jax, n):
    jnp = jax.numpy
    energy = jax.grad(lambda x: jnp.sum(jnp.tanh(x) * jnp.exp(-x**2)))
    return on_tiny(jax, n, jax.pmap(lambda x: jax.lax.psum(energy(x), "i"), axis_name="i"), 20000)


@workload("dispatch_double", calls=100)
def double(jax, n):
    return on_tiny(jax, n, jax.pmap(lambda a: a * 2))


@workload("dispatch_psum", calls=100)
def normalize(jax, n):
    return on_tiny(jax, n, jax.pmap(lambda a: a / jax.lax.psum(a, "i"), axis_name="i"))


def all_reduce(name, kib, calls):
    @workload(f"psum_{name}", calls)
    def prepare(jax, n):
        rows = jax.numpy.arange(n, dtype=jax.numpy.float32).reshape(n, 1) + jax.numpy.ones((n, kib << 8), jax.numpy.float32)
        x = jax.block_until_ready(jax.pmap(lambda a: a * 2)(rows))
        del rows
        f = jax.pmap(lambda a: jax.lax.psum(a, "i"), axis_name="i")
        return lambda: f(x)


for kibibytes, times in ((1, 50), (4, 50), (16, 50), (64, 20), (256, 10)):
    all_reduce(f"{kibibytes}KiB", kibibytes, times)
for mebibytes, times in ((1, 5), (4, 3), (16, 3), (64, 2), (256, 1)):
    all_reduce(f"{mebibytes}MiB", mebibytes << 10, times)


def replicated(jax, n, tree):
    return jax.block_until_ready(jax.tree_util.tree_map(lambda a: jax.numpy.broadcast_to(a, (n, *jax.numpy.shape(a))), tree))


@workload("linear_regression_step", calls=50)
def linear_regression(jax, n):
    jnp, lax = jax.numpy, jax.lax

    def squared_error(params, x, y):
        w, b = params
        return jnp.mean((x @ w + b - y) ** 2)

    def step(params, x, y, rate):
        loss, grads = jax.value_and_grad(squared_error)(params, x, y)
        grads = lax.pmean(grads, "batch")
        return jax.tree_util.tree_map(lambda p, g: p - rate * g, params, grads), lax.pmean(loss, "batch")

    f = jax.pmap(step, axis_name="batch", in_axes=(0, 0, 0, None), static_broadcasted_argnums=(3,))
    x = sharded(jax, jnp.arange(n * 500.0).reshape(n, 100, 5) * 1e-4)
    y = sharded(jax, jnp.arange(n * 100.0).reshape(n, 100) * 1e-3)
    params = replicated(jax, n, (jnp.ones(5), jnp.ones(())))

    def call():
        nonlocal params
        params, loss = f(params, x, y, 0.05)
        return params, loss
    return call


# ---- one jitted function on one device

def matmul(n, calls, dtype="float32"):
    @workload(f"matmul_{n}" if dtype == "float32" else f"matmul_{dtype}_{n}", calls)
    def prepare(jax, _):
        f, a, b = jax.jit(lambda a, b: a @ b), normal(jax, 0, (n, n)).astype(dtype), normal(jax, 1, (n, n)).astype(dtype)
        return lambda: f(a, b)


for size, times in ((64, 100), (512, 20), (1024, 4), (2048, 1)):
    matmul(size, times)
    matmul(size, times, "bfloat16")


def cross_entropy(rows, classes, calls, calls_grad):
    def loss(jax, x, label):
        """optax.softmax_cross_entropy_with_integer_labels"""
        return jax.nn.logsumexp(x, axis=-1) - jax.numpy.take_along_axis(x, label[:, None], axis=-1)[:, 0]

    def arguments(jax):
        return normal(jax, 0, (rows, classes)), jax.random.randint(jax.random.PRNGKey(1), (rows,), 0, classes)

    @workload(f"cross_entropy_{rows}x{classes}", calls)
    def forward(jax, _):
        f, (x, label) = jax.jit(lambda x, label: loss(jax, x, label)), arguments(jax)
        return lambda: f(x, label)

    @workload(f"cross_entropy_grad_{rows}x{classes}", calls_grad)
    def gradient(jax, _):
        f, (x, label) = jax.jit(jax.value_and_grad(lambda x, label: jax.numpy.mean(loss(jax, x, label)))), arguments(jax)
        return lambda: f(x, label)


cross_entropy(64, 10, 100, 100)
cross_entropy(4096, 1000, 10, 5)


def adam_update(jax, p, m, v, t, g):
    """One step of optax.adam, leaf by leaf."""
    tree_map = jax.tree_util.tree_map
    t = t + 1
    m = tree_map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = tree_map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    p = tree_map(lambda a, b, c: a - 1e-3 * (b / (1 - 0.9**t)) / (jax.numpy.sqrt(c / (1 - 0.999**t)) + 1e-8), p, m, v)
    return p, m, v, t


def adam(name, n, calls):
    @workload(f"adam_{name}", calls)
    def prepare(jax, _):
        f = jax.jit(lambda *a: adam_update(jax, *a), donate_argnums=(0, 1, 2, 3))
        jnp = jax.numpy
        state = normal(jax, 0, (n,)), jnp.zeros(n), jnp.zeros(n), jnp.zeros(())
        g = normal(jax, 1, (n,))

        def call():
            nonlocal state
            state = f(*state, g)
            return state
        return call


adam("4Ki", 4 << 10, 100)
adam("1Mi", 1 << 20, 20)
adam("16Mi", 16 << 20, 2)


def layer_norm(rows, width, calls):
    @workload(f"layer_norm_{rows}x{width}", calls)
    def prepare(jax, _):
        jnp = jax.numpy

        @jax.jit
        def f(x, scale, bias):
            centred = x - jnp.mean(x, -1, keepdims=True)
            variance = jnp.mean(centred**2, -1, keepdims=True)
            return centred * jax.lax.rsqrt(variance + 1e-5) * scale + bias

        x, scale, bias = normal(jax, 0, (rows, width)), normal(jax, 1, (width,)), normal(jax, 2, (width,))
        return lambda: f(x, scale, bias)


layer_norm(64, 64, 100)
layer_norm(4096, 1024, 10)


@workload("tanh_exp_64Ki", calls=100)
def tanh_exp(jax, _):
    f, x = jax.jit(lambda x: jax.numpy.tanh(x) * jax.numpy.exp(x)), normal(jax, 0, (64 << 10,))
    return lambda: f(x)


# ---- loops on one device

@workload("while_1000", calls=100)
def count(jax, _):
    f = jax.jit(lambda x, end: jax.lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] + 1, c[1]), (x, end))[0])
    return lambda x=jax.numpy.zeros(()), end=jax.numpy.float32(1000): f(x, end)


@workload("fori_1000", calls=100)
def halve(jax, _):
    jnp = jax.numpy
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda i, x: x * 0.5 + i.astype(jnp.float32), x))
    return lambda x=jnp.zeros(()): f(x)


def recurrent(steps, units, calls, calls_grad):
    def rnn(jax, w, h, x):
        def cell(h, x):
            made = jax.numpy.tanh(w @ h + x)
            return made, made
        return jax.lax.scan(cell, h, x)[1]

    def arguments(jax):
        return 0.2 * normal(jax, 0, (units, units)), jax.numpy.zeros(units), normal(jax, 1, (steps, units))

    @workload(f"rnn_{steps}x{units}", calls)
    def forward(jax, _):
        f, arrays = jax.jit(lambda *a: rnn(jax, *a)), arguments(jax)
        return lambda: f(*arrays)

    @workload(f"rnn_grad_{steps}x{units}", calls_grad)
    def gradient(jax, _):
        f, arrays = jax.jit(jax.grad(lambda *a: jax.numpy.mean(rnn(jax, *a)**2))), arguments(jax)
        return lambda: f(*arrays)


recurrent(1000, 16, 50, 20)
recurrent(1000, 64, 10, 5)


def long_short_term(steps, units, calls):
    """Flax's OptimizedLSTMCell over 16 sequences."""
    def outputs(jax, p, x):
        jnp, zeros = jax.numpy, jax.numpy.zeros((16, units))

        def cell(carry, x):
            c, h = carry
            i, f, g, o = jnp.split(x @ p["i"] + (h @ p["h"] + p["b"]), 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (c, h), h
        return jnp.swapaxes(jax.lax.scan(cell, (zeros, zeros), jnp.swapaxes(x, 0, 1))[1], 0, 1)

    def arguments(jax):
        p = {"i": 0.05 * normal(jax, 0, (units, 4 * units)), "h": 0.05 * normal(jax, 1, (units, 4 * units)), "b": jax.numpy.zeros(4 * units)}
        return p, normal(jax, 2, (16, steps, units))

    @workload(f"lstm_{steps}x{units}", calls)
    def forward(jax, _):
        f, arrays = jax.jit(lambda *a: outputs(jax, *a)), arguments(jax)
        return lambda: f(*arrays)

    @workload(f"lstm_grad_{steps}x{units}", calls)
    def gradient(jax, _):
        f, arrays = jax.jit(jax.grad(lambda *a: jax.numpy.mean(outputs(jax, *a)**2))), arguments(jax)
        return lambda: f(*arrays)


long_short_term(20, 8, 20)
long_short_term(1000, 128, 1)


def attention(length, depth, calls, calls_grad):
    """What Flax's dot_product_attention calls, causal."""
    def outputs(jax, *arrays):
        return jax.nn.dot_product_attention(*arrays, is_causal=True)

    def arguments(jax):
        return [normal(jax, i, (8, length, 8, depth)) for i in range(3)]

    @workload(f"attention_{length}x{depth}", calls)
    def forward(jax, _):
        f, arrays = jax.jit(lambda *a: outputs(jax, *a)), arguments(jax)
        return lambda: f(*arrays)

    @workload(f"attention_grad_{length}x{depth}", calls_grad)
    def gradient(jax, _):
        f, arrays = jax.jit(jax.grad(lambda *a: jax.numpy.mean(outputs(jax, *a)**2), argnums=(0, 1, 2))), arguments(jax)
        return lambda: f(*arrays)


attention(16, 8, 20, 20)
attention(256, 64, 5, 3)


# ---- around a training step

def batch_norm(images, channels, calls):
    """What Flax's BatchNorm computes in training: the normalised values and the updated running averages."""
    def normalize(jax, p, x):
        mean, square = jax.numpy.mean(x, (0, 1, 2)), jax.numpy.mean(jax.numpy.square(x), (0, 1, 2))
        variance = jax.numpy.maximum(square - jax.numpy.square(mean), 0)
        y = (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * p["scale"]) + p["bias"]
        return y, {"mean": 0.99 * p["mean"] + 0.01 * mean, "var": 0.99 * p["var"] + 0.01 * variance}

    def loss(jax, p, x, weights):
        y, statistics = normalize(jax, p, x)
        return jax.numpy.mean(y * weights), statistics

    def arguments(jax):
        zeros, ones = jax.numpy.zeros(channels), jax.numpy.ones(channels)
        return ({"scale": ones, "bias": zeros, "mean": zeros, "var": ones},
                *(normal(jax, seed, (images, 28, 28, channels)) for seed in (1, 2)))

    @workload(f"batch_norm_{images}x{channels}", calls)
    def forward(jax, _):
        f, (p, x, _) = jax.jit(lambda p, x: normalize(jax, p, x)), arguments(jax)
        return lambda: f(p, x)

    @workload(f"batch_norm_grad_{images}x{channels}", calls)
    def backward(jax, _):
        f, arrays = jax.jit(jax.grad(lambda *a: loss(jax, *a), argnums=(0, 1), has_aux=True)), arguments(jax)
        return lambda: f(*arrays)


batch_norm(4, 8, 10)
batch_norm(64, 64, 2)


def epoch(images, batch):
    """An epoch of images in memory: NumPy gathers the rows, as is usual with JAX; a jitted function crops and flips them."""
    @workload(f"epoch_{images}", 1)
    def prepare(jax, _):
        import numpy
        jnp, lax, random = jax.numpy, jax.lax, jax.random
        pictures = numpy.random.default_rng(0).integers(0, 256, (images, 28, 28, 1), dtype=numpy.uint8)
        labels = numpy.random.default_rng(1).integers(0, 10, images, dtype=numpy.int32)

        @jax.jit
        def augment(key, x):
            offsets, flips = random.split(key)
            at, flipped = random.randint(offsets, (len(x), 2), 0, 5), random.bernoulli(flips, shape=(len(x), 1, 1, 1))
            padded = jnp.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0)))
            x = jax.vmap(lambda image, at: lax.dynamic_slice(image, (at[0], at[1], 0), (28, 28, 1)))(padded, at)
            return (jnp.where(flipped, x[:, :, ::-1], x).astype(jnp.float32) / 255 - 0.2860) / 0.3530

        order, key = numpy.random.default_rng(2), random.PRNGKey(2)

        def call():
            rows = order.permutation(images)
            for i in range(images // batch):
                these = rows[i * batch:(i + 1) * batch]
                last = jax.block_until_ready((augment(random.fold_in(key, i), pictures[these]), jnp.asarray(labels[these])))
            return last
        return call


epoch(256, 128)
epoch(8192, 128)


# ---- the CNN step of the data-parallel guide

def parameters(jax, c):
    zeros = jax.numpy.zeros
    return {"k1": 0.05 * normal(jax, 0, (3, 3, 3, c)), "b1": zeros(c), "k2": 0.05 * normal(jax, 1, (3, 3, c, 2 * c)), "b2": zeros(2 * c),
            "w": 0.05 * normal(jax, 2, (128 * c, 10)), "b": zeros(10)}


@workload("cnn_exchange", 10)
def cnn_exchange(jax, n):
    rows = jax.pmap(lambda p: jax.tree_util.tree_map(lambda x: x + jax.lax.axis_index("devices"), p), axis_name="devices")
    f, gradients = jax.pmap(lambda g: jax.lax.pmean(g, "devices"), axis_name="devices"), rows(replicated(jax, n, parameters(jax, 32)))
    return lambda: f(gradients)


def cnn(dtype_name, batch, calls, channels=32):
    @workload(f"cnn_step_{dtype_name}_{batch}" + (f"_c{channels}" if channels != 32 else ""), calls)
    def prepare(jax, n):
        jnp, lax, tree_map = jax.numpy, jax.lax, jax.tree_util.tree_map
        dtype, c = jnp.dtype(dtype_name), channels

        def block(x, kernel, bias):
            x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x + bias)
            return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

        def objective(p, x, label):
            p = tree_map(lambda a: a.astype(dtype), p)
            x = block(block(x.astype(dtype), p["k1"], p["b1"]), p["k2"], p["b2"])
            out = (x.reshape(x.shape[0], -1) @ p["w"] + p["b"]).astype(jnp.float32)
            loss = -jnp.mean(jnp.sum(jax.nn.one_hot(label, 10) * jax.nn.log_softmax(out), -1))
            return loss, jnp.mean(jnp.argmax(out, -1) == label)

        def step(p, m, v, t, x, label):
            (loss, accuracy), g = jax.value_and_grad(objective, has_aux=True)(p, x, label)
            g, loss, accuracy = lax.pmean((g, loss, accuracy), "devices")
            return *adam_update(jax, p, m, v, t, g), loss, accuracy

        p = parameters(jax, c)
        zeros = tree_map(jnp.zeros_like, p)
        each = batch // jax.device_count()
        images = sharded(jax, normal(jax, 3, (n, each, 32, 32, 3)))
        labels = sharded(jax, jax.random.randint(jax.random.PRNGKey(4), (n, each), 0, 10))
        # replicate each tree separately: two arguments must not share a donated buffer
        state = tuple(replicated(jax, n, t) for t in (p, zeros, tree_map(jnp.zeros_like, p), jnp.zeros((), jnp.float32)))
        f = jax.pmap(step, axis_name="devices", donate_argnums=(0, 1, 2, 3))

        def call():
            nonlocal state
            *state, loss, accuracy = f(*state, images, labels)
            return loss, accuracy, state
        return call


cnn("float32", 16, 10, channels=4)
cnn("bfloat16", 16, 10, channels=4)
for images_a_step, times in ((32, 5), (64, 4), (128, 3), (256, 2), (512, 1)):
    cnn("float32", images_a_step, times)
for width, times in ((8, 5), (16, 4), (64, 1), (128, 1)):
    cnn("float32", 128, times, channels=width)
cnn("bfloat16", 128, 3)

# ---- a step of a small causal transformer

def transformer(batch, width, calls, layers=2, heads=4, sequence=64, vocabulary=256, dtype=""):
    @workload(f"transformer_step_{dtype and dtype + '_'}{batch}_d{width}", calls)
    def prepare(jax, n):
        jnp, lax, tree_map = jax.numpy, jax.lax, jax.tree_util.tree_map

        def norm(x, p):
            centred = x - jnp.mean(x, -1, keepdims=True)
            variance = jnp.mean(centred**2, -1, keepdims=True)
            return centred * lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]

        def attention(x, p):
            q, k, v = (a.reshape(*a.shape[:2], heads, width // heads) for a in jnp.split(x @ p["qkv"], 3, -1))
            scores = jnp.einsum("bqhe,bkhe->bhqk", q, k) * (width / heads)**-0.5
            before = jnp.tril(jnp.ones((sequence, sequence), bool))
            mixed = jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(jnp.where(before, scores, -1e30), -1), v)
            return mixed.reshape(x.shape) @ p["out"]

        def objective(p, tokens, labels):
            p = tree_map(lambda a: a.astype(dtype or a.dtype), p)
            x = jnp.take(p["embedding"], tokens, 0) + p["positions"]
            for layer in p["layers"]:
                x = x + attention(norm(x, layer["norm1"]), layer)
                x = x + jax.nn.gelu(norm(x, layer["norm2"]) @ layer["up"]) @ layer["down"]
            logits = (norm(x, p["norm"]) @ p["embedding"].T).astype(jnp.float32)
            picked = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
            return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)

        def step(p, tokens, labels):
            loss, grads = jax.value_and_grad(objective)(p, tokens, labels)
            grads, loss = lax.pmean((grads, loss), "devices")
            return tree_map(lambda a, g: a - 0.1 * g, p, grads), loss

        def weights(seed, *shape):
            return 0.05 * normal(jax, seed, shape)

        def norm_parameters():
            return {"scale": jnp.ones(width), "bias": jnp.zeros(width)}

        def layer_parameters(seed):
            return {"norm1": norm_parameters(), "norm2": norm_parameters(), "qkv": weights(seed, width, 3 * width),
                    "out": weights(seed + 1, width, width), "up": weights(seed + 2, width, 4 * width),
                    "down": weights(seed + 3, 4 * width, width)}

        p = {"embedding": weights(0, vocabulary, width), "positions": weights(1, sequence, width), "norm": norm_parameters(),
             "layers": [layer_parameters(2 + 4 * i) for i in range(layers)]}
        tokens, labels = (sharded(jax, jax.random.randint(jax.random.PRNGKey(seed), (n, batch // n, sequence), 0, vocabulary))
                          for seed in (10, 11))
        p = replicated(jax, n, p)
        f = jax.pmap(step, axis_name="devices", donate_argnums=(0,))

        def call():
            nonlocal p
            p, loss = f(p, tokens, labels)
            return p, loss
        return call


transformer(8, 16, 5)
transformer(32, 128, 3)
transformer(32, 128, 3, dtype="bfloat16")

# ---- the step of a 20-layer ResNet with batch statistics over all devices

def resnet(batch, width, calls, name, side=28, stages=3, blocks=3, classes=10):
    @workload(name, calls)
    def prepare(jax, n):
        jnp, lax, tree_map = jax.numpy, jax.lax, jax.tree_util.tree_map

        def conv(x, p, stride=1):
            return lax.conv_general_dilated(x, p["kernel"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

        def norm(x, p, averages, moved):
            mean, square = lax.pmean((jnp.mean(x, (0, 1, 2)), jnp.mean(x * x, (0, 1, 2))), "devices")
            variance = jnp.maximum(square - mean * mean, 0)
            moved.append({"mean": 0.9 * averages["mean"] + 0.1 * mean, "var": 0.9 * averages["var"] + 0.1 * variance})
            return (x - mean) * (lax.rsqrt(variance + 1e-5) * p["scale"]) + p["bias"]

        def logits(p, stats, x):
            moved, averages = [], iter(stats)
            x = jax.nn.relu(norm(conv(x, p["conv"]), p["norm"], next(averages), moved))
            for i in range(stages * blocks):
                b = p["blocks"][i]
                stride = 2 if i and i % blocks == 0 else 1
                y = jax.nn.relu(norm(conv(x, b["conv1"], stride), b["norm1"], next(averages), moved))
                y = norm(conv(y, b["conv2"]), b["norm2"], next(averages), moved)
                if "shortcut" in b:
                    x = norm(conv(x, b["shortcut"][0], stride), b["shortcut"][1], next(averages), moved)
                x = jax.nn.relu(x + y)
            return jnp.mean(x, (1, 2)) @ p["dense"]["kernel"] + p["dense"]["bias"], lax.stop_gradient(moved)

        def objective(p, stats, x, labels):
            out, moved = logits(p, stats, (x - 0.286) / 0.353)
            targets = 0.9 * jax.nn.one_hot(labels, classes) + 0.1 / classes
            loss = -jnp.mean(jnp.sum(targets * jax.nn.log_softmax(out), -1))
            return loss, (moved, jnp.mean(jnp.argmax(out, -1) == labels))

        def rate(t, steps=1000, most=0.1):
            warm = steps // 10 + 1
            part = jnp.clip((t - warm) / (steps + 1 - warm), 0, 1)
            return jnp.where(t < warm, most * t / warm, most * 0.5 * (1 + jnp.cos(jnp.pi * part)))

        def step(p, stats, trace, t, x, labels):
            (loss, (stats, accuracy)), g = jax.value_and_grad(objective, has_aux=True)(p, stats, x, labels)
            g, loss, accuracy = lax.pmean((g, loss, accuracy), "devices")
            g = jax.tree_util.tree_map_with_path(lambda path, g, a: g + 5e-4 * a if path[-1].key == "kernel" else g, g, p)
            trace = tree_map(lambda g, m: g + 0.9 * m, g, trace)
            p = tree_map(lambda a, g, m: a - rate(t) * (g + 0.9 * m), p, g, trace)
            return p, stats, trace, t + 1, loss, accuracy

        def conv_shape(size, fan_in, fan_out):
            return {"kernel": (size, size, fan_in, fan_out)}

        def norm_shape(features):
            return {"bias": (features,), "scale": (features,)}

        shapes, fan_in = {"conv": conv_shape(3, 1, width), "norm": norm_shape(width), "blocks": []}, width
        for i in range(stages * blocks):
            out = width << i // blocks
            shapes["blocks"].append({"conv1": conv_shape(3, fan_in, out), "norm1": norm_shape(out), "conv2": conv_shape(3, out, out),
                                     "norm2": norm_shape(out), **({"shortcut": [conv_shape(1, fan_in, out), norm_shape(out)]}
                                                                  if out != fan_in else {})})
            fan_in = out
        shapes["dense"] = {"kernel": (fan_in, classes), "bias": (classes,)}
        leaves, tree = jax.tree_util.tree_flatten_with_path(shapes, is_leaf=lambda s: isinstance(s, tuple))
        p = jax.tree_util.tree_unflatten(tree, [0.05 * normal(jax, i, shape) + (path[-1].key == "scale") for i, (path, shape) in enumerate(leaves)])
        features = [width] + [width << b // blocks for b in range(stages * blocks) for _ in range(3 if "shortcut" in shapes["blocks"][b] else 2)]
        stats = [{"mean": jnp.zeros(c), "var": jnp.ones(c)} for c in features]
        images = sharded(jax, normal(jax, 200, (n, batch // n, side, side, 1)))
        labels = sharded(jax, jax.random.randint(jax.random.PRNGKey(201), (n, batch // n), 0, classes))
        state = tuple(replicated(jax, n, t) for t in (p, stats, tree_map(jnp.zeros_like, p), jnp.zeros((), jnp.int32)))
        f = jax.pmap(step, axis_name="devices", donate_argnums=(0, 1, 2, 3))

        def call():
            nonlocal state
            *state, loss, accuracy = f(*state, images, labels)
            return loss, accuracy, state
        return call


resnet(16, 2, 5, "resnet_step_16_c2")
resnet(128, 16, 1, "resnet_step_128")

# ---- transfers between the host's memory and a device's

@workload("to_device_64MiB", 2)
def to_device(jax, n):
    host, first = transferred(jax), jax.jit(lambda x: x[0])
    return lambda: first(jax.device_put(host, jax.devices()[0]))


@workload("to_host_64MiB", 2)
def to_host(jax, n):
    import numpy
    host, f = transferred(jax), jax.jit(lambda x: x + 1)
    x = jax.device_put(host.copy(), jax.devices()[0])
    return lambda: numpy.copyto(host, f(x))


def transferred(jax):
    import numpy
    return (numpy.arange(64 << 18) & 1023).astype(numpy.float32)


class Bench(Peer):
    def __init__(self, devices, job=None, collectives="gloo"):
        super().__init__()
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}".strip()
        os.environ["JAX_PLATFORMS"] = os.environ.get("BENCH_PLATFORM", "cpu")
        import jax
        self.jax, self.devices = jax, devices
        if job:   # gloo prints to standard output
            sys.stdout = os.fdopen(os.dup(1), "w")
            os.dup2(2, 1)
            jax.config.update("jax_cpu_collectives_implementation", collectives)
            jax.distributed.initialize(*job)
        self.processes, self.first = (job[1], job[2] == 0) if job else (1, True)
        if jax.local_device_count() != devices:
            sys.exit(f"asked for {devices} devices, got {jax.local_device_count()}")
        if collectives == "mpi":   # its communicator must be made on the main thread, where XLA runs only tiny programs
            twice, sum_all = jax.pmap(lambda x: x * 2), jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
            jax.block_until_ready(sum_all(jax.block_until_ready(twice(jax.numpy.ones((devices, 1))))))
        self.startup = time.perf_counter() - STARTED
        self.title = {"peer": f"jax {jax.__version__}", "devices": devices}

    def prepare(self, name):
        return WORKLOADS[name][0](self.jax, self.devices)

    def wait(self, result):
        self.jax.block_until_ready(result)

    def agree(self, seconds):
        """Process 0's value, so that all processes make the same number of calls."""
        if self.processes == 1:
            return seconds
        from jax.experimental import multihost_utils
        import numpy
        return float(multihost_utils.broadcast_one_to_all(numpy.float32(seconds)))


def launch(processes, arguments, launcher):
    """Starts the processes and sends each line of standard input to all of them; process 0's answers are the output. launcher: MPI's, or None."""
    import shutil
    import socket
    import subprocess
    import tempfile
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    command = [sys.executable, os.path.abspath(__file__), *arguments, "--address", address]
    if launcher:   # it gives standard input only to process 0
        folder = tempfile.mkdtemp()
        pipes = [os.path.join(folder, str(rank)) for rank in range(processes)]
        for pipe in pipes:
            os.mkfifo(pipe)
        started = [subprocess.Popen([*launcher, "-n", str(processes), *command, "--questions", folder], stdin=subprocess.DEVNULL)]
        inputs = [open(pipe, "wb") for pipe in pipes]
        shutil.rmtree(folder)
    else:
        started = [subprocess.Popen([*command, "--rank", str(rank)], stdin=subprocess.PIPE) for rank in range(processes)]
        inputs = [rank.stdin for rank in started]
    for line in iter(sys.stdin.readline, ""):
        for to in inputs:
            to.write(line.encode())
            to.flush()
    for to in inputs:
        to.close()
    sys.exit(max(one.wait() for one in started))


def main():
    parser = argparse.ArgumentParser(description="The peer's side of the benchmark: JAX, one repetition a name.")
    parser.add_argument("--devices", type=int, default=8, help="number of virtual CPU devices")
    parser.add_argument("--processes", type=int, default=1, help="so many, of so many devices each, joined over gloo")
    parser.add_argument("--mpi", metavar="MPIRUN", help="joined over MPI instead, by this launcher and its options; MPITRAMPOLINE_LIB names a "
                        "libmpiwrapper.so (github.com/eschnett/MPIwrapper) of its MPI, and a process has one device")
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--questions", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="print the names of the workloads and stop")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names(), help="run these without a driver")
    parser.add_argument("--repeat", type=int, default=7, help="rounds of --only")
    options = parser.parse_args()
    if options.list:
        print("\n".join(names()))
        return
    if options.mpi and options.address:
        options.rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        sys.stdin = open(os.path.join(options.questions, str(options.rank)))
    if options.processes > 1 and options.rank is None:
        launch(options.processes, sys.argv[1:], options.mpi and options.mpi.split())
    bench = Bench(options.devices, (options.address, options.processes, options.rank) if options.processes > 1 else None,
                  "mpi" if options.mpi else "gloo")
    bench.serve([name for _ in range(options.repeat) for name in options.only or ()])


main()
