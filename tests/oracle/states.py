"""The first five steps of the spiking network of examples/states_model.h in plain JAX with Optax's Adam. Run with jax 0.10.2, optax 0.2.8.

Parameters: leaf i, in the order of jax.tree.leaves, is fill(1000 + i, shape, 0.5); those of lif/recurrent are frozen. The images of step s,
counted from 0, are (fill(1 + s, shape, 1) + 1) / 2, divided among 8 devices; image i has the label i % CLASSES. The network's random state
is PRNGKey(7). A parallel map splits it into 9 keys: the first becomes the state again, and device d gets key d + 1. Each time step splits
the device's key in two: the next key, and the one from which the input spikes are drawn.
"""
import jax
import jax.numpy as jnp
import numpy as np
import optax

from known import Corpus, array_line
from sequences import fill

DEVICES, BATCH, HEIGHT, WIDTH, NEURONS, CLASSES, STEPS, DECAY, REPEATS = 8, 16, 6, 5, 12, 3, 5, 0.9, 2


@jax.custom_jvp
def spike(above):
    return (above > 0).astype(jnp.float32)


@spike.defjvp
def spike_rule(primals, tangents):
    (above,), (tangent,) = primals, tangents
    return spike(above), tangent / ((jnp.pi * above) ** 2 + 1)


def tick(params, state, x):
    key, draw = jax.random.split(state["key"])
    x = jax.random.bernoulli(draw, x).astype(jnp.float32)
    lif, last = params["lif"], state["spikes"]
    current = x @ lif["input"]["kernel"] + lif["input"]["bias"] + last @ lif["recurrent"]["kernel"]
    voltage = state["lif"] * DECAY * (1 - last) + current
    spikes = spike(voltage - 1)
    dense = params["readout"]["dense"]
    readout = state["readout"] * DECAY + spikes @ dense["kernel"] + dense["bias"]
    return {"key": key, "lif": voltage, "spikes": spikes, "readout": readout}, (readout, spikes.mean())


def loss_fn(trained, frozen, key, images, labels):
    params = {**trained, "lif": {**trained["lif"], "recurrent": frozen}}
    n = images.shape[0]
    state = {"key": key, "lif": jnp.zeros((n, NEURONS)), "spikes": jnp.zeros((n, NEURONS)), "readout": jnp.zeros((n, CLASSES))}
    state, (voltages, rates) = jax.lax.scan(lambda s, x: tick(params, s, x), state, jnp.repeat(images.transpose(1, 0, 2), REPEATS, 0))
    loss = optax.softmax_cross_entropy_with_integer_labels(voltages.mean(0), labels).mean()
    return loss, (rates.mean(), state["lif"])


def main():
    shapes = {"lif": {"input": {"bias": (NEURONS,), "kernel": (WIDTH, NEURONS)}, "recurrent": {"kernel": (NEURONS, NEURONS)}},
              "readout": {"dense": {"bias": (CLASSES,), "kernel": (NEURONS, CLASSES)}}}
    leaves, tree = jax.tree.flatten(shapes, is_leaf=lambda s: isinstance(s, tuple))
    params = jax.tree.unflatten(tree, [jnp.asarray(fill(1000 + i, shape, 0.5)) for i, shape in enumerate(leaves)])
    frozen = params["lif"].pop("recurrent")
    tx = optax.adam(1e-2)

    def device_step(params, opt_state, key, images, labels):
        (loss, (rate, voltage)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, frozen, key, images, labels)
        grads, means = jax.lax.pmean((grads, jnp.stack([loss, rate])), "devices")
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, means, grads, voltage

    step = jax.jit(jax.vmap(device_step, axis_name="devices", in_axes=(None, None, 0, 0, 0)))
    norms = lambda t: jnp.stack([jnp.sqrt(jnp.sum(a * a)) for a in jax.tree.leaves(t)])  # noqa: E731
    opt_state, key, answers, first = tx.init(params), jax.random.PRNGKey(7), [], None
    labels = (np.arange(BATCH, dtype=np.int32) % CLASSES).reshape(DEVICES, -1)
    for s in range(STEPS):
        images = (fill(1 + s, (DEVICES, BATCH // DEVICES, HEIGHT, WIDTH), 1) + 1) / 2
        keys = jax.random.split(key, DEVICES + 1)
        key = keys[0]
        params, opt_state, means, grads, voltage = step(params, opt_state, keys[1:], images, labels)
        params, opt_state, means, grads = jax.tree.map(lambda a: a[0], (params, opt_state, means, grads))  # the same on all devices
        answers.append(means)
        first = norms(grads) if first is None else first
    corpus = Corpus(__file__, f"known answers from jax {jax.__version__}, optax {optax.__version__} on the CPU")
    corpus.cases += 1
    answers = np.asarray(answers)
    corpus.add("", "case states", array_line("losses", answers[:, 0]), array_line("spikes", answers[:, 1]),
               array_line("gradient_norms", first), array_line("parameter_norms", norms(params)), array_line("voltage", voltage))
    corpus.save()


main()
