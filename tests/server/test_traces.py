"""Spans, as a collector gets them: made of what is known of an exchange once it has ended."""

import io
import json
import logging
import time
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import Scope

from engine.course import Course, Event, Moment
from engine.request import Delta, End, FinishReason, Usage
from server.exchange import Exchange
from server.logs import JsonFormatter, Log
from server.recorder import Endpoint, Outcome
from server.tally import Tally
from server.traces import MAX_EVENTS, Watched, open_traces, resource
from tests.collector import Collector

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
EVENTS = (
    *(Event.QUEUED, Event.ADMITTED, Event.PAUSED, Event.RESUMED, Event.PREEMPTED, Event.RESUMED, Event.PAUSED),
    *(Event.PREEMPTED, Event.UNPAUSED, Event.RESUMED, Event.PREEMPTED, Event.PARKED, Event.UNPARKED, Event.ENDED),
)
NAMES = tuple(event.value for event in EVENTS[1:-1])


class Route:
    path = "/v1/completions"


def a_scope(*headers: tuple[str, str], known: bool = True, error_code: str | None = None) -> Scope:
    return {
        "type": "http",
        "method": "POST",
        "path": "/v1/completions",
        "scheme": "http",
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "headers": [(name.encode(), text.encode()) for name, text in headers],
        "state": {} if error_code is None else {"error_code": error_code},
        **({"route": Route()} if known else {}),
    }


def an_exchange(status: int | None = 200, tally: Tally | None = None) -> Exchange:
    return Exchange("r", time.monotonic(), lambda _: None, status=status, complete=True, tally=tally)


class Stream:
    """A request's stream, with what befell its choices."""

    def __init__(self, *courses: Course) -> None:
        self.courses = courses


def a_moment(event: Event, at: float) -> Moment:
    """With what is known of each."""
    match event:
        case Event.ADMITTED:
            return Moment(event, at, cached=3)
        case Event.PREEMPTED:
            return Moment(event, at, reason="room", lost=5, freed=1)
        case _:
            return Moment(event, at)


def a_course(*events: Event, began: float = 0.0, choice: int = 0) -> Course:
    moments = tuple(a_moment(event, began + number) for number, event in enumerate(events))
    return Course(choice, Usage(5, 3, 4), 6, 1, 2, began, began + 1, began + 1.5, began + 3, moments)


def a_tally(*courses: Course, outcome: Outcome | None = Outcome.FINISHED) -> Tally:
    tally = Tally(Endpoint.COMPLETIONS, model="m", stream=True, response_id="cmpl-1", prompt_tokens=5, output_tokens=4)
    tally.outcome = outcome
    tally.follow([Stream(*courses)])
    tally.count(Delta(0, end=End(FinishReason.LENGTH, Usage(5, 3, 4))))
    return tally


