"""The rows of the benchmark: what is measured, under which conditions, the goal, and the limit of the machine that applies.

A row's workload is a name that both sides know (bench/workloads/*.c, peers/jax_bench.py). To add a row, add a workload on both sides and a
line here. A goal of 2 means twice as fast as the better peer (for memory: half as much).
"""
import dataclasses
import re

MIB = 1 << 20
HEAP_KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "-1", "MALLOC_TOP_PAD_": "268435456"}


@dataclasses.dataclass
class Row:
    name: str                       # of the row: the workload, and after @ what differs from the usual conditions
    workload: str = ""              # or PROCESS: a whole program, from its start to its first line
    title: str = ""
    group: str = "goals"            # goals are the table; the rest are points of a curve
    devices: int = 8
    processes: int = 1              # which share these devices
    link: str = ""                  # tcp: over the loopback device instead of shared memory
    cores: int = 0                  # 0: all cores of the run
    fresh: bool = False             # every round in a new process
    before: tuple = ()              # workloads called first in such a process
    peer_environment: dict = dataclasses.field(default_factory=dict)
    plugin: bool = False            # on a PJRT plugin; the peer uses its own devices of that kind
    memory_of: str = ""             # if set, this row is the peak memory of that row, instead of seconds
    goal: float = 0.0
    flops: float = 0.0              # in a call, for the limit "fma"
    kind: str = "f32"
    traffic: float = 0.0            # bytes that a call must at least read and write, for the limit "copy"
    reduced: float = 0.0            # bytes that an all-reduce reads, over all devices
    wait: float = 120.0             # timeout of one answer in seconds

    def limit(self, cores):
        """The name of the machine's limit in bench/limits.c."""
        threads = self.cores or cores
        if self.flops:
            return f"fma_{self.kind}_{threads}"
        return f"copy_{max(64, int(self.traffic / 2))}_{threads}" if self.traffic else ""

    def limits(self, cores):
        """The limits that are measured in a round: the row's own and, for an all-reduce, the copy that is plotted beside it."""
        return [name for name in (self.limit(cores), self.beside(cores)) if name]

    def beside(self, cores):
        return f"copy_{min(int(self.reduced), 512 * MIB)}_{self.cores or cores}" if self.reduced else ""

    @property
    def work(self):
        return self.flops or self.traffic


PROCESS = "process"


def cnn_flops(batch, channels=32):
    """Two per multiply-add; the forward pass and the gradients by weights and by inputs, except the first layer's inputs."""
    first, second = 1024 * 9 * 3 * channels, 256 * 9 * channels * 2 * channels
    return 2.0 * batch * (2 * first + 3 * second + 3 * 128 * channels * 10)


def dispatch():
    tiny = {"dispatch_double": "tiny call, `x*2`", "dispatch_psum": "tiny call with psum"}
    for workload, title in tiny.items():
        yield Row(workload, workload, title + ", warm", goal=100)
    yield Row("linear_regression_step", "linear_regression_step", "linear-regression step", goal=50)
    yield Row("first_call_dispatch_double@warm", "first_call_dispatch_double", "first call of `x*2`, warm process", fresh=True,
              before=("warming",), goal=50)
    yield Row("first_call_dispatch_double@cold", "first_call_dispatch_double", "the same, cold process", fresh=True, goal=10)
    yield Row("first_call_linear_regression_step@warm", "first_call_linear_regression_step",
              "first call of the linear-regression step, warm process", fresh=True, before=("warming",), goal=20)
    yield Row("first_call_linear_regression_step@cold", "first_call_linear_regression_step", "the same, cold process", fresh=True)
    for workload, title in tiny.items():
        for devices in (64, 1024):
            yield Row(f"{workload}@{devices}devices", workload, f"{title}, {devices:,} devices", group="devices", devices=devices, wait=40)


def all_reduce():
    for exponent in range(10, 29, 2):
        size = 1 << exponent
        name = f"{size >> 10}KiB" if size < MIB else f"{size >> 20}MiB"
        goal = {"1MiB": 8, "16MiB": 3, "64MiB": 10}.get(name, 0)
        yield Row(f"psum_{name}", f"psum_{name}", f"psum of {name.replace('M', ' M').replace('K', ' K')} a device",
                  group="goals" if goal else "all_reduce", goal=goal, traffic=9.0 * size, reduced=8.0 * size)


