"""The first five losses of the small CNN, data-parallel over 8 devices, as JAX computes them. Run with jax 0.10.2.

    cnn.py [--fashion-mnist FOLDER]

Model: 32x32x1 images, conv 3x3 SAME to 32, relu, max-pool 2x2, conv 3x3 SAME to 64, relu, max-pool 2x2, dense to 10 (the
image is flattened as rows, columns, channels). Loss: mean softmax cross-entropy on one-hot labels; gradients, loss and
accuracy by pmean over 8 devices of 16 images. Adam: rate 1e-3, b1 0.9, b2 0.999, m / (1 - b1^t) over
sqrt(v / (1 - b2^t)) + 1e-8. Two runs, both from the parameters of cnn_inputs.h: `synthetic` batches by its formulas, and
`fashion`: the first 640 training images in file order, divided by 255, two rows and columns of zeros on each side.

Each figure is given twice: from float32 on the 8 devices, and from double precision on one device with the whole batch.
Their relative difference, `spread`, shows how large the effect of rounding alone is.
"""
import argparse
import gzip
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

from known import Corpus, fnv1a, hexfloat  # noqa: E402

DEVICES, BATCH, STEPS, SIDE, CLASSES = 8, 128, 5, 32, 10
PARAMETERS = {"k1": ((3, 3, 1, 32), 1, 0.5), "b1": ((32,), 2, 0.0625), "k2": ((3, 3, 32, 64), 3, 0.125), "b2": ((64,), 4, 0.0625),
              "w": ((4096, 10), 5, 0.03125), "b": ((10,), 6, 0.0625)}


def draws(seed, count):
    """The upper 24 bits of the generator's states, from the one after the seed on."""
    state, out = seed, np.empty(count, np.int64)
    for i in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = state >> 8
    return out


def parameter(shape, seed, scale):
    return ((draws(seed, int(np.prod(shape))) - 2**23) / 2**23 * scale).astype(np.float32).reshape(shape)


def synthetic(step):
    stream = draws(100 + step, BATCH + BATCH * SIDE * SIDE)
    labels = (stream[:BATCH] % CLASSES).astype(np.int32)
    noise = (stream[BATCH:] * (0.5 / 2**24)).astype(np.float32).reshape(BATCH, SIDE, SIDE, 1)
    band = np.arange(SIDE) * CLASSES // SIDE
    return noise + np.float32(0.5) * (band[None, :, None, None] == labels[:, None, None, None]), labels


def fashion(folder):
    def read(name, header):
        with gzip.open(os.path.join(folder, name)) as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    count = BATCH * STEPS
    images = read("train-images-idx3-ubyte.gz", 16)[:count * 28 * 28].reshape(count, 28, 28).astype(np.float32) / np.float32(255)
    images = np.pad(images, ((0, 0), (2, 2), (2, 2)))[..., None]
    labels = read("train-labels-idx1-ubyte.gz", 8)[:count].astype(np.int32)
    return [(images[i:i + BATCH], labels[i:i + BATCH]) for i in range(0, count, BATCH)]


def logits(p, x):
    for kernel, bias in (("k1", "b1"), ("k2", "b2")):
        x = lax.conv_general_dilated(x, p[kernel], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + p[bias]
        x = jax.nn.relu(x)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(x.shape[0], -1) @ p["w"] + p["b"]


def loss_and_accuracy(p, x, label):
    out = logits(p, x)
    loss = -jnp.mean(jnp.sum(jax.nn.one_hot(label, CLASSES, dtype=out.dtype) * jax.nn.log_softmax(out), -1))
    return loss, jnp.mean((jnp.argmax(out, -1) == label).astype(out.dtype))


def train_step(p, m, v, t, x, label):
    (loss, accuracy), g = jax.value_and_grad(loss_and_accuracy, has_aux=True)(p, x, label)
    g, loss, accuracy = lax.pmean((g, loss, accuracy), "devices")
    t = t + 1
    tree = jax.tree_util.tree_map
    m = tree(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = tree(lambda v, g: 0.999 * v + 0.001 * (g * g), v, g)
    p = tree(lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), p, m, v)
    return p, m, v, t, loss, accuracy, g


def train(batches, dtype, devices):
    p = {name: parameter(*spec).astype(dtype) for name, spec in PARAMETERS.items()}
    zeros = {name: np.zeros_like(a) for name, a in p.items()}
    state = jax.tree_util.tree_map(lambda a: jnp.broadcast_to(a, (devices, *a.shape)), (p, zeros, zeros, np.zeros((), dtype)))
    step = jax.pmap(train_step, axis_name="devices", devices=jax.devices()[:devices])
    rows = []
    for images, labels in batches:
        shard = (devices, BATCH // devices)
        *state, loss, accuracy, g = jax.block_until_ready(
            step(*state, images.astype(dtype).reshape(*shard, SIDE, SIDE, 1), labels.reshape(shard)))
        for leaf in jax.tree_util.tree_leaves(state[0]):
            assert all(np.array_equal(leaf[0], row) for row in np.asarray(leaf))
        first = lambda tree: {name: np.asarray(a[0], np.float64) for name, a in tree.items()}  # noqa: E731
        rows.append((float(loss[0]), float(accuracy[0]), first(g), first(state[0])))
    return rows


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--fashion-mnist", default="/usr/share/datasets/fashion-mnist")
    folder = options.parse_args().fashion_mnist
    corpus = Corpus(__file__, f"known answers from jax {jax.__version__}; every figure as f32 on 8 devices, then in double precision")
    for name, spec in PARAMETERS.items():
        corpus.add(f"parameter {name} {','.join(map(str, spec[0]))} fnv={fnv1a(parameter(*spec)):016x}")
    for run, batches in (("synthetic", [synthetic(s) for s in range(STEPS)]), ("fashion", fashion(folder))):
        corpus.add("")
        for step, (images, labels) in enumerate(batches):
            assert images.dtype == np.float32 and labels.dtype == np.int32
            corpus.add(f"batch {run} {step + 1} fnv_images={fnv1a(images):016x} fnv_labels={fnv1a(labels):016x}")
        single = train(batches, np.float32, DEVICES)
        with jax.enable_x64(True):
            double = train(batches, np.float64, 1)
        for step, (a, b) in enumerate(zip(single, double)):
            corpus.add(f"loss {run} {step + 1} {hexfloat(a[0])} {hexfloat(b[0])} spread={abs(a[0] / b[0] - 1):.1e} # {a[0]:.7f}")
            corpus.add(f"accuracy {run} {step + 1} {hexfloat(a[1])} {hexfloat(b[1])}")
        norm = lambda a: hexfloat(np.sqrt(np.sum(a * a)))  # noqa: E731
        for name in PARAMETERS:
            corpus.add(f"gradient_norm {run} 1 {name} {norm(single[0][2][name])} {norm(double[0][2][name])}")
        for name in PARAMETERS:
            corpus.add(f"parameter_norm {run} {STEPS} {name} {norm(single[-1][3][name])} {norm(double[-1][3][name])}")
        corpus.cases += 1
    corpus.save()


main()
