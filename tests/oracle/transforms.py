"""Jacobians, linear maps, maps and scans along an axis: from jax 0.10.2 on the CPU. Writes transforms.txt beside this file.

Each program takes x (3) and w (3, 3). It runs alone, in jit, in vmap and pmap (of x stacked twice; the answers are vmap's), and, with the sum
of the squares of its results, in grad with respect to x. tests/ops/test_transforms.c has the same programs.
"""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

from known import Corpus  # noqa: E402


def mixed(x, w):
    return jnp.tanh(w @ x) * x[0]


def of_tree(p):
    return {"m": mixed(p["x"], p["w"]), "s": jnp.sum(p["x"] ** 3)}


def energy(p):
    return jnp.sum(mixed(p["x"], p["w"]) ** 2)


def with_aux(x, w):
    return mixed(x, w), jnp.sum(x)


def affine(a, b):
    return a[0] * b[0], a[1] * b[0] + b[1]


@jax.custom_vjp
def half_known(x, w):
    return w @ x


half_known.defvjp(lambda x, w: (w @ x, w), lambda w, ct: (2 * ct @ w, None))


@jax.custom_vjp
def half_of_tree(p):
    return p["w"] @ p["x"]


half_of_tree.defvjp(lambda p: (p["w"] @ p["x"], p), lambda p, ct: ({"w": None, "x": 3 * ct @ p["w"]},))


def linearized(x, w):
    out, linear = jax.linearize(mixed, x, w)
    return out, linear(2 * x, w)


def elements(x, w, n):
    a = jnp.resize(jnp.concatenate([x, w.ravel()]), (n, 2))
    return a, jnp.sin(a)


PROGRAMS = {
    "jacfwd": lambda x, w: jax.jacfwd(mixed)(x, w),
    "jacrev": lambda x, w: jax.jacrev(mixed)(x, w),
    "jacfwd_both": lambda x, w: jax.jacfwd(mixed, (0, 1))(x, w),
    "jacrev_both": lambda x, w: jax.jacrev(mixed, (1, 0))(x, w),
    "jacfwd_tree": lambda x, w: jax.jacfwd(of_tree)({"x": x, "w": w}),
    "jacrev_tree": lambda x, w: jax.jacrev(of_tree)({"x": x, "w": w}),
    "jacfwd_aux": lambda x, w: jax.jacfwd(with_aux, has_aux=True)(x, w),
    "jacrev_aux": lambda x, w: jax.jacrev(with_aux, argnums=1, has_aux=True)(x, w),
    "jacfwd_complex": lambda x, w: jnp.real(jax.jacfwd(lambda z: jnp.sin(z) * z[0], holomorphic=True)(x + 1j * w[0])),
    "jacrev_complex": lambda x, w: jnp.imag(jax.jacrev(lambda z: jnp.sin(z) * z[0], holomorphic=True)(x + 1j * w[0])),
    "hessian": lambda x, w: jax.hessian(energy)({"x": x, "w": w}),
    "hessian_both": lambda x, w: jax.hessian(lambda x, w: energy({"x": x, "w": w}), (0, 1))(x, w),
    "linearize": linearized,
    "linear_transpose": lambda x, w: jax.linear_transpose(lambda y: w @ y * x[1], x)(jnp.cos(x))[0],
    "map": lambda x, w: lax.map(lambda r: jnp.sum(r) * x, w),
    "map_batches": lambda x, w: lax.map(lambda r: {"a": jnp.sum(r["a"]) * x, "b": jnp.exp(r["b"])}, {"a": w, "b": x}, batch_size=2),
    **{f"scan_{n}": (lambda x, w, n=n: lax.associative_scan(affine, elements(x, w, n))) for n in (1, 2, 3, 6, 13)},
    "scan_reverse": lambda x, w: lax.associative_scan(affine, elements(x, w, 7), reverse=True),
    "scan_axis": lambda x, w: lax.associative_scan(jnp.multiply, jnp.outer(x, jnp.arange(1.0, 6.0)), axis=-1),
    "scan_matmul": lambda x, w: lax.associative_scan(jnp.matmul, w * jnp.arange(1.0, 6.0)[:, None, None] / 4),
    "custom_none": lambda x, w: jax.grad(lambda x, w: jnp.sum(half_known(x, w) ** 2), (0, 1))(x, w),
    "custom_none_tree": lambda x, w: jax.grad(lambda p: jnp.sum(half_of_tree(p) ** 2))({"x": x, "w": w}),
}


def squares(tree):
    return sum(jnp.sum(leaf ** 2) for leaf in jax.tree_util.tree_leaves(tree))


corpus = Corpus(__file__, f"known answers from jax {jax.__version__} on the CPU")
random = np.random.RandomState(5)
x, w = random.randn(3).astype(np.float32), random.randn(3, 3).astype(np.float32)
for name, program in PROGRAMS.items():
    for context in ("plain", "jit", "vmap", "pmap", "grad"):
        if context in ("vmap", "pmap"):
            inputs, f = (np.stack([x, x[::-1]]), w), jax.vmap(program, (0, None))
        else:
            inputs, f = (x, w), jax.grad(lambda x, w: squares(program(x, w))) if context == "grad" else program
        outputs = [np.asarray(o) for o in jax.tree_util.tree_leaves(jax.jit(f)(*inputs))]
        corpus.op(name, inputs, outputs, context=context, rtol=2e-5, atol=float(f"{2e-6 * max(np.abs(o).max() for o in outputs):.1g}"))
corpus.save("transforms.txt")
