"""Docker, or podman, which takes the same commands."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.image.engine import MODELS, PORT, TAG, TEMPORARY, Config, Wanted, build_flags, call, ended, output


@dataclass(frozen=True, slots=True)
class Docker:
    """The engine that a program of its kind speaks to."""

    program: str

    def build(self, wheels: Path, arguments: Mapping[str, str]) -> None:
        """Build; podman would leave out the health check in its own format."""
        own = ["--format=docker"] if self.program == "podman" else []
        call(self.program, "build", *own, *build_flags(wheels, arguments))

    def config(self) -> Config:
        """As `image inspect` tells it; podman tells the health check beside the rest."""
        (image,) = json.loads(output(self.program, "image", "inspect", TAG))
        return Config.read({"Healthcheck": image.get("Healthcheck"), **image["Config"]})

    @contextmanager
    def run(self, wanted: Wanted) -> Iterator["DockerContainer"]:
        """Start it in the foreground: the program's exit code is the container's."""
        name = f"{TAG}-try-{os.getpid()}"
        process = subprocess.Popen([self.program, *_run(name, wanted)])
        try:
            yield DockerContainer(self.program, name, process)
        finally:
            subprocess.run([self.program, "rm", "--force", name], check=False, capture_output=True)
            process.wait()


@dataclass(frozen=True, slots=True)
class DockerContainer:
    """A container by its name, and the program that waits for it."""

    program: str
    name: str
    process: "subprocess.Popen[bytes]"

    def over(self) -> bool:
        """As the process that waits for it."""
        return self.process.poll() is not None

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """By `exec`."""
        return subprocess.run([self.program, "exec", self.name, *command], check=False, capture_output=True, text=True)

    def stop(self, within_seconds: float) -> int | None:
        """By `kill`, which sends the signal and nothing after it."""
        call(self.program, "kill", "--signal=TERM", self.name)
        return ended(self.process, within_seconds)


def _run(name: str, wanted: Wanted) -> list[str]:
    mounts = [] if wanted.models is None else [f"--volume={wanted.models.resolve()}:{MODELS}:ro"]
    confined = ["--read-only", f"--tmpfs={TEMPORARY}", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    published = f"--publish=127.0.0.1:{wanted.port}:{PORT}"
    return ["run", "--rm", f"--name={name}", *confined, published, *mounts, TAG, *wanted.arguments]
