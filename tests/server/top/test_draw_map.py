from typing import Any

import pytest

from server.top.draw_map import Cursor, draw_map, foremost, grid_of, letters_of
from server.top.parts import Look
from server.top.story import Frame, Story
from server.top.units import Unit
from tests.server.top.rendered import rendered
from tests.server.top.sights import body, sequence, sight

GROUPS = [{"layout": "full attention", "width": 1}, {"layout": "window of 512", "width": 1}]


LETTERS = {"a/0": "a", "b/0": "b"}


def frame(states: str, *sequences: dict[str, Any], groups: list[dict[str, Any]] = GROUPS[:1]) -> Frame:
    whole = body(whole=True)
    told = Story("http://here:8000")
    info = whole["info"] | {"num_units": len(states), "groups": groups}
    told.add(sight(whole=True, info=info, units={"states": states}, sequences=list(sequences)), 0.0)
    return told.frame(0.0)


def holding(id: str, *units: int, arrived: float = 0.0) -> dict[str, Any]:
    return sequence(id, arrived=arrived, tables=[{"first": 0, "kept": 0, "units": list(units)}])


def drawn(shown: Frame, cursor: Cursor, look: Look) -> list[str]:
    return rendered(draw_map(shown, cursor, look), look.width)


def test_every_unit_has_its_place_and_its_owner() -> None:
    shown = frame("0112233111", holding("b/0", 1, 3), holding("a/0", 2, 3, 4))

    lines = drawn(shown, Cursor(0, letters=LETTERS), Look(80, 24, has_keys=True))

    assert lines[1:] == [
        "map      a letter allocated  ▓ shared  ▒ cached  · free  each a block's place",
        "       0 ·ba▓▓▒▒███",
        "whose    a a/0  b b/0",
        "unit     0",
        "q leaves  p pauses  esc back  arrows home end move",
    ]


def test_rows_are_as_long_as_the_terminal_lets_them_be() -> None:
    lines = drawn(frame("0" * 40), Cursor(0), Look(29, 24))

    assert lines[2:5] == ["       0 " + "·" * 16, "      16 " + "·" * 16, "      32 " + "·" * 8]
    assert drawn(frame("0" * 40), Cursor(0), Look(14, 60))[3] == "       5 ·····"


def test_a_place_stands_for_several_where_there_is_no_room_and_shows_what_is_held_most() -> None:
    shown = frame("00031312" + "0" * 24, holding("a/0", 4))

    lines = drawn(shown, Cursor(3, letters=LETTERS), Look(17, 12))
    wide = drawn(shown, Cursor(3, letters=LETTERS), Look(100, 12))

    assert lines[2:4] == ["       0 ·▒a▓····", "      16 ········"]
    assert lines[-1] == "unit     3  of 2…"
    assert drawn(frame("0" * 3000), Cursor(3), Look(100, 12))[-1] == "unit     3  of 0 to 17"
    assert wide[1].endswith("each a block's place")


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (None, "unit     1"),
        (Unit(1, "free", None, None, (), None), "unit     1  free"),
        (Unit(1, "cached", 1, (32, 48), (), None), "unit     1  cached  window of 512  positions 32 to 47"),
        (
            Unit(1, "shared", 0, (0, 1), ("a/0", "b/0", "c/0", "d/0", "e/0"), None),
            "unit     1  shared  full attention  positions 0  of a/0, b/0, c/0 and 2 more",
        ),
        (
            Unit(1, "allocated", 0, (0, 16), ("chatcmpl-0123456789abcdef/12",), None),
            "unit     1  allocated  full attention  positions 0 to 15  of chatcmpl-0123456…/12",
        ),
    ],
)
def test_what_the_unit_under_the_cursor_holds_is_told(held: Unit | None, told: str) -> None:
    assert told in drawn(frame("0000", groups=GROUPS), Cursor(1, held), Look(100, 24))


def test_text_and_what_is_wrong_are_told() -> None:
    lines = drawn(frame("1111"), Cursor(1, Unit(1, "cached", 0, None, (), "Hello"), "gone"), Look(80, 24))

    assert lines[-2:] == ['text     "Hello"', "gone"]


def test_more_owners_than_two_lines_have_are_not_named() -> None:
    many = [holding(f"request-{number:02}-0123456789/0", number) for number in range(60)]

    shown = frame("1" * 60, *many)
    lines = drawn(shown, Cursor(0, letters=letters_of(shown.sight.sequences, {})), Look(80, 24))

    assert lines[2] == "       0 abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ████████"
    assert lines[3] == "whose    a request-00-012345…/0  b request-01-012345…/0  c request-02-012345…/0"
    assert lines[4].startswith("         d request-03-012345…/0  e ")
    assert lines[5].startswith("unit ")


@pytest.mark.parametrize("height", [3, 12, 24, 60])
@pytest.mark.parametrize("width", [1, 12, 40, 80, 200])
@pytest.mark.parametrize("num_units", [1, 7, 3000, 100_000])
def test_every_unit_is_in_one_place_and_the_places_fit(num_units: int, width: int, height: int) -> None:
    grid = grid_of(num_units, Look(width, height))

    placed = [unit for cell in range(grid.num_cells) for unit in grid.units(cell)]
    assert placed == list(range(num_units))
    assert all(grid.cell(grid.units(cell).start) == cell for cell in range(grid.num_cells))
    assert grid.num_cells <= grid.width * max(2, height - 10)
    assert grid.width <= max(1, width - 9)


@pytest.mark.parametrize(
    ("unit", "key", "to"),
    [
        (0, "left", 0),
        (0, "up", 0),
        (0, "right", 1),
        (3, "down", 19),
        (19, "up", 3),
        (39, "right", 39),
        (30, "down", 30),
        (5, "home", 0),
        (5, "end", 39),
        (5, "x", 5),
    ],
)
def test_keys_move_from_place_to_place(unit: int, key: str, to: int) -> None:
    assert grid_of(40, Look(29, 24)).moved(unit, key) == to


def test_the_cursor_goes_to_the_first_unit_of_another_place_and_survives_a_smaller_cache() -> None:
    grid = grid_of(3000, Look(29, 24))

    assert grid.per == 14
    assert (grid.moved(20, "right"), grid.moved(20, "left"), grid.moved(20, "x")) == (28, 0, 20)
    assert grid_of(10, Look(29, 24)).cell(20) == 9


def test_who_has_a_letter_keeps_it_and_one_that_is_free_again_is_given_to_the_next() -> None:
    waits = sequence("waits/0", tables=[])
    first = frame("0", holding("young/0", 1, arrived=9.0), holding("old/0", 2, arrived=1.0), waits)
    later = frame("0", holding("young/0", 1, arrived=9.0), holding("new/0", 2, arrived=10.0), waits)

    letters = letters_of(first.sight.sequences, {})

    assert letters == {"old/0": "a", "young/0": "b"}
    assert letters_of(later.sight.sequences, letters) == {"young/0": "b", "new/0": "a"}


def test_of_several_units_the_first_that_is_drawn_is_looked_at() -> None:
    assert [foremost(frame("0033120"), range(start, stop)) for start, stop in ((0, 2), (0, 4), (1, 5), (2, 7))] == [
        0,
        2,
        4,
        5,
    ]
