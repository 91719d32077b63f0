"""The ledger: what is planned, computed, accepted and published, and which blocks hold it; now, and as it moves."""

import re

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from server.errors import ApiError
from server.lookout import LEAST_SECONDS
from server.openapi import ERRORS, parameter, streamed
from server.query import number_in, seconds_in
from server.render.ledger import ledger_body, sequence_body
from server.render.timeline import TextOf, slot_body, timeline_body, unit_body
from server.requests import is_of
from server.respond import json_response
from server.service import Loaded, Service
from server.sse import EventStream
from server.watching import Watching
from server.wire.ledger import LedgerBody, RequestLedger
from server.wire.sight import RequestTimeline, SightBody, SightEnd, SlotBody, UnitBody

USUAL_SECONDS, MOST_SECONDS = 0.25, 60.0  # between two snapshots
MOST_SNAPSHOTS = 1_000_000

router = APIRouter(tags=["ledger"])
SNAPSHOT = TypeAdapter[SightBody | SightEnd](SightBody | SightEnd)
_NUMBER = re.compile(r"[0-9]{1,12}")


@router.get("/ledger", response_model=LedgerBody, responses=ERRORS)
async def get_ledger(request: Request) -> Response:
    """The whole engine at this moment."""
    engine = Service.of(request).loaded().engine
    return json_response(ledger_body(engine.info, engine.snapshot()))


@router.get(
    "/ledger/events",
    response_class=Response,  # so that the description has events and no JSON
    responses=streamed(SNAPSHOT) | ERRORS,
    openapi_extra={
        "parameters": [
            parameter(
                "every", {"type": "number", "minimum": LEAST_SECONDS, "maximum": MOST_SECONDS}, "seconds between two"
            ),
            parameter(
                "count", {"type": "integer", "minimum": 1, "maximum": MOST_SNAPSHOTS}, "snapshots; endless without it"
            )
            | {"example": 1},
        ]
    },
)
async def watch_ledger(request: Request) -> Response:
    """The engine as it moves: a whole snapshot, and then what has changed, as events."""
    service = Service.of(request)
    loaded = service.loaded()
    every = seconds_in(request, "every", least=LEAST_SECONDS, most=MOST_SECONDS, default=USUAL_SECONDS)
    count = number_in(request, "count", least=1, most=MOST_SNAPSHOTS, default=0) or None
    service.lookout.check_room()
    return EventStream(
        Watching(service, loaded, every=every, count=count),
        keep_alive_seconds=service.settings.server.keep_alive_seconds,
        send_seconds=service.settings.engine.slow_reader_seconds,
    )


@router.get("/ledger/units/{unit}", response_model=UnitBody, responses=ERRORS)
async def get_unit(request: Request, unit: str) -> Response:
    """What one unit of the pool holds; units are blocks where no cache group has wider ones."""
    service = Service.of(request)
    loaded = service.loaded()
    number = _number_of(unit, loaded.engine.info.cache.num_blocks, "unit")
    return json_response(unit_body(number, loaded.engine.unit(number), text_of=_text_of(service, loaded)))


@router.get("/ledger/slots/{slot}", response_model=SlotBody, responses=ERRORS)
async def get_slot(request: Request, slot: str) -> Response:
    """Which recurrent state one slot holds."""
    loaded = Service.of(request).loaded()
    number = _number_of(slot, loaded.engine.info.cache.num_slots, "slot")
    return json_response(slot_body(number, loaded.engine.slot(number)))


@router.get(
    "/ledger/{id}/steps",
    response_model=RequestTimeline,
    responses=ERRORS,
    openapi_extra={
        "parameters": [parameter("after", {"type": "integer", "minimum": 0}, "the last step that is known")]
    },
)
async def get_steps(request: Request, id: str) -> Response:
    """What each step did to one request, by the id of its answer, and what befell it. Noted while somebody watches."""
    service = Service.of(request)
    loaded = service.loaded()
    after = number_in(request, "after", least=0, default=0)
    timelines = service.lookout.timelines.of(id)
    if not timelines:
        message = "nothing of such a request was noted; that is done while somebody reads /ledger/events"
        raise ApiError(404, message, code="request_not_found", param="id")
    text_of = _text_of(service, loaded)
    bodies = [timeline_body(each, after=after, text_of=text_of) for each in timelines]
    return json_response(RequestTimeline(id=id, sequences=bodies))


def _text_of(service: Service, loaded: Loaded) -> TextOf | None:
    return loaded.engine.vocabulary.text_of if service.settings.server.show_text else None


def _number_of(given: str, end: int, kind: str) -> int:
    number = int(given) if _NUMBER.fullmatch(given) else end
    if number >= end:
        raise ApiError(404, f"no such {kind}; there are {end}", code=f"{kind}_not_found", param=kind)
    return number


@router.get("/ledger/{id}", response_model=RequestLedger, responses=ERRORS)
async def get_request_ledger(request: Request, id: str) -> Response:
    """One request that has not ended, by the id of its answer."""
    engine = Service.of(request).loaded().engine
    mine = [view for view in engine.snapshot().sequences if is_of(view.request_id, id)]
    if not mine:
        raise ApiError(404, "no such request waits or runs", code="request_not_found", param="id")
    return json_response(RequestLedger(id=id, sequences=[sequence_body(engine.info.cache, view) for view in mine]))
