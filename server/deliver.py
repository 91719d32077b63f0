"""Deliver: run a body's requests and send the answer, whole or as it grows, while its client is there."""

from collections.abc import Sequence
from typing import Protocol

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from config.settings import Settings
from engine.request import Request
from server.account import Account
from server.recorder import Outcome
from server.respond import json_response
from server.service import EngineDoor
from server.sse import EventStream, Renderer
from server.streams import Parts, Streams, gather, open_streams
from server.tasks import unless_gone


class Answer(Renderer, Protocol):
    """What an answer looks like on the wire, whole and streamed."""

    def whole(self, parts: Parts) -> object:
        """The body of the whole answer."""
        ...


def start(engine: EngineDoor, requests: Sequence[Request], account: Account, *, param: str) -> Streams:
    """Queue the requests, or refuse them all; `param` is the field that held the prompts."""
    streams = open_streams(engine, requests, param=param)
    account.open(prompt_tokens=sum(len(request.prompt) for request in requests))
    return streams


def stream(streams: Streams, answer: Answer, account: Account, settings: Settings) -> Response:
    """The answer as it grows."""
    return EventStream(
        streams,
        answer,
        account,
        keep_alive_seconds=settings.server.keep_alive_seconds,
        send_seconds=settings.engine.slow_reader_seconds,
    )


async def whole(request: HttpRequest, streams: Streams, answer: Answer, account: Account) -> Response:
    """The answer once it is complete; a client that leaves before ends the work."""
    parts = await unless_gone(request.receive, gather(streams, account))
    response = json_response(answer.whole(parts))
    account.close(Outcome.FINISHED)
    return response
