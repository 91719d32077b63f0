"""Spans of the whole surface, and of a process over a real collector's protocol."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from signal import SIGTERM
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from engine.errors import StepFailed
from engine.request import Request
from server.examples import EXAMPLES
from tests.collector import Collector
from tests.fakes import FakeEngine, Script, make_service
from tests.http.clients import QUIET, client_of
from tests.http.processes import ServerProcess

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
RUNS = [path for path in sorted(EXAMPLES) if "token" not in path]


def brief(_request: Request, _choice: int) -> Script:
    return Script("ok", ends=True)


def wants(path: str, **fields: object) -> dict[str, Any]:
    return {"model": "org/tiny", **EXAMPLES[path][0].body, **fields}


async def spans_of(
    *asked: tuple[str, dict[str, Any], dict[str, str]], engine: FakeEngine | None = None
) -> list[ReadableSpan]:
    """The spans of some requests that were made one after another, and that nothing of them is in the answers."""
    collector, service = Collector(), make_service(engine or FakeEngine(script=brief))
    async with service.background.running(), client_of(service, QUIET, collector.traces) as client:
        for path, body, headers in asked:
            answer = await client.post(path, json=body, headers=headers)
            assert TRACE not in answer.text + str(answer.headers)
    return list(collector.spans)


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [False, True])
async def test_every_endpoint_that_runs_the_model_has_its_operation_and_events(stream: bool) -> None:
    spans = await spans_of(*((path, wants(path, stream=stream), TRACED) for path in RUNS))

    assert [span.name for span in spans] == [f"POST {path.removeprefix('/v1')}" for path in RUNS]
    for span in spans:
        told = dict(span.attributes or {})
        assert told["gen_ai.operation.name"] in ("chat", "text_completion", "embeddings")
        assert told["gen_ai.request.model"] == "org/tiny"
        assert told["gen_ai.usage.input_tokens"]
        assert span.context is not None
        assert f"{span.context.trace_id:032x}" == TRACE
        assert span.status.status_code is StatusCode.UNSET
        assert {"admitted", "ended"} <= {event.name for event in span.events}


@pytest.mark.anyio
async def test_a_stream_that_fails_is_an_error_and_a_refusal_is_none() -> None:
    failing = Script(failure=StepFailed(request_id="r", cause="any"), failure_at=2)
    body = wants("/v1/completions", stream=True)

    failed, refused = await spans_of(
        ("/v1/completions", body, {}),
        ("/v1/completions", {**body, "model": "nope"}, {}),
        engine=FakeEngine(script=lambda _request, _choice: failing),
    )

    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {})["error.type"] == "step_failed"
    assert refused.status.status_code is StatusCode.UNSET
    assert dict(refused.attributes or {})["tidemark.error_code"] == "model_not_found"


@pytest.mark.anyio
async def test_what_runs_in_the_background_is_one_span_over_all_of_it() -> None:
    [span] = await spans_of(("/v1/responses", wants("/v1/responses", background=True, store=True), TRACED))

    told = dict(span.attributes or {})
    assert (told["tidemark.outcome"], told["tidemark.background"]) == ("finished", True)
    assert told["gen_ai.usage.output_tokens"]


@pytest.mark.anyio
async def test_probes_have_no_spans() -> None:
    collector = Collector()

    async with client_of(make_service(), QUIET, collector.traces) as client:
        for path in ("/health", "/ready", "/metrics", "/v1/models"):
            await client.get(path)

    assert [span.name for span in collector.spans] == ["GET /models"]


@contextmanager
def collecting() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A collector that takes spans over HTTP, its URL, and what it has taken."""
    taken: list[ExportTraceServiceRequest] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            taken.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # its base's
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", taken
        finally:
            server.shutdown()
            thread.join()


def test_a_process_that_ends_has_sent_its_spans_and_its_lines_name_their_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with collecting() as (url, taken):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")  # only the end sends
        with ServerProcess("tests.http.scripted", "--otel", "--log-format", "json") as server:
            with server.ready_client() as client:
                body = {"model": "scripted", "prompt": "hi", "max_tokens": 3}
                assert client.post("/v1/completions", json=body, headers=TRACED).status_code == 200
            server.send(SIGTERM)
            code = server.exit_code()
            lines = [json.loads(line) for line in server.lines]

    [request] = [line for line in lines if line["event"] == "request"]
    [part] = taken[0].resource_spans
    [span] = part.scope_spans[0].spans
    assert code == 0
    assert request["trace_id"] == span.trace_id.hex() == TRACE
    assert {each.key: each.value.string_value for each in part.resource.attributes}["service.name"] == "mine"
    assert [event.name for event in span.events] == ["admitted", "first_token", "ended"]


def test_a_process_whose_collector_is_away_serves_says_so_once_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with ServerProcess("tests.http.scripted", "--otel", "--log-format", "json") as server:
        with server.ready_client() as client:
            body = {"model": "scripted", "prompt": "hi", "max_tokens": 3}
            for _ in range(3):
                assert client.post("/v1/completions", json=body).status_code == 200
        server.send(SIGTERM)
        code = server.exit_code()
        lines = [json.loads(line) for line in server.lines]

    assert code == 0
    assert len([line for line in lines if line["level"] in ("warning", "error")]) <= 1
    assert lines[-1]["event"] == "stopped"
