"""The models that are served: one, under its own name and its aliases."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.openapi import ERRORS
from server.respond import json_response
from server.service import Loaded, Service
from server.wire.models import ModelBody, ModelList

router = APIRouter(tags=["models"])


@router.get("/models", response_model=ModelList, responses=ERRORS)
async def list_models(request: Request) -> Response:
    """Every name that is served."""
    service = Service.of(request)
    loaded = service.loaded()
    return json_response(ModelList(object="list", data=[_body(service, loaded, name) for name in loaded.names]))


@router.get("/models/{id:path}", response_model=ModelBody, responses=ERRORS)
async def get_model(request: Request, id: str) -> Response:
    """One of them; an id may hold slashes."""
    service = Service.of(request)
    loaded = service.loaded()
    loaded.check_name(id)
    return json_response(_body(service, loaded, id))


def _body(service: Service, loaded: Loaded, name: str) -> ModelBody:
    return ModelBody(
        id=name,
        object="model",
        created=service.started,
        owned_by="tidemark",
        root=loaded.names[0],
        max_model_len=loaded.engine.info.context_length,
    )
