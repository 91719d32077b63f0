"""Responses: a body as a chat's, what an answer repeats of it, and what is wrong with the chat's in its own words."""

import re
from collections.abc import Sequence

from server.body import validated
from server.errors import unsupported
from server.items import ChatMessage, chat_messages
from server.rules import wrong
from server.wire.chat import ChatRequest
from server.wire.response_bodies import Echo, ItemBody
from server.wire.responses import ConversationFields, Format, ResponsesRequest
from server.words import in_words_of

LOGPROBS = "message.output_text.logprobs"  # what `include` asks for

# What a chat body's fields are called here. The first pattern that fits the whole path counts.
NAMES = (
    (re.compile(r"messages\b.*"), "input"),
    (re.compile(r"(tools\[\d+\])\.function(.*)"), r"\1\2"),
    (re.compile(r"(tool_choice).*"), r"\1"),
    (re.compile(r"response_format\.json_schema(\..*)?"), r"text.format\1"),
    (re.compile(r"response_format(.*)"), r"text.format\1"),
    (re.compile(r"reasoning_effort"), "reasoning.effort"),
    (re.compile(r"max_completion_tokens"), "max_output_tokens"),
)
_SAME = (
    *("temperature", "top_p", "seed", "stop", "logit_bias", "presence_penalty", "frequency_penalty", "top_k", "min_p"),
    *("repetition_penalty", "ignore_eos", "cache_salt", "priority", "max_draft_tokens"),
)


def check(body: ConversationFields) -> None:
    """Refuse what this server lacks, and fields that go against each other."""
    if body.conversation is not None:
        raise unsupported("conversation", "conversations are kept by `previous_response_id` alone")
    if not isinstance(body, ResponsesRequest):
        return
    if body.prompt is not None:
        raise unsupported("prompt", "no prompts are kept here")
    if body.context_management:
        raise unsupported("context_management", "no conversation is made shorter here")
    if body.background and body.store is False:
        raise wrong("background", "needs `store`: a response that is not kept can't be asked for later")


def chat_body(body: ConversationFields, items: Sequence[ItemBody]) -> ChatRequest:
    """The chat body that asks for the same, about a conversation of `items`."""
    messages: list[ChatMessage] = [{"role": "system", "content": body.instructions}] if body.instructions else []
    messages += chat_messages(items)
    if not messages:
        raise wrong("input", "holds nothing that this model reads")
    fields = _conversation(body, messages) | (_sampling(body) if isinstance(body, ResponsesRequest) else {})
    with in_words_of(NAMES):
        return validated({name: value for name, value in fields.items() if value is not None}, ChatRequest)


def _conversation(body: ConversationFields, messages: list[ChatMessage]) -> dict[str, object]:
    return {
        "model": body.model,
        "messages": messages,
        "tools": [_tool(tool) for tool in body.tools or ()] or None,
        "tool_choice": body.tool_choice,
        "parallel_tool_calls": body.parallel_tool_calls,
        "response_format": _format(body.text.format) if body.text and body.text.format else None,
        "reasoning_effort": body.reasoning.effort if body.reasoning else None,
        "chat_template_kwargs": body.chat_template_kwargs,
        "chat_template": body.chat_template,
    }


def _sampling(body: ResponsesRequest) -> dict[str, object]:
    listed = shows_logprobs(body)
    return {name: getattr(body, name) for name in _SAME} | {
        "max_completion_tokens": body.max_output_tokens,
        "stream": body.stream,
        "logprobs": listed or None,
        "top_logprobs": (body.top_logprobs or 0) if listed else None,
        "logit_bias": {str(id): bias for id, bias in body.logit_bias.items()} if body.logit_bias else None,
    }


def shows_logprobs(body: ResponsesRequest) -> bool:
    """Whether the answer lists log-probabilities."""
    return bool(body.top_logprobs) or LOGPROBS in (body.include or ())


def _tool(tool: dict[str, object]) -> dict[str, object]:
    """A function, whose fields stand beside its type here; any other kind stays what it is."""
    if tool.get("type") != "function":
        return {"type": tool.get("type")}
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in names if tool.get(name) is not None}}


def _format(format: Format) -> dict[str, object]:
    if format.type != "json_schema":
        return {"type": format.type}
    if format.schema_ is None:
        raise wrong("text.format.schema", "is required")
    return {
        "type": "json_schema",
        "json_schema": {"name": format.name or "output", "schema": format.schema_, "strict": format.strict},
    }


def echo_of(body: ResponsesRequest) -> Echo:
    """What an answer repeats, with the defaults of what was left out."""
    return Echo(
        model=body.model,
        background=bool(body.background),
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        max_tool_calls=body.max_tool_calls,
        metadata=body.metadata or {},
        parallel_tool_calls=body.parallel_tool_calls is not False,
        previous_response_id=body.previous_response_id,
        prompt_cache_key=body.prompt_cache_key,
        reasoning=body.reasoning.model_dump() if body.reasoning else {"effort": None, "summary": None},
        safety_identifier=body.safety_identifier,
        service_tier="default",
        store=body.store is not False,
        temperature=1.0 if body.temperature is None else body.temperature,
        text=_text(body),
        tool_choice=body.tool_choice or "auto",
        tools=body.tools or [],
        top_logprobs=body.top_logprobs or 0,
        top_p=1.0 if body.top_p is None else body.top_p,
        truncation=body.truncation or "disabled",
        user=body.user,
    )


def _text(body: ResponsesRequest) -> dict[str, object]:
    verbosity = (body.text and body.text.verbosity) or "medium"
    format = body.text.format if body.text else None
    if format is None:
        return {"format": {"type": "text"}, "verbosity": verbosity}
    return {"format": format.model_dump(by_alias=True, exclude_none=True), "verbosity": verbosity}
