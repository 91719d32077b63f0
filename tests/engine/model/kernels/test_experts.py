"""A mixture of experts against torch in float64: the choice, the experts' layers, the weighted sum."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor
from torch.nn import functional

from engine.model.encoding import Encoded
from engine.model.kernels.matrix import pack
from engine.model.kernels.native import (
    Activation,
    Combine,
    Experts,
    Format,
    Gate,
    Kind,
    Level,
    Op,
    Route,
    Scoring,
)
from tests.engine.model.kernels.machine import (
    FLOAT_LEVELS,
    LEVELS,
    Machine,
    Rows,
    random_matrix,
    same_bits,
    the_library,
)

every_level = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
HIDDEN, WIDTH = 64, 48


def random_rows(num_rows: int, width: int, *, seed: int = 0, scale: float = 1.0) -> Tensor:
    return torch.randn(num_rows, width, generator=torch.Generator().manual_seed(seed)) * scale


# -- the choice


@dataclass(frozen=True, slots=True)
class Routes:
    """What Route left behind, for `rows` × `chosen` pairs."""

    ids: Tensor
    weights: Tensor
    pairs: Tensor
    places: Tensor
    starts: Tensor


def route(level: Level, scores: Tensor, body: Route, *, num_threads: int = 1) -> Routes:
    machine = Machine(level, num_threads=num_threads, max_rows=len(scores))
    body.input, body.experts = machine.rows(scores).number, scores.shape[1]
    machine.emit(Op.ROUTE, body)
    machine.reserve_routes(experts=body.experts, chosen=body.chosen)
    machine.run(len(scores))
    return Routes(*machine._routes)


def weights_of(scores: Tensor, chosen: int, scoring: Scoring, *, normalize: bool) -> tuple[Tensor, Tensor]:
    """Ids and weights [rows, chosen] as transformers' routers have them."""
    best, ids = scores.double().topk(chosen, dim=-1)
    match scoring:
        case Scoring.SOFTMAX:
            weights = scores.double().softmax(-1).gather(1, ids)
        case Scoring.SOFTMAX_OF_CHOSEN:
            weights = best.softmax(-1)
        case Scoring.SIGMOID:
            weights = best.sigmoid()
    return ids, weights / weights.sum(-1, keepdim=True) if normalize else weights


@every_level
@given(
    num_rows=st.integers(1, 40),
    num_experts=st.integers(1, 130),
    chosen=st.integers(1, 20),
    scoring=st.sampled_from(Scoring),
    normalize=st.booleans(),
    seed=st.integers(0, 999),
)
def test_routes_are_those_of_transformers(
    level: Level, num_rows: int, num_experts: int, chosen: int, scoring: Scoring, normalize: bool, seed: int
) -> None:
    chosen = min(chosen, num_experts)
    scores = random_rows(num_rows, num_experts, seed=seed, scale=3.0)
    ids, weights = weights_of(scores, chosen, scoring, normalize=normalize)

    found = route(level, scores, Route(chosen=chosen, scoring=scoring, normalize=normalize, scale=2.0), num_threads=2)

    assert torch.equal(found.ids.view(num_rows, chosen), ids.int())
    torch.testing.assert_close(found.weights.view(num_rows, chosen).double(), 2.0 * weights, rtol=2e-6, atol=1e-7)


@every_level
def test_of_equal_scores_the_lowest_ids_are_chosen(level: Level) -> None:
    scores = torch.tensor([[1.0, 2.0, 1.0, 2.0, 1.0], [0.0] * 5])

    found = route(level, scores, Route(chosen=3, scoring=Scoring.SOFTMAX, scale=1.0))

    assert found.ids.tolist() == [1, 3, 0, 0, 1, 2]


