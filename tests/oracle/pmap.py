"""Known answers of jax.pmap on 8 CPU devices, and of vmap with an axis name. Run with jax 0.4.35 (nested maps work there).

Every case is an expression; its source follows the `#`.
Writes pmap.txt (the examples, axes, gradients), collectives.txt (one name and several) and narrow.txt (sums of 16-bit floats).
"""
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import grad, jit, jvp, lax, pmap, value_and_grad, vjp, vmap  # noqa: E402

from known import Corpus, tokens  # noqa: E402

jax.config.update("jax_threefry_partitionable", True)   # the default today, but not in older releases
corpus = None
failures = []


def case(name, source, rtol=0.0, show=False, **inputs):
    """Evaluates the source over the inputs. rtol 0 means equal bits; `show` adds the output of print() as `print |` lines."""
    source = " ".join(source.split())
    names = dict(globals(), **{k: jnp.asarray(v) for k, v in inputs.items()})
    try:
        out = jax.block_until_ready(eval(source, names))
    except Exception as error:  # one of the two releases may refuse a case
        failures.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
        return
    leaves = jax.tree_util.tree_leaves(out)
    corpus.op(name, [np.asarray(v) for v in inputs.values()], [np.asarray(v) for v in leaves], source=source,
              rtol=float(rtol) if rtol else None, args=",".join(inputs) or "-")
    if show:
        for leaf in leaves:
            corpus.add(*("print |" + line for line in str(np.asarray(leaf)).split("\n")))


def f32(data, shape=None):
    out = np.asarray(data, np.float32)
    return out if shape is None else out.reshape(shape)


def i32(data, shape=None):
    out = np.asarray(data, np.int32)
    return out if shape is None else out.reshape(shape)


def eighths(shape, seed=0):
    return (np.random.RandomState(seed).randint(-16, 17, size=shape) / 8).astype(np.float32)


LOOSE = 1e-6


