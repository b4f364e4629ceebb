"""Writes known answers as lines that a C test reads with strtok and strtod; README.md describes the format."""
import math
import os
import sys

import ml_dtypes
import numpy as np

NAMES = {"bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
         "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
         "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
         "complex64": "c64", "complex128": "c128"}
DTYPES = {short: np.dtype(ml_dtypes.bfloat16 if short == "bf16" else long) for long, short in NAMES.items()}
FNV_OFFSET, FNV_PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def host(a):
    return np.asarray(a)


def name_of(a):
    return NAMES[host(a).dtype.name]


def is_float(a):
    return host(a).dtype.name in ("float16", "bfloat16", "float32", "float64")


def dims_of(a):
    return ",".join(map(str, host(a).shape)) or "-"


def hexfloat(value):
    """float.hex without the zeros at the end of the mantissa; strtod reads it back exactly."""
    mantissa, p, exponent = float(value).hex().partition("p")
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + p + exponent


def tokens(a):
    """The elements in row-major order: floats as C99 hex floats (exact), integers in decimal, bool as 0 and 1."""
    a = host(a)
    if a.dtype.kind == "c":
        return [hexfloat(v) for z in a.ravel() for v in (z.real, z.imag)]
    if is_float(a):
        return [hexfloat(v) for v in a.astype(np.float64).ravel()]
    return [str(int(v)) for v in a.ravel()]


def array_line(word, a):
    return " ".join([word, name_of(a), dims_of(a), *tokens(a)])


def attribute(value):
    """One token without blanks: numbers in decimal, lists with commas, lists of lists as lo:hi,lo:hi."""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (tuple, list)):
        if value and isinstance(value[0], (tuple, list)):
            return ",".join(":".join(map(str, row)) for row in value)
        return ",".join(map(attribute, value)) or "-"
    return str(value)


def fnv1a(a):
    """64-bit FNV-1a over the little-endian bytes in row-major order."""
    h = FNV_OFFSET
    for byte in np.ascontiguousarray(host(a)).tobytes():
        h = ((h ^ byte) * FNV_PRIME) & MASK
    return h


def digest_line(a):
    """A large array in one line; the sums are exact and then rounded to double (math.fsum)."""
    a = host(a)
    flat, wide = a.ravel(), a.astype(np.float64).ravel()
    return " ".join(["digest", name_of(a), dims_of(a), f"fnv={fnv1a(a):016x}",
                     f"sum={hexfloat(math.fsum(wide))}", f"sumsq={hexfloat(math.fsum(wide * wide))}",
                     "first=" + ",".join(tokens(flat[:4])), "last=" + ",".join(tokens(flat[-4:]))])


class Corpus:
    """Collects lines; `save` writes them to a file beside the script, after a line that names the script."""

    def __init__(self, script, about):
        self.script, self.cases = os.path.basename(script), 0
        self.lines = [f"# made by {self.script}: {about}"]

    def add(self, *lines):
        self.lines.extend(lines)

    def op(self, name, inputs, outputs, source=None, **attributes):
        """One case: the op with its attributes, a line for each input, a line for each output."""
        self.cases += 1
        self.add("", " ".join(["op", name] + [f"{k}={attribute(v)}" for k, v in attributes.items() if v is not None]))
        if source:
            self.add("# " + source)
        self.add(*(array_line("in", a) for a in inputs), *(array_line("out", a) for a in outputs))

    def save(self, name=None):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name or self.script.replace(".py", ".txt"))
        text = "\n".join(self.lines) + "\n"
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        print(f"{path}: {self.cases} cases, {len(text)} bytes", file=sys.stderr)
