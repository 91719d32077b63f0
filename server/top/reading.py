"""Reading: asks a server one thing again and again, on a thread of its own, as long as somebody looks at it."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from server.terminal.client import ChatError, Refused
from server.top.values import NoSight

EVERY_SECONDS = 0.5
GONE = "the server knows it no more; this is what it told before"
UNKNOWN = 404  # of what the server does not know, or does not know yet

Told = TypeVar("Told")


class Reading(Generic[Told]):
    """What `ask` was answered last. It is given what was known before, and raises ChatError or NoSight.

    `tells` is called after each answer, on the thread; the reading ends where `goes_on` says so of one.
    """

    def __init__(
        self,
        ask: Callable[[Told | None], Told],
        *,
        goes_on: Callable[[Told], bool] = lambda _: True,
        tells: Callable[[], None] = lambda: None,
    ) -> None:
        self._ask = ask
        self._goes_on = goes_on
        self._tells = tells
        self._ends = threading.Event()
        self.told: Told | None = None
        self.notice = ""  # why there is nothing, or nothing newer
        threading.Thread(target=self._run, name="reading", daemon=True).start()  # a read can't be interrupted

    def close(self) -> None:
        """Ask no more."""
        self._ends.set()

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                self.told, self.notice = self._ask(self.told), ""
            except (ChatError, NoSight) as error:
                self._note(error)
            self._tells()
            if self.told is not None and not self._goes_on(self.told):
                return
            self._ends.wait(EVERY_SECONDS)

    def _note(self, error: Exception) -> None:
        is_unknown = isinstance(error, Refused) and error.status == UNKNOWN
        self.notice = GONE if is_unknown and self.told is not None else str(error)  # what is known stays
