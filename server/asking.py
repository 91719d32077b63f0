"""Asking: how every request for an answer begins. It has an account, a body that was read, and a model to answer it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

from starlette.requests import Request

from server.account import Account
from server.body import read_body
from server.recorder import Endpoint
from server.service import Loaded, Service
from server.wire.base import Named

B = TypeVar("B", bound=Named)


class Asking(NamedTuple, Generic[B]):
    """What is there once a request has been understood."""

    service: Service
    account: Account
    body: B
    loaded: Loaded


@asynccontextmanager
async def asking(request: Request, endpoint: Endpoint, kind: type[B]) -> AsyncIterator[Asking[B]]:
    """Read a body for a model that is served. An error within closes the account."""
    service = Service.of(request)
    with Account.of(request, service.requests, endpoint) as account:
        body, loaded = await named(request, service, kind)
        stream, background = (getattr(body, name, None) for name in ("stream", "background"))
        account.ask(model=body.model, stream=stream, background=background)
        yield Asking(service, account, body, loaded)


async def named(request: Request, service: Service, kind: type[B]) -> tuple[B, Loaded]:
    """A body, and the model that it names; an ApiError where either is wrong."""
    body = await read_body(request, kind, max_depth=service.settings.server.max_json_depth)
    loaded = service.loaded()
    loaded.check_name(body.model)
    return body, loaded
