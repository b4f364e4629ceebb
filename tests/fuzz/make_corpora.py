#!/usr/bin/env python3
"""Writes the fuzzers' initial corpora to corpus/<target>/ in this folder. The output is deterministic; run it again after its inputs change.

Programs: those of tests/transform/programs.txt that are self-contained. Arrays and data sets: one small file for every possible layout.
A crash that `make fuzz` finds is added by hand, under a name that describes the bug.
"""
import gzip
import io
import pathlib
import re
import struct
import zipfile

here = pathlib.Path(__file__).resolve().parent


def write(target, name, content):
    folder = here / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def programs():
    text = (here.parent / "transform" / "programs.txt").read_text()
    for block in re.split(r"^=== ", text, flags=re.M)[1:]:
        header, body = block.split("\n", 1)
        if "[" not in header:
            write("program", re.sub(r"[^a-z0-9]+", "_", header.split(":")[0].lower()) + ".txt", body.encode())
    write("program", "numbers.txt", b"""program (a: bf16[2], b: u64[1], c: c64[], k: key[]) {
  d: f32[4] = mul {nan, inf, -inf, -0.0}:f32[4] {1e-07, 3.4028235e+38, 1.0, 2.5}:f32[4]
  e: u64[1] = add b {18446744073709551615}:u64[1]
  f: i8[3] = neg {-128, 127, 0}:i8[3]
  g: bool[2] = and {true, false}:bool[2] {true, true}:bool[2]
  return a, d, e, f, g, c, k
}
""")
    write("program", "shapes.txt", b"""program (a: f32[2,0,3], b: f32[]*) {
  c: f32[0] = reshape[shape=(0)] a
  d: f32[1,2]* = broadcast_in_dim[shape=(1,2), broadcast_dimensions=()] b
  e: f32[1,2] = convert_element_type[dtype=f32, weak=false] d
  f: f32[3,2] = pad[low=(1,0), high=(1,0), interior=(0,0)] e 0.5:f32[]
  g: f32[2,3] = transpose[permutation=(1,0)] f
  h: f32[2] = reduce_sum[axes=(1)] g
  return c, h
}
""")


def npy(descr, shape, data, fortran=False, version=1):
    header = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    start = 10 if version == 1 else 12
    header += " " * ((64 - (start + len(header) + 1) % 64) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


def plans():
    for path in sorted((here.parent / "runtime" / "plans").glob("*.native.plan")):
        if path.stat().st_size < 1500:
            write("plan", path.name.split(".")[0] + ".txt", path.read_bytes())


def arrays():
    f32 = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    write("npy", "f4.npy", npy("<f4", "(2, 3)", f32))
    write("npy", "fortran.npy", npy("<f4", "(2, 3)", f32, fortran=True))
    write("npy", "big_endian.npy", npy(">f8", "(2,)", struct.pack(">2d", 1, -2)))
    write("npy", "version_2.npy", npy("<i2", "(3,)", struct.pack("<3h", -1, 0, 1), version=2))
    write("npy", "version_3.npy", npy("|u1", "(4,)", bytes(range(4)), version=3))
    write("npy", "bool.npy", npy("|b1", "(2, 1)", b"\x01\x00"))
    write("npy", "complex.npy", npy(">c8", "(1,)", struct.pack(">2f", 1, 2)))
    write("npy", "half.npy", npy("<f2", "()", b"\x00\x3c"))
    write("npy", "bfloat16.npy", npy("<V2", "(2,)", b"\x80\x3f\x00\x40"))
    write("npy", "empty.npy", npy("<f4", "(0, 3)", b""))
    write("npy", "long.npy", npy("<i8", "(1L, 1L)", struct.pack("<q", 7)))
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as z:
            for member in ("w.npy", "conv/kernel.npy", "readme.txt"):
                info = zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0))
                info.compress_type = method
                z.writestr(info, b"no array" if member.endswith("txt") else npy("<f4", "(2, 3)", f32))
        write("npz", name + ".npz", out.getvalue())
    for name, members in (("empty", []), ("one", ["a.npy"]), ("twice", ["a.npy", "b.npy"])):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            for member in members:
                z.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), npy("<i4", "(1,)", b"\x01\x00\x00\x00"))
        write("npz", name + ".npz", out.getvalue())


