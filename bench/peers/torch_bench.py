#!/usr/bin/env python3
"""PyTorch's side of the benchmark: the workloads that have a counterpart there, driven like jax_bench.py.

    torch_bench.py --list             print the names of the workloads, one per line, and exit
    torch_bench.py [--devices 8]      read names from standard input; after each, run that workload once more

A step on many devices becomes a step with the whole batch in one process, with as many threads as there are cores: replicas that share the
cores of one machine would only be slower. Execution is eager, as is usual in training with PyTorch; convolutions are channels-last, which is
faster here. Modules are torch.nn's where there is one. PyTorch draws the random numbers, with the same shapes and scales. Debian's PyTorch
uses libblas.so.3 for matrix products, which should be OpenBLAS. The answers have the format of jax_bench.py's.
"""
import time

STARTED = time.perf_counter()

import argparse  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402

from peer import Peer, names, workload  # noqa: E402


def normal(torch, seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def whole_numbers(torch, seed, end, *shape):
    return torch.randint(0, end, shape, generator=torch.Generator().manual_seed(seed))


def gradient(loss, leaves):
    """A call that computes the loss and the gradients of the leaves."""
    def call():
        for leaf in leaves:
            leaf.grad = None
        loss().backward()
    return call


# ---- layers alone

def attention(length, depth):
    """Composed of matrix products, because this release has no fused attention. Heads come before positions, as the products need it."""
    def outputs(torch, q, k, v):
        before = torch.ones(length, length, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-1, -2) / math.sqrt(depth)).masked_fill(~before, -math.inf)
        return torch.softmax(scores, -1) @ v

    @workload(f"attention_{length}x{depth}", 5)
    def forward(torch):
        arrays = [normal(torch, i, 8, 8, length, depth) for i in range(3)]

        def call():
            with torch.no_grad():
                outputs(torch, *arrays)
        return call

    @workload(f"attention_grad_{length}x{depth}", 3)
    def backward(torch):
        arrays = [normal(torch, i, 8, 8, length, depth).requires_grad_() for i in range(3)]
        return gradient(lambda: outputs(torch, *arrays).square().mean(), arrays)


attention(256, 64)


def long_short_term(steps, units):
    def made(torch):
        return torch.nn.LSTM(units, units, batch_first=True), normal(torch, 2, 16, steps, units)

    @workload(f"lstm_{steps}x{units}", 1)
    def forward(torch):
        lstm, x = made(torch)

        def call():
            with torch.no_grad():
                lstm(x)
        return call

    @workload(f"lstm_grad_{steps}x{units}", 1)
    def backward(torch):
        lstm, x = made(torch)
        return gradient(lambda: lstm(x)[0].square().mean(), list(lstm.parameters()))


long_short_term(1000, 128)


def batch_norm(images, channels):
    def made(torch):
        x, weights = (normal(torch, seed, images, channels, 28, 28).contiguous(memory_format=torch.channels_last) for seed in (1, 2))
        return torch.nn.BatchNorm2d(channels, momentum=0.01), x, weights

    @workload(f"batch_norm_{images}x{channels}", 2)
    def forward(torch):
        norm, x, _ = made(torch)

        def call():
            with torch.no_grad():
                norm(x)
        return call

    @workload(f"batch_norm_grad_{images}x{channels}", 2)
    def backward(torch):
        norm, x, weights = made(torch)
        x.requires_grad_()
        return gradient(lambda: (norm(x) * weights).mean(), [x, *norm.parameters()])


batch_norm(64, 64)


# ---- the input pipeline

@workload("epoch_8192", 1)
def epoch(torch):
    """A DataLoader that yields whole batches of tensors in memory, cropped and flipped by tensor operations: the fastest way in PyTorch."""
    from torch.utils import data
    images, labels = whole_numbers(torch, 0, 256, 8192, 1, 28, 28).to(torch.uint8), whole_numbers(torch, 1, 10, 8192)

    class Rows(data.Dataset):
        def __len__(self):
            return len(images)

        def __getitem__(self, rows):
            return images[rows], labels[rows]

    loader = data.DataLoader(Rows(), batch_size=None, sampler=data.BatchSampler(data.RandomSampler(images), 128, drop_last=True))

    def augment(x):
        n = len(x)
        padded, at = torch.nn.functional.pad(x, (2, 2, 2, 2)), torch.randint(0, 5, (2, n))
        rows, columns = (a[:, None] + torch.arange(28) for a in at)
        columns = torch.where(torch.rand(n, 1) < 0.5, columns.flip(1), columns)
        x = padded[torch.arange(n)[:, None, None], 0, rows[:, :, None], columns[:, None, :]]
        return (x.float() / 255 - 0.2860) / 0.3530

    def call():
        for x, _ in loader:
            augment(x)
    return call


