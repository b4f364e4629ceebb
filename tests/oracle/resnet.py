"""The first five steps of the residual network of examples/resnet_model.h as JAX, Flax and Optax compute them. Run with jax 0.10.2, flax
0.12.8, optax 0.2.8.

Parameters: leaf i, in the order of jax.tree.leaves, is fill(1000 + i, shape, 0.1), plus 1 if it is the scale of a norm. The images
of step s, counted from 0, are the middle of (fill(100 + s, (BATCH, SIDE + 4, SIDE + 4, 1), 1) + 1) / 2, and its labels are
fill(200 + s, (BATCH,), 1), whose range is divided into CLASSES equal parts. Nothing is random: augmentation has a test of its own. The C
test divides the batch among 8 devices, whose norms use the statistics of the whole batch.
"""
import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from known import Corpus, array_line
from sequences import fill

CLASSES, WIDTH, STAGES, BLOCKS, SIDE, BATCH, STEPS = 10, 4, 3, 3, 8, 16, 5


def conv(rngs, fan_in, fan_out, size, stride):
    return nnx.Conv(fan_in, fan_out, (size, size), (stride, stride), use_bias=False, rngs=rngs)


def norm(rngs, features):
    return nnx.BatchNorm(features, momentum=0.9, rngs=rngs)


class Block(nnx.Module):
    def __init__(self, rngs, fan_in, fan_out, stride):
        self.conv1, self.norm1 = conv(rngs, fan_in, fan_out, 3, stride), norm(rngs, fan_out)
        self.conv2, self.norm2 = conv(rngs, fan_out, fan_out, 3, 1), norm(rngs, fan_out)
        projected = (conv(rngs, fan_in, fan_out, 1, stride), norm(rngs, fan_out))
        self.shortcut = nnx.Sequential(*projected) if fan_in != fan_out or stride != 1 else nnx.Sequential(lambda x: x)

    def __call__(self, x):
        y = self.norm2(self.conv2(nnx.relu(self.norm1(self.conv1(x)))))
        return nnx.relu(self.shortcut(x) + y)


class ResNet(nnx.Module):
    def __init__(self, rngs):
        self.conv, self.norm = conv(rngs, 1, WIDTH, 3, 1), norm(rngs, WIDTH)
        blocks, fan_in = [], WIDTH
        for stage in range(STAGES):
            for i in range(BLOCKS):
                blocks.append(Block(rngs, fan_in, WIDTH << stage, 2 if stage and not i else 1))
                fan_in = WIDTH << stage
        self.blocks, self.dense = nnx.Sequential(*blocks), nnx.Linear(fan_in, CLASSES, rngs=rngs)

    def __call__(self, x):
        x = self.blocks(nnx.relu(self.norm(self.conv(x))))
        return self.dense(jnp.mean(x, (1, 2)))


def batch_of(step):
    images = (fill(100 + step, (BATCH, SIDE + 4, SIDE + 4, 1), 1) + 1) / 2
    return (images[:, 2:-2, 2:-2] - 0.286) / 0.353, np.floor((fill(200 + step, (BATCH,), 1) + 1) / 2 * CLASSES).astype(np.int32)


def main():
    model = ResNet(nnx.Rngs(0))
    graph, params, stats = nnx.split(model, nnx.Param, nnx.BatchStat)
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    params = jax.tree.unflatten(tree, [jnp.asarray(fill(1000 + i, a.shape, 0.1) + ("scale" in jax.tree_util.keystr(path)))
                                       for i, (path, a) in enumerate(leaves)])
    decays = jax.tree.unflatten(tree, ["kernel" in jax.tree_util.keystr(path) for path, _ in leaves])
    rate = optax.warmup_cosine_decay_schedule(0, 0.1, 2, 21)
    tx = optax.chain(optax.add_decayed_weights(5e-4, mask=decays), optax.sgd(rate, momentum=0.9, nesterov=True))

    def loss_fn(params, stats, images, labels):
        model = nnx.merge(graph, params, stats, copy=True)
        logits = model(images)
        targets = optax.smooth_labels(jax.nn.one_hot(labels, CLASSES), 0.1)
        return optax.softmax_cross_entropy(logits, targets).mean(), nnx.state(model, nnx.BatchStat)

    @jax.jit
    def step(params, stats, opt_state, images, labels):
        (loss, stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, stats, images, labels)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), stats, opt_state, loss, grads

    norms = lambda t: jnp.stack([jnp.sqrt(jnp.sum(a * a)) for a in jax.tree.leaves(t)])  # noqa: E731
    opt_state, losses, first = tx.init(params), [], None
    for s in range(STEPS):
        params, stats, opt_state, loss, grads = step(params, stats, opt_state, *batch_of(s))
        losses.append(loss)
        first = norms(grads) if first is None else first
    still = nnx.merge(graph, params, stats)
    still.eval()
    corpus = Corpus(__file__, f"known answers from jax {jax.__version__}, flax {flax.__version__}, optax {optax.__version__} on the CPU")
    corpus.cases += 1
    corpus.add("", "case resnet", array_line("losses", np.asarray(losses)), array_line("gradient_norms", first),
               array_line("parameter_norms", norms(params)), array_line("statistics_norms", norms(stats)),
               array_line("logits", still(batch_of(0)[0])))
    corpus.save()


main()
