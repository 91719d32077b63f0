"""What an engine does: build the image, say what is written on it, and run it confined."""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).parents[2]
TAG = "tidemark"
MODELS, CACHE, TEMPORARY = "/models", "/cache", "/tmp"  # noqa: S108  # folders of the container
PORT = 8000
Json = Mapping[str, object]


class Refused(Exception):
    """What is missing, and how to get it."""


@dataclass(frozen=True, slots=True)
class Config:
    """What an image says of itself."""

    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    volumes: frozenset[str]
    health: tuple[str, ...]

    @classmethod
    def read(cls, tree: Mapping[str, object]) -> "Config":
        """From the `Config` of an image in Docker's format."""
        health = _map(tree.get("Healthcheck"))
        return cls(
            user=str(tree.get("User", "")),
            entrypoint=_texts(tree.get("Entrypoint")),
            command=_texts(tree.get("Cmd")),
            environment=dict(line.split("=", 1) for line in _texts(tree.get("Env"))),
            folder=str(tree.get("WorkingDir") or "/"),
            volumes=frozenset(_map(tree.get("Volumes"))),
            health=_texts(health.get("Test"))[1:],  # behind the word CMD
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the image is to be run: the arguments (none: the image's own), a folder of models, this machine's port."""

    arguments: tuple[str, ...]
    models: Path | None
    port: int


class Container(Protocol):
    """The image as it runs: its root read-only, without capabilities, with a `/tmp` and a cache of its own."""

    def over(self) -> bool:
        """Whether it has ended."""
        ...

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as its user."""
        ...

    def stop(self, within_seconds: float) -> int | None:
        """Send SIGTERM to its first process; the exit code, or None where it did not end in time."""
        ...


class Engine(Protocol):
    """Docker or one like it, or buildah."""

    def build(self, wheels: Path, arguments: Mapping[str, str]) -> None:
        """Build the image from the tree, pip finding nothing but `wheels`."""
        ...

    def config(self) -> Config:
        """What the built image says of itself."""
        ...

    def run(self, wanted: Wanted) -> AbstractContextManager[Container]:
        """Start the built image; at the end of the context nothing of it is left."""
        ...


def build_flags(wheels: Path, arguments: Mapping[str, str]) -> list[str]:
    """The flags of a build, which Docker, podman and buildah share."""
    given = {"PIP_NO_INDEX": "1", **arguments}
    flags = [f"--build-arg={name}={value}" for name, value in given.items()]
    return [f"--tag={TAG}", f"--build-context=wheels={wheels.resolve()}", *flags, str(ROOT)]


def call(*command: str | Path) -> None:
    """Run a command that says by itself what it does, or refuse with its name; on Ctrl-C let it end by itself."""
    with subprocess.Popen(command) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:  # which it got too
            process.wait()
            raise
    if code:
        raise Refused(f"{Path(command[0]).name} ended with {code}, see above")


def output(*command: str | Path) -> str:
    """What a command prints."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Refused(f"{Path(command[0]).name} ended with {done.returncode}, see above")
    return done.stdout.strip()


def ended(process: "subprocess.Popen[bytes]", within_seconds: float) -> int | None:
    """The exit code, or None where the process runs on."""
    try:
        return process.wait(within_seconds)
    except subprocess.TimeoutExpired:
        return None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _map(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}
