"""Screen: what a person, or a program that reads along, sees of a conversation."""

from typing import TextIO

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
# A model's text must not drive the terminal: of the control characters line feeds and tabs are kept.
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


class Screen:
    """Writes to `out`. Where that is no terminal it holds answers and what was asked for, and nothing else."""

    def __init__(self, out: TextIO, *, is_terminal: bool) -> None:
        self._out = out
        self.is_terminal = is_terminal
        self._thinks = False
        self._at_start = True  # of a line

    def say(self, text: str) -> None:
        """More of an answer."""
        if self._thinks:
            self.end()
        self._put(text.translate(_CONTROLS))

    def think(self, text: str) -> None:
        """More of what the model thinks; only a person sees it."""
        if not self.is_terminal:
            return
        if not self._thinks:
            self._put(_DIM)
            self._thinks = True
        self._put(text.translate(_CONTROLS))

    def end(self) -> None:
        """The line is over, if one has begun."""
        if self._thinks:
            self._put(_PLAIN)
            self._thinks, self._at_start = False, False
        if not self._at_start:
            self._put("\n")

    def line(self, text: str) -> None:
        """A line that was asked for."""
        self.end()
        self._put(f"{text}\n")

    def note(self, text: str) -> None:
        """A line that only a person sees."""
        self.end()
        if self.is_terminal:
            self._put(f"{_DIM}{text}{_PLAIN}\n")

    def _put(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._at_start = text.endswith("\n")
