"""One layer's heads and attention over a paged cache, and the same in float64."""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from engine.model.kernels.cache import CacheForm, native_cache
from engine.model.kernels.native import (
    Attention,
    Cache,
    CacheType,
    Format,
    Heads,
    Level,
    NormKind,
    Op,
    Rotary,
    Span,
    Step,
)
from tests.engine.model.kernels.machine import Machine, opened, the_library

LANES = 16
OTHERS = -(2**30)  # a place that no layer may look at
OTHERS_BYTES = 192  # of other layers, before and behind a layer's own in a unit
STORED = {CacheType.F32: torch.float32, CacheType.BF16: torch.bfloat16, CacheType.INT8: torch.int8}


def whole_lanes(dim: int) -> int:
    return -(-dim // LANES) * LANES


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of a layer's attention."""

    kv_heads: int = 2
    group: int = 3  # query heads of a kv head
    key_dim: int = 32
    value_dim: int = 32
    block_size: int = 16
    type: CacheType = CacheType.BF16
    latent: bool = False  # V is the beginning of K

    @property
    def heads(self) -> int:
        return self.kv_heads * self.group

    @property
    def width(self) -> int:
        """Of a row of queries, keys and values."""
        of_values = 0 if self.latent else self.kv_heads * self.value_dim
        return (self.heads + self.kv_heads) * self.key_dim + of_values


@dataclass(frozen=True, slots=True)
class Turned:
    """What is done to queries and keys on their way."""

    rotary: Rotary = Rotary.NONE
    cos: Tensor | None = None  # [positions, pairs]
    sin: Tensor | None = None
    norm_kind: NormKind = NormKind.RMS
    norm_whole: bool = False
    query_norm: Tensor | None = None
    key_norm: Tensor | None = None
    eps: float = 1e-5
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What of the context a query heeds."""

    window: int = 0
    chunk: int = 0
    softcap: float = 0.0
    sinks: Tensor | None = None  # [heads]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive positions of a sequence: its block table from block `first` on, and the rows [length, width]."""

    start: int
    table: tuple[int, ...]
    rows: Tensor
    first: int = 0

    @property
    def positions(self) -> Tensor:
        return torch.arange(self.start, self.start + len(self.rows), dtype=torch.int32)


class PagedCache:
    """The cache's memory, which begins as what is no number, or as what others left there.

    K of all units lies together, and so do V and the scales; or `mixed`, a unit has all of them and more.
    """

    def __init__(self, shape: Shape, num_blocks: int, *, stale: bool = False, mixed: bool = False) -> None:
        groups = (shape.kv_heads, shape.block_size // LANES)
        key_dim, value_dim = whole_lanes(shape.key_dim), whole_lanes(shape.value_dim)
        apart = shape.type is CacheType.F32
        key_shape = (key_dim, LANES) if apart else (key_dim // 2, LANES, 2)
        value_shape = (LANES, value_dim) if apart else (LANES // 2, value_dim, 2)
        dtype, left = STORED[shape.type], 3.0 if stale else float("nan")
        unknown = -77 if shape.type is CacheType.INT8 else left
        self.shape = shape
        scales = ((shape.kv_heads, shape.block_size), torch.float32, left)
        parts = [((*groups, *key_shape), dtype, unknown), ((*groups, *value_shape), dtype, unknown), scales, scales]
        self.keys, self.values, self.key_scales, self.value_scales = _reserve(num_blocks, parts, mixed=mixed)

    def native(self, table: int) -> Cache:
        """The cache as instructions name it, read by one of the step's block tables."""
        shape = self.shape
        tensors = (self.keys, self.key_scales) if shape.latent else self.tensors
        sizes = (shape.kv_heads, shape.key_dim, shape.value_dim, shape.block_size)
        return native_cache(tensors, CacheForm(*sizes, table, int(shape.latent)))

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """K, V and their scales, each [units, ...]."""
        return self.keys, self.values, self.key_scales, self.value_scales

    def poison(self, units: Sequence[int]) -> None:
        """Make units no number."""
        for tensor in self.tensors:
            tensor[list(units)] = float("nan") if tensor.is_floating_point() else -77

    def read_keys(self) -> Tensor:
        """[blocks, kv heads, block size, padded dim] float64."""
        apart = self.shape.type is CacheType.F32
        keys = self.keys.transpose(3, 4) if apart else self.keys.transpose(3, 4).flatten(4)
        return self._scaled(keys.flatten(2, 3), *self._key_pairs())

    def read_values(self) -> Tensor:
        """[blocks, kv heads, block size, padded dim] float64."""
        if self.shape.latent:
            return self.read_keys()[..., : whole_lanes(self.shape.value_dim)]
        apart = self.shape.type is CacheType.F32
        values = self.values if apart else self.values.transpose(4, 5).flatten(3, 4)
        return self._scaled(values.flatten(2, 3), self.value_scales)

    def _key_pairs(self) -> tuple[Tensor, Tensor]:
        """Of int8: K's scales and offsets, [blocks, kv heads, block size]."""
        offsets, scales = self.key_scales.contiguous().view(torch.bfloat16).unflatten(-1, (-1, 2)).unbind(-1)
        return scales, offsets

    def _scaled(self, stored: Tensor, scales: Tensor, offsets: Tensor | None = None) -> Tensor:
        plain = stored.double()
        if self.shape.type is not CacheType.INT8:
            return plain
        shift = 0 if offsets is None else offsets.double().unsqueeze(-1)
        return plain * scales.double().unsqueeze(-1) + shift


def rotated(rows: Tensor, shape: Shape, *, latent: bool = False) -> Tensor:
    """Padded heads [..., dims] as an int8 cache holds them, and back again; `latent` rows have V in front."""
    if shape.type is not CacheType.INT8:
        return rows
    dims, values = rows.shape[-1], whole_lanes(shape.value_dim)
    sizes = [*powers_of(values), *powers_of(dims - values)] if latent else powers_of(dims)
    return torch.cat([part @ hadamard(part.shape[-1]) for part in rows.split(sizes, dim=-1)], dim=-1)


def powers_of(number: int) -> list[int]:
    """The powers of two that it is the sum of, the largest first."""
    return [1 << bit for bit in reversed(range(number.bit_length())) if number >> bit & 1]


def hadamard(size: int) -> Tensor:
    """The matrix of that size, a power of two, whose product with itself is 1."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < size:
        matrix = torch.kron(torch.tensor([[1, 1], [1, -1]], dtype=torch.float64), matrix)
    return matrix / math.sqrt(size)


def _reserve(
    num_units: int, parts: Sequence[tuple[tuple[int, ...], torch.dtype, float]], *, mixed: bool
) -> list[Tensor]:
    """A tensor [units, *shape] for each part, all of it one value."""
    if not mixed:
        return [torch.full((num_units, *shape), value, dtype=dtype) for shape, dtype, value in parts]
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype, _ in parts]
    ends = list(accumulate(sizes, initial=OTHERS_BYTES))
    memory = torch.full((num_units, ends[-1] + OTHERS_BYTES), 0xFF, dtype=torch.uint8)
    return [
        memory[:, begin:end].view(dtype).unflatten(1, shape).fill_(value)
        for (begin, end), (shape, dtype, value) in zip(pairwise(ends), parts, strict=True)
    ]


class Layer:
    """Runs chunks of positions through one layer's heads and attention."""

    def __init__(
        self,
        level: Level,
        cache: PagedCache,
        *,
        turned: Turned | None = None,
        seen: Seen | None = None,
        num_threads: int = 1,
        format: Format = Format.PLAIN,
        table: int = 0,
        shared: bool = False,
    ) -> None:
        self.level = level
        self.cache = cache
        self.queries = torch.empty(0)  # of the last step, [rows, heads × padded dim]
        self.padding = torch.empty(0)  # of the last step's output
        self._turned = turned or Turned()
        self._seen = seen or Seen()
        self._num_threads = num_threads
        self._format = format
        self._table = table  # which one of the step's
        self._shared = shared  # rows are queries alone

    def step(self, chunks: Sequence[Chunk]) -> Tensor:
        """Write the chunks' keys and values, attend from their queries: [rows, heads × value dim]."""
        shape = self.cache.shape
        machine = Machine(self.level)
        rows = machine.rows(torch.cat([chunk.rows for chunk in chunks]))
        queries = machine.room(len(rows.memory), shape.heads * whole_lanes(shape.key_dim))
        output = machine.room(len(rows.memory), shape.heads * shape.value_dim, self._format)
        machine.emit(Op.HEADS, self._heads(machine, rows.number, queries.number))
        machine.emit(Op.ATTENTION, self._attention(machine, queries.number, output.number))
        self._run(machine, chunks)
        self.queries = queries.values()
        self.padding = output.padding()
        return output.values()

    def _heads(self, machine: Machine, input: int, output: int) -> Heads:
        turned, shape = self._turned, self.cache.shape
        return Heads(
            input=input,
            output=output,
            heads=shape.heads,
            rotary=turned.rotary,
            rotary_dim=0 if turned.cos is None else 2 * turned.cos.shape[1],
            norm_kind=turned.norm_kind,
            eps=turned.eps,
            scale=turned.scale,
            norm_whole=turned.norm_whole,
            num_angles=0 if turned.cos is None else len(turned.cos),
            query_norm=machine.pointer(turned.query_norm),
            key_norm=machine.pointer(turned.key_norm),
            cos=machine.pointer(turned.cos),
            sin=machine.pointer(turned.sin),
            shared=self._shared,
            cache=self.cache.native(self._table),
        )

    def _attention(self, machine: Machine, input: int, output: int) -> Attention:
        return Attention(
            input=input,
            output=output,
            heads=self.cache.shape.heads,
            window=self._seen.window,
            chunk=self._seen.chunk,
            softcap=self._seen.softcap,
            sinks=machine.pointer(self._seen.sinks),
            cache=self.cache.native(self._table),
        )

    def _run(self, machine: Machine, chunks: Sequence[Chunk]) -> None:
        size = self.cache.shape.block_size
        positions = torch.cat([chunk.positions for chunk in chunks])
        own = torch.cat([slots_of(chunk, size) for chunk in chunks]).int()
        slots = torch.cat([torch.full((self._table * len(own),), OTHERS), own]).int()
        units = torch.tensor([unit for chunk in chunks for unit in chunk.table], dtype=torch.int32)
        spans, row, at = (Span * (len(chunks) * (self._table + 1)))(), 0, 0
        for index, chunk in enumerate(chunks):
            for table in range(self._table):
                spans[table * len(chunks) + index] = Span(row, chunk.start, len(chunk.rows), OTHERS)
            spans[self._table * len(chunks) + index] = Span(row, chunk.start, len(chunk.rows), at - chunk.first)
            row, at = row + len(chunk.rows), at + len(chunk.table)
        addresses = {"positions": positions.data_ptr(), "slots": slots.data_ptr(), "units": units.data_ptr()}
        counts = {"num_rows": row, "num_spans": len(chunks), "num_tables": self._table + 1}
        step = Step(**counts, spans=ctypes.addressof(spans), **addresses)
        built = machine.finish()
        with opened(self._num_threads) as pool:
            the_library().run(pool, self.level, built.program, step)


def slots_of(chunk: Chunk, block_size: int) -> Tensor:
    """Where the chunk's positions lie in the cache."""
    positions = chunk.positions.long()
    units = torch.tensor(chunk.table)[positions // block_size - chunk.first]
    return units * block_size + positions % block_size


def attend(layer: Layer, chunks: Sequence[Chunk], seen: Seen) -> Tensor:
    """What the layer's last step should have given for its queries and what its cache holds, in float64."""
    shape = layer.cache.shape
    keys, values = layer.cache.read_keys(), layer.cache.read_values()
    queries = layer.queries.double().view(-1, shape.kv_heads, shape.group, whole_lanes(shape.key_dim))
    out, row = [], 0
    for chunk in chunks:
        size = shape.block_size
        at = torch.arange(chunk.first * size, chunk.start + len(chunk.rows))  # positions of the context
        block, offset = torch.tensor(chunk.table)[at // size - chunk.first], at % size
        own = queries[row : row + len(chunk.rows)]
        scores = torch.einsum("rhgd,phd->hgrp", own, keys[block, :, offset])
        weights = _weights(scores, chunk.positions.long(), at, seen)
        mixed = torch.einsum("hgrp,phd->rhgd", weights, values[block, :, offset])
        out.append(rotated(mixed, shape)[..., : shape.value_dim].flatten(1))
        row += len(chunk.rows)
    return torch.cat(out)


def _weights(scores: Tensor, positions: Tensor, at: Tensor, seen: Seen) -> Tensor:
    """`scores` [kv heads, group, rows, context]."""
    if seen.softcap:
        scores = torch.tanh(scores / seen.softcap) * seen.softcap
    distance = positions[:, None] - at
    hidden = (distance < 0) | (distance >= (seen.window or distance.max() + 1))
    if seen.chunk:
        hidden |= at < (positions // seen.chunk * seen.chunk)[:, None]
    scores = scores.masked_fill(hidden, float("-inf"))
    if seen.sinks is None:
        return scores.softmax(-1)
    sinks = seen.sinks.double().view(*scores.shape[:2], 1, 1).expand(*scores.shape[:3], 1)
    return torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]
