"""Known answers for threefry random numbers with today's default, jax_threefry_partitionable=True. Run with jax 0.10.2.

jax 0.4.35 gives the same bits, integers and uniforms; some of its normals differ in the last digit.
The script is not called random.py, because that would hide the standard module of that name.
Small arrays are written whole (`out`), large ones as one `digest` line.
"""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402

jax.config.update("jax_threefry_partitionable", True)
jax.config.update("jax_enable_x64", True)   # for the 64-bit types only: every call below names its dtype
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import random  # noqa: E402

from known import DTYPES, Corpus, digest_line  # noqa: E402

corpus = Corpus(__file__, f"known answers from jax {jax.__version__}, threefry, partitionable")
KEY = random.PRNGKey(42)
FLOATS, BITS = ("f32", "f64", "f16", "bf16"), ("u32", "u8", "u16", "u64")
SHAPES = [(), (1,), (2,), (3,), (5,), (7,), (8,), (2, 3), (3, 5), (4, 1, 3), (0,), (2, 0)]
LARGE = [(1001,), (33, 77), (4096,), (100003,), (64, 64, 9)]
ROUNDING = {"f32": 1e-6, "f64": 1e-12, "f16": 2e-3, "bf16": 1.6e-2}


def emit(name, out, inputs=(), **attributes):
    out = np.asarray(out)
    if out.size <= 64:
        corpus.op(name, inputs, [out], **attributes)
    else:
        corpus.op(name, inputs, [], **attributes)
        corpus.add(digest_line(out))


def shape_word(shape):
    return ",".join(map(str, shape)) or "-"


def keyed(key):
    return [np.asarray(key)]


for seed in (0, 1, 42, 123456789, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 5, 2**63 - 1, -1, -42):
    emit("key", random.PRNGKey(seed), seed=seed)
for key in (random.PRNGKey(0), KEY, random.PRNGKey(2**40 + 5)):
    for count in (1, 2, 3, 4, 5, 8, 13):
        emit("split", random.split(key, count), keyed(key), count=count)
    emit("split", random.split(key, 1000), keyed(key), count=1000)
    for data in (0, 1, 7, 255, 65536, 2**31 - 1, 2**32 - 1):
        emit("fold_in", random.fold_in(key, data), keyed(key), data=data)
chain = KEY
for step in range(5):
    chain, child = random.split(chain)
    emit("split_chain", jnp.stack([chain, child]), keyed(KEY), steps=step + 1)

for shape in SHAPES + LARGE:
    large = shape in LARGE
    for dtype in BITS:
        emit("bits", random.bits(KEY, shape, DTYPES[dtype]), keyed(KEY), shape=shape_word(shape), dtype=dtype)
    for dtype in FLOATS:
        emit("uniform", random.uniform(KEY, shape, DTYPES[dtype]), keyed(KEY), shape=shape_word(shape), dtype=dtype, minval=0, maxval=1)
        emit("normal", random.normal(KEY, shape, DTYPES[dtype]), keyed(KEY), shape=shape_word(shape), dtype=dtype, rtol=ROUNDING[dtype])
    emit("randint", random.randint(KEY, shape, 0, 100, np.int32), keyed(KEY), shape=shape_word(shape), dtype="i32", minval=0, maxval=100)
    emit("bernoulli", random.bernoulli(KEY, np.float32(0.3), shape), keyed(KEY), shape=shape_word(shape), p=0.3)
for key in (random.PRNGKey(0), random.PRNGKey(7)):
    emit("bits", random.bits(key, (4,), np.uint32), keyed(key), shape="4", dtype="u32")
    emit("uniform", random.uniform(key, (6,), np.float32), keyed(key), shape="6", dtype="f32", minval=0, maxval=1)
    emit("normal", random.normal(key, (), np.float32), keyed(key), shape="-", dtype="f32", rtol=1e-6)
    emit("normal", random.normal(key, (6,), np.float32), keyed(key), shape="6", dtype="f32", rtol=1e-6)
