"""One layer's heads and attention over a paged cache, and the same in float64."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

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

    @property
    def heads(self) -> int:
        return self.kv_heads * self.group

    @property
    def width(self) -> int:
        """Of a row of queries, keys and values."""
        return (self.heads + self.kv_heads) * self.key_dim + self.kv_heads * self.value_dim


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
    softcap: float = 0.0
    sinks: Tensor | None = None  # [heads]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive positions of a sequence: its block table, and the rows [length, width]."""

    start: int
    table: tuple[int, ...]
    rows: Tensor

    @property
    def positions(self) -> Tensor:
        return torch.arange(self.start, self.start + len(self.rows), dtype=torch.int32)


class PagedCache:
    """The cache's memory, which begins as what is no number, or as what others left there."""

    def __init__(self, shape: Shape, num_blocks: int, *, stale: bool = False) -> None:
        groups = (num_blocks, shape.kv_heads, shape.block_size // LANES)
        key_dim, value_dim = whole_lanes(shape.key_dim), whole_lanes(shape.value_dim)
        apart = shape.type is CacheType.F32
        key_shape = (key_dim, LANES) if apart else (key_dim // 2, LANES, 2)
        value_shape = (LANES, value_dim) if apart else (LANES // 2, value_dim, 2)
        dtype, left = STORED[shape.type], 3.0 if stale else float("nan")
        unknown = -77 if shape.type is CacheType.INT8 else left
        self.shape = shape
        self.keys = torch.full((*groups, *key_shape), unknown, dtype=dtype)
        self.values = torch.full((*groups, *value_shape), unknown, dtype=dtype)
        self.key_scales = torch.full((num_blocks, shape.kv_heads, shape.block_size), left)
        self.value_scales = self.key_scales.clone()

    def native(self) -> Cache:
        """The cache as instructions name it."""
        shape = self.shape
        tensors = (self.keys, self.values, self.key_scales, self.value_scales)
        addresses = [tensor.data_ptr() for tensor in tensors]
        return Cache(*addresses, shape.kv_heads, shape.key_dim, shape.value_dim, shape.block_size, shape.type)

    def read_keys(self) -> Tensor:
        """[blocks, kv heads, block size, padded dim] float64."""
        apart = self.shape.type is CacheType.F32
        keys = self.keys.transpose(3, 4) if apart else self.keys.transpose(3, 4).flatten(4)
        return self._scaled(keys.flatten(2, 3), self.key_scales)

    def read_values(self) -> Tensor:
        """[blocks, kv heads, block size, padded dim] float64."""
        apart = self.shape.type is CacheType.F32
        values = self.values if apart else self.values.transpose(4, 5).flatten(3, 4)
        return self._scaled(values.flatten(2, 3), self.value_scales)

    def _scaled(self, stored: Tensor, scales: Tensor) -> Tensor:
        plain = stored.double()
        return plain * scales.double().unsqueeze(-1) if self.shape.type is CacheType.INT8 else plain


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
    ) -> None:
        self.level = level
        self.cache = cache
        self.queries = torch.empty(0)  # of the last step, [rows, heads × padded dim]
        self.padding = torch.empty(0)  # of the last step's output
        self._turned = turned or Turned()
        self._seen = seen or Seen()
        self._num_threads = num_threads
        self._format = format

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
            cache=self.cache.native(),
        )

    def _attention(self, machine: Machine, input: int, output: int) -> Attention:
        return Attention(
            input=input,
            output=output,
            heads=self.cache.shape.heads,
            window=self._seen.window,
            softcap=self._seen.softcap,
            sinks=machine.pointer(self._seen.sinks),
            cache=self.cache.native(),
        )

    def _run(self, machine: Machine, chunks: Sequence[Chunk]) -> None:
        size = self.cache.shape.block_size
        positions = torch.cat([chunk.positions for chunk in chunks])
        slots = torch.cat([slots_of(chunk, size) for chunk in chunks]).int()
        blocks = torch.tensor([block for chunk in chunks for block in chunk.table], dtype=torch.int32)
        spans, row, table = (Span * len(chunks))(), 0, 0
        for span, chunk in zip(spans, chunks, strict=True):
            span.row, span.start, span.length, span.table = row, chunk.start, len(chunk.rows), table
            row, table = row + len(chunk.rows), table + len(chunk.table)
        addresses = {"positions": positions.data_ptr(), "slots": slots.data_ptr(), "blocks": blocks.data_ptr()}
        step = Step(num_rows=row, num_spans=len(chunks), spans=ctypes.addressof(spans), **addresses)
        built = machine.finish()
        with opened(self._num_threads) as pool:
            the_library().run(pool, self.level, built.program, step)


def slots_of(chunk: Chunk, block_size: int) -> Tensor:
    """Where the chunk's positions lie in the cache."""
    positions = chunk.positions.long()
    return torch.tensor(chunk.table)[positions // block_size] * block_size + positions % block_size


def attend(layer: Layer, chunks: Sequence[Chunk], seen: Seen) -> Tensor:
    """What the layer's last step should have given for its queries and what its cache holds, in float64."""
    shape = layer.cache.shape
    keys, values = layer.cache.read_keys(), layer.cache.read_values()
    queries = layer.queries.double().view(-1, shape.kv_heads, shape.group, whole_lanes(shape.key_dim))
    out, row = [], 0
    for chunk in chunks:
        at = torch.arange(chunk.start + len(chunk.rows))  # positions of the context
        block, offset = torch.tensor(chunk.table)[at // shape.block_size], at % shape.block_size
        own = queries[row : row + len(chunk.rows)]
        scores = torch.einsum("rhgd,phd->hgrp", own, keys[block, :, offset])
        weights = _weights(scores, chunk.positions.long(), at, seen)
        mixed = torch.einsum("hgrp,phd->rhgd", weights, values[block, :, offset])
        out.append(mixed[..., : shape.value_dim].flatten(1))
        row += len(chunk.rows)
    return torch.cat(out)


def _weights(scores: Tensor, positions: Tensor, at: Tensor, seen: Seen) -> Tensor:
    """`scores` [kv heads, group, rows, context]."""
    if seen.softcap:
        scores = torch.tanh(scores / seen.softcap) * seen.softcap
    distance = positions[:, None] - at
    hidden = (distance < 0) | (distance >= (seen.window or len(at)))
    scores = scores.masked_fill(hidden, float("-inf"))
    if seen.sinks is None:
        return scores.softmax(-1)
    sinks = seen.sinks.double().view(*scores.shape[:2], 1, 1).expand(*scores.shape[:3], 1)
    return torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]
