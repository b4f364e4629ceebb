#!/usr/bin/env python3
"""Writes tiny pictures with pillow 13.0.0 to images/CLASS/, and the pixels that it reads from them, for data/test_sources.

images.txt has one line for each file, sorted by name: the path, the label, and the bytes of 6 by 8 pixels (red, green, blue).
"""
import pathlib

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent / "images"


def picture(seed, channels):
    y, x, c = np.mgrid[0:6, 0:8, 0:channels]
    return ((x * 29 + y * 37 + c * 53 + seed * 71) % 256).astype(np.uint8)


def smooth(seed):
    y, x, c = np.mgrid[0:6, 0:8, 0:3]
    return (40 + 12 * x + 9 * y + 20 * c + seed).astype(np.uint8)


def main():
    for name in ("ant", "bee"):
        (HERE / name).mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture(1, 3)).save(HERE / "ant/1.png", optimize=True)
    Image.fromarray(picture(2, 3)).convert("P", palette=Image.Palette.ADAPTIVE).save(HERE / "ant/2.png", optimize=True)
    Image.fromarray(picture(3, 1)[:, :, 0]).save(HERE / "ant/3.PNG", optimize=True)
    Image.fromarray(smooth(4)).save(HERE / "bee/1.jpg", quality=90, subsampling=0, optimize=True)
    Image.fromarray(smooth(5)).save(HERE / "bee/2.jpeg", quality=85, progressive=True)
    Image.fromarray(smooth(6)[:, :, 0]).save(HERE / "bee/3.jpg", quality=95)
    with open(HERE / "images.txt", "w") as out:
        print("# by images.py, pillow 13.0.0", file=out)
        for label, name in enumerate(("ant", "bee")):
            for path in sorted((HERE / name).iterdir()):
                pixels = np.asarray(Image.open(path).convert("RGB"))
                print(f"{name}/{path.name}", label, *pixels.reshape(-1), file=out)


main()
