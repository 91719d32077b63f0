"""How many cores this process has to itself, in a container too."""

import os

from config.groups import read_groups
from config.root import Root


def whole_cores(allowed: int, quota: float | None) -> int:
    """The threads that have a core each: processors that may be used, but no more than a quota's worth of time."""
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def cores_here(root: Root | None = None) -> int:
    """Those of this process: by its affinity, and by the quotas of its control groups."""
    return whole_cores(len(os.sched_getaffinity(0)), read_groups(root or Root()).cores)
