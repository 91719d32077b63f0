"""Embeddings of texts, from the model that is served."""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from config.settings import EngineSettings
from engine.request import Pooling, Request, Sampling, Stopping
from server import deliver
from server.asking import asking
from server.openapi import ERRORS, body_of
from server.prompt import Prompt, embedding_inputs
from server.queueing import gather_in_turn
from server.recorder import Endpoint
from server.render.embeddings import Embeddings
from server.render.reply import new_id
from server.requests import numbered
from server.rules import check_embedding
from server.wire.embeddings import EmbeddingList, EmbeddingRequest

router = APIRouter(tags=["generate"])


@router.post("/embeddings", response_model=EmbeddingList, responses=ERRORS, openapi_extra=body_of(EmbeddingRequest))
async def create_embeddings(request: HttpRequest) -> Response:
    """The embeddings of one input or several, in their order."""
    async with asking(request, Endpoint.EMBEDDINGS, EmbeddingRequest) as (service, account, body, loaded):
        info = loaded.engine.info
        check_embedding(body, size=info.embedding_size)
        inputs = await embedding_inputs(loaded.tokenizer, body, context=info.context_length)
        at_once = _at_once(service.settings.engine)
        work = gather_in_turn(loaded.engine, _requests(body, inputs), account, param="input", at_once=at_once)
        return await deliver.once(request, work, Embeddings(body), account)


def _requests(body: EmbeddingRequest, inputs: Sequence[Prompt]) -> list[Request]:
    id = new_id("embd")
    return [
        Request(
            id=numbered(id, number, of=len(inputs)),
            prompt=each.tokens,
            sampling=Sampling(seed=0),
            stopping=Stopping(max_tokens=0),
            salt=body.cache_salt or "",
            priority=body.priority or 0,
            pooling=Pooling(body.pooling or "last"),
        )
        for number, each in enumerate(inputs)
    ]


def _at_once(settings: EngineSettings) -> int:
    """As many as keep every step full, and leave half of the queue to others."""
    return settings.max_sequences + settings.max_waiting // 2
