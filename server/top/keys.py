"""Keys: single keys of a terminal, as they are pressed, and their names."""

import os
import re
import select
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

ESCAPE_SECONDS = 0.05  # within which the rest of a key comes, if it is more than escape
_UNFINISHED = re.compile(r"\x1b(?:[\[O][0-9;]*)?\Z")
_KEY = re.compile(r"\x1b[\[O]([0-9;]*)([A-Za-z~]|\Z)|[^\x1b]|\x1b")
_FINAL = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_NUMBERED = {"1": "home", "4": "end", "5": "page up", "6": "page down", "7": "home", "8": "end"}
_SINGLE = {"\r": "enter", "\n": "enter", "\x1b": "escape", "\x7f": "backspace", "\b": "backspace", " ": "space"}


def keys_in(pressed: str) -> Iterator[str]:
    """The names of keys in what came from a terminal; a letter's is itself. Those that nobody knows are left out."""
    for match in _KEY.finditer(pressed):
        number, final = match[1], match[2]
        if final is None:
            yield _SINGLE.get(match[0], match[0])
        elif name := _NUMBERED.get(number) if final == "~" else _FINAL.get(final):
            yield name


class Keys:
    """Reads the terminal at the file descriptor `source`. `wake` ends a wait from any thread."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        os.set_blocking(self._woken, False)

    @contextmanager
    def pressed(self) -> Iterator[None]:
        """Have keys come one by one and unseen while the block lasts; Ctrl-C stays an interrupt."""
        before = termios.tcgetattr(self._source)
        try:
            tty.setcbreak(self._source)
            yield
        finally:
            termios.tcsetattr(self._source, termios.TCSADRAIN, before)

    def wake(self) -> None:
        """End the wait for a key."""
        with suppress(BlockingIOError):  # it is full of calls to wake, and one is enough
            os.write(self._waker, b"x")

    def wait(self, seconds: float) -> str:
        """What was pressed until now, or within so many seconds. Raises EOFError where the terminal is gone."""
        ready, _, _ = select.select([self._source, self._woken], [], [], seconds)
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._source not in ready:
            return ""
        pressed = self._read()
        while _UNFINISHED.search(pressed) and select.select([self._source], [], [], ESCAPE_SECONDS)[0]:
            pressed += self._read()
        return pressed

    def _read(self) -> str:
        pressed = os.read(self._source, 4096)
        if not pressed:
            raise EOFError
        return pressed.decode("ascii", "replace")
