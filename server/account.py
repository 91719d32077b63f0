"""Account: what one request used and how it ended, told once to the metrics and to its line in the log."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from starlette.requests import ClientDisconnect, Request

from engine.request import Delta
from server.errors import ApiError
from server.exchange import Exchange
from server.recorder import Endpoint, Outcome, RequestMetrics
from server.tally import Source, Tally

_SERVER_FAULT = 500


class Account:
    """Opened when a request arrives. Its context is the way to the engine: an error there closes it."""

    def __init__(
        self,
        metrics: RequestMetrics,
        endpoint: Endpoint,
        exchange: Exchange | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self.endpoint = endpoint
        self._exchange = exchange
        self._clock = clock
        self._began = clock()
        self._tally = Tally(endpoint)
        if exchange is not None:
            exchange.tally = self._tally

    @classmethod
    def of(cls, request: Request, metrics: RequestMetrics, endpoint: Endpoint) -> Self:
        """The account of a request, which tells its exchange."""
        return cls(metrics, endpoint, getattr(request.state, "exchange", None))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.close(self._outcome_of(error))

    def _outcome_of(self, error: BaseException) -> Outcome:
        """Before the engine took it a request is refused, unless the server itself is at fault."""
        if not isinstance(error, Exception) or isinstance(error, ClientDisconnect):
            return Outcome.ABORTED
        started = self._tally.prompt_tokens is not None
        if started or not isinstance(error, ApiError) or error.status == _SERVER_FAULT:
            return Outcome.FAILED
        return Outcome.REFUSED

    @property
    def prompt_tokens(self) -> int:
        """What the engine was asked to read."""
        return self._tally.prompt_tokens or 0

    def ask(self, *, model: str, stream: bool | None = None, background: bool | None = None) -> None:
        """The body is read, and the model that it names is served."""
        self._tally.model, self._tally.stream, self._tally.background = model, bool(stream), background or None

    def move(self, request: Request) -> None:
        """The client has come back in another request, whose line in the log has the counts now."""
        exchange = getattr(request.state, "exchange", None)
        if exchange is not None:
            exchange.resumed = True
        if self._tally.outcome is not None:
            return
        if self._exchange is not None:
            self._exchange.tally, self._exchange.moved = None, True
        self._exchange = exchange
        if exchange is not None:
            exchange.tally = self._tally

    def hold(self) -> None:
        """The answer goes on without its exchange, whose line is written when it has ended."""
        if self._exchange is not None:
            self._exchange.hold()

    def open(self, *, prompt_tokens: int) -> None:
        """The engine has taken the request."""
        self._tally.prompt_tokens, self._tally.output_tokens = prompt_tokens, 0

    def name(self, response_id: str) -> None:
        """What the answer is called."""
        self._tally.response_id = response_id

    def follow(self, sources: Sequence[Source]) -> None:
        """These are the engine's streams of it."""
        self._tally.follow(sources)

    def leave(self, sources: Sequence[Source]) -> None:
        """Of these nothing more comes."""
        self._tally.leave(sources)

    def count(self, delta: Delta) -> None:
        """A delta is on its way to the client."""
        self._tally.count(delta)

    def fail(self, error: ApiError) -> None:
        """The answer ends with this, after it has begun."""
        self._tally.error = error.name

    def close(self, outcome: Outcome) -> None:
        """The answer has ended. Only the first end counts."""
        if self._tally.outcome is not None:
            return
        self._tally.outcome = outcome
        self._metrics.observe(
            endpoint=self.endpoint,
            outcome=outcome,
            seconds=self._clock() - self._began,
            prompt_tokens=self._tally.prompt_tokens,
            generated_tokens=self._tally.output_tokens,
        )
        if self._exchange is not None:
            self._exchange.release()
