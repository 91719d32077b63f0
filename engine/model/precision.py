"""A matrix in the bits that the operator asks for.

`auto` keeps what the file has, and loses nothing. `float32` and `bfloat16` convert whatever it is. `int8` and
`int4` keep integers that already have no more bits (a file of 4 bits gains nothing from 8), and quantize the
rest in blocks of 32 inputs; a matrix whose inputs are no multiple of 32 becomes bfloat16 instead.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias, assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from engine.model.encoding import Encoded, stack
from engine.model.kernels.native import Kind

Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "int8", "int4"]

BLOCK = 32
Q8_LIMIT, Q4_LIMIT = 127, 15
ROUNDS = 3  # of fitting scale and minimum: 7 % less error than the range alone gives, more bring 1 %
CHUNK_VALUES = 1 << 16  # quantized at once, so that what is between stays in the CPU's cache

_Floats: TypeAlias = NDArray[np.float32]  # [blocks, 32], or a scale or minimum of each, [blocks, 1]


def encode_as(matrix: Encoded, precision: Precision) -> Encoded:
    """The matrix, stored as `precision` says."""
    match precision:
        case "auto":
            return matrix
        case "float32":
            return matrix if matrix.kind is Kind.F32 else Encoded(Kind.F32, matrix.dense().numpy())
        case "bfloat16":
            return _to_bfloat16(matrix)
        case "int8":
            return matrix if matrix.kind in (Kind.Q8, Kind.Q4) else _to_integers(matrix, Kind.Q8)
        case "int4":
            return matrix if matrix.kind is Kind.Q4 else _to_integers(matrix, Kind.Q4)
        case _:
            assert_never(precision)


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """To the nearest bfloat16, ties to even; NaN stays one."""
    rounded: NDArray[np.uint16] = torch.from_numpy(values).bfloat16().view(torch.uint16).numpy()
    return rounded


def _to_bfloat16(matrix: Encoded) -> Encoded:
    return matrix if matrix.kind is Kind.BF16 else Encoded(Kind.BF16, to_bfloat16(matrix.dense().numpy()))


def _to_integers(matrix: Encoded, kind: Kind) -> Encoded:
    if matrix.inputs % BLOCK != 0:
        return _to_bfloat16(matrix)
    quantize = _quantize_8 if kind is Kind.Q8 else _quantize_4
    with np.errstate(over="ignore", invalid="ignore"):  # what float16 can't scale is found below
        blocks = stack([quantize(part.dense().numpy().reshape(-1, BLOCK)) for part in _chunks(matrix)])
    scales, minima = (
        None if part is None else part.reshape(matrix.outputs, -1) for part in (blocks.scales, blocks.minima)
    )
    if not all(np.isfinite(part).all() for part in (scales, minima) if part is not None):
        return _to_bfloat16(matrix)
    return Encoded(kind, blocks.values.reshape(matrix.values.shape), scales, minima)


def _chunks(matrix: Encoded) -> Iterator[Encoded]:
    rows = max(1, CHUNK_VALUES // matrix.inputs)
    for start in range(0, matrix.outputs, rows):
        yield matrix.rows(slice(start, start + rows))


def _quantize_8(blocks: _Floats) -> Encoded:
    """To the nearest of -127 … 127 times a scale, the scale as it will be stored."""
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / Q8_LIMIT).astype(np.float16)
    integers = np.rint(blocks / _divisors(scales))
    return Encoded(Kind.Q8, np.clip(integers, -Q8_LIMIT, Q8_LIMIT).astype(np.int8), scales)


def _quantize_4(blocks: _Floats) -> Encoded:
    """To the nearest of minimum + 0 … 15 times a scale, both fitted to what they gave the time before."""
    minima = blocks.min(axis=1, keepdims=True)
    scales = (blocks.max(axis=1, keepdims=True) - minima) / Q4_LIMIT
    for _ in range(ROUNDS):
        scales, minima = _fit(blocks, _nearest_4(blocks, scales, minima), scales, minima)
    stored_scales, stored_minima = scales.astype(np.float16), minima.astype(np.float16)
    integers = _nearest_4(blocks, stored_scales, stored_minima)
    return Encoded(Kind.Q4, integers.astype(np.uint8), stored_scales, stored_minima)


def _nearest_4(blocks: _Floats, scales: NDArray[np.floating], minima: NDArray[np.floating]) -> _Floats:
    above = blocks - minima.astype(np.float32)
    integers: _Floats = np.clip(np.rint(above / _divisors(scales)), 0, Q4_LIMIT)
    return integers


def _fit(blocks: _Floats, integers: _Floats, scales: _Floats, minima: _Floats) -> tuple[_Floats, _Floats]:
    """The scale and minimum of least squares for these integers; as they were where all are the same."""
    mean_integer, mean_value = integers.mean(axis=1, keepdims=True), blocks.mean(axis=1, keepdims=True)
    spread = np.einsum("bi,bi->b", integers, integers)[:, None] - BLOCK * mean_integer**2
    shared = np.einsum("bi,bi->b", integers, blocks)[:, None] - BLOCK * mean_integer * mean_value
    varied = spread > 0
    fitted = np.where(varied, shared / np.where(varied, spread, 1), scales)
    return fitted, np.where(varied, mean_value - fitted * mean_integer, minima)


def _divisors(scales: NDArray[np.floating]) -> _Floats:
    """What to divide by: a scale of zero leaves zeros, whatever divides them."""
    return np.where(scales == 0, 1, scales).astype(np.float32)
