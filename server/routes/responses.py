"""Responses: made, kept, asked for again, followed, cancelled and deleted."""

import asyncio
import secrets

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from server import deliver
from server.asking import asking, named
from server.conversation import Conversation, converse
from server.errors import ApiError
from server.middleware import owner_of
from server.openapi import ERRORS, body_of, parameter, resumable, streamed
from server.query import choice_in, flag_in, number_in
from server.recall import Recalled, recall
from server.recorder import Endpoint
from server.render.reply import Reply, reply_of
from server.render.responses import Responses
from server.respond import json_response
from server.responses import NAMES, chat_body, check, echo_of
from server.rules import wrong
from server.service import Loaded, Service
from server.store import Kept
from server.telling import Telling
from server.wire.chat import ChatRequest
from server.wire.response_bodies import (
    Deleted,
    InputTokens,
    ItemBody,
    ItemList,
    ResponseBody,
    ResponseEvent,
)
from server.wire.responses import ResponsesRequest, TokensRequest
from server.words import in_words_of

DEFAULT_ITEMS, MAX_ITEMS = 20, 100  # in one answer; OpenAI's

router = APIRouter(tags=["responses"])
EVENT = TypeAdapter[ResponseEvent](ResponseEvent)


@router.post(
    "/responses",
    response_model=ResponseBody,
    responses=streamed(EVENT) | ERRORS,
    openapi_extra=resumable(body_of(ResponsesRequest)),
)
async def create_response(request: Request) -> Response:
    """Answer a conversation, whole, as a stream of events, or in the background."""
    if (rest := deliver.rest(request, Endpoint.RESPONSES)) is not None:
        return rest
    async with asking(request, Endpoint.RESPONSES, ResponsesRequest) as (service, account, body, loaded):
        check(body)
        recalled = await recall(body, service.store, owner=owner_of(request))
        chat = await asyncio.to_thread(chat_body, body, recalled.items)
        id = f"resp_{secrets.token_hex(16)}"
        conversation = await _conversation(id, chat, loaded)
        answer = _answer(request, body, recalled, conversation, _reply(id, chat, conversation, loaded, service))

        streams = deliver.start(loaded.engine, conversation.requests, account, param="input")
        settled = service.store.settled
        if not body.background:
            return await deliver.answered(request, streams, answer, account, streamed=body.stream, settled=settled)
        telling = deliver.alone(request, streams, answer, account, settled=settled)
        queued = answer.body
        service.store.keep(Kept(queued, recalled.given), owner=telling.owner)
        await settled()  # nobody is told of a response that a dying process would forget
        return deliver.told(telling, service, start=0) if body.stream else json_response(queued)


@router.post(
    "/responses/input_tokens",
    response_model=InputTokens,
    responses=ERRORS,
    openapi_extra=body_of(TokensRequest),
)
async def count_input_tokens(request: Request) -> Response:
    """How many tokens a conversation takes as the model sees it."""
    service = Service.of(request)
    body, loaded = await named(request, service, TokensRequest)
    check(body)
    recalled = await recall(body, service.store, owner=owner_of(request))
    chat = await asyncio.to_thread(chat_body, body, recalled.items)
    conversation = await _conversation("count", chat, loaded)
    count = len(conversation.prompt.tokens)
    return json_response(InputTokens(object="response.input_tokens", input_tokens=count))


@router.get(
    "/responses/{id}",
    response_model=ResponseBody,
    responses=streamed(EVENT) | ERRORS,
    openapi_extra=resumable(
        {
            "parameters": [
                parameter("stream", {"type": "boolean"}, "as events"),
                parameter("starting_after", {"type": "integer", "minimum": 0}, "the last event that arrived"),
            ]
        }
    ),
)
async def get_response(request: Request, id: str) -> Response:
    """A response as it stands, or its events, from a number on."""
    service = Service.of(request)
    telling, answer = _running(request, id)
    if flag_in(request, "stream"):
        start = _first_wanted(request, id)
        if telling is None or start is None or telling.record.since(start) is None:
            raise deliver.no_such_event("starting_after")
        return deliver.told(telling, service, start=start)
    if answer is not None:
        return json_response(answer.body)
    return json_response((await _kept(request, id)).body)


