"""The blocks of a GGUF tensor as integers with scales: what the file holds, bit for bit where float16 can say it.

The layouts are those of GGML's reference code. Where a block's scale is a product (the K types) it is rounded to
float16, and so is its minimum. On a model of Q4_K and Q6_K that moved matrices by 2 to 7 × 10⁻⁴ of their size, where
bfloat16 moves them by 17 × 10⁻⁴. A tensor with scales that float16 does not reach becomes bfloat16, and so does one
of a type that is not decoded here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.model.encoding import DTYPES, Encoded
from engine.model.gguf_types import GgmlType, size_of_block
from engine.model.kernels.native import Kind
from engine.model.precision import to_bfloat16

CHUNK_VALUES = 1 << 18  # decoded at once, which bounds the memory that decoding takes
MAX_LOSS = 2.0**-10  # of the size of a tensor's values, by what float16 can't say of its scales

_Bytes: TypeAlias = NDArray[np.uint8]
_Integers: TypeAlias = NDArray[np.uint8] | NDArray[np.int8]
_Floats: TypeAlias = NDArray[np.float32]

FLOATS = {GgmlType.F32: Kind.F32, GgmlType.F16: Kind.F16, GgmlType.BF16: Kind.BF16}
MXFP4_VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Some blocks: value = scale × integer + minimum, where there is one."""

    integers: _Integers  # [blocks, values of a block]
    scales: _Floats  # [blocks, parts of a block]
    minima: _Floats | None = None


@dataclass(frozen=True, slots=True)
class _Format:
    """What the blocks of a type become."""

    kind: Kind
    part: int  # inputs that share a scale
    reach: int  # the largest integer, by its size
    has_min: bool
    decode: Callable[[_Bytes], _Decoded]  # of [blocks, bytes of a block]


def decode(type_: int, data: _Bytes, shape: tuple[int, int]) -> Encoded:
    """The matrix [outputs, inputs] whose blocks lie in `data`, one after the other."""
    if type_ in FLOATS:
        kind = FLOATS[GgmlType(type_)]
        return Encoded(kind, data.view(DTYPES[kind]).reshape(shape))
    if type_ in FORMATS:
        encoded = _decode(GgmlType(type_), data, shape)
        if encoded is not None:
            return encoded
    return _decode_elsewhere(type_, data, shape)


