"""Console: what a person at the terminal reads, lines that stay and one progress line that is rewritten."""

import threading
from typing import TextIO

_CLEAR = "\r\x1b[K"


class Console:
    """Writes to `stream`, from any thread. Where it is no terminal, progress is plain lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._lock = threading.Lock()
        self._shows_progress = False

    def progress(self, text: str) -> None:
        """Say what goes on, in place of what was said before."""
        with self._lock:
            if self._is_terminal:
                self._put(f"{_CLEAR}{text}")
                self._shows_progress = True
            else:
                self._put(f"{text}\n")

    def clear(self) -> None:
        """Take the progress line away."""
        self.write("")

    def line(self, text: str) -> None:
        """Say something that stays."""
        self.write(f"{text}\n")

    def write(self, text: str) -> None:
        """Write whole lines, as a log handler does, after the progress line is gone."""
        with self._lock:
            clear, self._shows_progress = (_CLEAR if self._shows_progress else ""), False
            self._put(clear + text)

    def flush(self) -> None:
        """Nothing is held back."""

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads any more: a closed terminal is no reason to stop serving
