"""Deliver: run a body's requests and send the answer, whole or as it grows, while its client is there."""

import re
from collections.abc import Awaitable, Sequence
from typing import Protocol

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from engine.request import Request
from server.account import Account
from server.door import EngineDoor
from server.errors import ApiError
from server.following import Following
from server.middleware import owner_of
from server.recorder import Endpoint, Outcome
from server.respond import json_response
from server.service import Service
from server.sse import EventStream
from server.streams import Parts, Streams, gather, open_streams
from server.tasks import unless_gone
from server.telling import Renderer, Settled, Telling, at_once

_NUMBER = re.compile(r"[0-9]{1,12}")  # of an event; more digits than any answer needs


class Whole(Protocol):
    """What an answer looks like on the wire once it is complete."""

    def whole(self, parts: Parts) -> object:
        """The body of the whole answer."""
        ...


class Answer(Whole, Renderer, Protocol):
    """What an answer looks like on the wire, whole and streamed."""


def start(engine: EngineDoor, requests: Sequence[Request], account: Account, *, param: str) -> Streams:
    """Queue the requests, or refuse them all; `param` is the field that held the prompts."""
    streams = open_streams(engine, requests, param=param)
    account.open(prompt_tokens=sum(len(request.prompt) for request in requests))
    account.follow(streams.sources)
    return streams


def alone(
    request: HttpRequest, streams: Streams, answer: Answer, account: Account, *, settled: Settled = at_once
) -> Telling:
    """Let the answer run without its client. Nobody hears its end before `settled` returns."""
    telling = _known(request, streams, answer, account, settled)
    service = Service.of(request)
    try:
        service.background.start(telling)
    except ApiError:
        service.records.forget(telling)
        raise
    account.hold()
    return telling


def _known(request: HttpRequest, streams: Streams, answer: Answer, account: Account, settled: Settled) -> Telling:
    """The answer, where those who come back find it."""
    account.name(answer.id)
    records = Service.of(request).records
    telling = Telling(
        streams,
        answer,
        account,
        keeper=records,
        endpoint=account.endpoint,
        owner=owner_of(request),
        settled=settled,
    )
    records.add(telling)
    return telling


def rest(request: HttpRequest, endpoint: Endpoint) -> Response | None:
    """The rest of an answer, where the request says which event of it was the last to arrive."""
    last = request.headers.get("last-event-id")
    if last is None:
        return None
    service = Service.of(request)
    id, start = behind(last)
    telling = service.records.find(id, endpoint=endpoint, owner=owner_of(request))
    if telling is None or start is None or telling.record.since(start) is None:
        raise no_such_event("Last-Event-ID")
    if not telling.alone:
        telling.account.move(request)
    return told(telling, service, start=start)


def behind(event_id: str) -> tuple[str, int | None]:
    """The answer that an event's id names, and the number of the event behind it, if it has one."""
    id, _, number = event_id.rpartition(":")
    return id, int(number) + 1 if _NUMBER.fullmatch(number) else None


def no_such_event(param: str) -> ApiError:
    """What is to be resumed is not there."""
    message = "no answer of this key has this event, or it is no longer kept"
    return ApiError(404, message, code="stream_not_found", param=param)


def told(telling: Telling, service: Service, *, start: int) -> Response:
    """The answer as events, from number `start` on."""
    return EventStream(
        Following(telling) if telling.alone else telling,
        start=start,
        keep_alive_seconds=service.settings.server.keep_alive_seconds,
        send_seconds=service.settings.engine.slow_reader_seconds,
    )


async def answered(
    request: HttpRequest,
    streams: Streams,
    answer: Answer,
    account: Account,
    *,
    streamed: bool | None,
    settled: Settled = at_once,
) -> Response:
    """The answer once it is complete, or as it grows: a client that loses it can ask for the rest.

    One that leaves before a whole answer ends the work. Nobody hears the end before `settled` returns.
    """
    if streamed:
        return told(_known(request, streams, answer, account, settled), Service.of(request), start=0)
    account.name(answer.id)
    whole = await once(request, gather(streams, account), answer, account)
    await settled()
    return whole


async def once(request: HttpRequest, work: Awaitable[Parts], answer: Whole, account: Account) -> Response:
    """The answer that the work leads to; a client that leaves before ends it."""
    parts = await unless_gone(request.receive, work)
    response = json_response(answer.whole(parts))
    account.close(Outcome.FINISHED)
    return response
