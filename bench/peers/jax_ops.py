#!/usr/bin/env python3
"""The peer's side of ops.c: the same single operations under jax.jit on one device. Reads names, "case@bytes", from standard input, one per
line, and answers each with one JSON object, as jax_bench.py does."""
import json
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
import jax.experimental  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax, random  # noqa: E402

enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64  # its place in older releases

CASES = {}
WIDE = set()


def case(f):
    CASES[f.__name__] = f
    return f


def wide(f):
    """Needs 64-bit types."""
    WIDE.add(f.__name__)
    return case(f)


def by_name(**functions):
    CASES.update(functions)


def numbers(rows, columns, seed):
    n = np.arange(rows * columns, dtype=np.uint32) + np.uint32(seed)
    return ((mixed(n) >> 8).astype(np.float32) / np.float32(8388608.0) - np.float32(1)).reshape(rows, columns)


def mixed(n):
    n = n * np.uint32(2654435761)
    n ^= n >> 16
    n *= np.uint32(0x85EBCA6B)
    n ^= n >> 13
    n *= np.uint32(0xC2B2AE35)
    return n ^ (n >> 16)


def row_numbers(rows):
    return (mixed(np.arange(rows, dtype=np.uint32) + np.uint32(77)) % np.uint32(rows)).astype(np.int32)


def key(i):
    return random.fold_in(random.PRNGKey(1), i[0])


def blocks(x, n=8):
    return x.reshape(-1, n, n)


def window(x, f, start, size, strides, padding):
    return lax.reduce_window(x, start, f, size, strides, padding)


def positive(x):
    a = blocks(x)
    return a @ a.transpose(0, 2, 1) + jnp.eye(8, dtype=jnp.float32)


def cell(h, x):
    n = jnp.tanh(h * 0.5 + x)
    return n, n


def scan_rnn(x, y, i):
    w = y[:16, :16]

    def one(h, r):
        n = jnp.tanh(w @ h + r)
        return n, n
    return lax.scan(one, y[0, :16], x[:, :16])


def dropout(x, y, i):
    return jnp.where(random.bernoulli(key(i), 0.9, x.shape), x / 0.9, 0)


