import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from server.reading.answer import Thinking
from server.reading.calls import new_call_id
from server.reading.formats import FORMATS
from server.reading.pieces import CallBegun, Piece, Reasoning, Text
from tests.server.reading.texts import TAGS, call, read, reader_of

# What texts with marks are made of, whole and broken.
FRAGMENTS = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<|python_tag|>",
        "<|tool_call_start|>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]",
        "<think>",
        "</think>",
        '{"name": "look", "arguments": {"a": "x"}}',
        '{"name": "look", "parameters": ',
        '{"arguments": {}, "name": "get_weather"}',
        "[look(a='x')]",
        "<function=look>",
        "<|channel|>analysis<|message|>",
        "<|channel|>commentary to=functions.look<|message|>",
        "<|end|>",
        "<|start|>assistant",
        "<parameter=at>",
        "</parameter>",
        "</function>",
        "look(",
        "look",
        ")",
        '"',
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ";",
        ":",
        "<",
        " ",
        "\n",
        "x",
        "日",
    ]
)
MARKED = st.lists(FRAGMENTS, max_size=12).map("".join)
CHOSEN = st.sampled_from([None, *FORMATS])
MARKING_CALLS = st.sampled_from([None, *(name for name in FORMATS if name != "harmony")])  # that marks texts as well
THINKING = st.sampled_from([None, TAGS, replace(TAGS, begun=True)])


def cut(text: str, places: list[int]) -> list[str]:
    """The text in parts."""
    borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:stop] for start, stop in pairwise(borders)]


@given(text=MARKED, places=st.lists(st.integers(0, 400), max_size=8), format=CHOSEN, thinking=THINKING)
def test_the_pieces_do_not_depend_on_how_the_text_is_cut(
    text: str, places: list[int], format: str | None, thinking: Thinking | None
) -> None:
    whole = read(reader_of(format, thinking=thinking), [text])

    assert read(reader_of(format, thinking=thinking), cut(text, places)) == whole
    assert read(reader_of(format, thinking=thinking), text) == whole


@given(text=MARKED, format=MARKING_CALLS, thinking=THINKING)
def test_pieces_are_parts_of_the_text_in_its_order_and_only_marks_lie_between(
    text: str, format: str | None, thinking: Thinking | None
) -> None:
    pieces = read(reader_of(format, thinking=thinking), [text])

    at, gaps = 0, []
    for piece in pieces:
        if isinstance(piece, Text | Reasoning):
            assert piece.start >= at
            assert text[piece.start : piece.start + len(piece.text)] == piece.text
            gaps.append(text[at : piece.start])
            at = piece.start + len(piece.text)
    gaps.append(text[at:])
    num_calls = sum(isinstance(piece, CallBegun) for piece in pieces)
    num_marks = num_calls + (num_calls > 0) + 2 * (thinking is not None)  # behind calls the end may cut another
    assert sum(not gap.isspace() and gap != "" for gap in gaps) <= num_marks


@given(text=MARKED, format=CHOSEN, thinking=THINKING)
def test_no_letter_is_lost_but_in_a_call_that_the_end_cuts_behind_another(
    text: str, format: str | None, thinking: Thinking | None
) -> None:
    pieces = read(reader_of(format, thinking=thinking), [text])

    if any(isinstance(piece, CallBegun) for piece in pieces):
        text = text[
            : max((each.start + len(each.text) for each in pieces if isinstance(each, Text | Reasoning)), default=0)
        ]
    kept = "".join(getattr(piece, "text", "") for piece in pieces)
    marked = "".join(re.findall(r'"[^"]*"|<\|channel\|>.*?<\|message\|>|<\|start\|>.*?<\|message\|>', text, re.DOTALL))
    assert kept.count("日") >= text.count("日") - marked.count("日")


@given(text=MARKED, format=MARKING_CALLS)
def test_an_answer_without_calls_is_its_text(text: str, format: str | None) -> None:
    pieces = read(reader_of(format), [text])

    if not any(isinstance(piece, CallBegun) for piece in pieces):
        assert pieces == ([Text(text)] if text else [])


@pytest.mark.parametrize(
    ("text", "begun", "want"),
    [
        ("<think>\nhm\n\n so\n</think>\n\nyes\n", False, [Reasoning("hm\n\n so"), Text("yes\n")]),
        (" <think>hm</think>yes", False, [Reasoning("hm"), Text("yes")]),
        ("hm\n</think>\n\nyes", True, [Reasoning("hm"), Text("yes")]),
        ("<think>hm</think>yes", True, [Reasoning("hm"), Text("yes")]),
        ("<think>\n\n</think>\n\nyes", False, [Text("yes")]),
        ("<think>hm </thi", False, [Reasoning("hm </thi")]),
        ("hm \n", True, [Reasoning("hm \n")]),
        ("  no <think>hm</think>", False, [Text("  no <think>hm</think>")]),
        ("<thin", False, [Text("<thin")]),
        ("hm</think>no</think>", True, [Reasoning("hm"), Text("no</think>")]),
        ("", True, []),
    ],
)
def test_reasoning_comes_before_the_answer(text: str, begun: bool, want: list[Piece]) -> None:
    assert read(reader_of(None, thinking=replace(TAGS, begun=begun)), text) == want


def test_calls_are_read_behind_reasoning_and_not_in_it() -> None:
    text = '<think>{"name": "look"}</think>\n{"name": "look"}'

    assert read(reader_of("llama", thinking=TAGS), text) == [Reasoning('{"name": "look"}'), *call(0, "look", "{}")]


def test_what_is_thought_comes_as_it_is_thought() -> None:
    reader = reader_of(None, thinking=TAGS)

    assert reader.feed("<think>a") == (Reasoning("a"),)
    assert reader.feed(" b ") == (Reasoning(" b"),)
    assert reader.feed("</think>") == ()
    assert reader.feed(" c") == (Text("c"),)


def test_ids_are_nine_letters_and_digits_and_never_the_same() -> None:
    ids = {new_call_id() for _ in range(100)}

    assert len(ids) == 100
    assert all(len(id) == 9 and id.isalnum() and id.isascii() for id in ids)
