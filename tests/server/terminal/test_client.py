import socket

import pytest

from server.terminal.client import ChatError, Client, NoServer, Refused
from server.terminal.events import Received
from tests.server.terminal.scripted import MODELS, answer, as_json, error, events, serving

BODY = {"model": "m", "messages": []}


def test_the_models_that_are_served_are_listed() -> None:
    with serving(MODELS) as server:
        assert Client(server.url).models() == ["org/tiny", "gpt-4o"]

    [asked] = server.asked
    assert asked.line == "GET /v1/models HTTP/1.1"
    assert "authorization" not in asked.headers


@pytest.mark.parametrize("path", ["/base", "/base/", "/base/v1", "/base/v1/"])
def test_an_address_may_have_a_path_with_or_without_the_version(path: str) -> None:
    with serving(MODELS) as server:
        Client(server.url + path).models()

    assert server.asked[0].line == "GET /base/v1/models HTTP/1.1"


def test_a_key_is_sent() -> None:
    with serving(MODELS) as server:
        Client(server.url, "secret").models()

    assert server.asked[0].headers["authorization"] == "Bearer secret"


def test_a_question_is_answered_by_events() -> None:
    with serving(answer("id: a:0\ndata: {}\n\n")) as server, Client(server.url).ask(BODY) as got:
        assert list(got) == [Received("{}", "a:0")]

    [asked] = server.asked
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.body == BODY
    assert "last-event-id" not in asked.headers


def test_the_rest_of_an_answer_is_asked_for_by_its_last_event() -> None:
    with serving(answer(events("a"))) as server, Client(server.url).ask(BODY, after="a:7") as got:
        list(got)

    assert server.asked[0].headers["last-event-id"] == "a:7"


def test_what_the_server_refuses_is_told_in_its_words() -> None:
    with (
        serving(error("too hot", status="400 Bad Request", code="x")) as server,
        pytest.raises(Refused, match="too hot") as refused,
        Client(server.url).ask(BODY),
    ):
        pass

    assert (refused.value.status, refused.value.code) == (400, "x")


@pytest.mark.parametrize("code", [[1], {}, 5])
def test_a_code_that_is_no_name_is_none(code: object) -> None:
    said = as_json({"error": {"message": "no", "code": code}}, status="503 X")
    with serving(said) as server, pytest.raises(Refused, match="no") as refused:
        Client(server.url).models()

    assert refused.value.code is None


@pytest.mark.parametrize(
    "said", [error("\x1b[2J\x9b", status="400 X"), answer("", status="418 \x1b[2J"), b"SSH-2.0-\x1b[2J\r\n"]
)
def test_an_error_in_a_servers_words_is_one_plain_line(said: bytes) -> None:
    with serving(said) as server, pytest.raises(ChatError) as told:
        Client(server.url).models()

    assert str(told.value).isprintable()


def test_a_models_name_does_not_drive_the_terminal() -> None:
    with serving(as_json({"data": [{"id": "\x1b[2Jtiny"}]})) as server:
        assert Client(server.url).models() == ["[2Jtiny"]


@pytest.mark.parametrize("body", ["[" * 50_000, "<html>", '{"error": "x"}', "[]", '{"error": {}}'])
def test_another_servers_error_is_told_by_its_status(body: str) -> None:
    with serving(answer(body, status="502 Bad Gateway")) as server, pytest.raises(Refused, match="502 Bad Gateway"):
        Client(server.url).models()


def test_who_has_no_key_is_told_how_to_give_one() -> None:
    with serving(error("no", status="401 Unauthorized")) as server, pytest.raises(Refused, match="--api-key"):
        Client(server.url).models()


def test_nobody_there_is_told_with_the_address() -> None:
    with serving() as server:
        pass

    with pytest.raises(NoServer, match=rf"{server.url} \(connection refused\)"):
        Client(server.url).models()


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-x\r\n"])
def test_who_does_not_speak_http_is_no_server(said: bytes) -> None:
    with serving(said) as server, pytest.raises(NoServer, match=server.url):
        Client(server.url).models()


@pytest.mark.parametrize("body", [[], {"data": [{}]}, {"data": 5}, {"data": []}])
def test_who_lists_no_models_does_not_speak_this_api(body: object) -> None:
    with serving(as_json(body)) as server, pytest.raises(NoServer, match="does not speak"):
        Client(server.url).models()


def test_a_list_that_is_cut_is_no_answer() -> None:
    with serving(answer('{"data"', cut=True)) as server, pytest.raises(NoServer):
        Client(server.url).models()


class Reset:
    """A connection that is reset within its answer, and the answer."""

    status = 200

    def __init__(self, _host: str, _port: int, *, timeout: float) -> None:
        self.sock = socket.socket()
        self.timeout = timeout
        self.said = [b"data: whole\n", b"\n"]

    def connect(self) -> None:
        pass

    def request(self, *_request: object) -> None:
        pass

    def getresponse(self) -> "Reset":
        return self

    def readline(self) -> bytes:
        if not self.said:
            raise ConnectionResetError
        return self.said.pop(0)

    def close(self) -> None:
        self.sock.close()


def test_a_connection_that_is_lost_ends_the_events_that_came() -> None:
    client = Client("http://host")
    client._make = Reset  # type: ignore[assignment]  # as much of a connection as is used

    with client.ask(BODY) as got:
        assert list(got) == [Received("whole")]


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://host:port", "http://host:99999", "http://h:0"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        Client(url)


def test_an_address_is_shown_without_the_password_in_it() -> None:
    assert Client("https://me:secret@host:1/v1").url == "https://host:1"


def test_a_server_is_watched_by_events_with_names() -> None:
    stream = "event: snapshot\ndata: {}\n\nevent: end\ndata: x\n\ndata: y\n\n"

    with serving(answer(stream)) as server, Client(server.url).watch(0.25) as got:
        assert list(got) == [Received("{}", name="snapshot"), Received("x", name="end"), Received("y")]

    assert server.asked[0].line == "GET /ledger/events?every=0.25 HTTP/1.1"


@pytest.mark.parametrize(
    ("key", "why"), [(None, "the server asks for a key: give --api-key"), ("k", "the server does not know this key")]
)
def test_whether_a_key_is_missing_or_wrong_is_told(key: str | None, why: str) -> None:
    with serving(error("no", status="401 X")) as server, pytest.raises(Refused, match=why):
        Client(server.url, key).models()


def test_a_request_s_steps_and_a_unit_are_asked_for() -> None:
    with serving(as_json({"sequences": []}), as_json({"unit": 3})) as server:
        client = Client(server.url)
        told = client.steps("a/b 1", after=7), client.unit(3)

    assert told == ({"sequences": []}, {"unit": 3})
    assert [asked.line for asked in server.asked] == [
        "GET /ledger/a%2Fb%201/steps?after=7 HTTP/1.1",
        "GET /ledger/units/3 HTTP/1.1",
    ]


@pytest.mark.parametrize("body", ["", "[]", "{", "[" * 100_000])
def test_what_is_not_told_as_an_object_is_not_this_api(body: str) -> None:
    with serving(answer(body)) as server, pytest.raises(NoServer, match="does not speak this API"):
        Client(server.url).unit(0)
