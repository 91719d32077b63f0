"""Chat completions."""

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from server import deliver
from server.asking import asking
from server.conversation import converse
from server.openapi import ERRORS, body_of, resumable, streamed
from server.recorder import Endpoint
from server.render.chat import Chat
from server.render.reply import new_id, reply_of
from server.wire.chat import ChatRequest
from server.wire.chat_bodies import ChatChunk, ChatCompletion
from server.wire.status import ErrorEnvelope

router = APIRouter(tags=["generate"])
EVENT = TypeAdapter[ChatChunk | ErrorEnvelope](ChatChunk | ErrorEnvelope)


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses=streamed(EVENT, ends_with="[DONE]") | ERRORS,
    openapi_extra=resumable(body_of(ChatRequest)),
)
async def create_chat_completion(request: Request) -> Response:
    """Answer a conversation, whole or as a stream of events."""
    if (rest := deliver.rest(request, Endpoint.CHAT_COMPLETIONS)) is not None:
        return rest
    async with asking(request, Endpoint.CHAT_COMPLETIONS, ChatRequest) as (service, account, body, loaded):
        id = new_id("chatcmpl")
        conversation = await converse(id, body, loaded)
        reply = reply_of(
            id,
            body,
            loaded,
            created=service.now(),
            top_logprobs=conversation.top_logprobs,
            shown_special_ids=conversation.shown_special_ids,
        )
        answer = Chat(reply, conversation.prompt, conversation.make_reader)

        streams = deliver.start(loaded.engine, conversation.requests, account, param="messages")
        return await deliver.answered(request, streams, answer, account, streamed=body.stream)
