import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.model.answer import LogitsNotFinite, answer
from engine.model.sampler import answer_rows
from engine.request import Sampling
from engine.step import Choose, Chunk, Masks, Score, Table, Ticket
from tests.results import logprob_of, token_of
from tests.toy_grammar import mask_of

GREEDY = Sampling(seed=0, temperature=0.0)


def chunk(name: str, *, top: int | None = None, choose: bool = True, score: Score | None = None) -> Chunk:
    chosen = Choose(GREEDY, 0, 0, top_logprobs=top) if choose else None
    return Chunk(Ticket(name, 0, 1, 0, (Table((0,)),)), (1, 2, 3), chosen, score)


def rows(*best: int) -> Tensor:
    """A row of logits for each, the best token's the largest."""
    logits = torch.arange(5.0).flip(0).repeat(len(best), 1)
    logits[range(len(best)), list(best)] = 10.0
    return logits


def test_every_chunk_gets_a_result_in_the_plan_s_order() -> None:
    chunks = (chunk("a"), chunk("b", choose=False), chunk("c"))

    results = answer(chunks, rows(3, 1), answer_rows)

    assert [result.ticket.sequence for result in results] == ["a", "b", "c"]
    assert [token_of(result) for result in results] == [3, None, 1]


def test_a_chunk_s_scores_come_before_its_choice() -> None:
    score = Score(first=0, targets=(4, 0), top_logprobs=1)
    chunks = (chunk("a", top=2), chunk("b", top=0, score=score), chunk("c", choose=False, score=score))

    first, second, third = answer(chunks, rows(3, 1, 2, 4, 0, 1), answer_rows)

    assert token_of(first) == 3
    logprob = logprob_of(first)
    assert logprob is not None
    assert [token for token, _ in logprob.top] == [3, 0]
    assert [(each.token, each.top[0][0]) for each in second.scores] == [(4, 1), (0, 2)]
    assert token_of(second) == 4
    logprob = logprob_of(second)
    assert logprob is not None
    assert logprob.top == ()
    assert [(each.token, each.top[0][0]) for each in third.scores] == [(4, 0), (0, 1)]
    assert token_of(third) is None
    assert logprob_of(third) is None


def test_logprobs_are_given_only_where_they_are_asked_for() -> None:
    (result,) = answer((chunk("a"),), rows(2), answer_rows)

    assert logprob_of(result) is None
    assert result.scores == ()


def test_each_row_that_chooses_has_its_own_mask_and_scored_rows_have_none() -> None:
    score = Score(first=0, targets=(4,), top_logprobs=0)
    drafted = replace(chunk("b", score=score), tokens=(1, 2, 3, 0), num_drafts=1)
    masks = Masks(((), (mask_of([0]), mask_of([4]))))

    free, masked = answer((chunk("a"), drafted), rows(3, 1, 1, 1), answer_rows, masks)

    assert token_of(free) == 3
    assert [each.token for each in masked.chosen] == [0, 4]


def test_logprobs_come_from_the_raw_logits() -> None:
    banned = Choose(GREEDY, 0, 0, banned=(2,), top_logprobs=1)
    biased = Chunk(Ticket("a", 0, 1, 0, (Table((0,)),)), (1,), banned)

    (result,) = answer((biased,), rows(2), answer_rows)

    assert token_of(result) == 0
    logprob = logprob_of(result)
    assert logprob is not None
    assert logprob.top[0][0] == 2


def test_a_step_without_logits_has_results_all_the_same() -> None:
    (result,) = answer((chunk("a", choose=False),), torch.empty(0, 5), answer_rows)

    assert token_of(result) is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_no_numbers_name_the_sequence(value: float) -> None:
    logits = rows(1, 2)
    logits[1, 3] = value

    with pytest.raises(LogitsNotFinite, match="sequence second"):
        answer((chunk("first"), chunk("second")), logits, answer_rows)


def drafted(*drafts: int, top: int | None = None) -> Chunk:
    """A chunk of one owed token and some drafts."""
    choose = Choose(GREEDY, 0, 0, top_logprobs=top)
    return Chunk(Ticket("a", 0, 1, 0, (Table((0,)),)), (1, *drafts), choose, num_drafts=len(drafts), source="lookup")


def test_a_token_is_chosen_behind_each_draft_that_stands_and_one_more() -> None:
    (result,) = answer((drafted(3, 4, 2, top=0),), rows(3, 4, 1, 0), answer_rows)

    assert [each.token for each in result.chosen] == [3, 4, 1]
    assert [each.logprob and each.logprob.token for each in result.chosen] == [3, 4, 1]


def test_logits_behind_a_draft_that_fell_may_be_anything() -> None:
    logits = rows(3, 1, 1)
    logits[2, 0] = math.nan

    (result,) = answer((drafted(3, 4),), logits, answer_rows)

    assert [each.token for each in result.chosen] == [3, 1]
    with pytest.raises(LogitsNotFinite):
        answer((drafted(3, 1),), logits, answer_rows)


def test_a_draft_is_verified_as_its_own_output() -> None:
    early = Choose(Sampling(0, 0.0, frequency_penalty=2.0), 0, 3, outputs=(4,), banned=(2,), min_outputs=5)
    chunk = Chunk(Ticket("a", 0, 1, 0, (Table((0,)),)), (1, 4, 4), early, num_drafts=2, source="lookup")
    logits = torch.tensor([[0.0, 1.0, 9.0, 2.0, 5.0], [0.0, 1.0, 9.0, 2.0, 7.0], [0.0, 1.0, 9.0, 2.0, 7.5]])

    (result,) = answer((chunk,), logits, answer_rows)

    assert [each.token for each in result.chosen] == [4, 4, 2]
