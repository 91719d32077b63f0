"""Server-sent events as a client reads them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Received:
    """One event. `id` and `name` are None where the server gives none."""

    data: str
    id: str | None = None
    name: str | None = None


def received(lines: Iterable[bytes]) -> Iterator[Received]:
    """The events in a stream's lines. One that a break cuts off is none."""
    data: list[str] = []
    id: str | None = None
    event: str | None = None
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not line.endswith(b"\n"):
            return
        if not text:
            if data:
                yield Received("\n".join(data), id, event)
            data, id, event = [], None, None
            continue
        name, _, value = text.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif name == "id":
            id = value.removeprefix(" ")
        elif name == "event":
            event = value.removeprefix(" ")
