import torch

from engine.model.batch import Span, make_batch, write_rows
from engine.request import Sampling
from engine.step import Choose, Chunk, Plan, Score, Table, Ticket

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
    assert batch.spans == (Span(0, 5, 2, (3, 1)), Span(2, 0, 1, (0,)))


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


def test_a_position_s_cache_rows_are_found_through_the_block_table() -> None:
    rows = write_rows((Span(0, 3, 2, (7, 5)), Span(2, 0, 1, (2,))), block_size=4, num_kv_heads=2)

    def row(block: int, head: int, offset: int) -> int:
        return (block * 2 + head) * 4 + offset

    assert rows.tolist() == [row(7, 0, 3), row(7, 1, 3), row(5, 0, 0), row(5, 1, 0), row(2, 0, 0), row(2, 1, 0)]
