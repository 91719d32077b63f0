import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from deploy.image import asked
from deploy.image.asked import LONG, Address, claims, ready
from deploy.image.engine import Config
from tests.deploy.image.fakes import CONFIG, CONFINED, FakeContainer

METRICS = 'tidemark_requests_total{outcome="finished"} 1.0\ntidemark_requests_running{model="m"} 1.0\n'
GETS = {"/": "<!doctype html><html>", "/ready": "{}", "/v1/models": '{"data": [{"id": "m"}]}', "/metrics": METRICS}


class Handler(BaseHTTPRequestHandler):
    """Answers as a server would: each chat with as many tokens as it asks for, or fewer."""

    gets: Mapping[str, str] = GETS
    most = LONG

    def do_GET(self) -> None:
        body = self.gets.get(self.path)
        self._send(404 if body is None else 200, body or "none")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        tokens = min(asked["max_tokens"], self.most)
        said = {"choices": [{"message": {"content": "A tide."}}], "usage": {"completion_tokens": tokens}}
        self._send(200, json.dumps(said))

    def _send(self, status: int, body: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(gets: Mapping[str, str] = GETS, *, most: int = LONG) -> Iterator[Address]:
    handler = type("H", (Handler,), {"gets": gets, "most": most})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Address(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def missed(address: Address, container: FakeContainer, config: Config = CONFIG) -> list[str]:
    return [claim.text for claim in claims(container, config, address) if not claim.held]


def test_all_claims_hold_of_an_image_as_it_should_be() -> None:
    container = FakeContainer()

    with serving() as address:
        found = list(claims(container, CONFIG, address))

    assert all(claim.held for claim in found), "\n".join(map(str, found))
    assert str(found[0]) == "held: it answers 'What is a tide?': 'A tide.'"
    assert container.stopped


@pytest.mark.parametrize(
    ("begin", "answer", "text"),
    [
        ("python -c health", (1, "", ""), "its health check passes"),
        ("cat /proc/1/status", (0, "Uid:\t0\nCapEff:\t0000\n", ""), "process 1 is the server, without root"),
        ("cat /proc/1/status", (0, "Uid:\t10001\nCapEff:\t0080\n", ""), "process 1 is the server, without root"),
        ("cat /proc/1/status", (1, "", "gone"), "process 1 is the server, without root"),
        ("cat /proc/1/cmdline", (0, "sh\0-c", ""), "process 1 is the server, without root"),
        ("find", (0, "/tmp/core\n", ""), "serving has written no file"),
        ("tidemark top --once", (1, "", "no module rich"), "`tidemark top --once` runs in it"),
        ("touch /etc/written", (0, "", ""), "it can't write to /etc"),
        ("touch /cache/written", (1, "", "no"), "it may write to /cache"),
    ],
)
def test_a_container_that_is_not_confined_is_told(begin: str, answer: tuple[int, str, str], text: str) -> None:
    with serving() as address:
        (found,) = missed(address, FakeContainer({**CONFINED, begin: answer}))

    assert found.startswith(text)


@pytest.mark.parametrize("code", [143, None])
def test_a_container_that_does_not_end_with_0_is_told(code: int | None) -> None:
    with serving() as address:
        assert missed(address, FakeContainer(code=code)) == ["SIGTERM ends it with 0"]


def test_an_answer_that_the_end_cuts_is_told() -> None:
    with serving(most=LONG - 1) as address:
        assert missed(address, FakeContainer()) == ["the answer that it was making comes whole"]


@pytest.mark.parametrize("wrong", [{"volumes": frozenset({"/cache"})}, {"health": ()}])
def test_an_image_without_a_volume_or_a_health_check_is_told(wrong: Mapping[str, frozenset[str]]) -> None:
    with serving() as address:
        assert len(missed(address, FakeContainer(), replace(CONFIG, **wrong))) == 1  # type: ignore[arg-type]  # one each


def test_a_server_without_its_page_is_told() -> None:
    with serving({**GETS, "/": "none"}) as address:
        assert missed(address, FakeContainer()) == ["it shows its page"]


def test_a_tool_is_told_by_the_first_line_that_it_prints() -> None:
    with serving() as address:
        found = list(map(str, claims(FakeContainer(), CONFIG, address)))

    assert "held: `tidemark top --once` runs in it: m, open" in found


def test_a_server_that_counts_nothing_is_told() -> None:
    with serving({**GETS, "/metrics": ""}) as address:
        assert missed(address, FakeContainer()) == ["its metrics count the answer"]


@pytest.mark.parametrize(("gets", "held"), [(GETS, True), ({}, False)])
def test_it_is_waited_for_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, gets: Mapping[str, str], held: bool
) -> None:
    monkeypatch.setattr(asked, "READY_SECONDS", 0.3)

    with serving(gets) as address:
        assert ready(address, FakeContainer()).held is held


def test_a_container_that_has_ended_is_not_waited_for() -> None:
    container = FakeContainer()
    container.stop(1)

    with serving({}) as address:
        found = ready(address, container)  # READY_SECONDS would outlast any test

    assert not found.held
    assert found.seen.startswith("it ended after ")


def test_where_nobody_answers_the_status_is_0() -> None:
    with serving() as address:
        pass

    status, reason = address.get("/ready")

    assert status == 0
    assert "refused" in reason
