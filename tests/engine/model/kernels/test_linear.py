"""Linear layers of the native kernels: against float64, and bit for bit against themselves."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, strategies as st
from torch import Tensor

from engine.model.encoding import Encoded
from engine.model.kernels.matrix import pack
from engine.model.kernels.native import Format, Kind, Level, Linear, Op
from tests.engine.model.kernels.machine import FLOAT_LEVELS, LEVELS, Machine, Rows, same_bits, the_library

STORED = [
    (Kind.F32, None, False),
    (Kind.F16, None, False),
    (Kind.BF16, None, False),
    *((kind, block, has_min) for kind in (Kind.Q8, Kind.Q4) for block in (16, 32) for has_min in (False, True)),
]
every_level = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
every_kind = pytest.mark.parametrize("stored", STORED, ids=lambda stored: "-".join(map(str, stored)))
SUM_ERROR = 2.0**-22  # of float32 sums, times the root of their length
SPLIT_ERROR = 2.0**-16  # of inputs in two bfloat16 parts
ROUNDED_ERROR = 2.0**-8  # of float16 weights in bfloat16


@dataclass(frozen=True, slots=True)
class Case:
    """A linear layer and how it is run."""

    kind: Kind
    block: int | None
    has_min: bool
    outputs: int
    inputs: int
    bias: bool = False
    accumulate: bool = False
    scale: float = 1.0
    num_threads: int = 1
    seed: int = 0

    def weight(self) -> Encoded:
        """A matrix whose values are near 1."""
        generator = np.random.default_rng(self.seed)
        shape = (self.outputs, self.inputs)
        if self.block is None:
            values = generator.standard_normal(shape).astype(np.float16 if self.kind is Kind.F16 else np.float32)
            if self.kind is Kind.BF16:
                return Encoded(Kind.BF16, torch.from_numpy(values).bfloat16().view(torch.uint16).numpy())
            return Encoded(self.kind, values)
        blocks = (self.outputs, self.inputs // self.block)
        low, high, dtype, step = (0, 16, np.uint8, 0.1) if self.kind is Kind.Q4 else (-128, 128, np.int8, 0.01)
        scales = (step * generator.uniform(-1, 1, blocks)).astype(np.float16)
        minima = generator.standard_normal(blocks).astype(np.float16) if self.has_min else None
        return Encoded(self.kind, generator.integers(low, high, shape).astype(dtype), scales, minima)

    def random_rows(self, num_rows: int, width: int) -> Tensor:
        """Rows of values near 1."""
        return torch.randn(num_rows, width, generator=torch.Generator().manual_seed(self.seed + num_rows))

    def bias_values(self) -> Tensor | None:
        """One value for each output."""
        return torch.linspace(-2, 2, self.outputs) if self.bias else None


def run(level: Level, case: Case, x: Tensor, before: Tensor) -> Rows:
    """The rows that the layer gives for `x`, over what they held `before`."""
    machine = Machine(level, num_threads=case.num_threads, max_rows=len(x))
    format = Format.PLAIN if case.kind is Kind.F32 else machine.input_format
    source = machine.rows(x, format)
    output = machine.room(len(x), case.outputs)
    output.values()[:] = before
    layer = Linear(
        input=source.number,
        output=output.number,
        accumulate=case.accumulate,
        scale=case.scale,
        weight=machine.weight(pack(the_library(), case.weight())),
        bias=machine.pointer(case.bias_values()),
    )
    machine.emit(Op.LINEAR, layer)
    machine.run(len(x))
    return output


def fresh(level: Level, case: Case, x: Tensor) -> Tensor:
    """What the layer gives for `x`, from random rows on."""
    return run(level, case, x, case.random_rows(len(x), case.outputs)).values().clone()


def tolerance(level: Level, case: Case) -> float:
    """The error of a sum of products, over the root of the sum of their squares."""
    error = SUM_ERROR * math.sqrt(case.inputs)
    if level is not Level.AMX or case.kind is Kind.F32:
        return error
    return error + SPLIT_ERROR + (ROUNDED_ERROR if case.kind is Kind.F16 else 0)


def expected(case: Case, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """The result in float64, and how large its error may be times the tolerance."""
    weight, bias = case.weight().dense().double(), case.bias_values()
    y = x.double() @ weight.T + (0 if bias is None else bias)
    size = ((x.double() ** 2) @ (weight.T**2)).sqrt() * 4 + 4
    return case.scale * y + (before if case.accumulate else 0), size * abs(case.scale) + 1


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Layers of all kinds, mostly of odd sizes."""
    kind, block, has_min = draw(st.sampled_from(STORED))
    inputs = draw(st.integers(1, 12)) * block if block else draw(st.integers(1, 150))
    return Case(
        kind=kind,
        block=block,
        has_min=has_min,
        outputs=draw(st.integers(1, 70)),
        inputs=inputs,
        bias=draw(st.booleans()),
        accumulate=draw(st.booleans()),
        scale=draw(st.sampled_from([1.0, 0.5, -1.75])),
        num_threads=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 1000)),
    )


