"""The parts of the page that only compute, each called in Chromium with plain values."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.page.looking import Looks
from tests.page.standin import Script, sequence, snapshot, standing_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def page(browser: "Browser") -> Iterator["Page"]:
    with standing_in(Script([snapshot(codes="0")])) as url:
        looks = Looks(browser)
        yield looks.open(url)
        looks.close()
        assert looks.complaints == []


def call(page: "Page", module: str, body: str, *arguments: object) -> Any:  # JSON by its nature
    """What a function body says of a module's exports `m` and the arguments `a`."""
    script = f"async (a) => {{ const m = await import('/page/{module}.js'); {body} }}"
    return page.evaluate(script, list(arguments))


# -- sse


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_stream_gives_the_same_events_however_it_is_cut(page: "Page", size: int) -> None:
    stream = (
        ": hello\n\nevent: snapshot\ndata: {}\n\n: keep\n\ndata: one\ndata: two\r\n\r\nevent: end\ndata: x\n\ndata: cut"
    )

    events = call(
        page,
        "sse",
        "const p = new m.EventParser(); const e = [];"
        "for (let i = 0; i < a[0].length; i += a[1]) e.push(...p.push(a[0].slice(i, i + a[1])));"
        "return e.map((one) => [one.name, one.data]);",
        stream,
        size,
    )

    assert events == [["snapshot", "{}"], ["message", "one\ntwo"], ["end", "x"]]


# -- world


def worlds(page: "Page", *snapshots: object) -> Any:  # JSON by its nature
    return call(
        page,
        "world",
        "const w = a.reduce((world, one) => m.after(world, one), null);"
        "return w && {codes: [...w.units.codes], slots: w.slots && [...w.slots.codes],"
        " tables: Object.fromEntries(w.tables), holdings: Object.fromEntries([...w.units.holdings].map("
        "([id, held]) => [id, held.map((h) => [h.sequence.id, h.group, h.first, h.stop])]))};",
        *snapshots,
    )


def test_increments_add_up_to_the_whole(page: "Page") -> None:
    first = snapshot(sequence("r/0", [0, 1]), codes="110000", slots="0200")
    second = first | {
        "whole": False,
        "units": {"changed": [[1, "21"], [5, "3"]]},
        "slots": {"changed": [[0, "1"]]},
        "sequences": [sequence("r/0") | {"tables": [{"first": 0, "kept": 1, "units": [4, 5]}]}],
    }
    del second["info"]

    world = worlds(page, first, second)

    assert world["codes"] == [1, 2, 1, 0, 0, 3]
    assert world["slots"] == [1, 2, 0, 0]
    assert world["tables"] == {"r/0": [{"first": 0, "units": [0, 4, 5]}]}
    assert world["holdings"]["5"] == [["r/0", 0, 32, 48]]


def test_a_window_that_moves_drops_what_is_behind_it(page: "Page") -> None:
    first = snapshot(sequence("r/0", [0, 1, 2, 3, 4, 5]), codes="111111", width=2)
    second = first | {
        "whole": False,
        "units": {},
        "sequences": [sequence("r/0") | {"tables": [{"first": 1, "kept": 3, "units": [0, 1]}]}],
    }

    world = worlds(page, first, second)

    assert world["tables"] == {"r/0": [{"first": 1, "units": [2, 3, 4, 5, 0, 1]}]}
    assert world["holdings"]["1"] == [["r/0", 0, 48, 64]]
    assert world["holdings"]["3"] == [["r/0", 0, 16, 32]]


def test_an_increment_without_a_whole_before_it_tells_nothing(page: "Page") -> None:
    lone = snapshot(codes="0") | {"whole": False}
    del lone["info"]

    assert worlds(page, lone) is None


def test_codes_tell_state_and_group(page: "Page") -> None:
    told = call(page, "world", "return [0, 1, 2, 3, 4, 9].map((code) => [m.stateOf(code), m.groupOf(code)]);")

    assert told == [[0, None], [1, 0], [2, 0], [3, 0], [1, 1], [3, 2]]


# -- owners, rates, layout, marks, story, words


def test_requests_that_run_at_once_have_different_colours_and_letters(page: "Page") -> None:
    owners = call(
        page,
        "owners",
        "const o = new m.Owners(); o.meet(['a', 'b']); o.meet(a);"
        "return a.map((id) => [o.of(id).letter, o.of(id).hue]);",
        *[f"r{number}" for number in range(8)],
    )

    assert len({hue for _, hue in owners}) == 8
    assert [letter for letter, _ in owners] == list("CDEFGHIJ")
    assert call(page, "owners", "return [0, 25, 26, 27, 701, 702].map(m.letters);") == [
        "A",
        "Z",
        "AA",
        "AB",
        "ZZ",
        "AAA",
    ]