def cnn():
    flops = cnn_flops(128)
    yield Row("cnn_step_float32_128", "cnn_step_float32_128", "CNN step, f32, batch 128", goal=3, flops=flops)
    yield Row("cnn_step_float32_128@heap_kept", "cnn_step_float32_128", "the same, JAX's heap kept", goal=2.5, flops=flops,
              peer_environment=HEAP_KEPT)
    yield Row("first_call_cnn_step_float32_128@cold", "first_call_cnn_step_float32_128", "CNN, first call", fresh=True, goal=15)
    yield Row("cnn_step_bfloat16_128", "cnn_step_bfloat16_128", "CNN step, bf16 over f32 weights", goal=4, flops=flops, kind="bf16")
    yield Row("cnn_memory", title="CNN step, peak memory", memory_of="cnn_step_float32_128", goal=3)
    for devices in (1, 2, 4, 16):
        yield Row(f"cnn_step_float32_128@{devices}devices", "cnn_step_float32_128", f"CNN step, batch 128 over {devices} devices",
                  group="cnn_devices", devices=devices, flops=flops)
    for batch in (32, 64, 256, 512):
        yield Row(f"cnn_step_float32_{batch}", f"cnn_step_float32_{batch}", f"CNN step, batch {batch}", group="cnn_batch",
                  flops=cnn_flops(batch))
    for channels in (8, 16, 64, 128):
        yield Row(f"cnn_step_float32_128_c{channels}", f"cnn_step_float32_128_c{channels}", f"CNN step, {channels} and {2 * channels} channels",
                  group="cnn_channels", flops=cnn_flops(128, channels))


def transformer_flops(batch, width, layers=2, sequence=64, vocabulary=256):
    """Two per multiply-add; the forward pass and the gradients by weights and by inputs, of the products with weights, the two products of
    attention, and the head."""
    layer = 12 * width * width + 2 * sequence * width
    return 3 * 2.0 * batch * sequence * (layers * layer + width * vocabulary)


def transformer():
    yield Row("transformer_step_32_d128", "transformer_step_32_d128", "transformer step, 2 layers of 128, 32 sequences of 64",
              flops=transformer_flops(32, 128))