# ---- training steps

def training(torch, model, optimizer, loss):
    def call():
        optimizer.zero_grad(set_to_none=True)
        loss(model).backward()
        optimizer.step()
    return call


def cnn(batch):
    @workload(f"cnn_step_float32_{batch}", 3)
    def prepare(torch):
        nn = torch.nn
        model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                              nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4096, 10)).to(memory_format=torch.channels_last)
        images = normal(torch, 3, batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
        labels = whole_numbers(torch, 4, 10, batch)
        adam = torch.optim.Adam(model.parameters(), foreach=True)
        return training(torch, model, adam, lambda m: nn.functional.cross_entropy(m(images), labels))


for size in (32, 64, 128, 256, 512):
    cnn(size)


def transformer(batch, width, layers=2, heads=4, sequence=64, vocabulary=256):
    @workload(f"transformer_step_{batch}_d{width}", 3)
    def prepare(torch):
        nn = torch.nn

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
                self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
                self.register_buffer("after", ~torch.ones(sequence, sequence, dtype=torch.bool).tril())

            def forward(self, x):
                q, k, v = (a.view(batch, sequence, heads, -1).transpose(1, 2) for a in self.qkv(self.norm1(x)).chunk(3, -1))
                scores = (q @ k.transpose(-1, -2) * (width / heads)**-0.5).masked_fill(self.after, -math.inf)
                x = x + self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.shape))
                return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(0.05 * normal(torch, 1, sequence, width))
                self.layers, self.norm = nn.Sequential(*(Layer() for _ in range(layers))), nn.LayerNorm(width)

            def forward(self, tokens):
                return self.norm(self.layers(self.embedding(tokens) + self.positions)) @ self.embedding.weight.T

        model = Model()
        tokens, labels = (whole_numbers(torch, seed, vocabulary, batch, sequence) for seed in (10, 11))
        return training(torch, model, torch.optim.SGD(model.parameters(), 0.1, foreach=True),
                        lambda m: nn.functional.cross_entropy(m(tokens).flatten(0, 1), labels.flatten()))


transformer(32, 128)


def resnet(batch, width=16, stages=3, blocks=3, classes=10):
    @workload(f"resnet_step_{batch}", 1)
    def prepare(torch):
        nn = torch.nn

        def conv(fan_in, fan_out, size, stride=1):
            return nn.Conv2d(fan_in, fan_out, size, stride, padding=size // 2, bias=False)

        def norm(features):
            return nn.BatchNorm2d(features, momentum=0.1)

        class Block(nn.Module):
            def __init__(self, fan_in, fan_out):
                super().__init__()
                stride = 1 if fan_in == fan_out else 2
                self.first = nn.Sequential(conv(fan_in, fan_out, 3, stride), norm(fan_out), nn.ReLU())
                self.second = nn.Sequential(conv(fan_out, fan_out, 3), norm(fan_out))
                self.shortcut = nn.Sequential(conv(fan_in, fan_out, 1, stride), norm(fan_out)) if stride > 1 else nn.Identity()

            def forward(self, x):
                return nn.functional.relu(self.shortcut(x) + self.second(self.first(x)))

        outs = [width << i // blocks for i in range(stages * blocks)]
        model = nn.Sequential(conv(1, width, 3), norm(width), nn.ReLU(), *map(Block, [width, *outs], outs), nn.AdaptiveAvgPool2d(1),
                              nn.Flatten(), nn.Linear(outs[-1], classes)).to(memory_format=torch.channels_last)
        images = normal(torch, 200, batch, 1, 28, 28).contiguous(memory_format=torch.channels_last)
        labels = whole_numbers(torch, 201, classes, batch)
        groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 5e-4},
                  {"params": [p for p in model.parameters() if p.dim() == 1]}]
        descent = torch.optim.SGD(groups, 0.001, momentum=0.9, nesterov=True, foreach=True)
        return training(torch, model, descent,
                        lambda m: nn.functional.cross_entropy(m((images - 0.286) / 0.353), labels, label_smoothing=0.1))


resnet(128)


class Bench(Peer):
    def __init__(self):
        super().__init__()
        import torch
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.package, self.startup = torch, time.perf_counter() - STARTED
        self.title = {"peer": f"torch {torch.__version__}"}


def main():
    parser = argparse.ArgumentParser(description="PyTorch's side of the benchmark, one repetition a name.")
    parser.add_argument("--devices", type=int, default=8, help="has no effect: a step is of the whole batch")
    parser.add_argument("--list", action="store_true", help="print the names of the workloads and stop")
    if parser.parse_args().list:
        print("\n".join(names()))
        return
    Bench().serve()


main()