def names(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def attributes(span: ReadableSpan) -> dict[str, object]:
    assert span.attributes is not None
    return dict(span.attributes)


def test_a_span_says_what_was_asked_and_what_it_took_in_the_words_of_the_conventions() -> None:
    span = Collector().span_of(
        a_scope(), an_exchange(tally=a_tally(a_course(Event.QUEUED, Event.ADMITTED, Event.ENDED)))
    )

    assert (span.name, span.kind, span.status.status_code) == ("POST /completions", SpanKind.SERVER, StatusCode.UNSET)
    assert attributes(span) == {
        "http.request.method": "POST",
        "http.route": "/completions",
        "http.response.status_code": 200,
        "url.path": "/v1/completions",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "server.address": "127.0.0.1",
        "server.port": 8000,
        "tidemark.request_id": "r",
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "tidemark",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m",
        "gen_ai.response.id": "cmpl-1",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.response.time_to_first_chunk": 1.5,
        "gen_ai.request.stream": True,
        "gen_ai.request.choice.count": 1,
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "tidemark.outcome": "finished",
        "tidemark.preemptions": 2,
        "tidemark.drafts_kept": 6,
        "tidemark.drafts_rejected": 1,
        "tidemark.queue_seconds": 1.0,
        "tidemark.gap_seconds": 0.5,
    }


def test_what_befell_a_request_is_told_in_order_and_at_its_time() -> None:
    began = time.monotonic()
    before = time.time_ns()
    span = Collector().span_of(a_scope(), an_exchange(tally=a_tally(a_course(*EVENTS, began=began - 100))))

    first, second, *rest, last = names(span)
    assert (first, second, last) == ("admitted", "first_token", "ended")
    assert tuple([first, *rest]) == NAMES
    assert abs(span.events[0].timestamp - (before - 99 * 10**9)) < 60 * 10**9
    assert [event.timestamp - span.events[0].timestamp for event in span.events[1:3]] == pytest.approx(
        [0.5e9, 1e9], abs=1e3
    )
    assert dict(next(event.attributes or {} for event in span.events if event.name == "preempted")) == {
        "tidemark.sequence": 0,
        "tidemark.reason": "room",
    }
    assert dict(span.events[-1].attributes or {}) == {
        "tidemark.outcome": "finished",
        "tidemark.output_tokens": 4,
        "tidemark.preemptions": 2,
    }


def test_the_events_of_many_sequences_are_bounded_and_the_first_stay() -> None:
    courses = [a_course(Event.QUEUED, Event.ADMITTED, Event.ENDED, began=float(number)) for number in range(500)]
    span = Collector().span_of(a_scope(), an_exchange(tally=a_tally(*courses)))

    assert len(span.events) == MAX_EVENTS + 1
    assert (names(span)[0], names(span)[-1]) == ("admitted", "ended")
    assert dict(span.events[0].attributes or {}) == {"tidemark.sequence": 0, "tidemark.cached_tokens": 3}


@pytest.mark.parametrize(
    ("status", "code", "outcome", "failed"),
    [
        (200, None, Outcome.FINISHED, False),
        (400, "invalid_json", Outcome.REFUSED, False),
        (429, "rate_limit_exceeded", Outcome.REFUSED, False),
        (200, None, Outcome.ABORTED, False),
        (200, None, None, False),
        (503, "draining", Outcome.REFUSED, True),
        (500, "step_failed", Outcome.FAILED, True),
        (200, "step_failed", Outcome.FAILED, True),
        (None, None, Outcome.ABORTED, True),
    ],
)
def test_a_span_is_an_error_where_the_server_is_at_fault(
    status: int | None, code: str | None, outcome: Outcome | None, failed: bool
) -> None:
    span = Collector().span_of(
        a_scope(error_code=code), an_exchange(status, a_tally(a_course(Event.QUEUED, Event.ADMITTED), outcome=outcome))
    )

    assert (span.status.status_code is StatusCode.ERROR) == failed
    assert attributes(span).get("error.type") == ((code or str(status)) if failed else None)
    assert attributes(span).get("tidemark.error_code") == code


def test_a_path_that_is_not_there_has_no_route_and_no_name() -> None:
    span = Collector().span_of(a_scope(known=False, error_code="not_found"), an_exchange(404))

    assert span.name == "POST"
    assert not {"http.route", "gen_ai.operation.name"} & set(attributes(span))
    assert span.events == ()


# -- whose trace it is ------------------------------------------------------------------------------


def test_a_client_s_trace_goes_on() -> None:
    collector = Collector()
    scope = a_scope(("traceparent", f"00-{TRACE}-{PARENT}-01"), ("tracestate", "a=1"), ("tracestate", "b=2"))

    id = collector.traces.record(scope, an_exchange())

    [span] = collector.spans
    assert id == TRACE
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == PARENT
    assert span.context.trace_state == {"a": "1", "b": "2"}


def test_a_client_that_does_not_keep_its_trace_has_none_here() -> None:
    collector = Collector()

    id = collector.traces.record(a_scope(("traceparent", f"00-{TRACE}-{PARENT}-00")), an_exchange())

    assert (id, list(collector.spans)) == (None, [])


@pytest.mark.parametrize(
    "given",
    [
        ["c4n4ry"],
        [""],
        [f"00-{'0' * 32}-{PARENT}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE}-{PARENT}"],
        [f"ff-{TRACE}-{PARENT}-01"],
        [f"00-{TRACE}-{PARENT}-01-more"],
        [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01"],
    ],
)
def test_a_malformed_parent_is_as_none(given: list[str]) -> None:
    collector = Collector()

    id = collector.traces.record(a_scope(*(("traceparent", text) for text in given)), an_exchange())

    [span] = collector.spans
    assert span.parent is None
    assert id not in (None, TRACE)
    assert "c4n4ry" not in span.to_json()


def test_what_the_sampler_drops_is_not_recorded() -> None:
    collector = Collector(ALWAYS_OFF)

    assert (
        collector.traces.record(a_scope(), an_exchange(tally=a_tally(a_course(Event.QUEUED, Event.ADMITTED)))) is None
    )
    assert collector.spans == ()


# -- to whom it goes --------------------------------------------------------------------------------


def test_spans_are_ours_unless_the_environment_names_us(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource().attributes["service.name"] == "tidemark"

    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")

    assert resource().attributes["service.name"] == "mine"
    assert resource().attributes["deployment.environment.name"] == "test"


class Flaky(SpanExporter):
    """Sends, fails or raises, as told, one after another."""

    def __init__(self, *results: SpanExportResult | Exception) -> None:
        self._results = iter(results)
        self.closed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = next(self._results)
        if isinstance(result, Exception):
            raise result
        return result

    def shutdown(self) -> None:
        self.closed = True


def logged() -> tuple[Log, io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("tidemark", logging.INFO)
    logger.addHandler(handler)
    return Log(logger), stream


def test_a_collector_that_is_away_is_told_once_and_once_that_it_is_back() -> None:
    log, stream = logged()
    good, bad = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
    flaky = Flaky(good, bad, OSError("no route"), bad, good, good, bad)
    watched = Watched(flaky, log)

    results = [watched.export(()) for _ in range(7)]
    assert watched.force_flush()
    watched.shutdown()

    assert results == [good, bad, bad, bad, good, good, bad]
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("warning", "traces_lost"),
        ("info", "traces_sent"),
        ("warning", "traces_lost"),
    ]
    assert flaky.closed


@pytest.mark.anyio
async def test_a_collector_that_is_not_there_costs_one_warning_and_holds_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    log, stream = logged()
    traces = open_traces(log)

    for _ in range(3000):
        assert traces.record(a_scope(), an_exchange()) is not None
    await traces.close(0.01)
    await traces.close(60)

    lines = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert set(lines) <= {"traces_lost"}
    assert len(lines) <= 1
    assert caplog.records == []


@pytest.mark.anyio
async def test_what_is_wrong_with_a_client_s_trace_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    log, _ = logged()
    traces = open_traces(log)
    parent = f"00-{TRACE}-{PARENT}-01"

    for wrong in ("c4n4ry " * 100, "a=1,a=c4n4ry", "c4n4ry", f"{'c4n4ry' * 60}=1"):
        traces.record(a_scope(("traceparent", wrong)), an_exchange())
        traces.record(a_scope(("traceparent", parent), ("tracestate", wrong)), an_exchange())
    await traces.close(60)

    assert caplog.records == []