def test_a_request_keeps_its_colour_and_the_oldest_are_forgotten(page: "Page") -> None:
    told = call(
        page,
        "owners",
        "const o = new m.Owners(); o.meet(['a'], 2); const was = o.of('a');"
        "o.meet(['a', 'b'], 2); o.meet(['c', 'a'], 2);"
        "return [o.of('a') === was, o.of('b').letter, o.of('c').letter];",
    )

    assert told == [True, "\u2013", "C"]


def test_rates_are_differences_over_the_window_and_begin_anew_behind_a_restart(page: "Page") -> None:
    told = call(
        page,
        "rates",
        "const r = new m.Rates(2); const said = [];"
        "for (const [time, n] of a) { r.add(time, {n}); said.push([r.rate('n'), r.rise('n')]); } return said;",
        *[[10, 0], [11, 50], [12, 100], [13, 100], [14, 100], [1, 5]],
    )

    assert told == [[0, 0], [50, 50], [50, 100], [25, 50], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("count", "width"), [(1, 300), (40, 700), (2560, 1000), (5900, 310), (100_000, 960), (100_000, 310)]
)
def test_all_blocks_fit_the_map_and_each_is_found_where_it_lies(page: "Page", count: int, width: int) -> None:
    grid, all_found = call(
        page,
        "layout",
        "const g = m.gridOf(a[0], a[1], 340); let all = true; let next = 0;"
        "for (let cell = 0; cell < g.cells; cell += 1) {"
        " const {x, y} = m.cornerOf(g, cell); const [first, stop] = m.blocksOf(g, cell);"
        " all &&= m.cellAt(g, x, y) === cell && m.cellAt(g, x + g.size - 1, y + g.size - 1) === cell;"
        " all &&= first === next; next = stop; }"
        "return [g, all && next === a[0]];",
        count,
        width,
    )

    assert all_found
    assert grid["columns"] * grid["size"] <= width
    assert grid["rows"] * grid["size"] <= 340
    assert grid["per"] == 1 or grid["size"] == 5


def test_keys_move_the_cursor_and_never_off_the_map(page: "Page") -> None:
    moves = call(
        page,
        "layout",
        "const g = m.gridOf(25, 280, 340); return [g.columns, ...a.map(([cell, key]) => m.moved(g, cell, key))];",
        *[[0, "ArrowRight"], [0, "ArrowLeft"], [3, "ArrowDown"], [20, "ArrowDown"], [3, "End"], [24, "Home"]],
        *[[24, "PageUp"], [3, "PageDown"], [3, "x"]],
    )

    assert moves == [10, 1, 0, 13, 20, 24, 0, 0, 24, None]


def test_positions_around_computed_are_told_apart(page: "Page") -> None:
    marks = {"planned": 14, "computed": 10, "accepted": 11, "published": 11, "prompt_tokens": 4}

    kinds = call(page, "marks", "return m.cellsOf(a[0]).map((cell) => cell.kind);", marks)

    assert kinds[:16] == ["held"] * 10 + ["flying"] + ["guess"] * 3 + ["free"] * 2
    assert call(page, "marks", "return m.kindAt(10, a[0]);", marks | {"planned": 10}) == "owed"


@pytest.mark.parametrize(
    ("accepted", "longest", "end"), [(10, 8192, 64), (10, 40, 40), (65, 8192, 128), (65, 100, 100), (300, 300, 300)]
)
def test_bars_reach_to_the_requests_own_end_or_a_round_number(
    page: "Page", accepted: int, longest: int, end: int
) -> None:
    marks = {"planned": accepted, "accepted": accepted, "max_length": longest}

    assert call(page, "marks", "return m.reach(a[0]);", marks) == end


def test_the_first_tokens_of_a_step_are_the_guesses_that_stood(page: "Page") -> None:
    steps = [
        {"step": 3, "accepted": 25, "tokens": 1, "kept": 0, "source": ""},
        {"step": 4, "accepted": 28, "tokens": 3, "kept": 2, "source": "prediction"},
    ]

    origins = call(
        page,
        "story",
        "return [...m.originsOf({steps: a}, 24)].map(([n, o]) => [n, o.step, o.drafted, o.position]);",
        *steps,
    )

    assert origins == [[0, 3, False, 24], [1, 4, True, 25], [2, 4, True, 26], [3, 4, False, 27]]


