#!/usr/bin/env python3
"""Augmented images from known keys, written to augment.npz. The random draws are jax.random's and resizing is jax.image's (jax 0.10.2); the rest is NumPy."""
import jax
import jax.numpy as jnp
import numpy as np

N, H, W, C = 5, 6, 7, 2
IMAGES = (np.arange(N * H * W * C).reshape(N, H, W, C) * 37 % 256).astype(np.uint8)
FLOATS = (IMAGES / np.float32(256)).astype(np.float32)
LABELS = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 1]]


def crop(key, x, padding, height, width):
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    most = np.array([H + 2 * padding - height + 1, W + 2 * padding - width + 1])
    at = np.asarray(jax.random.randint(key, (N, 2), 0, most))
    return np.stack([p[y:y + height, x:x + width] for p, (y, x) in zip(padded, at)])


def flip(key, x, p):
    turned = np.asarray(jax.random.bernoulli(key, p, (N, 1, 1, 1)))
    return np.where(turned, x[:, :, ::-1], x)


def cutout(key, x, size):
    out = x.copy()
    for image, (y, x) in zip(out, np.asarray(jax.random.randint(key, (N, 2), 0, np.array([H, W])))):
        y, x = y - size // 2, x - size // 2
        image[max(y, 0):max(y + size, 0), max(x, 0):max(x + size, 0)] = 0
    return out


def mixup(key, x, y, alpha):
    keys = jax.random.split(key, 3)
    a, b = jax.random.gamma(keys[0], alpha), jax.random.gamma(keys[1], alpha)
    l, order = a / (a + b), jax.random.permutation(keys[2], jnp.arange(N))
    return [np.asarray(l * v + (1 - l) * v[order]) for v in (x, y)]


def resized():
    """Each method with and without antialiasing, to fewer rows and more columns."""
    out = {}
    for method in ("linear", "cubic", "lanczos3", "lanczos5", "nearest"):
        out[f"resize_{method}"] = np.asarray(jax.image.resize(FLOATS, (N, 4, 11, C), method))
        out[f"resize_{method}_plain"] = np.asarray(jax.image.resize(FLOATS, (N, 2, 5, C), method, antialias=False))
    out["resize_bytes"] = np.asarray(jax.image.resize(IMAGES, (N, 3, 3, C), "linear"))
    return out


def main():
    key = jax.random.PRNGKey
    images, labels = mixup(key(5), FLOATS, LABELS, 0.4)
    np.savez_compressed("augment.npz", images=IMAGES, floats=FLOATS, labels=LABELS, crop=crop(key(1), IMAGES, 3, H, W),
                        crop_4_5=crop(key(2), FLOATS, 0, 4, 5), flip=flip(key(3), IMAGES, 0.5), cutout=cutout(key(4), FLOATS, 3),
                        mixed_images=images, mixed_labels=labels, **resized())


main()
