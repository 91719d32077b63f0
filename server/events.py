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


def encode(told: Event, id: str | None) -> bytes:
    """The event on the wire; a client that comes back says the last `id` that it has seen, if there are any."""
    head = f"id: {id}\n" if id is not None else ""
    if told.name:
        head += f"event: {told.name}\n"
    return b"%bdata: %b\n\n" % (head.encode(), told.data)
