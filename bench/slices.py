#!/usr/bin/env python3
"""Summarises a trace of MF_PROFILE: where the time of a workload goes.

    MF_PROFILE=trace.json build/bench/workloads --devices 1 --repeat 9 --only NAME; bench/slices.py trace.json [lines]

A line is a slice's row and operations: the number of calls, the median, and its share of all work, computed from medians so that first calls
and disturbances do not count. Slices in which the host only waits are left out.
"""
import collections
import json
import statistics
import sys


def main():
    with open(sys.argv[1]) as f:
        events = json.load(f)["traceEvents"]
    groups = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X" and e["cat"] in ("device", "collective"):
            groups[e["cat"], e["name"], " ".join(e.get("args", {}).get("source", [])[:1])].append(e["dur"])
    repeated = {key: d for key, d in groups.items() if len(d) > 4}
    total = sum(len(d) * statistics.median(d) for d in repeated.values())
    lines = sorted(repeated.items(), key=lambda kv: -len(kv[1]) * statistics.median(kv[1]))
    for (row, name, source), d in lines[:int(sys.argv[2]) if len(sys.argv) > 2 else 12]:
        print(f"{100 * len(d) * statistics.median(d) / total:5.1f} %  {len(d):5} x {statistics.median(d):9.1f} µs  {row:10} {source:28} {name[:110]}")


if __name__ == "__main__":
    main()
