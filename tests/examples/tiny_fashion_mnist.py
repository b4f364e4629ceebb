#!/usr/bin/env python3
"""Writes a tiny data set in Fashion-MNIST's format that a network learns at once: tiny_fashion_mnist.py FOLDER TRAIN TEST [columns].

The image of label k is grey noise with a bright band of rows, or of columns, two to a label, from number 4 + 2 k on. Labels go round: image i has i % 10."""
import gzip
import os
import sys


def write(folder, name, magic, sizes, data):
    header = magic.to_bytes(4, "big") + b"".join(size.to_bytes(4, "big") for size in sizes)
    with gzip.GzipFile(os.path.join(folder, name + ".gz"), "wb", mtime=0) as file:
        file.write(header + bytes(data))


def image(index, state, columns):
    pixels = bytearray()
    for row in range(28):
        for column in range(28):
            state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
            pixels.append((state >> 26) + (190 if ((column if columns else row) - 4) // 2 == index % 10 else 0))
    return pixels, state


def main():
    folder, state = sys.argv[1], 1
    os.makedirs(folder, exist_ok=True)
    for prefix, count in (("train", int(sys.argv[2])), ("t10k", int(sys.argv[3]))):
        pixels = bytearray()
        for index in range(count):
            more, state = image(index, state, len(sys.argv) > 4)
            pixels += more
        write(folder, prefix + "-images-idx3-ubyte", 0x803, (count, 28, 28), pixels)
        write(folder, prefix + "-labels-idx1-ubyte", 0x801, (count,), (index % 10 for index in range(count)))


main()
