"""What is done to each row apart, against torch in float64."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor
from torch.nn import functional

from engine.model.kernels.matrix import pack
from engine.model.kernels.native import (
    Activation,
    Embed,
    Format,
    Gate,
    Gather,
    Kind,
    Level,
    Norm,
    NormKind,
    Op,
    Softcap,
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
FORMATS = st.sampled_from(Format)
WIDTHS = st.integers(1, 150)
ALPHA, LIMIT = 1.702, 7.0

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.SILU: functional.silu,
    Activation.GELU_TANH: lambda x: functional.gelu(x, approximate="tanh"),
    Activation.GELU_ERF: functional.gelu,
    Activation.RELU: functional.relu,
    Activation.RELU_SQUARED: lambda x: functional.relu(x) ** 2,
}


def random_rows(num_rows: int, width: int, *, seed: int = 0, scale: float = 3.0) -> Tensor:
    return torch.randn(num_rows, width, generator=torch.Generator().manual_seed(seed)) * scale


def assert_holds(rows: Rows, expected: Tensor, *, within: float = 2e-6) -> None:
    """The rows' values are near `expected` float64, and their padding is zero; split parts have 16 bits."""
    tolerance = within if rows.format is Format.PLAIN else max(within, 2.0**-16)
    torch.testing.assert_close(rows.values().double(), expected, rtol=tolerance, atol=tolerance)
    assert not rows.padding().any()


# -- embed


@every_level
@pytest.mark.parametrize(
    ("kind", "has_min"), [(kind, False) for kind in Kind] + [(Kind.Q8, True), (Kind.Q4, True)], ids=str
)
@pytest.mark.parametrize("format", Format)
@pytest.mark.parametrize("width", [16, 48, 96])
def test_an_embedded_row_is_the_row_of_the_table(
    level: Level, kind: Kind, has_min: bool, format: Format, width: int
) -> None:
    table = random_matrix(kind, 37, width, has_min=has_min)
    machine = Machine(level)
    output = machine.room(4, width, format)
    weight = machine.weight(pack(the_library(), table))
    machine.emit(Op.EMBED, Embed(output=output.number, scale=2.5, table=weight))

    machine.run(4, ids=[36, 0, 17, 0])

    assert_holds(output, table.dense()[[36, 0, 17, 0]].double() * 2.5)


@every_level
def test_rows_of_positions_are_added(level: Level) -> None:
    table = random_matrix(Kind.F32, 5, 20)
    machine = Machine(level)
    output = machine.rows(random_rows(3, 20))
    before = output.values().double()
    weight = machine.weight(pack(the_library(), table))
    machine.emit(Op.EMBED, Embed(output=output.number, scale=1.0, by_position=1, table=weight))

    machine.run(3, ids=[4, 4, 4])

    assert_holds(output, before + table.dense()[:3].double())


# -- norm


def norm_of(
    values: Tensor, kind: NormKind, weight: Tensor | None, bias: Tensor | None, *, eps: float, scale: float
) -> Tensor:
    x = values.double()
    if kind is NormKind.LAYER:
        x = x - x.mean(-1, keepdim=True)
    if kind is not NormKind.NONE:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    x = x if weight is None else x * weight.double()
    return (x if bias is None else x + bias.double()) * scale


@every_level
@given(
    width=WIDTHS,
    kind=st.sampled_from(NormKind),
    format=FORMATS,
    weighted=st.booleans(),
    biased=st.booleans(),
    scale=st.sampled_from([1.0, 0.5]),
)
def test_a_norm_is_torchs(
    level: Level, width: int, kind: NormKind, format: Format, weighted: bool, biased: bool, scale: float
) -> None:
    machine, values = Machine(level), random_rows(3, width)
    weight = random_rows(1, width, seed=1)[0] if weighted else None
    bias = random_rows(1, width, seed=2)[0] if biased else None
    source, output = machine.rows(values), machine.room(3, width, format)
    body = Norm(
        input=source.number,
        output=output.number,
        kind=kind,
        eps=1e-5,
        scale=scale,
        weight=machine.pointer(weight),
        bias=machine.pointer(bias),
    )
    machine.emit(Op.NORM, body)

    machine.run(3)

    assert_holds(output, norm_of(values, kind, weight, bias, eps=1e-5, scale=scale), within=1e-5)


