"""StepThread: the thread that steps run on, handed work by the event loop and answering to it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class StepThread:
    """Runs functions on a thread of its own, one after the other.

    An executor does the same with a second future and its locks: 70 µs more for each step, there and back.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def start(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Begin at once; the future is the running loop's."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  # handed to the one who waits
                _tell(loop, future, future.set_exception, error)
            else:
                _tell(loop, future, future.set_result, result)

        self._jobs.put(job)
        return future

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it there and wait for it; blocking."""
        done: Future[T] = Future()

        def job() -> None:
            try:
                done.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001  # raised where it is waited for
                done.set_exception(error)

        self._jobs.put(job)
        return done.result()

    def close(self) -> None:
        """End the thread, after what it runs."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _tell(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], settle: Callable[..., None], outcome: object
) -> None:
    """Settle the future on its loop, unless nobody waits any more."""
    with suppress(RuntimeError):  # the loop has closed
        loop.call_soon_threadsafe(lambda: None if future.done() else settle(outcome))
