"""Blocks: an answer's pieces as Anthropic's content blocks, one behind the other."""

from collections.abc import Iterable, Iterator
from typing import assert_never

import orjson

from server.reading.pieces import CallArguments, CallBegun, Piece, Reasoning, Text
from server.wire.message_bodies import (
    BlockBody,
    BlockDelta,
    BlockEvent,
    BlockGrowth,
    BlockStart,
    BlockStop,
    CallerBody,
    InputDelta,
    SignatureDelta,
    TextBody,
    TextDelta,
    ThinkingBody,
    ThinkingDelta,
    ToolUseBody,
)

NO_OBJECT = "INVALID_JSON"  # the key under which Anthropic's own examples keep arguments that are no JSON object


class Blocks:
    """Turns pieces into the events of blocks. A block ends where another one begins, and with the answer."""

    def __init__(self) -> None:
        self._index = -1
        self._open: BlockBody | None = None  # as it began
        self._has_input = False
        self.calls = False  # whether a tool is called

    def take(self, pieces: Iterable[Piece]) -> Iterator[BlockEvent]:
        """The events of more pieces."""
        for piece in pieces:
            match piece:
                case Text(text):
                    yield from self._within(TextBody(type="text", text="", citations=None))
                    yield self._grow(TextDelta(type="text_delta", text=text))
                case Reasoning(text):
                    yield from self._within(ThinkingBody(type="thinking", thinking="", signature=""))
                    yield self._grow(ThinkingDelta(type="thinking_delta", thinking=text))
                case CallBegun():
                    yield from self._begin(_tool_use(piece))
                    self.calls, self._has_input = True, False
                case CallArguments(text=text):
                    yield self._grow(InputDelta(type="input_json_delta", partial_json=text))
                    self._has_input = True
                case _:
                    assert_never(piece)

    def end(self) -> Iterator[BlockEvent]:
        """The end of the block that is open, if one is."""
        if self._open is None:
            return
        match self._open["type"]:
            case "text":
                pass
            case "thinking":
                yield self._grow(SignatureDelta(type="signature_delta", signature=""))
            case "tool_use":
                if not self._has_input:
                    yield self._grow(InputDelta(type="input_json_delta", partial_json="{}"))
            case other:
                assert_never(other)
        self._open = None
        yield BlockStop(type="content_block_stop", index=self._index)

    def _within(self, empty: BlockBody) -> Iterator[BlockEvent]:
        """Go on with the open block if it is of this kind, else begin this one."""
        if self._open is None or self._open["type"] != empty["type"]:
            yield from self._begin(empty)

    def _begin(self, empty: BlockBody) -> Iterator[BlockEvent]:
        yield from self.end()
        self._index += 1
        self._open = empty
        yield BlockStart(type="content_block_start", index=self._index, content_block=empty)

    def _grow(self, delta: BlockDelta) -> BlockEvent:
        return BlockGrowth(type="content_block_delta", index=self._index, delta=delta)


def _tool_use(begun: CallBegun) -> ToolUseBody:
    return ToolUseBody(
        type="tool_use",
        id=begun.id,
        name=begun.name,
        input={},
        caller=CallerBody(type="direct"),
        toolset_name=None,
    )


def content_of(events: Iterable[BlockEvent]) -> list[BlockBody]:
    """The whole blocks that a client makes of these events."""
    blocks: list[BlockBody] = []
    parts: list[str] = []
    for event in events:
        match event["type"]:
            case "content_block_start":
                blocks.append(event["content_block"])
                parts = []
            case "content_block_delta":
                parts.append(_more(event["delta"]))
            case "content_block_stop":
                blocks[-1] = _filled(blocks[-1], "".join(parts))
            case other:
                assert_never(other)
    return blocks


def _more(delta: BlockDelta) -> str:
    match delta["type"]:
        case "text_delta":
            return delta["text"]
        case "thinking_delta":
            return delta["thinking"]
        case "input_json_delta":
            return delta["partial_json"]
        case "signature_delta":
            return ""
    assert_never(delta)


def _filled(empty: BlockBody, text: str) -> BlockBody:
    match empty["type"]:
        case "text":
            return {**empty, "text": text}
        case "thinking":
            return {**empty, "thinking": text}
        case "tool_use":
            return {**empty, "input": _input(text)}
    assert_never(empty)


def _input(arguments: str) -> dict[str, object]:
    """A call's arguments as an object, whatever they are: nothing that the model wrote is lost."""
    try:
        given = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {NO_OBJECT: arguments}
    return given if isinstance(given, dict) else {NO_OBJECT: arguments}
