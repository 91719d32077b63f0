from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from server.top.draw import draw
from server.top.parts import Look, Order
from server.top.story import Frame, Story
from tests.server.top.rendered import rendered
from tests.server.top.sights import STAGES, body, rejection, sequence, sight


def frame(*, first: dict[str, Any] | None = None, **fields: Any) -> Frame:
    told = Story("http://here:8000")
    told.add(sight(whole=True, **first or {}), 0.0)
    told.add(sight(**fields), 2.0)
    return told.frame(2.0)


def drawn(shown: Frame, look: Look) -> list[str]:
    return rendered(draw(shown, look), look.width)


BUSY: dict[str, Any] = {
    "steps": 60,
    "positions": {"planned": 500, "computed": 470, "accepted": 130, "published": 120, "rejected": 30, "recomputed": 0},
    "drafts": {"lookup": {"drafts": 8, "tokens": 60, "kept": 40}},
    "prefix": {"queries": 150, "hits": 100},
    "seconds": {stage: {"count": 60, "sum": 3.1} for stage in STAGES},
    "step_positions": {"count": 60, "sum": 480.0},
    "sequences": [sequence("a/0"), sequence("b/0", planned=62, computed=50, accepted=53, published=52, arrived=80.0)],
    "rejections": [rejection(1), rejection(2)],
}


def test_a_busy_server_is_drawn_from_the_top_down() -> None:
    lines = drawn(frame(**BUSY), Look(120, has_keys=True))

    assert lines[0] == "tiny  LlamaForCausalLM  ready  up 1 h 02 min  http://here:8000"
    assert lines[1] == "cache    " + "█" * 33 + "▓" * 11 + "▒" * 23 + "·" * 44
    assert lines[2] == "         █ allocated 30  ▓ shared 10  ▒ cached 20  · free 40  of 100 blocks"
    assert lines[3:9] == [
        "marks/s  planned 100  computed 95  accepted 35  published 30  rejected 5.0  recomputed 0",
        "prefix   hits 76% now, 67% since the start",
        "queue    running 1 of 16  waiting 2 of 64  paused 0  parked 0  refused 3  preempted 1  left 4",
        "steps    10/s  execute 55 ms  plan 55 ms  commit 55 ms  publish 55 ms  10 positions each",
        "text     first token -  gap -",
        "drafts   lookup 2.0/s, 75% kept",
    ]
    assert lines[10].split() == [
        "request",
        "state",
        "marks",
        "planned",
        "computed",
        "accepted",
        "published",
        "prompt",
        "output",
        "cached",
        "age",
    ]
    assert lines[11].startswith("b/0     running ")
    assert lines[11].split()[-8:] == ["50", "53", "52", "20", "11", "16", "20", "s"]
    assert lines[12].startswith("a/0     running ")
    assert lines[13] == "positions 0 to 100  █ computed  ▓ in flight  ▒ accepted  ░ draft  ▚ held back"
    assert lines[14] == "fell     step 42  chatcmpl-1/0 at 25: 3 of 8 kept (lookup)"
    assert lines[16] == "q leaves  p pauses  s sorts (by age)  up down choose  m map"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 119, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_none_is_broken(width: int) -> None:
    shown, look = frame(**BUSY), Look(width, has_keys=True)

    lines = drawn(shown, look)

    assert max(map(len, lines)) <= width
    assert len(lines) == len(drawn(shown, replace(look, width=200)))


@pytest.mark.parametrize(("width", "names"), [(79, "accepted age"), (80, "accepted prompt output cached age")])
def test_a_narrow_terminal_has_fewer_columns(width: int, names: str) -> None:
    lines = drawn(frame(**BUSY), Look(width))

    assert lines[10].split() == ["request", "state", "marks", *names.split()]


def test_requests_have_the_lines_that_the_rest_leaves() -> None:
    many = [sequence(f"r{number}/0", arrived=float(number)) for number in range(50)]

    lines = drawn(frame(sequences=many), Look(100, 24, has_keys=True))

    assert len(lines) <= 24
    assert sum(line.startswith("r") and "running" in line for line in lines) == 10
    assert "and 40 more" in lines