@every_level
@given(case=cases(), num_rows=st.integers(1, 50))
@example(case=Case(Kind.Q4, 32, has_min=True, outputs=40, inputs=2304, bias=True), num_rows=37)
@example(case=Case(Kind.Q8, 16, has_min=True, outputs=20, inputs=4208), num_rows=5)
@example(case=Case(Kind.BF16, None, has_min=False, outputs=33, inputs=4133, accumulate=True), num_rows=33)
def test_a_layer_is_the_product_with_its_matrix(level: Level, case: Case, num_rows: int) -> None:
    x, before = case.random_rows(num_rows, case.inputs), case.random_rows(num_rows, case.outputs)

    given = run(level, case, x, before).values()

    wanted, size = expected(case, x, before)
    worst = ((given - wanted).abs() / size).max().item()
    assert worst <= tolerance(level, case), f"off by {worst / tolerance(level, case):.1f} times what is allowed"


@given(case=cases(), num_rows=st.integers(1, 50))
def test_the_float_levels_give_the_same_bits(case: Case, num_rows: int) -> None:
    x = case.random_rows(num_rows, case.inputs)

    given = [fresh(level, case, x) for level in FLOAT_LEVELS]

    assert all(same_bits(given[0], other) for other in given)


@every_level
@given(case=cases(), data=st.data())
def test_a_row_has_the_same_bits_in_any_batch(level: Level, case: Case, data: st.DataObject) -> None:
    num_rows = data.draw(st.integers(2, 70), label="rows")
    first = data.draw(st.integers(0, num_rows - 1), label="first")
    count = data.draw(st.integers(1, num_rows - first), label="count")
    other = replace(case, num_threads=data.draw(st.integers(1, 3), label="threads"))
    x, before = case.random_rows(num_rows, case.inputs), case.random_rows(num_rows, case.outputs)

    together = run(level, case, x, before).values()

    some = slice(first, first + count)
    assert same_bits(run(level, other, x[some], before[some]).values(), together[some])


@every_level
@every_kind
@pytest.mark.parametrize("num_rows", [129, 300])
def test_many_rows_have_the_bits_that_they_have_alone(
    level: Level, stored: tuple[Kind, int | None, bool], num_rows: int
) -> None:
    case = Case(*stored, outputs=600, inputs=608, num_threads=2)
    x = case.random_rows(num_rows, case.inputs)
    alone = replace(case, num_threads=1)

    together = run(level, case, x, torch.zeros(num_rows, case.outputs)).values()

    for row in (0, 15, 16, 127, 128, num_rows - 1):
        single = run(level, alone, x[row : row + 1], torch.zeros(1, case.outputs)).values()
        assert same_bits(single[0], together[row])


@every_level
@every_kind
@pytest.mark.parametrize("num_rows", [3, 20])
def test_what_is_no_number_stays_in_its_row(level: Level, stored: tuple[Kind, int | None, bool], num_rows: int) -> None:
    case = Case(*stored, outputs=35, inputs=96)
    x = case.random_rows(num_rows, case.inputs)
    spoilt = x.clone()
    spoilt[1] = torch.tensor([float("nan"), float("inf"), float("-inf")]).repeat(32)
    others = torch.arange(num_rows) != 1

    given = run(level, case, spoilt, torch.zeros(num_rows, case.outputs)).values()

    assert not given[1].isfinite().any()
    assert same_bits(given[others], run(level, case, x, torch.zeros(num_rows, case.outputs)).values()[others])


@every_level
@every_kind
@pytest.mark.parametrize("outputs", [1, 15, 17, 48])
def test_nothing_is_written_behind_the_outputs(
    level: Level, stored: tuple[Kind, int | None, bool], outputs: int
) -> None:
    case = Case(*stored, outputs=outputs, inputs=64)

    given = run(level, case, case.random_rows(9, 64), torch.zeros(9, outputs))

    assert same_bits(given.padding(), torch.full_like(given.padding(), -1, dtype=torch.int32).view(torch.float32))


@every_level
def test_a_step_without_logits_has_no_rows_of_them(level: Level) -> None:
    machine = Machine(level)
    source = machine.rows(torch.ones(2, 32), machine.input_format)
    output = machine.room(2, 16)
    weight = machine.weight(pack(the_library(), Case(Kind.BF16, None, has_min=False, outputs=16, inputs=32).weight()))
    layer = Linear(input=source.number, output=output.number, scale=1.0, weight=weight)
    machine.emit(Op.LINEAR, layer, of_logits=True)

    machine.run(2)

    assert output.values().isnan().all()
