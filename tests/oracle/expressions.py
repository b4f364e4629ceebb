"""Evaluates the expressions in the tests of tests/ops that include expressions.h, each the string of a ROW, under the names of jax.numpy,
jax.scipy and jax.random. The answers to test_<name>.c are <name>.txt.
With arguments, only of the tests of these names."""
import glob
import os
import re
import sys

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.special
import jax.scipy.stats
import numpy as np

from known import Corpus

ROW = re.compile(r'^ *ROW\(([-0-9.e]+),\s+((?:"[^"\n]*"\s*)+),', re.M)
TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ops", "test_*.c")


def hashed(text):
    value = 0xCBF29CE484222325
    for byte in text.encode("ascii"):
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"{value:016x}"


def names():
    """The names that an expression may use; F, D, H, B and I make vectors of f32, f64, f16, bf16 and i32."""
    f32, i32 = np.float32, np.int32
    vectors = {"F": f32, "D": np.float64, "H": np.float16, "B": jnp.bfloat16, "I": i32}
    known = {**vars(jax.nn), **vars(jnp), **vars(jax.scipy.special), "random": jax.random, "grad": jax.grad, "hessian": jax.hessian, "ops": jax.ops, "lax": jax.lax, "stats": jax.scipy.stats, "parts": lambda z: jnp.stack([z.real, z.imag]),
             "block_diag": jax.scipy.linalg.block_diag, "expm": jax.scipy.linalg.expm, "toeplitz": jax.scipy.linalg.toeplitz, "key": jax.random.PRNGKey(42), "nan": np.nan, "inf": np.inf, "i32": i32, "f32": f32, "f64": np.float64}
    known |= {name: (lambda *v, dtype=dtype: jnp.array(v, dtype)) for name, dtype in vectors.items()}
    known |= {"grid": jnp.arange(6, dtype=f32).reshape(2, 3), "cube": jnp.arange(12, dtype=f32).reshape(2, 3, 2),
              "whole": jnp.array([[3, 1, 2], [6, -5, 4]], i32), "holes": jnp.array([[1, np.nan, 2], [np.nan] * 3], f32),
              "spread": jnp.array([[2, 0.5], [0.5, 1]], f32)}
    return known


for test in sorted(glob.glob(TESTS)):
    name = os.path.basename(test).removeprefix("test_").removesuffix(".c")
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    with open(test, encoding="ascii") as f:
        text = f.read()
    if '#include "expressions.h"' not in text:
        continue
    corpus = Corpus(__file__, f"known answers from jax {jax.__version__}")
    for rtol, quoted in ROW.findall(text):
        expression = "".join(re.findall(r'"([^"]*)"', quoted))
        with jax.enable_x64("D(" in expression):
            results = eval(expression, names())
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(results)]
        tolerance = {} if float(rtol) == 0 else {"rtol": float(rtol)}
        corpus.op("expression", [], leaves, source=expression, hash=hashed(expression), **tolerance)
    corpus.save(name + ".txt")