def nines(x):
    return blocks(x[:x.shape[0] // 9 * 9], 3)


by_name(
    take_rows=lambda x, y, i: jnp.take(x, i, axis=0),
    take_along=lambda x, y, i: along(x, y),
    scatter_add_rows=lambda x, y, i: jnp.zeros_like(x).at[i].add(x),
    scatter_set_rows=lambda x, y, i: y.at[i].set(x),
    scatter_max_rows=lambda x, y, i: y.at[i].max(x),
    bincount=lambda x, y, i: jnp.bincount((abs(y.ravel()) * 255).astype(jnp.int32), length=256),
    embedding_grad=lambda x, y, i: jax.grad(lambda t: (jnp.take(t, i, axis=0) ** 2).sum())(x),
    dropout=dropout,
    bits=lambda x, y, i: random.bits(key(i), x.shape, jnp.uint32),
    uniform=lambda x, y, i: random.uniform(key(i), x.shape),
    normal=lambda x, y, i: random.normal(key(i), x.shape),
    categorical=lambda x, y, i: random.categorical(key(i), x, axis=-1, shape=(x.shape[0],)),
    permutation=lambda x, y, i: random.permutation(key(i), x.size),
    argmax_last=lambda x, y, i: jnp.argmax(x, -1),
    argmax_first=lambda x, y, i: jnp.argmax(x, 0),
    concat_last=lambda x, y, i: jnp.concatenate([x, y], 1),
    concat_first=lambda x, y, i: jnp.concatenate([x, y], 0),
    pad_edges=lambda x, y, i: lax.pad(x, 0.0, ((1, 1, 0), (1, 1, 0))),
    pad_interior=lambda x, y, i: lax.pad(x, 0.0, ((0, 0, 0), (0, 0, 1))),
    dynamic_slice=lambda x, y, i: lax.dynamic_slice_in_dim(x, i[0], x.shape[0] // 2, 0),
    dynamic_update=lambda x, y, i: lax.dynamic_update_slice_in_dim(x, y[:y.shape[0] // 2], i[0], 0),
    one_hot=lambda x, y, i: jax.nn.one_hot(i, x.shape[1]),
    tril=lambda x, y, i: jnp.tril(x),
    where=lambda x, y, i: jnp.where(x > y, x, 0),
    cumsum_last=lambda x, y, i: jnp.cumsum(x, 1),
    cumsum_first=lambda x, y, i: jnp.cumsum(x, 0),
    cumsum_long=lambda x, y, i: jnp.cumsum(x.ravel()),
    cumprod_last=lambda x, y, i: jnp.cumprod(x, 1),
    cummax_last=lambda x, y, i: lax.cummax(x, 1),
    cumlogsumexp_last=lambda x, y, i: lax.cumlogsumexp(x, 1),
    logsumexp_last=lambda x, y, i: jax.nn.logsumexp(x, -1),
    logsumexp_first=lambda x, y, i: jax.nn.logsumexp(x, 0),
    softmax_first=lambda x, y, i: jax.nn.softmax(x, 0),
    sort_last=lambda x, y, i: jnp.sort(x, 1),
    sort_first=lambda x, y, i: jnp.sort(x, 0),
    sort_long=lambda x, y, i: jnp.sort(x.ravel()),
    argsort_last=lambda x, y, i: jnp.argsort(x, 1),
    argsort_long=lambda x, y, i: jnp.argsort(x.ravel()),
    sort_i32_long=lambda x, y, i: jnp.sort(lax.bitcast_convert_type(x.ravel(), jnp.int32)),
    top_k=lambda x, y, i: lax.top_k(x, 8),
    searchsorted=lambda x, y, i: jnp.searchsorted(jnp.cumsum(abs(x[0])), y.ravel() * 32),
    transpose=lambda x, y, i: x.T,
    transpose_middle=lambda x, y, i: blocks(x).transpose(0, 2, 1),
    flip_last=lambda x, y, i: jnp.flip(x, 1),
    roll_last=lambda x, y, i: jnp.roll(x, 3, 1),
    tile_columns=lambda x, y, i: jnp.tile(x, (1, 2)),
    sum_first=lambda x, y, i: x.sum(0),
    sum_middle=lambda x, y, i: blocks(x).sum(1),
    sum_last=lambda x, y, i: x.sum(1),
    sum_outer=lambda x, y, i: blocks(x).sum((0, 2)),
    max_first=lambda x, y, i: x.max(0),
    var_last=lambda x, y, i: x.var(-1),
    any_last=lambda x, y, i: (x > 0.99).any(-1),
    sum_i32=lambda x, y, i: lax.bitcast_convert_type(x, jnp.int32).sum(),
    window_sum=lambda x, y, i: window(x, lax.add, 0.0, (1, 5), (1, 1), "SAME"),
    window_max=lambda x, y, i: window(x, lax.max, -jnp.inf, (3, 3), (1, 1), "SAME"),
    window_min=lambda x, y, i: window(x, lax.min, jnp.inf, (2, 2), (2, 2), "VALID"),
    window_i32=lambda x, y, i: window(lax.bitcast_convert_type(x, jnp.int32), lax.max, jnp.int32(-2**31), (2, 2), (2, 2), "VALID"),
    int_dot=lambda x, y, i: (x * 100).astype(jnp.int32) @ (y[:8] * 100).astype(jnp.int32).T,
    dot_batch=lambda x, y, i: blocks(x) @ blocks(y),
    dot_batch_3=lambda x, y, i: nines(x) @ nines(y),
    complex_mul=lambda x, y, i: lax.complex(x, y) * lax.complex(x, y).conj(),
    complex_exp=lambda x, y, i: abs(jnp.exp(lax.complex(x, y))),
    to_bf16=lambda x, y, i: x.astype(jnp.bfloat16),
    to_f16=lambda x, y, i: x.astype(jnp.float16),
    bf16_add=lambda x, y, i: x.astype(jnp.bfloat16) + y.astype(jnp.bfloat16),
    exp=lambda x, y, i: jnp.exp(x),
    add=lambda x, y, i: x + y,
    cholesky=lambda x, y, i: jnp.linalg.cholesky(positive(x)),
    solve=lambda x, y, i: lax.linalg.triangular_solve(blocks(x) + 8 * jnp.eye(8), blocks(y), left_side=True, lower=True),
    scan_rows=lambda x, y, i: lax.scan(cell, y[0], x),
    scan_rnn=scan_rnn,
    fori_1000=lambda x, y, i: lax.fori_loop(0, 1000, lambda k, c: c * 0.5 + k.astype(jnp.float32), x[0, 0]),
    while_1000=lambda x, y, i: lax.while_loop(lambda c: c < 1000, lambda c: c + 1, x[0, 0] * 0),
)


# Training: layers, their gradients, an optimiser's update.

def images(x):
    return x.reshape(-1, 8, 8, 16)


def heads(x):
    return x.reshape(-1, 32, 4, 8)


def classes(x, i):
    return i % x.shape[1]


def normalised(x, axis):
    return (x - x.mean(axis, keepdims=True)) * lax.rsqrt(x.var(axis, keepdims=True) + 1e-5)


def attention(x, y):
    scores = jnp.einsum("bthd,bshd->bhts", heads(x), heads(y)) * 0.35
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1), heads(y))


def first_of(y, *shape):
    return y.ravel()[:np.prod(shape)].reshape(shape)


def conv(x, kernel, padding="SAME", groups=1, dilation=(1, 1)):
    return lax.conv_general_dilated(images(x), kernel, (1, 1), padding, dilation, dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                    feature_group_count=groups)


def conv_1x1(x, y):
    return conv(x, first_of(y, 1, 1, 16, 16), "VALID")


def conv_depthwise(x, y):
    return conv(x, first_of(y, 3, 3, 1, 16), groups=16)


def conv_3x3(x, y):
    return conv(x, first_of(y, 3, 3, 16, 4))


def pooled(x, start, f):
    return lax.reduce_window(images(x), start, f, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def max_pool(x):
    return pooled(x, -jnp.inf, lax.max)


def avg_pool(x):
    return pooled(x, 0.0, lax.add) / 4


def along(x, y):
    return jnp.take_along_axis(x, (abs(y) * (x.shape[1] - 1)).astype(jnp.int32), 1)


def cross_entropy(x, i):
    return jax.nn.logsumexp(x, -1) - jnp.take_along_axis(x, classes(x, i)[:, None], -1)[:, 0]


def adam(x, y, i):
    m, v = 0.9 * y + 0.1 * x, 0.999 * y * y + 0.001 * x * x
    return x - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


def gradient(f):
    return jax.grad(lambda x, y, i: f(x, y, i).sum())


by_name(
    softmax_last=lambda x, y, i: jax.nn.softmax(x, -1),
    log_softmax_last=lambda x, y, i: jax.nn.log_softmax(x, -1),
    softmax_grad=gradient(lambda x, y, i: jax.nn.softmax(x, -1) * y),
    log_softmax_grad=gradient(lambda x, y, i: jax.nn.log_softmax(x, -1) * y),
    cross_entropy_grad=gradient(lambda x, y, i: cross_entropy(x, i)),
    batch_norm=lambda x, y, i: normalised(images(x), (0, 1, 2)),
    batch_norm_grad=gradient(lambda x, y, i: normalised(images(x), (0, 1, 2)) * images(y)),
    layer_norm=lambda x, y, i: normalised(x, -1),
    layer_norm_grad=gradient(lambda x, y, i: normalised(x, -1) * y),
    std_first=lambda x, y, i: x.std(0),
    var_all=lambda x, y, i: x.var(),
    mean_last=lambda x, y, i: x.mean(-1),
    norm_all=lambda x, y, i: jnp.sqrt((x * x).sum()),
    gelu=lambda x, y, i: jax.nn.gelu(x),
    gelu_grad=gradient(lambda x, y, i: jax.nn.gelu(x) * y),
    silu=lambda x, y, i: jax.nn.silu(x),
    relu_grad=gradient(lambda x, y, i: jax.nn.relu(x) * y),
    attention=lambda x, y, i: attention(x, y),
    attention_grad=gradient(lambda x, y, i: attention(x, y)),
    avg_pool=lambda x, y, i: avg_pool(x),
    avg_pool_grad=gradient(lambda x, y, i: avg_pool(x) ** 2),
    max_pool=lambda x, y, i: max_pool(x),
    max_pool_grad=gradient(lambda x, y, i: max_pool(x) ** 2),
    conv_1x1=lambda x, y, i: conv_1x1(x, y),
    conv_1x1_grad=gradient(lambda x, y, i: conv_1x1(x, y) ** 2),
    conv_1x1_kernel_grad=gradient(lambda x, y, i: conv_1x1(y, x) ** 2),
    conv_depthwise=lambda x, y, i: conv_depthwise(x, y),
    conv_depthwise_grad=gradient(lambda x, y, i: conv_depthwise(x, y) ** 2),
    conv_depthwise_kernel_grad=gradient(lambda x, y, i: conv_depthwise(y, x) ** 2),
    conv_3x3=lambda x, y, i: conv_3x3(x, y),
    conv_3x3_grad=gradient(lambda x, y, i: conv_3x3(x, y) ** 2),
    conv_3x3_kernel_grad=gradient(lambda x, y, i: conv_3x3(y, x) ** 2),
    conv_transposed=lambda x, y, i: conv(x, first_of(y, 3, 3, 16, 4), ((1, 2), (1, 2)), dilation=(2, 2)),
    dot_weights=lambda x, y, i: jnp.einsum("ri,rj->ij", x, y),
    dot_rows=lambda x, y, i: x @ first_of(y, x.shape[1], 16),
    dot_bf16=lambda x, y, i: x.astype(jnp.bfloat16) @ first_of(y, x.shape[1], 16).astype(jnp.bfloat16),
    cumsum_grad=gradient(lambda x, y, i: jnp.cumsum(x, 0) ** 2),
    max_grad=gradient(lambda x, y, i: x.max(-1)),
    take_along_grad=gradient(lambda x, y, i: along(x, y)),
    sort_grad=gradient(lambda x, y, i: jnp.sort(x, 1) * y),
    adam=adam,
    split_last=lambda x, y, i: jnp.split(x, 2, 1),
    split_first=lambda x, y, i: jnp.split(x, 4, 0),
    stack_last=lambda x, y, i: jnp.stack([x, y], -1),
    repeat_rows=lambda x, y, i: jnp.repeat(x, 2, 0),
    clip=lambda x, y, i: jnp.clip(x, -0.5, 0.5),
    take_columns=lambda x, y, i: jnp.take(x, classes(x, i[:16]), axis=1),
    prod_last=lambda x, y, i: x.prod(-1),
    min_all=lambda x, y, i: x.min(),
    sum_bf16=lambda x, y, i: x.astype(jnp.bfloat16).sum(-1),
    median_last=lambda x, y, i: jnp.median(x, 1),
    log=lambda x, y, i: jnp.log(abs(x)),
    tanh=lambda x, y, i: jnp.tanh(x),
    sin=lambda x, y, i: jnp.sin(x * 10),
    sigmoid=lambda x, y, i: jax.nn.sigmoid(x),
    erf=lambda x, y, i: lax.erf(x),
    pow=lambda x, y, i: abs(x) ** y,
    rem_i32=lambda x, y, i: lax.bitcast_convert_type(x, jnp.int32) % 1000,
    div_i32=lambda x, y, i: lax.div(lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(y, jnp.int32) | 1),
    truncated_normal=lambda x, y, i: random.truncated_normal(key(i), -2, 2, x.shape),
    randint=lambda x, y, i: random.randint(key(i), x.shape, 0, 1000),
    gumbel=lambda x, y, i: random.gumbel(key(i), x.shape),
)


@wide
def dot_f64(x, y, i):
    return x.astype(jnp.float64) @ y[:8].astype(jnp.float64).T


@wide
def exp_f64(x, y, i):
    return jnp.exp(x.astype(jnp.float64))


@wide
def tanh_f64(x, y, i):
    return jnp.tanh(x.astype(jnp.float64))


@wide
def sin_f64(x, y, i):
    return jnp.sin(x.astype(jnp.float64))


@wide
def add_f64(x, y, i):
    return x.astype(jnp.float64) + y.astype(jnp.float64)


class Runner:
    def __init__(self):
        self.name, self.size, self.operands, self.compiled = None, None, None, {}

    def prepare(self, name):
        word, size = name.split("@")
        rows_columns = (int(size) // 4 // 16, 16) if int(size) <= 65536 else (int(size) // 4 // 256, 256)
        if size != self.size:
            self.operands = [jnp.asarray(a) for a in (numbers(*rows_columns, 1), numbers(*rows_columns, 1000003), row_numbers(rows_columns[0]))]
            self.size = size
        if word not in self.compiled:
            self.compiled[word] = jax.jit(CASES[word])
        return self.compiled[word], word

    def timed(self, f, word, calls):
        with enable_x64(word in WIDE):
            start = time.perf_counter()
            for _ in range(calls):
                jax.block_until_ready(f(*self.operands))
            return (time.perf_counter() - start) / calls

    def run(self, name):
        try:
            f, word = self.prepare(name)
            self.timed(f, word, 1)
            once = self.timed(f, word, 1)
            calls = 1 if once > 0.02 else int(0.02 / (once + 1e-6)) + 1
            return {"peer": f"jax {jax.__version__}", "name": name, "seconds": self.timed(f, word, calls), "calls": calls, "rss_mib": 0}
        except Exception as error:  # the driver shows it beside the others' figures
            return {"name": name, "error": f"{type(error).__name__}: {error}"[:300]}


def main():
    runner = Runner()
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
        return
    print(json.dumps({"name": "ready"}), flush=True)
    for line in sys.stdin:
        if line.strip():
            print(json.dumps(runner.run(line.strip())), flush=True)


if __name__ == "__main__":
    main()
