import pytest

from server.top.course import Course
from server.top.draw_course import Shown, draw_course
from server.top.parts import Look
from server.top.story import Frame, Story
from tests.server.top.courses import NAME, course, event, step
from tests.server.top.rendered import rendered
from tests.server.top.sights import sequence, sight


def frame(*ids: str) -> Frame:
    told = Story("http://here:8000")
    told.add(sight(whole=True, sequences=[sequence(id) for id in ids]), 0.0)
    return told.frame(0.0)


def drawn(shown: Shown, look: Look, *ids: str) -> list[str]:
    return rendered(draw_course(frame(*ids), shown, look), look.width)


TALE = course(
    steps=[
        step(1, chunk=[16, 20], planned=20, computed=20, accepted=21, published=21),
        step(1002, chunk=[20, 24], drafted=3, kept=1, source="lookup", tokens=2, accepted=23),
        step(1003, chunk=[1002, 1003], drafted=2, kept=2, source="draft_model", tokens=3),
    ],
    events=[event(1, "queued", 0.0), event(2, "preempted", 50.0, reason="room", lost=33, freed=2)],
)


def test_a_course_is_drawn_from_the_top_down() -> None:
    lines = drawn(Shown(NAME, TALE), Look(160, has_keys=True), NAME)

    assert lines[1] == "request  chatcmpl-1/0"
    assert lines[2].startswith("marks    ██")
    assert len(lines[2]) == 160
    assert lines[3].startswith("positions 0 to 50  █ computed")
    assert lines[4] == (
        "course   3 steps; prompt 20 tokens, 16 found in the cache; 3 of 5 guessed tokens stood; waiting"
    )
    assert lines[5:] == [
        " step     after  positions  planned  computed  accepted  published  tokens             guesses",
        "         0.00 s  came into the queue",
        "    1    0.10 s   16 to 19       20        20        21         21       1                      "
        "starts behind 16 positions of the cache, the prompt's end",
        "        50.00 s  lost its cache of 33 positions, 2 blocks freed: others needed the place",
        "1,002  100.20 s   20 to 23    1,002     1,002        23      1,003       2       1 of 3 lookup  "
        "2 guesses fell",
        "1,003  100.30 s      1,002    1,003     1,003     1,004      1,004       3  2 of 2 draft_model",
        "q leaves  p pauses  esc back  up down pgup pgdn home end scroll",
    ]


@pytest.mark.parametrize("width", [12, 20, 40, 59, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal_and_none_is_broken(width: int) -> None:
    lines = drawn(Shown(NAME, TALE), Look(width, has_keys=True), NAME)

    assert max(map(len, lines)) <= width
    assert len(lines) == 12


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (59, "step after positions accepted"),
        (60, "step after positions accepted guesses"),
        (80, "step after positions accepted tokens guesses"),
    ],
)
def test_a_narrow_terminal_has_fewer_columns(width: int, names: str) -> None:
    assert drawn(Shown(NAME, TALE), Look(width), NAME)[5].split() == names.split()


@pytest.mark.parametrize(("end", "last"), [(None, 40), (20, 20), (5, 14), (99, 40)])
def test_the_table_has_the_lines_that_the_rest_leaves(end: int | None, last: int) -> None:
    many = course(steps=[step(number) for number in range(1, 41)])

    lines = drawn(Shown(NAME, many, end=end), Look(100, 24, has_keys=True), NAME)

    numbers = [int(line.split()[0]) for line in lines if line.split()[0].isdecimal()]
    assert len(lines) <= 24
    assert (len(numbers), numbers[-1]) == (14, last)


def test_what_came_before_those_that_are_shown_is_known() -> None:
    lost = course(steps=[*(step(number) for number in range(1, 31)), step(31, chunk=[0, 31])])

    lines = drawn(Shown(NAME, lost), Look(150, 10))

    assert lines[-1].endswith("had lost its cache, computes again, the prompt's end")
    assert drawn(Shown(NAME, lost, end=31), Look(150, 10))[-1] == lines[-1]


@pytest.mark.parametrize("told", [None, course()])
def test_nothing_is_known_at_first(told: Course | None) -> None:
    lines = drawn(Shown(NAME, told, "not yet"), Look(80, 24, has_keys=True))

    assert lines[1] == "request  chatcmpl-1/0"
    assert "not yet" in lines
    assert lines[-1].startswith("q leaves")
