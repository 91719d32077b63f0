"""Ways to compute one model: those that a server can choose, by the engine's own code."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from benchmarks.precision.resident import held_bytes
from benchmarks.precision.ways import Way
from config.settings import CacheSettings, ModelSettings
from engine.cache.reading import read_layout
from engine.model.assemble import Sizes, assemble
from engine.model.load import open_model
from engine.step import Plan, Table


@dataclass(frozen=True, slots=True)
class Room:
    """What each subject must hold."""

    num_positions: int  # of a window
    max_rows: int  # of a step
    num_threads: int
    num_tables: int = 1  # of the model's layout

    @property
    def num_blocks(self) -> int:
        """Blocks of the usual size that hold a window."""
        return -(-self.num_positions // CacheSettings().block_size)

    @property
    def sizes(self) -> Sizes:
        """What one sequence takes."""
        return Sizes(self.num_blocks * self.num_tables, CacheSettings().block_size, self.max_rows)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The block tables of the one sequence."""
        count = self.num_blocks
        return tuple(Table(tuple(range(number * count, (number + 1) * count))) for number in range(self.num_tables))


class Runs(Protocol):
    """A forward pass over one sequence."""

    def run(self, plan: Plan) -> Tensor:
        """Logits [rows that need them, vocabulary] float32, valid until the next run."""
        ...

    def close(self) -> None:
        """End what it keeps running."""
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that is ready to run, and the memory that it takes."""

    forward: Runs
    weight_bytes: int  # by which memory grew while they were read; the file's mapped pages are not among them
    position_bytes: int  # of the cache


def num_tables_of(path: str) -> int:
    """Block tables that the model's layout has. Raises ModelError."""
    opened = open_model(ModelSettings(path=path), progress=_ignore)
    return read_layout(opened.config, "float32", in_lanes=False).num_tables


def make_subject(path: str, way: Way, room: Room, *, progress: Callable[[str], None]) -> Subject:
    """Load the model that way, as the server does. Raises ModelError."""
    progress(f"loading: {way}")
    settings = ModelSettings(path=path, kernels=way.kernels, weights=way.weights, num_threads=room.num_threads)
    cache = CacheSettings(dtype=way.cache)
    parts = assemble(open_model(settings, progress=_ignore), settings, cache, progress=_ignore)
    before = held_bytes()
    with torch.inference_mode():
        forward = parts.make_forward(room.sizes)
    return Subject(forward, held_bytes() - before, parts.layout.block_bytes(1))


def _ignore(_: str) -> None:
    """Loading has steps that nobody here waits for."""
