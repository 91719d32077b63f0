"""`transformers serve --continuous-batching` in float32 as a peer. It serves a copy of the model as safetensors."""

import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import Contender, over_http
from benchmarks.peers.export import exported
from benchmarks.peers.place import PeerMissing
from benchmarks.process import HOST

NAME = "transformers serve"
HOW = ("--continuous-batching", "--device", "cpu", "--dtype", "float32", "--log-level", "error")


def installed() -> bool:
    """It comes with what this project needs for its tests."""
    return _program().exists()


def install() -> None:
    """Say how it is installed.

    Raises:
        PeerMissing: always; it belongs to this environment, which is not changed from here.
    """
    raise PeerMissing(f"{NAME} is not in this environment: install this project with its extra `dev`")


def _program() -> Path:
    return Path(sys.executable).with_name("transformers")


def contender(model: str) -> Contender:
    """The server. It lists, and answers to, the path of the model's copy, which never ends by itself."""
    folder = str(exported(Path(model)))

    def command(port: int) -> list[str]:
        return [str(_program()), "serve", folder, *HOW, "--host", HOST, "--port", str(port)]

    return Contender(NAME, f"{version('transformers')}, `{' '.join(HOW)}`", over_http(command, "/health", {}))