@every_level
def test_a_norm_may_be_added_to_what_is_there(level: Level) -> None:
    machine, values = Machine(level), random_rows(2, 50)
    source, stream = machine.rows(values), machine.rows(random_rows(2, 50, seed=1))
    before = stream.values().double()
    body = Norm(input=source.number, output=stream.number, kind=NormKind.RMS, eps=1e-6, accumulate=1, scale=0.25)
    machine.emit(Op.NORM, body)

    machine.run(2)

    assert_holds(stream, before + norm_of(values, NormKind.RMS, None, None, eps=1e-6, scale=0.25))


@every_level
def test_an_instruction_of_the_logits_sees_their_rows_alone(level: Level) -> None:
    machine, values = Machine(level), random_rows(4, 33)
    source, output = machine.rows(values), machine.room(4, 33)
    body = Norm(input=source.number, output=output.number, kind=NormKind.NONE, scale=1.0)
    machine.emit(Op.NORM, body, of_logits=True)

    machine.run(4, logit_rows=[3])

    assert torch.equal(output.values()[0], values[0])
    assert output.values()[1:].isnan().all()


# -- gate


def gate_of(values: Tensor, activation: Activation, *, gated: bool) -> Tensor:
    x = values.double()
    gate, up = x.chunk(2, dim=1) if gated else (x, torch.ones_like(x))
    if activation is Activation.CLAMPED_SWIGLU:
        gate, up = gate.clamp(max=LIMIT), up.clamp(-LIMIT, LIMIT)
        return (up + 1) * gate * torch.sigmoid(gate * ALPHA)
    return ACTIVATIONS[activation](gate) * up


