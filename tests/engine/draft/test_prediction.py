import random

import pytest
from hypothesis import given, strategies as st

from engine.draft.prediction import (
    FAR,
    GRAM,
    MAX_FIRST_TOKENS,
    MAX_NEW_OUTPUTS,
    MAX_NEW_TOKENS,
    MAX_PLACES,
    NEAR,
    PredictedOutput,
)
from engine.draft.source import Guess
from tests.engine.draft.verify import Counted, verified

PROMPT = (90, 91)
GUESS = tuple(range(10, 40))
APART = tuple(range(100, 101 + NEAR))  # more tokens than count as near by
RUNS = st.lists(st.integers(10, 14), max_size=60)


def after(outputs: tuple[int, ...], guess: tuple[int, ...] = GUESS, most: int = 3) -> Guess | None:
    return PredictedOutput(guess, num_prompt=len(PROMPT)).propose((*PROMPT, *outputs), most)


def tokens_after(*outputs: int) -> tuple[int, ...]:
    guess = after(outputs)
    return () if guess is None else guess.tokens


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


def test_a_passage_that_came_back_elsewhere_does_not_move_the_place_it_was_lost_at() -> None:
    guess = (*GUESS, 1, 2, 3, 50, *range(60, 80), 4, 1, 2, 3, 51)
    outputs = (*GUESS[:5], 1, 2, 3, 99, GUESS[5])  # quotes a later passage, then goes on

    again = after(outputs, guess)

    assert again is not None
    assert again.tokens == GUESS[6:9]


def test_of_passages_far_away_the_next_one_behind_is_taken() -> None:
    guess = (1, 2, 3, 4, 20, *APART, *APART[::-1], 1, 2, 3, 4, 21, *APART, 1, 2, 3, 4, 22)

    again = after((1, 2, 3, 4, 20, *APART, 99, 1, 2, 3), guess)

    assert again is not None
    assert again.tokens == (4, 21, APART[0])


def test_of_several_passages_the_one_where_more_outputs_agree_is_taken() -> None:
    guess = (*GUESS[:5], *APART, 8, 1, 2, 3, 50, *APART, 9, 2, 3, 51, 60, *APART, 8, 1, 2, 3, 51, 61)

    again = after((*GUESS[:5], 8, 1, 2, 3, 51), guess, most=1)

    assert again is not None
    assert again.tokens == (61,)


def test_near_by_two_tokens_tell_more_than_one() -> None:
    guess = (*GUESS[:5], 40, 4, 6, 5, 41, 4, 5, 42)

    again = after((*GUESS[:5], 99, 4, 5), guess)

    assert again is not None
    assert again.tokens == (42,)


def test_a_single_token_far_away_is_no_sign() -> None:
    guess = (*GUESS[:5], *APART, 4, 41)

    again = after((*GUESS[:5], 99, 4), guess)

    assert again is not None
    assert again.tokens == APART[2:5]


def test_a_word_that_is_split_otherwise_costs_its_own_tokens_alone() -> None:
    assert tokens_after(10, 11, 70, 71, 72, 13) == (14, 15, 16)  # three tokens for one
    assert tokens_after(10, 11, 70, 15) == (16, 17, 18)  # one token for three


def test_a_guess_that_is_used_up_is_silent_until_the_answer_comes_back_to_it() -> None:
    assert after((*GUESS, 70, 71)) is None
    assert tokens_after(*GUESS, 70, 71, 20) == ()
    assert tokens_after(*GUESS, 70, 71, 20, 21, 22) == (23, 24, 25)


@given(outputs=st.lists(st.integers(10, 16), max_size=40), cuts=st.lists(st.integers(0, 40), max_size=5))
def test_a_guess_does_not_depend_on_when_it_was_asked_for(outputs: list[int], cuts: list[int]) -> None:
    guess = tuple(random.Random(3).choices(range(10, 16), k=30))
    often, once = (PredictedOutput(guess, num_prompt=0) for _ in range(2))

    for cut in sorted(cuts):
        often.propose(outputs[:cut], 4)

    assert often.propose(outputs, 4) == once.propose(outputs, 4)


@given(guess=RUNS, outputs=RUNS, most=st.integers(1, 20))
def test_no_guess_is_longer_than_asked_and_each_stands_in_the_client_s(
    guess: list[int], outputs: list[int], most: int
) -> None:
    found = PredictedOutput(guess, num_prompt=0).propose(outputs, most)

    if found is not None:
        count = len(found.tokens)
        assert 1 <= count <= most
        assert found.tokens in {tuple(guess[at : at + count]) for at in range(len(guess))}


EDITS = st.lists(st.tuples(st.integers(8, 40), st.integers(0, 100), st.integers(0, 100)), max_size=8)


@given(edits=EDITS, most=st.integers(1, 15))
def test_an_edit_costs_what_it_brings_in_and_three_steps(edits: list[tuple[int, int, int]], most: int) -> None:
    words, outputs, place = tuple(range(1200)), [], 0
    for num_same, num_left_out, num_new in edits:
        outputs += [*words[place : place + num_same], *range(5000 + place, 5000 + place + num_new)]
        place += num_same + num_left_out
    outputs += words[place : place + 20]

    found = verified(PredictedOutput(words, num_prompt=0), outputs, most=most)

    num_new = sum(edit[2] for edit in edits)
    assert found.num_steps <= (len(outputs) - num_new) / (most + 1) + num_new + 3 * len(edits) + 1


@given(seed=st.integers(0, 10**9))
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

    found = verified(PredictedOutput(words, num_prompt=0), outputs)

    assert found.num_kept > 0.75 * len(outputs)


def test_a_huge_guess_is_taken_in_by_parts() -> None:
    source = PredictedOutput(range(2 * MAX_FIRST_TOKENS), num_prompt=0)
    sizes = [len(source._ends)]
    for outputs in ((), (0,), (0, 1, 2)):
        source.propose(outputs, 1)
        sizes.append(len(source._ends))

    assert sizes == [MAX_FIRST_TOKENS + MAX_NEW_TOKENS * count for count in (0, 0, 1, 3)]


def test_many_outputs_are_followed_by_parts() -> None:
    source = PredictedOutput(range(5000), num_prompt=0)
    outputs = range(MAX_NEW_OUTPUTS + 10)

    first, second = (source.propose(outputs, 2) for _ in range(2))

    assert first is None
    assert second == Guess((MAX_NEW_OUTPUTS + 10, MAX_NEW_OUTPUTS + 11), firm=True)


VERSES = tuple(token for number in range(200) for token in (1000 + number, 1, 2, 3))


@pytest.mark.parametrize(
    ("guess", "outputs"),
    [
        ((*VERSES, *APART, *APART[::-1], *VERSES), (*VERSES, *APART, 99, 1, 2, 3)),  # so many places to look at
        ((*[1] * 500, 2, *APART, *[1] * 500, 3), (*[1] * 500, 3)),  # so many tokens to compare
    ],
)
def test_an_output_reads_no_more_of_a_long_answer_than_of_a_short_one(
    guess: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    source, tokens = PredictedOutput(guess, num_prompt=0), Counted(outputs[:-1])
    source.propose(tokens, 1)
    tokens.append(outputs[-1])
    tokens.num_read = 0

    source.propose(tokens, 1)

    assert 0 < tokens.num_read <= 2 * MAX_PLACES * (FAR + 1) + GRAM + 1
