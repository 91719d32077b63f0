"""RequestMetrics: what the server itself counts about requests, beside the engine's snapshot."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from engine.stats import SECONDS, TOKENS, Histogram, HistogramView


class Endpoint(StrEnum):
    """The endpoints that run requests; the values are metric labels."""

    CHAT_COMPLETIONS = "chat_completions"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"
    RESPONSES = "responses"


class Outcome(StrEnum):
    """How a request ended, as the client saw it; the values are metric labels."""

    FINISHED = "finished"  # the whole answer was sent
    REFUSED = "refused"  # turned away before anything ran: 4xx, 429, 503
    ABORTED = "aborted"  # the client left first
    FAILED = "failed"  # it had started and ended with an error


@dataclass(frozen=True, slots=True)
class RequestsView:
    """What RequestMetrics has counted, at one moment. Every endpoint and outcome is in `totals`."""

    totals: dict[tuple[Endpoint, Outcome], int]
    duration: HistogramView
    prompt_tokens: HistogramView
    generated_tokens: HistogramView


class RequestMetrics:
    """Counts each request once, when its answer has ended. Used on the event loop alone."""

    def __init__(self) -> None:
        self._totals: Counter[tuple[Endpoint, Outcome]] = Counter()
        self._duration = Histogram(SECONDS)
        self._prompt_tokens = Histogram(TOKENS)
        self._generated_tokens = Histogram(TOKENS)

    def observe(
        self,
        *,
        endpoint: Endpoint,
        outcome: Outcome,
        seconds: float,
        prompt_tokens: int | None = None,
        generated_tokens: int | None = None,
    ) -> None:
        """Count one request; token counts are None where the engine never saw the request.

        `seconds` run from the request's arrival to the end of its answer. `generated_tokens` are
        those of all choices together.
        """
        self._totals[endpoint, outcome] += 1
        self._duration.observe(seconds)
        if prompt_tokens is not None:
            self._prompt_tokens.observe(prompt_tokens)
        if generated_tokens is not None:
            self._generated_tokens.observe(generated_tokens)

    def view(self) -> RequestsView:
        """A frozen copy, zeros included."""
        return RequestsView(
            totals={
                (endpoint, outcome): self._totals[endpoint, outcome] for endpoint in Endpoint for outcome in Outcome
            },
            duration=self._duration.view(),
            prompt_tokens=self._prompt_tokens.view(),
            generated_tokens=self._generated_tokens.view(),
        )
