import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from server.top.course import Course
from server.top.pages import Asks
from server.top.reading import Reading
from server.top.sight import Sequence
from server.top.story import Frame, Story
from server.top.units import Unit
from server.top.values import NoSight
from server.top.view import View
from tests.server.terminal.scripted import PATIENCE_SECONDS
from tests.server.top.courses import course, event, step
from tests.server.top.rendered import rendered
from tests.server.top.sights import sequence, sight

UP, DOWN, RIGHT = "\x1b[A", "\x1b[B", "\x1b[C"
PAGE_UP, PAGE_DOWN, HOME, END = "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F"
ESCAPE, BACKSPACE, ENTER = "\x1b", "\x7f", "\r"
NUM_STEPS, HEIGHT = 40, 31
STEPS = [step(number) for number in range(1, NUM_STEPS + 1)]

Told = TypeVar("Told")


class Answers:
    """A server that has answered once before anything is drawn, and what it was asked for."""

    def __init__(self, told: Course | None = None) -> None:
        self.told = told or course(steps=STEPS, events=[event(1, "queued", 0.0)], ended="stop")
        self.asked: list[str | int] = []
        self.readings: list[Reading[Course] | Reading[Unit]] = []
        self.asks = Asks(self._course, self._unit)

    def _course(self, chosen: Sequence) -> Reading[Course]:
        self.asked.append(chosen.id)
        reading = answered(lambda: self.told)
        self.readings.append(reading)
        return reading

    def _unit(self, number: int) -> Reading[Unit]:
        self.asked.append(number)
        reading = answered(lambda: Unit(number, "shared", 0, (16, 32), ("a", "b"), None))
        self.readings.append(reading)
        return reading


def answered(ask: Callable[[], Told]) -> Reading[Told]:
    done = threading.Event()
    reading: Reading[Told] = Reading(lambda _: ask(), goes_on=lambda _: False, tells=done.set)
    assert done.wait(PATIENCE_SECONDS)
    return reading


def frame(steps: int, *ids: str) -> Frame:
    told = Story("http://here")
    rows = [sequence(id, arrived=float(number)) for number, id in enumerate(ids)]
    told.add(sight(whole=True, server=f"state-{steps}", sequences=rows), 0.0)
    return told.frame(0.0)


def lines(view: View, shown: Frame, keys: str = "", *, height: int = HEIGHT) -> list[str]:
    """What is drawn behind these keys, of which each but the first is pressed on what the one before has changed."""
    for key in keys.split():
        assert view.press({"enter": ENTER, "escape": ESCAPE}.get(key, key))
        view.draw(shown, width=100, height=height)
    return rendered(view.draw(shown, width=100, height=height), 100)


def text(view: View, shown: Frame, keys: str = "") -> str:
    return "\n".join(lines(view, shown, keys))


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def view(answers: Answers) -> View:
    return View(answers.asks)


def test_other_keys_change_nothing_and_q_leaves(view: View) -> None:
    before = text(view, frame(1, "a/0"))

    assert view.press("")
    assert view.press("xyz\x1b[Z\x1b[99~")
    assert text(view, frame(1, "a/0")) == before
    assert not view.press("xq")


def test_a_paused_view_keeps_the_frame_of_that_moment(view: View) -> None:
    text(view, frame(1))
    view.press("p")

    paused = text(view, frame(2))
    view.press("p")

    assert "state-1" in paused
    assert "paused; p goes on" in paused
    assert "state-2" in text(view, frame(2))


def test_a_view_that_is_paused_before_it_drew_anything_draws_the_first(view: View) -> None:
    view.press("ps\r")

    assert "state-1" in text(view, frame(1))


def test_s_goes_through_the_orders(view: View) -> None:
    view.draw(frame(1), width=100, height=HEIGHT)

    told = [text(view, frame(1), "s").rpartition("sorts (by ")[2].partition(")")[0] for _ in range(4)]

    assert told == ["length", "state", "age", "length"]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("", None),
        (DOWN, "a/0"),
        (UP, "a/0"),
        (f"{DOWN} {DOWN}", "b/0"),
        ("j j j j j", "c/0"),
        ("j j k k", "a/0"),
        ("j escape", None),
        ("enter", None),
    ],
)
def test_a_request_is_chosen_by_keys(view: View, keys: str, chosen: str | None) -> None:
    view.draw(frame(1, "a/0", "b/0", "c/0"), width=100, height=HEIGHT)

    drawn = lines(view, frame(1, "a/0", "b/0", "c/0"), keys)

    assert [line.split()[1] for line in drawn if line.startswith("> ")] == ([chosen] if chosen else [])


def test_no_request_can_be_chosen_where_there_is_none_and_one_that_ended_is_chosen_no_more(view: View) -> None:
    view.draw(frame(1), width=100, height=HEIGHT)

    assert ">" not in text(view, frame(1), "j")
    text(view, frame(1, "b/0"))
    assert "> b/0" in text(view, frame(1, "b/0"), "j")
    assert ">" not in text(view, frame(1, "c/0"))


def test_a_chosen_request_is_opened_and_left_again(view: View, answers: Answers) -> None:
    shown = frame(1, "a/0", "b/0")
    view.draw(shown, width=100, height=HEIGHT)

    opened = lines(view, shown, "j j enter")
    left = text(view, shown, "escape")

    assert opened[1] == "request  b/0"
    assert opened[4].startswith("course   40 steps; prompt 20 tokens, 16 found in the cache;")
    assert opened[-1].startswith("q leaves  p pauses  esc back")
    assert answers.asked == ["b/0"]
    assert "> b/0" in left
    assert answers.readings[0]._ends.is_set()


