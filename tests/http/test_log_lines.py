"""Log lines of the whole surface: exactly one a request, whatever becomes of it, and never a word of its client's."""

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st

from engine.errors import StepFailed
from engine.request import Request
from server.account import Account
from server.examples import EXAMPLES
from server.logs import Log, open_log
from tests.collector import Collector
from tests.fakes import FakeEngine, FakeTokenizer, Script, make_service, make_settings
from tests.http.clients import app_of, client_of, frames_of, listening
from tests.http.test_disconnects import until
from tests.server.asgi import in_pieces

pytestmark = pytest.mark.anyio
Json = dict[str, Any]
CANARY = "c4n4ry"
KEY = "a-key-of-c4n4ry"
PATHS = sorted(EXAMPLES)
RUNNING = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/responses")


class Lines:
    """Everything that this process logs, at any level."""

    def __init__(self, stream: io.StringIO, log: Log) -> None:
        self._stream = stream
        self.log = log

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def all(self) -> list[Json]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def requests(self) -> list[Json]:
        return [line for line in self.all if line["event"] == "request"]


@pytest.fixture
def lines() -> Iterator[Lines]:
    root, ours = logging.getLogger(), logging.getLogger("tidemark")
    uvicorn, levels = logging.getLogger("uvicorn"), (root.level, ours.level, logging.getLogger("uvicorn").level)
    handlers = root.handlers[:]
    stream = io.StringIO()
    yield Lines(stream, open_log(level="debug", stream=stream, as_json=True))
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    for logger, level in zip((root, ours, uvicorn), levels, strict=True):
        logger.setLevel(level)


def brief(_request: Request, _choice: int) -> Script:
    return Script("ok", ends=True)


def wants(path: str, **fields: object) -> Json:
    return {"model": "org/tiny", **EXAMPLES[path][0].body, **fields}


Case = tuple[str, str, bytes]
CASES: list[Case] = [
    *(
        ("POST", path, json.dumps({"model": "org/tiny", **example.body, **more}).encode())
        for path in PATHS
        for example in EXAMPLES[path]
        for more in (
            {},
            {"stream": True},
            {"model": "nope"},
            {"temperature": "hot"},
            {"background": True, "store": True},
        )
    ),
    *(("POST", path, content) for path in PATHS for content in (b"", b"[]", b"{", b"{}")),
    *(("GET", path, b"") for path in ("/", "/v1/models", "/v1/models/org/tiny", "/v1/models/nope", "/openapi.json")),
    *(("GET", path, b"") for path in ("/health", "/ready", "/metrics", "/version", "/ledger", "/docs", "/nowhere")),
    *(("GET", path, b"") for path in ("/v1/chat/completions", "/v1/responses/resp_no", "/ledger/no")),
    *(("DELETE", "/v1/responses/resp_no", b""), ("OPTIONS", "/v1/completions", b""), ("PUT", "/v1/models", b"")),
]


def test_any_request_of_any_endpoint_is_exactly_one_line() -> None:
    stream = io.StringIO()
    logger = logging.Logger("tidemark", logging.DEBUG)
    logger.addHandler(logging.StreamHandler(stream))
    service = make_service(FakeEngine(script=brief), settings=make_settings(api_keys=(KEY,)))
    app = app_of(service, Log(logger))

    async def ask(asked: list[tuple[Case, bool]]) -> None:
        async with (
            service.background.running(),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
        ):
            for (method, path, content), has_key in asked:
                headers = {"authorization": f"Bearer {KEY}"} if has_key else {}
                await client.request(method, path, content=content, headers=headers)

    @given(st.lists(st.tuples(st.sampled_from(CASES), st.booleans()), min_size=1, max_size=4))
    def check(asked: list[tuple[Case, bool]]) -> None:
        stream.truncate(stream.seek(0))

        asyncio.run(ask(asked))

        assert stream.getvalue().splitlines() == ["request"] * len(asked)

    check()


