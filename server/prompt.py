"""Prompts: messages and texts to token ids, on a thread, since a long one takes long."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from engine.errors import ContextTooLong
from engine.text import Tokenizer
from server.body import is_deeper
from server.errors import blaming
from server.wire.chat import Content, Message, Prediction, TemplateFields, TextPart, ToolCall
from server.wire.completions import CompletionRequest

MAX_ARGUMENTS_DEPTH = 64  # templates walk arguments recursively
STRETCH = 65_536  # characters of a far too long text that are encoded at once
FAR_TOO_LONG = 4  # contexts; a text cut in stretches has a few tokens more, a template may leave text out


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's tokens, and its own text where the client sent text."""

    tokens: tuple[int, ...]
    text: str | None = None


# -- chat -----------------------------------------------------------------------------------------


async def chat_prompt(
    tokenizer: Tokenizer, messages: list[Message], fields: TemplateFields, *, context: int | None = None
) -> Prompt:
    """The conversation in the model's own format. Any failure on the way is the client's 400."""
    continues = bool(fields.continue_final_message)
    with blaming("messages"):
        await _refuse_far_too_long(tokenizer, [text for message in messages for text in _texts(message)], context)
        tokens = await asyncio.to_thread(
            tokenizer.encode_chat,
            [template_message(message) for message in messages],
            add_generation_prompt=not continues
            if fields.add_generation_prompt is None
            else fields.add_generation_prompt,
            continue_final_message=continues,
            template_kwargs=fields.chat_template_kwargs or {},
        )
    return Prompt(tuple(tokens))


async def predicted_tokens(tokenizer: Tokenizer, prediction: Prediction | None, *, context: int) -> tuple[int, ...]:
    """The client's guess at the answer, as far as an answer can be long."""
    if prediction is None:
        return ()
    text = _joined(prediction.content)[: max(STRETCH, FAR_TOO_LONG * context)]
    with blaming("prediction"):
        tokens = await asyncio.to_thread(tokenizer.encode, text, add_special_tokens=False)
    return tuple(tokens[:context])


def template_message(message: Message) -> dict[str, object]:
    """A message as chat templates expect it: content is text, and no key is null."""
    plain: dict[str, object] = {
        "role": "system" if message.role == "developer" else message.role,
        "content": _joined(message.content),
    }
    if message.name is not None:
        plain["name"] = message.name
    if message.tool_calls:
        plain["tool_calls"] = [_template_call(call) for call in message.tool_calls]
    if message.role == "tool":
        plain["tool_call_id"] = message.tool_call_id or ""
    return plain


def _texts(message: Message) -> Iterator[str]:
    """What a template would show of a message."""
    yield _joined(message.content)
    yield from (call.function.arguments or "" for call in message.tool_calls or ())


def _joined(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


def _template_call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.function.name, "arguments": _arguments(call.function.arguments or "{}")}
    return {"id": call.id or "", "type": "function", "function": function}


def _arguments(text: str) -> object:
    """A JSON object as templates want it; whatever else a model wrote stays the text that it is."""
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return arguments if isinstance(arguments, dict) and not is_deeper(text.encode(), MAX_ARGUMENTS_DEPTH) else text


# -- completions ----------------------------------------------------------------------------------


async def completion_prompts(
    tokenizer: Tokenizer, body: CompletionRequest, *, context: int | None = None
) -> list[Prompt]:
    """One prompt or several, as text or as tokens."""
    add_special = body.add_special_tokens is not False
    with blaming("prompt"):
        for given in _several(body.prompt):
            await _refuse_far_too_long(tokenizer, [given] if isinstance(given, str) else [], context)
    return [await _given_prompt(tokenizer, given, add_special=add_special) for given in _several(body.prompt)]


def _several(prompt: str | list[str] | list[int] | list[list[int]]) -> list[str | list[int]]:
    """The prompts of one body, each text or tokens."""
    if isinstance(prompt, str):
        return [prompt]
    tokens = [one for one in prompt if isinstance(one, int)]
    return [tokens] if tokens else [one for one in prompt if not isinstance(one, int)]


async def _given_prompt(tokenizer: Tokenizer, given: str | list[int], *, add_special: bool) -> Prompt:
    if isinstance(given, list):
        return Prompt(tuple(given))
    return await text_prompt(tokenizer, given, add_special=add_special)


async def text_prompt(tokenizer: Tokenizer, text: str, *, add_special: bool) -> Prompt:
    """A text; the empty one starts from BOS, if the model has one."""
    with blaming("prompt"):
        tokens = await asyncio.to_thread(tokenizer.encode, text, add_special_tokens=add_special)
    if not tokens and tokenizer.bos_id is not None:
        tokens = [tokenizer.bos_id]
    return Prompt(tuple(tokens), text)


# -- far too long ---------------------------------------------------------------------------------


async def _refuse_far_too_long(tokenizer: Tokenizer, texts: list[str], context: int | None) -> None:
    """Refuse texts of many times the context before one pass over them takes gigabytes."""
    if context is not None and sum(map(len, texts)) > max(STRETCH, FAR_TOO_LONG * context):
        await asyncio.to_thread(_count_stretches, tokenizer, texts, context)


def _count_stretches(tokenizer: Tokenizer, texts: Iterable[str], context: int) -> None:
    """Count by stretches, up to the first that is past the limit."""
    num_tokens = 0
    for text in texts:
        for start in range(0, len(text), STRETCH):
            num_tokens += len(tokenizer.encode(text[start : start + STRETCH], add_special_tokens=False))
            if num_tokens > FAR_TOO_LONG * context:
                raise ContextTooLong(prompt_tokens=FAR_TOO_LONG * context // 2, limit=context, at_least=True)
