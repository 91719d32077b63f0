"""Answers in Anthropic's shape: whole, and event by event. Both are made of the same events."""

from collections.abc import Iterable, Sequence

from engine.request import End, FinishReason, Usage
from server.envelopes import messages_envelope
from server.errors import ApiError
from server.events import Event, event
from server.reading.pieces import joined
from server.reading.readings import MakeReader, Readings
from server.render.blocks import Blocks, content_of
from server.streams import Arrival, Parts
from server.wire.message_bodies import (
    BlockBody,
    CacheCreationBody,
    DeltaUsageBody,
    EndBody,
    MessageBody,
    MessageDelta,
    MessageEvent,
    MessageStart,
    MessageUsageBody,
    OutputDetails,
    Plain,
    StopReason,
)


class Messages:
    """Makes the parts of one answer, which has one choice."""

    def __init__(self, id: str, *, model: str, prompt_tokens: int, request_id: str, make_reader: MakeReader) -> None:
        self.id = id
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._request_id = request_id
        self._readings = Readings(make_reader)
        self._blocks = Blocks()

    # -- whole ------------------------------------------------------------------------------------

    def whole(self, parts: Parts) -> MessageBody:
        """The whole answer."""
        [part] = parts.values()
        assert part.end is not None, "a choice that was read to its end has one"
        events = [*self._blocks.take(self._readings.read(part)), *self._blocks.end()]
        ended = _ended(part.end, calls=self._blocks.calls)
        return self._message(content_of(events), ended, self._usage(part.end.usage))

    # -- streamed ---------------------------------------------------------------------------------

    def first(self) -> Iterable[Event]:
        """The answer without content. What the cache had of the prompt is known at the end."""
        nothing_yet = Usage(self._prompt_tokens, cached_tokens=0, output_tokens=0)
        empty = self._message([], _going_on(), self._usage(nothing_yet))
        return _named([MessageStart(type="message_start", message=empty), Plain(type="ping")])

    def feed(self, arrival: Arrival) -> Iterable[Event]:
        """The events of one delta."""
        delta = arrival.delta
        events: list[MessageEvent] = [*self._blocks.take(joined(self._readings.read(delta)))]
        if delta.end is not None:
            events += self._blocks.end()
            ended = _ended(delta.end, calls=self._blocks.calls)
            events.append(MessageDelta(type="message_delta", delta=ended, usage=self._usage(delta.end.usage)))
        return _named(events)

    def last(self) -> Iterable[Event]:
        """The mark of the end."""
        return _named([Plain(type="message_stop")])

    def failed(self, error: ApiError) -> Iterable[Event]:
        """The error. No mark of the end follows it."""
        return (event(messages_envelope(error.status, error.body, request_id=self._request_id), "error"),)

    # -- parts ------------------------------------------------------------------------------------

    def _message(self, content: list[BlockBody], end: EndBody, usage: DeltaUsageBody) -> MessageBody:
        return MessageBody(
            id=self.id,
            type="message",
            role="assistant",
            model=self._model,
            content=content,
            **end,
            usage=_with_the_rest(usage),
            diagnostics=None,
        )

    def _usage(self, usage: Usage) -> DeltaUsageBody:
        return DeltaUsageBody(
            input_tokens=usage.prompt_tokens - usage.cached_tokens,
            cache_creation_input_tokens=0,
            cache_read_input_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            output_tokens_details=OutputDetails(thinking_tokens=self._readings.num_reasoning),
            server_tool_use=None,
        )


def _named(events: Sequence[MessageEvent]) -> Iterable[Event]:
    return [event(body, body["type"]) for body in events]


def _going_on() -> EndBody:
    return EndBody(stop_reason=None, stop_sequence=None, stop_details=None, container=None)


def _ended(end: End, *, calls: bool) -> EndBody:
    """Why the answer ended by itself."""
    ended = _going_on()
    ended["stop_reason"] = _reason(end, calls=calls)
    if ended["stop_reason"] == "stop_sequence":
        ended["stop_sequence"] = str(end.matched)
    return ended


def _reason(end: End, *, calls: bool) -> StopReason:
    if end.reason is FinishReason.LENGTH:
        return "max_tokens"
    if calls:
        return "tool_use"
    return "stop_sequence" if isinstance(end.matched, str) else "end_turn"


def _with_the_rest(usage: DeltaUsageBody) -> MessageUsageBody:
    return MessageUsageBody(
        **usage,
        cache_creation=CacheCreationBody(ephemeral_5m_input_tokens=0, ephemeral_1h_input_tokens=0),
        inference_geo=None,
        service_tier="standard",
        speed=None,
    )
