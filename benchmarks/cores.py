"""Who has the processor's cores: the benchmark with what it started, or others."""

import contextlib
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

STAT = Path("/proc/stat")
QUIET_SHARE = 0.05  # of all cores that others may take before figures are called those of a busy machine
WATCHED_SECONDS = 3.0  # long enough to see work that comes in bursts
IDLE_FIELDS = (3, 4)  # idle and waiting for a disk, among the fields of the line `cpu`
NUM_FIELDS = 8  # those behind are counted in the others already


@dataclass(frozen=True)
class Cores:
    """Seconds of all cores since the machine started: all, those that anybody used, those that we used."""

    passed: float
    used: float
    ours: float

    @classmethod
    def now(cls) -> Self | None:
        """The counts now; None where the system does not tell them."""
        with contextlib.suppress(OSError, ValueError):
            return cls(*seconds_of(STAT.read_text()), _our_seconds())
        return None

    def taken_by_others(self, later: Self) -> float:
        """The share of all cores that others took from here to `later`, from 0 to 1."""
        passed = later.passed - self.passed
        others = (later.used - self.used) - (later.ours - self.ours)
        return min(max(others / passed, 0.0), 1.0) if passed else 0.0


def seconds_of(stat: str) -> tuple[float, float]:
    """All seconds of all cores, and those that were used, by the first line of /proc/stat."""
    name, *fields = stat.partition("\n")[0].split()
    if name != "cpu":
        raise ValueError(f"/proc/stat starts with {name}, not with cpu")
    ticks = [int(field) for field in fields[:NUM_FIELDS]]
    a_second = os.sysconf("SC_CLK_TCK")
    return sum(ticks) / a_second, sum(count for i, count in enumerate(ticks) if i not in IDLE_FIELDS) / a_second


def _our_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def others_share(seconds: float = WATCHED_SECONDS) -> float | None:
    """The share of all cores that others take in the next seconds; None where it can't be known."""
    before = Cores.now()
    time.sleep(seconds)
    after = Cores.now()
    return before.taken_by_others(after) if before and after else None


def wait_for_quiet(
    max_seconds: float, *, watch: Callable[[], float | None] = others_share, clock: Callable[[], float] = time.monotonic
) -> float | None:
    """Wait until others leave the cores alone, or for so long; the share that they took at the end."""
    began = clock()
    share = watch()
    while share is not None and share > QUIET_SHARE and clock() - began < max_seconds:
        print(f"others take {share:.0%} of the cores: waiting for a quiet machine", file=sys.stderr, flush=True)
        share = watch()
    return share
