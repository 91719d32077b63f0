"""Conversation: a chat body made ready to run. Every endpoint that holds conversations speaks through it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.request import Request
from server.dialect import shown_ids
from server.errors import unsupported
from server.prompt import Prompt, chat_prompt, joined, predicted_tokens
from server.reading.answer import AnswerReader
from server.reading.calls import Calls
from server.reading.pieces import PlainReader
from server.reading.readings import MakeReader
from server.requests import Wanted, requests_of
from server.rules import chat_max_tokens, check_chat
from server.service import Loaded
from server.structure import grammar_of, settled
from server.tools import Offer, offer_of
from server.wire.chat import ChatRequest


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the engine is asked, from which prompt, and what reads its answer's text."""

    requests: Sequence[Request]
    prompt: Prompt
    make_reader: MakeReader
    top_logprobs: int | None
    shown_special_ids: frozenset[int]


async def converse(id: str, body: ChatRequest, loaded: Loaded) -> Conversation:
    """Check a body and make its requests; `id` is the answer's. Errors name the chat body's fields."""
    check_chat(body)
    offer = offer_of(body)
    if offer.required:
        raise unsupported("tool_choice", "a call can't be required here")
    asked = grammar_of(body)
    context = loaded.engine.info.context_length
    prompt = await chat_prompt(
        loaded.tokenizer,
        body.messages,
        body,
        loaded.dialect,
        tools=offer.shown,
        variables=loaded.dialect.effort(body.reasoning_effort),
        context=context,
    )
    prediction = await predicted_tokens(loaded.tokenizer, body.prediction, context=context)
    reader = AnswerReader() if asked else _reader_of(body, prompt, offer, loaded)
    wanted = Wanted(
        prediction=prediction,
        grammar=await settled(loaded.engine, asked),
        max_tokens=chat_max_tokens(body),
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        shown_special_ids=shown_ids(reader.marks, loaded.engine.vocabulary),
    )
    return Conversation(
        requests_of(id, body, [prompt], wanted, eos_ids=loaded.tokenizer.eos_ids),
        prompt,
        reader if reader.marks else PlainReader,
        wanted.top_logprobs,
        wanted.shown_special_ids,
    )


def _reader_of(body: ChatRequest, prompt: Prompt, offer: Offer, loaded: Loaded) -> AnswerReader:
    """What reads the answer: reasoning if the model marks it, calls if it may make any."""
    said = joined(body.messages[-1].content) if body.continue_final_message else ""
    thinking = loaded.dialect.thinking_after(prompt.tokens, said, loaded.engine.vocabulary)
    reader = AnswerReader(thinking)
    if not offer.callable:
        return reader
    return replace(
        reader,
        format=loaded.dialect.format,
        make_calls=lambda: Calls(offer.names, most=1 if offer.single else None),
    )
