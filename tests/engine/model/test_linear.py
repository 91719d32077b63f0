import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from engine.errors import ModelUnsupported
from engine.model.linear import BATCH_LOADS, RowLinear, replace_linears, settle_rows
from engine.model.rows import RowCounts

SHAPES = [(576, 576), (192, 576), (1536, 576), (576, 1536)]  # out and in: the default model's
ROWS = [*range(1, 18), 33, 100, 250, 256, 300]


def make_linear(out_features: int, in_features: int, *, bias: bool = False) -> RowLinear:
    (linear,) = replace_linears(nn.Sequential(nn.Linear(in_features, out_features, bias=bias)))
    return linear


@torch.inference_mode()
@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_the_same_bits_among_any_number_of_rows(shape: tuple[int, int], num_threads: int) -> None:
    torch.set_num_threads(num_threads)
    torch.manual_seed(0)
    linear = make_linear(*shape)
    settle_rows([linear], loads=BATCH_LOADS)
    inputs = torch.randn(1, max(ROWS), shape[1])
    expected = linear(inputs)

    for num_rows in ROWS:
        first = max(ROWS) - num_rows

        assert torch.equal(linear(inputs[:, :num_rows]), expected[:, :num_rows])
        assert torch.equal(linear(inputs[:, first:]), expected[:, first:])


@torch.inference_mode()
def test_the_product_is_the_replaced_layer_s() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 48), nn.Sequential(nn.Linear(48, 16, bias=False)), Conv1D(24, 16))
    inputs = torch.randn(1, 21, 32)
    expected = model(inputs)

    linears = replace_linears(model)
    settle_rows(linears, loads=BATCH_LOADS)

    assert {(linear.in_features, linear.out_features) for linear in linears} == {(32, 48), (48, 16), (16, 24)}
    torch.testing.assert_close(model(inputs), expected)


def test_replaced_layers_share_the_weights_of_the_old_ones() -> None:
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10, bias=False))
    model[1].weight = model[0].weight

    (linear,) = replace_linears(model)

    assert model[1] is linear
    assert linear.weight is model[0].weight


@torch.inference_mode()
def test_layers_of_all_shapes_share_one_quantum() -> None:
    linears = [make_linear(64, 32), make_linear(32, 64, bias=True), make_linear(64, 32)]

    quantum = settle_rows(linears, loads=BATCH_LOADS)

    assert {linear.rows.quantum for linear in linears} == {quantum}


@torch.inference_mode()
def test_no_rows_give_no_rows() -> None:
    assert make_linear(8, 4)(torch.empty(1, 0, 4)).shape == (1, 0, 8)


@torch.inference_mode()
def test_rows_that_fill_no_count_are_padded_and_cut() -> None:
    linear = make_linear(8, 4)
    linear.rows = RowCounts((4, 8))
    inputs = torch.randn(1, 9, 4)

    torch.testing.assert_close(linear(inputs), linear.product(inputs))


def test_products_that_are_never_the_same_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = make_linear(8, 4)
    monkeypatch.setattr(RowLinear, "product", lambda _, inputs: torch.rand(len(inputs), 8))

    with pytest.raises(ModelUnsupported, match="other bits each time"):
        settle_rows([linear], loads=BATCH_LOADS)


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(64, 64), (32, 64), (96, 33), (576, 576)])
def test_sums_that_nearly_cancel_have_the_same_bits_among_any_rows(shape: tuple[int, int], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    linear = RowLinear(nn.Parameter(torch.randn(*shape, generator=generator).to(dtype)), None, transposed=False)
    settle_rows([linear], loads=BATCH_LOADS)
    inputs = torch.randn(1, 64, shape[1], generator=generator)
    solved = torch.linalg.lstsq(linear.weight[:1].float(), linear.weight[:1].float() @ inputs[0].T).solution
    inputs = (inputs - solved.T).to(dtype)  # the first output is nearly zero

    alone = torch.cat([linear(inputs[:, row : row + 1]) for row in range(64)], dim=1)

    assert torch.equal(linear(inputs), alone)
