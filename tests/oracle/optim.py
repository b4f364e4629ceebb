"""Optimisers, chains and schedules of optax 0.2.8: parameters after 1, 2, 10, 50 and 100 steps from the same gradients, schedules at counts.
Writes optim.txt beside this file.

Parameters are {"a": (3,), "b": {"bias": (2,), "kernel": (4, 2)}}: element k of all 13, in that order, starts at ((k * 5) % 13 - 6) / 4; its
gradient in step t, counted from 1, is ((t * 7 + k * 3) % 11 - 5) / 8, all exact in f32. `steps <name> <t> <13 numbers>`; a name with `_at_inf` has
an infinite gradient in every third step. `schedule <name> <count> <value>`.
"""
import os
import re

os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

AT = (1, 2, 10, 50, 100)
COUNTS = (0, 1, 2, 5, 9, 10, 11, 19, 20, 21, 50, 99, 100, 101, 1000)


def tree(x):
    return {"a": x[:3], "b": {"bias": x[3:5], "kernel": x[5:].reshape(4, 2)}}


def flat(t):
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(t)])


K = np.arange(13)
START = tree(((K * 5) % 13 - 6).astype(np.float32) / 4)


def gradient(t):
    return ((t * 7 + K * 3) % 11 - 5).astype(np.float32) / 8


def kernels(params):
    return jax.tree_util.tree_map_with_path(lambda path, x: "kernel" in jax.tree_util.keystr(path), params)


def in_b(params):
    return jax.tree_util.tree_map_with_path(lambda path, x: "'b'" in jax.tree_util.keystr(path), params)


