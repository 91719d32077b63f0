"""Free memory as the system and the container say, and memory that is freed."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.model.memory import free_bytes


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:       8000 kB\nMemFree:        1000 kB\nMemAvailable:   4000 kB\n")
    return file


def container(tmp_path: Path, *, limit: str, used: int) -> Path:
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    return tmp_path


def test_without_a_container_the_systems_available_memory_is_free(meminfo: Path, tmp_path: Path) -> None:
    assert free_bytes(meminfo=meminfo, cgroup=tmp_path / "none") == 4000 * 1024


def test_a_containers_limit_counts_less_what_it_uses(meminfo: Path, tmp_path: Path) -> None:
    cgroup = container(tmp_path, limit="3000000", used=1000000)

    assert free_bytes(meminfo=meminfo, cgroup=cgroup) == 2000000


def test_a_container_without_a_limit_has_the_systems_memory(meminfo: Path, tmp_path: Path) -> None:
    cgroup = container(tmp_path, limit="max", used=1000000)

    assert free_bytes(meminfo=meminfo, cgroup=cgroup) == 4000 * 1024


def test_a_container_over_its_limit_has_nothing_free(meminfo: Path, tmp_path: Path) -> None:
    cgroup = container(tmp_path, limit="1000", used=1000000)

    assert free_bytes(meminfo=meminfo, cgroup=cgroup) == 0


def test_this_machine_has_free_memory() -> None:
    assert free_bytes() > 0


def test_what_was_freed_is_given_back() -> None:
    program = """
from pathlib import Path
from engine.model.memory import give_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

texts = [bytes(60_000) + b"x" for _ in range(1_000)]  # too small to be mapped each on its own
kept = texts.pop()  # at the end of the heap, which so stays as long as it is
texts.clear()
before = resident()
give_back()
print(before - resident())
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert int(done.stdout) > 40 << 20
