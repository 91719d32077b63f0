"""An event loop whose time moves only when it is told to."""

import asyncio

TURNS = 8  # more than any chain of wake-ups: runner, engine, stream, client, engine


class VirtualLoop(asyncio.SelectorEventLoop):
    """Deterministic: nothing happens but what was asked for, however fast the machine is."""

    def __init__(self) -> None:
        self._now = 1_000.0
        super().__init__()

    def time(self) -> float:
        """Seconds, by the loop's own clock."""
        return self._now

    def settle(self) -> None:
        """Let every task run until it waits for something that is not due yet."""
        self.run_until_complete(_spin())

    def advance(self, seconds: float) -> None:
        """Move the clock, and let what is due by then happen."""
        self._now += seconds
        self.settle()


async def _spin() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
