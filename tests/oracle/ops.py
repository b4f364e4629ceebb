"""Known answers of jnp and lax functions on small inputs. Run with jax 0.10.2 on the CPU. Writes ops/<family>.txt for the
families named, or for all.

Where possible, inputs are small multiples of 1/8, so that products and sums are exact in every order of summation: such a case has no
`rtol`, and its results must be equal. In the others `rtol` and `atol` bound |ours - theirs|.
"""
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

from known import DTYPES, NAMES, Corpus  # noqa: E402

NAN, INF = float("nan"), float("inf")
TOLERANCE = {"f64": 1e-13, "f32": 2e-6, "f16": 1e-3, "bf16": 8e-3}
COMPLEX = {"c64": 2e-6, "c128": 1e-13}
corpus = None


def short(dtype):
    return NAMES[np.dtype(dtype).name]


def wide(arrays):
    return any(np.asarray(a).dtype.name in ("float64", "int64", "uint64", "complex128") for a in arrays)


def arr(dtype, data, shape=None):
    with np.errstate(over="ignore"):
        out = np.asarray(data, dtype=DTYPES[dtype])
    return out if shape is None else out.reshape(shape)


def eighths(dtype, shape, seed=0, low=-16, high=16):
    """Multiples of 1/8 (of 1 for integers) from a fixed formula."""
    random = np.random.RandomState(seed)
    data = random.randint(low, high + 1, size=shape)
    if dtype in COMPLEX:
        return arr(dtype, (data + 1j * random.randint(low, high + 1, size=shape)) / 8)
    return arr(dtype, data / 8 if dtype in TOLERANCE else data)


def op(name, fn, *inputs, exact=True, atol=None, **attributes):
    """Runs fn on the inputs; 64-bit types are enabled only if an input has one, so defaults have 32 bits."""
    inputs = [np.asarray(a) for a in inputs]
    with jax.enable_x64(wide(inputs) or attributes.get("dtype") in ("i64", "u64", "f64")):
        outputs = jax.tree_util.tree_leaves(jax.jit(fn)(*map(jnp.asarray, inputs)))
        outputs = [np.asarray(o) for o in outputs]
    if not exact:
        rtol = max({**TOLERANCE, **COMPLEX}.get(short(a.dtype), 0) for a in [*inputs, *outputs])
        attributes.setdefault("rtol", float(rtol))
        attributes.setdefault("atol", float(rtol * 1e-2 if atol is None else atol))
    corpus.op(name, inputs, outputs, **attributes)


def vjp(name, fn, *inputs, exact=True, argnums=None, cotangent=None, **attributes):
    """`<op>_vjp`: the inputs, the cotangent as the last `in`, and the gradient of each differentiated input as `out`."""
    inputs = [np.asarray(a) for a in inputs]
    which = argnums if argnums is not None else tuple(range(len(inputs)))
    with jax.enable_x64(wide(inputs)):
        shape = jax.eval_shape(fn, *inputs)
    ct = eighths(short(shape.dtype), shape.shape, 99) if cotangent is None else cotangent

    def run(*args):
        def partial(*chosen):
            full = list(args[:-1])
            for position, value in zip(which, chosen):
                full[position] = value
            return fn(*full)
        return jax.vjp(partial, *(args[i] for i in which))[1](args[-1])

    op(name + "_vjp", run, *inputs, ct, exact=exact, argnums=list(which), **attributes)


