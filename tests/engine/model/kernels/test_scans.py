"""Recurrent layers on the kernels and in torch: what they compute, and that no cut and no company changes a bit."""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from engine.model import scans as twins
from engine.model.kernels import scans
from engine.model.kernels.native import Level
from engine.model.scans import Delta, Selection, StateStep
from tests.engine.model.kernels.machine import LEVELS, opened

NUM_SLOTS = 12
GARBAGE = float("nan")
Run = Callable[[Tensor, slice, StateStep], Tensor]  # the layer over some rows of all


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def step_of(spans: Sequence[tuple[int, int, int, int]], checkpoints: Sequence[tuple[int, int, int]] = ()) -> StateStep:
    tables = [torch.tensor(rows, dtype=torch.int32).view(-1, width) for rows, width in ((spans, 4), (checkpoints, 3))]
    return StateStep(tables[0], tables[1], spans[-1][0] + spans[-1][1])


@dataclass(frozen=True)
class Layer:
    """One layer with rows to run it on, natively and in torch."""

    num_rows: int
    state_shape: tuple[int, ...]
    native: Callable[[Tensor, slice, StateStep, Level, int], Tensor]
    twin: Run

    def states(self) -> Tensor:
        return torch.full((NUM_SLOTS, *self.state_shape), GARBAGE)


def convolution(
    channels: int = 70, taps: int = 4, *, num_rows: int = 40, silu: bool = True, bias: bool = True
) -> Layer:
    rows, weight = random(num_rows, channels + 9)[:, 5 : 5 + channels], random(taps, channels, seed=1)
    offset = random(channels, seed=2) if bias else None

    def native(states: Tensor, part: slice, step: StateStep, level: Level, pool: int) -> Tensor:
        form, tables = [step.num_rows, int(silu)], (step.spans, step.checkpoints)
        out: Tensor = scans.convolve(rows[part], weight, offset, states, *tables, form, level, pool)
        return out

    def twin(states: Tensor, part: slice, step: StateStep) -> Tensor:
        return twins.convolve(rows[part], weight, offset, states, step, silu=silu)

    return Layer(num_rows, (taps - 1, channels), native, twin)


def selection(
    heads: int = 6, states: int = 5, dim: int = 20, *, num_rows: int = 40, groups: int = 2, by_channel: bool = False
) -> Layer:
    wide, shared = heads * dim, groups * states
    x, time, b, c, gate = random(num_rows, 3 * wide + 2 * shared).split([wide, wide, shared, shared, wide], dim=1)
    whole = Selection(
        x,
        time if by_channel else time[:, :heads],
        b,
        c,
        gate if by_channel else None,
        -random(*((heads, states, dim) if by_channel else (heads,)), seed=1).abs(),
        random(wide if by_channel else heads, seed=2),
        None if by_channel else random(heads, seed=3),
        groups,
        (0.05, 1.5),
    )

    def some(part: slice) -> Selection:
        gated = None if whole.gate is None else whole.gate[part]
        return replace(whole, x=whole.x[part], time=whole.time[part], b=whole.b[part], c=whole.c[part], gate=gated)

    def native(states: Tensor, part: slice, step: StateStep, level: Level, pool: int) -> Tensor:
        of = some(part)
        out: Tensor = scans.select(
            [of.x, of.time, of.b, of.c],
            of.gate,
            of.a,
            of.skip,
            of.time_bias,
            states,
            step.spans,
            step.checkpoints,
            [step.num_rows, of.groups],
            list(of.limits),
            level,
            pool,
        )
        return out

    def twin(states: Tensor, part: slice, step: StateStep) -> Tensor:
        return twins.select(some(part), states, step)

    return Layer(num_rows, (heads, states, dim), native, twin)


def delta_rule(
    key_heads: int = 2, value_heads: int = 4, key_dim: int = 24, value_dim: int = 20, *, num_rows: int = 40
) -> Layer:
    keys, values = key_heads * key_dim, value_heads * value_dim
    query, key, value = random(num_rows, 2 * keys + values).split([keys, keys, values], dim=1)
    rate, time = random(num_rows, 2 * value_heads, seed=1).split(value_heads, dim=1)
    a, time_bias = -random(value_heads, seed=2).abs(), random(value_heads, seed=3)

    def native(states: Tensor, part: slice, step: StateStep, level: Level, pool: int) -> Tensor:
        rows = [each[part] for each in (query, key, value, time, rate)]
        tables = (step.spans, step.checkpoints)
        out: Tensor = scans.apply_delta_rule(rows, a, time_bias, states, *tables, step.num_rows, level, pool)
        return out

    def twin(states: Tensor, part: slice, step: StateStep) -> Tensor:
        rows = (query[part], key[part], value[part], time[part], rate[part])
        return twins.apply_delta_rule(Delta(*rows, a, time_bias), states, step)

    return Layer(num_rows, (value_heads, key_dim, value_dim), native, twin)


LAYERS: dict[str, Callable[[], Layer]] = {
    "convolution": convolution,
    "convolution-plain": lambda: convolution(64, 3, silu=False, bias=False),
    "mamba": lambda: selection(8, 16, 16, groups=1, by_channel=True),
    "mamba2": selection,
    "mamba2-wide": lambda: selection(3, 7, 144, groups=1),
    "delta": delta_rule,
    "delta-wide": lambda: delta_rule(1, 2, 32, 80),
}


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> Layer:
    return LAYERS[request.param]()


