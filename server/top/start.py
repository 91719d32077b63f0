"""Start: one snapshot as text or JSON, or the live view at a terminal."""

import io
import json
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console as Terminal
from rich.live import Live

from server.console import Console
from server.terminal.client import ChatError, Client
from server.top.course import Course, read_course
from server.top.draw import draw
from server.top.follow import Follower
from server.top.keys import Keys
from server.top.leave import put_back_at_a_signal
from server.top.pages import Asks
from server.top.parts import Look
from server.top.reading import Reading
from server.top.sight import Sequence
from server.top.story import Frame
from server.top.units import Unit, read_unit
from server.top.view import View

EVERY_SECONDS = 0.25
REDRAW_SECONDS = 0.5  # while nothing happens: ages go on, and the window may have another size
ONCE_SECONDS = 1.0  # that rates are taken over, where one snapshot is asked for
PLAIN_WIDTH = 120


def start(client: Client, *, once: bool, as_json: bool, source: TextIO, out: TextIO, console: Console) -> int:
    """Show `client`'s server on `out`, and return the exit code."""

    def waits(notice: str) -> None:
        console.progress(f"tidemark: {notice}")

    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="replace")  # what draws bars may not be in the terminal's encoding
    terminal = Terminal(file=out, highlight=False)
    try:
        if as_json:
            out.write(json.dumps(_one_frame(client, 0.0, waits).sight.body) + "\n")  # ASCII, whatever `out` can take
        elif once or not (out.isatty() and source.isatty()) or terminal.is_dumb_terminal:
            _print(_one_frame(client, ONCE_SECONDS, waits), out, terminal)
        else:
            _show(client, source, terminal, waits)
    except ChatError as error:
        console.line(f"tidemark: {error}")
        return 1
    console.clear()
    return 0


def _one_frame(client: Client, seconds: float, waits: Callable[[str], None]) -> Frame:
    """A frame so many seconds after the first snapshot. Raises ChatError."""
    follower = Follower(client, every=EVERY_SECONDS, clock=time.monotonic)
    with follower.following():
        follower.first(waits)
        time.sleep(seconds)
        return follower.frame()


def _print(frame: Frame, out: TextIO, terminal: Terminal) -> None:
    if not out.isatty():
        terminal.width = PLAIN_WIDTH
    terminal.print(draw(frame, Look(terminal.width)))


def _show(client: Client, source: TextIO, terminal: Terminal, waits: Callable[[str], None]) -> None:
    """The live view, until somebody leaves. Raises ChatError where the server can't be watched."""
    keys = Keys(source.fileno())
    view = View(_asks(client, keys.wake))
    follower = Follower(client, every=EVERY_SECONDS, clock=time.monotonic, tells=keys.wake)
    with follower.following(), put_back_at_a_signal(source.fileno(), terminal.file.fileno()), keys.pressed():
        try:
            follower.first(waits)
            with Live(console=terminal, screen=True, auto_refresh=False) as live:
                while view.press(keys.wait(REDRAW_SECONDS)):
                    follower.check()
                    width, height = terminal.size
                    live.update(view.draw(follower.frame(), width=width, height=height), refresh=True)
        except (KeyboardInterrupt, EOFError):
            return


def _asks(client: Client, tells: Callable[[], None]) -> Asks:
    def course(sequence: Sequence) -> Reading[Course]:
        def ask(known: Course | None) -> Course:
            told = client.steps(sequence.request, after=0 if known is None else known.last)
            later = read_course(told, sequence.id)
            return later if known is None else known.joined(later)

        return Reading(ask, goes_on=lambda course: course.ended is None, tells=tells)

    def unit(number: int) -> Reading[Unit]:
        return Reading(lambda _: read_unit(client.unit(number)), tells=tells)

    return Asks(course, unit)
