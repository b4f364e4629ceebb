"""One side of the comparison: a program that reads names of workloads, one per line, and answers each with one JSON line."""
import json
import os
import select
import subprocess
import tempfile
import time


class Side:
    """Starts the program at the first question. If the program ends or does not answer in time, every later answer is that error."""

    def __init__(self, command, environment=None, cores=None):
        self.command = command
        self.environment = {**os.environ, **(environment or {})}
        self.cores = cores
        self.process, self.rest, self.ready, self.failed = None, b"", {}, None

    def start(self, more=()):
        self.errors = tempfile.TemporaryFile()
        cores = self.cores
        self.process = subprocess.Popen([*self.command, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=self.environment, preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
        self.rest = b""

    def line(self, seconds):
        """The next line; None if the program ends or the time is up."""
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                self.failed = f"no answer in {seconds:.0f} s"
                return None
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                self.failed = self.why()
                return None
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()

    def why(self):
        """How the program ended, and the last line that it printed."""
        code = self.process.wait()
        self.errors.seek(0)
        said = [line.strip() for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        last = next((line for line in said if line.startswith("F")), said[-1] if said else "")   # a fatal log line, if there is one
        return (f"ended by signal {-code}" if code < 0 else f"ended with {code}") + (f": {last[:300]}" if last else "")

    def ask(self, name, seconds=120):
        if self.failed:
            return {"name": name, "error": self.failed}
        if self.process is None:
            self.start()
            line = self.line(seconds)
            if line is None:
                return {"name": name, "error": self.failed}
            self.ready = json.loads(line)
        try:
            self.process.stdin.write(name.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.line(seconds)
        return json.loads(line) if line else {"name": name, "error": self.failed}

    def close(self, patience=5.0):
        """Ends the program, by force if it is not waiting for a question. The next question starts it again, unless it failed."""
        if self.process is None:
            return
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(0 if self.failed else patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        self.process = None

    def libraries(self):
        """The shared libraries that the running program has loaded."""
        try:
            with open(f"/proc/{self.process.pid}/maps") as f:
                names = {line.split()[-1] for line in f if ".so" in line}
        except (OSError, AttributeError):
            return []
        return sorted({os.path.basename(os.path.realpath(name)) for name in names})


def first_line(command, cores=None):
    """The seconds from the start of a program to its first line, and its peak memory, which it prints in its second line."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, close_fds=False,
                               preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
    process.stdout.readline()
    seconds = time.perf_counter() - start
    memory = process.stdout.readline().split()
    process.stdout.close()
    if process.wait() or len(memory) < 2:
        return {"error": f"ended with {process.returncode}"}
    return {"seconds": seconds, "rss_mib": int(memory[1]) / 1024}
