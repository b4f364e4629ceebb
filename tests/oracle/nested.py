"""Every collective over the inner name, the outer one and both, in nested pmaps inside jit, vmap, jvp and grad: from JAX 0.4.35 on 8 CPU
devices. Writes nested.txt beside this file.

One line for each case: `<body> <names> <context> <dims> <sum> <weighted sum>`. A result has 500 to 30,000 numbers and is compared by these
two sums; in the second, element k has the weight ((29 k) mod 31 - 15) / 16. Cases that JAX refuses (pmax has no derivative, gathers over
two nested pmaps fail) have no line.
"""
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import grad, jit, jvp, lax, pmap, vmap  # noqa: E402

NAMES = {"i": ("i", 4), "j": ("j", 2), "ij": (("i", "j"), 8), "ji": (("j", "i"), 8)}
ONE_NAME = {
    "ppermute": lambda x, a, n: lax.ppermute(x, a, [(k, (k + 1) % n) for k in range(n)]),
    "ppermute_one": lambda x, a, n: lax.ppermute(x, a, [(0, n - 1)]),
    "pshuffle": lambda x, a, n: lax.pshuffle(x, a, list(range(n))[::-1]),
    "pswapaxes": lambda x, a, n: lax.pswapaxes(x[:n], a, 0),
    "all_to_all": lambda x, a, n: lax.all_to_all(x[:n], a, 0, 1),
}
ANY_NAMES = {
    "psum": lambda x, a, n: lax.psum(x, a),
    "pmean": lambda x, a, n: lax.pmean(x, a),
    "pmax": lambda x, a, n: lax.pmax(x, a),
    "pmin": lambda x, a, n: lax.pmin(x, a),
    "all_gather_0": lambda x, a, n: lax.all_gather(x, a),
    "all_gather_1": lambda x, a, n: lax.all_gather(x, a, axis=1),
    "all_gather_tiled": lambda x, a, n: lax.all_gather(x, a, axis=1, tiled=True),
    "psum_scatter_0": lambda x, a, n: lax.psum_scatter(x, a, scatter_dimension=0, tiled=True),
    "psum_scatter_1": lambda x, a, n: lax.psum_scatter(x, a, scatter_dimension=1, tiled=True),
    "all_to_all_tiled_01": lambda x, a, n: lax.all_to_all(x, a, 0, 1, tiled=True),
    "all_to_all_tiled_10": lambda x, a, n: lax.all_to_all(x, a, 1, 0, tiled=True),
    "axis_index": lambda x, a, n: x * (1.0 + lax.axis_index(a)),
    "axis_size": lambda x, a, n: x * lax.psum(1, a),
    "normalize": lambda x, a, n: jnp.sin(x) / (2.0 + lax.psum(jnp.cos(x) ** 2, a)),
}


def weight(r, like=np):
    return (((like.arange(r.size) * 29) % 31 - 15) / 16).astype(like.float32).reshape(r.shape)


X = (((np.arange(512) * 37) % 41 - 20) / 16).astype(np.float32).reshape(4, 2, 8, 8)
BATCH = np.stack([X, X * 2, -X])


def loss(f):
    return lambda x: (lambda r: jnp.sum(jnp.sin(r) * weight(r, jnp)))(f(x))


def contexts(body):
    def maps(f):
        return pmap(pmap(f, axis_name="j"), axis_name="i")
    f = maps(body)
    yield "plain", lambda: f(X)
    yield "jit", lambda: jit(f)(X)
    yield "vmap", lambda: vmap(f)(BATCH)
    yield "vmap_2_1", lambda: vmap(f, in_axes=2, out_axes=1)(np.moveaxis(BATCH, 0, 2))
    yield "jvp", lambda: jvp(f, (X,), (X * X,))[1]
    yield "grad", lambda: grad(loss(f))(X)
    yield "jit_grad", lambda: jit(grad(loss(f)))(X)
    yield "grad_inside", lambda: maps(grad(loss(body)))(X)


def main():
    lines = [f"# made by nested.py: sums of results of jax {jax.__version__} with {jax.local_device_count()} CPU devices"]
    for label, (names, size) in NAMES.items():
        for name, body in {**ANY_NAMES, **(ONE_NAME if len(label) == 1 else {})}.items():
            for context, run in contexts(lambda x, b=body, a=names, n=size: b(x, a, n)):
                try:
                    r = np.asarray(run(), np.float64)
                except Exception:
                    continue
                dims = ",".join(map(str, r.shape))
                lines.append(f"{name} {label} {context} {dims} {r.sum():.9g} {(r * weight(r)).sum():.9g}")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "nested.txt"), "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
