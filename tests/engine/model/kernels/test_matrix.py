import pytest
import torch
from torch import Tensor

from engine.model.encoding import Encoded
from engine.model.kernels.matrix import Matrix, describe_bits, pack
from engine.model.kernels.native import Embed, Kind, Level, Op
from tests.engine.model.kernels.machine import LEVELS, Machine, random_matrix, same_bits, the_library

SHAPES = [(16, 32), (5, 64), (33, 96), (100, 80)]
INTEGERS = (Kind.Q8, Kind.Q4)
ENCODINGS = [*((kind, False) for kind in Kind), *((kind, True) for kind in INTEGERS)]


def decoded(matrix: Matrix, level: Level) -> Tensor:
    """The matrix as kernels decode it: each row looked up by its number."""
    machine = Machine(level, max_rows=matrix.outputs)
    rows = machine.room(matrix.outputs, matrix.inputs)
    machine.emit(Op.EMBED, Embed(output=rows.number, scale=1.0, table=machine.weight(matrix)))
    machine.run(matrix.outputs, ids=range(matrix.outputs))
    return rows.values()


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize(("kind", "has_min"), ENCODINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_packed_is_decoded_to_what_it_was(
    level: Level, kind: Kind, has_min: bool, shape: tuple[int, int]
) -> None:
    encoded = random_matrix(kind, *shape, has_min=has_min)

    matrix = pack(the_library(), encoded)

    assert same_bits(decoded(matrix, level), encoded.dense())


@pytest.mark.parametrize(("kind", "has_min"), ENCODINGS)
def test_a_packed_matrix_says_what_it_holds_and_takes(kind: Kind, has_min: bool) -> None:
    encoded = random_matrix(kind, 33, 96, has_min=has_min)

    matrix = pack(the_library(), encoded)

    assert (matrix.outputs, matrix.inputs, matrix.kind, matrix.has_min) == (33, 96, kind, has_min)
    assert matrix.block == (encoded.block or 32)
    assert matrix.num_bytes == matrix.data.numel() == 3 * matrix.data.shape[1]
    per_value = {Kind.F32: 4.0, Kind.F16: 2.0, Kind.BF16: 2.0, Kind.Q8: 1.0, Kind.Q4: 0.5}[kind]
    headers = (2 + 2 * has_min) / 32 if kind in INTEGERS else 0.0
    assert matrix.num_bytes == 48 * 96 * (per_value + headers)  # three panels of sixteen outputs


def test_a_weight_names_the_matrix_s_own_memory() -> None:
    matrix = pack(the_library(), random_matrix(Kind.Q4, 16, 64, has_min=True))

    weight = matrix.weight()

    assert weight.data == matrix.data.data_ptr()
    assert (weight.outputs, weight.inputs, weight.block, weight.has_min) == (16, 64, 32, 1)


def test_a_matrix_s_source_can_go_once_it_is_packed() -> None:
    values = torch.ones(16, 32)
    matrix = pack(the_library(), Encoded(Kind.F32, values.numpy()))

    values.zero_()

    assert decoded(matrix, LEVELS[0]).sum() == 16 * 32


def test_bits_are_told_largest_part_first() -> None:
    assert describe_bits({Kind.Q8: 10, Kind.Q4: 20, Kind.F32: 1}) == "int4+int8+float32"
    assert describe_bits({Kind.BF16: 1}) == "bfloat16"
