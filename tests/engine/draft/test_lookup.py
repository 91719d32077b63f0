import random
from collections.abc import Sequence as Run

import pytest
from hypothesis import given, strategies as st

from engine.draft.lookup import FAR, FIRM, GRAM, MAX_NEW_TOKENS, MAX_PLACES, PromptLookup
from engine.draft.source import Guess
from tests.engine.draft.verify import Counted, verified

WORDS = st.lists(st.integers(0, 3), max_size=60)


def proposed(tokens: Run[int], most: int = 4) -> Guess | None:
    return PromptLookup().propose(tokens, most)


def agreed(tokens: Run[int], end: int) -> int:
    """How far the tokens before `end` and the last ones agree, found the slow way."""
    counts = range(1, min(FAR, end) + 1)
    return max((count for count in counts if tokens[end - count : end] == tokens[-count:]), default=0)


def test_what_followed_the_same_tokens_is_said_again() -> None:
    assert proposed([1, 2, 3, 7, 8, 9, 1, 2, 3]) == Guess((7, 8, 9, 1), firm=False)


def test_where_more_tokens_agree_counts_before_what_is_later() -> None:
    guess = proposed([1, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3], most=1)

    assert guess is not None
    assert guess.tokens == (7,)


def test_the_latest_of_equal_places_counts() -> None:
    guess = proposed([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], most=1)

    assert guess is not None
    assert guess.tokens == (8,)


def test_a_guess_is_firm_where_more_tokens_agree() -> None:
    first, second = (proposed([*range(length), 50, 60, *range(length)], most=2) for length in (FIRM - 1, FIRM))

    assert (first, second) == (Guess((50, 60), firm=False), Guess((50, 60), firm=True))


def test_a_repetition_goes_on_as_long_as_is_asked() -> None:
    guess = proposed([5, 6, 5, 6, 5, 6], most=7)

    assert guess is not None
    assert guess.tokens == (5, 6, 5, 6, 5, 6, 5)


def test_tokens_that_never_stood_before_give_no_guess() -> None:
    assert proposed(range(20)) is None
    assert proposed([1, 1]) is None
    assert proposed([1]) is None
    assert proposed([]) is None


@given(tokens=WORDS, most=st.integers(1, 9), cut=st.integers(0, 60))
def test_a_guess_is_what_a_slow_search_finds_whenever_it_is_asked(tokens: list[int], most: int, cut: int) -> None:
    source = PromptLookup()
    source.propose(tokens[:cut], most)

    guess = source.propose(tokens, most)

    ends = [end for end in range(GRAM, len(tokens)) if tokens[end - GRAM : end] == tokens[-GRAM:]][-MAX_PLACES:]
    if not ends:
        assert guess is None
        return
    assert guess is not None
    end = max(ends, key=lambda end: (agreed(tokens, end), end))
    said = list(tokens)
    for _ in range(most):
        said.append(said[len(said) - (len(tokens) - end)])
    assert guess == Guess(tuple(said[len(tokens) :]), firm=agreed(tokens, end) >= FIRM)


@pytest.mark.parametrize("seed", range(10))
def test_passages_that_are_quoted_are_mostly_drafted(seed: int) -> None:
    chance = random.Random(seed)
    source = [int(chance.paretovariate(0.6)) % 500 for _ in range(600)]  # some often, most seldom
    outputs: list[int] = []
    for _ in range(10):
        place = chance.randrange(550)
        outputs += [*(chance.randrange(500) for _ in range(10)), *source[place : place + 50]]

    found = verified(PromptLookup(), outputs, prompt=source)

    assert found.num_kept > 0.6 * len(outputs)


def test_a_long_prompt_is_taken_in_by_parts() -> None:
    source = PromptLookup()
    prompt = [*range(2 * MAX_NEW_TOKENS), 1, 2, 3]

    first = source.propose(prompt, 2)
    held = len(source._ends)
    guesses = [source.propose(prompt, 2) for _ in range(2)]

    assert first is None
    assert held <= MAX_NEW_TOKENS
    assert guesses[-1] == Guess((4, 5), firm=False)


@pytest.mark.parametrize(
    "tokens",
    [
        [1] * MAX_NEW_TOKENS,  # so many tokens to compare
        [*(token for number in range(1000) for token in (1000 + number, 1, 2)), 1, 2],  # so many places to look at
    ],
)
def test_a_guess_reads_no_more_of_a_long_sequence_than_of_a_short_one(tokens: list[int]) -> None:
    source, counted = PromptLookup(), Counted(tokens)
    source.propose(counted, 4)
    counted.num_read = 0

    guess = source.propose(counted, 4)

    assert guess is not None
    assert counted.num_read <= MAX_PLACES * 2 * (FAR + 1) + GRAM + 4
