"""A collector of spans, within this process."""

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Sampler
from starlette.types import Scope

from server.exchange import Exchange
from server.traces import Traces, resource


class Collector:
    """Traces that end in memory."""

    def __init__(self, sampler: Sampler = DEFAULT_ON) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, resource=resource(), shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.traces = Traces(self.provider)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """What was kept, in order."""
        return self._exporter.get_finished_spans()

    def span_of(self, scope: Scope, exchange: Exchange) -> ReadableSpan:
        """The span of an exchange that has ended."""
        self.traces.record(scope, exchange)
        return self.spans[-1]