MAKING = (
    "const making = new m.Making(24);"
    "const told = (steps, ended = null) => making.take({steps, ended, cached_tokens: 16});"
    "const show = () => ({origins: [...making.origins].map(([n, o]) => [n, o.drafted]), falls: [...making.falls]"
    ".map(([n, f]) => [n, f.fell]), tally: [1, 4, 9].map((n) => making.tally(n)), last: making.last});"
)


def test_steps_that_are_told_twice_or_in_parts_tell_the_same_of_an_answer(page: "Page") -> None:
    steps = [
        {"step": 3, "accepted": 25, "tokens": 1, "drafted": 0, "kept": 0, "source": ""},
        {"step": 4, "accepted": 28, "tokens": 3, "drafted": 5, "kept": 2, "source": "prediction"},
        {"step": 6, "accepted": 29, "tokens": 1, "drafted": 2, "kept": 0, "source": "prompt_lookup"},
    ]

    at_once = call(page, "making", MAKING + "told(a); return show();", *steps)
    in_parts = call(
        page, "making", MAKING + "told(a.slice(0, 1)); told(a.slice(0, 2)); told(a); return show();", *steps
    )

    assert at_once == in_parts
    assert at_once["origins"] == [[0, False], [1, True], [2, True], [3, False], [4, False]]
    assert at_once["falls"] == [[3, 3], [4, 2]]
    assert at_once["last"] == 6
    assert at_once["tally"] == [
        {"kept": 0, "computed": 1, "fell": 0},
        {"kept": 2, "computed": 2, "fell": 3},
        {"kept": 2, "computed": 3, "fell": 5},
    ]


def test_guesses_that_fell_behind_the_last_token_count_once_the_answer_has_ended(page: "Page") -> None:
    step = {"step": 4, "accepted": 26, "tokens": 1, "drafted": 3, "kept": 1, "source": "prediction"}

    told = call(
        page,
        "making",
        MAKING + "told(a); const before = making.tally(2).fell; told([], 'stop');"
        "return [before, making.tally(2).fell, making.fellBehind(1), making.fellBehind(2)];",
        step,
    )

    assert told == [0, 2, 2, 0]


def test_marks_over_time_are_a_stair_within_its_frame(page: "Page") -> None:
    steps = [{"time": 1.0, "computed": 10}, {"time": 2.0, "computed": 20}, {"time": 3.0, "computed": 30}]
    frame = {"width": 100, "height": 50, "bottom": 10, "top": 30, "start": 1.0, "stop": 3.0}

    stair = call(page, "story", "return m.stairOf(a[0], (step) => step.computed, a[1]);", steps, frame)

    assert stair == "M0.0 50.0H50.0V25.0H100.0V0.0"


def test_what_happened_at_a_step_is_told(page: "Page") -> None:
    first = {"chunk": [16, 24], "computed": 24, "drafted": 0, "kept": 0}
    told = call(
        page,
        "story",
        "return [m.eventOf(a[0], undefined, 24), m.eventOf(a[1], a[0], 24), m.eventOf(a[2], a[0], 24)];",
        first,
        {"chunk": [24, 30], "computed": 27, "drafted": 5, "kept": 2},
        {"chunk": [0, 10], "computed": 10, "drafted": 0, "kept": 0},
    )

    assert told == [
        "starts behind 16 positions of the cache, the prompt\u2019s end",
        "3 guesses fell",
        "had lost its cache, computes again, part of the prompt",
    ]


EVENTS = [
    {"number": 1, "time": 0.0, "event": "queued"},
    {"number": 2, "time": 7.0, "event": "admitted", "cached_tokens": 16},
    {"number": 3, "time": 8.5, "event": "preempted", "reason": "room", "lost": 24, "freed": 1},
    {"number": 4, "time": 9.0, "event": "resumed", "cached_tokens": 0},
    {"number": 5, "time": 10.0, "event": "ended", "reason": "stop"},
]
STEPS = [{"step": 1, "time": 8.0}, {"step": 4, "time": 9.5}, {"step": 5, "time": 10.0}]


