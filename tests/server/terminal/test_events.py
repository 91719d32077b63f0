import pytest

from server.terminal.events import Received, received


def read(text: str) -> list[Received]:
    return list(received(line.encode() for line in text.splitlines(keepends=True)))


def test_an_event_is_its_data_and_its_id() -> None:
    assert read("id: a:0\ndata: {}\n\ndata:x\n\n") == [Received("{}", "a:0"), Received("x")]


def test_comments_and_other_fields_are_no_events() -> None:
    assert read(": keep-alive\n\nretry: 5\ndata: x\n\n\n\n") == [Received("x")]


def test_a_name_is_that_of_one_event() -> None:
    assert read("event: ping\ndata: x\n\ndata: y\n\n") == [Received("x", name="ping"), Received("y")]


def test_several_lines_of_data_are_one_text() -> None:
    assert read("data: a\ndata: b\n\n") == [Received("a\nb")]


def test_lines_may_end_as_on_other_systems() -> None:
    assert read("data: a\r\n\r\n") == [Received("a")]


@pytest.mark.parametrize("cut", ["data: a", "data: a\n", "data: a\nid: x", ""])
def test_what_a_break_cuts_off_is_no_event(cut: str) -> None:
    assert read(f"data: whole\n\n{cut}") == [Received("whole")]