def tensors():
    def file(header, data=b""):
        return struct.pack("<Q", len(header)) + header.encode() + data

    def one(name, dtype, shape, begin, end, more=""):
        return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]{more}}}'

    f32 = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    write("safetensors", "one.safetensors", file("{" + one("w", "F32", "[2,3]", 0, 24) + "}", f32))
    write("safetensors", "two.safetensors", file('{"__metadata__":{"format":"pt","a":"\\ud83d\\ude00\\n"},' + one("a/b", "BF16", "[6]", 0, 12) +
          " , " + one("c.d", "U8", "[0,3]", 12, 12) + "," + one("e", "I64", "[]", 12, 20) + "," + one("f", "BOOL", "[4]", 20, 24) + "}  ", f32))
    write("safetensors", "unknown.safetensors", file("{" + one("w", "C64", "[3]", 0, 24, ',"x":[1,{"y":null},-2.5e3,"z",true]') + "}", f32))
    write("safetensors", "empty.safetensors", file("{}"))
    write("safetensors", "hole.safetensors", file("{" + one("a", "F32", "[2]", 0, 8) + "," + one("b", "F32", "[3]", 12, 24) + "}", f32))
    write("safetensors", "overlap.safetensors", file("{" + one("a", "F32", "[3]", 0, 12) + "," + one("b", "F32", "[4]", 8, 24) + "}", f32))
    write("safetensors", "twice.safetensors", file("{" + one("a", "F32", "[3]", 0, 12) + "," + one("a", "F32", "[3]", 12, 24) + "}", f32))
    write("safetensors", "deep.safetensors", file('{"a":{"x":' + "[" * 100 + "]" * 100 + "}}"))


def data_sets():
    def idx(code, sizes, data):
        return bytes([0, 0, code, len(sizes)]) + b"".join(struct.pack(">I", n) for n in sizes) + data

    images = idx(0x08, (2, 3, 2), bytes(range(12)))
    write("idx", "u1.idx", images)
    write("idx", "u1.gz", gzip.compress(images, mtime=0))
    write("idx", "i1.idx", idx(0x09, (3,), b"\xff\x00\x01"))
    write("idx", "i2.idx", idx(0x0B, (1, 2), struct.pack(">2h", -1, 2)))
    write("idx", "i4.idx", idx(0x0C, (2,), struct.pack(">2i", -1, 2)))
    write("idx", "f4.idx", idx(0x0D, (1,), struct.pack(">f", 0.5)))
    write("idx", "f8.gz", gzip.compress(idx(0x0E, (1, 1), struct.pack(">d", 0.5)), mtime=0))
    write("idx", "scalar.idx", idx(0x08, (), b"\x07"))
    write("idx", "none.idx", idx(0x08, (0, 28), b""))
    record = bytes([7]) + b"\x01" * 8
    write("cifar", "short.bin", record)
    write("cifar", "label.bin", bytes([77]) + record)
    write("cifar", "two.bin", (bytes([3]) + bytes(3072)) * 2)
    write("cifar", "empty.bin", b"")


