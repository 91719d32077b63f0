"""The ledger: what has been planned, computed, accepted and published, and which blocks hold it."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.errors import ApiError
from server.openapi import ERRORS
from server.render.ledger import ledger_body, sequence_body
from server.respond import json_response
from server.service import Service
from server.wire.ledger import LedgerBody, RequestLedger

router = APIRouter(tags=["ledger"])


@router.get("/ledger", response_model=LedgerBody, responses=ERRORS)
async def get_ledger(request: Request) -> Response:
    """The whole engine at this moment."""
    engine = Service.of(request).loaded().engine
    return json_response(ledger_body(engine.info, engine.snapshot()))


@router.get("/ledger/{id}", response_model=RequestLedger, responses=ERRORS)
async def get_request_ledger(request: Request, id: str) -> Response:
    """One request that has not ended, by the id of its answer."""
    engine = Service.of(request).loaded().engine
    # The prompts of one body are requests of their own, numbered behind its id.
    mine = [
        view for view in engine.snapshot().sequences if view.request_id == id or view.request_id.startswith(f"{id}-")
    ]
    if not mine:
        raise ApiError(404, "no such request waits or runs", code="request_not_found", param="id")
    return json_response(RequestLedger(id=id, sequences=[sequence_body(engine.info.cache, view) for view in mine]))
