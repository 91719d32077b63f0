"""Terminals: what a person types to a command and sees of it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.http.processes import PATIENCE_SECONDS, ROOT


class Terminal:
    """A person's end of a terminal."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def echoes(self) -> bool:
        """Whether what is typed is shown, and comes line by line."""
        modes = termios.tcgetattr(self._end)[3]
        return bool(modes & termios.ECHO and modes & termios.ICANON)

    def until(self, mark: str) -> str:
        """What is shown up to a mark."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while mark not in self._seen:
            assert select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))[0], self._seen
            self._seen += os.read(self._end, 4096).decode("utf-8", "replace")
        shown, _, self._seen = self._seen.partition(mark)
        return shown + mark


@contextmanager
def at_terminal(command: Sequence[str]) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    """The command, run at a terminal of its own."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, start_new_session=True,
        preexec_fn=lambda: _take_over(theirs),  # noqa: PLW1509  # it makes one call, and needs no lock
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            yield Terminal(ours), process
        finally:
            process.kill()
            os.close(ours)


def _take_over(terminal: int) -> None:
    """Let Ctrl-C at this terminal reach the process."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
