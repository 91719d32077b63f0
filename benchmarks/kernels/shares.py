"""How near each kernel comes to what the machine allows: the cases, their shares, and the targets."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch

from benchmarks.kernels.attention import CACHES, NUM_LAYERS, Decoding
from benchmarks.kernels.ceilings import OPERATIONS, Effort, Probe, fbgemm_rate
from benchmarks.kernels.linears import STORAGES, Layers, Storage
from benchmarks.kernels.programs import Machine
from engine.model.kernels.native import Kind

SHAPES = ((3072, 576), (576, 1536))  # outputs and inputs of the default model's widest layers
MIN_BANDWIDTH_SHARE = 0.85  # of a linear layer on one row
MIN_SHARE = 0.75  # of a linear layer from SEVERAL rows on
SEVERAL = 16
MAX_TIMES = 1.5  # of decode attention: the time that its cache's bytes take


@dataclass(frozen=True)
class Extent:
    """How much is measured: the bytes that a kernel reads in one go, and the sizes of its cases."""

    num_bytes: int
    rows: tuple[int, ...]
    sequences: tuple[int, ...]
    contexts: tuple[int, ...]
    effort: Effort


class Ceilings:
    """What the machine allows, each figure measured when it is first asked for."""

    def __init__(self, probe: Probe, num_threads: int, extent: Extent) -> None:
        self.num_threads, self.extent = num_threads, extent
        self.read = cache(probe.read_rate)
        self.multiply_add = cache(probe.multiply_add_rate)
        self.fbgemm = cache(self._fbgemm)

    def _fbgemm(self, num_rows: int) -> float:
        torch.set_num_threads(self.num_threads)
        return fbgemm_rate(num_rows, self.extent.num_bytes, self.extent.effort.tries)

    def product(self, storage: Storage, num_rows: int) -> float:
        """Operations a second that a linear layer is held to, if it has rows enough."""
        plain = storage.kind in {Kind.F32, Kind.F16, Kind.BF16}
        return self.multiply_add(self.num_threads) if plain else self.fbgemm(num_rows)


@dataclass(frozen=True)
class LinearShare:
    """One linear layer on so many rows."""

    storage: Storage
    outputs: int
    inputs: int
    num_rows: int
    num_bytes: int
    seconds: float
    allowed: float

    @property
    def share(self) -> float:
        """Of what is allowed."""
        return self.allowed / self.seconds

    @property
    def met(self) -> bool:
        """Whether it is near enough."""
        return self.share >= (MIN_SHARE if self.num_rows >= SEVERAL else MIN_BANDWIDTH_SHARE)


def linears(machine: Machine, ceilings: Ceilings) -> Iterator[LinearShare]:
    """Each shape in each storage on each number of rows."""
    extent = ceilings.extent
    read = ceilings.read(extent.num_bytes, ceilings.num_threads)
    for outputs, inputs in SHAPES:
        for storage in STORAGES:
            layers = Layers(machine.library, storage, outputs, inputs, extent.num_bytes)
            for num_rows in extent.rows:
                allowed = layers.layer_bytes / read
                if num_rows >= SEVERAL:
                    operations = OPERATIONS * num_rows * outputs * inputs
                    allowed = max(allowed, operations / ceilings.product(storage, num_rows))
                seconds = layers.seconds(machine, num_rows, extent.effort.tries)
                yield LinearShare(storage, outputs, inputs, num_rows, layers.layer_bytes, seconds, allowed)


@dataclass(frozen=True)
class AttentionShare:
    """Decode attention of one layer."""

    cache: str
    num_sequences: int
    context: int
    seconds: float
    allowed: float

    @property
    def times(self) -> float:
        """How many times what is allowed it takes."""
        return self.seconds / self.allowed

    @property
    def met(self) -> bool:
        """Whether it is near enough."""
        return self.times <= MAX_TIMES


def attention(machine: Machine, ceilings: Ceilings) -> Iterator[AttentionShare]:
    """Each cache with each number of sequences and each context."""
    extent = ceilings.extent
    for kind in CACHES:
        for context in extent.contexts:
            for num_sequences in extent.sequences:
                decoding = Decoding(kind, num_sequences, context)
                allowed = decoding.num_bytes / ceilings.read(decoding.num_bytes, ceilings.num_threads)
                seconds = decoding.seconds(machine, extent.effort.tries)
                yield AttentionShare(kind.name, num_sequences, context, seconds / NUM_LAYERS, allowed / NUM_LAYERS)
