"""Under what conditions figures were taken: the machine, the tree, the versions, the day, and what else ran."""

import contextlib
import os
import platform
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.cores import QUIET_SHARE, wait_for_quiet

ROOT = Path(__file__).parents[1]
TOLD_FLAGS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx_vnni",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "sve",
)
PACKAGES = ("torch", "transformers")
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Conditions:
    """What a figure needs beside it."""

    cpu: str
    isa: tuple[str, ...]
    num_cores: int
    memory_bytes: int
    others_before: float | None
    commit: str
    versions: dict[str, str]
    date: str

    def values(self) -> dict[str, object]:
        """Everything, for JSON."""
        return asdict(self)

    def sentence(self) -> str:
        """Everything, for people."""
        gib = round(self.memory_bytes / 2**30)
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return (
            f"{self.date}, commit {self.commit}; {self.cpu} ({' '.join(self.isa) or 'flags unknown'}), "
            f"{self.num_cores} cores, {gib} GiB; {versions}; {quiet(self.others_before, 'before')}."
        )


def quiet(others: float | None, when: str) -> str:
    """Whether the machine had nothing else to do."""
    if others is None:
        return f"whether the machine was quiet {when} is unknown"
    word = "quiet" if others <= QUIET_SHARE else "not quiet"
    return f"the machine was {word} {when} (others took {others:.0%} of the cores)"


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def current(max_wait_seconds: float) -> Conditions:
    """The conditions before anything is measured: as soon as the machine is quiet, or after so long."""
    cpuinfo = read("/proc/cpuinfo")
    return Conditions(
        cpu=cpu_of(cpuinfo),
        isa=isa_of(cpuinfo),
        num_cores=num_cores(),
        memory_bytes=memory_of(read("/proc/meminfo")),
        others_before=wait_for_quiet(max_wait_seconds),
        commit=commit_of(ROOT),
        versions={"Python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        date=datetime.now(UTC).date().isoformat(),
    )


def read(path: str) -> str:
    """A file's text; none where there is no such file."""
    with contextlib.suppress(OSError):
        return Path(path).read_text()
    return ""


def cpu_of(cpuinfo: str) -> str:
    """The processor's name."""
    found = re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine() or UNKNOWN


def flags_of(cpuinfo: str) -> set[str]:
    """All that the processor says it can do."""
    found = re.search(r"^(?:flags|Features)\s*: (.+)$", cpuinfo, re.MULTILINE)
    return set(found[1].split()) if found else set()


def isa_of(cpuinfo: str) -> tuple[str, ...]:
    """Those of the instruction sets that matter here which the processor has."""
    flags = flags_of(cpuinfo)
    return tuple(flag for flag in TOLD_FLAGS if flag in flags)


def memory_of(meminfo: str) -> int:
    """All memory, in bytes; 0 where it is not known."""
    found = re.search(r"^MemTotal:\s*(\d+) kB$", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def commit_of(tree: Path) -> str:
    """The commit that is checked out, with `+changes` where the tree differs from it."""
    commit = _git(tree, "rev-parse", "--short=10", "HEAD")
    changes = _git(tree, "status", "--porcelain")
    return (commit or UNKNOWN) + ("+changes" if changes else "")


def _git(tree: Path, *arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    return subprocess.run([git, *arguments], cwd=tree, capture_output=True, text=True, check=False).stdout.strip()