@router.delete("/responses/{id}", response_model=Deleted, responses=ERRORS)
async def delete_response(request: Request, id: str) -> Response:
    """Forget a response. One that runs ends."""
    service = Service.of(request)
    telling, answer = _running(request, id)
    if answer is not None:
        answer.forget()
    if telling is not None:
        service.records.forget(telling)
    if not await service.store.delete(id, owner=owner_of(request)) and telling is None:
        raise _not_found()
    return json_response(Deleted(id=id, object="response", deleted=True))


@router.post("/responses/{id}/cancel", response_model=ResponseBody, responses=ERRORS)
async def cancel_response(request: Request, id: str) -> Response:
    """End a response that runs in the background; one that has ended stays as it is."""
    telling, answer = _running(request, id)
    body = (await _kept(request, id)).body if answer is None else answer.body
    if not body["background"]:
        raise wrong("id", "only a response that runs in the background can be cancelled")
    if telling is None or answer is None:
        return json_response(body)
    telling.stop()
    while not telling.ended:
        await telling.record.grown()
    await telling.settled()
    return json_response(answer.body)


@router.get(
    "/responses/{id}/input_items",
    response_model=ItemList,
    responses=ERRORS,
    openapi_extra={
        "parameters": [
            parameter("limit", {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS}, "most items in the answer"),
            parameter("order", {"enum": ["asc", "desc"]}, "the newest first, unless asc"),
            parameter("after", {"type": "string"}, "the id of the item before the first"),
        ]
    },
)
async def list_input_items(request: Request, id: str) -> Response:
    """What the client put in, without what came before."""
    items = (await _kept(request, id)).input
    if choice_in(request, "order", ("asc", "desc"), default="desc") == "desc":
        items = items[::-1]
    limit = number_in(request, "limit", least=1, most=MAX_ITEMS, default=DEFAULT_ITEMS)
    return json_response(_page(_after(items, request.query_params.get("after")), limit))


# -- parts ----------------------------------------------------------------------------------------


async def _conversation(id: str, chat: ChatRequest, loaded: Loaded) -> Conversation:
    with in_words_of(NAMES):
        return await converse(id, chat, loaded, NAMES)


def _reply(id: str, chat: ChatRequest, conversation: Conversation, loaded: Loaded, service: Service) -> Reply:
    return reply_of(
        id,
        chat,
        loaded,
        created=service.now(),
        top_logprobs=conversation.top_logprobs,
        shown_special_ids=conversation.shown_special_ids,
    )


def _answer(
    request: Request, body: ResponsesRequest, recalled: Recalled, conversation: Conversation, reply: Reply
) -> Responses:
    service, owner, echo = Service.of(request), owner_of(request), echo_of(body)

    def keep(whole: ResponseBody) -> None:
        if echo["store"]:
            service.store.keep(Kept(whole, recalled.given), owner=owner)

    return Responses(reply, echo, conversation.make_reader, now=service.now, on_end=keep)


def _first_wanted(request: Request, id: str) -> int | None:
    """The event behind the last that arrived. A browser that comes back says which by a header, and keeps its URL."""
    last = request.headers.get("last-event-id")
    if last is None:
        return number_in(request, "starting_after", least=0, default=-1) + 1
    named, start = deliver.behind(last)
    return start if named == id else None


def _running(request: Request, id: str) -> tuple[Telling | None, Responses | None]:
    """A response that is being told, or was until lately, and its answer where that is still growing."""
    telling = Service.of(request).records.find(id, endpoint=Endpoint.RESPONSES, owner=owner_of(request))
    if telling is None or not isinstance(telling.renderer, Responses) or not telling.renderer.stored:
        return None, None
    return telling, None if telling.ended else telling.renderer


async def _kept(request: Request, id: str) -> Kept:
    kept = await Service.of(request).store.get(id, owner=owner_of(request))
    if kept is None:
        raise _not_found()
    return kept


def _not_found() -> ApiError:
    return ApiError(404, "no response of this key has this id", code="response_not_found", param="id")


def _after(items: list[ItemBody], id: str | None) -> list[ItemBody]:
    if id is None:
        return items
    place = next((place for place, item in enumerate(items) if item["id"] == id), None)
    if place is None:
        raise wrong("after", "names no item of this response")
    return items[place + 1 :]


def _page(items: list[ItemBody], limit: int) -> ItemList:
    data = items[:limit]
    return ItemList(
        object="list",
        data=data,
        first_id=data[0]["id"] if data else "",
        last_id=data[-1]["id"] if data else "",
        has_more=len(items) > limit,
    )
