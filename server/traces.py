"""Traces: a span for each request, made once it has ended. The one place that knows OpenTelemetry, an extra."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers
from starlette.types import Scope

from engine.course import Course, Event, Moment
from server.exchange import MAX_TOLD_PATH, Exchange, endpoint_of, error_of
from server.logs import Log
from server.recorder import Endpoint, Outcome
from server.tally import Tally
from server.version import VERSION

MAX_EVENTS = 100  # of a span; beyond 128 the SDK forgets the first ones
NANOSECONDS = 1_000_000_000
OPERATIONS = {  # in the words of OpenTelemetry's conventions for generative AI
    Endpoint.CHAT_COMPLETIONS: "chat",
    Endpoint.COMPLETIONS: "text_completion",
    Endpoint.EMBEDDINGS: "embeddings",
    Endpoint.MESSAGES: "chat",
    Endpoint.RESPONSES: "chat",
}
_NOISY = (  # what they say, Watched says once; but "trace", which quotes what a client's headers are wrong in
    *("opentelemetry.exporter", "opentelemetry.sdk._shared_internal", "urllib3"),
    "opentelemetry.trace",
)
_SERVER_FAULT = 500

Attributes = dict[str, str | int | float | bool | Sequence[str]]


def open_traces(log: Log) -> "Traces":
    """Spans that go to a collector over OTLP and HTTP, as the standard OTEL_… variables say."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415  # tests need none
        OTLPSpanExporter,
    )

    provider = TracerProvider(resource=resource(), shutdown_on_exit=False)  # that would wait for a collector
    provider.add_span_processor(BatchSpanProcessor(Watched(OTLPSpanExporter(), log)))
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return Traces(provider)


def resource() -> Resource:
    """Who the spans are from: us, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say another name."""
    return Resource.create(
        {SERVICE_NAME: "tidemark", SERVICE_VERSION: VERSION, **OTELResourceDetector().detect().attributes}
    )


class Watched(SpanExporter):
    """An exporter whose failures are told once, and once that they are over. Runs on a thread of the SDK's."""

    def __init__(self, exporter: SpanExporter, log: Log) -> None:
        self._exporter = exporter
        self._log = log
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send them, or lose them."""
        try:
            result = self._exporter.export(spans)
        except Exception:  # noqa: BLE001  # whatever it is, these spans are lost, and nothing else
            result = SpanExportResult.FAILURE
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            self._log.warning("traces_lost", spans=len(spans))
        elif self._failing and not failing:
            self._log.info("traces_sent", spans=len(spans))
        self._failing = failing
        return result

    def shutdown(self) -> None:
        """Send no more."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """It holds nothing."""
        del timeout_millis
        return True


class Traces:
    """Makes spans of exchanges that have ended. Nothing here waits: spans go to a bounded queue."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("tidemark", VERSION)
        self._propagator = TraceContextTextMapPropagator()

    def record(self, scope: Scope, exchange: Exchange) -> str | None:
        """Make an exchange's span, within the trace that its client named; the trace's id, unless it is not kept."""
        since = time.time_ns() - time.monotonic_ns()  # the engine's clock and ours is the monotonic one
        span = self._tracer.start_span(
            _name(scope),
            context=self._parent(Headers(scope=scope)),
            kind=SpanKind.SERVER,
            attributes=dict(_attributes(scope, exchange)),
            start_time=_at(exchange.began, since),
        )
        if not span.is_recording():
            return None
        if exchange.tally is not None:
            for name, moment, attributes in _events(exchange.tally):
                span.add_event(name, attributes, timestamp=_at(moment, since))
            span.add_event("ended", _end_of(exchange.tally))
        if _failed(exchange):
            span.set_attribute("error.type", error_of(scope, exchange) or str(exchange.status))
            span.set_status(StatusCode.ERROR)
        span.end()
        return f"{span.get_span_context().trace_id:032x}"

    def _parent(self, headers: Headers) -> Context:
        """The client's span, if it named one as W3C has it, and whether it is kept; else none."""
        carrier = {name: ",".join(headers.getlist(name)) for name in ("traceparent", "tracestate")}
        return self._propagator.extract({name: text for name, text in carrier.items() if text}, context=Context())

    async def close(self, seconds: float) -> None:
        """Send what has not been sent, for so long at most."""
        # A thread that nobody waits for: what hangs in the network must not hold the process.
        sending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, seconds)


