"""What print(x) shows for a JAX array, which is NumPy's str. Run with jax 0.10.2 and its numpy 2.4.

Each case is a line `case <number> <dtype> <dims> <recipe> <numbers...>` and the expected text, each line after a `|`.
"""
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from known import DTYPES, Corpus, dims_of, hexfloat, is_float, tokens  # noqa: E402

FLOATS, INTS = ("f32", "f64", "f16", "bf16"), ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
NAN, INF = float("nan"), float("inf")
corpus = Corpus(__file__, f"str(array) of numpy {np.__version__}; case <number> <dtype> <dims> <recipe> <numbers...>")


def show(recipe, array, numbers):
    corpus.add(f"case {corpus.cases} {known_name(array)} {dims_of(array)} {' '.join([recipe, *numbers])}")
    text = str(jnp.asarray(array))
    assert np.asarray(jnp.asarray(array)).dtype == array.dtype
    corpus.add(*("|" + line for line in text.split("\n")))
    corpus.cases += 1


def known_name(array):
    return next(short for short, dtype in DTYPES.items() if dtype == array.dtype)


def values(dtype, data, shape=None):
    """The elements themselves, in an exact notation."""
    array = np.asarray(data, dtype=DTYPES[dtype])
    array = array if shape is None else array.reshape(shape)
    show("values", array, tokens(array))


def made(recipe, dtype, shape, *numbers):
    """Element i in row-major order by a formula in double precision (or exact integers), then rounded to the dtype."""
    i = np.arange(int(np.prod(shape)))
    if recipe == "arange":       # start + i * step
        data = numbers[0] + i * numbers[1]
    elif recipe == "linspace":   # a + i * ((b - a) / (n - 1))
        data = numbers[0] + i * ((numbers[1] - numbers[0]) / (len(i) - 1))
    elif recipe == "mod":        # (i * a) % m + b
        data = (i * numbers[0]) % numbers[1] + numbers[2]
    array = data.astype(DTYPES[dtype]).reshape(shape)
    show(recipe, array, [hexfloat(v) if recipe == "linspace" or is_float(array) else str(v) for v in numbers])


# Integers: alignment by the widest element, the limits of each type, line wrapping at 75 columns.
for dtype in INTS:
    info = np.iinfo(DTYPES[dtype])
    values(dtype, [info.min, 0, 1, info.max])
    values(dtype, info.max)
values("i32", [0, 1, 4, 9, 16, 25, 36, 49])
values("i32", [-1, 10, -100, 7])
values("i32", -5)
values("i32", [42])
values("i32", [-1])
values("i8", [[-128, 127], [0, 5]])
values("u8", [[1, 20], [255, 0]])
values("i32", [[[1, -2], [3, 4]], [[5, 6], [7, 8000]]])
values("i64", [[-9223372036854775808, 9223372036854775807]])
made("arange", "i32", (20,), 0, 1)
made("arange", "i32", (25,), 0, 1)
made("arange", "i32", (26,), 0, 1)
made("arange", "i32", (27,), 0, 1)
made("arange", "i32", (100,), 0, 1)
made("arange", "i32", (100,), -50, 1)
made("arange", "i32", (8, 4), 0, 1)
made("arange", "i32", (2, 3, 4), 0, 1)
made("arange", "i32", (2, 2, 2, 3), 0, 1)
made("arange", "i32", (3, 40), 0, 1)
made("arange", "i32", (2, 2, 30), 1000, 7)
made("arange", "i64", (12,), -600000000000, 100000000000)
made("mod", "i16", (40,), 7919, 20011, -10000)
made("mod", "u8", (8, 8), 37, 256, 0)
# Booleans
values("bool", True)
values("bool", False)
values("bool", [True, False])
values("bool", [True, True, True])
values("bool", [False, False])
values("bool", [[True, False, True], [False, False, True]])
made("mod", "bool", (30,), 1, 2, 0)
made("mod", "bool", (3, 4, 2), 1, 3, 0)
made("mod", "bool", (1200,), 1, 2, 0)
# One element, and none
for dtype in ("i32", "f32", "bool", "f16"):
    for shape in ((0,), (2, 0), (0, 3), (1, 0, 2)):
        values(dtype, [], shape)
values("f32", [[[1.5]]])
values("i32", [[[7]]])
# Floats without an axis: shortest digits that name the value in its own type.
SCALARS = [0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 1 / 3, 2 / 3, 1e-4, 1e-5, 9.999e-5, 123456.0, 1234567.0, 1e15, 1e16, 1.5e16,
           123456789.0, 3.141592653589793, 1e20, 1e-20, 65504.0, 6e-8, 100.0, NAN, INF, -INF]
for dtype in FLOATS:
    for value in SCALARS:
        if dtype == "f16" and 65504 < abs(value) < INF:
            continue
        values(dtype, value)
