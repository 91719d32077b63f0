from hypothesis import given, strategies as st

from engine.stops import StopStrings

TEXTS = st.text(alphabet="abc", max_size=30)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=6), min_size=1, max_size=16)


def longest_begun(text: str, stops: list[str]) -> int:
    """The length of the longest end of `text` that is a proper start of a stop string."""
    return max(
        n for n in range(len(text) + 1) if n == 0 or any(s != text[-n:] and s.startswith(text[-n:]) for s in stops)
    )


@given(TEXTS, STOPS)
def test_a_stop_string_is_found_at_the_character_that_completes_it(text: str, stops: list[str]) -> None:
    ends = [end for end in range(len(text) + 1) if any(text[:end].endswith(stop) for stop in stops)]
    completed = max((stop for stop in stops if ends and text[: ends[0]].endswith(stop)), key=len, default="")

    match = StopStrings(tuple(stops)).feed(text, matching=True)

    assert match == ((completed, ends[0]) if ends else None)


@given(TEXTS, STOPS)
def test_the_longest_end_that_may_become_a_stop_string_is_held_and_no_more(text: str, stops: list[str]) -> None:
    matcher = StopStrings(tuple(stops))

    for character in text:
        matcher.feed(character, matching=False)

    assert matcher.held == longest_begun(text, stops)


def test_of_two_that_end_together_the_longer_counts() -> None:
    match = StopStrings(("end", "the end", "e end")).feed("here is the end.", matching=True)

    assert match == ("the end", 15)


def test_what_a_token_completes_unmatched_may_still_begin_a_later_match() -> None:
    stops = StopStrings(("aba",))

    assert stops.feed("aba", matching=False) is None
    assert stops.held == 1
    assert stops.feed("ba", matching=True) == ("aba", 2)


def test_a_long_stop_string_costs_what_its_matches_cost() -> None:
    stops = StopStrings(("ab" * 1_000_000,))

    stops.feed("xxababxx" * 100, matching=True)

    assert len(stops._strings[0]._borders) <= 4


def test_without_stop_strings_nothing_is_held() -> None:
    stops = StopStrings(())

    assert stops.feed("anything", matching=True) is None
    assert stops.held == 0
