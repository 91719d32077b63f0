"""Stalls: a step that takes too long is told once, and once when it has ended."""

import asyncio
from typing import Protocol

from server.logs import Log

LOOK_SECONDS = 1.0  # a stall is told at most so much later than /ready has it


class Stalling(Protocol):
    """What may stall."""

    @property
    def stalled(self) -> bool:
        """Whether a step takes too long."""
        ...


async def tell_stalls(engine: Stalling, log: Log, *, look_seconds: float = LOOK_SECONDS) -> None:
    """Write a line whenever the engine stalls or has recovered, until cancelled."""
    stalled = False
    while True:
        await asyncio.sleep(look_seconds)
        if engine.stalled is stalled:
            continue
        stalled = not stalled
        if stalled:
            log.warning("stalled")
        else:
            log.info("recovered")
