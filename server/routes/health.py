"""Probes: alive, admitting, and which version."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.errors import unavailable
from server.openapi import ERRORS
from server.respond import json_response
from server.service import Service, State
from server.version import VERSION
from server.wire.status import StatusBody, VersionBody

router = APIRouter(tags=["status"])
REASONS = {  # why a loaded model takes no requests
    State.DRAINING: "the server is shutting down and takes no new requests",
    State.STALLED: "a model step takes too long",
}


@router.get("/health", response_model=StatusBody, responses=ERRORS)
async def health(request: Request) -> Response:
    """200 unless the engine is dead: a server that loads or drains is alive."""
    if Service.of(request).failed:
        raise unavailable("engine_stopped", "the engine has stopped")
    return json_response(StatusBody(status="ok"))


@router.get("/ready", response_model=StatusBody, responses=ERRORS)
async def ready(request: Request) -> Response:
    """200 where new requests are taken; else 503 with the reason as `code`."""
    service = Service.of(request)
    service.loaded()
    if reason := REASONS.get(service.state):
        raise unavailable(service.state, reason)
    return json_response(StatusBody(status="ready"))


@router.get("/version", response_model=VersionBody, responses=ERRORS)
async def version() -> Response:
    """The version of this server."""
    return json_response(VersionBody(version=VERSION))