def commands():
    """The commands of messages.c and watch.c."""
    def header(how, kind, tag, call, place, check, size, ident, rest=b""):
        return bytes([0, how, kind, 0, tag, call, place, check]) + struct.pack(">H", size) + bytes([ident, 0]) + rest

    receive = lambda count, words=0: bytes([3, words, count >> 8, count & 255])
    send = lambda count, words=0: bytes([3, 128 | words, count >> 8, count & 255])
    known = 1 | 2 | 4 | 8 | 16
    poll = bytes([7, 1])
    write("messages", "take.bin", bytes([0]) + receive(4) + header(known, 0, 0, 0, 0, 0, 4, 0, b"1234") + poll)
    write("messages", "early.bin", bytes([0]) + header(known, 0, 4, 0, 0, 0, 4, 0, b"1234psum") + poll + receive(4, 16) + poll)
    write("messages", "differs.bin", bytes([0]) + receive(4, 16) + header(known, 0, 4, 0, 0, 1, 4, 0, b"1234pmax") + poll)
    write("messages", "offer.bin", bytes([0]) + receive(40000) + header(known, 1, 0, 0, 0, 0, 40000, 1) + poll)
    write("messages", "go.bin", bytes([0]) + send(40000) + header(known, 2, 1, 0, 0, 0, 40000, 1) + poll)
    write("messages", "no.bin", bytes([0]) + send(40000) + header(known, 3, 0, 0, 0, 1, 4, 1, b"pmax") + poll)
    write("messages", "where.bin", bytes([0]) + receive(4) + header(known, 6, 0, 0, 0, 0, 4, 1, b"pmap") + poll)
    write("messages", "here.bin", bytes([0]) + receive(4) + header(known, 7, 1, 0, 2, 7, 20, 1, bytes(16) + b"here") + poll)
    write("messages", "over.bin", bytes([0]) + receive(4) + header(known, 8, 0, 0, 0, 2, 4, 0, b"sin\1") + poll)
    write("messages", "near.bin", bytes([1]) + receive(4) + header(known | 128, 0, 0, 0, 0, 0, 4, 0, b"1234\0") + poll)
    write("messages", "lent.bin", bytes([1]) + receive(40000) +
          bytes([0, 0xff & ~16, 1, 0, 0, 0, 0, 0]) + struct.pack(">H", 40000) + bytes([1, 0, 0, 0, 0, 1, 0, 0]) + poll)
    write("messages", "ends.bin", bytes([0]) + receive(4) + send(9) + bytes([5, 0, 6, 1, 7, 0, 1]))
    write("watch", "all.bin", bytes([1, 0, 8, 16, 0, 0, 1, 8, 0, 2, 16, 0, 3, 0, 1, 1, 1, 7, 15, 23]))
    write("watch", "strangers.bin", bytes([1, 0, 8, 16, 24, 0, 0, 4, 8, 0, 0, 16, 2, 24]) + bytes(30))
    write("watch", "twice.bin", bytes([1, 0, 8, 0, 0, 1, 8, 0, 1, 0, 1, 2, 1]))
    write("watch", "words.bin", bytes([0, 1, 3, 0, 1, 2, 1, 1, 2, 3, 1, 2, 2, 1, 4, 4]))
    write("watch", "welcome.bin", bytes([0, 1, 3, 0, 2, 5, 1, 2, 3, 4, 5]))


def texts():
    two, three = 0b00101010, 0b10101011  # how many operands, then their ranks less one or so: fuzz/subscripts.c
    for name, code, text in (("matmul", two, "ij,jk->ik"), ("dots", two, "...ij,...jk"), ("trace", 0b1001, "ii"),
                             ("three", three, "ij,jk,klm->im"), ("dots_at_the_end", two, "a...,b...->ab..."),
                             ("convolution", two, "NHWC,HWIO->NHWC"), ("channels_first", two, "NCHW,OIHW->NCHW")):
        write("subscripts", name + ".txt", bytes([code]) + text.encode())
    for name, text in (("all", "all"), ("steps", "trace,fuse,dce"), ("number", "12"), ("large", "99999999999999999999"),
                       ("negative", "-1"), ("commas", ",,fuse,")):
        write("settings", name + ".txt", text.encode())


programs()
plans()
arrays()
tensors()
data_sets()
texts()
commands()
