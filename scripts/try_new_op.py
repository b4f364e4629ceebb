#!/usr/bin/env python3
"""Adds an elementwise function, exp10, to a copy of the tree, and builds and runs the tests of ops: `make new-op`.

Shows the places that a new op has to edit: its definition, its kernel's definition, ops.def and the prototype. No test is edited; that the tests
cover the op nevertheless is shown by a wrong derivative, with which they must fail.
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MATH = "src/ops/elementwise/math.c"
RIGHT, WRONG = "2.302585092994046", "2.3"
ROW = """/* ---- roots */
DERIVATIVE(exp10_jvp, e_scale(b, e_mul(b, t, y), %s))
MF_EVALUATE1(exp10_evaluate, exp10, NULL, NULL, NULL)
static const char *const exp10_samples[] = { "f32[2,3]{-2:2}", "f64[3]{-2:2}", "f32[3]{=-inf,0,inf} -> f32[3]{=0,1,inf}", "bf16[3]{-2:2}", NULL };
MF_HLO_RULE(exp10_hlo) { out[0] = h_binary(h, "power", h_full(h, e->out[0]->type, 10), in[0]); }
MATH_ROW(exp10, mf_type_float1, 16, true, MF_HLO_BY(exp10_hlo));
""" % RIGHT
EDITS = [  # file, old text, new text
    ("src/ops/ops.def", "F(exp2) ", "F(exp2) F(exp10) "),
    (MATH, "/* ---- roots */\n", ROW),
    ("src/backend/native/kernels/tile/tile.inc", "LIBM1(cosh, cosh) ", "LIBM1(cosh, cosh) LIBM1(exp10, exp10) "),
    ("src/backend/native/kernels/tile/tile.inc", "VIA_DOUBLE1(cosh) ", "VIA_DOUBLE1(cosh) VIA_DOUBLE1(exp10) "),
    ("src/backend/native/kernels/tile/tile.inc", "X(cosh, s) X(lgamma, s)", "X(cosh, s) X(exp10, s) X(lgamma, s)"),
    ("include/manyfold/numpy.h", "mf_value mf_exp2(mf_value x);\n", "mf_value mf_exp2(mf_value x);\nmf_value mf_exp10(mf_value x);\n"),
]
TARGETS = ["ops_test_ops", "ops_test_functions", "backend_test_differential", "backend_test_kernels"]
TESTS = "^(ops/test_(ops|functions)|backend/test_(differential|kernels)$|house/(ops|names|includes|headers)|base/test_numbers)"


def run(*command, **more):
    return subprocess.run(command, cwd=ROOT, check=True, **more)


def edit(copy, name, before, after):
    path = os.path.join(copy, name)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(before) != 1:
        sys.exit(f"try_new_op: {name} has '{before.strip()}' {text.count(before)} times: this script has to follow it")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(before, after))


def build(copy, *targets):
    run("cmake", "--build", f"{copy}/build", "--target", *targets, stdout=subprocess.DEVNULL)


def main():
    with tempfile.TemporaryDirectory(prefix="new_op_") as copy:
        for name in run("git", "ls-files", "-z", stdout=subprocess.PIPE, text=True).stdout.split("\0")[:-1]:
            os.makedirs(os.path.dirname(os.path.join(copy, name)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), os.path.join(copy, name))
        for name, before, after in EDITS:
            edit(copy, name, before, after)
        run("cmake", "-G", "Ninja", "-S", copy, "-B", f"{copy}/build", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DMF_WERROR=ON",
            stdout=subprocess.DEVNULL)
        build(copy, *TARGETS)
        run("ctest", "--test-dir", f"{copy}/build", "-R", TESTS, "-j", "2", "--output-on-failure")
        edit(copy, MATH, RIGHT, WRONG)
        build(copy, "ops_test_ops")
        wrong = subprocess.run([f"{copy}/build/tests/ops/test_ops"], stdout=subprocess.PIPE, text=True, check=False)
        if wrong.returncode == 0 or "exp10" not in wrong.stdout:
            sys.exit("try_new_op: no test sees a derivative that is wrong")
    names = sorted({name for name, _, _ in EDITS})
    print(f"try_new_op: exp10 needed {len(names)} files: {', '.join(names)}; the tests saw it, and saw when it was wrong")


if __name__ == "__main__":
    main()
