"""Type promotion: the result of a binary operation for every pair of types, weak scalars included. Run with jax 0.10.2.

For a pair with a 64-bit operand 64-bit types are enabled, since they do not exist otherwise. A weak result is then written with the
default width (i32, f32, c64), because a weak type means the default type.
"""
import jax
import jax.numpy as jnp  # noqa: E402

from known import DTYPES, NAMES, Corpus  # noqa: E402

WEAK = {"i*": int, "f*": float, "c*": complex}
WIDE = {"i64", "u64", "f64", "c128"}
DEFAULT = {"int64": "i32", "float64": "f32", "complex128": "c64"}


def sample(name):
    return jnp.asarray(WEAK[name](1)) if name in WEAK else jnp.ones((), DTYPES[name])


def main():
    corpus = Corpus(__file__, f"a b result weak; from jax {jax.__version__}, 64-bit results only by 64-bit operands")
    names = [*DTYPES, *WEAK]
    for a in names:
        for b in names:
            jax.config.update("jax_enable_x64", bool({a, b} & WIDE))
            left, right = sample(a), sample(b)
            assert left.weak_type == (a in WEAK) and right.weak_type == (b in WEAK)
            out = jax.eval_shape(jnp.add, left, right)
            assert out.dtype == jnp.result_type(left, right)
            result = DEFAULT.get(out.dtype.name, NAMES[out.dtype.name]) if out.weak_type else NAMES[out.dtype.name]
            corpus.add(f"{a} {b} {result} {int(out.weak_type)}")
            corpus.cases += 1
    corpus.save()


main()
