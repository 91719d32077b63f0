from pathlib import Path

import pytest

from config.cores import cores_here, whole_cores
from config.root import Root


@pytest.mark.parametrize(
    ("allowed", "quota", "cores"), [(8, None, 8), (64, 2.0, 2), (64, 2.9, 2), (2, 16.0, 2), (4, 0.5, 1)]
)
def test_each_thread_has_a_core_within_the_quota(allowed: int, quota: float | None, cores: int) -> None:
    assert whole_cores(allowed, quota) == cores


def test_a_containers_quota_counts(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("100000 100000\n")

    assert cores_here(Root(tmp_path)) == 1
    assert cores_here() >= 1