WARM = optax.warmup_cosine_decay_schedule(0.0, 0.02, 10, 100, 0.001)
OPTIMISERS = {
    "sgd": optax.sgd(0.01),
    "sgd_schedule": optax.sgd(optax.linear_schedule(0.02, 0.001, 80, 5)),
    "momentum": optax.sgd(0.01, 0.9),
    "nesterov": optax.sgd(0.01, 0.9, True),
    "adam": optax.adam(0.01),
    "adam_nesterov": optax.adam(0.01, 0.8, 0.99, 1e-6, 1e-5, nesterov=True),
    "adam_schedule": optax.adam(WARM),
    "adamw": optax.adamw(0.01, weight_decay=0.05),
    "adamw_mask": optax.adamw(0.01, weight_decay=0.05, mask=kernels),
    "rmsprop": optax.rmsprop(0.01),
    "rmsprop_outside": optax.rmsprop(0.01, 0.8, 1e-4, 0.5, eps_in_sqrt=False, bias_correction=True),
    "rmsprop_centered": optax.rmsprop(0.01, 0.9, 1e-3, centered=True),
    "rmsprop_centered_corrected": optax.rmsprop(0.005, 0.9, 1e-2, centered=True, bias_correction=True),
    "rmsprop_momentum": optax.rmsprop(0.002, momentum=0.9),
    "rmsprop_nesterov": optax.rmsprop(0.002, momentum=0.9, nesterov=True),
    "adagrad": optax.adagrad(0.05),
    "lamb": optax.lamb(0.01, weight_decay=0.01),
    "lion": optax.lion(0.001),
    "lion_mask": optax.lion(0.001, 0.8, 0.9, weight_decay=0.1, mask=kernels),
    "clip": optax.chain(optax.clip(0.25), optax.sgd(0.01)),
    "clip_by_global_norm": optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(WARM)),
    "blocks": optax.chain(optax.add_decayed_weights(0.01, kernels), optax.trace(0.8), optax.scale_by_rss(), optax.scale(0.5),
                          optax.scale_by_schedule(optax.exponential_decay(1.0, 20, 0.5)), optax.scale_by_learning_rate(0.02)),
    "trust_ratio": optax.chain(optax.scale_by_trust_ratio(0.1, 0.5, 1e-3), optax.scale(-0.01)),
    "sign": optax.chain(optax.scale_by_sign(), optax.scale(-0.001)),
    "ema": optax.chain(optax.ema(0.9), optax.scale(-0.01)),
    "ema_biased": optax.chain(optax.ema(0.9, False), optax.scale(-0.01)),
    "masked": optax.masked(optax.adam(0.01), in_b),
    "frozen": optax.partition({"train": optax.adam(0.01), "freeze": optax.set_to_zero()},
                              lambda p: jax.tree.map(lambda b: "freeze" if b else "train", in_b(p))),
    "multi_steps": optax.MultiSteps(optax.adam(0.01), 4),
    "apply_if_finite_at_inf": optax.apply_if_finite(optax.adam(0.01), 5),
    "adamax": optax.adamax(0.01),
    "adamax_decay": optax.adamaxw(0.01, weight_decay=0.05, mask=kernels),
    "adabelief": optax.adabelief(0.01),
    "adabelief_nesterov": optax.adabelief(0.01, 0.8, 0.99, 1e-6, 1e-6, nesterov=True),
    "radam": optax.radam(0.01),
    "radam_nesterov": optax.radam(0.01, 0.8, 0.95, 1e-6, 1e-5, 4.5, nesterov=True),
    "amsgrad": optax.amsgrad(WARM, 0.8, 0.9),
    "yogi": optax.yogi(0.01),
    "adadelta": optax.adadelta(0.5, weight_decay=0.01, weight_decay_mask=kernels),
    "adafactor": optax.adafactor(0.01),
    "adafactor_factored": optax.adafactor(WARM, 2, 0.7, clipping_threshold=0.5, momentum=0.9, weight_decay_rate=0.01, weight_decay_mask=kernels),
    "adafactor_plain": optax.adafactor(0.01, 2, multiply_by_parameter_scale=False, clipping_threshold=None, factored=False),
    "lars": optax.lars(0.1, 0.01, trust_coefficient=0.05, weight_decay_mask=kernels),
    "clip_by_block_rms": optax.chain(optax.clip_by_block_rms(0.25), optax.sgd(0.01)),
    "adaptive_grad_clip": optax.chain(optax.adaptive_grad_clip(0.1, 0.01), optax.sgd(0.01)),
    "zero_nans_at_inf": optax.chain(optax.scale_by_sign(), optax.add_decayed_weights(0.01), optax.zero_nans(), optax.sgd(0.01)),
}
SCHEDULES = {
    "constant": optax.constant_schedule(0.25),
    "linear": optax.linear_schedule(0.1, 0.01, 20),
    "linear_later": optax.linear_schedule(0.1, 0.5, 20, 10),
    "polynomial": optax.polynomial_schedule(1.0, 0.1, 2, 50, 5),
    "cosine": optax.cosine_decay_schedule(0.1, 100),
    "cosine_alpha": optax.cosine_decay_schedule(0.1, 50, 0.25, 2.0),
    "warmup_cosine": optax.warmup_cosine_decay_schedule(0.01, 0.1, 10, 100, 0.005),
    "exponential": optax.exponential_decay(0.1, 10, 0.5),
    "exponential_staircase": optax.exponential_decay(0.1, 10, 0.5, 5, True, 0.001),
    "exponential_up": optax.exponential_decay(0.1, 10, 1.5, 0, False, 0.75),
    "joined": optax.join_schedules([optax.linear_schedule(0.1, 0.5, 10), optax.constant_schedule(0.25), WARM], [10, 20]),
    "warmup_constant": optax.warmup_constant_schedule(0.1, 0.5, 20),
    "warmup_exponential": optax.warmup_exponential_decay_schedule(0.01, 0.1, 10, 20, 0.5, 5, True, 0.001),
    "linear_onecycle": optax.linear_onecycle_schedule(100, 0.5),
    "cosine_onecycle": optax.cosine_onecycle_schedule(100, 0.5, 0.2, 10.0, 100.0),
    "piecewise": optax.piecewise_constant_schedule(1.0, {10: 0.5, 50: 0.1, 20: 0.25}),
}


def number(v):
    return re.sub(r"\.?0*p", "p", float(v).hex())


def numbers(values):
    return " ".join(number(v) for v in values)


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim.txt"), "w", encoding="ascii") as out:
    out.write(f"# written by tests/oracle/optim.py, optax {optax.__version__}, jax {jax.__version__}\n")
    for name, tx in OPTIMISERS.items():
        params = jax.tree.map(jnp.asarray, START)
        state, step = tx.init(params), jax.jit(tx.update)
        for t in range(1, AT[-1] + 1):
            g = gradient(t)
            if name.endswith("_at_inf") and t % 3 == 0:
                g = g + np.float32(np.inf)
            updates, state = step(jax.tree.map(jnp.asarray, tree(g)), state, params)
            params = optax.apply_updates(params, updates)
            if t in AT:
                out.write(f"steps {name} {t} {numbers(flat(params))}\n")
    for name, schedule in SCHEDULES.items():
        for count in COUNTS:
            out.write(f"schedule {name} {count} {number(np.float32(schedule(jnp.int32(count))))}\n")
