"""What this machine can do at most: bytes read a second, multiply-adds a second, fbgemm's integer products."""

import ctypes
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("probe.c")
OUTPUTS, INPUTS = 3072, 576  # of the linear layer that fbgemm is given: the widest of the default model
GIGA = 1e9


OPERATIONS = 2  # a multiply and an add


class NoCompiler(Exception):
    """There is no C compiler, or it fails on the probe."""


def best_of(times: int, seconds: Callable[[], float]) -> float:
    """The shortest of several measurements: what the machine can do where nothing else disturbs it."""
    return min(seconds() for _ in range(times))


def timed(work: Callable[[], object]) -> float:
    """Seconds that the work took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def together(num_threads: int, work: Callable[[int], object]) -> float:
    """Seconds from when all threads could start until the last has done its part."""
    gate = threading.Barrier(num_threads + 1)

    def part(number: int) -> None:
        gate.wait()
        work(number)

    threads = [threading.Thread(target=part, args=(number,)) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    gate.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


@dataclass(frozen=True)
class Effort:
    """How long each figure is looked for: so many tries of so much work."""

    tries: int
    read_bytes: int
    rounds: int


WHOLE = Effort(tries=15, read_bytes=1 << 30, rounds=20_000_000)
SMOKE = Effort(tries=2, read_bytes=1 << 24, rounds=100_000)


class Probe:
    """The functions of probe.c, on several threads at once."""

    def __init__(self, library: Path, effort: Effort) -> None:
        self._effort = effort
        self._native = ctypes.CDLL(str(library))
        self._native.stride.restype = ctypes.c_size_t
        self._native.operations_in_a_round.restype = ctypes.c_size_t
        self._native.read_bytes.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
        self._native.read_bytes.restype = ctypes.c_uint64
        self._native.multiply_add.argtypes = (ctypes.c_size_t, ctypes.c_float)
        self._native.multiply_add.restype = ctypes.c_float

    def read_rate(self, num_bytes: int, num_threads: int) -> float:
        """Bytes a second from a buffer of about this size, each thread reading a part of its own."""
        stride: int = self._native.stride()
        share = num_bytes // num_threads // stride * stride
        times = max(1, self._effort.read_bytes // num_bytes)
        memory = torch.ones(share * num_threads, dtype=torch.uint8)

        def read(number: int) -> None:
            self._native.read_bytes(memory.data_ptr() + number * share, share, times)

        seconds = best_of(self._effort.tries, lambda: together(num_threads, read))
        return share * num_threads * times / seconds

    def multiply_add_rate(self, num_threads: int) -> float:
        """Floating-point operations a second in float32, vectors as wide as they come."""
        rounds = self._effort.rounds
        seconds = best_of(
            self._effort.tries, lambda: together(num_threads, lambda _: self._native.multiply_add(rounds, 0.5))
        )
        operations: int = self._native.operations_in_a_round()
        return num_threads * rounds * operations / seconds


def probe(effort: Effort) -> Probe:
    """The probe, compiled for this machine.

    Raises:
        NoCompiler: with what is missing or what the compiler said.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("the ceilings are measured by a small C program: there is no cc on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "probe.so"
        flags = ("-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC")
        built = subprocess.run([compiler, *flags, "-o", library, SOURCE], capture_output=True, text=True, check=False)
        if built.returncode:
            raise NoCompiler(f"cc can't build {SOURCE.name}: {built.stderr}")
        return Probe(library, effort)


def fbgemm_rate(num_rows: int, num_bytes: int, tries: int) -> float:
    """Operations a second of fbgemm's int8 product on so many rows, its layers together as large as num_bytes."""
    torch.backends.quantized.engine = "fbgemm"
    layers = [_fbgemm_layer() for _ in range(max(1, num_bytes // (OUTPUTS * INPUTS)))]
    rows = torch.randn(num_rows, INPUTS)

    def run() -> None:
        for layer in layers:
            torch.ops.quantized.linear_dynamic(rows, layer, reduce_range=False)

    operations = OPERATIONS * num_rows * OUTPUTS * INPUTS * len(layers)
    return operations / best_of(tries, lambda: timed(run))


def _fbgemm_layer() -> torch.ScriptObject:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated; it is the ceiling that integer kernels are held to
        scales, zeros = torch.full((OUTPUTS,), 0.02), torch.zeros(OUTPUTS, dtype=torch.long)
        weights = torch.quantize_per_channel(torch.randn(OUTPUTS, INPUTS), scales, zeros, 0, torch.qint8)
        layer: torch.ScriptObject = torch.ops.quantized.linear_prepack(weights, None)
        return layer
