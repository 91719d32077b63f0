from collections.abc import Callable, Set as AbstractSet
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.encoding import Encoded, encode
from engine.model.kernels.native import Activation, Kind, NormKind, Scoring
from engine.model.parameters import Parameters, check_shape
from engine.model.precision import encode_as
from engine.model.structure import ExpertsData, LinearData, NormData
from tests.engine.model.kernels.machine import the_library

NORM = NormData("norm", "norm.bias", NormKind.LAYER, 1e-5, offset=1.0)
EXPERTS = ExpertsData(
    router=LinearData(("router",)),
    up="up",
    up_bias="up.bias",
    down="down",
    down_bias=None,
    count=2,
    chosen=1,
    width=4,
    activation=Activation.SILU,
    alpha=0.0,
    limit=0.0,
    scoring=Scoring.SOFTMAX,
    normalize=False,
    transposed=False,
    interleaved=False,
)


class FakeSource:
    """Parameters from a dictionary."""

    def __init__(self, **tensors: Tensor) -> None:
        self._tensors = {name.replace("_", "."): tensor for name, tensor in tensors.items()}

    def names(self) -> AbstractSet[str]:
        return self._tensors.keys()

    def encoded(self, name: str) -> Encoded:
        return encode(self._tensors[name])

    def experts(self, name: str) -> tuple[Encoded, ...]:
        return tuple(encode(matrix) for matrix in self._tensors[name])

    def vector(self, name: str) -> Tensor:
        return self._tensors[name].float()


def reading(**tensors: Tensor) -> Parameters:
    return Parameters(FakeSource(**tensors), the_library(), lambda matrix: matrix)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def packed_bytes(matrix: Tensor) -> Tensor:
    return reading().packed(encode(matrix)).data


def test_a_norm_s_weight_has_what_the_model_adds_to_it() -> None:
    parameters = reading(norm=torch.full((4,), 0.5), norm_bias=torch.full((4,), 0.25))

    weight, bias = parameters.norm_weight(NORM, 4), parameters.norm_bias(NORM, 4)

    assert weight is not None
    assert bias is not None
    assert (weight.tolist(), bias.tolist()) == ([1.5] * 4, [0.25] * 4)


def test_a_norm_without_parameters_has_none() -> None:
    bare = replace(NORM, weight=None, bias=None)

    assert reading().norm_weight(None, 4) is None
    assert reading().norm_weight(bare, 4) is None
    assert reading().norm_bias(bare, 4) is None


def test_parts_of_the_same_bits_are_one_matrix_and_others_stay_apart() -> None:
    first, second = random(16, 32), random(32, 32)
    parameters = reading(q=first, k=second, v=second.bfloat16())

    (together,) = parameters.matrices(LinearData(("q", "k")))
    assert (together.outputs, together.inputs, together.kind) == (48, 32, Kind.F32)
    assert torch.equal(together.data, packed_bytes(torch.cat([first, second])))

    apart = Parameters(
        FakeSource(q=first, v=second.bfloat16()),
        the_library(),
        lambda matrix: encode_as(matrix, "int8") if matrix.kind is Kind.F32 else matrix,
    ).matrices(LinearData(("q", "v")))
    assert [(matrix.kind, matrix.outputs) for matrix in apart] == [(Kind.Q8, 16), (Kind.BF16, 32)]


def test_beside_a_float32_matrix_all_are_float32() -> None:
    parameters = reading(q=random(16, 32), v=random(32, 32).bfloat16())

    (matrix,) = parameters.matrices(LinearData(("q", "v")))

    assert (matrix.kind, matrix.outputs) == (Kind.F32, 48)


def test_outputs_and_biases_are_put_in_order_together() -> None:
    order = tuple(reversed(range(16)))
    parameters = reading(q=random(16, 32), q_bias=torch.arange(16.0))
    data = LinearData(("q",), ("q.bias",), order)

    (matrix,) = parameters.matrices(data)
    bias = parameters.bias(data, 16)

    assert torch.equal(matrix.data, packed_bytes(random(16, 32).flip(0)))
    assert bias is not None
    assert bias.tolist() == [*order]


def test_a_matrix_that_lies_the_other_way_is_turned() -> None:
    (matrix,) = reading(q=random(32, 48)).matrices(LinearData(("q",), transposed=True))

    assert (matrix.outputs, matrix.inputs) == (48, 32)
    assert torch.equal(matrix.data, packed_bytes(random(32, 48).t()))


def test_biases_of_stacked_layers_stand_one_after_the_other() -> None:
    parameters = reading(q_bias=torch.zeros(2), k_bias=torch.ones(3))

    bias = parameters.bias(LinearData(("q", "k"), ("q.bias", "k.bias")), 5)

    assert bias is not None
    assert bias.tolist() == [0, 0, 1, 1, 1]
    assert parameters.bias(LinearData(("q", "k")), 5) is None


def test_gates_and_ups_in_turns_are_put_apart() -> None:
    up, bias = random(2, 8, 32), random(2, 8)
    parameters = reading(up=up, up_bias=bias)
    apart = [0, 2, 4, 6, 1, 3, 5, 7]

    matrices = parameters.experts(EXPERTS, "up", interleaved=True)
    biases = parameters.expert_biases("up.bias", (2, 8), interleaved=True)

    assert [matrix.outputs for matrix in matrices] == [8, 8]
    for matrix, expert in zip(matrices, up, strict=True):
        assert torch.equal(matrix.data, packed_bytes(expert[apart]))
    assert torch.equal(biases, bias[:, apart])
    assert torch.equal(parameters.expert_biases("up.bias", (2, 8), interleaved=False), bias)


def test_bytes_are_counted_by_how_matrices_are_stored() -> None:
    parameters = reading(q=random(16, 32), k=random(16, 32).bfloat16(), table=random(16, 32))

    parameters.matrices(LinearData(("q",)))
    parameters.matrices(LinearData(("k",)))
    parameters.table("table")

    assert parameters.num_bytes == {Kind.F32: 2 * 16 * 32 * 4, Kind.BF16: 16 * 32 * 2}


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda p: p.vector("norm", 5), r"norm has the shape \[4\], and by the config it is \[5\]"),
        (lambda p: p.norm_weight(NORM, 6), r"norm has the shape \[4\], and by the config it is \[6\]"),
        (lambda p: p.bias(LinearData(("q",), ("norm",)), 3), r"norm has the shape \[4\], .* \[3\]"),
        (
            lambda p: p.bias(LinearData(("q", "k"), ("norm", "norm")), 9),
            r"the stack of norm and norm has the shape \[8\], .* \[9\]",
        ),
        (
            lambda p: p.expert_biases("up.bias", (2, 9), interleaved=False),
            r"up\.bias has the shape \[2, 8\], .* \[2, 9\]",
        ),
        (lambda _: check_shape("x", (1, 2), (2, 2)), r"x has the shape \[1, 2\], and by the config it is \[2, 2\]"),
    ],
)
def test_a_parameter_of_another_size_is_refused_with_both(read: Callable[[Parameters], object], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        read(reading(norm=torch.ones(4), up_bias=torch.ones(2, 8)))
