"""Answers: one question to the server, and what comes back, taken up again where the connection breaks."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from server.terminal.client import ChatError, Client, Json, NoServer, Refused
from server.terminal.counts import Counts
from server.terminal.events import Received

DONE = "[DONE]"
TRIES = 4  # to take up an answer that broke off
PAUSE_SECONDS = 1.0  # before each of them


class Broken(ChatError):
    """The connection was lost before the answer's end, for good."""


@dataclass(frozen=True, slots=True)
class Piece:
    """More of an answer, or of what the model thought before it."""

    text: str
    is_thought: bool = False


class Answers:
    """Asks `client`; `clock` tells seconds, `pause` waits for some."""

    def __init__(self, client: Client, *, clock: Callable[[], float], pause: Callable[[float], None]) -> None:
        self._client = client
        self._clock = clock
        self._pause = pause

    def models(self, *, waits: Callable[[], None]) -> list[str]:
        """The names that are served. Where the model has still to load, `waits` is called once.

        Raises:
            ChatError: no server answers, or it refuses.
        """
        told = False
        while True:
            try:
                return self._client.models()
            except Refused as refusal:
                if refusal.code != "model_loading":
                    raise
            if not told:
                waits()
                told = True
            self._pause(PAUSE_SECONDS)

    def ask(self, body: Json) -> Iterator[Piece | Counts]:
        """The answer's pieces as they come, and its counts at the end.

        Raises:
            ChatError: the server refused, failed, or was lost for good.
        """
        answer = _Answer(self._client, body, self._clock)
        yield from answer.read()
        for _ in range(TRIES):
            if answer.ended:
                break
            self._pause(PAUSE_SECONDS)
            yield from answer.take_up()
        if not answer.ended:
            raise Broken("the connection was lost before the answer's end")
        yield answer.counts()


class _Answer:
    """One answer as far as it has come."""

    def __init__(self, client: Client, body: Json, clock: Callable[[], float]) -> None:
        self._client = client
        self._body = body
        self._clock = clock
        self._began = clock()
        self._first_seconds: float | None = None
        self._last_id: str | None = None
        self._usage: Json = {}
        self.ended = False

    def read(self) -> Iterator[Piece]:
        """Read up to the end, or to a break."""
        with self._client.ask(self._body) as events:
            yield from self._take(events)

    def take_up(self) -> Iterator[Piece]:
        """Read on behind the last event that came. A server that is not back yet is as good as a break."""
        if self._last_id is None:
            return  # nothing came: there is nothing to take up
        try:
            with self._client.ask(self._body, after=self._last_id) as events:
                yield from self._take(self._own(events))
        except NoServer:
            pass

    def _own(self, events: Iterator[Received]) -> Iterator[Received]:
        """The events, if they are of the same answer: an id is the answer's and a number."""
        answer = (self._last_id or "").rpartition(":")[0]
        for event in events:
            if (event.id or "").rpartition(":")[0] != answer:
                raise Broken("the connection was lost, and the server does not take up what broke off")
            yield event

    def _take(self, events: Iterator[Received]) -> Iterator[Piece]:
        for event in events:
            self._last_id = event.id
            if event.data == DONE:
                self.ended = True
                return
            yield from self._pieces(_chunk(event.data))

    def _pieces(self, chunk: Json) -> Iterator[Piece]:
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            delta = choice["delta"]
            for name, is_thought in (("reasoning_content", True), ("content", False)):
                if delta.get(name):
                    if self._first_seconds is None:
                        self._first_seconds = self._clock() - self._began
                    yield Piece(delta[name], is_thought)

    def counts(self) -> Counts:
        """What it took; a server that tells nothing of it counts nothing."""
        usage = self._usage
        details = usage.get("completion_tokens_details") or {}
        return Counts(
            prompt=usage.get("prompt_tokens", 0),
            cached=(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
            made=usage.get("completion_tokens", 0),
            accepted=details.get("accepted_prediction_tokens", 0),
            rejected=details.get("rejected_prediction_tokens", 0),
            first_seconds=self._first_seconds,
            seconds=self._clock() - self._began,
        )


def _chunk(data: str) -> Json:
    """A chunk; an error in its place ends the answer."""
    try:
        chunk: Json = json.loads(data)
        error: Any = chunk.get("error")
    except (ValueError, AttributeError):
        raise ChatError("the server sent what is no part of an answer") from None
    if error:
        raise Refused(str(error.get("message")), status=500, code=error.get("code"))
    return chunk