def seeds():
    x322 = f32(range(12), (3, 2, 2))
    case("reference_square", "pmap(lambda x: x ** 2)(x)", show=True, x=i32(range(8)))
    case("reference_dot", "pmap(jnp.dot)(x, y)", show=True, x=x322, y=x322 ** 2)
    case("reference_in_axes_none", "pmap(lambda x, y: (x + y, y * 2.), in_axes=(0, None))(x, y)", show=True, x=f32([0, 1]), y=f32(4))
    case("reference_normalize", "pmap(lambda x: x / lax.psum(x, 'i'), axis_name='i')(x)", show=True, x=f32(range(4)))
    case("reference_normalize_sum", "pmap(lambda x: x / lax.psum(x, 'i'), axis_name='i')(x).sum()", show=True, x=f32(range(4)))
    grid = ("pmap(pmap(lambda x: (x / lax.psum(x, 'rows'), x / lax.psum(x, 'cols'), x / lax.psum(x, ('rows', 'cols'))), "
            "axis_name='cols'), axis_name='rows')(x)")
    case("reference_grid", grid, rtol=LOOSE, x=f32(range(8), (4, 2)))
    case("reference_grid_sums", f"(lambda r, c, b: (r.sum(0), c.sum(1), b.sum((0, 1))))(*{grid})", rtol=LOOSE, show=True,
         x=f32(range(8), (4, 2)))
    case("reference_first_six", "pmap(lambda x: x / lax.psum(x, 'i'), axis_name='i', devices=jax.devices()[:6])(x)", show=True,
         x=f32(range(6)))
    case("reference_last_two", "pmap(lambda x: lax.psum(x ** 2, 'i'), axis_name='i', devices=jax.devices()[-2:])(x)", show=True,
         x=f32([2, 3]))
    case("reference_two_process_sum", "pmap(lambda x: x + lax.psum(x, 'i'), axis_name='i')(x)", show=True, x=i32(range(8)))
    case("reference_keyword", "pmap(lambda x, y: x + y)(x, y=y)", show=True, x=f32(range(8)), y=f32(range(8)))
    case("reference_static", "pmap(lambda x, y: x * y, static_broadcasted_argnums=1)(x, 3)", show=True, x=f32(range(8)))
    case("reference_out_axes", "pmap(lambda x: x * 2, in_axes=1, out_axes=1)(x)", show=True, x=f32(range(8), (2, 4)))
    case("reference_axis_size", "pmap(lambda x: x ** 2, axis_size=8, backend='cpu', donate_argnums=0)(x)", show=True, x=f32(range(8)))
    rows = i32(range(32), (8, 4))
    case("course_scale_by_two", "pmap(lambda x: x * 2)(x)", show=True, x=rows)
    case("course_scale_and_add", "pmap(lambda x, y: x * 2 + y, in_axes=(0, None))(x, y)", show=True, x=rows, y=f32(100))
    case("course_scale_and_sum", "pmap(lambda x: (x * 2, lax.psum(jnp.sum(x * 2), 'devices')), axis_name='devices')(x)", show=True, x=rows)
    case("course_expected_sum", "jnp.sum(jnp.arange(32) * 2)", show=True)
    for n in (1, 2, 4):
        case(f"course_scale_by_two_{n}", "pmap(lambda x: x * 2)(x)", show=True, x=i32(range(4 * n), (n, 4)))
        case(f"course_scale_and_sum_{n}", "pmap(lambda x: (x * 2, lax.psum(jnp.sum(x * 2), 'devices')), axis_name='devices')(x)", show=True,
             x=i32(range(4 * n), (n, 4)))
    case("parallel_affine", "pmap(lambda w, d: w + d)(w, d)", show=True, w=np.ones((8, 4), np.float32), d=f32(range(32), (8, 4)))
    case("parallel_pairwise", "pmap(lambda w, d: w + d, devices=jax.devices()[:2])(w, d)", show=True, w=np.ones((2, 4), np.float32),
         d=f32([[1] * 4, [-1] * 4]))
    case("parallel_add_with_scale", "pmap(lambda d, s: d + s, in_axes=(0, None))(d, s)", show=True, d=i32(range(8)), s=f32(0.5))
    case("parallel_shared_key", "pmap(lambda k, s: jax.random.normal(k, ()) * s, in_axes=(None, 0))(jax.random.PRNGKey(0), s)", rtol=LOOSE,
         show=True, s=np.asarray(jnp.linspace(1.0, 2.0, 8)))
    case("parallel_split_keys", "pmap(lambda k, s: jax.random.normal(k, ()) * s)(jax.random.split(jax.random.PRNGKey(0), 8), s)", rtol=LOOSE,
         show=True, s=np.asarray(jnp.linspace(1.0, 2.0, 8)))
    case("training_divergence", "pmap(lambda x: lax.pmean((x * m).sum() / m.sum(), 'devices'), axis_name='devices')(x)", rtol=LOOSE,
         x=eighths((8, 4), 1), m=f32([1, 1, 1, 0]))


# The cases of pmap are also those of vmap with an axis name.
MAPS = {"pmap": "pmap({}, axis_name='i')", "vmap": "vmap({}, axis_name='i')"}


