"""The data-parallel linear regression of the examples in jax, for 1, 2, 4 and 8 devices. Run with jax 0.4.35 (or 0.10.2).

The answers do not depend on the number of cores. One line for each number of devices and kind:
    data <devices> <samples> fnv_x=<hash of x>   then lines `<name> <dtype> <dims> <values>`: true_w, true_b, initial_w,
                                   initial_b, x_first and x_last (rows), y_first and y_last
    loss <devices> <epoch> <f32>   every epoch, 1 to 50
    final_w, final_b               as above, after 50 epochs; every device holds the same bits
    print <devices> |text          the lines that the example prints
"""
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax, random  # noqa: E402

from known import Corpus, array_line, fnv1a, hexfloat  # noqa: E402

jax.config.update("jax_threefry_partitionable", True)
FEATURES, EPOCHS, LEARNING_RATE = 5, 50, 0.05


def loss_of(params, x, y):
    w, b = params
    return jnp.mean((jnp.dot(x, w) + b - y) ** 2)


def train_step(params, x, y, learning_rate):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    grads = lax.pmean(grads, "batch")
    params = jax.tree_util.tree_map(lambda p, g: p - learning_rate * g, params, grads)
    return params, lax.pmean(loss, "batch")


def run(corpus, n):
    samples = 100 * n
    key, w_key, b_key, x_key, noise_key = random.split(random.PRNGKey(0), 5)
    true_w, true_b = random.normal(w_key, (FEATURES,)), random.normal(b_key, ())
    x = random.normal(x_key, (samples, FEATURES))
    y = jnp.dot(x, true_w) + true_b + random.normal(noise_key, (samples,)) * 0.1
    key, w_key, b_key = random.split(key, 3)
    start = random.normal(w_key, (FEATURES,)), random.normal(b_key, ())
    corpus.add("", f"data {n} {samples} fnv_x={fnv1a(x):016x}")
    for name, value in (("true_w", true_w), ("true_b", true_b), ("initial_w", start[0]), ("initial_b", start[1]),
                        ("x_first", x[0]), ("x_last", x[-1]), ("y_first", y[0]), ("y_last", y[-1])):
        corpus.add(f"{array_line(name, value)}")

    # The example replicates with pmap(broadcast, in_axes=None); jax refuses that, so the oracle broadcasts by hand.
    devices = jax.devices()[:n]
    params = jax.tree_util.tree_map(lambda a: jnp.broadcast_to(a, (n, *a.shape)), start)
    step = jax.pmap(train_step, axis_name="batch", in_axes=(0, 0, 0, None), static_broadcasted_argnums=(3,), devices=devices)
    shards = x.reshape(n, -1, FEATURES), y.reshape(n, -1)
    printed = []
    for epoch in range(1, EPOCHS + 1):
        params, loss = jax.block_until_ready(step(params, *shards, LEARNING_RATE))
        corpus.add(f"loss {n} {epoch} {hexfloat(loss[0])}")
        if epoch % 10 == 0:
            printed.append(f"Epoch {epoch}/{EPOCHS}, Loss: {loss[0]:.4f}")
    w, b = (np.asarray(p) for p in params)
    assert all(np.array_equal(w[0], row) for row in w) and all(b[0] == value for value in b)
    corpus.add(array_line("final_w", w[0]), array_line("final_b", b[0]))
    corpus.add(*(f"print {n} |{line}" for line in printed), f"print {n} |Learned w: {w[0]!s}", f"print {n} |True w:  {np.asarray(true_w)!s}",
               f"print {n} |Learned b: {b[0]!s}", f"print {n} |True b:  {np.asarray(true_b)!s}")
    corpus.cases += 1


def main():
    corpus = Corpus(__file__, f"known answers from jax {jax.__version__}")
    for n in (1, 2, 4, 8):
        run(corpus, n)
    corpus.save()


main()
