"""Messages: Anthropic's body as a chat's, and what is wrong with the chat's in Anthropic's words."""

import re

from server.body import validated
from server.rules import wrong
from server.turns import chat_messages, system_message
from server.wire.chat import ChatRequest
from server.wire.messages import ConversationFields, MessagesRequest, OutputConfig, Thinking, Tool, ToolChoice
from server.words import in_words_of

DEFAULT_EFFORT = "medium"
COUNTED = {"max_tokens": 1}  # a conversation that is only counted makes no tokens

# What a chat body's fields are called here. The first pattern that fits the whole path counts.
NAMES = (
    (re.compile(r"messages\b.*"), "messages"),
    (re.compile(r"(tools\[\d+\])\.function\.parameters(.*)"), r"\1.input_schema\2"),
    (re.compile(r"(tools\[\d+\])\.function(.*)"), r"\1\2"),
    (re.compile(r"(tool_choice).*"), r"\1"),
    (re.compile(r"parallel_tool_calls"), "tool_choice.disable_parallel_tool_use"),
    (re.compile(r"response_format\.json_schema\.schema(.*)"), r"output_config.format.schema\1"),
    (re.compile(r"response_format.*"), "output_config.format"),
    (re.compile(r"reasoning_effort"), "output_config.effort"),
    (re.compile(r"stop(\[.*)?"), r"stop_sequences\1"),
)
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_body(body: ConversationFields) -> ChatRequest:
    """The chat body that asks for the same."""
    fields = _conversation(body) | (_sampling(body) if isinstance(body, MessagesRequest) else COUNTED)
    with in_words_of(NAMES):
        return validated({name: value for name, value in fields.items() if value is not None}, ChatRequest)


def _conversation(body: ConversationFields) -> dict[str, object]:
    messages = [*system_message(body.system), *chat_messages(body.messages)]
    choice = body.tool_choice
    return {
        "model": body.model,
        "messages": messages,
        "continue_final_message": messages[-1]["role"] == "assistant" or None,
        "tools": [_tool(tool, f"tools[{place}]") for place, tool in enumerate(body.tools or ())] or None,
        "tool_choice": _choice(choice) if choice else None,
        "parallel_tool_calls": False if choice and choice.disable_parallel_tool_use else None,
        "chat_template_kwargs": body.chat_template_kwargs,
        "chat_template": body.chat_template,
        **_output(body),
    }


def _sampling(body: MessagesRequest) -> dict[str, object]:
    return {
        "max_tokens": body.max_tokens,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": body.top_k,
        "stop": body.stop_sequences or None,
        "stream": body.stream,
    }


def _tool(tool: Tool, where: str) -> dict[str, object]:
    """A function; one of Anthropic's own kinds stays what it is, so that the chat passes over it."""
    if tool.input_schema is None and tool.type not in (None, "custom"):
        return {"type": tool.type}
    if tool.name is None or tool.input_schema is None:
        raise wrong(f"{where}.{'input_schema' if tool.name else 'name'}", "is required")
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": tool.strict,
    }
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}


def _choice(choice: ToolChoice) -> object:
    if choice.type != "tool":
        return _CHOICES[choice.type]
    if choice.name is None:
        raise wrong("tool_choice.name", "is required")
    return {"type": "function", "function": {"name": choice.name}}


def _output(body: ConversationFields) -> dict[str, object]:
    config = body.output_config or OutputConfig()
    schema = config.format and {"name": "output", "schema": config.format.schema_, "strict": True}
    return {
        "reasoning_effort": _effort(body.thinking, config.effort),
        "response_format": {"type": "json_schema", "json_schema": schema} if schema else None,
    }


def _effort(thinking: Thinking | None, effort: str | None) -> str | None:
    """How much to think. Whoever asks for thinking and does not say how much gets the middle."""
    if thinking is None:
        return effort
    return "none" if thinking.type == "disabled" else effort or DEFAULT_EFFORT
