"""How much memory is free, where the cache will lie, and what of ours can be free too."""

import ctypes
import re
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def free_bytes(*, meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int:
    """Bytes that could be allocated now, within the container's limit if it has one."""
    available = _available(meminfo)
    limit, used = _number(cgroup / "memory.max"), _number(cgroup / "memory.current")
    return available if limit is None else max(0, min(available, limit - (used or 0)))


def give_back() -> None:
    """Hand what the allocator keeps for later back to the system; for after a load, which leaves tens of MiB.

    Does nothing where the C library isn't GNU's.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _available(meminfo: Path) -> int:
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    assert found is not None, "Linux has said MemAvailable since 3.14"
    return int(found[1]) * 1024


def _number(file: Path) -> int | None:
    """The number in a control group's file; None where there is no file or no limit."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