# Fixed notation: trailing zeros trimmed to the point, one precision for all, padded to the right.
for dtype in FLOATS:
    values(dtype, [0.0, 1.0, 2.0])
    values(dtype, [0.0, 1 / 6, 1 / 3, 0.5])
    values(dtype, [1.0, 2.5, -3.25])
    values(dtype, [0.1, 0.2, 0.3])
    values(dtype, [100.0, 0.001])
    values(dtype, [1000.0, 0.001])
    values(dtype, [10000.0, 0.001])
    values(dtype, [1e-4, 1.0])
    values(dtype, [9e-5, 1.0])
    values(dtype, [1e-4, 1e-5])
    values(dtype, [NAN, 1.0, -INF])
    values(dtype, [NAN, INF, -INF])
    values(dtype, [NAN])
    values(dtype, [-0.0, 0.0])
    values(dtype, [1.0, NAN])
    values(dtype, [INF, 1.5])
    values(dtype, [-INF, 1.5, 1e-5])
    values(dtype, [0.0, 1e-4])
    values(dtype, [-1.0])
    values(dtype, [[1.0, -2.0], [3.5, 4.0]])
    values(dtype, [[0.1, 20.0, 300.5], [4.0, 5.25, 6.0]])
    values(dtype, [[[1.0, 2.0], [3.0, 4.5]], [[NAN, 6.0], [7.0, 8.0]]])
    values(dtype, [60000.0, 1.0])
    made("linspace", dtype, (7,), 0.0, 1.0)
    made("linspace", dtype, (30,), -1.0, 1.0)
    made("arange", dtype, (30,), 0, 1)
    made("linspace", dtype, (3, 11), 0.0, 3.0)
    made("linspace", dtype, (2, 3, 4), -5.0, 5.0)
for dtype in ("f32", "f64"):
    values(dtype, [1e8, 1.0])
    values(dtype, [9.9e7, 1.0])
    values(dtype, [99999999.0, 1.0])
    values(dtype, [99999990.0])
    values(dtype, [1e8])
    values(dtype, [123456789.0, 0.5])
    values(dtype, [1e10, 1e-10])
    values(dtype, [1e-300 if dtype == "f64" else 1e-38, 1.0])
    values(dtype, [1e300 if dtype == "f64" else 3e38, -1.0])
    values(dtype, [1e100, 1.0] if dtype == "f64" else [1e30, 1.0])
    values(dtype, [1e20, NAN, INF])
    values(dtype, [-1e20, NAN, 1e-5])
    values(dtype, [3.4028234663852886e38, 1.1754943508222875e-38])
    values(dtype, [0.0, 0.16666667, 0.33333334, 0.5])
    values(dtype, [1.2345678901234567, 2.0])
    values(dtype, [1.23456789e-7, 2.0])
    values(dtype, [16777216.0, 16777217.0, 0.1])
    values(dtype, [[1e-8, 1.0], [2.0, 1e8]])
    values(dtype, [1.0000001, 1.0])
    values(dtype, [[4.0, 9.0], [12.0, 29.0], [244.0, 345.0], [348.0, 493.0], [1412.0, 1737.0]])
values("f64", [5e-324, 1.7976931348623157e308])
values("f64", 5e-324)
values("f64", [1e-100, 1e-5])
values("f32", 3.4028234663852886e38)
values("f32", [0.0, 0.06666667, 0.13333334, 0.2, 0.26666668, 0.33333334])
values("f32", [16777216.0, 33554432.0])
values("f32", [0.50000006, 0.99999994])
values("f32", [[[4.0, 9.0], [12.0, 29.0]], [[244.0, 345.0], [348.0, 493.0]], [[1412.0, 1737.0], [1740.0, 2141.0]]])
values("f16", [65504.0, 6e-8])
values("f16", [0.33325195, 1000.0])
values("f16", 0.33325195)
values("bf16", [1e30, 1e-30, 3.0])
values("bf16", [-1e30, 2.0])
values("bf16", [[1.0, 0.333], [-2.0, 1e10]])
values("bf16", [3.3895313892515355e38, 1.1754943508222875e-38])
# Wrapping: rows longer than a line, nested indentation
made("linspace", "f32", (2, 20), -100.0, 100.0)
made("linspace", "f64", (2, 2, 12), -1.0, 1.0)
made("arange", "f32", (8, 4), 0, 2)
made("linspace", "f32", (64,), 0.0, 1e-3)
made("linspace", "f32", (64,), 1.0, 1e9)
made("mod", "f32", (50,), 7919, 1000003, -500000)
made("linspace", "bf16", (40,), 0.0, 10.0)
# Beyond 1000 elements: three at each edge of every long axis
for dtype in ("i32", "f32", "f64", "bf16", "f16", "i8"):
    wide = (lambda s: made("mod", dtype, s, 1, 100, 0)) if dtype == "i8" else (lambda s: made("arange", dtype, s, 0, 1))
    wide((1000,))
    wide((1001,))
made("arange", "i32", (1100,), -5, 1)
made("arange", "i32", (1001, 1), 0, 1)
made("arange", "i32", (1, 1001), 0, 1)
made("arange", "i32", (40, 40), 0, 1)
made("arange", "i32", (6, 200), 0, 1)
made("arange", "i32", (7, 200), 0, 1)
made("arange", "i32", (200, 6), 0, 1)
made("arange", "i32", (200, 7), 0, 1)
made("arange", "i32", (11, 11, 11), 0, 1)
made("arange", "i32", (2, 600, 2), 0, 1)
made("arange", "i32", (3, 3, 3, 60), 0, 1)
made("arange", "i32", (2, 2, 2, 2, 100), 0, 1)
made("arange", "f32", (32, 33), 0, 1)
made("arange", "f32", (10, 11, 12), 0, 1)
made("linspace", "f32", (1024,), 0.0, 1.0)
made("linspace", "f32", (64, 64), -1.0, 1.0)
made("linspace", "f32", (8, 16, 32), 0.0, 1e-6)
made("linspace", "f64", (2000,), 0.0, 1e12)
made("linspace", "f64", (50, 50), -1e-3, 1e3)
made("mod", "u8", (40, 40), 37, 256, 0)
made("mod", "bool", (40, 40), 1, 2, 0)
made("arange", "i64", (5000,), 0, 1000000007)
made("arange", "f32", (2, 1000), 0, 0.5)
made("linspace", "bf16", (40, 40), 0.0, 100.0)
values("f32", [], (0, 2000))
corpus.save()
