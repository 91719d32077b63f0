from server.events import DONE, Event, encode, event


def test_an_event_is_one_line_of_json_behind_its_id() -> None:
    assert encode(event({"a": "ü\n"}), "answer:7") == b'id: answer:7\ndata: {"a":"\xc3\xbc\\n"}\n\n'


def test_a_name_has_a_line_of_its_own() -> None:
    assert encode(event([], "ping"), "answer:0") == b"id: answer:0\nevent: ping\ndata: []\n\n"


def test_an_event_that_nobody_comes_back_to_has_no_id() -> None:
    assert encode(event([], "ping"), None) == b"event: ping\ndata: []\n\n"


def test_the_mark_of_the_end_is_an_event_without_json() -> None:
    assert encode(DONE, "answer:9") == b"id: answer:9\ndata: [DONE]\n\n"
    assert Event(b"[DONE]") == DONE
