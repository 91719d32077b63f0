"""Processor time of a running server, as its metrics tell it: of its event loop's thread, and of all its threads."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

LOOP = "tidemark_event_loop_cpu_seconds_total{"
THREADS = "process_cpu_seconds_total "


@dataclass(frozen=True)
class Processor:
    """Seconds. Those of all threads come in hundredths, and are 0 where the system does not tell them."""

    loop: float
    threads: float

    @classmethod
    def of(cls, exposition: str) -> Self:
        """What was used until that was scraped."""
        lines = exposition.splitlines()
        return cls(_sum(lines, LOOP), _sum(lines, THREADS))

    def __sub__(self, earlier: Self) -> "Processor":
        """What was used since."""
        return Processor(self.loop - earlier.loop, self.threads - earlier.threads)


def _sum(lines: Iterable[str], start: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start))
