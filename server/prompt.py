"""Prompts: messages and texts to token ids, on a thread, since a long one takes long."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import orjson

from engine.errors import ChatTemplateFailed, ContextTooLong, PromptError
from engine.text import Tokenizer
from server.body import is_deeper
from server.dialect import Dialect
from server.errors import blaming, from_engine
from server.reading.calls import ID_LENGTH
from server.reading.formats import DEFAULT
from server.told import Turn, told_turns, tool_variable, with_tools
from server.wire.chat import Content, FunctionBody, Message, Prediction, TemplateFields, TextPart, ToolCall
from server.wire.completions import CompletionRequest
from server.wire.embeddings import EmbeddingRequest

MAX_ARGUMENTS_DEPTH = 64  # templates walk arguments recursively
STRETCH = 65_536  # characters of a far too long text that are encoded at once
MAX_COUNTED = 1 << 22  # characters of a text that need not fit a context; a pass over it takes 100 bytes for each
FAR_TOO_LONG = 4  # contexts; a text cut in stretches has a few tokens more, a template may leave text out

Encode = Callable[[Mapping[str, object]], tuple[int, ...]]  # a conversation's tokens, by the template's variables


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's tokens, and its own text where the client sent text."""

    tokens: tuple[int, ...]
    text: str | None = None


# -- chat -----------------------------------------------------------------------------------------


async def chat_prompt(
    tokenizer: Tokenizer,
    messages: list[Message],
    fields: TemplateFields,
    dialect: Dialect,
    *,
    tools: Sequence[FunctionBody] = (),
    variables: Mapping[str, object] | None = None,
    context: int | None = None,
) -> Prompt:
    """The conversation in the model's own format. Any failure on the way is the client's 400.

    `variables` are the template's; what the client sets itself goes before them.
    """
    turns = [template_message(message, short_ids=dialect.short_ids) for message in messages]
    if not dialect.shows_tools:
        turns = _told(messages, turns, dialect, tools)
    shown = {"tools": [tool_variable(tool) for tool in tools]} if tools and dialect.shows_tools else {}
    own = fields.chat_template_kwargs or {}
    with blaming("messages"):
        texts = [text for part in (*turns, shown, own) for text in _texts(part)]
        await _refuse_far_too_long(tokenizer, texts, context)
        encode = partial(_encode_chat, tokenizer, turns, fields, shown)
        return Prompt(await asyncio.to_thread(_encoded, encode, variables or {}, own))


def _encode_chat(
    tokenizer: Tokenizer,
    turns: list[Turn],
    fields: TemplateFields,
    shown: Mapping[str, object],
    variables: Mapping[str, object],
) -> tuple[int, ...]:
    continues = bool(fields.continue_final_message)
    adds = fields.add_generation_prompt
    tokens = tokenizer.encode_chat(
        turns,
        add_generation_prompt=not continues if adds is None else adds,
        continue_final_message=continues,
        template_kwargs={**variables, **shown},
    )
    return tuple(tokens)


def _encoded(encode: Encode, variables: Mapping[str, object], own: Mapping[str, object]) -> tuple[int, ...]:
    """The conversation's tokens. Where the template fails with the client's own variables alone, they are at fault."""
    try:
        return encode({**variables, **own})
    except ChatTemplateFailed as failure:
        if own and _passes(encode, variables):
            raise from_engine(failure, param="chat_template_kwargs") from failure
        raise


def _passes(encode: Encode, variables: Mapping[str, object]) -> bool:
    try:
        encode(variables)
    except PromptError:
        return False
    return True


def _told(messages: list[Message], turns: list[Turn], dialect: Dialect, tools: Sequence[FunctionBody]) -> list[Turn]:
    """The conversation for a template that knows no tools. Where calls are not looked for, none are asked for."""
    told = told_turns(messages, turns, dialect.format or DEFAULT)
    return (
        told if dialect.format is None else with_tools(told, tools, dialect.format, takes_system=dialect.takes_system)
    )


async def predicted_tokens(tokenizer: Tokenizer, prediction: Prediction | None, *, context: int) -> tuple[int, ...]:
    """The client's guess at the answer, as far as an answer can be long."""
    if prediction is None:
        return ()
    text = joined(prediction.content)[: max(STRETCH, FAR_TOO_LONG * context)]
    with blaming("prediction"):
        tokens = await asyncio.to_thread(tokenizer.encode, text, add_special_tokens=False)
    return tuple(tokens[:context])