def elementwise():
    line = [-INF, -80.0, -10.5, -3.7, -2.5, -1.5, -1.0, -0.5, -1e-3, -1e-6, -0.0, 0.0, 1e-6, 1e-3, 0.3, 0.5, 1.0, 1.5, 2.5, 3.7,
            10.5, 80.0, INF, NAN]
    short_line = [-3.7, -2.5, -1.5, -0.5, -0.0, 0.0, 0.1, 0.5, 1.0, 1.5, 2.5, 3.7, INF, NAN]
    inexact = {"exp": lax.exp, "log": lax.log, "log1p": lax.log1p, "expm1": lax.expm1, "tanh": lax.tanh, "sigmoid": jax.nn.sigmoid,
               "sin": lax.sin, "cos": lax.cos, "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "erf": lax.erf}
    exact = {"neg": lax.neg, "abs": lax.abs, "sign": lax.sign, "floor": lax.floor, "ceil": lax.ceil, "round": jnp.round,
             "square": lax.square, "isfinite": jnp.isfinite, "isnan": jnp.isnan, "isinf": jnp.isinf, "relu": jax.nn.relu}
    for dtype in TOLERANCE:
        data = line if dtype in ("f32", "f64") else short_line
        for name, fn in inexact.items():
            # tanh and erf saturate; near a zero of sin and cos the error is absolute
            op(name, fn, arr(dtype, data), exact=name == "sqrt" and dtype in ("f32", "f64"), atol=TOLERANCE[dtype] * 1e-2)
        for name, fn in exact.items():
            op(name, fn, arr(dtype, data))
        for y in (-3, -1, 0, 1, 2, 3, 5):
            op("integer_pow", lambda x, y=y: lax.integer_pow(x, y), arr(dtype, [-2.5, -1.0, -0.0, 0.0, 0.5, 1.5, 3.0, INF, NAN]), y=y,
               exact=False)
        base = [2.0, 0.5, 2.0, -2.0, -2.0, -2.0, 0.0, 0.0, 0.0, -0.0, 1.0, 1.0, INF, -INF, NAN, NAN, 0.3, 7.0, -1.0, 9.0]
        power = [3.0, 2.0, -1.5, 2.0, 3.0, 0.5, 0.0, 2.0, -1.0, -1.0, NAN, INF, -1.0, 3.0, 0.0, 1.0, 0.7, -2.5, INF, 0.5]
        op("pow", lax.pow, arr(dtype, base), arr(dtype, power), exact=False)
        x = arr(dtype, [1.0, -1.0, 5.5, -5.5, 5.5, 0.0, 1.0, -1.0, INF, NAN, 1.0, 7.25, INF, -0.0])
        y = arr(dtype, [2.0, 3.0, 2.0, 2.0, -2.0, 0.0, 0.0, 0.0, 1.0, 1.0, NAN, INF, INF, 0.0])
        for name, fn in {"add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "maximum": lax.max,
                         "minimum": lax.min, "remainder": jnp.remainder, "floor_divide": jnp.floor_divide,
                         "eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}.items():
            op(name, fn, x, y)
        op("atan2", lax.atan2, x, y, exact=False)
    op("sin", lax.sin, arr("f32", [100.0, 1000.0, 1e5, -12345.678, 3.1415927, 6.2831855, 1.5707964]), exact=False, atol=1e-6)
    op("cos", lax.cos, arr("f32", [100.0, 1000.0, 1e5, -12345.678, 3.1415927, 6.2831855, 1.5707964]), exact=False, atol=1e-6)
    op("exp", lax.exp, arr("f32", [88.0, 88.7, 88.8, 89.0, -87.0, 1e-10]), exact=False)
    op("exp", lax.exp, arr("f16", [11.0, 11.125, -9.0]), exact=False)
    op("erf_inv", lax.erf_inv, arr("f32", [-1.0, -0.999, -0.5, -0.0, 0.0, 1e-3, 0.25, 0.9, 0.99999, 1.0]), exact=False)
    op("round", jnp.round, arr("f32", [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 8388607.5, 1e10]))
    op("logaddexp", jnp.logaddexp, arr("f32", [0.0, 100.0, -INF, -INF, INF, 1.0]), arr("f32", [0.0, -100.0, -INF, 2.0, INF, NAN]),
       exact=False)
    # jnp names promote integers to float
    for name, fn in {"exp": jnp.exp, "sqrt": jnp.sqrt, "sin": jnp.sin, "log": jnp.log, "tanh": jnp.tanh}.items():
        op(name, fn, arr("i32", [0, 1, 2, 10]), exact=False)
    op("true_divide", jnp.true_divide, arr("i32", [1, -7, 5, 0]), arr("i32", [2, 2, 0, 0]))
    op("true_divide", jnp.true_divide, arr("f32", [1.0, -7.0, 5.0, 0.0]), arr("f32", [3.0, 2.0, 0.0, 0.0]))
    op("maximum", jnp.maximum, arr("f32", [[1.0], [NAN], [3.0]]), arr("f32", [2.0, 0.5, NAN]))
    op("power", jnp.power, arr("i32", [2, -3, 5, 0, 7]), arr("i32", [10, 3, 0, 0, 11]))
    op("float_power", jnp.power, arr("f32", [2.0, 9.0]), arr("i32", [3, -1]), exact=False)


def integers():
    for dtype in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"):
        info = np.iinfo(DTYPES[dtype])
        bits = info.bits
        low = -1 if info.min else info.max
        x = arr(dtype, [5, 0, info.min, info.max, 7, info.max if not info.min else -7, 7, info.max, info.min, 100])
        y = arr(dtype, [0, 0, low, 1, 2, 2, 2 if not info.min else -2, 2, 1, 7])
        for name, fn in {"add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "maximum": lax.max, "minimum": lax.min,
                         "floor_divide": jnp.floor_divide, "remainder": jnp.remainder, "bitwise_and": lax.bitwise_and,
                         "bitwise_or": lax.bitwise_or, "bitwise_xor": lax.bitwise_xor,
                         "eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}.items():
            op(name, fn, x, y)
        for name, fn in {"neg": lax.neg, "abs": lax.abs, "sign": lax.sign, "bitwise_not": lax.bitwise_not, "square": lax.square,
                         "population_count": lax.population_count, "clz": lax.clz}.items():
            if name == "abs" and not info.min:
                continue
            op(name, fn, x)
        for power in (0, 1, 2, 5):
            op("integer_pow", lambda a, p=power: lax.integer_pow(a, p), arr(dtype, [0, 1, 2, 3, info.max, info.min]), y=power)
        value = arr(dtype, [1, 1, 1, 1, info.max, info.min, info.max, info.min, 5, info.min])
        shift = arr(dtype, [0, 1, bits - 1, bits, 1, 1, bits, bits, bits + 1, bits - 1])
        if info.min:
            value, shift = np.append(value, arr(dtype, [1, -1])), np.append(shift, arr(dtype, [-1, -1]))
        for name, fn in {"shift_left": lax.shift_left, "shift_right_logical": lax.shift_right_logical,
                         "shift_right_arithmetic": lax.shift_right_arithmetic}.items():
            op(name, fn, value, shift)
    op("shift_left", lax.shift_left, arr("i32", [1, 1]), arr("i32", [40, 31]))
    for name, fn in {"bitwise_and": lax.bitwise_and, "bitwise_or": lax.bitwise_or, "bitwise_xor": lax.bitwise_xor, "eq": lax.eq,
                     "ne": lax.ne, "maximum": lax.max, "minimum": lax.min, "lt": lax.lt, "add": jnp.add, "mul": jnp.multiply}.items():
        op(name, fn, arr("bool", [0, 0, 1, 1]), arr("bool", [0, 1, 0, 1]))
    op("bitwise_not", lax.bitwise_not, arr("bool", [0, 1]))
    for name, fn in {"logical_and": jnp.logical_and, "logical_or": jnp.logical_or, "logical_xor": jnp.logical_xor}.items():
        op(name, fn, arr("f32", [0.0, -0.0, NAN, 2.0]), arr("i32", [1, 1, 1, 0]))
    op("logical_not", jnp.logical_not, arr("f32", [0.0, -0.0, NAN, 2.0]))


def conversions():
    floats = [0.0, -0.0, 0.5, -0.5, 0.99, 1.5, 2.9, -2.9, 127.5, 128.0, -128.9, -129.5, 255.5, 256.0, 300.0, 32768.0, -40000.0, 70000.0,
              2147483520.0, 2147483648.0, 3e10, -3e10, 1e19, -1e19, 2e19, INF, -INF, NAN]
    for source in ("f32", "f64", "f16", "bf16"):
        for target in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"):
            data = [v for v in floats if source != "f16" or abs(v) < 65504 or not abs(v) < INF]
            op("convert_element_type", lambda x, t=target: lax.convert_element_type(x, DTYPES[t]), arr(source, data), dtype=target)
    whole = [0, 1, -1, 127, 128, 255, 256, -129, 32767, 65536, 16777217, -16777219, 2147483647, -2147483648]
    for source in ("i32", "i64", "i8", "u8", "u32", "u64"):
        info = np.iinfo(DTYPES[source])
        data = [v for v in whole if info.min <= v <= info.max] + [info.max, info.min]
        for target in DTYPES:
            if target != source and target[0] != "c":
                op("convert_element_type", lambda x, t=target: lax.convert_element_type(x, DTYPES[t]), arr(source, data), dtype=target)
    reals = [0.0, -0.0, 0.1, 1 / 3, 1.0009765625, 1.00048828125, 1.00146484375, 65504.0, 65519.0, 65520.0, 1e5, -1e5, 6.1e-5, 6e-8, 2.9e-8,
             1.00390625, 1.01171875, 3.4e38, INF, -INF, NAN]
    for source in TOLERANCE:
        for target in TOLERANCE:
            if source != target:
                op("convert_element_type", lambda x, t=target: lax.convert_element_type(x, DTYPES[t]), arr(source, reals), dtype=target)
    op("convert_element_type", lambda x: lax.convert_element_type(x, np.float32), arr("f64", [1e300, 16777217.0, 0.1, 1 + 2**-24]), dtype="f32")
    for target in ("i32", "f32", "f16", "bf16", "u8"):
        op("convert_element_type", lambda x, t=target: lax.convert_element_type(x, DTYPES[t]), arr("bool", [0, 1]), dtype=target)
    op("bitcast_convert_type", lambda x: lax.bitcast_convert_type(x, np.uint32), arr("f32", [1.0, -0.0, INF]), dtype="u32")
    op("bitcast_convert_type", lambda x: lax.bitcast_convert_type(x, np.float32), arr("u32", [0x3F800000, 0x80000000, 0x7F800000]), dtype="f32")


def choosing():
    p = arr("bool", [1, 0, 1, 0])
    for dtype in ("f32", "i32", "bf16", "bool", "f64"):
        op("select", lax.select, p, eighths(dtype, (4,), 1, 0, 1 if dtype == "bool" else 9), eighths(dtype, (4,), 2, 0, 1 if dtype == "bool" else 9))
    op("where", jnp.where, arr("bool", [[1], [0]]), arr("f32", [1.0, 2.0, 3.0]), arr("f32", 9.0))
    op("where", jnp.where, arr("bool", [1, 0]), arr("i32", [1, 2]), arr("f32", [0.5, NAN]))
    op("clamp", lax.clamp, arr("f32", -1.0), arr("f32", [-2.0, -1.0, 0.5, 1.0, 3.0, INF, -INF, NAN]), arr("f32", 1.0))
    op("clamp", lax.clamp, arr("f32", [1.0, -1.0, NAN, 0.0]), arr("f32", [0.0, 0.0, 0.0, 5.0]), arr("f32", [-1.0, 1.0, 1.0, NAN]))
    op("clamp", lax.clamp, arr("i32", 0), arr("i32", [-5, 3, 12]), arr("i32", 10))
    op("clip", jnp.clip, arr("f32", [-2.0, 0.5, 3.0, NAN]), arr("f32", 0.0), arr("f32", 1.0))


def reductions():
    grid = eighths("f32", (2, 3, 4), 3)
    for axis in (None, 0, 1, 2, -1, (0, 1), (0, 2), (0, 1, 2)):
        for name, fn in {"sum": jnp.sum, "max": jnp.max, "min": jnp.min, "prod": jnp.prod}.items():
            op(name, lambda x, fn=fn, a=axis: fn(x, axis=a), grid, axis="all" if axis is None else axis, exact=name != "prod")
    op("sum", lambda x: jnp.sum(x, axis=1, keepdims=True), grid, axis=1, keepdims=True)
    op("max", lambda x: jnp.max(x, axis=(0, 2), keepdims=True), grid, axis=(0, 2), keepdims=True)
    nans = arr("f32", [[1.0, NAN, 3.0], [-0.0, 0.0, -1.0], [INF, -INF, 2.0]])
    for name in ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all"):
        op(name, lambda x, n=name: getattr(jnp, n)(x, axis=1), nans, axis=1)
    for dtype in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool", "f16", "bf16", "f64"):
        data = eighths(dtype, (3, 5), 4, 0 if dtype[0] in "ub" else -8, 1 if dtype == "bool" else 8)
        for name in ("sum", "prod", "max", "min", "any", "all", "mean"):
            op(name, lambda x, n=name: getattr(jnp, n)(x, axis=0), data, axis=0, exact=name not in ("prod", "mean") or dtype not in TOLERANCE)
        if dtype[-2:] != "64":
            op("argmax", lambda x: jnp.argmax(x, axis=1), data, axis=1)
            op("argmin", lambda x: jnp.argmin(x, axis=1), data, axis=1)
    op("sum", jnp.sum, arr("i32", [2147483647, 1]), axis="all")
    op("sum", jnp.sum, arr("u8", [200, 100, 255]), axis="all")
    op("sum", jnp.sum, arr("i8", [127, 127, 127]), axis="all")
    op("sum", jnp.sum, arr("bf16", [256.0] + [1.0] * 15), axis="all")
    op("sum", jnp.sum, arr("f16", [2048.0] + [1.0] * 15), axis="all")
    op("sum", lambda x: jnp.sum(x, axis=1), np.zeros((3, 0), np.float32), axis=1)
    op("prod", lambda x: jnp.prod(x, axis=1), np.zeros((2, 0), np.float32), axis=1)
    op("any", lambda x: jnp.any(x, axis=1), np.zeros((2, 0), bool), axis=1)
    op("all", lambda x: jnp.all(x, axis=1), np.zeros((2, 0), bool), axis=1)
    op("mean", lambda x: jnp.mean(x, axis=1), np.zeros((2, 0), np.float32), axis=1)
    ties = arr("i32", [[3, 1, 3, 1], [2, 2, 2, 2], [0, 5, 5, 0]])
    for axis in (None, 0, 1):
        for name in ("argmax", "argmin"):
            op(name, lambda x, n=name, a=axis: getattr(jnp, n)(x, axis=a), ties, axis="all" if axis is None else axis)
    op("argmax", jnp.argmax, arr("f32", [1.0, NAN, INF, NAN]), axis="all")
    op("argmin", jnp.argmin, arr("f32", [1.0, NAN, -INF, NAN]), axis="all")
    op("argmax", jnp.argmax, arr("f32", [-0.0, 0.0, -0.0]), axis="all")
    op("argmin", jnp.argmin, arr("f32", [0.0, -0.0, 0.0]), axis="all")
    op("argmax", jnp.argmax, arr("bool", [0, 1, 1]), axis="all")
    smooth = np.linspace(-2, 3, 24).astype(np.float32).reshape(2, 3, 4) ** 2
    for axis in (None, 0, (1, 2)):
        label = "all" if axis is None else axis
        op("mean", lambda x, a=axis: jnp.mean(x, axis=a), smooth, axis=label, exact=False)
        for ddof in (0, 1):
            op("var", lambda x, a=axis, d=ddof: jnp.var(x, axis=a, ddof=d), smooth, axis=label, ddof=ddof, exact=False)
            op("std", lambda x, a=axis, d=ddof: jnp.std(x, axis=a, ddof=d), smooth, axis=label, ddof=ddof, exact=False)
    op("mean", jnp.mean, arr("i32", [1, 2, 4]), axis="all", exact=False)
    op("var", jnp.var, arr("i32", [1, 2, 4]), axis="all", exact=False)
    op("norm", jnp.linalg.norm, smooth.reshape(6, 4), axis="all", exact=False)
    hard = arr("f32", [[1.0, 2.0, 3.0, -1.0], [1000.0, 1000.0, -1000.0, 0.0], [-INF, 0.0, 1.0, -INF], [-50.0, -51.0, -52.0, -100.0]])
    for axis in (-1, 0):
        for name, fn in {"softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax, "logsumexp": jax.nn.logsumexp}.items():
            op(name, lambda x, fn=fn, a=axis: fn(x, axis=a), hard, axis=axis, exact=False)
    for dtype in ("f16", "bf16", "f64"):
        for name, fn in {"softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax, "logsumexp": jax.nn.logsumexp}.items():
            op(name, lambda x, fn=fn: fn(x, axis=-1), eighths(dtype, (2, 5), 8), axis=-1, exact=False)
    op("logsumexp", jax.nn.logsumexp, arr("f32", [-INF, -INF]), axis="all", exact=False)
    op("logsumexp", jax.nn.logsumexp, arr("f32", [INF, 1.0]), axis="all", exact=False)
    op("logsumexp", jax.nn.logsumexp, arr("f32", [[1.0, 2.0], [3.0, 1000.0]]), axis="all", exact=False)
    for dtype in ("f32", "i32", "bf16"):
        op("one_hot", lambda x, d=dtype: jax.nn.one_hot(x, 4, dtype=DTYPES[d]), arr("i32", [0, 3, 1, 4, -1]), num_classes=4, dtype=dtype)
    op("one_hot", lambda x: jax.nn.one_hot(x, 3, axis=-2), arr("i32", [[0, 2], [1, 1]]), num_classes=3, axis=-2, dtype="f32")
    op("one_hot", lambda x: jax.nn.one_hot(x, 3, axis=0), arr("i32", [[0, 2], [1, 1]]), num_classes=3, axis=0, dtype="f32")
    op("cumsum", lambda x: jnp.cumsum(x, axis=0), grid[0], axis=0)
    op("cumsum", lambda x: jnp.cumsum(x, axis=1), grid[0], axis=1)
    op("cumsum", jnp.cumsum, grid[0], axis="all")
    op("cumsum", lambda x: lax.cumsum(x, axis=1, reverse=True), grid[0], axis=1, reverse=True)
    op("cumsum", jnp.cumsum, arr("i32", [2147483647, 1, -3]), axis="all")
    op("cumsum", jnp.cumsum, arr("bool", [1, 1, 0, 1]), axis="all")
    op("cumsum", jnp.cumsum, arr("i8", [100, 100, 100]), axis="all")
    op("cumprod", lambda x: jnp.cumprod(x, axis=1), arr("i32", [[1, 2, 3], [4, 5, 0]]), axis=1)
    op("cummax", lambda x: lax.cummax(x, axis=1), grid[0], axis=1)
    op("cummin", lambda x: lax.cummin(x, axis=1), grid[0], axis=1)
    op("cumlogsumexp", lambda x: lax.cumlogsumexp(x, axis=1), grid[0], axis=1, exact=False)
    ties = arr("f32", [[1, 3, 3, 2, 3, 4, 4], [2, 2, 2, 2, 2, 2, 2], [3, NAN, 1, NAN, 2, 2, 5], [-0.0, 0.0, -0.0, 0.0, 1, 1, 0], [5, 4, 5, 4, 5, 4, 5]])
    for width in (1, 2, 3, 6, 7):
        for name, fn in {"cummax": lax.cummax, "cummin": lax.cummin}.items():
            vjp(name, lambda x, fn=fn: fn(x, axis=1), ties[:, :width], axis=1)


def products():
    def dot_general(lhs, rhs, lc, rc, lb=(), rb=(), preferred=None):
        op("dot_general", lambda a, b: lax.dot_general(a, b, ((lc, rc), (lb, rb)), preferred_element_type=preferred and DTYPES[preferred]),
           lhs, rhs, lhs_contracting=lc, rhs_contracting=rc, lhs_batch=lb, rhs_batch=rb, preferred_element_type=preferred)

    for dtype in ("f32", "f64", "f16", "bf16", "i32", "i8", "u8"):
        low, high = (0, 2) if dtype == "u8" else (-2, 2)
        dot_general(eighths(dtype, (3, 4), 1, low, high), eighths(dtype, (4, 2), 2, low, high), (1,), (0,))
        dot_general(eighths(dtype, (2, 3, 4), 3, low, high), eighths(dtype, (2, 4, 5), 4, low, high), (2,), (1,), (0,), (0,))
    f = lambda shape, seed: eighths("f32", shape, seed)  # noqa: E731
    dot_general(f((4,), 1), f((4,), 2), (0,), (0,))
    dot_general(f((2, 3), 1), f((4, 3), 2), (1,), (1,))
    dot_general(f((3, 2), 1), f((3, 4), 2), (0,), (0,))
    dot_general(f((2, 3, 4), 1), f((4, 3, 5), 2), (1, 2), (1, 0))
    dot_general(f((2, 3, 4), 1), f((3, 4, 2), 2), (2,), (1,), (0, 1), (2, 0))
    dot_general(f((4, 2, 3), 1), f((3, 5, 4), 2), (2,), (0,), (0,), (2,))
    dot_general(f((2,), 1), f((3,), 2), (), ())
    dot_general(f((3, 2), 1), f((3, 4), 2), (), (), (0,), (0,))
    dot_general(f((2, 0), 1), f((0, 3), 2), (1,), (0,))
    dot_general(eighths("bf16", (2, 3), 1), eighths("bf16", (3, 2), 2), (1,), (0,), preferred="f32")
    dot_general(eighths("i8", (2, 3), 1, -128, 127), eighths("i8", (3, 2), 2, -128, 127), (1,), (0,), preferred="i32")
    dot_general(arr("i32", [[2147483647, 1]]), arr("i32", [[2], [5]]), (1,), (0,))
    for left, right in (((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
                        ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((3,), (5, 3, 2)), ((5, 2, 3), (3,)), ((1, 2, 3), (5, 3, 2))):
        op("matmul", jnp.matmul, f(left, 5), f(right, 6))
        op("dot", jnp.dot, f(left, 5), f(right if len(right) < 2 or right[-2] == left[-1] else left, 6))
        vjp("matmul", jnp.matmul, f(left, 5), f(right, 6))
    op("dot", jnp.dot, arr("f32", 2.0), f((2, 2), 1))
    op("matmul", jnp.matmul, arr("i32", [[1, 2], [3, 4]]), arr("f32", [[0.5], [2.0]]))
    op("outer", jnp.outer, f((3,), 1), f((2,), 2))
    op("vdot", jnp.vdot, f((2, 3), 1), f((2, 3), 2))
    op("tensordot", lambda a, b: jnp.tensordot(a, b, 2), f((2, 3, 4), 1), f((3, 4, 2), 2), axes=2)
    op("einsum", lambda a, b: jnp.einsum("bij,bjk->bik", a, b), f((2, 3, 4), 1), f((2, 4, 2), 2), subscripts="bij,bjk->bik")
    for shape_l, shape_r, lc, rc, lb, rb in (((3, 4), (4, 2), (1,), (0,), (), ()), ((2, 3, 4), (2, 4, 5), (2,), (1,), (0,), (0,)),
                                             ((4, 2, 3), (3, 5, 4), (2,), (0,), (0,), (2,)), ((2, 3, 4), (4, 3, 5), (1, 2), (1, 0), (), ())):
        vjp("dot_general", lambda a, b: lax.dot_general(a, b, ((lc, rc), (lb, rb))), f(shape_l, 7), f(shape_r, 8),
            lhs_contracting=lc, rhs_contracting=rc, lhs_batch=lb, rhs_batch=rb)


def convolutions():
    def conv(lhs, rhs, strides, padding, lhs_dilation=None, rhs_dilation=None, layout="NHWC,HWIO,NHWC", groups=1, batch_groups=1,
             dtype="f32", gradient=True):
        spatial = len(strides)
        lhs_dilation, rhs_dilation = lhs_dilation or (1,) * spatial, rhs_dilation or (1,) * spatial
        names = tuple(layout.split(","))
        a, b = eighths(dtype, lhs, 1, -8, 8), eighths(dtype, rhs, 2, -8, 8)
        pads = padding
        if isinstance(padding, str):
            numbers = lax.conv_dimension_numbers(lhs, rhs, names)
            window = [(rhs[d] - 1) * r + 1 for d, r in zip(numbers.rhs_spec[2:], rhs_dilation)]
            pads = lax.padtype_to_pads([lhs[d] for d in numbers.lhs_spec[2:]], window, strides, padding)

        def run(x, k):
            return lax.conv_general_dilated(x, k, strides, pads, lhs_dilation, rhs_dilation, names, groups, batch_groups)

        attributes = dict(window_strides=strides, padding=[tuple(map(int, p)) for p in pads], lhs_dilation=lhs_dilation,
                          rhs_dilation=rhs_dilation, dimension_numbers=layout, feature_group_count=groups, batch_group_count=batch_groups,
                          padding_name=padding if isinstance(padding, str) else None)
        op("conv_general_dilated", run, a, b, **attributes)
        if gradient:
            vjp("conv_general_dilated", run, a, b, **attributes)

    conv((2, 5, 5, 2), (3, 3, 2, 3), (1, 1), "SAME")
    conv((2, 5, 5, 2), (3, 3, 2, 3), (1, 1), "VALID")
    conv((1, 6, 5, 2), (3, 3, 2, 2), (2, 2), "SAME")
    conv((1, 6, 7, 2), (3, 2, 2, 2), (2, 3), "VALID")
    conv((1, 7, 7, 1), (3, 3, 1, 2), (1, 1), "SAME", rhs_dilation=(2, 2))
    conv((1, 7, 6, 1), (2, 3, 1, 2), (2, 1), ((1, 2), (0, 3)), rhs_dilation=(2, 1))
    conv((1, 4, 4, 2), (3, 3, 2, 2), (1, 1), ((2, 2), (1, 2)), lhs_dilation=(2, 2))
    conv((1, 4, 3, 1), (2, 2, 1, 2), (2, 1), ((1, 1), (0, 0)), lhs_dilation=(2, 3), rhs_dilation=(1, 2))
    conv((1, 5, 5, 2), (3, 3, 2, 2), (1, 1), ((-1, 1), (0, -1)))
    conv((1, 4, 4, 4), (3, 3, 2, 6), (1, 1), "SAME", groups=2)
    conv((1, 5, 5, 4), (3, 3, 1, 4), (2, 2), "SAME", groups=4)
    conv((1, 5, 5, 3), (3, 3, 1, 6), (1, 1), "VALID", groups=3)
    conv((4, 4, 4, 2), (3, 3, 2, 4), (1, 1), "SAME", batch_groups=2)
    conv((2, 1, 1, 3), (1, 1, 3, 4), (1, 1), "VALID")
    conv((1, 5, 5, 1), (1, 1, 1, 2), (2, 2), "VALID")
    conv((1, 2, 2, 1), (3, 3, 1, 1), (1, 1), "SAME")
    conv((2, 2, 5, 6), (3, 2, 3, 3), (1, 1), "SAME", layout="NCHW,OIHW,NCHW")
    conv((1, 4, 6, 5), (4, 2, 3, 2), (2, 1), ((1, 0), (0, 1)), layout="NCHW,OIHW,NCHW", groups=2)
    conv((1, 2, 6, 6), (3, 2, 2, 2), (1, 2), "VALID", rhs_dilation=(2, 2), layout="NCHW,OIHW,NCHW")
    conv((1, 3, 4, 4), (3, 3, 3, 2), (1, 1), "SAME", layout="NCHW,HWIO,NHWC")
    conv((2, 7, 2), (3, 2, 3), (2,), ((1, 1),), layout="NWC,WIO,NWC")
    conv((2, 2, 7), (3, 2, 3), (1,), "SAME", layout="NCW,OIW,NCW")
    conv((1, 3, 4, 4, 2), (2, 2, 2, 2, 2), (1, 2, 1), "SAME", layout="NDHWC,DHWIO,NDHWC")
    conv((2, 3), (3, 4), (), (), layout="NC,IO,NC")
    for dtype in ("f64", "bf16", "f16"):
        conv((1, 4, 4, 2), (3, 3, 2, 2), (1, 1), "SAME", dtype=dtype, gradient=dtype == "f64")
    conv((1, 4, 4, 2), (3, 3, 2, 2), (1, 1), "SAME", dtype="i32", gradient=False)
    # data format and kernel sizes of the small CNN, at reduced extent
    conv((2, 8, 8, 1), (3, 3, 1, 4), (1, 1), "SAME")
    conv((2, 4, 4, 4), (3, 3, 4, 6), (1, 1), "SAME")


def windows():
    inits = {"max": (lax.max, -INF), "add": (lax.add, 0.0), "min": (lax.min, INF)}

    def window(x, computation, dims, strides, padding, base=None, dilation=None, gradient=True):
        rank = len(dims)
        base, dilation = base or (1,) * rank, dilation or (1,) * rank
        pads = padding
        if isinstance(padding, str):
            pads = lax.padtype_to_pads(x.shape, [(d - 1) * w + 1 for d, w in zip(dims, dilation)], strides, padding)
        pads = [tuple(map(int, p)) for p in pads]
        fn, init = inits[computation]
        if x.dtype == np.int32:
            init = {"max": np.iinfo(np.int32).min, "add": 0, "min": np.iinfo(np.int32).max}[computation]
        init = np.asarray(init, x.dtype)

        def run(a):
            return lax.reduce_window(a, init, fn, dims, strides, pads, base, dilation)

        attributes = dict(computation=computation, window_dimensions=dims, window_strides=strides, padding=pads, base_dilation=base,
                          window_dilation=dilation, padding_name=padding if isinstance(padding, str) else None)
        op("reduce_window", run, x, **attributes)
        if gradient and base == (1,) * rank and x.dtype != np.int32:
            vjp("reduce_window", run, x, **attributes)

    image = eighths("f32", (1, 6, 6, 2), 11, -40, 40)
    ties = arr("f32", [1, 1, 2, 2, 1, 1, 2, 2, 0, 3, 3, 0, 3, 3, 0, 0], (1, 4, 4, 1))
    for computation in inits:
        window(image, computation, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        window(image, computation, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        window(image, computation, (1, 3, 2, 1), (1, 1, 1, 1), "VALID")
        window(ties, computation, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        window(ties, computation, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
        window(eighths("f32", (7,), 12), computation, (3,), (2,), ((1, 1),))
        window(eighths("f32", (7,), 12), computation, (2,), (1,), ((0, 0),), dilation=(3,), gradient=computation == "add")
        window(eighths("f32", (4,), 12), computation, (2,), (1,), ((1, 0),), base=(2,), gradient=False)
        window(eighths("i32", (3, 4), 13), computation, (2, 2), (1, 2), ((0, 0), (0, 0)))
    window(eighths("f32", (2, 2, 4, 4), 14), "max", (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    window(eighths("bf16", (1, 4, 4, 1), 15), "max", (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    window(arr("f32", [[1.0, NAN, 2.0, 3.0]]), "max", (1, 2), (1, 1), "VALID", gradient=False)

    pairs = arr("c64", [1 + 2j, 1 - 3j, -2 + 5j, complex(NAN, 1), 3, 3 + 1j, -INF, 2])
    for computation in inits:
        window(eighths("c64", (5, 6), 16), computation, (3, 2), (2, 1), "SAME", gradient=computation == "add")
        window(eighths("c128", (4,), 17), computation, (2,), (1,), ((1, 0),), base=(2,), gradient=False)
        window(pairs, computation, (2,), (1,), ((1, 1),), gradient=False)

    # flax names, on NHWC; average pooling divides by the whole window (count_include_pad)
    def max_pool(x, dims, strides, padding):
        return lax.reduce_window(x, -INF, lax.max, (1, *dims, 1), (1, *strides, 1), padding)

    def avg_pool(x, dims, strides, padding):
        return lax.reduce_window(x, 0.0, lax.add, (1, *dims, 1), (1, *strides, 1), padding) / np.prod(dims)

    for name, fn in {"max_pool": max_pool, "avg_pool": avg_pool}.items():
        for x, dims, strides, padding in ((image, (2, 2), (2, 2), "VALID"), (image, (3, 3), (2, 2), "SAME"), (ties, (2, 2), (2, 2), "VALID"),
                                          (image, (2, 2), (1, 1), "SAME"), (image[:, :5], (2, 3), (2, 2), "VALID")):
            inexact = name == "avg_pool" and np.prod(dims) % 2 == 1 or dims == (2, 3)
            attributes = dict(window_shape=dims, strides=strides, padding_name=padding, exact=not inexact)
            op(name, lambda a: fn(a, dims, strides, padding), x, **attributes)
            vjp(name, lambda a: fn(a, dims, strides, padding), x, **attributes)


def shapes():
    m = eighths("f32", (3, 4), 21)
    for config in (((1, 2, 0), (0, 1, 0)), ((0, 0, 2), (1, 0, 1)), ((-1, 1, 0), (0, -2, 0)), ((-1, -1, 2), (2, -3, 1)), ((0, 0, 0), (0, 0, 0)),
                   ((-2, -1, 0), (0, 0, 0)), ((-3, 4, 1), (1, -1, 0))):
        op("pad", lambda x, v: lax.pad(x, v, config), m, arr("f32", 9.5), padding_config=config)
        vjp("pad", lambda x, v: lax.pad(x, v, config), m, arr("f32", 9.5), padding_config=config)
    op("pad", lambda x, v: lax.pad(x, v, ((1, 1, 1),)), arr("i32", [1, 2, 3]), arr("i32", -7), padding_config=((1, 1, 1),))
    op("slice", lambda x: lax.slice(x, (0, 1), (3, 4), (2, 1)), m, start_indices=(0, 1), limit_indices=(3, 4), strides=(2, 1))
    vjp("slice", lambda x: lax.slice(x, (0, 1), (3, 4), (2, 2)), m, start_indices=(0, 1), limit_indices=(3, 4), strides=(2, 2))
    for start in ((0, 0), (1, 2), (5, 5), (-1, -1), (-9, 1), (2147483647, 0)):
        index = [arr("i32", s) for s in start]
        op("dynamic_slice", lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)), m, *index, slice_sizes=(2, 3))
        vjp("dynamic_slice", lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)), m, *index, slice_sizes=(2, 3), argnums=(0,))
        u = eighths("f32", (2, 2), 22)
        op("dynamic_update_slice", lambda x, y, i, j: lax.dynamic_update_slice(x, y, (i, j)), m, u, *index)
        vjp("dynamic_update_slice", lambda x, y, i, j: lax.dynamic_update_slice(x, y, (i, j)), m, u, *index, argnums=(0, 1))
    op("concatenate", lambda *x: lax.concatenate(x, 0), m, m[:1], m[:2] * 2, dimension=0)
    op("concatenate", lambda *x: lax.concatenate(x, 1), m, m[:, :1], np.zeros((3, 0), np.float32), dimension=1)
    op("concatenate", lambda *x: jnp.concatenate(x, 0), arr("i32", [1, 2]), arr("f32", [0.5]), dimension=0)
    vjp("concatenate", lambda *x: lax.concatenate(x, 1), m, m[:, :1], dimension=1)
    op("stack", lambda *x: jnp.stack(x, 0), m[0], m[1], axis=0)
    op("stack", lambda *x: jnp.stack(x, -1), m[0], m[1], axis=-1)
    for dtype, shape, dimension in (("i32", (5,), 0), ("f32", (2, 3), 1), ("u8", (2, 3), 0), ("bf16", (300,), 0), ("f64", (3,), 0)):
        op("iota", lambda: lax.broadcasted_iota(DTYPES[dtype], shape, dimension), dtype=dtype, shape=shape, dimension=dimension)
    op("linspace", lambda: jnp.linspace(0.0, 1.0, 7), start=0.0, stop=1.0, num=7, exact=False)
    op("linspace", lambda: jnp.linspace(-2.0, 3.0, 4, endpoint=False), start=-2.0, stop=3.0, num=4, endpoint=False, exact=False)
    op("arange", lambda: jnp.arange(2.0, 5.0, 0.75), start=2.0, stop=5.0, step=0.75)
    op("eye", lambda: jnp.eye(3, 4, 1), N=3, M=4, k=1)
    op("eye", lambda: jnp.eye(4, 2, -2), N=4, M=2, k=-2)
    op("eye", lambda: jnp.eye(3, 3, 7), N=3, k=7)
    op("tril", lambda x: jnp.tril(x, -1), m, k=-1)
    op("triu", lambda x: jnp.triu(x, 1), m, k=1)
    cube = eighths("f32", (2, 3, 4), 23)
    for dims in ((0,), (1,), (0, 2)):
        op("rev", lambda x: lax.rev(x, dims), cube, dimensions=dims)
    for perm in ((2, 0, 1), (0, 2, 1), (1, 0, 2)):
        op("transpose", lambda x: lax.transpose(x, perm), cube, permutation=perm)
    op("reshape", lambda x: jnp.reshape(x, (4, -1)), cube, shape=(4, -1))
    op("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 2), (1,)), arr("f32", [1.0, 2.0, 3.0]), shape=(2, 3, 2), broadcast_dimensions=(1,))
    op("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3), (0, 1)), arr("f32", [[1.0], [2.0]]), shape=(2, 3), broadcast_dimensions=(0, 1))
    op("broadcast_to", lambda x: jnp.broadcast_to(x, (2, 2, 3)), arr("i32", [[1], [2]]), shape=(2, 2, 3))
    op("roll", lambda x: jnp.roll(x, 2), m, shift=2, axis="all")
    op("roll", lambda x: jnp.roll(x, -1, 1), m, shift=-1, axis=1)
    op("tile", lambda x: jnp.tile(x, (2, 1)), m[:1], reps=(2, 1))
    op("repeat", lambda x: jnp.repeat(x, 2, 1), m[:2, :2], repeats=2, axis=1)
    op("squeeze", lambda x: jnp.squeeze(x), m[:1, :, None], axis="all")
    for dtype in ("f32", "i32", "u8", "bf16"):
        data = arr("f32", [3.0, NAN, -1.0, INF, 0.0, -0.0, 3.0, -INF]) if dtype == "f32" else eighths(dtype, (8,), 31, 0, 20)
        op("sort", jnp.sort, data, axis=-1)
        op("argsort", jnp.argsort, data, axis=-1)
    op("sort", lambda x: jnp.sort(x, axis=0), m, axis=0)


def indexing():
    m = eighths("f32", (4, 3), 41)
    inside, outside = arr("i32", [2, 0, 0, 3]), arr("i32", [-1, 4, -5, 100, 1])
    for mode in ("fill", "clip", "wrap"):
        op("take", lambda x, i: jnp.take(x, i, axis=0, mode=mode), m, outside, axis=0, mode=mode)
        op("take", lambda x, i: jnp.take(x, i, axis=1, mode=mode), m, arr("i8", [[-7, 5], [3, -1]]), axis=1, mode=mode)
        vjp("take", lambda x, i: jnp.take(x, i, axis=0, mode=mode), m, outside, axis=0, mode=mode, argnums=(0,))
    op("take", lambda x, i: jnp.take(x, i, axis=0), m, outside, axis=0)
    op("take", lambda x, i: jnp.take(x, i, axis=1), m, arr("i32", [[2, 0], [1, 1]]), axis=1)
    op("take", lambda x, i: jnp.take(x, i), m, arr("i32", [11, 0, -1, 12]), axis="all")
    op("take", lambda x, i: jnp.take(x, i, axis=0), arr("i32", [10, 20, 30]), arr("i32", [0, 5, -1]), axis=0)
    vjp("take", lambda x, i: jnp.take(x, i, axis=0), m, inside, axis=0, argnums=(0,))
    op("index", lambda x, i: x[i], m, inside)
    op("index", lambda x, i: x[i], m, outside)
    op("index", lambda x, i, j: x[i, j], m, arr("i32", [0, -1, 3]), arr("i32", [2, 1, 7]))
    op("index", lambda x, i: x[i], m, arr("i32", 9))
    vjp("index", lambda x, i: x[i], m, outside, argnums=(0,))
    op("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), m, arr("i32", [[0], [2], [1], [-1]]), axis=1)
    op("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 0), m, arr("i32", [[0, 3, 1], [2, 2, -4]]), axis=0)
    op("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), m, arr("i32", [[0], [3], [-4], [-1]]), axis=1)
    vjp("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), m, arr("i32", [[0, 0], [2, 1], [1, 1], [2, 0]]), axis=1, argnums=(0,))

    def gather(x, indices, numbers, sizes, mode):
        spec = lax.GatherDimensionNumbers(**numbers)
        op("gather", lambda a, i: lax.gather(a, i, spec, sizes, mode=mode), x, indices, **numbers, slice_sizes=sizes, mode=mode)

    rows = dict(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    for mode in ("clip", "fill", "promise_in_bounds"):
        gather(m, arr("i32", [[2], [0], [3]] if mode[0] == "p" else [[2], [-1], [4], [100]]), rows, (1, 3), mode)
    gather(m, arr("i32", [[0, 1], [2, 2], [3, 0]]), dict(offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(0, 1)), (1, 1), "clip")
    gather(m, arr("i32", [[0, 1], [3, 2]]), dict(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1)), (2, 2), "clip")
    gather(m, arr("i32", [[0, 1], [3, 2]]), dict(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1)), (2, 2), "fill")
    gather(m, arr("i32", [[[1], [0]], [[2], [3]]]), dict(offset_dims=(0,), collapsed_slice_dims=(0,), start_index_map=(0,)), (1, 2), "clip")
    gather(eighths("f32", (2, 4), 3), arr("i32", [[[1], [0]], [[2], [3]]]), dict(offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,),
           operand_batching_dims=(0,), start_indices_batching_dims=(0,)), (1, 1), "clip")

    def scatter(name, fn, x, indices, updates, numbers, mode):
        spec = lax.ScatterDimensionNumbers(**numbers)
        op(name, lambda a, i, u: fn(a, i, u, spec, mode=mode), x, indices, updates, **numbers, mode=mode)

    into_rows = dict(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    u = eighths("f32", (4, 3), 42)
    for name, fn in {"scatter_add": lax.scatter_add, "scatter_mul": lax.scatter_mul, "scatter_min": lax.scatter_min,
                     "scatter_max": lax.scatter_max}.items():
        scatter(name, fn, m, arr("i32", [[2], [0], [2], [3]]), u, into_rows, "fill")
    scatter("scatter_add", lax.scatter_add, m, arr("i32", [[2], [-1], [4], [2]]), u, into_rows, "fill")
    scatter("scatter_add", lax.scatter_add, m, arr("i32", [[2], [-1], [4], [2]]), u, into_rows, "clip")
    scatter("scatter", lax.scatter, m, arr("i32", [[2], [0], [1], [100]]), u, into_rows, "fill")
    scatter("scatter_add", lax.scatter_add, m, arr("i32", [[0, 1], [3, 2], [0, 1]]), u[:3, 0],
            dict(update_window_dims=(), inserted_window_dims=(0, 1), scatter_dims_to_operand_dims=(0, 1)), "fill")
    scatter("scatter_add", lax.scatter_add, m, arr("i32", [[0, 1], [3, 2]]), u[:4, :2].reshape(2, 2, 2),
            dict(update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0, 1)), "fill")
    for name in ("set", "add", "multiply", "min", "max"):
        index = inside if name != "set" else arr("i32", [2, 0, -1, 7])
        op(f"at_{name}", lambda x, i, v, n=name: getattr(x.at[i], n)(v), m, index, u)
    op("at_add", lambda x, i, v: x.at[i].add(v), arr("i32", [0, 0, 0]), arr("i32", [1, 1, -1, 3, 1]), arr("i32", 5))
    op("searchsorted", jnp.searchsorted, arr("f32", [1.0, 2.0, 2.0, 5.0]), arr("f32", [0.0, 2.0, 3.0, 9.0, NAN]))
    op("bincount", lambda x: jnp.bincount(x, length=4), arr("i32", [0, 2, 2, 3, 9]), length=4)


def gradients():
    """Gradients at the corners: ties, kinks, zeros."""
    ones = lambda shape: np.ones(shape, np.float32)  # noqa: E731
    x, y = arr("f32", [1.0, 2.0, 2.0, -0.0, NAN]), arr("f32", [2.0, 1.0, 2.0, 0.0, 1.0])
    vjp("maximum", lax.max, x, y, cotangent=ones(5))
    vjp("minimum", lax.min, x, y, cotangent=ones(5))
    vjp("div", lax.div, arr("f32", [1.0, 3.0, 0.0]), arr("f32", [2.0, -4.0, 8.0]))
    vjp("rem", lax.rem, arr("f32", [5.5, -5.5]), arr("f32", [2.0, 2.0]))
    vjp("clamp", lax.clamp, arr("f32", [-1.0] * 5), arr("f32", [-2.0, -1.0, 0.5, 1.0, 3.0]), arr("f32", [1.0] * 5), cotangent=ones(5))
    vjp("clamp", lax.clamp, arr("f32", -1.0), arr("f32", [-2.0, -1.0, 0.5, 1.0, 3.0]), arr("f32", 1.0), argnums=(1,), cotangent=ones(5))
    vjp("pow", lax.pow, arr("f32", [0.0, 0.0, 2.0, 3.0, 0.0]), arr("f32", [2.0, 1.0, 3.0, -1.0, 0.0]), cotangent=ones(5), exact=False)
    for power in (-2, 0, 1, 2, 3):
        vjp("integer_pow", lambda a, p=power: lax.integer_pow(a, p), arr("f32", [-2.0, 0.5, 4.0]), y=power, cotangent=ones(3), exact=False)
    for name, fn in {"abs": lax.abs, "sign": lax.sign, "floor": lax.floor, "relu": jax.nn.relu, "square": lax.square, "neg": lax.neg}.items():
        vjp(name, fn, arr("f32", [-1.5, -0.0, 0.0, 2.0]), cotangent=ones(4))
    for name, fn in {"exp": lax.exp, "log": lax.log, "log1p": lax.log1p, "expm1": lax.expm1, "tanh": lax.tanh, "sigmoid": jax.nn.sigmoid,
                     "sin": lax.sin, "cos": lax.cos, "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "erf": lax.erf, "erf_inv": lax.erf_inv,
                     "softplus": jax.nn.softplus, "gelu": jax.nn.gelu, "silu": jax.nn.silu}.items():
        data = [0.0, 0.25, 0.5, 0.9] if name not in ("log", "rsqrt") else [0.25, 0.5, 0.9, 3.0]
        vjp(name, fn, arr("f32", data), cotangent=ones(4), exact=False)
        op(name, fn, arr("f32", data), exact=False)
    vjp("where", lambda c, a, b: jnp.where(c, a, b), arr("bool", [[1], [0]]), arr("f32", [1.0, 2.0]), arr("f32", 3.0), argnums=(1, 2))
    ties = arr("f32", [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    for axis in (None, 0, 1):
        label = "all" if axis is None else axis
        for name, fn in {"sum": jnp.sum, "mean": jnp.mean, "prod": jnp.prod, "max": jnp.max, "min": jnp.min}.items():
            vjp(name, lambda a, fn=fn, ax=axis: fn(a, axis=ax), ties, axis=label, exact=False)
    vjp("prod", jnp.prod, arr("f32", [2.0, 0.0, 3.0]), axis="all", cotangent=ones(()))
    vjp("prod", jnp.prod, arr("f32", [0.0, 0.0, 3.0]), axis="all", cotangent=ones(()))
    vjp("var", lambda a: jnp.var(a, axis=1), ties, axis=1, exact=False)
    vjp("std", lambda a: jnp.std(a, axis=1), ties[:1], axis=1, exact=False)
    for name, fn in {"softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax, "logsumexp": jax.nn.logsumexp}.items():
        vjp(name, lambda a, fn=fn: fn(a, axis=-1), arr("f32", [[1.0, 2.0, 3.0], [0.0, 0.0, -1.0]]), axis=-1, exact=False)
    vjp("cumsum", lambda a: jnp.cumsum(a, axis=1), ties, axis=1)
    vjp("rev", lambda a: lax.rev(a, (0,)), ties, dimensions=(0,))
    vjp("transpose", lambda a: a.T, ties, permutation=(1, 0))
    vjp("broadcast_to", lambda a: jnp.broadcast_to(a, (2, 3)), arr("f32", [[1.0], [2.0]]), shape=(2, 3))
    vjp("add", jnp.add, arr("f32", [[1.0], [2.0]]), arr("f32", [1.0, 2.0, 3.0]))
    vjp("mul", jnp.multiply, arr("f32", [[1.0], [2.0]]), arr("f32", [1.0, 2.0, 3.0]))
    vjp("convert_element_type", lambda a: a.astype(jnp.bfloat16), arr("f32", [1.1, 2.2]), dtype="bf16")
    vjp("sort", jnp.sort, arr("f32", [3.0, 1.0, 2.0]), axis=-1)
    vjp("cross_entropy", lambda z, label: -jnp.mean(jnp.sum(jax.nn.one_hot(label, 3) * jax.nn.log_softmax(z), -1)),
        arr("f32", [[1.0, 2.0, 3.0], [0.0, 0.0, -1.0]]), arr("i32", [2, 0]), argnums=(0,), cotangent=ones(()), exact=False)


def more():
    """Sorting, einsum and similar products, linear algebra, complex numbers."""
    line = arr("f32", [[3.0, 1.0, NAN, 1.0], [2.0, -1.0, 5.0, 5.0]])
    whole = arr("i32", [[3, 1, -2147483648, 1], [2, -1, 5, 5]])
    for data in (line, whole):
        for axis in (0, 1):
            op("sort_descending", lambda x, a=axis: jnp.sort(x, axis=a, descending=True), data, axis=axis)
            op("argsort_descending", lambda x, a=axis: jnp.argsort(x, axis=a, descending=True), data, axis=axis)
        op("top_k", lambda x: lax.top_k(x, 3), data, k=3)
    grid = eighths("f32", (3, 4), 5)
    for axis in (None, 0, 1):
        label = "all" if axis is None else axis
        op("median", lambda x, a=axis: jnp.median(x, axis=a), grid, axis=label)
        for q in (0.0, 0.3, 1.0, [0.25, 0.9]):
            op("quantile", lambda x, q, a=axis: jnp.quantile(x, q, axis=a), grid, arr("f32", q), axis=label, exact=False)
    op("median", lambda x: jnp.median(x, axis=1), line, axis=1)
    op("median", jnp.median, arr("i32", [3, 1, 2, 10]), axis="all")
    vjp("median", lambda x: jnp.median(x, axis=1), grid, axis=1)
    ordered = arr("f32", [-1.0, 0.0, 0.0, 2.5, INF, NAN])
    for side in ("left", "right"):
        op("searchsorted", lambda a, v, s=side: jnp.searchsorted(a, v, side=s), ordered, arr("f32", [[-2.0, 0.0, 1.0], [2.5, INF, NAN]]), side=side)
        op("searchsorted", lambda a, v, s=side: jnp.searchsorted(a, v, side=s), arr("i32", [1, 3, 3, 7]), arr("i32", [0, 3, 8]), side=side)
    for subscripts, *shapes in (("ij,jk", (2, 3), (3, 4)), ("ij,jk->ki", (2, 3), (3, 4)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("ij->j", (2, 3)),
                                ("ij->ji", (2, 3)), ("i,j->ij", (2,), (3,)), ("ij,ij->i", (2, 3), (2, 3)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
                                ("bhqd,bhkd->bhqk", (2, 2, 3, 2), (2, 2, 4, 2)), ("ij,jk,kl->il", (2, 3), (3, 2), (2, 2)),
                                ("i,i,i->i", (3,), (3,), (3,)), ("...ij,...jk->...ik", (2, 2, 3), (3, 2)), ("...i,i", (2, 3), (3,)), ("i...->...", (2, 3)),
                                ("ba", (2, 3)), ("ij,kl->", (2, 2), (2, 3)), ("iij,j->i", (2, 2, 3), (3,))):
        operands = [eighths("f32", shape, i + 7, -8, 8) for i, shape in enumerate(shapes)]
        op("einsum", lambda *x, s=subscripts: jnp.einsum(s, *x), *operands, subscripts=subscripts)
    operands = [eighths("f32", (2, 3), 1), eighths("f32", (3, 4), 2), eighths("f32", (4, 2), 3)]
    vjp("einsum", lambda *x: jnp.einsum("ij,jk,kl->il", *x), *operands, subscripts="ij,jk,kl->il")
    vjp("einsum", lambda x: jnp.einsum("ii->i", x), eighths("f32", (3, 3), 1), subscripts="ii->i")
    op("einsum", lambda a, b: jnp.einsum("ij,jk->ik", a, b), eighths("i32", (2, 3), 1), eighths("i32", (3, 2), 2), subscripts="ij,jk->ik")
    op("inner", jnp.inner, eighths("f32", (2, 3), 1), eighths("f32", (4, 3), 2))
    op("tensordot", lambda a, b: jnp.tensordot(a, b, 0), eighths("f32", (2,), 1), eighths("f32", (3,), 2), axes=0)
    op("tensordot", lambda a, b: jnp.tensordot(a, b, ((0, 1), (1, 0))), eighths("f32", (2, 3, 2), 1), eighths("f32", (3, 2, 4), 2), lhs=(0, 1), rhs=(1, 0))
    square = eighths("f32", (3, 3), 4)
    op("trace", jnp.trace, square)
    op("trace", jnp.trace, eighths("f32", (2, 3, 2), 4))
    op("trace", jnp.trace, eighths("i8", (2, 3), 4))
    for k in (-4, -1, 0, 1, 2):
        op("diag", lambda x, k=k: jnp.diag(x, k), eighths("f32", (3, 4), 4), k=k)
        op("diag", lambda x, k=k: jnp.diag(x, k), arr("f32", [1.0, 2.0]), k=k)
    vjp("diag", lambda x: jnp.diag(x, 1), square, k=1)
    for n in (0, 1, 2, 5):
        op("diff", lambda x, n=n: jnp.diff(x, n, axis=1), grid, n=n, axis=1)
    op("diff", lambda x: jnp.diff(x, axis=0), arr("bool", [[1, 0], [1, 1]]), n=1, axis=0)
    for reps in ((2,), (2, 3), (2, 1, 2), (0, 2)):
        op("tile", lambda x, r=reps: jnp.tile(x, r), grid[:2, :2], reps=reps)
    op("repeat", lambda x: jnp.repeat(x, 2), grid[:2, :2], repeats=2, axis="all")
    op("repeat", lambda x: jnp.repeat(x, 3, axis=-2), grid[:2, :2], repeats=3, axis=-2)
    vectors = [arr("f32", [1.0, 2.0]), arr("f32", [3.0, 4.0, 5.0]), arr("f32", [6.0, 7.0])]
    for indexing in ("xy", "ij"):
        for count in (1, 2, 3):
            op("meshgrid", lambda *x, i=indexing: jnp.meshgrid(*x, indexing=i), *vectors[:count], indexing=indexing)
    op("logaddexp", jnp.logaddexp, arr("f32", [[1.0], [200.0]]), arr("f32", [0.0, 200.0, -300.0]), exact=False)
    vjp("logaddexp", jnp.logaddexp, arr("f32", [1.0, 200.0, -INF]), arr("f32", [0.0, 200.0, 3.0]), exact=False)
    op("cumlogsumexp", lambda x: lax.cumlogsumexp(x, axis=0), arr("f32", [-INF, 1.0, 200.0, -200.0, 200.0]), axis=0, exact=False)
    vjp("cumlogsumexp", lambda x: lax.cumlogsumexp(x, axis=0), arr("f32", [0.5, 1.0, 20.0, -20.0, 20.0]), axis=0, exact=False)
    x, i = eighths("f32", (4, 2), 1), arr("i32", [2, 0, -1])
    for name, method in {"at_multiply": "multiply", "at_min": "min", "at_max": "max"}.items():
        op(name, lambda x, i, u, m=method: getattr(x.at[i], m)(u), x, arr("i32", [2, 0, 2, 9]), eighths("f32", (4, 2), 2))
        if name != "at_multiply":
            vjp(name, lambda x, i, u, m=method: getattr(x.at[i], m)(u), x, i, eighths("f32", (3, 2), 2), argnums=(0, 2))

    spd = arr("f32", [[4.0, 1.0, 0.5], [1.0, 5.0, -1.0], [0.5, -1.0, 6.0]])
    right = eighths("f32", (3, 2), 3)
    cholesky = jax.lax.linalg.cholesky
    for data in (spd, np.stack([spd, 2 * spd]), spd.astype(np.float64), arr("c64", [[4, 1 + 2j], [1 - 2j, 5]]), arr("f32", [[1.0, 2.0], [2.0, 1.0]])):
        op("cholesky", cholesky, data, exact=False)
    vjp("cholesky", cholesky, spd, exact=False)
    vjp("cholesky", cholesky, arr("c64", [[4, 1 + 2j], [1 - 2j, 5]]), exact=False)
    for left in (False, True):
        for lower in (False, True):
            for turned in (False, True):
                def solve(a, b, o=dict(left_side=left, lower=lower, transpose_a=turned)):
                    return jax.lax.linalg.triangular_solve(a, b, **o)
                b = right if left else right.T
                op("triangular_solve", solve, spd, b, exact=False, left_side=left, lower=lower, transpose_a=turned)
                vjp("triangular_solve", solve, spd, b, exact=False, left_side=left, lower=lower, transpose_a=turned)
    z2 = arr("c64", [[2 + 1j, 9], [1j, 3 - 1j]])
    for turned in (False, True):
        op("triangular_solve", lambda a, b, t=turned: jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=True, transpose_a=t, conjugate_a=True),
           z2, eighths("c64", (2, 2), 3), exact=False, left_side=True, lower=True, transpose_a=turned, conjugate_a=True)
    op("solve_spd", lambda a, b: jax.scipy.linalg.solve(a, b, assume_a="pos"), spd, right, exact=False)
    op("solve_spd", lambda a, b: jax.scipy.linalg.solve(a, b, assume_a="pos"), spd, right[:, 0], exact=False)
    for axis, order in ((None, None), (0, None), (1, 1), (1, np.inf), (1, -np.inf), (0, 3), (None, 1), (None, np.inf), (None, -1), (None, -np.inf)):
        op("norm", lambda x, a=axis, o=order: jnp.linalg.norm(x, ord=o, axis=a), right, axis="all" if axis is None else axis,
           ord=0.0 if order is None else float(order), exact=False)
    op("norm", jnp.linalg.norm, eighths("c64", (2, 3), 3), axis="all", exact=False)
    vjp("norm", jnp.linalg.norm, right, axis="all", exact=False)

    for dtype in COMPLEX:
        z, w = eighths(dtype, (5,), 1), eighths(dtype, (5,), 2) + 3
        part = {"c64": "f32", "c128": "f64"}[dtype]
        for name, fn in {"add": lax.add, "sub": lax.sub, "mul": lax.mul, "eq": lax.eq, "ne": lax.ne}.items():
            op(name, fn, z, w)
        op("true_divide", jnp.true_divide, z, w, exact=False)
        op("pow", lax.pow, z + 3, w, exact=False)
        for name, fn in {"neg": lax.neg, "real": jnp.real, "imag": jnp.imag, "conj": jnp.conj, "square": lax.square, "isfinite": jnp.isfinite}.items():
            op(name, fn, z)
        for name, fn in {"abs": lax.abs, "exp": lax.exp, "log": lax.log, "sin": lax.sin, "cos": lax.cos, "tanh": lax.tanh, "sqrt": lax.sqrt,
                         "angle": jnp.angle}.items():
            op(name, fn, z, exact=False)
        op("complex", lax.complex, eighths(part, (3,), 1), eighths(part, (3,), 2))
        op("sum", jnp.sum, z, axis="all")
        op("mean", lambda x: jnp.mean(x, axis=0), z, axis=0, exact=False)
        op("var", jnp.var, z, axis="all", exact=False)
        op("dot", jnp.dot, z, w)
        op("vdot", jnp.vdot, z, w)
        op("matmul", jnp.matmul, eighths(dtype, (2, 3), 1), eighths(dtype, (3, 2), 2))
        op("einsum", lambda a, b: jnp.einsum("ij,kj->ik", a, b), eighths(dtype, (2, 3), 1), eighths(dtype, (2, 3), 2), subscripts="ij,kj->ik")
        op("integer_pow", lambda x: lax.integer_pow(x, 3), z, y=3, exact=False)
        for name, fn in {"real": jnp.real, "imag": jnp.imag, "conj": jnp.conj, "abs": lax.abs, "exp": lax.exp, "log": lax.log, "sqrt": lax.sqrt,
                         "square": lax.square, "tanh": lax.tanh}.items():
            # 1 - tanh^2 cancels
            vjp(name, fn, z, exact=False, atol=5e-6 if name == "tanh" and dtype == "c64" else None)
        vjp("mul", jnp.multiply, z, w)
        vjp("true_divide", jnp.true_divide, z, w, exact=False)
        vjp("complex", lax.complex, eighths(part, (3,), 1), eighths(part, (3,), 2))
        vjp("mul", jnp.multiply, eighths(part, (5,), 4), w)
        op("convert_element_type", lambda x: lax.convert_element_type(x, DTYPES[dtype]), eighths(part, (3,), 1), dtype=dtype)
        op("add", jnp.add, z, eighths("f32", (5,), 3))
    op("add", jnp.add, eighths("c64", (5,), 1), eighths("f64", (5,), 3))


def dtypes():
    """Basic functions in every dtype for which JAX has them."""
    numbers = (*TOLERANCE, *COMPLEX, "i32", "u8", "bool")
    i = arr("i32", [2, 0, -1, 7])
    for dtype in numbers:
        low, high = {"bool": (0, 1), "u8": (0, 9)}.get(dtype, (-16, 16))
        inexact, real = dtype in TOLERANCE or dtype in COMPLEX, dtype not in COMPLEX
        grid, other = eighths(dtype, (4, 5), 3, low, high), eighths(dtype, (4, 5), 4, low, high)
        cube = eighths(dtype, (2, 3, 3), 5, low, high)
        for axis in (0, -1):
            if real:
                for turn in ("", "_descending"):
                    op("sort" + turn, lambda x, a=axis, t=turn: jnp.sort(x, axis=a, descending=bool(t)), grid, axis=axis)
                    op("argsort" + turn, lambda x, a=axis, t=turn: jnp.argsort(x, axis=a, descending=bool(t)).astype("int32"), grid, axis=axis)
            for name, fn in {"cumsum": jnp.cumsum, "cumprod": jnp.cumprod}.items():
                op(name, lambda x, fn=fn, a=axis: fn(x, axis=a), grid, axis=axis, exact=not inexact)
                if inexact:
                    vjp(name, lambda x, fn=fn, a=axis: fn(x, axis=a), grid, axis=axis, exact=False, atol=0.05 if dtype in ("f16", "bf16") else 1e-5)
            if real and dtype != "bool":
                for name, fn in {"cummax": lax.cummax, "cummin": lax.cummin}.items():
                    op(name, lambda x, fn=fn, a=axis: fn(x, axis=a % 2), grid, axis=axis)
            for name in ("sum", "prod", "mean", "any", "all", "var", "std", *(("max", "min") if real else ())):
                op(name, lambda x, n=name, a=axis: getattr(jnp, n)(x, axis=a), grid, axis=axis, exact=name in ("any", "all", "max", "min"))
                if inexact and name not in ("any", "all"):
                    vjp(name, lambda x, n=name, a=axis: getattr(jnp, n)(x, axis=a), grid, axis=axis, exact=False,
                        atol=0.05 if dtype in ("f16", "bf16") else 1e-5)
        op("var", lambda x: jnp.var(x, axis=0, ddof=1), grid, axis=0, ddof=1, exact=False)
        if real and dtype != "bool":
            op("top_k", lambda x: lax.top_k(x, 3), grid, k=3)
            op("median", lambda x: jnp.median(x, axis=0), grid, axis=0, exact=False)
            op("quantile", lambda x, q: jnp.quantile(x, q, axis=1), grid, arr(dtype if dtype in TOLERANCE else "f32", 0.25), axis=1, exact=False)
        if real:
            op("clip", jnp.clip, grid, other[0], other[1])
            op("searchsorted", lambda a, v: jnp.searchsorted(a, v), np.sort(grid[0]), other, side="left")
        for k in (-1, 0, 1):
            op("tril", lambda x, k=k: jnp.tril(x, k), cube, k=k)
            op("triu", lambda x, k=k: jnp.triu(x, k), cube, k=k)
        op("take", lambda x, i: jnp.take(x, i, axis=1, mode="fill"), grid, i, axis=1, mode="fill")
        op("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, axis=1), grid, arr("i32", [[1], [0], [-1], [4]]), axis=1)
        update = other[:, :5]
        op("at_set", lambda x, i, u: x.at[i].set(u), grid, arr("i32", [2, 0, -1, 7]), update)
        for name, method in {"at_add": "add", "at_multiply": "multiply", **({"at_min": "min", "at_max": "max"} if real else {})}.items():
            if dtype == "bool":
                continue
            op(name, lambda x, i, u, m=method: getattr(x.at[i], m)(u), grid, arr("i32", [2, 0, 2, 7]), update)
            if inexact and method != "multiply":
                vjp(name, lambda x, i, u, m=method: getattr(x.at[i], m)(u), grid, arr("i32", [2, 0, 3, 7]), update, argnums=(0, 2), exact=False)
        if dtype != "bool":
            op("einsum", lambda a, b: jnp.einsum("ij,kj->ik", a, b), grid, other, subscripts="ij,kj->ik", exact=False)
            op("einsum", lambda a: jnp.einsum("bii->b", a), cube, subscripts="bii->b", exact=False)
            op("einsum", lambda a, b: jnp.einsum("bij,bjk->bik", a, b), cube, cube, subscripts="bij,bjk->bik", exact=False)
            op("dot", jnp.dot, grid, other.T, exact=False)
            op("diff", lambda x: jnp.diff(x, axis=1), grid, n=1, axis=1)
            op("trace", jnp.trace, grid, exact=False)
        for order in (None, 1, 2, np.inf, -np.inf, 3, 0.5):
            op("norm", lambda x, o=order: jnp.linalg.norm(x, ord=o, axis=1), grid, axis=1, ord=0.0 if order is None else float(order), exact=False,
               **({"rtol": 1e-7} if order == 3 and dtype in ("f64", "c128") else {}))  # JAX takes 1 / 3 in f32
        if inexact:
            vjp("norm", lambda x: jnp.linalg.norm(x, axis=1), grid, axis=1, exact=False)
            op("logsumexp", lambda x: jax.nn.logsumexp(x, axis=1), grid, axis=1, exact=False, atol=1e-5 if dtype[0] == "c" else None)
        if dtype in TOLERANCE:
            for name, fn in {"softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax}.items():
                op(name, lambda x, fn=fn: fn(x, axis=1), grid, axis=1, exact=False)
            vjp("sort", lambda x: jnp.sort(x, axis=1), grid + arr(dtype, np.arange(20).reshape(4, 5) * 8), axis=1)
            vjp("clip", jnp.clip, grid, arr(dtype, -1.0625), arr(dtype, 1.0625), exact=False)
    for dtype in ("f32", "f64", "c64", "c128"):
        root = eighths(dtype, (2, 3, 3), 6, -8, 8)
        spd = root @ np.conj(np.swapaxes(root, -1, -2)) + 4 * np.eye(3, dtype=DTYPES[dtype])
        right, vector = eighths(dtype, (2, 3, 2), 7), eighths(dtype, (3,), 8)
        op("cholesky", jax.lax.linalg.cholesky, spd, exact=False)
        vjp("cholesky", jax.lax.linalg.cholesky, spd, exact=False, atol=1e-4 if dtype in ("f32", "c64") else 1e-12)
        factor = np.asarray(np.linalg.cholesky(spd), DTYPES[dtype])
        op("cho_solve", lambda f, b: jax.scipy.linalg.cho_solve((f, True), b), factor, right, exact=False, atol=1e-4 if dtype in ("f32", "c64") else 1e-12)
        op("solve_spd", lambda a, b: jax.scipy.linalg.solve(a, b, assume_a="pos"), spd[0], vector, exact=False, atol=1e-4 if dtype in ("f32", "c64") else 1e-12)
        for left in (False, True):
            b = right if left else np.swapaxes(right, -1, -2)

            def solve(a, b, left=left):
                return jax.lax.linalg.triangular_solve(a, b, left_side=left, lower=True)
            op("triangular_solve", solve, factor, b, exact=False, left_side=left, lower=True, atol=1e-4 if dtype in ("f32", "c64") else 1e-12)
            vjp("triangular_solve", solve, factor, b, exact=False, left_side=left, lower=True, atol=1e-3 if dtype in ("f32", "c64") else 1e-11)
    for dtype in (*TOLERANCE, "i32", "c64"):
        for last in (True, False):
            op("linspace", lambda d=dtype, e=last: jnp.linspace(-1.3, 4.7, 7, endpoint=e, dtype=DTYPES[d]), start=-1.3, stop=4.7, num=7, endpoint=last,
               dtype=dtype, exact=dtype == "i32", **({"rtol": 0.03} if dtype in ("f16", "bf16") else {}))
        if dtype != "c64":
            op("arange", lambda d=dtype: jnp.arange(-1.3, 4.7, 0.9, dtype=DTYPES[d]), start=-1.3, stop=4.7, step=0.9, dtype=dtype, exact=False)
            op("arange", lambda d=dtype: jnp.arange(5, -1, -2, dtype=DTYPES[d]), start=5, stop=-1, step=-2, dtype=dtype)
    for dtype in ("f32", "f64"):
        a = arr(dtype, [0.01, 0.1, 0.5, 1, 1.5, 2, 3, 5, 10, 30, 100, 1000, 1e4])
        x = arr(dtype, [1e-3, 0.01, 0.5, 0.9, 0.2, 3, 9, 5, 20, 25, 105, 1100, 9900])
        draws = arr(dtype, [[0.1, 0.5, 1.0, 1.5], [2.0, 5.0, 30.0, 100.0]])
        vjp("random_gamma", lambda a: jax.random.gamma(jax.random.PRNGKey(3), a, a.shape, a.dtype), draws, exact=False,
            atol=1e-4 if dtype == "f32" else 1e-11)
        op("random_gamma_grad", lax.random_gamma_grad, a, x, exact=False, atol=1e-4 if dtype == "f32" else 1e-12)


def linear_algebra():
    """Factors, solutions and determinants; of singular and eigenvectors the magnitudes, because their signs or phases are arbitrary."""
    def matrix(dtype, shape, seed):
        random = np.random.RandomState(seed)
        data = random.randint(-16, 17, size=shape) / 8
        if dtype in COMPLEX:
            data = data + 1j * random.randint(-16, 17, size=shape) / 8
        k = min(shape[-2:])
        data[..., range(k), range(k)] += np.arange(1, k + 1)
        return arr(dtype, data)

    def both(name, fn, *inputs, scale=1, **attributes):
        loose = {"f32": 5e-5, "c64": 5e-5, "f64": 1e-12, "c128": 1e-12}[short(inputs[0].dtype)] * scale
        op(name, fn, *inputs, exact=False, rtol=loose, atol=loose, **attributes)
        vjp(name, fn, *inputs, exact=False, rtol=loose * 4, atol=loose * 8, **attributes)

    magnitude = {"q": lambda f: f[0], "r": lambda f: f[1], "w": lambda f: f[0], "v": lambda f: jnp.abs(f[1])}
    for dtype in ("f32", "f64", "c64", "c128"):
        for shape in ((3, 3), (4, 2), (2, 3, 2)):
            for part in ("q", "r"):
                both("qr", lambda a, p=part: magnitude[p](jnp.linalg.qr(a)), matrix(dtype, shape, 1), part=part)
        for part in ("q", "r"):
            op("qr", lambda a, p=part: magnitude[p](jnp.linalg.qr(a, mode="complete")), matrix(dtype, (4, 2), 2), exact=False, part=part,
               qr_mode="complete", atol=1e-5)
            op("qr", lambda a, p=part: magnitude[p](jnp.linalg.qr(a)), matrix(dtype, (2, 4), 2), exact=False, part=part, atol=1e-5)
            both("qr", lambda a, p=part: magnitude[p](jnp.linalg.qr(a, mode="complete")), matrix(dtype, (3, 3), 3), part=part,
                 qr_mode="complete")
        op("qr", lambda a: jnp.linalg.qr(a, mode="r"), matrix(dtype, (3, 2), 2), exact=False, qr_mode="r", atol=1e-5)
        for shape in ((3, 3), (2, 4, 4)):
            for part in ("w", "v"):
                both("eigh", lambda a, p=part: magnitude[p](jnp.linalg.eigh(a)), matrix(dtype, shape, 4), part=part, scale=4)
            for triangle in "LU":
                op("eigh", lambda a, t=triangle: jnp.linalg.eigh(a, UPLO=t, symmetrize_input=False)[0], matrix(dtype, shape, 5), exact=False,
                   part="w", uplo=triangle, atol=1e-5)
        for shape in ((3, 3), (4, 2), (2, 2, 3)):
            both("svd", lambda a: jnp.linalg.svd(a, compute_uv=False), matrix(dtype, shape, 6), part="values", full=0)
            for i, part in enumerate("usv"):
                both("svd", lambda a, i=i: jnp.abs(jnp.linalg.svd(a, full_matrices=False)[i]), matrix(dtype, shape, 7), part=part, full=0, scale=4)
                op("svd", lambda a, i=i: jnp.linalg.svd(a)[1] if i == 1 else jnp.abs(jnp.linalg.svd(a)[i]) if shape[-1] == shape[-2] else
                   jnp.diagonal(jnp.linalg.svd(a)[i] @ jnp.conj(jnp.swapaxes(jnp.linalg.svd(a)[i], -1, -2)), axis1=-2, axis2=-1).real,
                   matrix(dtype, shape, 8), exact=False, part=part if shape[-1] == shape[-2] or part == "s" else part + "norms", full=1, atol=1e-5)
        for shape, right in (((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 1)), ((2, 4, 4), (4,))):
            both("solve", jnp.linalg.solve, matrix(dtype, shape, 9), matrix(dtype, (*right, 1), 10)[..., 0], scale=4)
        for n in (1, 2, 3, 4, 6):
            a = matrix(dtype, (n, n), 11 + n)
            both("det", jnp.linalg.det, a, scale=40)
            both("inv", jnp.linalg.inv, a, scale=8)
            both("slogdet", lambda a: jnp.linalg.slogdet(a)[0], a, part="sign", scale=4)
            both("slogdet", lambda a: jnp.linalg.slogdet(a)[1], a, part="logabsdet", scale=4)
        for rank in (4, 3, 2):
            low = matrix(dtype, (5, rank), 20) @ matrix(dtype, (rank, 5), 21)
            vjp("det", jnp.linalg.det, arr(dtype, np.round(low)), exact=False, rtol=1e-3, atol=0.02 if dtype in ("f32", "c64") else 1e-8)
        both("det", jnp.linalg.det, matrix(dtype, (2, 3, 5, 5), 30), scale=400)
        for shape in ((3, 3), (4, 2), (2, 2, 4)):
            both("pinv", jnp.linalg.pinv, matrix(dtype, shape, 31), scale=8)
        op("pinv", jnp.linalg.pinv, matrix(dtype, (3, 1), 32) @ matrix(dtype, (1, 3), 33), exact=False, atol=1e-5)
        op("solve_wide", lambda a, b: jnp.linalg.solve(a, b), matrix(dtype, (12, 12), 34), matrix(dtype, (12, 9), 35), exact=False, atol=1e-4)
    for bad in (NAN, INF):
        a = np.eye(4, dtype=np.float32)
        a[1, 2] = bad
        for name, fn in {"det": jnp.linalg.det, "inv": jnp.linalg.inv}.items():
            op(name, fn, a, exact=False)
        op("svd", lambda a: jnp.linalg.svd(a, compute_uv=False), a, part="values", full=0)
        op("pinv", jnp.linalg.pinv, a)
        op("slogdet", lambda a: jnp.linalg.slogdet(a)[1], a, part="logabsdet")
    singular = np.array([[1, 2], [2, 4]], np.float32)
    op("det", jnp.linalg.det, singular)
    op("inv", jnp.linalg.inv, singular)
    op("slogdet", lambda a: jnp.linalg.slogdet(a)[0], singular, part="sign")
    op("slogdet", lambda a: jnp.linalg.slogdet(a)[1], singular, part="logabsdet")
    op("det", jnp.linalg.det, np.zeros((3, 0, 0), np.float32))
    op("inv", jnp.linalg.inv, arr("i32", [[2, 0], [0, 4]]))


def everyday():
    """Functions that users look for first: activations, nan_to_num, reversed cumulative results, updates of any part of an array, default axes."""
    line = [-INF, -80.0, -3.0, -2.5, -1.0, -0.25, -0.0, 0.0, 0.25, 1.0, 2.5, 3.0, 80.0, INF, NAN]
    activations = {"leaky_relu": jax.nn.leaky_relu, "elu": jax.nn.elu, "hard_swish": jax.nn.hard_swish,
                   "gelu_exact": lambda x: jax.nn.gelu(x, approximate=False)}
    for dtype in TOLERANCE:
        for name, fn in activations.items():
            data = arr(dtype, line if name in ("leaky_relu", "elu") else line[1:-2])
            op(name, fn, data, exact=False, rtol=2 * TOLERANCE[dtype])   # chains of operations
            vjp(name, fn, arr(dtype, [-2.5, -1.0, -0.25, 0.25, 1.0, 2.5]), exact=False, rtol=4 * TOLERANCE[dtype])
        op("nan_to_num", jnp.nan_to_num, arr(dtype, line))
        op("nan_to_num", lambda x: jnp.nan_to_num(x, nan=1.5, posinf=7.0, neginf=-2.0), arr(dtype, line), nan=1.5, posinf=7.0, neginf=-2.0)
        vjp("nan_to_num", jnp.nan_to_num, arr(dtype, [1.0, NAN, INF, -INF]))
    op("leaky_relu", lambda x: jax.nn.leaky_relu(x, 0.25), arr("f32", line), parameter=0.25)
    op("elu", lambda x: jax.nn.elu(x, 0.25), arr("f32", line), parameter=0.25, exact=False)
    op("leaky_relu", jax.nn.leaky_relu, arr("i32", [-300, 0, 5]), exact=False)
    vjp("elu", jax.nn.elu, arr("f32", [-INF, -100.0, 0.0, 100.0]), exact=False)
    grid = eighths("f32", (3, 4), 5)
    for axis in (0, 1):
        for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
            def run(x, n=name, a=axis):
                return getattr(lax, n)(x, axis=a, reverse=True)
            op(name, run, grid, axis=axis, reverse=True, exact=False)
            vjp(name, run, grid + arr("f32", np.arange(12).reshape(3, 4) * 8 if name in ("cummax", "cummin") else 0), axis=axis, reverse=True,
                exact=False, atol=1e-5)
    for name in ("argmax", "argmin", "cumsum", "cumprod", "sort", "argsort", "median", "diff"):
        op("default_" + name, getattr(jnp, name), grid, exact=False)
    for name in ("cummax", "cummin", "cumlogsumexp"):
        op("default_" + name, getattr(lax, name), grid, exact=False)
    for name in ("softmax", "log_softmax", "logsumexp"):
        op("default_" + name, getattr(jax.nn, name), grid, exact=False)
    for name in ("flip", "tril", "triu", "diag", "squeeze", "stack", "concatenate"):
        op("default_" + name, getattr(jnp, name), grid)
    cube = eighths("f32", (2, 3, 4), 6)
    for name, fn in {"stack": jnp.stack, "concatenate": jnp.concatenate}.items():
        for axis in (0, 1, -1):
            op("rows_" + name, lambda x, f=fn, a=axis: f(x, axis=a), cube, axis=axis)
    x, i, j = eighths("f32", (4, 3), 1), arr("i32", [2, 0, 2, -1]), arr("i32", [0, 2, 0, 1])
    paths = [((slice(None), 1), (4,)), ((1, 2), ()), ((slice(0, 2), slice(1, None)), (2, 2)), ((slice(None), "j"), (4, 4)), (("i", "j"), (4,)),
             ((slice(None, None, 2), slice(None, None, -1)), (2, 3)), (("i column", "j"), (4, 4)), ((slice(None), "far"), (4, 2)), ((-1,), (3,)),
             ((slice(None), 1), ())]
    far = arr("i32", [1, 9])
    for number, (path, shape) in enumerate(paths):
        for method in ("set", "add", "multiply", "min", "max"):
            def run(x, u, i, j, far, p=path, m=method):
                arrays = {"i": i, "i column": i[:, None], "j": j, "far": far}
                return getattr(x.at[tuple(arrays.get(k, k) if isinstance(k, str) else k for k in p)], m)(u)
            if method == "set" and number in (3, 4, 6):   # if two updates have the same place, either may win
                continue
            u = eighths("f32", shape, 2 + number)
            op("at_path", run, x, u, i, j, far, path=number, method=method)
            if method != "multiply":
                vjp("at_path", run, x, u, i, j, far, path=number, method=method, argnums=(0, 1), exact=False)
    vjp("logaddexp", jnp.logaddexp, arr("f32", [-INF, INF, 1.0]), arr("f32", [-INF, -INF, -INF]), exact=False)
    special = arr("f32", [0.0, -0.0, NAN, -1.0, 0.0, 2.0, INF, -INF, -0.0])
    for dtype in TOLERANCE:
        op("top_k", lambda x: lax.top_k(x, 9), special.astype(DTYPES[dtype]), k=9)
        op("sort", lambda x: jnp.sort(x, axis=0), special.astype(DTYPES[dtype]), axis=0)
        op("argsort", lambda x: jnp.argsort(x, axis=0).astype("int32"), special.astype(DTYPES[dtype]), axis=0)
    op("quantile", lambda x, q: jnp.quantile(x, q), grid, arr("f32", [0.25, 0.5]), axis="all", exact=False)


def fourier():
    """Transforms of each kind of length: powers of a prime, products of small primes, primes (of which one is computed by a convolution), and 1."""
    def line(dtype, shape, seed):
        return eighths(dtype, shape, seed)

    def check(name, x, gradient=True, **attributes):
        wide = short(x.dtype) in ("f64", "c128")
        loose = dict(rtol=1e-13 if wide else 5e-6, atol=2e-12 if wide else 4e-5)
        given = {{"lengths": "s"}.get(k, k): v for k, v in attributes.items()}
        fn = lambda x: getattr(jnp.fft, name)(x, **given)  # noqa: E731
        op(name, fn, x, exact=False, **loose, **attributes)
        if gradient:
            vjp(name, fn, x, exact=False, **loose, **attributes)

    for real, both in (("f32", "c64"), ("f64", "c128")):
        for n in (1, 2, 3, 4, 5, 6, 8, 9, 12, 14, 16, 31, 37, 64, 74):
            check("fft", line(both, n, n), n in (1, 5, 6, 37))
            check("ifft", line(both, n, n + 1), n in (1, 5, 6, 37))
            check("rfft", line(real, n, n + 2), n in (1, 5, 6, 37))
            check("irfft", line(both, n // 2 + 1, n + 3), n in (1, 5, 6, 37), n=n)
        for n, norm in ((3, "ortho"), (6, "forward"), (5, "backward")):
            for name in ("fft", "ifft", "hfft", "irfft"):
                check(name, line(both, (2, 5, 1), n), n=n, axis=1, norm=norm)
            for name in ("rfft", "ihfft", "fft"):
                check(name, line(real, (2, 5, 1), n), n=n, axis=-2, norm=norm)
        for name in ("fft", "ifft"):
            check(name, line(both, (17, 6), 1), gradient=False)
            check(name, line(both, (3, 7, 4), 2), gradient=False, axis=1)
        cube = line(both, (2, 3, 4), 3)
        for name in ("fftn", "ifftn", "irfftn", "fft2", "ifft2", "irfft2"):
            check(name, cube)
            check(name, cube, norm="ortho")
        for name in ("rfftn", "rfft2", "fftn"):
            check(name, line(real, (2, 3, 4), 4))
        check("fftn", cube, axes=(0, 2))
        check("irfftn", cube, lengths=(2, 7), axes=(1, 0), norm="forward")
        check("rfftn", line(real, (2, 3, 3), 5), lengths=(4, 2))
    for n in (1, 4, 5):
        op("fftfreq", lambda n=n: jnp.fft.fftfreq(n, 0.5), exact=False, n=n, d=0.5)
        op("rfftfreq", lambda n=n: jnp.fft.rfftfreq(n, 0.5), exact=False, n=n, d=0.5)
        for name in ("fftshift", "ifftshift"):
            op(name, getattr(jnp.fft, name), eighths("f32", (n, 3)), axis="all")
            op(name, lambda x, f=getattr(jnp.fft, name): f(x, axes=-1), eighths("f32", (n, 3)), axis=-1)
    check("fft", arr("i32", [3, -1, 4, 1]), gradient=False)
    check("rfft", arr("bool", [1, 0, 1]), gradient=False)


os.makedirs(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops"), exist_ok=True)
for family in (elementwise, integers, conversions, choosing, reductions, products, convolutions, windows, shapes, indexing, gradients, more, dtypes,
               linear_algebra, everyday, fourier):
    if sys.argv[1:] and family.__name__ not in sys.argv[1:]:
        continue
    corpus = Corpus(__file__, f"known answers from jax {jax.__version__} on the CPU")
    family()
    corpus.save(f"ops/{family.__name__}.txt")
