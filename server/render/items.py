"""Items: an answer's pieces as a response's output items, one behind the other."""

import secrets
from collections.abc import Iterable, Iterator
from typing import assert_never

from server.reading.pieces import CallArguments, CallBegun, Piece, Reasoning, Text
from server.wire.chat_bodies import TokenLogprobBody
from server.wire.response_bodies import (
    AnswerBody,
    ArgumentsEnd,
    ArgumentsGrowth,
    CallBody,
    ItemEvent,
    ItemStatus,
    OutputEvent,
    OutputItem,
    OutputText,
    PartEvent,
    ReasoningBody,
    ReasoningEnd,
    ReasoningGrowth,
    ReasoningText,
    TextEnd,
    TextGrowth,
)


def item_id(prefix: str) -> str:
    """An id that nobody can guess."""
    return f"{prefix}_{secrets.token_hex(16)}"


class Items:
    """Turns pieces into items and their events. An item ends where another begins, and with the answer."""

    def __init__(self) -> None:
        self.items: list[OutputItem] = []  # the last may be open, and has then all that was said of it
        self._open = False
        self._listed: list[TokenLogprobBody] = []  # of a text, and not yet sent beside it

    @property
    def _index(self) -> int:
        return len(self.items) - 1

    def take(self, pieces: Iterable[Piece], listed: Iterable[TokenLogprobBody] = ()) -> Iterator[OutputEvent]:
        """The events of more pieces; `listed` are the log-probabilities of the texts' tokens."""
        self._listed += listed
        for piece in pieces:
            match piece:
                case Text(text):
                    yield from self._write(text)
                case Reasoning(text):
                    yield from self._think(text)
                case CallBegun():
                    yield from self._begin(_call(piece))
                case CallArguments(text=text):
                    yield from self._argue(text)
                case _:
                    assert_never(piece)

    def end(self, status: ItemStatus) -> Iterator[OutputEvent]:
        """The end of the answer. One that says nothing at all is an empty text."""
        if not self.items:
            yield from self._begin(_answer())
        yield from self._close(status)

    # -- growth -----------------------------------------------------------------------------------

    def _write(self, text: str) -> Iterator[OutputEvent]:
        item = self.items[-1] if self._open else None
        if item is None or item["type"] != "message":
            yield from self._begin(item := _answer())
        part = item["content"][0]
        listed, self._listed = self._listed, []
        part["text"] += text
        part["logprobs"] += listed
        yield TextGrowth(
            type="response.output_text.delta",
            item_id=item["id"],
            output_index=self._index,
            content_index=0,
            delta=text,
            logprobs=listed,
        )

    def _think(self, text: str) -> Iterator[OutputEvent]:
        item = self.items[-1] if self._open else None
        if item is None or item["type"] != "reasoning":
            yield from self._begin(item := _reasoning())
        item["content"][0]["text"] += text
        yield ReasoningGrowth(
            type="response.reasoning_text.delta",
            item_id=item["id"],
            output_index=self._index,
            content_index=0,
            delta=text,
        )

    def _argue(self, text: str) -> Iterator[OutputEvent]:
        item = self.items[-1]
        assert item["type"] == "function_call", "arguments follow their call's beginning"
        item["arguments"] += text
        yield ArgumentsGrowth(
            type="response.function_call_arguments.delta", item_id=item["id"], output_index=self._index, delta=text
        )

    # -- beginnings and ends ----------------------------------------------------------------------

    def _begin(self, item: OutputItem) -> Iterator[OutputEvent]:
        yield from self._close("completed")
        self.items.append(item)
        self._open = True
        yield ItemEvent(type="response.output_item.added", output_index=self._index, item=_begun(item))
        if item["type"] != "function_call":
            yield PartEvent(
                type="response.content_part.added",
                item_id=item["id"],
                output_index=self._index,
                content_index=0,
                part=_empty(item),
            )

    def _close(self, status: ItemStatus) -> Iterator[OutputEvent]:
        if not self._open:
            return
        self._open = False
        item = self.items[-1]
        item["status"] = status
        match item["type"]:
            case "message":
                yield from self._end_text(item)
            case "reasoning":
                yield from self._end_reasoning(item)
            case "function_call":
                yield self._end_call(item)
            case other:
                assert_never(other)
        yield ItemEvent(type="response.output_item.done", output_index=self._index, item=item)

    def _end_text(self, item: AnswerBody) -> Iterator[OutputEvent]:
        part = item["content"][0]
        part["logprobs"] += self._listed
        self._listed = []
        yield TextEnd(
            type="response.output_text.done",
            item_id=item["id"],
            output_index=self._index,
            content_index=0,
            text=part["text"],
            logprobs=part["logprobs"],
        )
        yield self._end_part(item["id"], part)

    def _end_reasoning(self, item: ReasoningBody) -> Iterator[OutputEvent]:
        part = item["content"][0]
        yield ReasoningEnd(
            type="response.reasoning_text.done",
            item_id=item["id"],
            output_index=self._index,
            content_index=0,
            text=part["text"],
        )
        yield self._end_part(item["id"], part)

    def _end_part(self, id: str, part: OutputText | ReasoningText) -> PartEvent:
        return PartEvent(
            type="response.content_part.done", item_id=id, output_index=self._index, content_index=0, part=part
        )

    def _end_call(self, item: CallBody) -> ArgumentsEnd:
        return ArgumentsEnd(
            type="response.function_call_arguments.done",
            item_id=item["id"],
            output_index=self._index,
            name=item["name"],
            arguments=item["arguments"],
        )


def _answer() -> AnswerBody:
    text = OutputText(type="output_text", text="", annotations=[], logprobs=[])
    return AnswerBody(id=item_id("msg"), type="message", role="assistant", status="in_progress", content=[text])


def _reasoning() -> ReasoningBody:
    return ReasoningBody(
        id=item_id("rs"),
        type="reasoning",
        summary=[],
        content=[ReasoningText(type="reasoning_text", text="")],
        encrypted_content=None,
        status="in_progress",
    )


def _call(begun: CallBegun) -> CallBody:
    return CallBody(
        id=item_id("fc"),
        type="function_call",
        call_id=begun.id,
        name=begun.name,
        arguments="",
        status="in_progress",
    )


def _begun(item: OutputItem) -> OutputItem:
    """The item as it is announced: its parts come with events of their own."""
    if item["type"] == "function_call":
        return item
    announced = item.copy()
    announced["content"] = []
    return announced


def _empty(item: AnswerBody | ReasoningBody) -> OutputText | ReasoningText:
    return item["content"][0]