for dtype in FLOATS:
    for low, high in ((-1, 1), (5, 7), (-100, 0.5)):
        emit("uniform", random.uniform(KEY, (9,), DTYPES[dtype], low, high), keyed(KEY), shape="9", dtype=dtype, minval=low, maxval=high,
             rtol=ROUNDING[dtype])
for dtype in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"):
    info = np.iinfo(DTYPES[dtype])
    for low, high in ((0, 10), (0, 1), (5, 100), (info.min, min(info.max, 2**63 - 1)), (3, 3), (max(info.min, -7), 50)):
        emit("randint", random.randint(KEY, (9,), low, high, DTYPES[dtype]), keyed(KEY), shape="9", dtype=dtype, minval=low, maxval=high)
emit("randint", random.randint(KEY, (5000,), -1000, 1000000, np.int32), keyed(KEY), shape="5000", dtype="i32", minval=-1000, maxval=1000000)
for count in (0, 1, 2, 3, 5, 8, 17, 64, 1000, 10007, 60000):
    emit("permutation", random.permutation(KEY, np.arange(count, dtype=np.int32)), keyed(KEY), count=count)
rows = np.arange(24, dtype=np.float32).reshape(8, 3)
emit("permutation_of", random.permutation(KEY, jnp.asarray(rows)), [*keyed(KEY), rows], axis=0)
emit("permutation_of", random.permutation(KEY, jnp.asarray(rows), axis=1), [*keyed(KEY), rows], axis=1)
emit("permutation_of", random.permutation(KEY, jnp.asarray(rows), axis=0, independent=True), [*keyed(KEY), rows], axis=0, independent=1)
emit("permutation_of", random.permutation(KEY, jnp.asarray(rows[:, 0])), [*keyed(KEY), rows[:, 0]], axis=0)
for p in (0.0, 0.5, 0.9, 1.0):
    emit("bernoulli", random.bernoulli(KEY, np.float32(p), (20,)), keyed(KEY), shape="20", p=p)
emit("bernoulli", random.bernoulli(KEY, jnp.asarray([0.1, 0.5, 0.9], jnp.float32), (4, 3)), [*keyed(KEY), np.array([0.1, 0.5, 0.9], np.float32)],
     shape="4,3")
for shape in ((4,), (3, 5)):
    word = shape_word(shape)
    emit("truncated_normal", random.truncated_normal(KEY, -2.0, 2.0, shape, np.float32), keyed(KEY), shape=word, dtype="f32", lower=-2, upper=2, rtol=4e-6)
    emit("gumbel", random.gumbel(KEY, shape, np.float32), keyed(KEY), shape=word, dtype="f32", rtol=4e-6)
    emit("exponential", random.exponential(KEY, shape, np.float32), keyed(KEY), shape=word, dtype="f32", rtol=4e-6)
logits = np.log(np.array([0.1, 0.2, 0.7], np.float32))
emit("categorical", random.categorical(KEY, jnp.asarray(logits), shape=(8,)).astype(np.int32), [*keyed(KEY), logits], shape="8")
square = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], np.float32))
for axis, draws in ((-1, ()), (0, ()), (-1, (5,)), (0, (2, 3))):
    batch = np.delete(square.shape, axis)
    picked = random.categorical(KEY, jnp.asarray(square), axis=axis, shape=(*draws, *batch))
    emit("categorical", picked.astype(np.int32), [*keyed(KEY), square], axis=axis, draws=shape_word(draws))
for shape in ((4,), (3, 5)):
    word = shape_word(shape)
    emit("laplace", random.laplace(KEY, shape, np.float32), keyed(KEY), shape=word, dtype="f32", rtol=4e-6)
    emit("cauchy", random.cauchy(KEY, shape, np.float32), keyed(KEY), shape=word, dtype="f32", rtol=2e-5)
