"""Watching: one watcher's stream of looks at the engine. One that reads slowly skips some."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import CancelScope

from server.errors import ApiError
from server.events import encode, event
from server.lookout import Lookout, Sight
from server.service import Loaded, Service
from server.telling import Forgotten, Write
from server.wire.sight import SightEnd

TIMER_SECONDS = 0.002  # a timer may come early by this much, and the look before would not be old enough


class Watching:
    """Tells a look every so many seconds where anything has changed; `count` of them, or until the engine ends."""

    def __init__(self, service: Service, loaded: Loaded, *, every: float, count: int | None) -> None:
        self._service = service
        self._engine = loaded.engine
        self._every = every
        self._count = count

    @property
    def _lookout(self) -> Lookout:
        return self._service.lookout

    @asynccontextmanager
    async def listening(self, scope: CancelScope) -> AsyncIterator[None]:
        """Be a watcher; there can be others."""
        del scope
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._lookout.watching(self._engine))
            except ApiError as error:  # who came at the same moment took the last place
                raise Forgotten from error
            yield

    async def tell(self, write: Write, *, start: int) -> None:
        """Hand over looks until there are no more, and why."""
        del start
        seen: Sight | None = None
        num_told = 0
        over = False
        while not over and num_told != self._count:
            over = self._lookout.over.is_set()
            sight = self._lookout.sight(self._engine, self._service.state.value)
            if sight is not seen:
                await write(self._lookout.frame(sight, seen, self._engine.info))
                seen, num_told = sight, num_told + 1
            if not over and num_told != self._count:
                await self._rest()
        await write(encode(event(self._end(), "end"), None))

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._every + TIMER_SECONDS):
                await self._lookout.over.wait()

    def _end(self) -> SightEnd:
        if not self._lookout.over.is_set():
            return SightEnd(reason="count")
        return SightEnd(reason="engine_stopped" if self._service.failed else "draining")