@every_level
@given(num_rows=st.integers(1, 60), num_experts=st.integers(2, 40), seed=st.integers(0, 999))
def test_pairs_come_in_the_order_of_their_experts(level: Level, num_rows: int, num_experts: int, seed: int) -> None:
    scores = random_rows(num_rows, num_experts, seed=seed)

    found = route(level, scores, Route(chosen=2, scoring=Scoring.SOFTMAX, scale=1.0), num_threads=2)

    assert torch.equal(found.pairs.long(), found.ids.argsort(stable=True))
    assert torch.equal(found.places[found.pairs.long()], torch.arange(num_rows * 2, dtype=torch.int32))
    counts = torch.bincount(found.ids, minlength=num_experts)
    assert torch.equal(found.starts, functional.pad(counts.cumsum(0), (1, 0)).int())


@every_level
def test_scores_that_are_no_numbers_choose_experts_that_exist(level: Level) -> None:
    scores = torch.full((3, 7), torch.nan)
    scores[1, 4] = 1.0

    found = route(level, scores, Route(chosen=4, scoring=Scoring.SOFTMAX, scale=1.0))

    assert all(len(set(row)) == 4 and set(row) <= set(range(7)) for row in found.ids.view(3, 4).tolist())
    assert found.weights.view(3, 4)[[0, 2]].isnan().all()


# -- the layers and the sum


@dataclass(frozen=True, slots=True)
class Mixture:
    """The parameters of one layer of experts, gates before ups."""

    up: Sequence[Encoded]  # [2 × WIDTH, HIDDEN] of each expert
    down: Sequence[Encoded]  # [HIDDEN, WIDTH]
    up_bias: Tensor | None  # [experts, 2 × WIDTH]
    down_bias: Tensor | None  # [experts, HIDDEN]
    chosen: int

    @property
    def kind(self) -> Kind:
        return self.up[0].kind


def mixture(kind: Kind, count: int, chosen: int, *, biased: bool = False) -> Mixture:
    up = [random_matrix(kind, 2 * WIDTH, HIDDEN, has_min=kind is Kind.Q4, seed=expert) for expert in range(count)]
    down = [random_matrix(kind, HIDDEN, WIDTH, seed=100 + expert) for expert in range(count)]
    if not biased:
        return Mixture(up, down, None, None, chosen)
    return Mixture(up, down, random_rows(count, 2 * WIDTH, seed=7), random_rows(count, HIDDEN, seed=8), chosen)


def run_mixture(
    level: Level, data: Mixture, rows: Tensor, scores: Tensor, *, num_threads: int = 1, add_to: Tensor | None = None
) -> Tensor:
    """What the experts give for `rows` [rows, HIDDEN], added to `add_to` if there is any."""
    machine = Machine(level, num_threads=num_threads, max_rows=len(rows))
    format = Format.PLAIN if data.kind is Kind.F32 else machine.input_format
    count, chosen, pairs = len(data.up), data.chosen, len(rows) * data.chosen
    source, scored = machine.rows(rows, format), machine.rows(scores)
    projected, acted = machine.room(pairs, 2 * WIDTH), machine.room(pairs, WIDTH, format)
    given_back = machine.room(pairs, HIDDEN)
    output = machine.room(len(rows), HIDDEN) if add_to is None else machine.rows(add_to)
    machine.reserve_routes(experts=count, chosen=chosen)
    body = Route(input=scored.number, experts=count, chosen=chosen, scoring=Scoring.SOFTMAX, normalize=1, scale=1.0)
    machine.emit(Op.ROUTE, body)
    _emit_experts(machine, data.up, data.up_bias, source, projected, chosen=chosen, expand=True)
    gate = Gate(input=projected.number, output=acted.number, activation=Activation.SILU, gated=1, per_row=chosen)
    machine.emit(Op.GATE, gate)
    _emit_experts(machine, data.down, data.down_bias, acted, given_back, chosen=chosen, expand=False)
    combine = Combine(input=given_back.number, output=output.number, chosen=chosen, scale=0.5)
    combine.accumulate = add_to is not None
    machine.emit(Op.COMBINE, combine)
    machine.run(len(rows))
    return output.values()


