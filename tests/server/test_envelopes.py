import pytest

from server.envelopes import envelope, messages_envelope
from server.wire.status import ErrorBody


def body(code: str | None = None) -> ErrorBody:
    return ErrorBody(message="x: is wrong", type="invalid_request_error", param="x", code=code)


@pytest.mark.parametrize("path", ["/v1/messages", "/messages", "/v1/messages/count_tokens", "/v1/messages/nothing"])
def test_errors_of_messages_are_in_anthropics_envelope(path: str) -> None:
    told = envelope({"path": path, "state": {"request_id": "req_1"}}, 404, body())

    assert told == {
        "type": "error",
        "error": {"type": "not_found_error", "message": "x: is wrong"},
        "request_id": "req_1",
    }


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/", "/v1/messagesx", "/v1/v1/messages", "/v1/models/messages"]
)
def test_errors_of_other_paths_are_in_openais(path: str) -> None:
    assert envelope({"path": path}, 404, body()) == {"error": body()}


def test_a_request_without_an_id_has_none() -> None:
    assert envelope({"path": "/messages"}, 400, body()) == messages_envelope(400, body(), request_id=None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (408, "invalid_request_error"),
        (413, "request_too_large"),
        (415, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "overloaded_error"),
    ],
)
def test_each_status_has_its_type(status: int, kind: str) -> None:
    assert messages_envelope(status, body(), request_id=None)["error"]["type"] == kind


def test_a_prompt_that_is_too_long_says_so_in_the_words_that_agents_know() -> None:
    told = messages_envelope(400, body("context_length_exceeded"), request_id=None)

    assert told["error"]["message"] == "prompt is too long: x: is wrong"


@pytest.mark.parametrize(
    ("status", "message", "want"),
    [
        (400, "is wrong", "x: is wrong"),
        (400, "x: is wrong", "x: is wrong"),
        (404, "no such model", "no such model"),
    ],
)
def test_the_field_at_fault_stands_in_front(status: int, message: str, want: str) -> None:
    told = messages_envelope(status, ErrorBody(message=message, type="t", param="x", code=None), request_id=None)

    assert told["error"]["message"] == want


def test_an_error_about_no_field_is_told_as_it_is() -> None:
    told = messages_envelope(400, ErrorBody(message="no JSON", type="t", param=None, code=None), request_id=None)

    assert told["error"]["message"] == "no JSON"