for dtype in ("f16", "bf16", "f64"):
    emit("gumbel", random.gumbel(KEY, (9,), DTYPES[dtype]), keyed(KEY), shape="9", dtype=dtype, rtol=4 * ROUNDING[dtype])
    emit("laplace", random.laplace(KEY, (9,), DTYPES[dtype]), keyed(KEY), shape="9", dtype=dtype, rtol=4 * ROUNDING[dtype])
    emit("exponential", random.exponential(KEY, (9,), DTYPES[dtype]), keyed(KEY), shape="9", dtype=dtype, rtol=4 * ROUNDING[dtype])
for dtype in ("f16", "bf16", "f64"):
    for low, high in ((-2.0, 2.0), (0.5, 3.0)):
        emit("truncated_normal", random.truncated_normal(KEY, low, high, (9,), DTYPES[dtype]), keyed(KEY), shape="9", dtype=dtype, lower=low, upper=high,
             rtol=4 * ROUNDING[dtype])
    emit("cauchy", random.cauchy(KEY, (9,), DTYPES[dtype]), keyed(KEY), shape="9", dtype=dtype, rtol=20 * ROUNDING[dtype])
    for a in (0.5, 3.0):
        emit("gamma", random.gamma(KEY, np.asarray(a, DTYPES[dtype]), (9,), DTYPES[dtype]), keyed(KEY), shape="9", dtype=dtype, a=a, rtol=8 * ROUNDING[dtype])
    narrow = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])).astype(DTYPES[dtype])
    for axis, draws in ((-1, (7,)), (0, ())):
        batch = np.delete(narrow.shape, axis)
        emit("categorical", random.categorical(KEY, jnp.asarray(narrow), axis=axis, shape=(*draws, *batch)).astype(np.int32), [*keyed(KEY), narrow],
             axis=axis, draws=shape_word(draws))
    with jax.enable_x64(dtype == "f64"):
        odds = np.array([0.125, 0.25, 0.375, 0.0625, 0.1875], DTYPES[dtype])
        for replace in (True, False):
            emit("choice", random.choice(KEY, 5, (3,), replace, jnp.asarray(odds)).astype(np.int32), [*keyed(KEY), odds], shape="3", replace=int(replace),
                 weighted=1)
for a in (0.1, 0.9, 1.0, 2.5, 40.0):
    emit("gamma", random.gamma(KEY, np.float32(a), (12,), np.float32), keyed(KEY), shape="12", dtype="f32", a=a, rtol=1e-5)
emit("gamma", random.gamma(KEY, 2.5, (12,), np.float64), keyed(KEY), shape="12", dtype="f64", a=2.5, rtol=1e-12)
emit("gamma", random.gamma(KEY, 0.7, (2000,), np.float32), keyed(KEY), shape="2000", dtype="f32", a=0.7, rtol=1e-5)
chances = np.array([0.1, 0.2, 0.3, 0.15, 0.25], np.float32)
values = np.array([10, 20, 30, 40, 50], np.int32)
with jax.enable_x64(False):   # positions are drawn in the default integer
    for replace in (True, False):
        for shape in ((3,), (2, 2)):
            emit("choice", random.choice(KEY, jnp.asarray(values), shape, replace), [*keyed(KEY), values], shape=shape_word(shape), replace=int(replace))
            emit("choice", random.choice(KEY, 5, shape, replace, jnp.asarray(chances)).astype(np.int32), [*keyed(KEY), chances], shape=shape_word(shape),
                 replace=int(replace), weighted=1)
# as many keys as devices, each its own stream
many = random.split(random.PRNGKey(0), 8)
emit("normal_per_key", jax.vmap(lambda k: random.normal(k, (3,), np.float32))(many), keyed(random.PRNGKey(0)), count=8, shape="3", dtype="f32", rtol=1e-6)
corpus.save("random.txt")
