#!/usr/bin/env python3
"""Measures Manyfold's workloads and the peers' side by side, and writes one table.

    compare.py [--build build] [--out build/bench] [--peer PYTHON ...] [--only PATTERN ...] [--resume] [--repeat 7] [--list] [--table]
               [--document PAGE]

A round runs a row's workload once on each side, and measures the machine's own limit for it, so that a machine whose speed drifts slows all
of them equally; a ratio is the median over rounds of theirs / ours. Each row runs in separate processes, so its memory is measured separately.
Each row is written to OUT/rows/ when it is done; --resume continues an interrupted run. From all rows the script makes OUT/table.md,
table.json and the curves (SVG). A peer is a Python interpreter with jax or torch; without peers only Manyfold is measured.
"""
import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time

import report
import rows as table
from side import Side, first_line

HERE = os.path.dirname(os.path.abspath(__file__))
MPIRUN = ["--oversubscribe", "--bind-to", "none", *(["--allow-run-as-root"] if os.getuid() == 0 else [])]
TCP = ["--mca", "btl", "tcp,self"]
# Prints the versions of a peer's Python; the first of these packages that it has is the peer.
VERSIONS = {"jax": "import jax, jaxlib, numpy, platform, json; print(json.dumps({'python': platform.python_version(), "
                   "'jax': jax.__version__, 'jaxlib': jaxlib.__version__, 'numpy': numpy.__version__}))",
            "torch": "import torch, platform, json; print(json.dumps({'python': platform.python_version(), 'torch': torch.__version__}))"}
TITLES = {"jax": "JAX", "torch": "PyTorch"}


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine(cores):
    lines = dict(line.split(":", 1) for line in output("lscpu").splitlines() if ":" in line)
    caches = {k: v.strip() for k, v in lines.items() if "cache" in k}
    try:
        with open("/proc/cpuinfo") as f:
            model = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.machine()
    flags = lines.get("Flags", "").split()
    return {"cpu": model, "cores": os.cpu_count(), "cores_used": len(cores), "caches": caches, "kernel": platform.release(),
            "libc": " ".join(platform.libc_ver()), "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "vector": [f for f in ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd") if f in flags]}


def ours(build):
    with open(os.path.join(build, "CMakeCache.txt")) as f:
        cache = dict(line.strip().split("=", 1) for line in f if "=" in line and line[0] not in "#/")
    compiler = next((v for k, v in cache.items() if k.startswith("CMAKE_C_COMPILER:")), "cc")
    kind = next((v for k, v in cache.items() if k.startswith("CMAKE_BUILD_TYPE:")), "")
    return {"commit": output("git", "-C", HERE, "describe", "--always", "--dirty", "--exclude=*"), "build": kind,
            "compiler": output(compiler, "--version").split("\n")[0]}


