from collections.abc import Sequence as Run

from hypothesis import given, strategies as st

from engine.draft.lookup import GRAM, MAX_NEW_TOKENS, PromptLookup
from engine.draft.source import Guess

WORDS = st.lists(st.integers(0, 3), max_size=60)


def proposed(tokens: Run[int], most: int = 4) -> Guess | None:
    return PromptLookup().propose(tokens, most)


def test_what_followed_the_same_tokens_is_said_again() -> None:
    assert proposed([1, 2, 3, 7, 8, 9, 1, 2, 3]) == Guess((7, 8, 9, 1), firm=False)


def test_the_latest_of_several_places_counts() -> None:
    guess = proposed([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], most=1)

    assert guess is not None
    assert guess.tokens == (8,)


def test_a_guess_is_firm_where_more_tokens_agree() -> None:
    guess = proposed([*range(8), 50, *range(8)], most=1)

    assert guess == Guess((50,), firm=True)


def test_a_repetition_goes_on_as_long_as_is_asked() -> None:
    guess = proposed([5, 6, 5, 6, 5, 6], most=7)

    assert guess is not None
    assert guess.tokens == (5, 6, 5, 6, 5, 6, 5)


def test_tokens_that_never_stood_before_give_no_guess() -> None:
    assert proposed(range(20)) is None
    assert proposed([1, 1]) is None
    assert proposed([]) is None


@given(tokens=WORDS, most=st.integers(1, 9), cut=st.integers(0, 60))
def test_a_guess_is_what_a_slow_search_finds_whenever_it_is_asked(tokens: list[int], most: int, cut: int) -> None:
    source = PromptLookup()
    source.propose(tokens[:cut], most)

    guess = source.propose(tokens, most)

    ends = [end for end in range(GRAM, len(tokens)) if tokens[end - GRAM : end] == tokens[-GRAM:]]
    if not ends:
        assert guess is None
        return
    assert guess is not None
    said = list(tokens)
    for _ in range(most):
        said.append(said[len(said) - (len(tokens) - ends[-1])])
    assert guess.tokens == tuple(said[len(tokens) :])


def test_a_long_prompt_is_taken_in_by_parts() -> None:
    source = PromptLookup()
    prompt = [*range(2 * MAX_NEW_TOKENS), 1, 2, 3]

    first = source.propose(prompt, 2)
    held = len(source._ends)
    guesses = [source.propose(prompt, 2) for _ in range(2)]

    assert first is None
    assert held <= MAX_NEW_TOKENS
    assert guesses[-1] == Guess((4, 5), firm=False)
