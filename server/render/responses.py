"""Answers of the Responses API: whole, event by event, and as they stand. All are made of the same items."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from engine.request import Delta, End, FinishReason, Usage
from server.errors import ApiError
from server.events import Event, event
from server.reading.pieces import joined
from server.reading.readings import MakeReader, Readings
from server.render.items import Items
from server.render.logprobs import chat_logprobs
from server.render.reply import Reply
from server.streams import Arrival, Parts
from server.wire.chat_bodies import TokenLogprobBody
from server.wire.response_bodies import (
    Echo,
    Incomplete,
    InputDetails,
    LifeEvent,
    OutputDetails,
    ResponseBody,
    ResponseError,
    ResponseEvent,
    ResponseUsage,
    Status,
)

_Life = Literal[
    "response.created",
    "response.queued",
    "response.in_progress",
    "response.completed",
    "response.incomplete",
    "response.failed",
]
_LAST: Mapping[Status, _Life] = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "cancelled": "response.incomplete",  # OpenAI has no event for it; the response's status says it
}


class Responses:
    """Makes the parts of one answer, which has one choice. `body` is the answer as it stands.

    `on_end` is called once with the whole answer, before anybody is told of its end.
    """

    def __init__(
        self,
        reply: Reply,
        echo: Echo,
        make_reader: MakeReader,
        *,
        now: Callable[[], int],
        on_end: Callable[[ResponseBody], None],
    ) -> None:
        self.id = reply.id
        self._reply = reply
        self._echo = echo
        self._readings = Readings(make_reader)
        self._now = now
        self._on_end = on_end
        self._items = Items()
        self._status: Status = "queued" if echo["background"] else "in_progress"
        self._end: End | None = None
        self._error: ResponseError | None = None
        self._completed: int | None = None
        self._num_listed = 0
        self._num_events = 0

    @property
    def body(self) -> ResponseBody:
        """The answer as it stands."""
        return ResponseBody(
            **self._echo,
            id=self.id,
            object="response",
            created_at=self._reply.created,
            completed_at=self._completed,
            status=self._status,
            error=self._error,
            incomplete_details=Incomplete(reason="max_output_tokens") if self._status == "incomplete" else None,
            output=list(self._items.items),
            usage=None if self._end is None else _usage(self._end.usage, self._num_reasoning),
            conversation=None,
        )

    @property
    def stored(self) -> bool:
        """Whether it can be asked for."""
        return self._echo["store"]

    @property
    def _num_reasoning(self) -> int:
        return sum(said.places.num_reasoning for said in self._readings.said.values())

    def forget(self) -> None:
        """It is not to be kept after all."""
        self._on_end = lambda _: None

    # -- whole ------------------------------------------------------------------------------------

    def whole(self, parts: Parts) -> ResponseBody:
        """The whole answer."""
        [part] = parts.values()
        list(self._take(part))
        self._finish()
        return self.body

    # -- streamed ---------------------------------------------------------------------------------

    def first(self) -> Iterable[Event]:
        """The answer without any output. What runs in the background says later when it begins."""
        created = self._life("response.created")
        follows = self._life("response.queued" if self._status == "queued" else "response.in_progress")
        return self._named([created, follows])

    def feed(self, arrival: Arrival) -> Iterable[Event]:
        """The events of one delta."""
        return self._named(self._feed(arrival.delta))

    def last(self) -> Iterable[Event]:
        """The whole answer. One that nothing ended was cancelled."""
        events = [] if self._end is not None else self._cut("cancelled")
        self._finish()
        return self._named([*events, self._life(_LAST[self._status])])

    def failed(self, error: ApiError) -> Iterable[Event]:
        """The error, with what there was before it."""
        events = self._cut("failed")
        self._error = ResponseError(code="server_error", message=error.body["message"])
        self._finish()
        return self._named([*events, self._life("response.failed")])

    # -- parts ------------------------------------------------------------------------------------

    def _feed(self, delta: Delta) -> Iterable[ResponseEvent]:
        if self._status == "queued":
            self._status = "in_progress"
            yield self._life("response.in_progress")
        yield from self._take(delta)

    def _cut(self, status: Status) -> list[ResponseEvent]:
        """End in the midst of it."""
        self._status = status
        return list(self._items.end("incomplete")) if self._items.items else []

    def _take(self, delta: Delta) -> Iterable[ResponseEvent]:
        pieces = joined(self._readings.read(delta))
        yield from self._items.take(pieces, self._newly_listed(delta.choice))
        if delta.end is not None:
            self._end = delta.end
            cut = delta.end.reason is FinishReason.LENGTH
            self._status = "incomplete" if cut else "completed"
            yield from self._items.end("incomplete" if cut else "completed")

    def _finish(self) -> None:
        if self._status == "completed":
            self._completed = self._now()
        self._on_end(self.body)

    def _newly_listed(self, choice: int) -> Sequence[TokenLogprobBody]:
        """The log-probabilities of the tokens that are known to be a text's since the last delta."""
        content = self._readings.said[choice].places.content
        start, self._num_listed = self._num_listed, len(content)
        listed = chat_logprobs(content[start:], self._reply)
        return () if listed is None else listed["content"]

    def _life(self, type: _Life) -> LifeEvent:
        return LifeEvent(type=type, response=self.body)

    def _named(self, events: Iterable[ResponseEvent]) -> Iterable[Event]:
        """The events, numbered and named; each is encoded before the next is made, since items grow."""
        named = []
        for each in events:
            each["sequence_number"] = self._num_events
            self._num_events += 1
            named.append(event(each, each["type"]))
        return named


def _usage(usage: Usage, num_reasoning: int) -> ResponseUsage:
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputDetails(cached_tokens=usage.cached_tokens, cache_write_tokens=0),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputDetails(reasoning_tokens=num_reasoning),
        total_tokens=usage.prompt_tokens + usage.output_tokens,
    )