def collectives():
    for map_name, template in MAPS.items():
        def one(name, body, rtol=0.0, **inputs):
            case(f"{map_name}_{name}", template.format(f"lambda {', '.join(inputs)}: {body}") + f"({', '.join(inputs)})", rtol=rtol, **inputs)

        for n in (1, 2, 3, 4, 8):
            x = eighths((n, 3), n)
            for op in ("psum", "pmean", "pmax", "pmin"):
                one(f"{op}_{n}", f"lax.{op}(x, 'i')", rtol=LOOSE if op == "pmean" else 0.0, x=x)
            one(f"all_gather_{n}", "lax.all_gather(x, 'i')", x=x)
            one(f"axis_index_{n}", "x + lax.axis_index('i')", x=i32([10] * n))
            one(f"ppermute_ring_{n}", f"lax.ppermute(x, 'i', {[(j, (j + 1) % n) for j in range(n)]})", x=x)
        one("psum_scalar", "lax.psum(x, 'i')", x=f32(range(8)))
        one("psum_constant", "x * lax.psum(1, 'i')", x=f32(range(8)))
        one("psum_tree", "lax.psum({'a': x, 'b': (y, 1.0)}, 'i')", x=eighths((4, 2), 1), y=i32(range(4)))
        one("pmean_tree", "lax.pmean((x, y), 'i')", rtol=LOOSE, x=eighths((4, 2), 1), y=f32(range(4)))
        one("psum_inexact_8", "lax.psum(x, 'i')", rtol=LOOSE, x=f32(np.linspace(0.1, 3.7, 24), (8, 3)))
        one("pmean_int", "lax.pmean(x, 'i')", rtol=LOOSE, x=i32([1, 2, 4, 8]))
        one("psum_bool", "lax.psum(x, 'i')", x=np.array([True, False, True, True]))
        one("psum_i32_wraps", "lax.psum(x, 'i')", x=i32([2147483647, 1, 0, 5]))
        one("psum_u8_wraps", "lax.psum(x, 'i')", x=np.array([200, 100, 3, 4], np.uint8))
        one("psum_f16", "lax.psum(x, 'i')", x=eighths((4, 2), 5).astype(np.float16))
        one("pmax_nan", "(lax.pmax(x, 'i'), lax.pmin(x, 'i'), lax.psum(x, 'i'))", x=f32([1, np.nan, -np.inf, 3]))
        for groups in ([[0, 1], [2, 3]], [[0, 2], [1, 3]], [[3, 0], [2, 1]], [[0, 1, 2, 3]]):
            tag = "_".join("".join(map(str, g)) for g in groups)
            one(f"psum_groups_{tag}", f"lax.psum(x, 'i', axis_index_groups={groups})", x=eighths((4, 2), 6))
            one(f"all_gather_groups_{tag}", f"lax.all_gather(x, 'i', axis_index_groups={groups})", x=eighths((4, 2), 6))
        for axis in (0, 1, 2):
            one(f"all_gather_axis{axis}", f"lax.all_gather(x, 'i', axis={axis})", x=eighths((4, 2, 3), 7))
        for axis in (0, 1):
            one(f"all_gather_tiled_axis{axis}", f"lax.all_gather(x, 'i', axis={axis}, tiled=True)", x=eighths((4, 2, 3), 7))
            one(f"psum_scatter_tiled_dim{axis}", f"lax.psum_scatter(x, 'i', scatter_dimension={axis}, tiled=True)", x=eighths((4, 8, 4), 8))
            one(f"psum_scatter_dim{axis}", f"lax.psum_scatter(x, 'i', scatter_dimension={axis})", x=eighths((4, 4, 4), 9))
        one("psum_scatter_8_tiled", "lax.psum_scatter(x, 'i', tiled=True)", x=eighths((8, 16), 10))
        for split, concat in ((0, 0), (0, 1), (1, 0), (1, 1)):
            one(f"all_to_all_{split}_{concat}", f"lax.all_to_all(x, 'i', {split}, {concat})", x=eighths((4, 4, 4), 11))
            one(f"all_to_all_tiled_{split}_{concat}", f"lax.all_to_all(x, 'i', {split}, {concat}, tiled=True)", x=eighths((2, 4, 6), 12))
        one("ppermute_partial", "lax.ppermute(x, 'i', [(0, 2), (3, 1)])", x=eighths((4, 2), 13))
        one("ppermute_none", "lax.ppermute(x, 'i', [])", x=eighths((4, 2), 13))
        one("pshuffle", "lax.pshuffle(x, 'i', [2, 0, 3, 1])", x=eighths((4, 2), 13))
        one("pswapaxes", "lax.pswapaxes(x, 'i', 1)", x=eighths((4, 2, 4), 14))
        one("pswapaxes_0", "lax.pswapaxes(x, 'i', 0)", x=eighths((4, 4, 2), 14))
        one("psum_from_one", "jax.lax.psum(jnp.where(lax.axis_index('i') == 2, x, 0), 'i')", x=eighths((4, 2), 15))
        # inside control flow
        one("scan_psum", "lax.scan(lambda c, t: (c + lax.psum(t, 'i'), c), jnp.float32(0), x)", x=eighths((4, 5), 16))
        one("scan_ppermute", f"lax.scan(lambda c, _: (lax.ppermute(c, 'i', {[(j, (j + 1) % 4) for j in range(4)]}) + 1, c), x, None, length=3)",
            x=f32([1, 10, 100, 1000]))
        one("cond_psum_true", "lax.cond(lax.psum(x, 'i') > 3, lambda v: lax.psum(v, 'i'), lambda v: v, x)", x=f32(range(4)))
        one("cond_psum_false", "lax.cond(lax.psum(x, 'i') > 30, lambda v: lax.psum(v, 'i'), lambda v: v, x)", x=f32(range(4)))
        one("cond_varying", "lax.cond(lax.axis_index('i') % 2 == 0, lambda v: v * 10, lambda v: -v, x)", x=f32(range(4)))
        one("while_psum", "lax.while_loop(lambda c: lax.psum(c, 'i') < 100, lambda c: c + lax.psum(c, 'i'), x)", x=f32([1, 2, 3, 4]))
        one("while_varying", "lax.while_loop(lambda c: c < 50, lambda c: c * 2, x)", x=f32([1, 3, 5, 100]))
        one("fori_pmean", "lax.fori_loop(0, 3, lambda i, c: c + lax.pmean(c, 'i') * i, x)", rtol=LOOSE, x=f32([1, 2, 3, 4]))