def template_message(message: Message, *, short_ids: bool = False) -> Turn:
    """A message as chat templates expect it: content is text, and no key is null."""
    id_of = _short if short_ids else str
    plain: Turn = {
        "role": "system" if message.role == "developer" else message.role,
        "content": joined(message.content) + (message.refusal or ""),
    }
    if thought := next((text for text in (message.reasoning_content, message.reasoning) if isinstance(text, str)), ""):
        plain["reasoning_content"] = thought
    if message.name is not None:
        plain["name"] = message.name
    if message.tool_calls:
        plain["tool_calls"] = [_template_call(call, id_of(call.id or "")) for call in message.tool_calls]
    if message.role == "tool":
        plain["tool_call_id"] = id_of(message.tool_call_id or "")
    return plain


def _texts(value: object) -> Iterator[str]:
    """Every text in what a template is given."""
    match value:
        case str():
            yield value
        case dict():
            yield from (text for inner in value.values() for text in _texts(inner))
        case list():
            yield from (text for inner in value for text in _texts(inner))


def joined(content: Content | None) -> str:
    """A content's text."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


def _template_call(call: ToolCall, id: str) -> dict[str, object]:
    function = {"name": call.function.name, "arguments": _arguments(call.function.arguments or "{}")}
    return {"id": id, "type": "function", "function": function}


def _short(id: str) -> str:
    """An id as it is if it is like our own, else one like them: the same for the same."""
    if len(id) == ID_LENGTH and id.isascii() and id.isalnum():
        return id
    return sha256(id.encode("utf-8", "replace")).hexdigest()[:ID_LENGTH]


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
    return await _given_prompts(tokenizer, body.prompt, "prompt", add_special=add_special, context=context)


async def embedding_inputs(tokenizer: Tokenizer, body: EmbeddingRequest, *, context: int) -> list[Prompt]:
    """What is to be embedded, as text or as tokens."""
    add_special = body.add_special_tokens is not False
    return await _given_prompts(tokenizer, body.input, "input", add_special=add_special, context=context)


Given = str | list[str] | list[int] | list[list[int]]


async def _given_prompts(
    tokenizer: Tokenizer, given: Given, param: str, *, add_special: bool, context: int | None
) -> list[Prompt]:
    with blaming(param, prompt=param):
        for one in _several(given):
            await _refuse_far_too_long(tokenizer, [one] if isinstance(one, str) else [], context)
        return [await _given_prompt(tokenizer, one, add_special=add_special) for one in _several(given)]


def _several(prompt: Given) -> list[str | list[int]]:
    """The prompts of one body, each text or tokens."""
    if isinstance(prompt, str):
        return [prompt]
    tokens = [one for one in prompt if isinstance(one, int)]
    return [tokens] if tokens else [one for one in prompt if not isinstance(one, int)]


async def _given_prompt(tokenizer: Tokenizer, given: str | list[int], *, add_special: bool) -> Prompt:
    if isinstance(given, list):
        return Prompt(tuple(given))
    return await _text_prompt(tokenizer, given, add_special=add_special)


async def text_prompt(tokenizer: Tokenizer, text: str, *, add_special: bool) -> Prompt:
    """A text of whatever length; the empty one starts from BOS, if the model has one."""
    with blaming("prompt"):
        await _refuse_far_too_long(tokenizer, [text], None)
        return await _text_prompt(tokenizer, text, add_special=add_special)


async def _text_prompt(tokenizer: Tokenizer, text: str, *, add_special: bool) -> Prompt:
    tokens = await asyncio.to_thread(tokenizer.encode, text, add_special_tokens=add_special)
    if not tokens and tokenizer.bos_id is not None:
        tokens = [tokenizer.bos_id]
    return Prompt(tuple(tokens), text)


# -- far too long ---------------------------------------------------------------------------------


async def _refuse_far_too_long(tokenizer: Tokenizer, texts: list[str], context: int | None) -> None:
    """Refuse texts of many times the context before one pass over them takes gigabytes."""
    num_characters = sum(map(len, texts))
    if context is None:
        if num_characters > MAX_COUNTED:
            raise PromptError(
                f"{num_characters} characters are too many to be tokenized at once, at most {MAX_COUNTED}"
            )
    elif num_characters > max(STRETCH, FAR_TOO_LONG * context):
        await asyncio.to_thread(_count_stretches, tokenizer, texts, context)


def _count_stretches(tokenizer: Tokenizer, texts: Iterable[str], context: int) -> None:
    """Count by stretches, those of the longest text first, up to the one that is past the limit."""
    num_tokens = 0
    for text in sorted(texts, key=len, reverse=True):
        for start in range(0, len(text), STRETCH):
            num_tokens += len(tokenizer.encode(text[start : start + STRETCH], add_special_tokens=False))
            if num_tokens > FAR_TOO_LONG * context:
                raise ContextTooLong(prompt_tokens=FAR_TOO_LONG * context // 2, limit=context, at_least=True)
