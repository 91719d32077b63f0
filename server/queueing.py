"""Queueing: the requests of a body that asks for more at once than a queue should hold for one client."""

from collections import deque
from collections.abc import Sequence

from engine.errors import QueueFull
from engine.request import Delta, Request
from server.account import Account
from server.door import EngineDoor
from server.errors import blaming
from server.streams import Parts, Streams, gather
from server.tasks import task_group


async def gather_in_turn(
    engine: EngineDoor, requests: Sequence[Request], account: Account, *, param: str, at_once: int
) -> Parts:
    """Run all requests, so many at once; `param` is the field that held the prompts.

    A full queue refuses them all if none of them runs; later ones wait until one of them has ended.
    """
    with blaming(param, prompt=param):
        for request in requests:
            engine.examine(request)
    line = _Line(engine, requests, account, param=param)
    async with task_group() as group:
        for _ in range(min(at_once, len(requests))):
            group.start_soon(line.serve)
    return line.parts


class _Line:
    """The requests that wait for their turn, and what was answered."""

    def __init__(self, engine: EngineDoor, requests: Sequence[Request], account: Account, *, param: str) -> None:
        self._engine = engine
        self._waiting = deque(enumerate(requests))
        self._num_tokens = sum(len(request.prompt) for request in requests)
        self._account = account
        self._param = param
        self._num_running = 0
        self.parts: dict[tuple[int, int], Delta] = {}

    async def serve(self) -> None:
        """Run one request after the other, while there are any."""
        while self._waiting:
            number, request = self._waiting[0]
            streams = self._open(request)
            if streams is None:
                return  # whoever ends next goes on
            self._waiting.popleft()
            self._num_running += 1
            self._account.follow(streams.sources)
            for (_, choice), part in (await gather(streams, self._account)).items():
                self.parts[number, choice] = part
            self._account.leave(streams.sources)
            self._num_running -= 1

    def _open(self, request: Request) -> Streams | None:
        """Queue a request; None where the queue is full and others of these run."""
        with blaming(self._param, prompt=self._param):
            try:
                source = self._engine.open(request)
            except QueueFull:
                if not self._num_running:
                    raise
                return None
        if not self.parts and not self._num_running:
            self._account.open(prompt_tokens=self._num_tokens)
        return Streams([source])