def test_what_befell_a_sequence_stands_between_its_steps_and_its_end_behind_the_last(page: "Page") -> None:
    line = call(page, "story", "return m.lineOf(a[0]).map((one) => one.step ?? one.event);", a_story())

    assert line == ["queued", "admitted", 1, "preempted", "resumed", 4, 5, "ended"]
    for steps, events in ((STEPS, []), ([], EVENTS)):
        whole = call(page, "story", "return m.lineOf(a[0]);", {"steps": steps, "events": events})
        assert whole == [*steps, *events]


def a_story() -> dict[str, object]:
    return {"steps": STEPS, "events": EVENTS}


def test_what_befell_a_sequence_is_told_in_words(page: "Page") -> None:
    more = [
        *({"event": name} for name in ("paused", "unpaused", "parked", "unparked", "resumed", "new")),
        {"event": "preempted", "reason": "new", "lost": 1, "freed": 2},
        {"event": "ended", "reason": "error", "error": "slow_reader"},
    ]

    told = call(page, "story", "return a.map(m.happeningOf);", *EVENTS, *more)

    assert told == [
        "came into the queue",
        "admitted, 16 positions found in the cache",
        "lost its cache of 24 positions, 1 block freed: others needed the place",
        "goes on, nothing found in the cache",
        "ended: stop",
        "paused: its client does not read fast enough",
        "its client reads again: waits for a cache",
        "parked: its client has left",
        "its client is back: waits",
        "goes on",
        "new",
        "lost its cache of 1 position, 2 blocks freed: new",
        "ended: error (slow_reader)",
    ]


def test_what_a_sequence_does_follows_from_what_befell_it_last(page: "Page") -> None:
    last = ["queued", "admitted", "preempted", "paused", "unpaused", "parked", "unparked", "resumed"]

    told = call(page, "story", "return a.map((event) => m.stateOf({steps: [], events: [{event}]}));", *last)

    assert told == ["waiting", "running", "waiting", "paused", "waiting", "parked", "waiting", "running"]
    assert call(page, "story", "return m.stateOf({events: []});") == "running"
    assert call(page, "story", "return m.stateOf(a[0]);", a_story()) == "ended: stop"


def test_a_chart_begins_with_the_last_event_before_the_first_step_and_ends_with_what_came_last(page: "Page") -> None:
    span = call(page, "story", "return m.spanOf(a[0]);", a_story())
    bare = call(page, "story", "return m.spanOf(a[0]);", {"steps": STEPS, "events": []})

    assert (span["start"], span["stop"]) == (7.0, 10.0)
    assert [one["event"] for one in span["within"]] == ["admitted", "preempted", "resumed", "ended"]
    assert bare == {"start": 8.0, "stop": 10.0, "within": []}


def test_waits_between_tries_grow_and_end_growing(page: "Page") -> None:
    waits = call(page, "feed", "return [1, 2, 3, 4, 5, 6, 60].map((n) => m.waitSeconds(n, 1));")

    assert waits == [0.5, 1, 2, 4, 8, 8, 8]
    assert 0.35 < call(page, "feed", "return m.waitSeconds(1, 0);") < 0.5


def test_numbers_are_written_as_people_read_them(page: "Page") -> None:
    told = call(
        page,
        "words",
        "return [m.count(12345), m.rate(3.14159), m.rate(0), m.percent(1, 3), m.percent(1, 5000), m.percent(0, 0),"
        " m.seconds(0.041), m.seconds(3.21), m.seconds(125), m.bytes(1536), m.bytes(2 ** 31), m.counted(1, 'block'),"
        " m.positions(5, 6), m.positions(16, 32)];",
    )

    assert told == [
        *("12,345", "3.1", "0", "33 %", "< 0.1 %", "\u2013", "0.04 s", "3.2 s", "2 min 5 s", "1.5 KiB", "2.0 GiB"),
        *("1 block", "position 5", "positions 16 to 31"),
    ]


def test_a_body_asks_only_for_what_was_wished(page: "Page") -> None:
    plain = {"temperature": None, "maxTokens": None, "seed": None, "alternatives": False, "prediction": ""}
    full = {"temperature": 0, "maxTokens": 5, "seed": 7, "alternatives": True, "prediction": "so"}

    bodies = call(page, "asking", "return a.map((wishes) => m.bodyOf('x', [], wishes));", plain, full)

    assert set(bodies[0]) == {"model", "messages", "stream", "stream_options", "logprobs", "return_token_ids"}
    assert bodies[1]["prediction"] == {"type": "content", "content": "so"}
    assert (bodies[1]["temperature"], bodies[1]["seed"], bodies[1]["max_completion_tokens"]) == (0, 7, 5)
    assert bodies[1]["top_logprobs"] == 5