def run_gate(
    level: Level, values: Tensor, activation: Activation, *, gated: bool, format: Format = Format.PLAIN
) -> Rows:
    machine = Machine(level)
    source = machine.rows(values)
    output = machine.room(len(values), values.shape[1] // (2 if gated else 1), format)
    body = Gate(
        input=source.number,
        output=output.number,
        activation=activation,
        gated=gated,
        per_row=1,
        alpha=ALPHA,
        limit=LIMIT,
    )
    machine.emit(Op.GATE, body)
    machine.run(len(values))
    return output


@every_level
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@given(width=WIDTHS, format=FORMATS, seed=st.integers(0, 99))
def test_an_activation_is_torchs(
    level: Level, activation: Activation, gated: bool, width: int, format: Format, seed: int
) -> None:
    values = random_rows(2, width * 2 if gated else width, seed=seed)

    output = run_gate(level, values, activation, gated=gated, format=format)

    assert_holds(output, gate_of(values, activation, gated=gated), within=1e-5)


@every_level
@given(width=WIDTHS, seed=st.integers(0, 99))
def test_the_clamped_activation_bounds_gates_above_and_ups_on_both_sides(level: Level, width: int, seed: int) -> None:
    values = random_rows(2, 2 * width, seed=seed, scale=8.0)

    output = run_gate(level, values, Activation.CLAMPED_SWIGLU, gated=True)

    assert_holds(output, gate_of(values, Activation.CLAMPED_SWIGLU, gated=True))


@every_level
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_is_near_torchs_everywhere(level: Level, activation: Activation) -> None:
    values = torch.linspace(-30.0, 30.0, 20001).unsqueeze(0)

    output = run_gate(level, values, activation, gated=False)

    difference = (output.values().double() - gate_of(values, activation, gated=False)).abs()
    assert (difference <= 5e-7 * values.abs().clamp(min=1.0) ** 2).all()


@every_level
@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize("column", [1, 3])
def test_what_is_no_number_stays_none(level: Level, activation: Activation, column: int) -> None:
    values = random_rows(1, 4)
    values[0, column] = math.nan

    output = run_gate(level, values, activation, gated=True)

    assert output.values().isnan().tolist() == [[False, True]]


@every_level
def test_rows_of_pairs_are_as_many_as_the_step_says(level: Level) -> None:
    machine, values = Machine(level), random_rows(6, 40)
    source, output = machine.rows(values), machine.room(8, 20)
    body = Gate(input=source.number, output=output.number, activation=Activation.RELU, gated=1, per_row=3)
    machine.emit(Op.GATE, body)

    machine.run(2)

    torch.testing.assert_close(output.values()[:6].double(), gate_of(values, Activation.RELU, gated=True))
    assert output.values()[6:].isnan().all()


# -- gather and softcap


@every_level
@given(width=WIDTHS, rows=st.lists(st.integers(0, 6), max_size=9))
def test_gathered_rows_are_the_rows_that_are_named(level: Level, width: int, rows: list[int]) -> None:
    machine, values = Machine(level), random_rows(7, width)
    source, output = machine.rows(values), machine.room(9, width)
    machine.emit(Op.GATHER, Gather(input=source.number, output=output.number))

    machine.run(7, logit_rows=rows)

    assert torch.equal(output.values()[: len(rows)], values[rows])
    assert not output.padding()[: len(rows)].any()
    assert output.values()[len(rows) :].isnan().all()


@every_level
@pytest.mark.parametrize("width", [1, 50, 8192, 20001])
def test_softcapped_logits_stay_below_the_cap(level: Level, width: int) -> None:
    machine, values = Machine(level), random_rows(2, width, scale=40.0)
    logits = machine.rows(values)
    machine.emit(Op.SOFTCAP, Softcap(output=logits.number, cap=30.0), of_logits=True)

    machine.run(5, logit_rows=[0, 4])

    assert_holds(logits, 30.0 * torch.tanh(values.double() / 30.0), within=1e-6)


@every_level
def test_a_softcap_does_not_hide_what_is_no_number(level: Level) -> None:
    machine = Machine(level)
    logits = machine.rows(torch.tensor([[1.0, math.nan, -math.inf]]))
    machine.emit(Op.SOFTCAP, Softcap(output=logits.number, cap=5.0), of_logits=True)

    machine.run(1, logit_rows=[0])

    assert logits.values()[0, 1].isnan()
    assert logits.values()[0, 2] == -5.0


# -- laws of all of them


def all_of_them(level: Level, values: Tensor, *, num_threads: int = 1) -> Tensor:
    """Rows [rows, even width] through a norm and every activation."""
    machine = Machine(level, num_threads=num_threads, max_rows=len(values))
    num_rows, width = values.shape
    source, normed = machine.rows(values), machine.room(num_rows, width)
    body = Norm(input=source.number, output=normed.number, kind=NormKind.LAYER, eps=1e-5, scale=1.0)
    machine.emit(Op.NORM, body)
    outputs = []
    for activation in Activation:
        output = machine.room(num_rows, width // 2, Format.PLAIN)
        gate = Gate(activation=activation, gated=1, per_row=1, alpha=ALPHA, limit=LIMIT)
        gate.input, gate.output = normed.number, output.number
        machine.emit(Op.GATE, gate)
        outputs.append(output)
    machine.run(num_rows)
    return torch.cat([output.values() for output in outputs], dim=1)


@given(width=WIDTHS, seed=st.integers(0, 999), scale=st.sampled_from([0.01, 3.0, 100.0]))
def test_every_level_without_tiles_gives_the_same_bits(width: int, seed: int, scale: float) -> None:
    values = random_rows(3, 2 * width, seed=seed, scale=scale)

    first, *others = [all_of_them(level, values) for level in FLOAT_LEVELS]

    assert all(same_bits(first, other) for other in others)


@every_level
@given(num_rows=st.integers(2, 64), width=st.sampled_from([3, 50, 600]), num_threads=st.integers(1, 3))
def test_a_row_has_the_same_bits_in_every_company(level: Level, num_rows: int, width: int, num_threads: int) -> None:
    values = random_rows(num_rows, 2 * width)

    together = all_of_them(level, values, num_threads=num_threads)

    for row in (0, num_rows // 2, num_rows - 1):
        assert same_bits(together[row], all_of_them(level, values[[row]])[0])


def test_a_split_row_holds_what_bfloat16_rounds_to_and_what_is_left() -> None:
    values = torch.tensor([[1.0 + 2.0**-9, 1.0 + 3 * 2.0**-9, -(1.0 + 2.0**-8), 3.0e38, math.nan, 1e-3]])

    for level in LEVELS:
        machine = Machine(level)
        source, output = machine.rows(values), machine.room(1, 6, Format.SPLIT)
        machine.emit(Op.NORM, Norm(input=source.number, output=output.number, kind=NormKind.NONE, scale=1.0))
        machine.run(1)

        high, low = (part[:, :6] for part in output.memory.view(torch.bfloat16).chunk(2, dim=1))
        expected = values.bfloat16()
        assert torch.equal(high.nan_to_num(-7.0), expected.nan_to_num(-7.0))
        assert torch.equal(low.nan_to_num(-7.0), (values - expected.float()).bfloat16().nan_to_num(-7.0))