async def test_a_whole_answer_is_told_with_everything_that_is_known_of_it(lines: Lines) -> None:
    service = make_service(FakeEngine(script=brief), settings=make_settings(api_keys=("other", KEY)))

    async with client_of(service, lines.log) as client:
        body = wants("/v1/chat/completions", n=2)
        answer = await client.post(
            "/v1/chat/completions", json=body, headers={"x-api-key": KEY, "x-request-id": "mine"}
        )

    [line] = lines.all
    assert line.pop("time")
    assert line.pop("total_seconds") >= 0
    assert line == {
        "level": "info",
        "event": "request",
        "method": "POST",
        "path": "/v1/chat/completions",
        "endpoint": "/chat/completions",
        "status": 200,
        "request_id": "mine",
        "key": 2,
        "outcome": "finished",
        "model": "org/tiny",
        "stream": False,
        "response_id": answer.json()["id"],
        "prompt_tokens": answer.json()["usage"]["prompt_tokens"],
        "output_tokens": answer.json()["usage"]["completion_tokens"],
        "choices": 2,
        "cached_tokens": 0,
        "drafts_kept": 6,
        "drafts_rejected": 4,
        "preemptions": 2,
        "finish_reason": "stop",
        "queue_seconds": 1.0,
        "first_token_seconds": 1.5,
        "gap_seconds": 0.5,
    }


async def test_a_body_of_several_prompts_is_one_line(lines: Lines) -> None:
    service = make_service(FakeEngine(script=brief))

    async with client_of(service, lines.log) as client:
        await client.post("/v1/completions", json=wants("/v1/completions", prompt=["a", "bc", "d"], n=2, stream=True))
        await client.post("/v1/embeddings", json={"model": "gpt-4o", "input": ["a", "bc", "d"]})

    [completion, embedding] = lines.all
    assert (completion["choices"], completion["prompt_tokens"], completion["stream"]) == (6, 4, True)
    assert (embedding["choices"], embedding["prompt_tokens"], embedding["output_tokens"]) == (3, 4, 0)
    assert (embedding["endpoint"], embedding["model"]) == ("/embeddings", "gpt-4o")


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b'{"model": "org/tiny"}', 400, "invalid_request_error"),
        (b'{"model": "nope", "messages": [{"role": "user", "content": "a"}]}', 404, "model_not_found"),
    ],
)
async def test_a_refusal_has_its_code(lines: Lines, content: bytes, status: int, code: str) -> None:
    async with client_of(make_service(), lines.log) as client:
        await client.post("/v1/chat/completions", content=content)

    [line] = lines.all
    assert (line["status"], line["outcome"], line["error_code"]) == (status, "refused", code)


@pytest.mark.parametrize("path", RUNNING)
async def test_a_body_over_the_limit_is_counted_as_refused_with_and_without_its_length(lines: Lines, path: str) -> None:
    service = make_service(settings=make_settings(max_body_bytes=1024))

    async with client_of(service, lines.log) as client:
        declared = await client.post(path, content=b"x" * 2000)
        counted = await client.post(path, content=in_pieces(b"x" * 600, b"x" * 600))

    assert (declared.status_code, counted.status_code) == (413, 413)
    assert [(line["outcome"], line["error_code"]) for line in lines.all] == [("refused", "request_too_large")] * 2
    assert {outcome: count for (_, outcome), count in service.requests.view().totals.items() if count} == {"refused": 2}


async def test_a_stream_that_fails_has_the_code_of_its_last_event(lines: Lines) -> None:
    failing = Script(failure=StepFailed(request_id="r", cause=CANARY), failure_at=2)
    service = make_service(FakeEngine(script=lambda _request, _choice: failing))

    async with client_of(service, lines.log) as client:
        await client.post("/v1/completions", json=wants("/v1/completions", stream=True))

    [line] = lines.all
    assert (line["status"], line["outcome"], line["error_code"]) == (200, "failed", "step_failed")


class Gated:
    """A server whose model says two tokens, and the others once the gate is open."""

    def __init__(self, lines: Lines, **server: object) -> None:
        self.gate = asyncio.Event()
        self.engine = FakeEngine(script=lambda _request, _choice: Script(gate=self.gate, gate_at=2))
        self.service = make_service(self.engine, settings=make_settings(**server))
        self._lines = lines

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        async with listening(self.service, self._lines.log) as url, httpx.AsyncClient(base_url=url) as client:
            yield client

    async def leave(self, client: httpx.AsyncClient) -> str:
        """Read two tokens of a stream and leave; the last event's id."""
        received = ""
        async with client.stream("POST", "/v1/completions", json=wants("/v1/completions", stream=True)) as answer:
            async for part in answer.aiter_text():
                received += part
                if received.count("\n\n") >= 2:
                    break
        return frames_of(received)[1]["id"]