def test_an_opened_request_stays_when_it_has_ended(view: View) -> None:
    view.draw(frame(1, "a/0"), width=100, height=HEIGHT)
    lines(view, frame(1, "a/0"), "j enter")

    drawn = lines(view, frame(2))

    assert drawn[:3] == [
        "tiny  LlamaForCausalLM  state-2  up 1 h 02 min  http://here",
        "request  a/0",
        "course   40 steps; prompt 20 tokens, 16 found in the cache; waiting",
    ]


def numbers(drawn: list[str]) -> list[int]:
    """Of the steps that are drawn."""
    return [int(line.split()[0]) for line in drawn if line.split()[0].isdecimal()]


@pytest.mark.parametrize(
    ("keys", "first", "last"),
    [
        ("", 20, 40),
        (UP, 19, 39),
        (f"{UP} {UP} {DOWN}", 19, 39),
        (f"{UP} {DOWN} {DOWN}", 20, 40),
        (PAGE_UP, 1, 20),
        (f"{PAGE_UP} {PAGE_UP} {UP}", 1, 20),
        (f"{HOME} {DOWN}", 1, 21),
        (f"{HOME} {PAGE_DOWN}", 20, 40),
        (f"{HOME} {END}", 20, 40),
        ("x", 20, 40),
    ],
)
def test_steps_scroll(view: View, keys: str, first: int, last: int) -> None:
    view.draw(frame(1, "a/0"), width=100, height=HEIGHT)
    lines(view, frame(1, "a/0"), "j enter")

    shown = numbers(lines(view, frame(1, "a/0"), keys))

    assert (shown[0], shown[-1]) == (first, last)


def test_a_few_steps_do_not_scroll() -> None:
    view = View(Answers(course(steps=STEPS[:3])).asks)
    view.draw(frame(1, "a/0"), width=100, height=HEIGHT)

    assert numbers(lines(view, frame(1, "a/0"), f"j enter {UP} {PAGE_UP} {HOME}")) == [1, 2, 3]


def test_why_there_are_no_steps_is_told_and_keys_do_nothing(answers: Answers) -> None:
    def ask() -> Course:
        raise NoSight("nothing was noted")

    view = View(Asks(lambda _: answered(ask), answers.asks.unit))
    view.draw(frame(1, "a/0"), width=100, height=HEIGHT)

    assert lines(view, frame(1, "a/0"), f"j enter {UP}")[-2] == "nothing was noted"


def test_paused_steps_stay_as_they_were(view: View, answers: Answers) -> None:
    view.draw(frame(1, "a/0"), width=100, height=HEIGHT)
    lines(view, frame(1, "a/0"), "j enter p")

    answers.readings[0].told = course(steps=STEPS[:1])
    paused, goes_on = lines(view, frame(1, "a/0")), lines(view, frame(1, "a/0"), "p")

    assert "course   40 steps" in "\n".join(paused)
    assert "course   1 step" in "\n".join(goes_on)


def test_the_map_has_a_cursor_that_asks_what_a_unit_holds(view: View, answers: Answers) -> None:
    view.draw(frame(1, "a/0"), width=100, height=HEIGHT)

    opened = lines(view, frame(1, "a/0"), "m")
    moved = lines(view, frame(1, "a/0"), f"{RIGHT} {UP} {RIGHT}")
    left = text(view, frame(1, "a/0"), BACKSPACE)

    assert opened[2] == "       0 ·a▓▒"
    assert "unit     0  shared  positions 16 to 31  of a, b" in opened
    assert "unit     2  shared  positions 16 to 31  of a, b" in moved
    assert answers.asked == [0, 1, 2]
    assert all(reading._ends.is_set() for reading in answers.readings)
    assert "> " not in left
    assert "a/0     running" in left


def test_a_paused_map_stays_as_it_was_and_the_cursor_still_moves(view: View, answers: Answers) -> None:
    shown = frame(1, "a/0")
    view.draw(shown, width=100, height=HEIGHT)
    lines(view, shown, "m p")

    answers.readings[0].told = Unit(0, "free", None, None, (), None)
    paused = text(view, shown)
    moved = text(view, shown, RIGHT)

    assert "unit     0  shared" in paused
    assert "unit     1  shared" in moved


def test_a_cursor_on_what_another_server_does_not_have_goes_to_its_last(view: View, answers: Answers) -> None:
    shown = frame(1, "a/0")
    view.draw(shown, width=100, height=HEIGHT)
    lines(view, shown, f"m {END}")
    smaller = replace(shown, info=replace(shown.info, num_units=2))

    assert "unit     1  shared" in text(view, smaller)
    assert answers.asked == [0, 3, 1]


def test_what_is_wrong_with_the_server_is_told_in_a_paused_view_too(view: View) -> None:
    view.draw(frame(1), width=100, height=HEIGHT)
    view.press("p")

    paused = lines(view, replace(frame(2), notice="the server is ending"))

    assert "state-1" in paused[0]
    assert paused[1:3] == ["the server is ending", "paused; p goes on"]


@pytest.mark.parametrize("keys", ["", "j enter", "m"])
def test_a_low_terminal_has_all_lines_of_a_page(view: View, keys: str) -> None:
    many = frame(1, *(f"r{number}/0" for number in range(50)))
    view.draw(many, width=100, height=12)

    drawn = lines(view, many, keys, height=12)

    assert len(drawn) <= 12
    assert drawn[-1].startswith("q leaves  p pauses")


def test_a_larger_window_shows_as_many_steps_as_it_has_room_for(view: View) -> None:
    view.draw(frame(1, "a/0"), width=100, height=12)
    lines(view, frame(1, "a/0"), f"j enter {HOME}", height=12)

    assert numbers(lines(view, frame(1, "a/0"), height=HEIGHT)) == list(range(1, 21))
