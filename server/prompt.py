"""Prompts: messages and texts to token ids, on a thread, since a long one takes long."""

import asyncio
from dataclasses import dataclass

import orjson

from engine.text import Tokenizer
from server.body import is_deeper
from server.errors import blaming
from server.wire.chat import Content, Message, TemplateFields, TextPart, ToolCall
from server.wire.completions import CompletionRequest

MAX_ARGUMENTS_DEPTH = 64  # templates walk arguments recursively


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's tokens, and its own text where the client sent text."""

    tokens: tuple[int, ...]
    text: str | None = None


# -- chat -----------------------------------------------------------------------------------------


async def chat_prompt(tokenizer: Tokenizer, messages: list[Message], fields: TemplateFields) -> Prompt:
    """The conversation in the model's own format. Any failure on the way is the client's 400."""
    continues = bool(fields.continue_final_message)
    with blaming("messages"):
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


async def completion_prompts(tokenizer: Tokenizer, body: CompletionRequest) -> list[Prompt]:
    """One prompt or several, as text or as tokens."""
    add_special = body.add_special_tokens is not False
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
