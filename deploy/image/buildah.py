"""Buildah, where no engine runs: it builds by chroot alone, and bubblewrap runs what it has built.

The base is made by debootstrap, once: Debian with its own Python stands in for the public image of Python.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.image.engine import (
    CACHE,
    MODELS,
    TAG,
    TEMPORARY,
    Config,
    Refused,
    Wanted,
    build_flags,
    call,
    ended,
    output,
)

PROGRAMS = {"buildah": "buildah", "debootstrap": "debootstrap", "bwrap": "bubblewrap", "nsenter": "util-linux"}
NO_ENGINE = "no container engine answers that can build this (Docker takes its buildx)"
BASE = f"localhost/{TAG}-base"
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man", "var/log")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ALONE = ("setpriv", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")


def missing() -> str | None:
    """What has to be installed first, or None."""
    packages = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if packages:
        return f"{NO_ENGINE}, and buildah takes more. On Debian: apt-get install {' '.join(packages)}"
    return None if os.geteuid() == 0 else f"{NO_ENGINE}, and buildah takes root"


@dataclass(frozen=True, slots=True)
class Buildah:
    """Buildah with its images in a folder of ours."""

    folder: Path

    @property
    def _program(self) -> tuple[str, ...]:
        """With the storage driver that buildah finds to work here: overlay, where the file system bears it."""
        return ("buildah", f"--root={self.folder / 'storage'}", f"--runroot={self.folder / 'run'}")

    def build(self, wheels: Path, arguments: Mapping[str, str]) -> None:
        """Build over the base, which is made first where it is missing; in Docker's format, for the health check."""
        if "BASE" not in arguments and not output(*self._program, "images", "--quiet", "--filter", f"reference={BASE}"):
            self._make_base()
        self._build("--layers", *build_flags(wheels, {"BASE": BASE, **arguments}))

    def config(self) -> Config:
        """As `inspect` tells it."""
        return Config.read(json.loads(output(*self._program, "inspect", "--type=image", TAG))["Docker"]["config"])

    @contextmanager
    def run(self, wanted: Wanted) -> Iterator["Sandbox"]:
        """Start it over the files of a container of buildah's."""
        config = self.config()
        container = output(*self._program, "from", TAG)
        try:
            root = Path(output(*self._program, "mount", container))
            with TemporaryDirectory() as cache, _started(root, Path(cache), config, wanted) as sandbox:
                yield sandbox
        finally:
            output(*self._program, "rm", container)

    def _build(self, *arguments: str) -> None:
        call(*self._program, "build", "--isolation=chroot", "--format=docker", *arguments)

    def _make_base(self) -> None:
        with TemporaryDirectory(dir=self.folder) as name:
            root, context = Path(name) / "root", Path(name) / "context"
            alone = ("unshare", "--mount")  # what it mounts is gone with it, however it ends
            call(*alone, "debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, root)
            for left_out in LEFT_OUT:
                _empty(root / left_out)
            context.mkdir()
            call("tar", f"--directory={root}", "--create", f"--file={context / 'base.tar'}", ".")
            (context / "Dockerfile").write_text(f"FROM scratch\nADD base.tar /\nENV PATH={PATH}\n")
            self._build(f"--tag={BASE}", str(context))


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The image as bubblewrap runs it: `first` is, seen from here, the server that is process 1 in there."""

    process: "subprocess.Popen[bytes]"
    first: int
    user: str
    environment: Mapping[str, str]

    def over(self) -> bool:
        """As the process that waits for it."""
        return self.process.poll() is not None

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """In its namespaces."""
        nsenter = shutil.which("nsenter") or "nsenter"  # of this machine: the environment is the image's
        entered = [nsenter, f"--target={self.first}", "--mount", "--pid", *_as_user(self.user), *command]
        return subprocess.run(entered, check=False, capture_output=True, text=True, env=dict(self.environment))

    def stop(self, within_seconds: float) -> int | None:
        """By the signal itself; bubblewrap ends with the code of what it ran."""
        os.kill(self.first, 15)
        return ended(self.process, within_seconds)


@contextmanager
def _started(root: Path, cache: Path, config: Config, wanted: Wanted) -> Iterator[Sandbox]:
    user, _, group = config.user.partition(":")
    os.chown(cache, int(user), int(group))
    told, tells = os.pipe()
    command = sandboxed(root, cache, config, wanted, tells)
    process = subprocess.Popen(command, pass_fds=[tells])
    try:
        os.close(tells)
        with os.fdopen(told) as lines:
            said = lines.read()
        if not said:
            raise Refused("bubblewrap could not start it, see above")
        yield Sandbox(process, json.loads(said)["child-pid"], config.user, _environment(config, wanted))
    finally:
        process.kill()  # and all that runs in it
        process.wait()


def sandboxed(root: Path, cache: Path, config: Config, wanted: Wanted, tells: int) -> list[str]:
    """The command that runs the image as an engine would, on this machine's network; `tells` gets its process."""
    mounts = [] if wanted.models is None else ["--ro-bind", str(wanted.models.resolve()), MODELS]
    return [
        *("bwrap", "--unshare-pid", "--as-pid-1", "--die-with-parent", "--info-fd", str(tells), "--clearenv"),
        *("--ro-bind", str(root), "/", "--dev", "/dev", "--proc", "/proc"),
        *("--perms", "1777", "--tmpfs", TEMPORARY, "--bind", str(cache), CACHE, *mounts, "--chdir", config.folder),
        *(part for name, value in _environment(config, wanted).items() for part in ("--setenv", name, value)),
        *(*_as_user(config.user), *config.entrypoint, *(wanted.arguments or config.command)),
    ]


def _environment(config: Config, wanted: Wanted) -> Mapping[str, str]:
    return {**config.environment, "TIDEMARK_SERVER__PORT": str(wanted.port)}


def _as_user(named: str) -> Sequence[str]:
    user, _, group = named.partition(":")
    return (*ALONE, f"--reuid={user}", f"--regid={group}", "--")


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