def test_the_one_that_is_chosen_is_marked_and_in_sight() -> None:
    many = [sequence(f"r{number:02}/0", arrived=float(number)) for number in range(50)]

    lines = drawn(frame(sequences=many), Look(100, 24, chosen="r30/0", has_keys=True))

    listed = [line for line in lines if "running " in line and line.strip("> ").startswith("r")]
    assert [line[:7] for line in listed[-2:]] == ["  r29/0", "> r30/0"]
    assert len(listed) == 10
    assert "and 40 more" in lines
    assert lines[-1].endswith("enter opens  esc lets go  m map")


def test_those_that_the_server_does_not_list_are_counted_too() -> None:
    unlisted = {"running": 1000, "waiting": 200, "paused": 30, "parked": 4}

    whole = drawn(frame(sequences=[sequence("a/0")], unlisted=unlisted), Look(100))
    cut = drawn(frame(sequences=[sequence(f"r{number}/0") for number in range(50)], unlisted=unlisted), Look(100, 24))

    assert "and 1,234 more" in whole
    assert any(line.startswith("and 1,27") for line in cut)


def test_a_very_low_terminal_still_shows_one_request() -> None:
    assert any(line.startswith("a/0") for line in drawn(frame(sequences=[sequence("a/0")]), Look(80, 3)))


def test_an_idle_server_says_so() -> None:
    nothing: dict[str, Any] = {"sequences": [], "drafts": {}, "prefix": {"queries": 0, "hits": 0}}

    lines = drawn(frame(first=nothing, **nothing), Look(100))

    assert lines[4] == "prefix   hits - now, - since the start"
    assert lines[6] == "steps    0/s"
    assert lines[-3:] == ["drafts   none", "", "requests none"]


def test_a_draft_that_nobody_made_now_has_no_share() -> None:
    assert "drafts   lookup 0/s, - kept" in drawn(frame(), Look(100))


@pytest.mark.parametrize(
    ("order", "ids"), [(Order.AGE, ["c", "a", "b"]), (Order.LENGTH, ["b", "a", "c"]), (Order.STATE, ["a", "c", "b"])]
)
def test_requests_are_sorted_as_is_asked(order: Order, ids: list[str]) -> None:
    three = [
        sequence("a", state="paused", accepted=40, arrived=2.0),
        sequence("b", state="waiting", accepted=50, arrived=3.0, cached_tokens=None),
        sequence("c", state="running", accepted=31, arrived=1.0),
    ]

    lines = drawn(frame(sequences=three), Look(100, order=order))

    assert [line[0] for line in lines[11:14]] == ids


def test_a_long_id_is_cut_where_the_terminal_is_narrow() -> None:
    lines = drawn(frame(sequences=[sequence("chatcmpl-0123456789abcdef/0")]), Look(60))

    assert lines[11].startswith("chatcmpl-01… running")


def test_groups_and_slots_have_lines_of_their_own() -> None:
    states = {"allocated": 10, "shared": 0, "cached": 10}
    groups = [{"layout": "full attention", **states}, {"layout": "window of 512", **states}]
    pool: dict[str, Any] = {**body()["pool"], "groups": groups, "slots": {"capacity": 40, "free": 20, **states}}

    lines = drawn(frame(pool=pool), Look(49))

    assert lines[3:6] == [
        "  0      ██▒▒················  full attention",
        "  1      ██▒▒················  window of 512",
        "states   █ allocated 10  ▓ shared 0  ▒ cached 10…",
    ]


def test_what_is_wrong_stands_below_the_head() -> None:
    lost = replace(frame(), notice="the connection was lost; trying again")

    assert drawn(lost, Look(80))[1] == "the connection was lost; trying again"
    assert drawn(frame(), Look(80, is_paused=True))[1] == "paused; p goes on"
    assert (
        drawn(frame(), Look(80, is_paused=True, has_keys=True))[-1]
        == "q leaves  p goes on  s sorts (by age)  up down choose  m map"
    )


def test_a_terminal_without_colours_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(width=80, force_terminal=True, color_system="standard")

    with console.capture() as plain:
        console.print(draw(frame(), Look(80)))

    assert "\x1b[32m" not in plain.get()