def resnet_flops(batch, width=16, side=28, stages=3, blocks=3):
    """Two per multiply-add; the forward pass and the gradients by weights and by inputs, except the first layer's inputs; the first block of a
    later stage halves the image."""
    first, others = side * side * 9 * width, 0
    for stage in range(stages):
        pixels, channels = ((side + (1 << stage) - 1) >> stage) ** 2, width << stage
        others += pixels * (2 * blocks * 9 * channels * channels - (stage > 0) * (9 - 1) * channels * channels // 2)
    return 2.0 * batch * (2 * first + 3 * others)


def dense():
    for n in (512, 1024, 2048):
        for cores in (1, 2):
            yield Row(f"matmul_{n}@{cores}core", f"matmul_{n}", f"matrix product {n}, {cores} thread{'s' * (cores > 1)}", devices=1, cores=cores,
                      goal=1, flops=2.0 * n**3)
    for n in (512, 1024, 2048):
        yield Row(f"matmul_bfloat16_{n}", f"matmul_bfloat16_{n}", f"bf16 matrix product {n}", devices=1, goal=1, flops=2.0 * n**3, kind="bf16")
    rows, classes = 4096, 1000
    logits = 4.0 * rows * classes
    yield Row("cross_entropy_4096x1000", "cross_entropy_4096x1000", "softmax cross-entropy, 4096 rows of 1000", devices=1, goal=2.5,
              traffic=logits)
    yield Row("cross_entropy_grad_4096x1000", "cross_entropy_grad_4096x1000", "the same, value_and_grad", devices=1, goal=2.5,
              traffic=2 * logits)
    yield Row("adam_16Mi", "adam_16Mi", "Adam, 16 Mi values", devices=1, goal=1.2, traffic=7.0 * 4 * 16 * MIB)
    yield Row("adam_1Mi", "adam_1Mi", "Adam, 1 Mi values", devices=1, goal=1.8, traffic=7.0 * 4 * MIB)
    yield Row("layer_norm_4096x1024", "layer_norm_4096x1024", "layer norm, 4096 rows of 1024", devices=1, goal=2, traffic=8.0 * 4096 * 1024)
    yield Row("tanh_exp_64Ki", "tanh_exp_64Ki", "tanh(x)·exp(x), 64 Ki values", devices=1, goal=1.4, traffic=8.0 * 65536)


def loops():
    yield Row("while_1000", "while_1000", "a scalar while loop, 1000 rounds", devices=1, goal=1)
    yield Row("fori_1000", "fori_1000", "a scalar fori loop, 1000 rounds", devices=1, goal=1)
    for units in (16, 64):
        yield Row(f"rnn_1000x{units}", f"rnn_1000x{units}", f"scan: a recurrent cell of {units} units, 1000 steps", devices=1, goal=1)
        yield Row(f"rnn_grad_1000x{units}", f"rnn_grad_1000x{units}", "its gradient", devices=1, goal=1)


def training():
    """Typical training workloads, compared with PyTorch too."""
    def row(workload, title, goal=1, name="", **more):
        return Row(name or workload, workload, title, group="training", goal=goal, **more)

    yield row("cnn_step_float32_128", "CNN step, f32, batch 128", goal=2, name="cnn_step@training", flops=cnn_flops(128))
    yield row("transformer_step_32_d128", "transformer step, 2 layers of 128, 32 sequences of 64", goal=2, name="transformer_step@training",
              flops=transformer_flops(32, 128))
    yield row("resnet_step_128", "residual network of 20 layers, step, batch 128 of 28 × 28", goal=2, flops=resnet_flops(128))
    for gradient, title in (("", "causal attention, batch 8, length 256, 8 heads of 64"), ("_grad", "its gradient")):
        yield row(f"attention{gradient}_256x64", title, devices=1)
    for gradient, title in (("", "LSTM of 128 units, 16 sequences of 1000 steps"), ("_grad", "its gradient")):
        yield row(f"lstm{gradient}_1000x128", title, goal=2, devices=1)
    values = 4.0 * 64 * 28 * 28 * 64
    for gradient, title, moved in (("", "batch normalisation, 64 images of 28 × 28, 64 channels", 2), ("_grad", "its gradient", 3)):
        yield row(f"batch_norm{gradient}_64x64", title, devices=1, traffic=moved * values)
    yield row("epoch_8192", "input pipeline: 8,192 images of 28 × 28, shuffled, cropped, flipped", devices=1)


def plugin():
    """Manyfold on a PJRT plugin, compared with JAX, which contains the same compiler: what differs is the overhead around it."""
    def row(workload, title, goal, **more):
        return Row(f"{workload}@plugin", workload, title, group="plugin", plugin=True, goal=goal, **more)

    yield row("dispatch_double", "tiny call, `x*2`, warm", 1.5)
    yield row("dispatch_psum", "tiny call with psum, warm", 1.5)
    yield row("linear_regression_step", "linear-regression step", 1.5)
    for size, goal in (("1KiB", 1.5), ("1MiB", 1), ("16MiB", 1)):
        yield row(f"psum_{size}", f"psum of {size.replace('M', ' M').replace('K', ' K')} a device", goal)
    yield row("cnn_step_float32_128", "CNN step, f32, batch 128", 1)
    yield row("cnn_step_bfloat16_128", "CNN step, bf16 over f32 weights", 1)
    yield row("transformer_step_32_d128", "transformer step, 2 layers of 128, 32 sequences of 64", 1)
    yield row("transformer_step_bfloat16_32_d128", "the same, bf16 over f32 weights", 1)
    yield row("to_device_64MiB", "64 MiB from the host to a device", 1)
    yield row("to_host_64MiB", "64 MiB from a device to the host", 1)
    for workload, title in (("dispatch_double", "`x*2`"), ("linear_regression_step", "the linear-regression step"),
                            ("cnn_step_float32_128", "the CNN's step")):
        yield row(f"first_call_{workload}", f"first call of {title}, cold process", 1, fresh=True)


def processes():
    """The devices divided among processes started by mpirun; goals are relative to the better of JAX over gloo and a local sum + MPI_Allreduce."""
    for count, each in ((2, 4), (4, 2), (2, 1)):
        for name in ("1KiB", "64KiB", "1MiB", "16MiB", "64MiB") if each > 1 else ("1KiB", "1MiB"):
            goal = 2 if (count, each) == (2, 4) and name.endswith("MiB") else 0.33 if name == "1KiB" else 1
            yield Row(f"psum_{name}@{count}x{each}", f"psum_{name}", f"psum of {name.replace('M', ' M').replace('K', ' K')} a device, "
                      f"{count} processes of {each}", group="processes", devices=count * each, processes=count, goal=goal)
    for name in ("1KiB", "64KiB", "1MiB", "16MiB", "64MiB"):
        yield Row(f"psum_{name}@2x4tcp", f"psum_{name}", f"psum of {name.replace('M', ' M').replace('K', ' K')} a device, 2 of 4, over TCP",
                  group="processes", processes=2, link="tcp")
    yield Row("linear_regression_step@2x4", "linear_regression_step", "linear-regression step, 2 processes of 4", group="processes",
              processes=2, goal=100)
    yield Row("cnn_step_float32_128@2x4", "cnn_step_float32_128", "CNN step, f32, batch 128, 2 processes of 4", group="processes",
              processes=2, goal=3.5, flops=cnn_flops(128))


def process():
    yield Row("first_result", PROCESS, "process start to first result printed", fresh=True, goal=50)
    yield Row("first_result_memory", title="the same, peak memory", memory_of="first_result", goal=10)


ROWS = [*dispatch(), *all_reduce(), *cnn(), *transformer(), *dense(), *loops(), *training(), *plugin(), *processes(), *process()]


def chosen(patterns):
    """The rows whose names or groups match one of the shell patterns; without patterns all rows. A memory row includes the row that it measures."""
    if not patterns:
        return list(ROWS)
    import fnmatch
    unknown = [p for p in patterns if not any(fnmatch.fnmatch(r.name, p) or r.group == p for r in ROWS)]
    if unknown:
        raise SystemExit(f"no row is called {', '.join(unknown)}; --list shows them")
    named = [r for r in ROWS if any(fnmatch.fnmatch(r.name, p) or r.group == p for p in patterns)]
    also = {r.memory_of for r in named}
    return [r for r in ROWS if r in named or r.name in also]


def file_name(row):
    return re.sub(r"[^A-Za-z0-9_@]", "_", row.name) + ".json"
