from pathlib import Path

import pytest

from config.groups import Groups, MemoryLimit, read_groups
from tests.server.doctor.machines import write

SECOND = {"proc/self/cgroup": "0::/system.slice/tidemark.service\n", "sys/fs/cgroup/cgroup.controllers": "cpu memory\n"}
SLICE = "sys/fs/cgroup/system.slice"
SERVICE = f"{SLICE}/tidemark.service"
FIRST = {"proc/self/cgroup": "4:memory:/a\n1:cpu,cpuacct:/a\n0::/\nnonsense\n"}


def test_the_tightest_limit_of_all_groups_above_counts(tmp_path: Path) -> None:
    files = {
        f"{SERVICE}/cpu.max": "max 100000\n",
        f"{SLICE}/cpu.max": "150000 100000\n",
        f"{SERVICE}/memory.max": "4000\n",
        f"{SERVICE}/memory.current": "1000\n",
        f"{SLICE}/memory.max": "9000\n",
        "sys/fs/cgroup/cpu.stat": "usage_usec 5\n",
        f"{SERVICE}/cpu.stat": "nr_periods 10\nnr_throttled 4\n",
    }

    assert read_groups(write(tmp_path, SECOND | files)) == Groups(1.5, MemoryLimit(4000, 1000), 10, 4)


def test_a_container_sees_its_own_group_at_the_mount(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/cpu.max": "200000 100000\n", "sys/fs/cgroup/memory.max": "500\n"}

    assert read_groups(write(tmp_path, SECOND | files)) == Groups(2.0, MemoryLimit(500, None))


def test_the_first_version_is_read_too(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "700\n",
        "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "70\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    }

    assert read_groups(write(tmp_path, FIRST | files)) == Groups(0.5, MemoryLimit(700, 70))


@pytest.mark.parametrize("files", [{}, FIRST, SECOND, SECOND | {f"{SERVICE}/cpu.max": "1 0\n"}])
def test_where_nothing_is_said_there_is_no_limit(tmp_path: Path, files: dict[str, str]) -> None:
    assert read_groups(write(tmp_path, files)) == Groups()
