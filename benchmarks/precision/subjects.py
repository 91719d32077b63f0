"""Ways to compute one model: those that a server can choose, by the engine's own code."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from benchmarks.precision.resident import held_bytes
from benchmarks.precision.ways import Way
from config.settings import CacheSettings, ModelSettings
from engine.model.assemble import Sizes, assemble
from engine.model.load import open_model
from engine.step import Plan


@dataclass(frozen=True, slots=True)
class Room:
    """What each subject must hold."""

    num_positions: int  # of a window
    max_rows: int  # of a step
    num_threads: int

    @property
    def sizes(self) -> Sizes:
        """In blocks of the usual size."""
        block_size = CacheSettings().block_size
        return Sizes(-(-self.num_positions // block_size), block_size, self.max_rows)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The block table of the one sequence."""
        return tuple(range(self.sizes.num_blocks))


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