def nested():
    for outer, inner in (("pmap", "pmap"), ("vmap", "vmap"), ("pmap", "vmap"), ("vmap", "pmap")):
        def two(name, body, x, rtol=0.0):
            case(f"{outer}_{inner}_{name}", f"{outer}({inner}(lambda x: {body}, axis_name='j'), axis_name='i')(x)", rtol=rtol, x=x)

        x = eighths((4, 2, 3), 20)
        for op in ("psum", "pmax", "pmin", "pmean"):
            for label, axes in (("i", "'i'"), ("j", "'j'"), ("ij", "('i', 'j')"), ("ji", "('j', 'i')")):
                two(f"{op}_{label}", f"lax.{op}(x, {axes})", x, rtol=LOOSE if op == "pmean" else 0.0)
        two("all_gather_i", "lax.all_gather(x, 'i')", x)
        two("all_gather_j", "lax.all_gather(x, 'j')", x)
        two("all_gather_ij", "lax.all_gather(x, ('i', 'j'))", x)
        two("all_gather_ji", "lax.all_gather(x, ('j', 'i'))", x)
        two("all_gather_ij_tiled", "lax.all_gather(x, ('i', 'j'), tiled=True)", x)
        two("psum_scatter_j", "lax.psum_scatter(x, 'j', tiled=True)", eighths((4, 2, 4), 21))
        two("psum_scatter_ij", "lax.psum_scatter(x, ('i', 'j'), tiled=True)", eighths((4, 2, 8), 21))
        two("all_to_all_i", "lax.all_to_all(x, 'i', 0, 0)", eighths((4, 2, 4), 22))
        two("ppermute_i", "lax.ppermute(x, 'i', [(0, 1), (1, 2), (2, 3), (3, 0)])", x)
        two("axis_index", "x + 10. * lax.axis_index('i') + lax.axis_index('j')", f32(np.zeros((4, 2))))
        two("axis_index_ij", "x + lax.axis_index(('i', 'j'))", i32(np.zeros((4, 2))))
        two("axis_index_ji", "x + lax.axis_index(('j', 'i'))", i32(np.zeros((4, 2))))
        two("size", "x * lax.psum(1, ('i', 'j')) + lax.psum(1, 'j')", f32(range(8), (4, 2)))
        two("grad_psum_j", "grad(lambda v: jnp.sum(lax.psum(v ** 2, 'j')))(x)", x)
        two("grad_psum_ij", "grad(lambda v: jnp.sum(lax.psum(v ** 2, ('i', 'j'))))(x)", x)
    case("shadowed_name", "vmap(lambda r: lax.psum(r, 'i') + vmap(lambda e: lax.psum(e, 'i'), axis_name='i')(r), axis_name='i')(x)",
         x=eighths((4, 3), 23))
    case("inner_map_over_part", "pmap(lambda a, b: pmap(lambda v: v * lax.psum(b, 'i') + lax.psum(v, 'j'), axis_name='j')(a), axis_name='i')(a, b)",
         a=eighths((4, 2), 24), b=f32(range(4)))
    case("closure_over_outer", "vmap(lambda w: pmap(lambda v: v * w + lax.psum(v, 'j'), axis_name='j')(x))(w)", x=f32(range(4)), w=f32([1, 2, 3]))
    case("pmap_three_levels", "pmap(pmap(pmap(lambda x: x / lax.psum(x, ('a', 'c')), axis_name='c'), axis_name='b'), axis_name='a')(x)",
         rtol=LOOSE, x=f32(range(1, 9), (2, 2, 2)))


