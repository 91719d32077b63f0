"""Background: the answers that run without a client, each in a task of the process's own."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.errors import unavailable
from server.telling import Telling

log = logging.getLogger(__name__)


class Background:
    """Runs answers to their end. How many there can be is what the engine's queue takes."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take answers. Leaving takes no more and waits for all: who leaves has their requests end."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None

    def start(self, telling: Telling) -> None:
        """Let an answer run on its own, or raise the 503 that says why not; then nothing of it is left."""
        if self._group is None:
            telling.drop()
            raise unavailable("draining", "the server is shutting down and takes no new requests")
        telling.alone = True
        self._group.create_task(_run(telling))


async def _run(telling: Telling) -> None:
    try:
        await telling.run()
    except Exception:  # one answer must not end the others, or the process
        log.exception("background_failed", extra={"discreet": True})  # its words may be the client's
        telling.drop()
