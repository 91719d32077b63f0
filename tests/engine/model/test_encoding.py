import numpy as np
import pytest
import torch

from engine.model.encoding import Encoded, encode, stack
from engine.model.kernels.native import Kind

SCALES = np.array([[0.5, 2.0], [0.25, 1.0], [4.0, 8.0]], np.float16)


def integers(kind: Kind, *, minima: bool, block: int = 16) -> Encoded:
    values = np.arange(3 * 2 * block).reshape(3, -1) % 16
    typed = values.astype(np.uint8) if kind is Kind.Q4 else (values - 8).astype(np.int8)
    return Encoded(kind, typed, SCALES, -SCALES if minima else None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_floats_come_back_as_they_were(dtype: torch.dtype) -> None:
    matrix = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).to(dtype)

    encoded = encode(matrix)

    assert torch.equal(encoded.dense(), matrix.float())
    assert (encoded.outputs, encoded.inputs, encoded.block) == (5, 7, None)


def test_a_matrix_that_lies_the_other_way_is_encoded_by_its_rows() -> None:
    matrix = torch.arange(6.0).view(2, 3).t()

    assert torch.equal(encode(matrix).dense(), matrix)


def test_floats_share_the_memory_of_their_tensor() -> None:
    matrix = torch.zeros(2, 3, dtype=torch.bfloat16)
    encoded = encode(matrix)

    matrix[1, 2] = 1.0

    assert encoded.dense()[1, 2] == 1.0


@pytest.mark.parametrize("kind", [Kind.Q8, Kind.Q4])
@pytest.mark.parametrize("minima", [False, True])
@pytest.mark.parametrize("block", [16, 32])
def test_integers_stand_for_scale_times_integer_plus_minimum(kind: Kind, minima: bool, block: int) -> None:
    encoded = integers(kind, minima=minima, block=block)

    dense = encoded.dense()

    assert encoded.block == block
    for output in range(3):
        for column in range(2 * block):
            scale = float(SCALES[output, column // block])
            assert dense[output, column] == scale * int(encoded.values[output, column]) - minima * scale


def test_dense_leaves_the_stored_values_as_they_are() -> None:
    encoded = encode(torch.ones(2, 3))

    encoded.dense().zero_()

    assert encoded.dense().sum() == 6


def test_rows_are_chosen_with_their_scales() -> None:
    encoded = integers(Kind.Q8, minima=True)

    chosen = encoded.rows(np.array([2, 0, 2]))

    assert torch.equal(chosen.dense(), encoded.dense()[[2, 0, 2]])
    assert chosen.encoding == encoded.encoding


def test_stacked_matrices_stand_one_below_the_other() -> None:
    encoded = integers(Kind.Q4, minima=True)

    stacked = stack([encoded.rows(slice(1, 3)), encoded])

    assert torch.equal(stacked.dense(), torch.cat([encoded.dense()[1:], encoded.dense()]))


def test_floats_are_stacked_too() -> None:
    stacked = stack([encode(torch.ones(1, 2)), encode(torch.zeros(1, 2))])

    assert stacked.dense().tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_matrices_of_different_encodings_are_not_stacked() -> None:
    with pytest.raises(AssertionError, match="different encodings"):
        stack([integers(Kind.Q8, minima=True), integers(Kind.Q8, minima=False)])


def test_values_of_a_wrong_type_or_without_scales_are_not_taken() -> None:
    with pytest.raises(AssertionError, match="F32 values can't be float64"):
        Encoded(Kind.F32, np.zeros((2, 2)))
    with pytest.raises(AssertionError, match="integers have scales"):
        Encoded(Kind.Q8, np.zeros((2, 32), np.int8))
    with pytest.raises(AssertionError, match="a block of 64 inputs"):
        Encoded(Kind.Q8, np.zeros((2, 64), np.int8), np.zeros((2, 1), np.float16))
