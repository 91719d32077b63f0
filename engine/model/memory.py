"""How much memory is free, where the cache will lie, and what of ours can be free too."""

import ctypes
import re

from config.groups import read_groups
from config.root import Root


def free_bytes(root: Root | None = None) -> int:
    """Bytes that could be allocated now, within the limits of the control groups if there are any."""
    root = root or Root()
    available, limit = _available(root), read_groups(root).memory
    return available if limit is None else limit.free_of(available)


def give_back() -> None:
    """Hand what the allocator keeps for later back to the system; for after a load, which leaves tens of MiB.

    Does nothing where the C library isn't GNU's.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _available(root: Root) -> int:
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", root.text("proc/meminfo") or "", re.MULTILINE)
    assert found is not None, "Linux has said MemAvailable since 3.14"
    return int(found[1]) * 1024
