import ctypes

import pytest

from engine.errors import ModelError
from engine.model.kernels.native import Span, Step
from engine.model.native_forward import Rows
from engine.request import Sampling
from engine.step import Choose, Chunk, Plan, Score, Table, Ticket
from tests.models.architectures import ARCHITECTURES, make_model
from tests.models.support import every_kernels, make_native, run

CHOOSE = Choose(Sampling(seed=0), choice=0, output_index=0)


def chunk(
    start: int,
    tokens: tuple[int, ...],
    blocks: tuple[int, ...],
    choose: Choose | None = CHOOSE,
    score: Score | None = None,
) -> Chunk:
    return Chunk(Ticket("s", 0, 1, start, (Table(blocks),)), tokens, choose, score)


def ints(address: int, count: int) -> list[int]:
    return list((ctypes.c_int32 * count).from_address(address))


def spans(step: Step) -> list[tuple[int, int, int, int]]:
    found = (Span * step.num_spans).from_address(step.spans)
    return [(span.row, span.start, span.length, span.table) for span in found]


def test_chunks_are_packed_one_after_the_other() -> None:
    rows = Rows(Plan(1, (chunk(0, (7, 8, 9), (4,)), chunk(17, (5, 6), (3, 1)))), num_tables=1, block_size=16)

    step = rows.step()

    assert (step.num_rows, step.num_spans) == (5, 2)
    assert ints(step.ids, 5) == [7, 8, 9, 5, 6]
    assert ints(step.positions, 5) == [0, 1, 2, 17, 18]
    assert ints(step.units, 3) == [4, 3, 1]
    assert spans(step) == [(0, 0, 3, 0), (3, 17, 2, 1)]


def test_a_position_s_slot_is_its_place_in_its_own_block() -> None:
    rows = Rows(Plan(1, (chunk(14, (1, 2, 3, 4), (9, 2)), chunk(0, (1,), (0,)))), num_tables=1, block_size=16)

    assert ints(rows.step().slots, 5) == [9 * 16 + 14, 9 * 16 + 15, 2 * 16, 2 * 16 + 1, 0]


def test_every_block_table_has_its_own_spans_and_slots() -> None:
    first = Ticket("a", 0, 1, 30, (Table((5, 6, 7)), Table((9, 8), first=1)))
    second = Ticket("b", 0, 1, 0, (Table((1,)), Table((2,))))
    plan = Plan(1, (Chunk(first, (1, 2, 3)), Chunk(second, (4,))))

    rows = Rows(plan, num_tables=2, block_size=16)

    step = rows.step()
    assert step.num_tables == 2
    assert ints(step.units, 7) == [5, 6, 7, 1, 9, 8, 2]
    found = (Span * 4).from_address(step.spans)
    assert [(span.row, span.start, span.length, span.table) for span in found] == [
        (0, 30, 3, 0),
        (3, 0, 1, 3),
        (0, 30, 3, 4 - 1),
        (3, 0, 1, 6),
    ]
    assert ints(step.slots, 8) == [6 * 16 + 14, 6 * 16 + 15, 7 * 16, 16, 9 * 16 + 14, 9 * 16 + 15, 8 * 16, 2 * 16]


def test_logits_are_asked_for_scored_positions_and_then_the_last_one() -> None:
    scored = chunk(10, (1, 2, 3, 4), (0,), score=Score(11, (3, 4), 0))
    silent = chunk(0, (1, 2), (1,), choose=None)
    rows = Rows(Plan(1, (scored, silent, chunk(0, (1, 2, 3), (2,)))), num_tables=1, block_size=16)

    step = rows.step()

    assert ints(step.logit_rows, step.num_logit_rows) == [1, 2, 3, 8]


def test_a_step_of_more_rows_than_there_is_room_for_is_not_run() -> None:
    forward = make_native(make_model(ARCHITECTURES["llama"]()), every_kernels()[0], max_rows=8)

    assert run(forward, (0, [3] * 8, [0]))[0].isfinite().all()
    with pytest.raises(AssertionError, match="hold no more rows"):
        run(forward, (0, [3] * 9, [0]))
    forward.close()


def test_matrices_of_another_size_than_the_structure_says_are_refused_by_all_their_names() -> None:
    model = make_model(ARCHITECTURES["llama"]())
    model.config.intermediate_size = 160
    gate, up = (f"model.layers.0.mlp.{name}_proj.weight" for name in ("gate", "up"))

    with pytest.raises(ModelError, match=rf"^the stack of {gate} and {up} has the shape \[256, 64\], .* \[320, 64\]$"):
        make_native(model, every_kernels()[0])
