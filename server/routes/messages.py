"""Messages, as Anthropic's API has them."""

import asyncio

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from server import deliver
from server.asking import asking, named
from server.conversation import Conversation, converse
from server.messages import NAMES, chat_body
from server.openapi import MESSAGES_ERRORS, body_of, resumable, streamed
from server.recorder import Endpoint
from server.render.messages import Messages
from server.render.reply import new_id
from server.respond import json_response
from server.service import Loaded, Service
from server.wire.message_bodies import MessageBody, MessageEvent, MessagesErrorEnvelope, TokenCount
from server.wire.messages import ConversationFields, CountRequest, MessagesRequest
from server.words import in_words_of

router = APIRouter(tags=["generate"])
EVENT = TypeAdapter[MessageEvent | MessagesErrorEnvelope](MessageEvent | MessagesErrorEnvelope)


@router.post(
    "/messages",
    response_model=MessageBody,
    responses=streamed(EVENT) | MESSAGES_ERRORS,
    openapi_extra=resumable(body_of(MessagesRequest)),
)
async def create_message(request: Request) -> Response:
    """Answer a conversation in Anthropic's shape, whole or as a stream of events."""
    if (rest := deliver.rest(request, Endpoint.MESSAGES)) is not None:
        return rest
    async with asking(request, Endpoint.MESSAGES, MessagesRequest) as (_, account, body, loaded):
        id = new_id("msg")
        conversation = await _conversation(id, body, loaded)
        answer = Messages(
            id,
            model=body.model,
            prompt_tokens=len(conversation.prompt.tokens),
            request_id=request.state.request_id,
            make_reader=conversation.make_reader,
        )

        streams = deliver.start(loaded.engine, conversation.requests, account, param="messages")
        return await deliver.answered(request, streams, answer, account, streamed=body.stream)


@router.post(
    "/messages/count_tokens",
    response_model=TokenCount,
    responses=MESSAGES_ERRORS,
    openapi_extra=body_of(CountRequest),
)
async def count_tokens(request: Request) -> Response:
    """How many tokens a conversation takes as the model sees it."""
    body, loaded = await named(request, Service.of(request), CountRequest)
    conversation = await _conversation(new_id("msg"), body, loaded)
    return json_response(TokenCount(input_tokens=len(conversation.prompt.tokens)))


async def _conversation(id: str, body: ConversationFields, loaded: Loaded) -> Conversation:
    chat = await asyncio.to_thread(chat_body, body)
    with in_words_of(NAMES):
        return await converse(id, chat, loaded, NAMES)
