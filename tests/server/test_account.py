from collections.abc import Iterator

import pytest
from starlette.requests import ClientDisconnect, Request as HttpRequest

from engine.request import Delta, OutputToken
from server.account import Account
from server.errors import ApiError, unavailable
from server.exchange import Exchange
from server.recorder import Endpoint, Outcome, RequestMetrics
from server.tally import Tally

CHAT = Endpoint.CHAT_COMPLETIONS


def counted(metrics: RequestMetrics) -> dict[Outcome, int]:
    totals = metrics.view().totals
    return {outcome: totals[CHAT, outcome] for outcome in Outcome if totals[CHAT, outcome]}


def seconds() -> Iterator[float]:
    yield 10.0
    yield 12.5


@pytest.mark.parametrize(
    ("error", "opened", "outcome"),
    [
        (ApiError(400, "wrong"), False, Outcome.REFUSED),
        (unavailable("draining", "later"), False, Outcome.REFUSED),
        (ApiError(500, "our fault"), True, Outcome.FAILED),
        (unavailable("engine_stopped", "gone"), True, Outcome.FAILED),
        (ZeroDivisionError(), False, Outcome.FAILED),
        (ClientDisconnect(), False, Outcome.ABORTED),
        (ClientDisconnect(), True, Outcome.ABORTED),
        (KeyboardInterrupt(), True, Outcome.ABORTED),
    ],
)
def test_an_error_on_the_way_closes_the_account(error: BaseException, opened: bool, outcome: Outcome) -> None:
    metrics = RequestMetrics()
    account = Account(metrics, CHAT, None)
    if opened:
        account.open(prompt_tokens=1)

    with pytest.raises(type(error)), account:
        raise error

    assert counted(metrics) == {outcome: 1}


def test_an_account_is_closed_once_and_not_by_leaving_in_peace() -> None:
    metrics = RequestMetrics()

    with Account(metrics, CHAT, None) as account:
        pass
    assert counted(metrics) == {}
    account.close(Outcome.FINISHED)
    account.close(Outcome.ABORTED)

    assert counted(metrics) == {Outcome.FINISHED: 1}


def an_exchange(written: list[Exchange] | None = None) -> Exchange:
    return Exchange("r", 0.0, (written if written is not None else []).append)


def request_of(exchange: Exchange | None) -> HttpRequest:
    return HttpRequest({"type": "http", "state": {} if exchange is None else {"exchange": exchange}})


def tally_of(exchange: Exchange) -> Tally:
    assert exchange.tally is not None
    return exchange.tally


def test_tokens_and_time_are_told_to_the_metrics_and_to_the_exchange() -> None:
    metrics, exchange = RequestMetrics(), an_exchange()
    ticks = seconds()
    account = Account(metrics, CHAT, exchange, clock=lambda: next(ticks))

    account.open(prompt_tokens=5)
    account.count(Delta(0, "ab", (OutputToken(1, 0, in_text=True), OutputToken(2, 1, in_text=True))))
    account.count(Delta(1, "a", (OutputToken(1, 0, in_text=True),)))
    account.close(Outcome.FINISHED)

    view = metrics.view()
    assert (view.duration.sum, view.prompt_tokens.sum, view.generated_tokens.sum) == (2.5, 5, 3)
    assert (tally_of(exchange).prompt_tokens, tally_of(exchange).output_tokens) == (5, 3)
    assert tally_of(exchange).outcome is Outcome.FINISHED


def test_a_refused_request_has_no_tokens() -> None:
    metrics, exchange = RequestMetrics(), an_exchange()

    with pytest.raises(ApiError), Account(metrics, CHAT, exchange):
        raise ApiError(400, "wrong")

    assert sum(metrics.view().prompt_tokens.counts) == 0
    assert tally_of(exchange).prompt_tokens is None
    assert tally_of(exchange).outcome is Outcome.REFUSED


def test_who_comes_back_takes_the_counts_along_and_who_comes_too_late_does_not() -> None:
    first, second, late = an_exchange(), an_exchange(), an_exchange()
    account = Account(RequestMetrics(), CHAT, first)

    account.move(request_of(second))
    account.close(Outcome.FINISHED)
    account.move(request_of(late))

    assert (first.tally, first.moved, first.resumed) == (None, True, None)
    assert (tally_of(second).outcome, second.resumed) == (Outcome.FINISHED, True)
    assert (late.tally, late.resumed) == (None, True)


def test_an_account_moves_between_requests_that_nobody_logs() -> None:
    account = Account(RequestMetrics(), CHAT, None)

    account.move(request_of(None))
    account.hold()
    account.close(Outcome.FINISHED)


def test_a_held_exchange_is_written_once_its_answer_has_ended() -> None:
    written: list[Exchange] = []
    exchange = an_exchange(written)
    account = Account(RequestMetrics(), CHAT, exchange)

    account.hold()
    exchange.end()
    assert written == []
    account.close(Outcome.FINISHED)
    account.close(Outcome.ABORTED)

    assert written == [exchange]


def test_a_held_exchange_whose_answer_ends_first_is_written_once() -> None:
    written: list[Exchange] = []
    exchange = an_exchange(written)
    account = Account(RequestMetrics(), CHAT, exchange)

    account.hold()
    account.close(Outcome.FINISHED)
    assert written == []
    exchange.end()

    assert written == [exchange]
