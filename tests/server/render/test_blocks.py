from typing import Any

import pytest

from server.reading.pieces import CallArguments, CallBegun, Piece, Reasoning, Text
from server.render.blocks import Blocks, content_of
from server.wire.message_bodies import BlockEvent

Json = dict[str, Any]
BEGUN = CallBegun(0, "call1", "look")
TOOL_USE = {
    "type": "tool_use",
    "id": "call1",
    "name": "look",
    "input": {},
    "caller": {"type": "direct"},
    "toolset_name": None,
}


def events(*pieces: Piece) -> list[BlockEvent]:
    blocks = Blocks()
    return [*blocks.take(pieces), *blocks.end()]


def content(*pieces: Piece) -> list[Json]:
    return [dict(block) for block in content_of(events(*pieces))]


def test_parts_of_a_text_are_one_block() -> None:
    assert events(Text("a"), Text("b")) == [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "", "citations": None},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "b"}},
        {"type": "content_block_stop", "index": 0},
    ]


def test_a_block_ends_before_the_next_begins() -> None:
    told = events(Reasoning("hm"), Text("so"), BEGUN, CallArguments(0, "{}"), CallBegun(1, "call2", "see"), Text("!"))

    assert [(event["type"].removeprefix("content_block_"), event["index"]) for event in told] == [
        ("start", 0), ("delta", 0), ("delta", 0), ("stop", 0),
        ("start", 1), ("delta", 1), ("stop", 1),
        ("start", 2), ("delta", 2), ("stop", 2),
        ("start", 3), ("delta", 3), ("stop", 3),
        ("start", 4), ("delta", 4), ("stop", 4),
    ]  # fmt: skip


def test_a_thought_ends_with_a_signature_that_signs_nothing() -> None:
    told = events(Reasoning("hm"))

    assert told[-2] == {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": ""},
    }
    assert content(Reasoning("h"), Reasoning("m")) == [{"type": "thinking", "thinking": "hm", "signature": ""}]


def test_a_call_has_its_arguments_as_an_object() -> None:
    parts = BEGUN, CallArguments(0, '{"at": '), CallArguments(0, '"sea"}')

    assert events(*parts)[0] == {"type": "content_block_start", "index": 0, "content_block": TOOL_USE}
    assert [event["delta"] for event in events(*parts) if event["type"] == "content_block_delta"] == [
        {"type": "input_json_delta", "partial_json": '{"at": '},
        {"type": "input_json_delta", "partial_json": '"sea"}'},
    ]
    assert content(*parts) == [TOOL_USE | {"input": {"at": "sea"}}]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert events(BEGUN)[1] == {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "{}"},
    }
    assert content(BEGUN) == [TOOL_USE]


@pytest.mark.parametrize("arguments", ['{"at": "se', "[1]", '"x"', "null", "{bad}"])
def test_arguments_that_are_no_object_are_not_lost(arguments: str) -> None:
    assert content(BEGUN, CallArguments(0, arguments)) == [TOOL_USE | {"input": {"INVALID_JSON": arguments}}]


def test_a_block_ends_once() -> None:
    blocks = Blocks()

    list(blocks.take([Text("a")]))

    assert len(list(blocks.end())) == 1
    assert list(blocks.end()) == []


def test_no_pieces_make_no_blocks() -> None:
    assert events() == []
    assert content() == []


def test_whether_a_tool_is_called_is_known() -> None:
    blocks = Blocks()

    list(blocks.take([Text("a")]))
    assert not blocks.calls
    list(blocks.take([BEGUN, Text("b")]))
    assert blocks.calls
