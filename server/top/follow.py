"""Follow: reads a server's snapshots on a thread of its own, and comes back when the server does."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from server.terminal.client import ChatError, Client, NoServer, Refused
from server.terminal.events import Received
from server.terminal.plain import plain
from server.top.sight import read_sight
from server.top.story import Frame, Story
from server.top.values import NoSight

RETRY_SECONDS = 1.0
COME_BACK = frozenset({"model_loading", "too_many_watchers", "draining", "engine_stopped"})  # refusals that pass
NO_WATCHING = 404  # of another program's server, or of one that is older than what is asked
WORDS = {"draining": "the server is ending", "engine_stopped": "the engine has stopped"}


class Follower:
    """Keeps the story of one server up to date. `tells` is called after each change, on its thread."""

    def __init__(
        self, client: Client, *, every: float, clock: Callable[[], float], tells: Callable[[], None] = lambda: None
    ) -> None:
        self._client = client
        self._every = every
        self._clock = clock
        self._tells = tells
        self._story = Story(client.url)
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._notice = ""
        self._failure: ChatError | None = None
        self._came = threading.Event()

    @contextmanager
    def following(self) -> Iterator[None]:
        """Read while the block lasts. Its thread ends with the process, since a read can't be interrupted."""
        threading.Thread(target=self._run, name="top", daemon=True).start()
        try:
            yield
        finally:
            self._ends.set()

    def first(self, waits: Callable[[str], None]) -> None:
        """Wait for the first snapshot; `waits` is told once for what. Raises ChatError where there will be none."""
        told = ""
        while not self._came.wait(RETRY_SECONDS / 2):
            notice = self._notice
            if notice != told and not self._came.is_set():  # else it is about what came behind the first
                told = notice
                waits(told)
        self.check()

    def check(self) -> None:
        """Raise ChatError where nothing more will come."""
        if self._failure is not None:
            raise self._failure

    def frame(self) -> Frame:
        """What there is to draw now, once the first snapshot is there."""
        with self._lock:
            return self._story.frame(self._clock(), self._notice)

    @property
    def notice(self) -> str:
        """What is wrong with the connection; empty while nothing is."""
        return self._notice

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                self._read()
            except ChatError as error:
                self._judge(error)
                if self._failure is not None:
                    return
            self._tells()
            self._ends.wait(RETRY_SECONDS)

    def _read(self) -> None:
        """Take snapshots until the stream ends."""
        with self._client.watch(self._every) as events:
            for event in events:
                if self._ends.is_set():
                    return
                if event.name == "end":
                    reason = _reason(event)
                    self._notice = f"{WORDS.get(reason, reason)}; waiting for another"
                    return
                if event.name == "snapshot":
                    self._take(event)
        if not self._came.is_set():
            raise NoServer(f"what answers at {self._client.url} ended before it told anything")
        self._notice = "the connection was lost; trying again"

    def _take(self, event: Received) -> None:
        try:
            sight = read_sight(json.loads(event.data))
            with self._lock:
                self._story.add(sight, self._clock())
        except (ValueError, RecursionError, NoSight) as error:
            raise NoServer(str(error)) from None
        self._notice = ""
        self._came.set()
        self._tells()

    def _judge(self, error: ChatError) -> None:
        """What passes is told and tried again: what refuses for good is the end, and so is a first try that fails."""
        passes = isinstance(error, Refused) and error.code in COME_BACK
        if passes or (isinstance(error, NoServer) and self._came.is_set()):
            self._notice = f"{error}; trying again"
            return
        self._failure = self._told(error)
        self._came.set()
        self._tells()

    def _told(self, error: ChatError) -> ChatError:
        if isinstance(error, Refused) and error.status == NO_WATCHING:
            who = "perhaps it is no Tidemark, or one that is older than `tidemark top`"
            return ChatError(f"what answers at {self._client.url} can't be watched: {who}")
        return error


def _reason(event: Received) -> str:
    try:
        return plain(str(json.loads(event.data)["reason"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return "the server has ended the stream"
