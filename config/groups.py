"""Control groups: what of the machine a container or a service may take, in either version of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from config.root import Root

MOUNT = "sys/fs/cgroup"
NO_LIMIT = 1 << 60  # the first version says an absurd number where there is none


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The most bytes that a group may hold, and how many it holds."""

    max_bytes: int
    used_bytes: int | None

    def free_of(self, available: int) -> int:
        """The bytes that may still be taken, of those that the machine has."""
        return max(0, min(available, self.max_bytes - (self.used_bytes or 0)))


@dataclass(frozen=True, slots=True)
class Groups:
    """The tightest limits of the process's groups and those above; None is no limit that is known."""

    cores: float | None = None
    memory: MemoryLimit | None = None
    periods: int = 0  # of the processor's time, in which the group wanted to run
    throttled: int = 0  # of these, in which it had to wait


def read_groups(root: Root) -> Groups:
    """The groups that this process is in."""
    paths = _paths(root)
    if "" in paths and root.has(f"{MOUNT}/cgroup.controllers"):
        places = list(root.upwards(MOUNT, paths[""]))
        cores, memory = (
            (_second_cores(root, place) for place in places),
            (_second_memory(root, place) for place in places),
        )
    else:
        places = list(root.upwards(f"{MOUNT}/cpu", paths.get("cpu", "")))
        of_memory = root.upwards(f"{MOUNT}/memory", paths.get("memory", ""))
        cores, memory = (
            (_first_cores(root, place) for place in places),
            (_first_memory(root, each) for each in of_memory),
        )
    limits = [limit for limit in memory if limit is not None]
    periods, throttled = _throttled(root, places)
    return Groups(
        cores=min((each for each in cores if each is not None), default=None),
        memory=min(limits, key=lambda limit: limit.max_bytes, default=None),
        periods=periods,
        throttled=throttled,
    )


def _paths(root: Root) -> dict[str, str]:
    """The group's path by controller; that of the second version has no controller."""
    found: dict[str, str] = {}
    for line in (root.text("proc/self/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:  # noqa: PLR2004  # number, controllers, path
            found |= dict.fromkeys(parts[1].split(","), parts[2])
    return found


def _second_cores(root: Root, place: str) -> float | None:
    words = (root.text(f"{place}/cpu.max") or "").split()
    return _share(*words) if len(words) == 2 else None  # noqa: PLR2004  # quota and period


def _first_cores(root: Root, place: str) -> float | None:
    quota, period = (root.text(f"{place}/cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    return _share(quota, period)


def _share(quota: str, period: str) -> float | None:
    """Cores' worth of time; `max` and -1 are no limit."""
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() and int(period) else None


def _second_memory(root: Root, place: str) -> MemoryLimit | None:
    return _limit(root.number(f"{place}/memory.max"), root.number(f"{place}/memory.current"))


def _first_memory(root: Root, place: str) -> MemoryLimit | None:
    return _limit(root.number(f"{place}/memory.limit_in_bytes"), root.number(f"{place}/memory.usage_in_bytes"))


def _limit(max_bytes: int | None, used: int | None) -> MemoryLimit | None:
    return None if max_bytes is None or max_bytes >= NO_LIMIT else MemoryLimit(max_bytes, used)


def _throttled(root: Root, places: list[str]) -> tuple[int, int]:
    """Periods and those throttled, of the group that was throttled most."""
    return max(_counts(root, places), key=lambda counts: counts[1], default=(0, 0))


def _counts(root: Root, places: list[str]) -> Iterator[tuple[int, int]]:
    for place in places:
        stat = root.fields(f"{place}/cpu.stat", None)
        periods, throttled = stat.get("nr_periods", ""), stat.get("nr_throttled", "")
        if periods.isdecimal() and throttled.isdecimal():
            yield int(periods), int(throttled)