async def test_a_client_that_leaves_and_comes_back_is_two_requests_and_two_lines(lines: Lines) -> None:
    case = Gated(lines)

    async with case.client() as client:
        last = await case.leave(client)
        await until(lambda: len(lines.requests) == 1)
        case.gate.set()
        await client.post("/v1/completions", headers={"last-event-id": last})
        await client.post("/v1/completions", headers={"last-event-id": last})

    first, second, third = lines.all
    assert (first["outcome"], first["complete"], first["output_tokens"]) == ("parked", False, 2)
    assert (second["outcome"], second["resumed"], second["output_tokens"]) == ("finished", True, 16)
    assert second["response_id"] == first["response_id"] == last.rpartition(":")[0]
    assert third["resumed"] is True
    assert "output_tokens" not in third


async def test_a_stream_that_is_taken_over_leaves_its_counts_to_the_one_that_took_it(lines: Lines) -> None:
    case = Gated(lines)

    stream = wants("/v1/completions", stream=True)
    async with case.client() as client, client.stream("POST", "/v1/completions", json=stream) as answer:
        begun = frames_of(await anext(answer.aiter_text()))
        async with asyncio.TaskGroup() as group:
            headers = {"last-event-id": begun[0]["id"]}
            other = group.create_task(client.post("/v1/completions", headers=headers))
            await until(lambda: len(lines.requests) == 1)
            case.gate.set()
        assert other.result().status_code == 200

    first, second = lines.requests
    assert (first["moved"], first["complete"]) == (True, False)
    assert not {"outcome", "output_tokens"} & set(first)
    assert (second["outcome"], second["output_tokens"]) == ("finished", 16)


async def test_a_client_that_leaves_for_good_is_one_line(lines: Lines) -> None:
    case = Gated(lines, resume_seconds=0)

    async with case.client() as client:
        await case.leave(client)
        await until(lambda: len(lines.requests) == 1)

    [line] = lines.all
    assert (line["outcome"], line["complete"], line["output_tokens"]) == ("aborted", False, 2)


async def test_what_runs_in_the_background_is_one_line_once_it_has_ended(lines: Lines) -> None:
    case = Gated(lines)

    async with case.client() as client:
        asked = await client.post("/v1/responses", json=wants("/v1/responses", background=True, store=True))
        id = asked.json()["id"]
        await client.get(f"/v1/responses/{id}")
        [look] = lines.requests
        case.gate.set()
        await until(lambda: len(lines.requests) == 2)

    [_, line] = lines.all
    assert look["endpoint"] == "/responses/{id}"
    assert "outcome" not in look
    assert (line["outcome"], line["background"], line["response_id"]) == ("finished", True, id)
    assert (line["status"], line["output_tokens"] > 2) == (200, True)


async def test_what_the_background_refuses_is_one_line(lines: Lines) -> None:
    service = make_service(FakeEngine(script=brief))

    async with client_of(service, lines.log) as client:  # nobody runs what is in the background
        await client.post("/v1/responses", json=wants("/v1/responses", background=True, store=True))

    [line] = lines.all
    assert (line["status"], line["error_code"]) == (503, "draining")


async def test_probes_are_told_at_the_debug_level(lines: Lines) -> None:
    async with client_of(make_service(), lines.log) as client:
        for path in ("/health", "/ready", "/metrics", "/version"):
            await client.get(path)

    assert [line["level"] for line in lines.all] == ["debug", "debug", "debug", "info"]


