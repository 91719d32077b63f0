import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from engine.model.encoding import Encoded, encode
from engine.model.kernels.native import Kind
from engine.model.precision import Precision, encode_as, to_bfloat16

RANDOM = torch.randn(6, 64, generator=torch.Generator().manual_seed(0)) * 0.02


def q4() -> Encoded:
    scales = np.full((2, 1), 0.1, np.float16)
    return Encoded(Kind.Q4, np.arange(64, dtype=np.uint8).reshape(2, 32) % 16, scales, -scales)


def q8() -> Encoded:
    return Encoded(Kind.Q8, np.arange(-32, 32, dtype=np.int8).reshape(2, 32), np.full((2, 1), 0.1, np.float16))


def error(encoded: Encoded, matrix: torch.Tensor = RANDOM) -> float:
    """Root mean square, of the matrix's own."""
    return float((encoded.dense() - matrix).norm() / matrix.norm())


@pytest.mark.parametrize("matrix", [q4(), q8(), encode(RANDOM), encode(RANDOM.bfloat16()), encode(RANDOM.half())])
def test_auto_keeps_what_there_is(matrix: Encoded) -> None:
    assert encode_as(matrix, "auto") is matrix


@pytest.mark.parametrize("matrix", [q4(), q8(), encode(RANDOM), encode(RANDOM.bfloat16()), encode(RANDOM.half())])
def test_float32_and_bfloat16_convert_whatever_it_is(matrix: Encoded) -> None:
    single, half = encode_as(matrix, "float32"), encode_as(matrix, "bfloat16")

    assert (single.kind, half.kind) == (Kind.F32, Kind.BF16)
    assert torch.equal(single.dense(), matrix.dense())
    assert torch.equal(half.dense(), matrix.dense().bfloat16().float())


@pytest.mark.parametrize(
    ("matrix", "precision", "kind"),
    [
        (q4(), "int8", Kind.Q4),  # 8 bits would add nothing
        (q8(), "int8", Kind.Q8),
        (q4(), "int4", Kind.Q4),
        (q8(), "int4", Kind.Q4),
        (encode(RANDOM.bfloat16()), "int8", Kind.Q8),
        (encode(RANDOM), "int4", Kind.Q4),
        (encode(RANDOM[:, :40]), "int8", Kind.BF16),  # no whole blocks
        (encode(RANDOM[:, :40]), "int4", Kind.BF16),
    ],
)
def test_integers_are_kept_where_they_have_no_more_bits_than_asked(
    matrix: Encoded, precision: Precision, kind: Kind
) -> None:
    encoded = encode_as(matrix, precision)

    assert encoded.kind is kind
    assert (encoded is matrix) == (matrix.kind in (Kind.Q8, Kind.Q4) and kind is matrix.kind)
    assert encoded.values.shape == matrix.values.shape


def test_int8_is_symmetric_in_blocks_of_32_and_close() -> None:
    encoded = encode_as(encode(RANDOM), "int8")

    assert (encoded.block, encoded.minima) == (32, None)
    assert error(encoded) < 0.007  # half a step of a 127th of the largest of 32


def test_int4_is_closer_than_the_range_of_each_block_makes_it() -> None:
    encoded = encode_as(encode(RANDOM), "int4")

    blocks = RANDOM.view(-1, 32)
    low, high = blocks.min(1, keepdim=True).values, blocks.max(1, keepdim=True).values
    scale = (high - low) / 15
    plain = float((((blocks - low) / scale).round() * scale + low - blocks).norm() / blocks.norm())
    assert encoded.block == 32
    assert encoded.minima is not None
    assert error(encoded) < 0.96 * plain


@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("value", [0.0, 1.0, -3.5])
def test_a_block_of_one_value_is_kept_as_float16_has_it(precision: Precision, value: float) -> None:
    matrix = torch.full((2, 32), value)

    dense = encode_as(encode(matrix), precision).dense()

    assert torch.allclose(dense, matrix, rtol=2**-11, atol=0)


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_values_too_large_for_a_float16_scale_stay_floats(precision: Precision) -> None:
    matrix = torch.full((2, 32), 1e30)
    matrix[:, ::2] = -1e30

    assert encode_as(encode(matrix), precision).kind is Kind.BF16


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_rows_are_quantized_each_for_itself(precision: Precision) -> None:
    many = torch.randn(3000, 64, generator=torch.Generator().manual_seed(1))  # several chunks

    whole = encode_as(encode(many), precision).dense()

    for row in (0, 1023, 1024, 2999):
        assert torch.equal(encode_as(encode(many[row : row + 1]), precision).dense(), whole[row : row + 1])


@given(st.integers(0, 2**32 - 1))
def test_bfloat16_is_the_nearest(bits: int) -> None:
    value = np.array([bits], np.uint32).view(np.float32)

    (rounded,) = (to_bfloat16(value).astype(np.uint32) << 16).view(np.float32)

    neighbours = (np.array([bits & 0xFFFF0000, (bits & 0xFFFF0000) + 0x10000], np.uint64).astype(np.uint32)).view(
        np.float32
    )
    with np.errstate(all="ignore"):
        distances = np.abs(neighbours.astype(np.float64) - value)
    if np.isfinite(neighbours).all():
        assert abs(float(rounded) - float(value[0])) == distances.min()
    else:
        assert np.isnan(rounded) == np.isnan(value[0])
