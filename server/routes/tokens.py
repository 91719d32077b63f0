"""Tokenize and detokenize."""

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import UnknownToken
from engine.text import Vocabulary
from server.body import read_body
from server.errors import blaming
from server.openapi import ERRORS, body_of
from server.prompt import Prompt, chat_prompt, text_prompt
from server.respond import json_response
from server.rules import check_template, wrong
from server.service import Loaded, Service
from server.tools import offer_of
from server.wire.tokens import DetokenizeAnswer, DetokenizeRequest, TokenizeAnswer, TokenizeRequest

router = APIRouter(tags=["tokens"])


@router.post("/tokenize", response_model=TokenizeAnswer, responses=ERRORS, openapi_extra=body_of(TokenizeRequest))
async def tokenize(request: Request) -> Response:
    """The token ids of a text, or of a conversation as the model would see it."""
    service = Service.of(request)
    body = await read_body(request, TokenizeRequest, max_depth=service.settings.server.max_json_depth)
    loaded = service.loaded()
    if body.model is not None:
        loaded.check_name(body.model)
    prompt = await _prompt_of(loaded, body)
    answer = TokenizeAnswer(
        tokens=list(prompt.tokens), count=len(prompt.tokens), max_model_len=loaded.engine.info.context_length
    )
    if body.return_token_strs:
        answer["token_strs"] = [loaded.engine.vocabulary.text_of(token) for token in prompt.tokens]
    return json_response(answer)


async def _prompt_of(loaded: Loaded, body: TokenizeRequest) -> Prompt:
    if body.messages is not None and body.prompt is not None:
        raise wrong("messages", "goes against `prompt`")
    if body.messages is not None:
        check_template(body, body.messages)
        return await chat_prompt(
            loaded.tokenizer,
            body.messages,
            body,
            loaded.dialect,
            tools=offer_of(body).shown,
            variables=loaded.dialect.effort(body.reasoning_effort),
        )
    if body.prompt is not None:
        for name in ("tools", "chat_template", "chat_template_kwargs"):
            if getattr(body, name):
                raise wrong(name, "needs `messages`")
        return await text_prompt(loaded.tokenizer, body.prompt, add_special=body.add_special_tokens is not False)
    raise wrong("prompt", "is required, or `messages`")


@router.post("/detokenize", response_model=DetokenizeAnswer, responses=ERRORS, openapi_extra=body_of(DetokenizeRequest))
async def detokenize(request: Request) -> Response:
    """The text of token ids."""
    service = Service.of(request)
    body = await read_body(request, DetokenizeRequest, max_depth=service.settings.server.max_json_depth)
    loaded = service.loaded()
    if body.model is not None:
        loaded.check_name(body.model)
    vocabulary = loaded.engine.vocabulary
    with blaming("tokens"):
        _check_tokens(body.tokens, vocabulary)
    text = await asyncio.to_thread(vocabulary.decode, body.tokens, skip_special=False)
    return json_response(DetokenizeAnswer(prompt=text))


def _check_tokens(tokens: list[int], vocabulary: Vocabulary) -> None:
    for token in (min(tokens, default=0), max(tokens, default=0)):
        if not 0 <= token < vocabulary.size:
            raise UnknownToken(field="tokens", token=token, vocabulary_size=vocabulary.size)