# -- words that must not be told --------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": CANARY, "description": CANARY, "parameters": {"title": CANARY}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": CANARY, "schema": {"enum": [CANARY]}}}
POISONS: list[Json] = [
    {"metadata": {CANARY: CANARY}, "user": CANARY, "safety_identifier": CANARY, "prompt_cache_key": CANARY},
    {"stop": [CANARY], "cache_salt": CANARY, "prediction": {"type": "content", "content": CANARY}},
    {"messages": [{"role": "user", "content": CANARY, "name": CANARY}], "instructions": CANARY, "system": CANARY},
    {"messages": [{"role": CANARY, "content": CANARY}], "input": CANARY, "prompt": CANARY},
    {"input": [{"role": "user", "content": [{"type": CANARY, "text": CANARY}]}], "prompt": [CANARY, CANARY]},
    {"tools": [TOOL, {"type": CANARY}, {"type": "custom", "custom": {"name": CANARY}}]},
    {"tools": [TOOL | {"name": CANARY, "input_schema": {CANARY: CANARY}}], "tool_choice": {CANARY: CANARY}},
    {"response_format": SCHEMA},
    {"response_format": {"type": CANARY}, "text": {"format": {"type": CANARY}}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": CANARY}}}},
    {"guided_regex": f"({CANARY}", "previous_response_id": CANARY, "chat_template": CANARY},
    {"logit_bias": {CANARY: 1}, "temperature": CANARY, CANARY: CANARY},
    {"model": CANARY},
    {"max_tokens": CANARY, "n": CANARY},
]
HEADERS = {
    "authorization": f"Bearer {KEY}",
    "x-request-id": f"not sane {CANARY}",
    "user-agent": CANARY,
    "cookie": CANARY,
    "referer": CANARY,
    "origin": f"https://{CANARY}.example",
    "traceparent": CANARY,
    f"x-{CANARY}": CANARY,
}


@pytest.mark.parametrize("path", PATHS)
async def test_no_line_has_a_word_of_the_clients(lines: Lines, path: str) -> None:
    service = make_service(FakeEngine(script=brief), settings=make_settings(api_keys=(KEY,)))
    bodies = [
        {"model": "org/tiny", **example.body, **poison, "stream": stream}
        for example in EXAMPLES[path]
        for poison in POISONS
        for stream in (False, True)
    ]

    collector = Collector()

    async with service.background.running(), client_of(service, lines.log, collector.traces) as client:
        for body in bodies:
            await client.post(f"{path}?{CANARY}={CANARY}", json=body, headers=HEADERS)
        await client.post(path, json=bodies[0], headers=HEADERS | {"last-event-id": f"{CANARY}:1"})
        await client.post(path, json=bodies[0], headers=HEADERS | {"authorization": f"Bearer {CANARY}"})
        await client.post(path, content=CANARY.encode(), headers=HEADERS | {"content-type": f"text/{CANARY}"})

    assert len(lines.requests) == len(bodies) + 3
    assert 200 in {line["status"] for line in lines.requests}
    assert CANARY not in lines.text
    assert len(collector.spans) == len(lines.requests)
    assert CANARY not in "".join(span.to_json() for span in collector.spans)


def at_once(_request: Request, _choice: int) -> Script:
    raise RuntimeError(CANARY)


def later(_request: Request, _choice: int) -> Script:
    return Script(failure=StepFailed(request_id="r", cause=CANARY), failure_at=1)


class Rendering(Account):
    """An account that fails as text goes by it, with the text in its words."""

    def count(self, delta: object) -> None:
        """Say it."""
        raise RuntimeError(CANARY)


@pytest.mark.parametrize("script", [at_once, later, None])
async def test_no_line_has_the_words_of_an_error_that_a_request_provoked(
    lines: Lines, script: Callable[[Request, int], Script] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is None:
        monkeypatch.setattr(Account, "count", Rendering.count)
    service = make_service(FakeEngine(script=script or brief))
    paths = [path for path in PATHS if "token" not in path]

    async with service.background.running(), client_of(service, lines.log) as client:
        for path in paths:
            await client.post(path, json=wants(path))
            await client.post(path, json=wants(path, stream=True))
            await client.post(path, json=wants(path, background=True, store=True))

    assert len(lines.requests) == 3 * len(paths)
    assert len(lines.all) > len(lines.requests) or script is later
    assert CANARY not in lines.text


async def test_no_line_has_the_words_of_a_tokenizer_that_fails(lines: Lines) -> None:
    service = make_service(tokenizer=FakeTokenizer(failure=RuntimeError(CANARY)))

    async with client_of(service, lines.log) as client:
        for path in PATHS:
            await client.post(path, json=wants(path))

    assert len(lines.requests) == len(PATHS)
    assert CANARY not in lines.text
