from collections.abc import Callable

import gguf
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from engine.model import gguf_blocks
from engine.model.gguf_blocks import FORMATS, decode
from engine.model.gguf_types import SIZES, GgmlType, size_of_block
from engine.model.kernels.native import Kind

Bytes = NDArray[np.uint8]

SCALES_AT = {  # where the float16 scales of a block lie
    GgmlType.Q4_0: (0,),
    GgmlType.Q4_1: (0, 2),
    GgmlType.Q5_0: (0,),
    GgmlType.Q5_1: (0, 2),
    GgmlType.Q8_0: (0,),
    GgmlType.Q2_K: (80, 82),
    GgmlType.Q3_K: (108,),
    GgmlType.Q4_K: (0, 2),
    GgmlType.Q5_K: (0, 2),
    GgmlType.Q6_K: (208,),
    GgmlType.IQ4_NL: (0,),
    GgmlType.IQ4_XS: (0,),
    GgmlType.MXFP4: (),
}
EXACT = [GgmlType.Q4_0, GgmlType.Q4_1, GgmlType.Q5_0, GgmlType.Q5_1, GgmlType.Q8_0, GgmlType.IQ4_NL, GgmlType.MXFP4]
ROUNDED = sorted(FORMATS.keys() - set(EXACT))
SHAPE = (6, 1024)


