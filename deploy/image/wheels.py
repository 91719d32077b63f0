"""The wheels that the image is made of, as pip's own settings on this machine find them."""

import hashlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.image.dependencies import dependencies
from deploy.image.engine import ROOT, Refused

PROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "constraints.txt"
Download = Callable[[Sequence[str], Path], None]


def download(arguments: Sequence[str], folder: Path) -> None:
    """Let pip put the wheels of all that is required into `folder`."""
    flags = ["-qq", "--only-binary=:all:", f"--dest={folder}"]
    done = subprocess.run([sys.executable, "-m", "pip", "download", *flags, *arguments], check=False)
    if done.returncode:
        raise Refused("pip could not download what the image needs, see above")


def required(extras: Sequence[str] = ()) -> list[str]:
    """What Tidemark depends on, with extras, and what builds it."""
    builds: list[str] = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["build-system"]["requires"]
    return [*dependencies(PROJECT, extras), *builds]


def gather(
    folder: Path, alone: Sequence[str] = (), extras: Sequence[str] = (), *, download: Download = download
) -> Path:
    """A folder below `folder` that holds the wheels, fetched anew only where the pins have changed.

    Those `alone` come without what they depend on.
    """
    requirements = required(extras)
    key = hashlib.sha256(
        "\n".join([*requirements, *alone, CONSTRAINTS.read_text(encoding="utf-8")]).encode()
    ).hexdigest()
    whole = folder / f"wheels-{key[:12]}"
    if whole.exists():
        return whole
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Gathering wheels into {whole}: hundreds of megabytes, where pip must fetch them all", flush=True)
    with TemporaryDirectory(dir=folder, prefix=".fetching-") as name:
        download([f"--constraint={CONSTRAINTS}", *requirements], Path(name) / "wheels")
        if alone:
            download(["--no-deps", *alone], Path(name) / "wheels")
        for stale in folder.glob("wheels-*"):
            shutil.rmtree(stale)
        (Path(name) / "wheels").rename(whole)
    return whole
