from typing import Any

import pytest

from server.top.story import Story
from server.top.units import Codes, Table, Unit, Units, read_codes, read_unit
from server.top.values import NoSight
from tests.server.top.sights import sight

ALL = Codes(whole=True, runs=((0, bytes([0, 1, 2, 3, 4, 5])),))


def test_a_code_tells_how_a_unit_stands_in_any_group() -> None:
    units = Units((1, 1)).after(ALL, {})

    told = [units.states(range(unit, unit + 1)) for unit in range(6)]

    assert told == [{"free"}, {"allocated"}, {"shared"}, {"cached"}, {"allocated"}, {"shared"}]
    assert units.states(range(3)) == {"free", "allocated", "shared"}


def test_a_run_of_changed_units_changes_these_alone() -> None:
    units = Units((1,)).after(ALL, {}).after(Codes(whole=False, runs=((1, bytes([3, 3])), (5, bytes([0])))), {})

    assert units.codes == bytes([0, 3, 3, 3, 4, 0])


def test_a_table_keeps_the_units_that_are_told_as_kept() -> None:
    first = Units((1, 2)).after(ALL, {"a": (Table(0, 0, (7, 8, 9)), Table(2, 2, (1, 2, 3, 4)))})

    later = first.after(ALL, {"a": (Table(1, 3, (5,)), Table(3, 4, (6, 7)))})

    assert later.tables == {"a": (Table(1, 1, (8, 9, 5)), Table(3, 3, (3, 4, 6, 7)))}


def test_owners_are_those_that_have_a_unit_in_a_table_now() -> None:
    first = Units((1,)).after(ALL, {"a": (Table(0, 0, (1, 2)),), "b": (Table(0, 0, (2,)),), "waits": ()})

    assert first.owners() == {1: ["a"], 2: ["a", "b"]}
    assert first.after(ALL, {"b": (Table(0, 1, (3,)),)}).owners() == {2: ["b"], 3: ["b"]}


def test_a_sequence_that_has_waited_again_has_a_new_table() -> None:
    waits = Units((1,)).after(ALL, {"a": ()})

    assert waits.after(ALL, {"a": (Table(1, 2, (4,)),)}).tables == {"a": (Table(1, 1, (4,)),)}


@pytest.mark.parametrize(
    ("codes", "tables", "why"),
    [
        (Codes(whole=False, runs=((5, bytes([1, 1])),)), {}, "more units than there are"),
        (ALL, {"a": (Table(0, 0, ()), Table(0, 0, ()))}, "more cache groups than there are, or of fewer"),
    ],
)
def test_what_does_not_fit_is_told(codes: Codes, tables: dict[str, tuple[Table, ...]], why: str) -> None:
    with pytest.raises(NoSight, match=why):
        Units((1,)).after(ALL, {}).after(codes, tables)


def test_snapshots_add_up_and_a_whole_one_begins_anew() -> None:
    story = Story("http://here")
    story.add(sight(whole=True), 0.0)
    story.add(sight(units={"changed": [[1, "0"]]}), 1.0)
    changed = story.frame(1.0).units
    story.add(sight(whole=True, units={"states": "33"}), 2.0)

    assert changed.codes == bytes([0, 0, 2, 3])
    assert changed.owners() == {1: ["chatcmpl-1/0"], 2: ["chatcmpl-1/0"]}
    assert story.frame(2.0).units.codes == bytes([3, 3])


def test_codes_are_read_from_their_characters() -> None:
    assert read_codes({"states": "0123"}) == Codes(whole=True, runs=((0, bytes([0, 1, 2, 3])),))
    assert read_codes({"changed": [[2, "4:"]]}) == Codes(whole=False, runs=((2, bytes([4, 10])),))


UNIT: dict[str, Any] = {
    "unit": 3,
    "block": 3,
    "units": [3],
    "state": "shared",
    "group": 0,
    "positions": [16, 32],
    "owners": ["a", "b\x1b"],
}


def test_what_a_unit_holds_is_read_into_values() -> None:
    assert read_unit(UNIT) == Unit(3, "shared", 0, (16, 32), ("a", "b"), None)
    assert read_unit(UNIT | {"text": "x\ty\x1b"}).text == "x\\ty"
    assert read_unit(UNIT | {"state": "free", "group": None, "positions": None, "owners": []}).positions is None


@pytest.mark.parametrize("wrong", [{}, UNIT | {"positions": [1]}, UNIT | {"owners": 3}, UNIT | {"group": "x"}])
def test_what_tells_no_unit_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(NoSight, match="does not tell what a unit holds"):
        read_unit(wrong)