def _emit_experts(
    machine: Machine,
    matrices: Sequence[Encoded],
    biases: Tensor | None,
    source: Rows,
    output: Rows,
    *,
    chosen: int,
    expand: bool,
) -> None:
    body = Experts(
        input=source.number,
        output=output.number,
        experts=len(matrices),
        chosen=chosen,
        expand=expand,
        weights=machine.weights([pack(the_library(), matrix) for matrix in matrices]),
    )
    if biases is not None:
        body.biases = machine.pointers(list(biases))
    machine.emit(Op.EXPERTS, body)


def expected_of(data: Mixture, rows: Tensor, scores: Tensor) -> Tensor:
    ids, weights = weights_of(scores, data.chosen, Scoring.SOFTMAX, normalize=True)
    output = torch.zeros(len(rows), HIDDEN, dtype=torch.float64)
    for row, choices in enumerate(ids.tolist()):
        for place, expert in enumerate(choices):
            up = data.up[expert].dense().double() @ rows[row].double()
            up = up if data.up_bias is None else up + data.up_bias[expert]
            acted = functional.silu(up[:WIDTH]) * up[WIDTH:]
            down = data.down[expert].dense().double() @ acted
            down = down if data.down_bias is None else down + data.down_bias[expert]
            output[row] += 0.5 * weights[row, place] * down
    return output


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


@every_level
@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
@given(num_rows=st.integers(1, 30), chosen=st.integers(1, 4), biased=st.booleans(), seed=st.integers(0, 99))
def test_a_mixture_is_torchs(level: Level, kind: Kind, num_rows: int, chosen: int, biased: bool, seed: int) -> None:
    data = mixture(kind, 6, chosen, biased=biased)
    rows, scores = random_rows(num_rows, HIDDEN, seed=seed), random_rows(num_rows, 6, seed=seed + 1)

    found = run_mixture(level, data, rows, scores, num_threads=2)

    in_tiles = level is Level.AMX and kind is not Kind.F32  # weights are rounded to bfloat16 there
    assert relative_error(found, expected_of(data, rows, scores)) < (5e-3 if in_tiles else 1e-6)


@every_level
@pytest.mark.parametrize("num_rows", [1, 600])
def test_all_rows_may_choose_the_same_experts(level: Level, num_rows: int) -> None:
    data = mixture(Kind.F32, 5, 2)
    rows = random_rows(num_rows, HIDDEN)
    scores = torch.tensor([0.0, 5.0, 0.0, 0.0, 4.0]).repeat(num_rows, 1)

    found = run_mixture(level, data, rows, scores, num_threads=3)

    assert relative_error(found, expected_of(data, rows, scores)) < 1e-6


@every_level
def test_what_the_experts_give_may_be_added_to_what_is_there(level: Level) -> None:
    data = mixture(Kind.F32, 4, 2)
    rows, scores, stream = random_rows(3, HIDDEN), random_rows(3, 4), random_rows(3, HIDDEN, seed=9)

    found = run_mixture(level, data, rows, scores, add_to=stream)

    torch.testing.assert_close(found, stream + run_mixture(level, data, rows, scores))


@every_level
@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
@given(num_rows=st.integers(2, 50), seed=st.integers(0, 99), num_threads=st.integers(1, 3))
def test_a_row_has_the_same_bits_however_many_share_its_experts(
    level: Level, kind: Kind, num_rows: int, seed: int, num_threads: int
) -> None:
    data = mixture(kind, 5, 2)
    rows, scores = random_rows(num_rows, HIDDEN, seed=seed), random_rows(num_rows, 5, seed=seed + 1)

    together = run_mixture(level, data, rows, scores, num_threads=num_threads)

    for row in (0, num_rows - 1):
        assert same_bits(together[row], run_mixture(level, data, rows[[row]], scores[[row]])[0])


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_every_level_without_tiles_gives_the_same_bits(kind: Kind) -> None:
    data, rows, scores = mixture(kind, 8, 3), random_rows(20, HIDDEN), random_rows(20, 8, seed=1)

    first, *others = [run_mixture(level, data, rows, scores) for level in FLOAT_LEVELS]

    assert all(same_bits(first, other) for other in others)
