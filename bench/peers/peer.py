"""What the peers' sides of the benchmark share: workloads by name, rounds of calls, and the protocol with a driver (see jax_bench.py)."""
import json
import sys
import time

ROUND_SECONDS = 0.02   # a shorter round is measured again with more calls
WORKLOADS = {}   # name -> (function of the package, and for JAX devices, that returns the call to time; calls a round at least)


def workload(name, calls):
    def register(prepare):
        WORKLOADS[name] = (prepare, calls)
        return prepare
    return register


def first_calls():
    """The names of the figures for the workloads' first calls."""
    return {f"first_call_{name}": name for name in WORKLOADS}


def names():
    return ["startup", *first_calls(), *WORKLOADS]


def rss_mib():
    """This process's peak memory; getrusage() would include the parent's before exec."""
    with open("/proc/self/status") as f:
        return round(next(int(line.split()[1]) for line in f if line.startswith("VmHWM:")) / 1024, 1)


class Peer:
    """Runs rounds of calls. A subclass defines its `title`, and `startup`, the seconds until its devices were usable."""
    first = True   # whether this process answers; only process 0 does

    def __init__(self):
        self.ready, self.rounds = {}, {}

    def prepare(self, name):
        return WORKLOADS[name][0](self.package)

    def wait(self, result):
        """Waits for the result of a call, where calls are asynchronous."""

    def agree(self, seconds):
        """Process 0's value."""
        return seconds

    def prepared(self, name):
        """The call to time, and the seconds that the first call took."""
        if name not in self.ready:
            call = self.prepare(name)
            self.ready[name] = call, self.mean(call, 1)
            self.mean(call, 1)   # jax 0.10.2 compiles once more when the inputs come back from the devices
        return self.ready[name]

    def mean(self, call, calls):
        start = time.perf_counter()
        for _ in range(calls):
            self.wait(call())
        return (time.perf_counter() - start) / calls

    def once(self, name):
        self.rounds[name] = self.rounds.get(name, 0) + 1
        if name == "startup":
            return {"seconds": self.startup, "calls": 1}
        firsts = first_calls()
        if name in firsts:
            return {"seconds": self.prepared(firsts[name])[1], "calls": 1}
        calls = WORKLOADS[name][1]
        call, _ = self.prepared(name)
        seconds = self.agree(self.mean(call, calls))
        if calls * seconds < ROUND_SECONDS:
            calls = int(ROUND_SECONDS / seconds) + 1
            seconds = self.mean(call, calls)
        return {"seconds": seconds, "calls": calls}

    def emit(self, name, **figures):
        if self.first:
            print(json.dumps({**self.title, "name": name, **figures, "rss_mib": rss_mib()}), flush=True)

    def run(self, name):
        try:
            figures = self.once(name)
        except Exception as error:
            known = name in names()
            self.emit(name, error=f"{type(error).__name__}: {error}".splitlines()[0] if known else "unknown workload")
        else:
            self.emit(name, **figures, round=self.rounds[name])

    def serve(self, asked=None):
        """Answers the given names or, without any, those on standard input, one per line."""
        self.emit("ready", seconds=self.startup)
        for name in asked or map(str.strip, iter(sys.stdin.readline, "")):
            if name:
                self.run(name)
