"""Console: what a person at the terminal reads, lines that stay and one progress line that is rewritten."""

import threading
from collections.abc import Callable
from typing import TextIO

_CLEAR = "\r\x1b[K"
Frame = Callable[[str, str], str]  # a level and a text to a line


class Console:
    """Writes to `stream`, from any thread. Where it is no terminal, progress is plain lines.

    A `frame` is put around what is said, where programs read it; `write` takes lines as they are.
    """

    def __init__(self, stream: TextIO, *, frame: Frame | None = None) -> None:
        self._stream = stream
        self._frame = frame
        self._is_terminal = stream.isatty() and frame is None
        self._lock = threading.Lock()
        self._shows_progress = False

    def progress(self, text: str) -> None:
        """Say what goes on, in place of what was said before."""
        with self._lock:
            if self._is_terminal:
                self._put(f"{_CLEAR}{text}")
                self._shows_progress = True
            else:
                self._put(f"{self._framed(text)}\n")

    def clear(self) -> None:
        """Take the progress line away."""
        self.write("")

    def line(self, text: str) -> None:
        """Say something that stays."""
        self.write(f"{self._framed(text)}\n")

    def fault(self, text: str) -> None:
        """Say what went wrong."""
        self.write(f"{self._framed(text, level='error')}\n")

    def write(self, text: str) -> None:
        """Write whole lines, as a log handler does, after the progress line is gone."""
        with self._lock:
            clear, self._shows_progress = (_CLEAR if self._shows_progress else ""), False
            self._put(clear + text)

    def flush(self) -> None:
        """Nothing is held back."""

    def _framed(self, text: str, *, level: str = "info") -> str:
        return text if self._frame is None else self._frame(level, text)

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads any more: a closed terminal is no reason to stop serving
