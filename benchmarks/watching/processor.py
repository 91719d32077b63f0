"""Processor time of a running server: of its event loop, which is its main thread, and of all its threads."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PROC = Path("/proc")
TIME_FIELDS = slice(11, 13)  # in user mode and in the system's, counted from behind the name's closing parenthesis


@dataclass(frozen=True)
class Processor:
    """Seconds since it was started. They come in hundredths."""

    loop: float
    threads: float

    @classmethod
    def of(cls, process: int, proc: Path = PROC) -> Self | None:
        """What a process has used until now; None where the system does not tell."""
        folder = proc / str(process)
        with contextlib.suppress(OSError):
            return cls(_seconds(folder / "task" / str(process) / "stat"), _seconds(folder / "stat"))
        return None

    def __sub__(self, earlier: Self) -> "Processor":
        """What was used since."""
        return Processor(self.loop - earlier.loop, self.threads - earlier.threads)


def _seconds(stat: Path) -> float:
    times = stat.read_text().rpartition(")")[2].split()[TIME_FIELDS]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
