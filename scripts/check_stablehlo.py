#!/usr/bin/env python3
"""Parses StableHLO modules with MLIR, runs them with XLA's CPU client, and compares with the results in the same files.

Usage: check_stablehlo.py FOLDER, which has the files that tests/ops/test_stablehlo and tests/runtime/test_stablehlo_text wrote
(MF_STABLEHLO_DIR=FOLDER). Each has a line "op NAME REPLICAS MAPPED", lines "in" and "out" (dtype, mapped axes or -1, tolerance, dimensions,
bytes), and the module. Exits with 77 if jaxlib is missing, with 1 if a result differs.
"""
import glob
import math
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    import jax
    import ml_dtypes
    import numpy as np
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from jaxlib import _jax
    from jaxlib.mlir import ir
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

DEVICES = 8
DTYPES = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128,
}


def read_array(words):
    dtype, axes, tolerance, rest = words[1], [int(a) for a in words[2].split(",") if a != "-1"], float(words[3]), words[4:]
    dims = tuple(int(d) for d in rest[0].split(",")) if len(rest) == 2 else ()
    data = bytes.fromhex(rest[-1][2:])
    return np.frombuffer(data, DTYPES[dtype]).reshape(dims), axes, tolerance


def parse(text):
    with mlir.make_ir_context() as context:
        ir.Module.parse(text, context).operation.verify()


def row(array, axes, replica, replicas):
    """A replica's slice: one index along each mapped axis, the outermost map's first."""
    sizes = [array.shape[axis] for axis in axes]
    index = np.unravel_index(replica * math.prod(sizes) // replicas, sizes) if sizes else ()
    at = dict(zip(axes, index))
    return array[tuple(at.get(d, slice(None)) for d in range(array.ndim))]


def run(text, replicas, arguments):
    """Runs the module. Arguments and results are lists of lists: one list for each replica."""
    devices = jax.devices()[:replicas]
    options = compiler.get_compile_options(
        num_replicas=replicas, num_partitions=1, device_assignment=np.arange(replicas).reshape(replicas, 1))
    executable = devices[0].client.compile_and_load(text.encode(), _jax.DeviceList(tuple(devices)), options)
    sharding = NamedSharding(Mesh(np.array(devices), ("r",)), PartitionSpec("r"))
    held = []
    for k in range(len(arguments[0])):
        flat = [np.ascontiguousarray(of[k]).reshape(1, -1) for of in arguments]
        held.append(jax.device_put(np.concatenate(flat), sharding))
    results = executable.execute_sharded(held).disassemble_into_single_device_arrays()
    return [[np.asarray(shards[r]) for shards in results] for r in range(replicas)]


def near(got, want, tolerance):
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if want.dtype.kind not in "fcV":
        return bool(np.array_equal(got, want))
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide).ravel(), want.astype(wide).ravel()
    if want.dtype.kind == "c":
        a, b = a.view(np.float64), b.view(np.float64)
    same = (a == b) | ((tolerance < 0 or np.isnan(a)) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return bool(np.all(same | (np.abs(a - b) <= abs(tolerance) * np.maximum(1, np.abs(b)))))


def adjoint(a):
    return np.swapaxes(a, -1, -2).conj()


def factored(op, a, got, wanted, tolerance):
    """For eigh and svd, the signs of whose vectors depend on the method: whether the vectors are orthonormal and reconstruct the matrix. None for
    other ops."""
    if op == "eigh":
        a, pairs, vectors = (a + adjoint(a)) / 2, [(got[1], got[0], adjoint(got[1]))], [got[1], adjoint(got[1])]
    elif op == "svd" and len(got) == 3:
        k = got[0].shape[-1]
        pairs, vectors = [(got[1][..., :, :k], got[0], got[2][..., :k, :])], [got[1], adjoint(got[2])]
    else:
        return None
    if not near(got[0], wanted[0], tolerance) or any(g.shape != w.shape or g.dtype != w.dtype for g, w in zip(got, wanted)):
        return False
    if not all(np.isfinite(w).all() for w in wanted):
        return all(np.isnan(g).all() for g in got)
    for left, values, right in pairs:
        if not near((left * values[..., None, :]) @ right, a.astype(left.dtype), 8 * tolerance):
            return False
    return all(near(adjoint(v) @ v, np.broadcast_to(np.eye(v.shape[-1], dtype=v.dtype), v.shape[:-2] + 2 * (v.shape[-1],)), 4 * tolerance)
               for v in vectors)


def check(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    head, module = text[:text.index("module @")], text[text.index("module @"):]
    lines = [line.split() for line in head.splitlines()]
    replicas, mapped = int(lines[0][2]), lines[0][3] == "1"
    arguments = [read_array(words) for words in lines if words[0] == "in"]
    wanted = [read_array(words) for words in lines if words[0] == "out"]
    parse(module)
    if any(array.size == 0 for array, _, _ in arguments):
        return None  # has no rows to pass; parsing it was the test
    size = replicas if mapped else 1
    got = run(module, replicas, [[row(a, axes if mapped else [], r, replicas) for a, axes, _ in arguments] for r in range(replicas)])
    whole = factored(lines[0][1], arguments[0][0] if arguments else None, got[0], [w for w, _, _ in wanted], wanted[0][2])
    if whole is not None:
        return None if whole else f"the factors are {[g.tolist() for g in got[0]]}, expected {[w.tolist() for w, _, _ in wanted]}"
    for o, (want, axes, tolerance) in enumerate(wanted):
        for r in range(size):
            part = row(want, axes if mapped else [], r, replicas)
            if not near(got[r][o], part, tolerance):
                return f"result {o} of replica {r} is {got[r][o].tolist()}, expected {part.tolist()}"
    return None


def main():
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", DEVICES)
    jax.config.update("jax_platforms", "cpu")
    paths = sorted(glob.glob(os.path.join(sys.argv[1], "*.txt")))
    failed = 0
    for path in paths:
        try:
            wrong = check(path)
        except Exception as error:  # MLIR's and XLA's errors share no other base class
            wrong = str(error)[:600]
        if wrong:
            failed += 1
            with open(path, encoding="utf-8") as file:
                print(f"{path} ({file.readline().strip()}): {wrong}")
    print(f"{len(paths)} modules, {failed} failures")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
