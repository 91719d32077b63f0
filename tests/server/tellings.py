"""Answers that are told: a plain renderer, and what is heard of it."""

from collections.abc import Iterable

from engine.request import Request, Sampling, Stopping
from server.account import Account
from server.errors import ApiError
from server.events import Event, encode
from server.recorder import Endpoint, Outcome, RequestMetrics
from server.streams import Arrival, open_streams
from server.telling import Keeper, Settled, Telling, at_once
from tests.fakes import FakeEngine


class Plain:
    """Renders the text alone, a letter an event."""

    def __init__(self, id: str = "told", *, broken: bool = False) -> None:
        self.id = id
        self._broken = broken

    def first(self) -> Iterable[Event]:
        """A greeting."""
        return (Event(b"begun", "first"),)

    def feed(self, arrival: Arrival) -> Iterable[Event]:
        """The letters."""
        if self._broken:
            raise ZeroDivisionError
        return [Event(letter.encode()) for letter in arrival.delta.text]

    def last(self) -> Iterable[Event]:
        """A farewell."""
        return (Event(b"end", "last"),)

    def failed(self, error: ApiError) -> Iterable[Event]:
        """Type and code."""
        return (Event(f"{error.body['type']} {error.body['code']}".encode(), "error"),)


def a_telling(
    engine: FakeEngine,
    keeper: Keeper,
    *,
    id: str = "told",
    metrics: RequestMetrics | None = None,
    num_prompts: int = 1,
    broken: bool = False,
    owner: str = "",
    settled: Settled = at_once,
) -> Telling:
    """An answer of three letters to each prompt."""
    requests = [Request(f"{id}-{n}", (1,), Sampling(seed=0), Stopping(max_tokens=3)) for n in range(num_prompts)]
    account = Account(metrics or RequestMetrics(), Endpoint.COMPLETIONS, None)
    streams = open_streams(engine, requests, param="prompt")
    account.open(prompt_tokens=num_prompts)
    return Telling(
        streams,
        Plain(id, broken=broken),
        account,
        keeper=keeper,
        endpoint=Endpoint.COMPLETIONS,
        owner=owner,
        settled=settled,
    )


def said(number: int, data: str, name: str = "", *, id: str = "told") -> bytes:
    """An event as it is sent."""
    return encode(Event(data.encode(), name or None), f"{id}:{number}")


def outcomes_of(metrics: RequestMetrics) -> list[Outcome]:
    """How the requests ended that have."""
    return [outcome for (_, outcome), count in metrics.view().totals.items() for _ in range(count)]
