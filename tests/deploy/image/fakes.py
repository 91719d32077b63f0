import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deploy.image.engine import Config, Container, Wanted

CONFIG = Config(
    user="10001:10001",
    entrypoint=("tidemark",),
    command=("serve",),
    environment={"PATH": "/opt/tidemark/bin:/usr/bin", "TIDEMARK_SERVER__HOST": "0.0.0.0"},
    folder="/cache",
    volumes=frozenset({"/models", "/cache"}),
    health=("python", "-c", "health"),
)
Answer = tuple[int, str, str]
CONFINED: Mapping[str, Answer] = {
    "cat /proc/1/status": (0, "Uid:\t10001\t10001\nCapEff:\t0000000000000000\n", ""),
    "cat /proc/1/cmdline": (0, "python\0/opt/tidemark/bin/tidemark\0serve", ""),
    "touch /tmp/written": (0, "", ""),
    "touch /cache/written": (0, "", ""),
    "touch": (1, "", "Read-only file system"),
    "tidemark top --once": (0, "m, open\nrunning 0\n", ""),
}


class FakeContainer:
    """Answers commands by the longest text that they begin with; of others that they did nothing, with 0."""

    def __init__(self, answers: Mapping[str, Answer] = CONFINED, *, code: int | None = 0) -> None:
        self.answers = answers
        self.code = code
        self.stopped = False

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        text = " ".join(command)
        fitting = [begin for begin in self.answers if text.startswith(begin)]
        code, out, error = self.answers[max(fitting, key=len)] if fitting else (0, "", "")
        return subprocess.CompletedProcess(command, code, out, error)

    def over(self) -> bool:
        return self.stopped

    def stop(self, within_seconds: float) -> int | None:
        self.stopped = True
        return self.code


class FakeEngine:
    def __init__(self, container: Container) -> None:
        self.container = container
        self.built: list[tuple[Path, Mapping[str, str]]] = []

    def build(self, wheels: Path, arguments: Mapping[str, str]) -> None:
        self.built.append((wheels, arguments))

    def config(self) -> Config:
        return CONFIG

    @contextmanager
    def run(self, wanted: Wanted) -> Iterator[Container]:
        yield self.container


def program(folder: Path, name: str, *, says: str = "", code: int = 0) -> Path:
    """A program that writes its arguments beside itself, and says something."""
    file = folder / name
    file.write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.asked\ncat <<"END"\n{says}\nEND\nexit {code}\n')
    file.chmod(0o755)
    return file
