from typing import Any

import pytest
from hypothesis import given, strategies as st

from server.top.bars import MARKS, STATES, marks_bar, pool_bar, scale_of
from server.top.sight import Held
from tests.server.top.sights import sequence, sight

counts = st.integers(0, 10_000)


@given(counts, counts, counts, counts, st.integers(1, 200))
def test_the_pools_bar_is_filled_by_its_capacity(
    allocated: int, shared: int, cached: int, free: int, width: int
) -> None:
    pieces = pool_bar(Held("", allocated, shared, cached), allocated + shared + cached + free, width=width)

    assert sum(len(piece.text) for piece in pieces) == width
    assert [piece.means for piece in pieces] == [
        state for state in STATES if state in {piece.means for piece in pieces}
    ]


def test_a_few_blocks_are_seen_in_a_large_pool_and_so_are_a_few_free_ones() -> None:
    few = pool_bar(Held("", 1, 0, 0), 100_000, width=10)
    many = pool_bar(Held("", 99_999, 0, 0), 100_000, width=10)

    assert [piece.text for piece in few] == ["█", "·" * 9]
    assert [piece.text for piece in many] == ["█" * 9, "·"]


def test_a_pool_of_nothing_is_free() -> None:
    assert [piece.means for piece in pool_bar(Held("", 0, 0, 0), 0, width=5)] == ["free"]


@pytest.mark.parametrize(("longest", "scale"), [(1, 1), (2, 2), (3, 5), (6, 10), (31, 50), (8192, 10_000)])
def test_a_scale_is_a_round_number(longest: int, scale: int) -> None:
    assert scale_of(longest) == scale


@pytest.mark.parametrize(
    ("marks", "bar"),
    [
        ({"computed": 0, "planned": 0, "accepted": 10, "published": 10}, "▒" * 10 + "·" * 10),
        ({"computed": 4, "planned": 8, "accepted": 10, "published": 10}, "████▓▓▓▓▒▒" + "·" * 10),
        ({"computed": 9, "planned": 14, "accepted": 10, "published": 10}, "█████████▓░░░░" + "·" * 6),
        ({"computed": 12, "planned": 12, "accepted": 13, "published": 11}, "███████████▚▚" + "·" * 7),
    ],
)
def test_marks_are_told_apart_without_colours(marks: dict[str, Any], bar: str) -> None:
    (one,) = sight(sequences=[sequence(**marks)]).sequences

    assert "".join(piece.text for piece in marks_bar(one, scale=20, width=20)) == bar


@given(st.integers(0, 500), st.integers(1, 60), st.integers(1, 1000))
def test_a_bar_of_marks_has_its_width(computed: int, width: int, scale: int) -> None:
    (one,) = sight(sequences=[sequence(computed=computed, planned=computed, accepted=computed + 1)]).sequences

    pieces = marks_bar(one, scale=scale, width=width)

    assert sum(len(piece.text) for piece in pieces) == width
    assert {piece.means for piece in pieces} <= set(MARKS)