def _at(moment: float, since: int) -> int:
    return int(moment * NANOSECONDS) + since


def _name(scope: Scope) -> str:
    endpoint = endpoint_of(scope)
    return scope["method"] if endpoint is None else f"{scope['method']} {endpoint}"


def _failed(exchange: Exchange) -> bool:
    """Whether the server is at fault; a client that errs or leaves is no error of its."""
    outcome = None if exchange.tally is None else exchange.tally.outcome
    return outcome is Outcome.FAILED or exchange.status is None or exchange.status >= _SERVER_FAULT


def _attributes(scope: Scope, exchange: Exchange) -> Iterator[tuple[str, str | int | float | bool | Sequence[str]]]:
    told: Mapping[str, str | int | float | bool | Sequence[str] | None] = {
        **_http(scope, exchange),
        **({} if exchange.tally is None else _generation(exchange.tally)),
    }
    return ((name, value) for name, value in told.items() if value is not None)


def _http(scope: Scope, exchange: Exchange) -> dict[str, str | int | bool | None]:
    address, port = scope.get("server") or (None, None)
    return {
        "http.request.method": scope["method"],
        "http.route": endpoint_of(scope),
        "http.response.status_code": exchange.status,
        "url.path": scope["path"][:MAX_TOLD_PATH],
        "url.scheme": scope.get("scheme"),
        "network.protocol.version": scope.get("http_version"),
        "server.address": address,
        "server.port": port,
        "tidemark.request_id": exchange.request_id,
        "tidemark.error_code": error_of(scope, exchange),
        "tidemark.resumed": exchange.resumed,
    }


def _generation(tally: Tally) -> dict[str, str | int | float | bool | Sequence[str] | None]:
    """Counts and times by OpenTelemetry's names where it has one."""
    fields = tally.fields
    ours = ("outcome", "background", "preemptions", "drafts_kept", "drafts_rejected", "queue_seconds", "gap_seconds")
    return {
        "gen_ai.operation.name": OPERATIONS[tally.endpoint],
        "gen_ai.provider.name": "tidemark",
        "gen_ai.request.model": tally.model,
        "gen_ai.response.model": tally.model if tally.prompt_tokens is not None else None,
        "gen_ai.response.id": tally.response_id,
        "gen_ai.response.finish_reasons": sorted(tally.reasons) or None,
        "gen_ai.response.time_to_first_chunk": fields.get("first_token_seconds"),
        "gen_ai.request.stream": tally.stream,
        "gen_ai.request.choice.count": fields.get("choices"),
        "gen_ai.usage.input_tokens": tally.prompt_tokens,
        "gen_ai.usage.output_tokens": tally.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": fields.get("cached_tokens"),
        **{f"tidemark.{name}": fields.get(name) for name in ours},
    }


def _events(tally: Tally) -> list[tuple[str, float, Attributes]]:
    """What befell the sequences in the order of time, the first MAX_EVENTS of it."""
    events = [event for number, course in enumerate(tally.courses) for event in _events_of(course, number)]
    return sorted(events, key=lambda event: event[1])[:MAX_EVENTS]


def _events_of(course: Course, number: int) -> Iterator[tuple[str, float, Attributes]]:
    """What befell it, but for its coming, with which the span begins, and its end, which the span's own event tells."""
    which: Attributes = {"tidemark.sequence": number}
    for moment in course.moments:
        if moment.event not in (Event.QUEUED, Event.ENDED):
            yield moment.event.value, moment.at, which | dict(_about(moment))
    if course.first_output_at is not None:
        yield "first_token", course.first_output_at, which


def _about(moment: Moment) -> Iterator[tuple[str, str | int]]:
    if moment.cached is not None:
        yield "tidemark.cached_tokens", moment.cached
    if moment.reason is not None:
        yield "tidemark.reason", moment.reason


def _end_of(tally: Tally) -> Attributes:
    return {
        "tidemark.outcome": "parked" if tally.outcome is None else tally.outcome.value,
        "tidemark.output_tokens": tally.output_tokens or 0,
        "tidemark.preemptions": sum(course.num_preemptions for course in tally.courses),
    }
