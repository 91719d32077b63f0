import random

import pytest
from hypothesis import given, strategies as st

from engine.draft.prediction import MAX_NEW_TOKENS, PredictedOutput
from engine.draft.source import Guess

PROMPT = (90, 91)
GUESS = tuple(range(10, 40))


def after(outputs: tuple[int, ...], guess: tuple[int, ...] = GUESS, most: int = 3) -> Guess | None:
    return PredictedOutput(guess, num_prompt=len(PROMPT)).propose((*PROMPT, *outputs), most)


def tokens_after(*outputs: int) -> tuple[int, ...]:
    guess = after(outputs)
    return () if guess is None else guess.tokens


def kept_share(guess: list[int], outputs: list[int], most: int = 8) -> float:
    """How much of an output a verification would take from drafts."""
    source = PredictedOutput(guess, num_prompt=0)
    done = kept = 0
    while done < len(outputs):
        proposed = source.propose(outputs[:done], most)
        for token in proposed.tokens if proposed else ():
            if done == len(outputs) or outputs[done] != token:
                break
            done, kept = done + 1, kept + 1
        done += 1  # the target's own
    return kept / len(outputs)


def test_the_guess_begins_the_answer() -> None:
    assert after(()) == Guess((10, 11, 12), firm=True)


def test_it_is_followed_as_long_as_it_is_right() -> None:
    assert after(GUESS[:7]) == Guess((17, 18, 19), firm=True)
    assert after(GUESS) is None


def test_no_more_is_said_than_is_asked_or_left() -> None:
    guess = after(GUESS[:28], most=9)

    assert guess is not None
    assert guess.tokens == (38, 39)


def test_behind_a_replaced_token_the_guess_goes_on() -> None:
    assert tokens_after(10, 11, 12, 70) == (14, 15, 16)
    assert tokens_after(10, 11, 12, 70, 71) == (15, 16, 17)
    assert tokens_after(10, 11, 12, 70, 14) == (15, 16, 17)


def test_behind_a_left_out_token_the_guess_goes_on() -> None:
    assert tokens_after(10, 11, 12, 14) == (15, 16, 17)
    assert tokens_after(10, 11, 12, 30) == (31, 32, 33)


def test_behind_inserted_tokens_the_guess_goes_on_where_it_was() -> None:
    assert tokens_after(10, 11, 12, 70, 71, 72, 73, 13) == (14, 15, 16)


def test_a_guess_counts_as_found_again_only_once_some_tokens_agree() -> None:
    lost, near, found = (after(outputs) for outputs in ((10, 70), (10, 70, 13), (10, 70, 13, 14, 15)))

    assert (lost and lost.firm, near and near.firm, found and found.firm) == (False, False, True)


def test_of_equal_passages_the_next_one_behind_is_taken() -> None:
    verse = (1, 2, 3, 4)
    guess = (*verse, 20, *verse, 21, *verse, 22)

    again = after((*verse, 20, 60, 61, 1, 2, 3), guess)

    assert again is not None
    assert again.tokens == (4, 21, 1)


def test_an_answer_that_goes_back_is_followed_there() -> None:
    assert tokens_after(*GUESS[:20], *GUESS[2:6]) == (16, 17, 18)


@given(outputs=st.lists(st.integers(10, 16), max_size=40), cuts=st.lists(st.integers(0, 40), max_size=5))
def test_a_guess_does_not_depend_on_when_it_was_asked_for(outputs: list[int], cuts: list[int]) -> None:
    guess = tuple(random.Random(3).choices(range(10, 16), k=30))
    often, once = (PredictedOutput(guess, num_prompt=0) for _ in range(2))

    for cut in sorted(cuts):
        often.propose(outputs[:cut], 4)

    assert often.propose(outputs, 4) == once.propose(outputs, 4)


@pytest.mark.parametrize("seed", range(20))
def test_an_edited_document_is_mostly_drafted(seed: int) -> None:
    chance = random.Random(seed)
    words = [int(chance.paretovariate(0.6)) % 500 for _ in range(600)]  # some often, most seldom
    outputs: list[int] = []
    place = 0
    while place < len(words):
        outputs += words[place : place + (stretch := chance.randrange(15, 60))]
        place += stretch
        edit = chance.randrange(3)
        outputs += [chance.randrange(500) for _ in range(chance.randrange(1, 6) if edit < 2 else 0)]
        place += chance.randrange(1, 6) if edit else 0

    assert kept_share(words, outputs) > 0.6


def test_a_huge_guess_is_taken_in_by_parts() -> None:
    source = PredictedOutput(range(10 * MAX_NEW_TOKENS), num_prompt=0)

    source.propose((), 1)
    source.propose((0, 1), 1)

    assert len(source._ends) <= 2 * MAX_NEW_TOKENS
