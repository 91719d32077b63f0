"""What watchers are sent: whole, and as what has changed."""

from dataclasses import replace

from hypothesis import given, strategies as st

from engine.course import Event, Moment
from engine.errors import SlowReader
from engine.look import Hold, Look, UnitTable, unit_code
from engine.stats import DraftModelInfo, StepRow
from server.render.sight import codes_body, counts_body, ended_body, engine_body, rejection_body, watched_sequences
from server.timelines import Ended, Fallen
from tests.fakes import INFO, FakeEngine, make_settings
from tests.http.clients import Json
from tests.parts import a_request
from tests.server.render.sights import applied

LONG = 600


@given(
    st.binary(min_size=LONG, max_size=LONG),
    st.lists(st.tuples(st.integers(0, LONG - 1), st.integers(0, 6)), max_size=20),
)
def test_what_has_changed_put_over_what_was_is_what_is(before: bytes, changes: list[tuple[int, int]]) -> None:
    after = bytearray(before)
    for place, code in changes:
        after[place] = code

    body = Json(**codes_body(bytes(after), before))

    assert body.keys() == {"changed"}
    assert applied(text(before), body) == text(after)
    num_told = sum(len(characters) for _, characters in body["changed"])
    assert num_told == sum(old != new for old, new in zip(before, after, strict=True)), "and no more is told"


def text(codes: bytes | bytearray) -> str:
    """What a watcher reads."""
    return "".join(chr((48 + code) % 256) for code in codes)


def test_where_too_much_has_changed_all_is_told() -> None:
    before, after = bytes(LONG), bytes([0, 1] * (LONG // 2))

    assert codes_body(after, before) == {"states": "01" * (LONG // 2)}
    assert codes_body(b"\1" * LONG, before) == {"changed": [[0, "1" * LONG]]}
    assert codes_body(b"\1\0\1\0\1", bytes(5)) == {"changed": [[0, "1"], [2, "1"], [4, "1"]]}


def test_those_that_are_not_listed_are_counted_by_state() -> None:
    engine = FakeEngine()
    engine.open(a_request((2, 3)))
    counted = replace(engine.look().snapshot, running=3, waiting=70, parked=1)

    assert counts_body(INFO.cache, counted)["unlisted"] == {"running": 2, "waiting": 70, "paused": 0, "parked": 1}


def test_an_end_tells_why_and_with_which_error() -> None:
    stopped = Ended(3, "one/0", Moment(Event.ENDED, 1.0, reason="stop"))
    failed = Ended(4, "two/0", Moment(Event.ENDED, 2.0, reason="error", error=SlowReader(limit_seconds=1.0)))

    assert ended_body(stopped) == {"number": 3, "sequence": "one/0", "time": 1.0, "reason": "stop"}
    assert ended_body(failed)["error"] == "slow_reader"


def test_a_character_tells_the_group_and_the_hold() -> None:
    codes = bytes([0, *(unit_code(kind, hold) for kind in (0, 1) for hold in Hold)])

    assert codes_body(codes, None) == {"states": "0123456"}


def look(*tables: UnitTable, slots: bytes = b"") -> Look:
    engine = FakeEngine()
    engine.open(a_request((2, 3)))
    shown = engine.look()
    (view,) = shown.snapshot.sequences
    return replace(shown, tables={view.id: tables}, slots=slots)


def told(after: Look, before: Look | None, width: int = 1) -> list[tuple[int, int, list[int]]]:
    info = replace(INFO, cache=replace(INFO.cache, widths=(width, width)))
    [sequence] = watched_sequences(info, after, before)
    return [(table["first"], table["kept"], table["units"]) for table in sequence["tables"]]


def test_a_table_that_grew_tells_what_was_added() -> None:
    assert told(look(UnitTable(0, (4, 5, 6))), look(UnitTable(0, (4, 5)))) == [(0, 2, [6])]
    assert told(look(UnitTable(0, (4, 5))), look(UnitTable(0, (4, 5)))) == [(0, 2, [])]


def test_a_table_whose_tail_was_given_back_tells_where_it_ends() -> None:
    assert told(look(UnitTable(0, (4,))), look(UnitTable(0, (4, 5, 6)))) == [(0, 1, [])]
    assert told(look(UnitTable(0, (4, 7))), look(UnitTable(0, (4, 5, 6)))) == [(0, 1, [7])]


def test_a_window_that_moved_on_tells_its_new_beginning() -> None:
    assert told(look(UnitTable(2, (6, 7, 8))), look(UnitTable(0, (4, 5, 6, 7)))) == [(2, 4, [8])]
    assert told(look(UnitTable(5, (9,))), look(UnitTable(0, (4, 5)))) == [(5, 5, [9])]


def test_a_table_that_began_anew_is_told_whole() -> None:
    assert told(look(UnitTable(0, (9,))), look(UnitTable(3, (4, 5)))) == [(0, 0, [9])]
    assert told(look(UnitTable(1, (4, 5))), look()) == [(1, 1, [4, 5])]
    assert told(look(UnitTable(1, (4, 5))), None) == [(1, 1, [4, 5])]


def test_of_wide_blocks_whole_ones_are_kept() -> None:
    assert told(look(UnitTable(0, (4, 5, 6, 9))), look(UnitTable(0, (4, 5, 6, 7))), width=2) == [(0, 1, [6, 9])]
    assert told(look(UnitTable(1, (6, 7, 8, 9))), look(UnitTable(0, (4, 5, 6, 7))), width=2) == [(1, 2, [8, 9])]


def test_slots_and_the_draft_models_mark_are_told_where_there_are_any() -> None:
    plain = watched_sequences(INFO, look(), None)[0]
    cache = replace(INFO.cache, num_slots=2)
    more = watched_sequences(replace(INFO, cache=cache, draft_model=DraftModelInfo("guesser", 8)), look(), None)[0]

    assert more.keys() - plain.keys() == {"slot", "drafted"}
    assert plain["arrived"] == 0.5
    assert "age_seconds" not in plain


def test_what_does_not_change_names_the_groups_and_the_draft_model() -> None:
    cache = replace(INFO.cache, groups=("full", "window"), widths=(1, 2))

    body = engine_body(replace(INFO, cache=cache, draft_model=DraftModelInfo("guesser", 8)), make_settings())

    assert body["groups"] == [{"layout": "full", "width": 1}, {"layout": "window", "width": 2}]
    assert (body["draft_model"], body["num_units"], body["max_waiting"], body["show_text"]) == ("guesser", 8, 64, False)
    assert engine_body(INFO, make_settings())["draft_model"] is None


def test_a_rejection_tells_the_position_of_the_first_token_that_fell() -> None:
    row = StepRow("one/0", 9, 7, 8, 7, (5, 9), (3, 4), (), drafts=(3, 8, 8), source="prediction", num_kept=1)

    body = rejection_body(Fallen(4, 17, row))

    assert body == {
        "number": 4, "sequence": "one/0", "step": 17, "position": 7, "drafted": 3, "kept": 1, "source": "prediction"
    }  # fmt: skip
