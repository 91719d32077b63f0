import torch

from engine.model.batch import Span, make_batch, slots_of
from engine.request import Sampling
from engine.step import Choose, Chunk, Plan, Score, StateUse, Table, Ticket

CHOOSE = Choose(Sampling(seed=0), choice=0, output_index=0)


def chunk(
    base: int, tokens: tuple[int, ...], blocks: tuple[int, ...], *, choose: bool = True, score: Score | None = None
) -> Chunk:
    return Chunk(Ticket("s", 0, 1, base, (Table(blocks),)), tokens, CHOOSE if choose else None, score)


def test_chunks_lie_one_after_the_other_and_the_rest_is_padding() -> None:
    plan = Plan(1, (chunk(5, (50, 51), (3, 1)), chunk(0, (7,), (0,))))

    batch = make_batch(plan, (4, 8))

    assert batch.num_rows == 3
    assert batch.ids.tolist() == [[50, 51, 7, 0]]
    assert batch.positions.tolist() == [[5, 6, 0, 0]]
    assert batch.spans == (Span(0, 5, 2, (Table((3, 1)),)), Span(2, 0, 1, (Table((0,)),)))


def test_the_next_padding_that_holds_the_rows_is_taken() -> None:
    plan = Plan(1, (chunk(0, (1,) * 5, (0,)),))

    assert make_batch(plan, (4, 8, 16)).ids.shape == (1, 8)
    assert make_batch(plan, (5, 16)).ids.shape == (1, 5)


def test_logit_rows_are_each_chunk_s_scores_and_then_its_last_row() -> None:
    plan = Plan(
        1,
        (
            chunk(0, (1, 2, 3), (0,), choose=False),
            chunk(4, (4, 5, 6), (0,), score=Score(first=5, targets=(6,), top_logprobs=0)),
            chunk(9, (7,), (0,)),
        ),
    )

    assert make_batch(plan, (8,)).logit_rows.tolist() == [4, 5, 6]


def test_a_step_may_need_no_logits() -> None:
    batch = make_batch(Plan(1, (chunk(0, (1,), (0,), choose=False),)), (1,))

    assert batch.logit_rows.shape == (0,)
    assert batch.logit_rows.dtype == torch.int64


def test_a_position_s_slot_is_found_through_the_block_table() -> None:
    tables, other = (Table((7, 5)), Table((9,), first=1)), (Table((2,)), Table((4,)))
    spans = (Span(0, 3, 2, tables), Span(2, 0, 1, other))

    first = slots_of(spans, 0, block_size=4)

    assert (first.units.tolist(), first.offsets.tolist()) == ([7, 5, 2], [3, 0, 0])


def test_a_block_table_may_begin_behind_blocks_that_were_given_back() -> None:
    spans = (Span(0, 5, 4, (Table((3,)), Table((9, 8), first=1))),)

    slots = slots_of(spans, 1, block_size=4)

    assert (slots.units.tolist(), slots.offsets.tolist()) == ([9, 9, 9, 8], [1, 2, 3, 0])


def test_a_span_knows_the_slots_of_its_states() -> None:
    states = StateUse(source=None, target=3)
    ticket = Ticket("s", 0, 1, 0, (Table((0,)),), states)

    (span,) = make_batch(Plan(1, (Chunk(ticket, (1, 2)),)), (8,)).spans

    assert span.states == states