class Bench:
    def __init__(self, options):
        self.options, self.build = options, options.build
        usable = sorted(os.sched_getaffinity(0))
        self.cores = usable[:options.cores] if options.cores else usable
        self.out = options.out or os.path.join(self.build, "bench")
        self.rows_folder = os.path.join(self.out, "rows")
        os.makedirs(self.rows_folder, exist_ok=True)
        self.peers = [self.peer(python) for python in options.peer]
        self.program = os.path.join(self.build, "bench", "workloads")
        self.limits = Side([os.path.join(self.build, "bench", "limits")], cores=set(self.cores))

    def peer(self, python):
        for package, question in VERSIONS.items():
            versions = json.loads(output(python, "-c", question) or "{}")
            if versions:
                script = os.path.join(HERE, "peers", f"{package}_bench.py")
                return {"python": python, "label": f"{TITLES[package]} {versions[package]}", "versions": versions, "package": package,
                        "script": script, "workloads": set(output(python, script, "--list").split())}
        sys.exit(f"{python} has neither of {', '.join(VERSIONS)}")

    def path(self, row):
        return os.path.join(self.rows_folder, table.file_name(row))

    def sides(self, row):
        cores = set(self.cores[:row.cores] if row.cores else self.cores)
        tail = ["--devices", str(row.devices // row.processes)]
        if row.processes > 1:
            yield from self.jobs(row, cores, tail)
            return
        if row.plugin:
            yield from self.on_plugin(row, cores)
            return
        yield "Manyfold", Side([self.program, *tail], cores=cores)
        for peer in self.known(row):
            yield peer["label"], Side([peer["python"], peer["script"], *tail], row.peer_environment, cores)

    def on_plugin(self, row, cores):
        """Environment: the plugin's devices for Manyfold and, for JAX, as many devices of the same kind."""
        devices = str(self.options.devices)
        options = {"MF_PJRT_OPTIONS": os.environ.get("MF_PJRT_OPTIONS", f"cpu_device_count={devices}" if self.options.platform == "cpu" else "")}
        ours = {"MF_DEFAULT_BACKEND": "plugin", "MF_PJRT_PLUGIN": f"{os.path.abspath(self.options.plugin)},plugin", "TF_CPP_MIN_LOG_LEVEL": "3"}
        yield "Manyfold", Side([self.program, "--devices", devices], {**options, **ours}, cores)
        for peer in self.known(row):
            yield peer["label"], Side([peer["python"], peer["script"], "--devices", devices], {"BENCH_PLATFORM": self.options.platform}, cores)

    def known(self, row):
        """The peers that have the row's workload. Only JAX has rows about a whole process, several processes, or a plugin."""
        if row.workload == table.PROCESS or row.processes > 1 or row.plugin:
            return [peer for peer in self.peers if peer["package"] == "jax"]
        return [peer for peer in self.peers if row.workload in peer["workloads"]]

    def jobs(self, row, cores, tail):
        """The sides of a row over several processes: none without an MPI launcher; no MPI_Allreduce without mpicc."""
        launcher = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
        if not launcher:
            return
        launch = [launcher, *MPIRUN, *(TCP if row.link == "tcp" else []), "-n", str(row.processes)]
        ours = {"MF_SHARED_MEMORY": "off"} if row.link == "tcp" else {}
        yield "Manyfold", Side([*launch, self.program, *tail], ours, cores)
        if row.workload.startswith("psum_") and self.allreduce():
            bound = ["core" if word == "none" and row.processes <= len(cores) else word for word in launch]   # else two spinning ranks share a core
            yield "MPI_Allreduce", Side([*bound, self.allreduce(), *tail], cores=cores)
        for peer in self.known(row):
            command = [peer["python"], peer["script"], "--processes", str(row.processes), *tail]
            yield peer["label"], Side(command, row.peer_environment, cores)
            if row.devices == row.processes and os.environ.get("MPITRAMPOLINE_LIB"):   # JAX's MPI collectives allow one device per process
                yield peer["label"] + " mpi", Side([*command, "--mpi", " ".join([launcher, *MPIRUN])], row.peer_environment, cores)

    def allreduce(self):
        """Compiles peers/mpi_allreduce.c; "" if there is no mpicc or no MPI headers."""
        program, source = os.path.join(self.out, "mpi_allreduce"), os.path.join(HERE, "peers", "mpi_allreduce.c")
        compiler = shutil.which("mpicc.openmpi") or shutil.which("mpicc")
        stale = not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source)
        if stale and (not compiler or subprocess.run([compiler, "-O3", "-march=native", source, "-o", program], stderr=subprocess.DEVNULL).returncode):
            return ""
        return program

    def process(self, row):
        """The rounds of a row that measures a whole process."""
        commands = [("Manyfold", [os.path.join(self.build, "bench", "first_result"), str(row.devices)])]
        commands += [(p["label"], [p["python"], os.path.join(HERE, "peers", "jax_first_result.py"), str(row.devices)]) for p in self.known(row)]
        return [(label, lambda command=command: first_line(command, set(self.cores))) for label, command in commands]

    def questions(self, row, sides):
        def ask(side):
            for name in row.before if row.fresh else ():
                side.ask(name, row.wait)
            answer = side.ask(row.workload, row.wait)
            if row.fresh:
                side.close()
            return answer
        return [(label, lambda side=side: ask(side)) for label, side in sides]

    def measure(self, row):
        sides = [] if row.workload == table.PROCESS else list(self.sides(row))
        try:
            return self.rounds(row, sides)
        finally:
            for _, side in sides:
                side.close(patience=0 if sys.exc_info()[0] else 5)

    def rounds(self, row, sides):
        began = time.monotonic()
        asked = self.process(row) if row.workload == table.PROCESS else self.questions(row, sides)
        found = [{"label": label, "seconds": [], "rss_mib": 0.0} for label, _ in asked]
        limits = {name: [] for name in row.limits(len(self.cores))}
        for turn in range(self.options.repeat):
            if turn >= 3 and time.monotonic() - began > self.options.seconds:
                break
            for name, rates in limits.items():
                rates.append(self.limits.ask(name).get("rate"))
            for k in range(len(asked)):
                i = (k + turn) % len(asked)
                if "error" in found[i]:
                    continue
                answer = asked[i][1]()
                if "error" in answer:
                    found[i]["error"] = answer["error"]
                    continue
                found[i]["seconds"].append(answer["seconds"])
                found[i]["rss_mib"] = max(found[i]["rss_mib"], answer["rss_mib"])
        libraries = sides[0][1].libraries() if sides else []
        result = {"row": row.name, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "sides": found, "limits": limits,
                  "peers": {p["label"]: p["versions"] for p in self.peers}, "ours": ours(self.build), "machine": machine(self.cores),
                  "libraries": [name for name in libraries if name.startswith(("libLLVM", "libdnnl", "libmanyfold", "libgomp"))]}
        with open(self.path(row) + ".new", "w") as f:
            json.dump(result, f, indent=1)
        os.replace(self.path(row) + ".new", self.path(row))
        return result

    def done(self, row):
        """Whether this row has been measured already, with the same peers."""
        try:
            with open(self.path(row)) as f:
                return {p["label"] for p in self.known(row)} <= {side["label"] for side in json.load(f)["sides"]}
        except (OSError, ValueError):
            return False

    def pending(self, wanted):
        return [row for row in wanted if not row.memory_of and not (self.options.resume and self.done(row))]

    def run(self, wanted):
        for row in self.pending(wanted):
            result = self.measure(row)
            print(report.line(row, result), flush=True)
        self.limits.close()


def main():
    parser = argparse.ArgumentParser(description="Our workloads beside the peers', interleaved.")
    parser.add_argument("--build", default=os.environ.get("MF_BUILD_DIR", "build"))
    parser.add_argument("--out", help="where the rows and the table go; BUILD/bench unless said")
    parser.add_argument("--peer", action="append", default=[], metavar="PYTHON", help="a Python with jax or torch; may be given again")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="rows by name or group; shell patterns")
    parser.add_argument("--repeat", type=int, default=7, help="rounds of a row")
    parser.add_argument("--seconds", type=float, default=10, help="after so long a row ends with three rounds")
    parser.add_argument("--cores", type=int, default=2, help="use the first of the cores that we may use; 0: all of them")
    parser.add_argument("--plugin", metavar="PATH", help="a PJRT plugin: without one, the rows of the group plugin are left out")
    parser.add_argument("--platform", default="cpu", help="what JAX calls the plugin's devices: cpu, cuda")
    parser.add_argument("--devices", type=int, default=8, help="so many of the plugin's devices")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are measured already")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    parser.add_argument("--workloads", action="store_true", help="print the workloads that the rows ask for and stop")
    parser.add_argument("--pending", action="store_true", help="print the rows that --resume would still measure and stop")
    parser.add_argument("--table", action="store_true", help="only write the table anew, from the rows that are measured")
    parser.add_argument("--document", metavar="PAGE", help="put the figures into this page too (docs/PERFORMANCE.md)")
    options = parser.parse_args()
    wanted = table.chosen(options.only)
    if options.list:
        for row in wanted:
            print(f"{row.name:45} {row.group:12} {row.title}")
        return
    if options.workloads:
        print("\n".join(sorted({name for row in wanted for name in (row.workload, *row.before) if name and name != table.PROCESS})))
        return
    wanted = [row for row in wanted if options.plugin or not row.plugin]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))   # so that the sides are terminated too
    bench = Bench(options)
    if options.pending:
        print("".join(row.name + "\n" for row in bench.pending(wanted)), end="")
        return
    if not options.table:
        bench.run(wanted)
    report.write(bench.out, bench.rows_folder, options.document)


if __name__ == "__main__":
    main()