@pytest.fixture(params=[*LEVELS, None], ids=lambda level: "torch" if level is None else level.name)
def run(layer: Layer, request: pytest.FixtureRequest, pool: int) -> Run:
    level: Level | None = request.param
    if level is None:
        return layer.twin
    return lambda states, part, step: layer.native(states, part, step, level, pool)


def alone(layer: Layer, run: Run, part: slice) -> tuple[Tensor, Tensor]:
    """What a sequence of these rows gives by itself, and the state behind it."""
    states = layer.states()
    out = run(states, part, step_of([(0, part.stop - part.start, -1, 0)]))
    return out, states[0]


@pytest.mark.parametrize("source", [-1, 3])
def test_the_kernels_agree_with_torch(layer: Layer, source: int, level: Level, pool: int) -> None:
    states = layer.states()
    states[3] = random(*layer.state_shape, seed=9)
    plain = states.clone()
    step = step_of([(0, layer.num_rows, source, 1)], [(0, 7, 4)])

    out = layer.native(states, slice(None), step, level, pool)

    torch.testing.assert_close(out, layer.twin(plain, slice(None), step), atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(states, plain, atol=2e-5, rtol=1e-5, equal_nan=True)


def test_no_company_changes_a_bit_and_rows_behind_the_spans_are_zero(layer: Layer, run: Run) -> None:
    cuts = [0, 1, 3, 20, layer.num_rows - 5]
    parts = [slice(*pair) for pair in itertools.pairwise(cuts)]
    expected = [alone(layer, run, part) for part in parts]

    states = layer.states()
    spans = [(part.start, part.stop - part.start, -1, slot) for slot, part in enumerate(parts)]
    out = run(states, slice(0, layer.num_rows), step_of(spans))

    assert torch.equal(out[: cuts[-1]], torch.cat([each for each, _ in expected]))
    assert torch.equal(states[: len(parts)], torch.stack([state for _, state in expected]))
    assert not out[cuts[-1] :].any()
    assert states[len(parts) :].isnan().all()


@settings(max_examples=8)
@given(cuts=st.sets(st.integers(1, 39), max_size=8), in_place=st.booleans())
@pytest.mark.parametrize("name", LAYERS)
def test_no_cut_changes_a_bit(name: str, cuts: set[int], in_place: bool, pool: int) -> None:
    layer = LAYERS[name]()

    def native(states: Tensor, part: slice, step: StateStep) -> Tensor:
        return layer.native(states, part, step, LEVELS[-1], pool)

    for run in (native, layer.twin):
        whole, final = alone(layer, run, slice(0, layer.num_rows))
        states, outs, source = layer.states(), [], -1
        for number, (start, stop) in enumerate(itertools.pairwise([0, *sorted(cuts), layer.num_rows])):
            target = 0 if in_place else number
            outs.append(run(states, slice(start, stop), step_of([(0, stop - start, source, target)])))
            source = target

        assert torch.equal(torch.cat(outs), whole)
        assert torch.equal(states[source], final)


def test_a_checkpoint_is_the_state_of_the_prefix(layer: Layer, run: Run) -> None:
    states = layer.states()
    spans = [(0, 2, -1, 0), (2, 30, -1, 1)]
    checkpoints = [(0, 1, 2), (0, 2, 3), (1, 1, 4), (1, 2, 5), (1, 29, 6), (1, 30, 7), (1, 30, 8)]

    run(states, slice(0, layer.num_rows), step_of(spans, checkpoints))

    for number, count, slot in checkpoints:
        row = spans[number][0]
        assert torch.equal(states[slot], alone(layer, run, slice(row, row + count))[1]), (number, count)
    assert states[9:].isnan().all()


def test_neither_the_number_of_threads_nor_the_vectors_of_a_level_change_a_bit(layer: Layer) -> None:
    outs = []
    for threads, level in itertools.product((1, 2, 5), LEVELS):
        states = layer.states()
        with opened(threads) as pool:
            step = step_of([(0, 20, -1, 0), (20, 20, -1, 1)])
            outs.append((layer.native(states, slice(None), step, level, pool), states[:2]))

    assert all(torch.equal(one, other) for out in outs for one, other in zip(out, outs[0], strict=True))


def test_a_state_that_is_no_number_is_not_hidden(layer: Layer, run: Run) -> None:
    states = layer.states()

    out = run(states, slice(0, 1), step_of([(0, 1, 2, 0)]))

    assert out.isnan().any()


@pytest.mark.parametrize("name", LAYERS)
def test_the_operators_keep_the_laws_of_operators(name: str, pool: int) -> None:
    checks: list[Callable[[], object]] = []
    layer = LAYERS[name]()
    step = step_of([(0, 3, -1, 0)])
    with pytest.MonkeyPatch.context() as patch:
        for op in ("convolve", "select", "apply_delta_rule"):
            check = functools.partial(torch.library.opcheck, getattr(torch.ops.tidemark, op).default)
            patch.setattr(scans, op, lambda *args, check=check: checks.append(functools.partial(check, args)))
        layer.native(torch.zeros(NUM_SLOTS, *layer.state_shape), slice(0, 4), step, Level.AVX2, pool)

    assert checks
    for each in checks:
        each()


def test_shapes_are_known_before_they_run() -> None:
    with FakeTensorMode():
        rows, spans, checkpoints = torch.empty(7, 64), torch.empty(1, 4), torch.empty(0, 3)
        states = torch.empty(2, 3, 64)
        out = torch.ops.tidemark.convolve(rows, torch.empty(4, 64), None, states, spans, checkpoints, [7, 1], 0, 0)

    assert (out.shape, out.dtype) == ((7, 64), torch.float32)
