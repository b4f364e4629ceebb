#!/usr/bin/env python3
"""Writes small files with the safetensors library (0.8.0, with numpy 2.4.6) to safetensors/, for io/test_safetensors.

    safetensors_files.py                writes the files
    safetensors_files.py --read FILE    prints what the library reads, one line per tensor: name, dtype, shape, bytes in hexadecimal

The C test builds the same arrays, and the files that it writes must equal these byte for byte.
"""
import json
import pathlib
import struct
import sys

import numpy as np
from safetensors import TensorSpec, deserialize, serialize

FOLDER = pathlib.Path(__file__).resolve().parent / "safetensors"
DTYPES = ("bool uint8 int8 int16 uint16 float16 int32 uint32 float32 complex64 float64 int64 uint64").split()


def tensor(dtype, shape, numbers):
    if dtype == "bfloat16":  # small integers, so their f32 bits end in zeros
        data = b"".join(struct.pack("<f", n)[2:] for n in numbers)
    else:
        data = np.array(numbers, dtype=dtype).tobytes()
    return dtype, shape, np.frombuffer(data or b"", np.uint8)


def write(name, tensors, metadata=None):
    specs = {k: TensorSpec(dtype=d, shape=s, data_ptr=a.ctypes.data, data_len=a.nbytes) for k, (d, s, a) in tensors.items()}
    (FOLDER / name).write_bytes(bytes(serialize(specs, metadata=metadata)))


def main():
    FOLDER.mkdir(exist_ok=True)
    every = {f"every/{d}": tensor(d, [2, 3], [0, 1, 2, 3, 100, 5]) for d in [*DTYPES, "bfloat16"]}
    write("every.safetensors", every)
    write("names.safetensors", {
        "model.layers.0.weight": tensor("float32", [1, 2, 1], [0.5, -2]),
        'quote"back\\slash\n\u00e9\U0001f600\x01': tensor("int32", [], [7]),
        "empty": tensor("float32", [0, 3], []),
        "none": tensor("uint8", [0], []),
    }, {"format": "pt"})


def read(path):
    for name, t in sorted(deserialize(open(path, "rb").read())):
        print(json.dumps(name), t["dtype"], t["shape"], bytes(t["data"]).hex())


if __name__ == "__main__":
    read(sys.argv[2]) if sys.argv[1:2] == ["--read"] else main()
