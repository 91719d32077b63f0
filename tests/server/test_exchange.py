"""Request ids, timing, the last resort and the access line."""

import io
import logging
import re
from collections.abc import Iterator

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from server.exchange import Exchange, Exchanges
from server.logs import KeyValueFormatter, Log
from server.recorder import Endpoint
from server.tally import Tally
from tests.server.asgi import Endpoint as App, client_of, hello

pytestmark = pytest.mark.anyio


class Lines:
    """A log that a test reads."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        handler = logging.StreamHandler(self._stream)
        handler.setFormatter(KeyValueFormatter())
        logger = logging.Logger("tidemark", logging.INFO)
        logger.addHandler(handler)
        self.log = Log(logger)

    @property
    def written(self) -> list[str]:
        return self._stream.getvalue().splitlines()


@pytest.fixture
def lines() -> Lines:
    return Lines()


def ticking() -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += 0.25


def around(app: App, lines: Lines) -> httpx.AsyncClient:
    clock = ticking()
    return client_of(Exchanges(app, log=lines.log, clock=lambda: next(clock)))


async def test_a_sane_request_id_is_kept(lines: Lines) -> None:
    async with around(hello, lines) as client:
        answer = await client.get("/", headers={"x-request-id": "my-id.7"})

    assert answer.headers["x-request-id"] == answer.headers["request-id"] == "my-id.7"


@pytest.mark.parametrize("given", ["", "has space", "x" * 129, "\u00e9", "a\tb"])
async def test_any_other_request_id_is_replaced(lines: Lines, given: str) -> None:
    async with around(hello, lines) as client:
        answer = await client.get("/", headers={b"x-request-id": given.encode()})

    assert re.fullmatch(r"req_[0-9a-f]{32}", answer.headers["x-request-id"])


async def test_the_application_sees_the_id(lines: Lines) -> None:
    seen: list[str] = []

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["state"]["request_id"])
        await hello(scope, receive, send)

    async with around(look, lines) as client:
        await client.get("/", headers={"x-request-id": "seen"})

    assert seen == ["seen"]


async def test_an_answer_says_how_long_it_took(lines: Lines) -> None:
    async with around(hello, lines) as client:
        answer = await client.get("/")

    assert answer.headers["openai-processing-ms"] == "250"


async def test_a_request_is_one_line_with_what_its_route_counted(lines: Lines) -> None:
    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = scope["state"]["exchange"]
        assert isinstance(exchange, Exchange)
        exchange.tally = Tally(Endpoint.COMPLETIONS, model="m", prompt_tokens=12, output_tokens=3)
        scope["state"]["key_number"] = 2
        await hello(scope, receive, send)

    async with around(count, lines) as client:
        await client.post("/v1/completions?key=secret", headers={"x-request-id": "a"}, content=b"secret")

    (line,) = lines.written
    assert line.split(" ", 1)[1].startswith(
        "level=info event=request method=POST path=/v1/completions status=200 request_id=a key=2 outcome=parked"
        " model=m prompt_tokens=12 output_tokens=3 choices=0 cached_tokens=0"
    )
    assert line.endswith(" total_seconds=0.5")
    assert "secret" not in line


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/v1/health"])
async def test_probes_are_not_logged(lines: Lines, path: str) -> None:
    async with around(hello, lines) as client:
        await client.get(path)

    assert lines.written == []


async def test_an_unexpected_error_is_a_500_in_the_envelope_and_a_traceback_in_the_log(lines: Lines) -> None:
    words = "detail that is nobody's business"

    async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError(words)

    async with around(fail, lines) as client:
        answer = await client.get("/", headers={"x-request-id": "a"})

    assert answer.status_code == 500
    assert answer.headers["x-request-id"] == "a"
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert "detail" not in answer.text
    failure, request = lines.written
    assert "event=request_failed request_id=a traceback=" in failure
    assert "RuntimeError" in failure
    assert "detail" not in failure
    assert "status=500" in request


async def test_an_error_after_the_answer_has_begun_breaks_the_connection_and_is_logged(lines: Lines) -> None:
    async def fail(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("too late")

    async with around(fail, lines) as client:
        with pytest.raises(RuntimeError, match="too late"):
            await client.get("/")

    (line,) = lines.written
    assert "status=200 complete=False" in line
