#!/usr/bin/env python3
"""Alternates our workloads with a peer's and prints the ratios.

    compare.py OURS [--repeat 7] [--devices 8] [--only NAME...] [--json FILE] [PEER COMMAND...]

Each round runs every workload once on one side, then on the other, so that a machine whose speed drifts slows both. A ratio is the
median over rounds of theirs / ours. Memory is asked of a fresh process for each side and workload. Several peers: separate their
commands with "+". Without a peer our side alone is printed.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys

NAMES = ["first_call_dispatch_double", "dispatch_double", "first_call_dispatch_psum", "dispatch_psum", "first_call_linear_regression_step",
         "linear_regression_step", "psum_1MiB", "psum_16MiB", "psum_64MiB", "first_call_cnn_step_float32_128", "cnn_step_float32_128",
         "cnn_step_bfloat16_128", "matmul_512", "matmul_1024", "matmul_2048", "cross_entropy_4096x1000", "cross_entropy_grad_4096x1000",
         "adam_1Mi", "adam_16Mi", "layer_norm_4096x1024", "tanh_exp_64Ki"]


class Side:
    def __init__(self, command):
        self.command, self.process = command, None

    def ask(self, name):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
            self.process.stdout.readline()
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"name": name, "error": "the process ended"}

    def close(self):
        if self.process:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
            self.process.wait()
            self.process = None


def cpu():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def measure(sides, name, repeat):
    """Seconds by side and round, and the peak memory of a process that did nothing else."""
    seconds, memory = [[] for _ in sides], [0.0] * len(sides)
    once = name.startswith("first_call_")
    for _ in range(3 if once else repeat):
        for i, side in enumerate(sides):
            answer = side.ask(name)
            if "error" in answer:
                seconds[i].append(float("nan"))
                continue
            seconds[i].append(answer["seconds"])
            memory[i] = answer["rss_mib"]
            if once:  # a first call needs a fresh process
                side.close()
    for side in sides:
        side.close()
    return seconds, memory


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ours")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--json")
    parser.add_argument("--peer", action="append", default=[], help="a peer's command, one string; may be given again")
    args = parser.parse_args()
    tail = ["--devices", str(args.devices)]
    sides = [Side([args.ours] + tail)] + [Side(peer.split() + tail) for peer in args.peer]
    rows = []
    print(f"{cpu()}, {os.cpu_count()} cores, {args.devices} devices, {args.repeat} rounds, sides in turn\n")
    print("| workload | ours | " + " | ".join(f"peer {i + 1} | ratio" for i in range(len(args.peer))) + (" | " if args.peer else "") + "memory, MiB |")
    print("|---|---" + "|---|---" * len(args.peer) + "|---|")
    for name in args.only or NAMES:
        seconds, memory = measure(sides, name, args.repeat)
        cells, row = [f"{statistics.median(seconds[0]) * 1e3:.4g} ms"], {"name": name, "ours_s": seconds[0], "ours_mib": memory[0], "peers": []}
        for i in range(1, len(sides)):
            ratio = statistics.median(theirs / ours for theirs, ours in zip(seconds[i], seconds[0]))
            cells += [f"{statistics.median(seconds[i]) * 1e3:.4g} ms", f"{ratio:.2f}"]
            row["peers"].append({"command": " ".join(sides[i].command), "seconds": seconds[i], "ratio": ratio, "mib": memory[i]})
        cells.append(" / ".join(f"{m:.0f}" for m in memory))
        rows.append(row)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"cpu": cpu(), "cores": os.cpu_count(), "devices": args.devices, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
