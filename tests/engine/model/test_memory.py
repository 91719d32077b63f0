"""Free memory as the system and the container say, and memory that is freed."""

import subprocess
import sys
from pathlib import Path

import pytest

from config.root import Root
from engine.model.memory import free_bytes


@pytest.fixture
def root(tmp_path: Path) -> Root:
    for folder in ("proc/self", "sys/fs/cgroup"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8000 kB\nMemFree:  1000 kB\nMemAvailable:  4000 kB\n")
    return Root(tmp_path)


def confine(root: Root, *, limit: str, used: int) -> None:
    (root.path / "proc/self/cgroup").write_text("0::/\n")
    group = root.path / "sys/fs/cgroup"
    (group / "cgroup.controllers").write_text("cpu memory\n")
    (group / "memory.max").write_text(f"{limit}\n")
    (group / "memory.current").write_text(f"{used}\n")


def test_without_a_container_the_systems_available_memory_is_free(root: Root) -> None:
    assert free_bytes(root) == 4000 * 1024


@pytest.mark.parametrize(
    ("limit", "used", "free"),
    [("3000000", 1000000, 2000000), ("max", 1000000, 4000 * 1024), ("1000", 1000000, 0), ("9000000", 0, 4000 * 1024)],
)
def test_a_containers_limit_counts_less_what_it_uses(root: Root, limit: str, used: int, free: int) -> None:
    confine(root, limit=limit, used=used)

    assert free_bytes(root) == free


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
