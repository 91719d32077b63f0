from typing import Any

import orjson
import pytest

from engine.request import Delta, End, FinishReason, Usage
from server.errors import ApiError
from server.reading.pieces import CallArguments, CallBegun, Piece, PlainReader, Reasoning, Text
from server.reading.readings import MakeReader
from server.render.messages import Messages
from server.streams import Arrival, join

Json = dict[str, Any]
USAGE = Usage(prompt_tokens=20, cached_tokens=16, output_tokens=5)


class Caller:
    """Thinks about the first word, says the second, and calls a tool with the rest."""

    def __init__(self) -> None:
        self._words = 0

    def feed(self, text: str) -> tuple[Piece, ...]:
        self._words += 1
        if self._words <= 2:
            return (Reasoning(text) if self._words == 1 else Text(text),)
        begun = (CallBegun(0, "call1", "look"),) if self._words == 3 else ()
        return (*begun, CallArguments(0, text))

    def finish(self) -> tuple[Piece, ...]:
        return ()


def messages(make_reader: MakeReader = PlainReader) -> Messages:
    return Messages("msg-1", model="m", prompt_tokens=20, request_id="req", make_reader=make_reader)


def ended(reason: FinishReason = FinishReason.STOP, matched: str | int | None = None) -> Delta:
    return Delta(0, end=End(reason, USAGE, matched))


def streamed(*deltas: Delta, make_reader: MakeReader = PlainReader) -> list[Json]:
    answer = messages(make_reader)
    told = [*answer.first()]
    for delta in deltas:
        told += answer.feed(Arrival(0, delta))
    told += answer.last()
    bodies = [orjson.loads(event.data) for event in told]
    assert [event.name for event in told] == [body["type"] for body in bodies]
    return bodies


def whole(*deltas: Delta, make_reader: MakeReader = PlainReader) -> Json:
    return dict(messages(make_reader).whole({(0, 0): join(deltas)}))


def test_a_stream_is_its_beginning_its_blocks_its_end() -> None:
    told = streamed(Delta(0, "a"), Delta(0, "b"), ended())

    assert [body["type"] for body in told] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_the_beginning_has_every_key_and_the_whole_prompt() -> None:
    beginning = streamed(ended())[0]["message"]

    assert beginning == {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "diagnostics": None,
        "usage": {
            "input_tokens": 20,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"thinking_tokens": 0},
            "server_tool_use": None,
            "inference_geo": None,
            "service_tier": "standard",
            "speed": None,
        },
    }


def test_the_end_tells_what_the_cache_had() -> None:
    usage = streamed(ended())[-2]["usage"]

    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (4, 16, 5)
    assert whole(ended())["usage"].items() >= usage.items()


@pytest.mark.parametrize(
    ("end", "reason", "sequence"),
    [
        (ended(), "end_turn", None),
        (ended(FinishReason.LENGTH), "max_tokens", None),
        (ended(matched="STOP"), "stop_sequence", "STOP"),
        (ended(matched=7), "end_turn", None),
    ],
)
def test_the_reason_is_in_anthropics_words(end: Delta, reason: str, sequence: str | None) -> None:
    said = whole(Delta(0, "a"), end)
    told = streamed(Delta(0, "a"), end)[-2]["delta"]

    assert (said["stop_reason"], said["stop_sequence"]) == (reason, sequence)
    assert told == {key: said[key] for key in ("stop_reason", "stop_sequence", "stop_details", "container")}


def test_a_call_is_the_reason_unless_the_answer_was_cut() -> None:
    words = Delta(0, "hm"), Delta(0, "so"), Delta(0, '{"at":'), Delta(0, "1}")

    told = streamed(*words, ended(matched="x"), make_reader=Caller)
    cut = streamed(*words, ended(FinishReason.LENGTH), make_reader=Caller)

    assert told[-2]["delta"]["stop_reason"] == "tool_use"
    assert told[-2]["delta"]["stop_sequence"] is None
    assert cut[-2]["delta"]["stop_reason"] == "max_tokens"
    kinds = [body["content_block"]["type"] for body in told if body["type"] == "content_block_start"]
    assert kinds == ["thinking", "text", "tool_use"]


def test_a_whole_answer_has_its_blocks() -> None:
    said = whole(Delta(0, "hm"), ended(), make_reader=Caller)

    assert said["content"] == [{"type": "thinking", "thinking": "hm", "signature": ""}]
    assert said["stop_reason"] == "end_turn"


def test_an_answer_of_no_text_has_no_blocks() -> None:
    assert whole(ended())["content"] == []


def test_a_failure_is_the_last_event_in_anthropics_words() -> None:
    [told] = messages().failed(ApiError(503, "draining"))

    assert told.name == "error"
    assert orjson.loads(told.data) == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "draining"},
        "request_id": "req",
    }
