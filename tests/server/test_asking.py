import orjson
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Message

from server.asking import asking
from server.errors import ApiError
from server.recorder import Endpoint, Outcome
from server.service import Service
from server.wire.completions import CompletionRequest
from server.wire.embeddings import EmbeddingRequest
from tests.fakes import make_service, make_settings

pytestmark = pytest.mark.anyio


def request_of(service: Service, **fields: object) -> Request:
    app = FastAPI()
    app.state.service = service

    async def receive() -> Message:
        return {"type": "http.request", "body": orjson.dumps(fields), "more_body": False}

    return Request({"type": "http", "method": "POST", "path": "/", "headers": [], "app": app, "state": {}}, receive)


def outcomes(service: Service) -> list[tuple[Endpoint, Outcome]]:
    return [each for each, count in service.requests.view().totals.items() if count]


async def test_a_body_is_read_for_the_model_that_it_names() -> None:
    service = make_service()
    request = request_of(service, model="org/tiny", prompt="a")

    async with asking(request, Endpoint.COMPLETIONS, CompletionRequest) as (given, _, body, loaded):
        assert (given, body.prompt) == (service, "a")
        assert loaded is service.loaded()

    assert outcomes(service) == [], "who answers closes the account"


@pytest.mark.parametrize(
    ("service", "fields", "status"),
    [
        (make_service(), {"model": "org/tiny", "input": 5}, 400),
        (make_service(), {"model": "other", "input": "a"}, 404),
        (Service(make_settings(), clock=lambda: 0.0), {"model": "org/tiny", "input": "a"}, 503),
    ],
)
async def test_what_can_t_be_answered_is_counted_as_refused(
    service: Service, fields: dict[str, object], status: int
) -> None:
    with pytest.raises(ApiError) as refused:
        async with asking(request_of(service, **fields), Endpoint.EMBEDDINGS, EmbeddingRequest):
            raise AssertionError

    assert refused.value.status == status
    assert outcomes(service) == [(Endpoint.EMBEDDINGS, Outcome.REFUSED)]


async def test_an_error_on_the_way_to_the_engine_closes_the_account() -> None:
    service = make_service()

    with pytest.raises(ZeroDivisionError):
        async with asking(request_of(service, model="org/tiny", input="a"), Endpoint.EMBEDDINGS, EmbeddingRequest):
            raise ZeroDivisionError

    assert outcomes(service) == [(Endpoint.EMBEDDINGS, Outcome.FAILED)]
