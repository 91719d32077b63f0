"""Servers: what the scenarios run against."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.http.processes import ServerProcess

NAME = "tidemark"  # the model's, whatever file it comes from
FLAGS = ("--port", "0", "--served-model-name", NAME, "--model-alias", "gpt-4o")  # a client may insist on a known name


@contextmanager
def servers(model: Path) -> Iterator[Sequence[str]]:
    """The addresses of a server with `model` and of one whose model follows rules, both ready."""
    with (
        ServerProcess("server", "serve", str(model), *FLAGS) as real,
        ServerProcess("tests.sdks.scripted", *FLAGS) as ruled,
        real.ready_client() as first,
        ruled.ready_client() as second,
    ):
        yield [str(client.base_url).rstrip("/") for client in (first, second)]
