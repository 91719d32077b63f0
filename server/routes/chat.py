"""Chat completions."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server import deliver
from server.account import Account
from server.body import read_body
from server.openapi import ERRORS, STREAMED, body_of
from server.prompt import chat_prompt, predicted_tokens
from server.recorder import Endpoint
from server.render.chat import Chat
from server.render.reply import new_id, reply_of
from server.requests import Wanted, requests_of
from server.rules import chat_max_tokens, check_chat
from server.service import Service
from server.wire.chat import ChatCompletion, ChatRequest

router = APIRouter(tags=["generate"])


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses=STREAMED | ERRORS,
    openapi_extra=body_of(ChatRequest),
)
async def create_chat_completion(request: Request) -> Response:
    """Answer a conversation, whole or as a stream of events."""
    service = Service.of(request)
    with Account.of(request, service.requests, Endpoint.CHAT_COMPLETIONS) as account:
        body = await read_body(request, ChatRequest, max_depth=service.settings.server.max_json_depth)
        loaded = service.loaded()
        loaded.check_name(body.model)
        check_chat(body)
        context = loaded.engine.info.context_length
        prompt = await chat_prompt(loaded.tokenizer, body.messages, body, context=context)
        prediction = await predicted_tokens(loaded.tokenizer, body.prediction, context=context)

        id = new_id("chatcmpl")
        wanted = _wanted(body, prediction)
        asked = requests_of(id, body, [prompt], wanted, eos_ids=loaded.tokenizer.eos_ids)
        reply = reply_of(id, body, loaded, created=service.now(), top_logprobs=wanted.top_logprobs)
        answer = Chat(reply, prompt)

        streams = deliver.start(loaded.engine, asked, account, param="messages")
        if body.stream:
            return deliver.stream(streams, answer, account, service.settings)
        return await deliver.whole(request, streams, answer, account)


def _wanted(body: ChatRequest, prediction: tuple[int, ...]) -> Wanted:
    return Wanted(
        prediction=prediction,
        max_tokens=chat_max_tokens(body),
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
    )
