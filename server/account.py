"""Account: what one request used and how it ended, told once to the metrics and to the log line."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from starlette.requests import ClientDisconnect, Request

from engine.request import Delta
from server.errors import ApiError
from server.exchange import Exchange
from server.recorder import Endpoint, Outcome, RequestMetrics

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
        self._prompt_tokens: int | None = None
        self._generated_tokens: int | None = None
        self._closed = False

    @classmethod
    def of(cls, request: Request, metrics: RequestMetrics, endpoint: Endpoint) -> Self:
        """The account of a request, which fills in its exchange."""
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
        started = self._prompt_tokens is not None
        if started or not isinstance(error, ApiError) or error.status == _SERVER_FAULT:
            return Outcome.FAILED
        return Outcome.REFUSED

    @property
    def prompt_tokens(self) -> int:
        """What the engine was asked to read."""
        return self._prompt_tokens or 0

    def move(self, request: Request) -> None:
        """The client has come back in another request: its line in the log has the counts."""
        self._exchange = getattr(request.state, "exchange", None)

    def open(self, *, prompt_tokens: int) -> None:
        """The engine has taken the request."""
        self._prompt_tokens, self._generated_tokens = prompt_tokens, 0

    def count(self, delta: Delta) -> None:
        """A delta is on its way to the client."""
        self._generated_tokens = (self._generated_tokens or 0) + len(delta.tokens)

    def close(self, outcome: Outcome) -> None:
        """The answer has ended. Only the first end counts."""
        if self._closed:
            return
        self._closed = True
        self._metrics.observe(
            endpoint=self.endpoint,
            outcome=outcome,
            seconds=self._clock() - self._began,
            prompt_tokens=self._prompt_tokens,
            generated_tokens=self._generated_tokens,
        )
        if self._exchange is not None:
            self._exchange.prompt_tokens = self._prompt_tokens
            self._exchange.generated_tokens = self._generated_tokens
