"""Events: what a stream says, as values. The stream numbers and encodes them, in one place."""

from typing import NamedTuple

import orjson


class Event(NamedTuple):  # cheaper to make than a dataclass, and one is made for every token
    """One event: its data, and its name in an API that names its events."""

    data: bytes
    name: str | None = None


DONE = Event(b"[DONE]")


def event(body: object, name: str | None = None) -> Event:
    """An event whose data is JSON."""
    return Event(orjson.dumps(body), name)


def encode(told: Event, id: str) -> bytes:
    """The event on the wire; a client that comes back says the last `id` that it has seen."""
    name = f"event: {told.name}\n" if told.name else ""
    return b"id: %b\n%bdata: %b\n\n" % (id.encode(), name.encode(), told.data)