def narrow():
    """Sums of bf16 are rounded once; the sums of these numbers are exact in f32, in every order. (Sums of f16 are rounded in each step by XLA on CPUs.)"""
    def numbers(shape, seed):
        return (np.random.RandomState(seed).randint(-256, 257, size=shape) / 64).astype(jnp.bfloat16)

    def one(name, body, x):
        case(f"pmap_{name}", f"pmap(lambda x: {body}, axis_name='i')(x)", x=x)

    one("psum_steps", "lax.psum(x, 'i')", np.array([256] + [1] * 7).astype(jnp.bfloat16))
    for n in (2, 3, 4, 5, 7, 8):
        one(f"psum_{n}", "lax.psum(x, 'i')", numbers((n, 5), n))
        one(f"pmean_{n}", "lax.pmean(x, 'i')", numbers((n, 5), n))
    one("psum_groups", "lax.psum(x, 'i', axis_index_groups=[[3, 0, 1, 2], [4, 5, 6, 7]])", numbers((8, 5), 40))
    one("psum_scatter_tiled_dim0", "lax.psum_scatter(x, 'i', tiled=True)", numbers((8, 16), 41))
    one("psum_scatter_dim1", "lax.psum_scatter(x, 'i', scatter_dimension=1)", numbers((8, 2, 8), 42))
    one("grad_psum", "grad(lambda v: jnp.sum(lax.psum(v, 'i') * x))(x)", numbers((8, 3), 43))
    one("grad_all_gather", "grad(lambda v: jnp.sum(lax.all_gather(v, 'i') * x))(x[0])", numbers((8, 8, 2), 44))
    for label, names in (("i", "'i'"), ("j", "'j'"), ("ij", "('i', 'j')"), ("ji", "('j', 'i')")):
        case(f"pmap_pmap_psum_{label}", f"pmap(pmap(lambda x: lax.psum(x, {names}), axis_name='j'), axis_name='i')(x)", x=numbers((4, 2, 5), 45))


def axes():
    x, y = eighths((3, 4, 2), 30), eighths((4,), 31)
    for i in (0, 1, 2):
        for o in (0, 1, 2, -1):
            case(f"axes_{i}_{o}", f"pmap(lambda x: x * 2 + lax.psum(x, 'i'), axis_name='i', in_axes={i}, out_axes={o})(x)", x=x)
    case("axes_tuple", "pmap(lambda x, y: (x * y, lax.psum(x, 'i')), axis_name='i', in_axes=(1, 0), out_axes=(2, 0))(x, y)", x=x, y=y)
    case("axes_none_out", "pmap(lambda x: (x, lax.psum(x, 'i')), axis_name='i', out_axes=(0, None))(x)", x=y)
    case("axes_tree", "pmap(lambda d, s: {'a': d['a'] * s, 'b': d['b'][0] + d['b'][1]}, in_axes=({'a': 1, 'b': 0}, None))({'a': x, 'b': (y, y)}, s)",
         x=x, y=y, s=f32(3))
    case("axes_broadcast", "pmap(lambda p, d: p, in_axes=(None, 0))(p, y)", p=f32([1, 2, 3]), y=y)
    case("axes_vmap_negative", "vmap(lambda x: x * 2, in_axes=-1, out_axes=-2)(x)", x=x)
    case("devices_reversed", "pmap(lambda x: x + lax.axis_index('i'), axis_name='i', devices=jax.devices()[::-1])(x)", x=f32(range(0, 80, 10)))
    case("devices_pairs", "pmap(lambda x: lax.ppermute(x, 'i', [(0, 1), (1, 0)]), axis_name='i', devices=[jax.devices()[5], jax.devices()[2]])(x)",
         x=f32([1, 2]))
    case("jit_of_pmap", "jit(lambda x: pmap(lambda v: v / lax.psum(v, 'i'), axis_name='i')(x) + 1)(x)", rtol=LOOSE, x=f32(range(1, 9)))
    case("pmap_of_jit", "pmap(jit(lambda v: v * lax.psum(1, 'i')), axis_name='i')(x)", x=f32(range(8)))


