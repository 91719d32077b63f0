"""Draw one sequence's course: its marks, and step by step what was done to it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from server.top.bars import marks_bar, scale_of
from server.top.course import Course, Happening, Step
from server.top.happened import course_told, happening_told, step_told
from server.top.parts import LABEL_WIDTH, Look, bar_of, fitted, head, keys_line, legend, line_of
from server.top.story import Frame
from server.top.words import count_told, moment_told, span_of

LINES_BESIDE = 10  # what stands above the table, with its head, and the keys below
LEAST = 1  # lines of the table, however low the terminal is


def _guesses(step: Step) -> str:
    """How many guessed tokens stood, and whose they were."""
    return f"{step.kept} of {step.drafted} {step.source}" if step.drafted else ""


COLUMNS: dict[str, tuple[int, Callable[[Step], str]]] = {  # each from its width on
    "step": (0, lambda step: count_told(step.number)),
    "positions": (0, lambda step: span_of(step.start, step.stop)),
    "planned": (100, lambda step: count_told(step.planned)),
    "computed": (100, lambda step: count_told(step.computed)),
    "accepted": (0, lambda step: count_told(step.accepted)),
    "published": (100, lambda step: count_told(step.published)),
    "tokens": (80, lambda step: count_told(step.tokens)),
    "guesses": (60, _guesses),
}
AFTER = "after"


@dataclass(frozen=True, slots=True)
class Shown:
    """Which sequence is looked at, what is known of it, and `end`, the line that is the lowest; None follows."""

    sequence: str
    course: Course | None
    notice: str = ""
    end: int | None = None


def draw_course(frame: Frame, shown: Shown, look: Look) -> RenderableType:
    """From the top down; the steps have the lines that the rest leaves."""
    lines = [fitted(line) for line in (*head(frame, look), *_summary(frame, shown, look))]
    table = [] if shown.course is None else list(_table(shown.course, shown.end, look))
    return Group(*lines, *table, *keys_line(look, "esc back  up down pgup pgdn home end scroll"))


def room_of(look: Look) -> int | None:
    """How many lines of the table there is room for; None for all."""
    return None if look.height is None else max(LEAST, look.height - LINES_BESIDE)


def _summary(frame: Frame, shown: Shown, look: Look) -> Iterator[Text]:
    yield line_of("request", shown.sequence)
    listed = next((each for each in frame.sight.sequences if each.id == shown.sequence), None)
    if listed is not None:
        scale = scale_of(max(listed.accepted, listed.planned))
        yield line_of("marks", bar_of(marks_bar(listed, scale=scale, width=max(1, look.width - LABEL_WIDTH))))
        yield legend(scale)
    if shown.course is not None:
        yield line_of("course", course_told(shown.course))
    if shown.notice:
        yield Text(shown.notice, style="bold yellow")


def _table(course: Course, end: int | None, look: Look) -> Iterator[Text]:
    line = list(course.line())
    room = room_of(look)
    stop = len(line) if end is None else min(max(end, room or 0), len(line))
    first = 0 if room is None else max(0, stop - room)
    names = [name for name, (least, _) in COLUMNS.items() if look.width >= least]
    rows = list(_rows(course, line, range(first, stop), names))
    widths = {name: max([len(name), *(len(row.cells[name]) for row in rows if row.cells)]) for name in names}
    wide = max([len(AFTER), *(len(row.after) for row in rows)])
    yield fitted(Text(_set({name: name for name in names}, AFTER, widths, wide, ""), style="bold"))
    for row in rows:
        yield fitted(Text(_set(row.cells, row.after, widths, wide, row.told), style=row.style))


@dataclass(frozen=True, slots=True)
class _Row:
    cells: dict[str, str]  # none where no step is told
    after: str  # how long after the first of all
    told: str
    style: str


def _rows(course: Course, line: list[Step | Happening], shown: range, names: list[str]) -> Iterator[_Row]:
    before = next((one for one in reversed(line[: shown.start]) if isinstance(one, Step)), None)
    for one in line[shown.start : shown.stop]:
        after = moment_told(one.time - line[0].time)
        if isinstance(one, Step):
            cells = {name: COLUMNS[name][1](one) for name in names}
            yield _Row(cells, after, step_told(one, before, course), "magenta" if one.kept < one.drafted else "")
            before = one
        else:
            yield _Row({}, after, happening_told(one), "bold")


def _set(cells: dict[str, str], after: str, widths: dict[str, int], wide: int, told: str) -> str:
    """One line: the step, how long after the first, and the rest of it; an event has no step, and stands across."""
    step = cells.get("step", "").rjust(widths["step"])
    rest = [cells[name].rjust(width) for name, width in widths.items() if name != "step"] if cells else []
    return "  ".join(part for part in (step, after.rjust(wide), *rest, told) if part)
