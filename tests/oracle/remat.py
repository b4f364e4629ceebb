"""What remat keeps under each policy, and a gradient: from JAX 0.4.35. Writes remat.txt beside this file.

One line for each policy: its name, then the numbers of sin, cos and dot_general equations in the backward program of vjp, which includes
the recomputation.
The last lines: x, w and the gradient of f with respect to x, row by row.
"""
import os
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

P = jax.checkpoint_policies


def f(x, w):
    a = checkpoint_name(jnp.tensordot(x, w, 1), "a")
    b = checkpoint_name(jnp.sin(a), "b")
    c = checkpoint_name(lax.batch_matmul(b, b), "c")
    return jnp.sum(jnp.cos(c) * c)


POLICIES = {
    "nothing": P.nothing_saveable,
    "everything": P.everything_saveable,
    "dots": P.dots_saveable,
    "dots_with_no_batch_dims": P.dots_with_no_batch_dims_saveable,
    "only_a": P.save_only_these_names("a"),
    "only_b": P.save_only_these_names("b"),
    "only_a_c": P.save_only_these_names("a", "c"),
    "names_but_a": P.save_any_names_but_these("a"),
    "all_but_a": P.save_anything_except_these_names("a"),
    "all_but_a_b_c": P.save_anything_except_these_names("a", "b", "c"),
    "a_or_batched_dots": P.save_from_both_policies(
        P.save_only_these_names("a"), lambda prim, *_, **params: prim.name == "dot_general" and bool(params["dimension_numbers"][1][0])),
}


def main():
    x = (np.arange(18, dtype=np.float32).reshape(2, 3, 3) - 9) / 8
    w = (np.arange(9, dtype=np.float32).reshape(3, 3) - 4) / 4
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "remat.txt"), "w") as out:
        print("# What remat keeps, by policy: made by remat.py, jax", jax.__version__, file=out)
        for name, policy in POLICIES.items():
            _, pull = jax.vjp(jax.checkpoint(lambda x: f(x, w), policy=policy), x)
            text = str(pull.args[0].func.args[1])
            print(name, *(text.count(" %s" % op) for op in ("sin ", "cos ", "dot_general[")), file=out)
        for value in (x, w, jax.grad(f)(x, w)):
            print(*("%.9g" % v for v in np.asarray(value).ravel()), file=out)


if __name__ == "__main__":
    main()
