"""The operators that modules call: their schemas, their shapes before they run, and what they compute."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from engine.cache.lanes import LaneStorage
from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.model.kernels import ops
from engine.model.kernels.cache import CacheForm
from engine.model.kernels.matrix import Matrix, pack
from engine.model.kernels.native import Kind, Level, Weight
from tests.engine.model.kernels.machine import random_matrix, the_library

HEADS, KV_HEADS, DIM, BLOCK_SIZE = 4, 2, 20, 16
FORM = [HEADS, 0, 0, 0]  # without a window
CACHE_FORM = list(CacheForm(KV_HEADS, DIM, DIM, BLOCK_SIZE, table=0, latent=0))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def form_of(matrix: Matrix) -> list[int]:
    return [matrix.outputs, matrix.inputs, int(matrix.kind), matrix.block, int(matrix.has_min)]


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("num_rows", [0, 1, 5, 40])
def test_linear_is_the_product_with_the_decoded_matrix(
    kind: Kind, has_bias: bool, num_rows: int, level: Level, pool: int
) -> None:
    encoded = random_matrix(kind, 37, 64)
    matrix = pack(the_library(), encoded)
    rows, bias = random(num_rows, 64), random(37) if has_bias else None

    out = ops.linear(rows, matrix.data, bias, form_of(matrix), level, pool)

    dense = encoded.dense()
    if level is Level.AMX and kind is Kind.F16:
        dense = dense.bfloat16().float()  # what its tiles take
    torch.testing.assert_close(out, functional.linear(rows, dense, bias), atol=2e-3, rtol=0)


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name)
@pytest.mark.parametrize("has_biases", [False, True])
def test_grouped_is_linear_over_each_group_s_rows(kind: Kind, has_biases: bool, level: Level, pool: int) -> None:
    matrices = [pack(the_library(), random_matrix(kind, 37, 64, seed=group)) for group in range(3)]
    rows, biases = random(20, 64), random(3, 37, seed=1) if has_biases else None

    out = ops.grouped(rows, [0, 6, 6, 20], weights_of(matrices), biases, 37, level, pool)

    first, last = ((rows[:6], 0), (rows[6:], 2))
    parts = [
        ops.linear(
            part, matrices[group].data, None if biases is None else biases[group], form_of(matrices[group]), level, pool
        )
        for part, group in (first, last)
    ]
    assert torch.equal(out, torch.cat(parts))


def weights_of(matrices: list[Matrix]) -> Tensor:
    array = (Weight * len(matrices))(*(matrix.weight() for matrix in matrices))
    return torch.frombuffer(bytearray(array), dtype=torch.uint8)


def test_grouped_keeps_the_laws_of_operators(level: Level, pool: int) -> None:
    matrices = [pack(the_library(), random_matrix(Kind.Q8, 37, 64, seed=group)) for group in range(2)]

    torch.library.opcheck(ops.grouped, (random(5, 64), [0, 2, 5], weights_of(matrices), None, 37, int(level), pool))


def test_linear_keeps_the_laws_of_operators(level: Level, pool: int) -> None:
    matrix = pack(the_library(), random_matrix(Kind.Q4, 37, 64, has_min=True))

    for bias in (None, random(37)):
        torch.library.opcheck(ops.linear, (random(3, 64), matrix.data, bias, form_of(matrix), int(level), pool))


def test_linear_s_shape_is_known_before_it_runs() -> None:
    with FakeTensorMode():
        out = ops.linear(torch.empty(7, 64), torch.empty(3, 1, dtype=torch.uint8), None, [37, 64, 0, 32, 0], 0, 0)

    assert (out.shape, out.dtype) == ((7, 37), torch.float32)


def cache(dtype: str) -> list[Tensor]:
    """One layer's tensors; NaN throughout."""
    layout = Layout((CacheGroup((0,), RowShape(KV_HEADS, DIM, DIM, dtype, in_lanes=True)),))
    storage = LaneStorage(layout, num_units=4, block_size=BLOCK_SIZE)
    storage.poison(range(4))
    return list(storage.cells[0].tensors)


def step_of(start: int, count: int, blocks: list[int]) -> list[Tensor]:
    """One chunk of a sequence."""
    positions = range(start, start + count)
    slots = [blocks[at // BLOCK_SIZE] * BLOCK_SIZE + at % BLOCK_SIZE for at in positions]
    return [torch.tensor(each, dtype=torch.int32) for each in (positions, [slots], [[[0, start, count, 0]]], blocks)]


def qkv_of(count: int) -> Tensor:
    return random(count, (HEADS + 2 * KV_HEADS) * DIM, seed=1)


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-5), ("bfloat16", 0.03), ("int8", 0.1)])
@pytest.mark.parametrize("window", [0, 9])
@pytest.mark.parametrize("softcap", [0.0, 2.0])
def test_attention_is_that_over_all_that_was_written(
    dtype: str, atol: float, window: int, softcap: float, level: Level, pool: int
) -> None:
    rows = cache(dtype)
    form = [HEADS, window, 0, 0]
    qkv = qkv_of(40)

    parts = []
    for start, stop in ((0, 33), (33, 40)):
        step = step_of(start, stop - start, [2, 0, 3])
        parts.append(ops.attention(qkv[start:stop], rows, step, None, form, CACHE_FORM, softcap, level, pool))

    torch.testing.assert_close(torch.cat(parts), plain_attention(qkv, window, softcap), atol=atol, rtol=0)


def plain_attention(qkv: Tensor, window: int, softcap: float) -> Tensor:
    count = len(qkv)
    query, key, value = qkv.view(count, -1, DIM).transpose(0, 1).split([HEADS, KV_HEADS, KV_HEADS])
    key, value = (part.repeat_interleave(HEADS // KV_HEADS, dim=0) for part in (key, value))
    scores = query @ key.transpose(1, 2)
    if softcap:
        scores = softcap * (scores / softcap).tanh()
    behind = torch.arange(count)[:, None] - torch.arange(count)
    seen = (behind >= 0) & (behind < (window or count))
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    mixed: Tensor = (weights @ value).transpose(0, 1).reshape(count, -1)
    return mixed


def test_sinks_take_their_share(level: Level, pool: int) -> None:
    rows = cache("float32")
    sinks = torch.full((HEADS,), 100.0)

    out = ops.attention(qkv_of(5), rows, step_of(0, 5, [1]), sinks, FORM, CACHE_FORM, 0.0, level, pool)

    assert out.abs().max() < 1e-6


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_attention_keeps_the_laws_of_operators(dtype: str, level: Level, pool: int) -> None:
    rows = [torch.zeros_like(part) for part in cache(dtype)]

    arguments = (qkv_of(5), rows, step_of(0, 5, [1]), None, FORM, CACHE_FORM, 0.0, int(level), pool)
    torch.library.opcheck(ops.attention, arguments)


def test_attention_s_shape_is_known_before_it_runs() -> None:
    with FakeTensorMode():
        out = ops.attention(
            torch.empty(7, 160), [torch.empty(1)] * 2, [torch.empty(7)], None, FORM, CACHE_FORM, 0.0, 0, 0
        )

    assert (out.shape, out.dtype) == ((7, HEADS * DIM), torch.float32)
