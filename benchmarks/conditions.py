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
QUIET_LOAD = 0.5  # processes that wanted to run during the minute before, at most
PACKAGES = ("torch", "transformers")
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Conditions:
    """What a figure needs beside it."""

    cpu: str
    isa: tuple[str, ...]
    num_cores: int
    memory_bytes: int
    load_before: float
    commit: str
    versions: dict[str, str]
    date: str

    @property
    def quiet(self) -> bool:
        """Whether the machine had nothing else to do."""
        return self.load_before <= QUIET_LOAD

    def values(self) -> dict[str, object]:
        """Everything, for JSON."""
        return {**asdict(self), "quiet": self.quiet}

    def sentence(self) -> str:
        """Everything, for people."""
        gib = round(self.memory_bytes / 2**30)
        quiet = "quiet" if self.quiet else "not quiet"
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return (
            f"{self.date}, commit {self.commit}; {self.cpu} ({' '.join(self.isa) or 'flags unknown'}), "
            f"{self.num_cores} cores, {gib} GiB; {versions}; "
            f"the machine was {quiet} before (load {self.load_before:.2f})."
        )


def current() -> Conditions:
    """The conditions now, before anything is measured."""
    cpuinfo = _read("/proc/cpuinfo")
    return Conditions(
        cpu=cpu_of(cpuinfo),
        isa=isa_of(cpuinfo),
        num_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=memory_of(_read("/proc/meminfo")),
        load_before=os.getloadavg()[0],
        commit=commit_of(ROOT),
        versions={"Python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        date=datetime.now(UTC).date().isoformat(),
    )


def _read(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text()
    return ""


def cpu_of(cpuinfo: str) -> str:
    """The processor's name."""
    found = re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine() or UNKNOWN


def isa_of(cpuinfo: str) -> tuple[str, ...]:
    """Those of the instruction sets that matter here which the processor has."""
    found = re.search(r"^(?:flags|Features)\s*: (.+)$", cpuinfo, re.MULTILINE)
    flags = set(found[1].split()) if found else set()
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
