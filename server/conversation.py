"""Conversation: a chat body made ready to run. Every endpoint that holds conversations speaks through it."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.request import Request
from server.calling import shape_of
from server.errors import unsupported
from server.prompt import Prompt, chat_prompt, joined, predicted_tokens
from server.reading.pieces import PlainReader
from server.reading.readings import MakeReader
from server.requests import Wanted, requests_of
from server.rules import chat_max_tokens, check_chat
from server.service import Loaded
from server.structure import grammar_of, settled
from server.tools import offer_of
from server.wire.chat import ChatRequest
from server.words import Names


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the engine is asked, from which prompt, and what reads its answer's text."""

    requests: Sequence[Request]
    prompt: Prompt
    make_reader: MakeReader
    top_logprobs: int | None
    shown_special_ids: frozenset[int]


async def converse(id: str, body: ChatRequest, loaded: Loaded, names: Names = ()) -> Conversation:
    """Check a body and make its requests; `id` is the answer's.

    Errors name the chat body's fields; those of an answer that has begun name what `names` makes of them.
    """
    check_chat(body)
    asked, offer = grammar_of(body, loaded.dialect.tokens), offer_of(body)
    if offer.required and loaded.dialect.format is None:
        raise unsupported("tool_choice", "this server looks for no calls: its `tool_format` is none")
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
    said = joined(body.messages[-1].content) if body.continue_final_message else ""
    thinking = loaded.dialect.thinking_after(prompt.tokens, said, loaded.engine.vocabulary)
    shape = shape_of(asked, offer, thinking, loaded.dialect)
    wanted = Wanted(
        prediction=prediction,
        grammar=await settled(loaded.engine, shape.asked, names),
        max_tokens=chat_max_tokens(body),
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        prompt_logprobs=body.prompt_logprobs,
        shown_special_ids=loaded.dialect.special_ids(shape.reader.marks)
        | (shape.asked.shown if shape.asked else frozenset()),
    )
    return Conversation(
        requests_of(id, body, [prompt], wanted, eos_ids=loaded.tokenizer.eos_ids),
        prompt,
        shape.reader if shape.reader.marks else PlainReader,
        wanted.top_logprobs,
        wanted.shown_special_ids,
    )