def random_blocks(type_: GgmlType, seed: int, *, scale: float = 1e-3) -> Bytes:
    """Blocks of any integers, with scales around `scale`, for a matrix of SHAPE."""
    random = np.random.default_rng(seed)
    values, size = SIZES[type_]
    blocks = random.integers(0, 256, (SHAPE[0] * SHAPE[1] // values, size), dtype=np.uint8)
    for at in SCALES_AT[type_]:
        scales = random.uniform(scale, 2 * scale, (len(blocks), 1)) * random.choice((-1, 1), (len(blocks), 1))
        blocks[:, at : at + 2] = scales.astype(np.float16).view(np.uint8)
    if type_ is GgmlType.MXFP4:
        blocks[:, 0] = random.integers(110, 130, len(blocks))
    return blocks.reshape(-1)


def plain(type_: int, data: Bytes) -> NDArray[np.float32]:
    return gguf.dequantize(data.reshape(SHAPE[0], -1), gguf.GGMLQuantizationType(type_))


def distance(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


@pytest.mark.parametrize("type_", SIZES)
def test_the_sizes_of_blocks_are_those_of_the_gguf_package(type_: GgmlType) -> None:
    assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(type_)] == SIZES[type_]
    assert gguf.GGMLQuantizationType(type_).name == type_.name


@pytest.mark.parametrize("type_", EXACT)
@given(st.integers(0, 2**32 - 1))
def test_blocks_with_a_scale_of_their_own_are_kept_to_the_bit(type_: GgmlType, seed: int) -> None:
    data = random_blocks(type_, seed)

    encoded = decode(type_, data, SHAPE)

    assert encoded.kind in (Kind.Q4, Kind.Q8)
    assert np.array_equal(encoded.dense().numpy(), plain(type_, data))


@pytest.mark.parametrize("type_", ROUNDED)
@given(st.integers(0, 2**32 - 1))
def test_blocks_with_a_product_for_a_scale_are_kept_but_for_its_rounding(type_: GgmlType, seed: int) -> None:
    data = random_blocks(type_, seed)

    encoded = decode(type_, data, SHAPE)

    assert encoded.kind in (Kind.Q4, Kind.Q8)
    assert distance(encoded.dense().numpy(), plain(type_, data)) < 2**-11


@pytest.mark.parametrize(
    ("type_", "kind", "block", "has_min"),
    [
        (GgmlType.Q4_0, Kind.Q4, 32, True),
        (GgmlType.Q8_0, Kind.Q8, 32, False),
        (GgmlType.Q2_K, Kind.Q4, 16, True),
        (GgmlType.Q4_K, Kind.Q4, 32, True),
        (GgmlType.Q6_K, Kind.Q8, 16, False),
    ],
)
def test_blocks_keep_their_bits(type_: GgmlType, kind: Kind, block: int, has_min: bool) -> None:
    encoding = decode(type_, random_blocks(type_, 0), SHAPE).encoding

    assert (encoding.kind, encoding.block, encoding.has_min) == (kind, block, has_min)


@pytest.mark.parametrize("type_", ROUNDED)
@pytest.mark.parametrize("scale", [1e-7, 3e-7, 1e-6, 1e-5, 3e4])
def test_no_scale_makes_it_lose_more_than_bfloat16_would(type_: GgmlType, scale: float) -> None:
    data = random_blocks(type_, 0, scale=scale)  # the smallest steps of float16 are 6e-8, its largest number is 6.5e4

    assert distance(decode(type_, data, SHAPE).dense().numpy(), plain(type_, data)) < 2**-8


def test_scales_too_large_for_float16_make_it_bfloat16() -> None:
    data = random_blocks(GgmlType.Q6_K, 0, scale=2e4)  # times up to 128

    assert decode(GgmlType.Q6_K, data, SHAPE).kind is Kind.BF16


@pytest.mark.parametrize(("exponent", "kind"), [(90, Kind.BF16), (105, Kind.Q8), (142, Kind.Q8), (145, Kind.BF16)])
def test_powers_of_two_that_float16_lacks_make_it_bfloat16(exponent: int, kind: Kind) -> None:
    data = random_blocks(GgmlType.MXFP4, 0)
    data.reshape(-1, 17)[:, 0] = exponent

    encoded = decode(GgmlType.MXFP4, data, SHAPE)

    assert encoded.kind is kind
    assert np.array_equal(encoded.dense().numpy(), plain(GgmlType.MXFP4, data))


def test_a_few_blocks_that_are_nothing_beside_the_others_do_not_count() -> None:
    data = random_blocks(GgmlType.MXFP4, 0)
    data.reshape(-1, 17)[:8, 0] = 80

    assert decode(GgmlType.MXFP4, data, SHAPE).kind is Kind.Q8


@pytest.mark.parametrize(
    "name", ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0", "NVFP4"]
)
def test_other_types_become_bfloat16(name: str) -> None:
    type_ = gguf.GGMLQuantizationType[name]
    values, size = size_of_block(type_)
    random = np.random.default_rng(0)
    data = random.integers(0, 60, SHAPE[0] * SHAPE[1] // values * size, dtype=np.uint8)  # no scale is infinite

    encoded = decode(type_, data, SHAPE)

    assert encoded.kind is Kind.BF16
    assert np.allclose(encoded.dense().numpy(), plain(type_, data), rtol=2**-8, atol=0)


def test_a_type_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="999"):
        size_of_block(999)


@pytest.mark.parametrize(
    ("type_", "kind", "write"),
    [
        (GgmlType.F32, Kind.F32, lambda values: values.view(np.uint8)),
        (GgmlType.F16, Kind.F16, lambda values: values.astype(np.float16).view(np.uint8)),
        (GgmlType.BF16, Kind.BF16, lambda values: gguf.quantize(values, gguf.GGMLQuantizationType.BF16)),
    ],
)
def test_floats_stay_as_they_are_and_where_they_are(
    type_: GgmlType, kind: Kind, write: Callable[[NDArray[np.float32]], Bytes]
) -> None:
    data = write(np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)).reshape(-1)

    encoded = decode(type_, data, SHAPE)

    assert encoded.kind is kind
    assert np.shares_memory(encoded.values, data)
    assert np.array_equal(encoded.dense().numpy(), plain(type_, data))


@pytest.mark.parametrize("type_", FORMATS)
def test_the_size_of_the_pieces_that_are_decoded_at_once_changes_nothing(
    type_: GgmlType, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random_blocks(type_, 0)
    whole = decode(type_, data, SHAPE)

    monkeypatch.setattr(gguf_blocks, "CHUNK_VALUES", 768)

    pieces = decode(type_, data, SHAPE)
    assert np.array_equal(pieces.dense(), whole.dense())
