from typing import Any

from server.reading.pieces import CallArguments, CallBegun, Piece, Reasoning, Text
from server.render.items import Items

LISTED: Any = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}


def shown(events: Any) -> list[tuple[str, Any]]:
    """Each event's type, without what all have, and what it says."""
    said = []
    for event in events:
        value = next((event[key] for key in ("delta", "text", "arguments") if key in event), event.get("output_index"))
        said.append((event["type"].removeprefix("response."), value))
    return said


def told(*pieces: Piece) -> tuple[Items, list[tuple[str, Any]]]:
    items = Items()
    events = [event for piece in pieces for event in shown(items.take([piece]))]
    return items, events + shown(items.end("completed"))


def test_a_text_is_a_message_that_grows() -> None:
    items, events = told(Text("a"), Text("b"))

    assert events == [
        ("output_item.added", 0),
        ("content_part.added", 0),
        ("output_text.delta", "a"),
        ("output_text.delta", "b"),
        ("output_text.done", "ab"),
        ("content_part.done", 0),
        ("output_item.done", 0),
    ]
    [item] = items.items
    assert (item["type"], item["status"]) == ("message", "completed")


def test_reasoning_is_an_item_before_the_text() -> None:
    items, events = told(Reasoning("hm"), Text("a"))

    assert events == [
        ("output_item.added", 0),
        ("content_part.added", 0),
        ("reasoning_text.delta", "hm"),
        ("reasoning_text.done", "hm"),
        ("content_part.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("content_part.added", 1),
        ("output_text.delta", "a"),
        ("output_text.done", "a"),
        ("content_part.done", 1),
        ("output_item.done", 1),
    ]
    assert [item["type"] for item in items.items] == ["reasoning", "message"]


def test_each_call_is_an_item() -> None:
    items, events = told(
        CallBegun(0, "call_a", "add"), CallArguments(0, '{"a"'), CallArguments(0, ":1}"), CallBegun(1, "call_b", "sub")
    )

    assert events == [
        ("output_item.added", 0),
        ("function_call_arguments.delta", '{"a"'),
        ("function_call_arguments.delta", ":1}"),
        ("function_call_arguments.done", '{"a":1}'),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("function_call_arguments.done", ""),
        ("output_item.done", 1),
    ]
    assert [(item["call_id"], item["name"]) for item in items.items if item["type"] == "function_call"] == [
        ("call_a", "add"), ("call_b", "sub")
    ]  # fmt: skip


def test_an_item_is_announced_empty() -> None:
    items = Items()

    announced = [event["item"] for event in items.take([Text("a")]) if event["type"] == "response.output_item.added"]

    assert [item["content"] for item in announced if item["type"] == "message"] == [[]]


def test_an_answer_that_says_nothing_is_an_empty_text() -> None:
    items, events = told()

    assert [type for type, _ in events][:2] == ["output_item.added", "content_part.added"]
    [item] = items.items
    assert item["type"] == "message"
    assert item["content"][0]["text"] == ""


def test_an_answer_that_is_cut_leaves_its_last_item_incomplete() -> None:
    items = Items()
    list(items.take([Reasoning("hm"), Text("a")]))

    list(items.end("incomplete"))

    assert [item["status"] for item in items.items] == ["completed", "incomplete"]


def test_log_probabilities_stand_beside_the_text_and_all_of_them_at_its_end() -> None:
    items = Items()

    events = [*items.take([], [LISTED]), *items.take([Text("a")], [LISTED]), *items.take([], [LISTED])]
    ends = list(items.end("completed"))

    growth = next(event for event in events if event["type"] == "response.output_text.delta")
    end = next(event for event in ends if event["type"] == "response.output_text.done")
    assert (len(growth["logprobs"]), len(end["logprobs"])) == (2, 3)


def test_no_two_items_share_an_id() -> None:
    items, _ = told(Reasoning("a"), Text("b"), CallBegun(0, "c", "d"), Text("e"))

    assert len({item["id"] for item in items.items}) == 4


def test_reasoning_grows_as_text_does() -> None:
    items, events = told(Reasoning("h"), Reasoning("m"))

    assert ("reasoning_text.done", "hm") in events
    assert len(items.items) == 1
