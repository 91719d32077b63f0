"""Conversation: a chat body made ready to run. Every endpoint that holds conversations speaks through it."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.request import Request
from server.prompt import Prompt, chat_prompt, predicted_tokens
from server.reading.pieces import PlainReader
from server.reading.readings import MakeReader
from server.requests import Wanted, requests_of
from server.rules import chat_max_tokens, check_chat
from server.service import Loaded
from server.structure import grammar_of, settled
from server.wire.chat import ChatRequest


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the engine is asked, from which prompt, and what reads its answer's text."""

    requests: Sequence[Request]
    prompt: Prompt
    make_reader: MakeReader
    top_logprobs: int | None


async def converse(id: str, body: ChatRequest, loaded: Loaded) -> Conversation:
    """Check a body and make its requests; `id` is the answer's. Errors name the chat body's fields."""
    check_chat(body)
    asked = grammar_of(body)
    context = loaded.engine.info.context_length
    prompt = await chat_prompt(loaded.tokenizer, body.messages, body, context=context)
    prediction = await predicted_tokens(loaded.tokenizer, body.prediction, context=context)
    wanted = Wanted(
        prediction=prediction,
        grammar=await settled(loaded.engine, asked),
        max_tokens=chat_max_tokens(body),
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
    )
    requests = requests_of(id, body, [prompt], wanted, eos_ids=loaded.tokenizer.eos_ids)
    return Conversation(requests, prompt, PlainReader, wanted.top_logprobs)
