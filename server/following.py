"""Following: an answer that runs without a client, as any number of clients hear it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import CancelScope

from server.telling import Forgotten, Telling, Write


class Following:
    """One client of an answer that runs on its own: it changes nothing by coming or leaving."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling

    @asynccontextmanager
    async def listening(self, scope: CancelScope) -> AsyncIterator[None]:
        """Be a client; there can be others."""
        del scope
        yield

    async def tell(self, write: Write, *, start: int) -> None:
        """Hand over what was said from event `start` on, and what is said from now on, to the end."""
        record, number = self._telling.record, start
        while True:
            said = record.since(number)
            if said is None or (self._telling.dropped and not said):
                raise Forgotten
            if self._telling.ended:
                await self._telling.settled()
            for frame in said:
                await write(frame)
            number += len(said)
            if self._telling.ended and number == record.num_events:
                return
            if number == record.num_events:
                await record.grown()