def _decode(type_: GgmlType, data: _Bytes, shape: tuple[int, int]) -> Encoded | None:
    """None where the scales would lose too much as float16."""
    format_, (block, num_bytes) = FORMATS[type_], size_of_block(type_)
    blocks = data.reshape(-1, num_bytes)
    integers = np.empty((len(blocks), block), DTYPES[format_.kind])
    scales = np.empty((len(blocks), block // format_.part), np.float16)
    minima = np.empty_like(scales) if format_.has_min else None
    loss = size = 0.0
    for start in range(0, len(blocks), CHUNK_VALUES // block):
        here = slice(start, start + CHUNK_VALUES // block)
        decoded = format_.decode(blocks[here])
        integers[here] = decoded.integers
        loss += format_.reach**2 * _round(decoded.scales, scales[here])
        size += format_.reach**2 * _squares(decoded.scales)
        if minima is not None and decoded.minima is not None:
            loss += _round(decoded.minima, minima[here])
            size += _squares(decoded.minima)
    if not loss <= MAX_LOSS**2 * size:  # a NaN is too much
        return None
    parts = (shape[0], shape[1] // format_.part)
    return Encoded(
        format_.kind, integers.reshape(shape), scales.reshape(parts), None if minima is None else minima.reshape(parts)
    )


def _round(exact: _Floats, out: NDArray[np.float16]) -> float:
    """Write them as float16; the sum of the squares of what is lost."""
    with np.errstate(over="ignore", invalid="ignore"):
        out[:] = exact
        return _squares(exact - out)


def _squares(numbers: _Floats) -> float:
    return float(np.square(numbers, dtype=np.float64).sum())


def _decode_elsewhere(type_: int, data: _Bytes, shape: tuple[int, int]) -> Encoded:
    """By the `gguf` package, to bfloat16."""
    import gguf  # noqa: PLC0415  # only files of rare types wait for it

    kind, (block, num_bytes) = gguf.GGMLQuantizationType(type_), size_of_block(type_)
    rows = data.reshape(shape[0], shape[1] // block * num_bytes)
    values = np.empty(shape, np.uint16)
    step = max(1, CHUNK_VALUES // shape[1])
    for start in range(0, shape[0], step):
        values[start : start + step] = to_bfloat16(gguf.dequantize(rows[start : start + step], kind))
    return Encoded(Kind.BF16, values)


# -- blocks of 32 ---------------------------------------------------------------------------------


def _floats(blocks: _Bytes, at: int) -> _Floats:
    """The float16 at this byte of each block, [blocks, 1]."""
    return blocks[:, at : at + 2].view(np.float16).astype(np.float32)


def _halves(packed: _Bytes) -> _Bytes:
    """[blocks, n] bytes to [blocks, 2n]: all low halves, then all high ones."""
    integers = np.empty((len(packed), 2, packed.shape[1]), np.uint8)
    np.bitwise_and(packed, 15, out=integers[:, 0])
    np.right_shift(packed, 4, out=integers[:, 1])
    return integers.reshape(len(packed), -1)


def _fifths(blocks: _Bytes, at: int) -> _Bytes:
    """32 integers of 5 bits, [blocks, 32]: four bytes of fifth bits, then the halves."""
    high = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")
    return _join(_halves(blocks[:, at + 4 :]), high)


def _join(low: _Bytes, high: _Bytes, *, bits: int = 4) -> _Bytes:
    """The integers of which some give the low bits, and others those above."""
    return low | high << np.uint8(bits)


def _minus(integers: _Bytes, offset: int) -> NDArray[np.int8]:
    return integers.view(np.int8) - np.int8(offset)


def _q4_0(blocks: _Bytes) -> _Decoded:
    scales = _floats(blocks, 0)
    return _Decoded(_halves(blocks[:, 2:]), scales, -8 * scales)


def _q4_1(blocks: _Bytes) -> _Decoded:
    return _Decoded(_halves(blocks[:, 4:]), _floats(blocks, 0), _floats(blocks, 2))


def _q5_0(blocks: _Bytes) -> _Decoded:
    return _Decoded(_minus(_fifths(blocks, 2), 16), _floats(blocks, 0))


def _q5_1(blocks: _Bytes) -> _Decoded:
    return _Decoded(_fifths(blocks, 4).view(np.int8), _floats(blocks, 0), _floats(blocks, 2))


def _q8_0(blocks: _Bytes) -> _Decoded:
    return _Decoded(blocks[:, 2:].view(np.int8), _floats(blocks, 0))


def _iq4_nl(blocks: _Bytes) -> _Decoded:
    return _Decoded(IQ4_VALUES[_halves(blocks[:, 2:])], _floats(blocks, 0))


def _mxfp4(blocks: _Bytes) -> _Decoded:
    exponents = blocks[:, :1].astype(np.int32) - 128  # one less than the format's: the values are doubled
    return _Decoded(MXFP4_VALUES[_halves(blocks[:, 1:])], np.ldexp(np.float32(1), exponents))


# -- blocks of 256 --------------------------------------------------------------------------------


def _groups(packed: _Bytes, bits: int) -> _Bytes:
    """[blocks, groups, n] bytes of 8 / bits integers each to [blocks, groups, 8 / bits, n], lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    return (packed[:, :, None] >> shifts) & np.uint8((1 << bits) - 1)


def _scales_and_minima(packed: _Bytes) -> tuple[_Bytes, _Bytes]:
    """Eight of each, of 6 bits, from 12 bytes: the last four have their upper bits above those of the first."""
    first, last = packed[:, :8] & np.uint8(63), _join(_halves(packed[:, 8:]), packed[:, :8] >> np.uint8(6))
    return np.concatenate([first[:, :4], last[:, :4]], axis=1), np.concatenate([first[:, 4:], last[:, 4:]], axis=1)


def _q2_k(blocks: _Bytes) -> _Decoded:
    parts = blocks[:, :16]
    integers = _groups(blocks[:, 16:80].reshape(-1, 2, 32), 2)
    scales, minima = _floats(blocks, 80) * (parts & 15), -_floats(blocks, 82) * (parts >> 4)
    return _Decoded(integers.reshape(-1, 256), scales, minima)


def _q3_k(blocks: _Bytes) -> _Decoded:
    high = _groups(blocks[:, :32].reshape(-1, 1, 32), 1).reshape(-1, 2, 4, 32)
    integers = _join(_groups(blocks[:, 32:96].reshape(-1, 2, 32), 2), high, bits=2)
    low, upper = _halves(blocks[:, 96:104]), _groups(blocks[:, 104:108].reshape(-1, 1, 4), 2).reshape(-1, 16)
    scales = _floats(blocks, 108) * _minus(_join(low, upper), 32)
    return _Decoded(integers.reshape(-1, 256), scales, -4 * scales)


def _q4_k(blocks: _Bytes) -> _Decoded:
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    integers = _groups(blocks[:, 16:].reshape(-1, 4, 32), 4).reshape(-1, 256)
    return _Decoded(integers, _floats(blocks, 0) * scales, -_floats(blocks, 2) * minima)


def _q5_k(blocks: _Bytes) -> _Decoded:
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    high = _groups(blocks[:, 16:48].reshape(-1, 1, 32), 1).reshape(-1, 256)
    integers = _join(_groups(blocks[:, 48:].reshape(-1, 4, 32), 4).reshape(-1, 256), high)
    return _Decoded(integers.view(np.int8), _floats(blocks, 0) * scales, -_floats(blocks, 2) * minima)


def _q6_k(blocks: _Bytes) -> _Decoded:
    low = _groups(blocks[:, :128].reshape(-1, 2, 64), 4).reshape(-1, 256)
    high = _groups(blocks[:, 128:192].reshape(-1, 2, 32), 2).reshape(-1, 256)
    scales = _floats(blocks, 208) * blocks[:, 192:208].view(np.int8)
    return _Decoded(_minus(_join(low, high), 32), scales)


def _iq4_xs(blocks: _Bytes) -> _Decoded:
    upper = _groups(blocks[:, 2:4].reshape(-1, 2, 1), 2).reshape(-1, 8)
    low = _groups(blocks[:, 4:8].reshape(-1, 4, 1), 4).reshape(-1, 8)
    scales = _floats(blocks, 0) * _minus(_join(low, upper), 32)
    integers = _groups(blocks[:, 8:].reshape(-1, 8, 16), 4).reshape(-1, 256)
    return _Decoded(IQ4_VALUES[integers], scales)


FORMATS = {
    GgmlType.Q4_0: _Format(Kind.Q4, 32, 15, has_min=True, decode=_q4_0),
    GgmlType.Q4_1: _Format(Kind.Q4, 32, 15, has_min=True, decode=_q4_1),
    GgmlType.Q5_0: _Format(Kind.Q8, 32, 16, has_min=False, decode=_q5_0),
    GgmlType.Q5_1: _Format(Kind.Q8, 32, 31, has_min=True, decode=_q5_1),
    GgmlType.Q8_0: _Format(Kind.Q8, 32, 128, has_min=False, decode=_q8_0),
    GgmlType.Q2_K: _Format(Kind.Q4, 16, 3, has_min=True, decode=_q2_k),
    GgmlType.Q3_K: _Format(Kind.Q4, 16, 7, has_min=True, decode=_q3_k),
    GgmlType.Q4_K: _Format(Kind.Q4, 32, 15, has_min=True, decode=_q4_k),
    GgmlType.Q5_K: _Format(Kind.Q8, 32, 31, has_min=True, decode=_q5_k),
    GgmlType.Q6_K: _Format(Kind.Q8, 16, 32, has_min=False, decode=_q6_k),
    GgmlType.IQ4_NL: _Format(Kind.Q8, 32, 127, has_min=False, decode=_iq4_nl),
    GgmlType.IQ4_XS: _Format(Kind.Q8, 32, 127, has_min=False, decode=_iq4_xs),
    GgmlType.MXFP4: _Format(Kind.Q8, 32, 12, has_min=False, decode=_mxfp4),
}
