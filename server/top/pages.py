"""Pages: the requests, one request's course, and the map of the cache, each with the keys that it takes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from rich.console import RenderableType

from server.top.course import Course
from server.top.draw import draw
from server.top.draw_course import Shown, draw_course, room_of
from server.top.draw_map import Cursor, draw_map, foremost, grid_of, letters_of
from server.top.parts import Look, Order, ordered
from server.top.reading import Reading
from server.top.sight import Sequence
from server.top.story import Frame
from server.top.units import Unit

BACK = frozenset({"escape", "backspace"})
_ORDERS = list(Order)


class Page(Protocol):
    """One of them."""

    def press(self, key: str, frame: Frame, look: Look) -> "Page":
        """Take a key, and say which page there is then."""

    def draw(self, frame: Frame, look: Look) -> RenderableType:
        """The frame as this page has it."""

    def close(self) -> None:
        """Another page is looked at."""


@dataclass(frozen=True, slots=True)
class Asks:
    """How the server is asked for what its snapshots do not tell."""

    course: Callable[[Sequence], Reading[Course]]
    unit: Callable[[int], Reading[Unit]]


class Requests:
    """All of them, of which one may be chosen."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self._order = Order.AGE
        self._chosen: str | None = None

    def press(self, key: str, frame: Frame, look: Look) -> Page:
        """See `Page`."""
        listed = ordered(frame.sight.sequences, self._order)
        if key in ("s", "S"):
            self._order = _ORDERS[(_ORDERS.index(self._order) + 1) % len(_ORDERS)]
        elif key in ("up", "k", "down", "j"):
            self._chosen = self._beside(listed, -1 if key in ("up", "k") else 1)
        elif key in BACK:
            self._chosen = None
        elif key in ("m", "M"):
            return Map(self._asks, foremost(frame, grid_of(frame.info.num_units, look).units(0)))
        elif key == "enter":
            chosen = next((sequence for sequence in listed if sequence.id == self._chosen), None)
            return self if chosen is None else Steps(chosen.id, self._asks.course(chosen))
        return self

    def _beside(self, listed: list[Sequence], step: int) -> str | None:
        """The one above or below that which is chosen; the first where none is."""
        ids = [sequence.id for sequence in listed]
        if self._chosen not in ids:
            return ids[0] if ids else None
        return ids[min(max(0, ids.index(self._chosen) + step), len(ids) - 1)]

    def draw(self, frame: Frame, look: Look) -> RenderableType:
        """See `Page`. Who has ended is chosen no more."""
        if all(sequence.id != self._chosen for sequence in frame.sight.sequences):
            self._chosen = None
        return draw(frame, replace(look, order=self._order, chosen=self._chosen))

    def close(self) -> None:
        """See `Page`. The choices stay."""


class Steps:
    """One sequence's steps, the last ones as long as nobody scrolls. It stays once the sequence has ended."""

    def __init__(self, sequence: str, reading: Reading[Course]) -> None:
        self._reading = reading
        self._shown = Shown(sequence, None)

    def press(self, key: str, frame: Frame, look: Look) -> Page:
        """See `Page`."""
        course = self._shown.course
        if course is None:
            return self
        total = len(course.steps) + len(course.happenings)
        room = min(room_of(look) or total, total)
        moves = {
            "up": -1,
            "k": -1,
            "down": 1,
            "j": 1,
            "page up": -room,
            "page down": room,
            "home": -total,
            "end": total,
        }
        end = (self._shown.end or total) + moves.get(key, 0)
        self._shown = replace(self._shown, end=None if end >= total else max(end, room))
        return self

    def draw(self, frame: Frame, look: Look) -> RenderableType:
        """See `Page`."""
        if not look.is_paused or self._shown.course is None:
            self._shown = replace(self._shown, course=self._reading.told, notice=self._reading.notice)
        return draw_course(frame, self._shown, look)

    def close(self) -> None:
        """See `Page`."""
        self._reading.close()


class Map:
    """Every unit of the pool, with a cursor on one."""

    def __init__(self, asks: Asks, unit: int) -> None:
        self._asks = asks
        self._reading = asks.unit(unit)
        self._cursor = Cursor(unit)

    def press(self, key: str, frame: Frame, look: Look) -> Page:
        """See `Page`."""
        grid = grid_of(frame.info.num_units, look)
        unit = grid.moved(self._cursor.unit, key)
        if unit != self._cursor.unit:
            self._look_at(foremost(frame, grid.units(grid.cell(unit))))
        return self

    def _look_at(self, unit: int) -> None:
        self._reading.close()
        self._reading = self._asks.unit(unit)
        self._cursor = replace(self._cursor, unit=unit, held=None, notice="")

    def draw(self, frame: Frame, look: Look) -> RenderableType:
        """See `Page`. The server may be another by now, with fewer units."""
        if self._cursor.unit >= frame.info.num_units:
            self._look_at(frame.info.num_units - 1)
        letters = letters_of(frame.sight.sequences, self._cursor.letters)
        self._cursor = replace(self._cursor, letters=letters)
        if not look.is_paused or self._cursor.held is None:
            self._cursor = replace(self._cursor, held=self._reading.told, notice=self._reading.notice)
        return draw_map(frame, self._cursor, look)

    def close(self) -> None:
        """See `Page`."""
        self._reading.close()