def gradients():
    x4, w = eighths((4, 3), 40), eighths((3,), 41)
    for map_name, template in MAPS.items():
        def inside(name, body, rtol=0.0, x=x4):
            """grad inside the map: each replica differentiates its own scalar."""
            case(f"{map_name}_grad_inside_{name}", template.format(f"grad(lambda x: {body})") + "(x)", rtol=rtol, x=x)

        def outside(name, body, rtol=0.0, x=x4):
            """grad of the map: the sum of the results is differentiated."""
            mapped = template.format(f"lambda x: {body}")
            case(f"grad_of_{map_name}_{name}", f"grad(lambda x: jnp.sum({mapped}(x) * c))(x)", rtol=rtol, x=x, c=f32([1, 2, -1, 0.5]))

        bodies = {
            "local": "jnp.sum(x ** 2)", "psum": "jnp.sum(lax.psum(x, 'i') ** 2)", "psum_of_square": "lax.psum(jnp.sum(x ** 2), 'i')",
            "pmean": "jnp.sum(lax.pmean(x, 'i') ** 2)", "pmean_of_square": "lax.pmean(jnp.sum(x ** 2), 'i')",
            "pmax": "None", "all_gather": "jnp.sum(lax.all_gather(x, 'i') ** 2 * (1.0 + lax.axis_index('i')))",
            "all_gather_tiled": "jnp.sum(lax.all_gather(x, 'i', tiled=True) ** 2)",
            "ppermute": "jnp.sum(x * lax.ppermute(x, 'i', [(0, 1), (1, 2), (2, 3), (3, 0)]))",
            "ppermute_partial": "jnp.sum(x * lax.ppermute(x, 'i', [(0, 1), (2, 3)]))",
            "axis_index": "jnp.sum(x ** 2) * lax.axis_index('i')",
            "scan": "lax.scan(lambda c, t: (c + lax.psum(t * c, 'i'), None), jnp.float32(1), x)[0]",
            "scan_pmean": "jnp.sum(lax.scan(lambda c, t: (0.5 * c + lax.pmean(t ** 2, 'i'), c * t), jnp.float32(1), x)[1])",
            "cond": "lax.cond(lax.psum(jnp.sum(x), 'i') > -1e9, lambda v: jnp.sum(lax.psum(v, 'i') * v), lambda v: jnp.sum(v), x)",
            "cond_varying": "lax.cond(lax.axis_index('i') > 1, lambda v: jnp.sum(v ** 2), lambda v: 3 * jnp.sum(v), x)",
            "normalize": "jnp.sum((x / lax.psum(jnp.abs(x) + 1, 'i')) ** 2)",
            "weighted": "jnp.sum(x * lax.psum(x, 'i') * lax.psum(1, 'i'))",
            "fori": "lax.fori_loop(0, 3, lambda k, c: c * 0.5 + lax.psum(jnp.sum(x) * c, 'i') / 8, jnp.float32(1))",
        }
        for name, body in bodies.items():
            if body == "None":
                continue
            rtol = 0.0 if name in ("local", "axis_index") else LOOSE
            inside(name, body, rtol)
            outside(name, body, rtol)
        inside("psum_scatter", "jnp.sum(lax.psum_scatter(x, 'i', tiled=True) ** 2)", LOOSE, eighths((4, 8), 42))
        outside("psum_scatter", "jnp.sum(lax.psum_scatter(x, 'i', tiled=True) ** 2)", LOOSE, eighths((4, 8), 42))
        inside("all_to_all", "jnp.sum(lax.all_to_all(x, 'i', 0, 0) ** 2 * x)", LOOSE, eighths((4, 4), 43))
        outside("all_to_all", "jnp.sum(lax.all_to_all(x, 'i', 0, 0) ** 2 * x)", LOOSE, eighths((4, 4), 43))
        both = "pmap" if map_name == "pmap" else "vmap"
        common = dict(x=x4, w=w)
        case(f"grad_of_{map_name}_in_axes_none", f"grad(lambda w: jnp.sum({both}(lambda w, x: jnp.sum(w * x) ** 2, in_axes=(None, 0))(w, x)))(w)",
             rtol=LOOSE, **common)
        case(f"grad_of_{map_name}_in_axes_none_psum",
             f"grad(lambda w: jnp.sum({both}(lambda w, x: lax.psum(jnp.sum(w * x), 'i') ** 2, axis_name='i', in_axes=(None, 0))(w, x)))(w)",
             rtol=LOOSE, **common)
        case(f"grad_of_{map_name}_in_axes_none_pmean",
             f"grad(lambda w: {both}(lambda w, x: lax.pmean(jnp.sum(w * x) ** 2, 'i'), axis_name='i', in_axes=(None, 0))(w, x)[0])(w)",
             rtol=LOOSE, **common)
        case(f"grad_of_{map_name}_out_axes_none",
             f"grad(lambda x: {both}(lambda x: lax.psum(jnp.sum(x ** 2), 'i'), axis_name='i', out_axes=None)(x))(x)", rtol=LOOSE, x=x4)
        case(f"grad_of_{map_name}_closure", f"grad(lambda w: jnp.sum({both}(lambda x: lax.psum(jnp.sum(w * x), 'i') * x, axis_name='i')(x)))(w)",
             rtol=LOOSE, **common)
        case(f"grad_of_{map_name}_axes", f"grad(lambda x: jnp.sum({both}(lambda x: x ** 2 * lax.psum(x, 'i'), axis_name='i', in_axes=1, "
             "out_axes=1)(x)))(x)", rtol=LOOSE, x=x4)
        case(f"value_and_grad_in_{map_name}",
             f"{both}(lambda w, x: value_and_grad(lambda w: (jnp.sum((w * x) ** 2), jnp.sum(x)), has_aux=True)(w), axis_name='i', "
             "in_axes=(None, 0))(w, x)", rtol=LOOSE, **common)
        case(f"training_step_in_{map_name}",
             f"{both}(lambda w, x, y: (lambda lg: (w - 0.1 * lax.pmean(lg[1], 'i'), lax.pmean(lg[0], 'i')))"
             "(value_and_grad(lambda w: jnp.mean((jnp.dot(x, w) - y) ** 2))(w)), axis_name='i', in_axes=(None, 0, 0))(w, x, y)",
             rtol=LOOSE, w=w, x=eighths((4, 5, 3), 44), y=eighths((4, 5), 45))
        case(f"jvp_of_{map_name}", f"jvp({both}(lambda x: x / lax.psum(jnp.abs(x) + 1, 'i'), axis_name='i'), (x,), (t,))", rtol=LOOSE, x=x4,
             t=eighths((4, 3), 46))
        case(f"vjp_of_{map_name}_scatter", f"vjp({both}(lambda x: lax.psum_scatter(x, 'i', tiled=True), axis_name='i'), x)[1](t)", x=x4[:, :1].repeat(4, 1),
             t=eighths((4, 1), 47))
        case(f"vjp_of_{map_name}_gather", f"vjp({both}(lambda x: lax.all_gather(x, 'i'), axis_name='i'), x)[1](t)", x=x4, t=eighths((4, 4, 3), 48))
        if map_name == "vmap":  # in pmap, this release returns a gradient of another shape than the argument
            case(f"vjp_of_{map_name}_all_to_all", f"vjp({both}(lambda x: lax.all_to_all(x, 'i', 1, 0), axis_name='i'), x)[1](t)", x=eighths((4, 2, 4), 49),
                 t=eighths((4, 4, 2), 50))
        case(f"vjp_of_{map_name}_groups", f"vjp({both}(lambda x: lax.psum(x, 'i', axis_index_groups=[[0, 1], [2, 3]]), axis_name='i'), x)[1](t)",
             x=x4, t=eighths((4, 3), 51))
        case(f"hessian_in_{map_name}", f"{both}(lambda x: grad(lambda y: jnp.sum(grad(lambda z: lax.psum(jnp.sum(z ** 3), 'i'))(y)))(x), axis_name='i')(x)",
             rtol=LOOSE, x=x4)
    case("grad_nested_pmap", "grad(lambda x: jnp.sum(pmap(pmap(lambda v: v ** 2 * lax.psum(v, ('i', 'j')), axis_name='j'), axis_name='i')(x)))(x)",
         rtol=LOOSE, x=eighths((4, 2), 52))
    case("vmap_of_pmap", "vmap(pmap(lambda v: v / lax.psum(jnp.abs(v) + 1, 'i'), axis_name='i'))(x)", rtol=LOOSE, x=eighths((3, 4), 53))
    case("pmap_of_vmap_grad", "pmap(vmap(grad(lambda v: jnp.sin(v) * lax.axis_index('i'))), axis_name='i')(x)", rtol=LOOSE, x=eighths((4, 3), 54))
    case("remat_in_pmap", "pmap(grad(jax.checkpoint(lambda v: lax.psum(jnp.sum(jnp.sin(v)), 'i') ** 2)), axis_name='i')(x)", rtol=LOOSE, x=x4)


for target, families in {"pmap.txt": (seeds, axes, gradients), "collectives.txt": (collectives, nested), "narrow.txt": (narrow,)}.items():
    corpus = Corpus(__file__, f"known answers from jax {jax.__version__} with {jax.local_device_count()} CPU devices")
    for family in families:
        family()
    corpus.save(target)
print("\n".join(["refused by this release:", *failures]), file=sys.stderr)
