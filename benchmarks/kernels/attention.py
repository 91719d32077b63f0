"""Decode attention of the native library, run alone: one layer after the other, each with a cache of its own."""

import ctypes
from dataclasses import dataclass

import torch

from benchmarks.kernels.programs import STRIP, Machine, WrongResult, buffer_of, padded
from engine.model.kernels.native import Attention, Cache, CacheType, Instruction, Level, Op, Span, Step

HEADS, KV_HEADS, HEAD_DIM, NUM_LAYERS = 9, 3, 64, 30  # the default model's
BLOCK_SIZE = 16
SCALE = 1 / 128  # of an int8 cache: a bfloat16, beside which the offset of K is 0


@dataclass(frozen=True)
class CacheKind:
    """What a cache holds."""

    name: str
    type: CacheType
    dtype: torch.dtype
    scaled: bool = False


CACHES = (
    CacheKind("float32", CacheType.F32, torch.float32),
    CacheKind("bfloat16", CacheType.BF16, torch.bfloat16),
    CacheKind("int8", CacheType.INT8, torch.int8, scaled=True),
)


class Decoding:
    """So many sequences that each compute their newest position, behind a context of so many."""

    def __init__(self, kind: CacheKind, num_sequences: int, context: int) -> None:
        self._num_sequences = num_sequences
        blocks_each = padded(context, BLOCK_SIZE) // BLOCK_SIZE
        self._tables = torch.randperm(num_sequences * blocks_each, dtype=torch.int32)
        self._spans = (Span * num_sequences)(
            *(Span(row=i, start=context - 1, length=1, table=i * blocks_each) for i in range(num_sequences))
        )
        values = (NUM_LAYERS, 2, num_sequences * blocks_each, KV_HEADS, BLOCK_SIZE, HEAD_DIM)
        self._values = (torch.randn(values) * (10 if kind.scaled else 1)).to(kind.dtype)
        self._scales = torch.full(values[:-1], SCALE if kind.scaled else 1.0)
        self._type = kind.type
        scale_bytes = self._scales.element_size() if kind.scaled else 0
        positions = NUM_LAYERS * 2 * KV_HEADS * num_sequences * context
        self.num_bytes = positions * (HEAD_DIM * self._values.element_size() + scale_bytes)

    def seconds(self, machine: Machine, tries: int) -> float:
        """The shortest time of all layers.

        Raises:
            WrongResult: where nothing was written, or no numbers.
        """
        split = machine.level is Level.AMX
        queries = torch.randn(self._num_sequences, padded(HEADS * HEAD_DIM, STRIP))
        results = torch.zeros_like(queries)
        buffers = (buffer_of(queries, HEADS * HEAD_DIM), buffer_of(results, HEADS * HEAD_DIM, split=split))
        layers = [self._layer(layer) for layer in range(NUM_LAYERS)]
        seconds = machine.seconds(layers, buffers, self._step(), tries)
        if not results.isfinite().all() or not results.any():
            raise WrongResult("decode attention did not give numbers")
        return seconds * NUM_LAYERS

    def _step(self) -> Step:
        return Step(
            num_rows=self._num_sequences,
            num_spans=self._num_sequences,
            spans=ctypes.addressof(self._spans),
            num_tables=1,
            units=self._tables.data_ptr(),
        )

    def _layer(self, layer: int) -> Instruction:
        (keys, values), (key_scales, value_scales) = self._values[layer], self._scales[layer]
        cache = Cache(
            keys=keys.data_ptr(),
            values=values.data_ptr(),
            key_scales=key_scales.data_ptr(),
            value_scales=value_scales.data_ptr(),
            key_stride=keys[0].nbytes,
            value_stride=values[0].nbytes,
            scale_stride=key_scales[0].nbytes,
            kv_heads=KV_HEADS,
            key_dim=HEAD_DIM,
            value_dim=HEAD_DIM,
            block_size=BLOCK_SIZE,
            type=self._type,
        )
        instruction = Instruction(op=Op.ATTENTION)
        instruction.body.attention = Attention(input=0, output=1, heads=HEADS, cache=cache)
        return instruction
