"""Told: tools, calls and what came of them in plain text, for chat templates that know none of them."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import orjson

from server.reading.calls import CallFormat, write_calls
from server.wire.chat import FunctionBody, Message

BEFORE_TOOLS = "You may call functions. These are the functions, one a line, with the JSON schema of their arguments:"
BEFORE_FORMAT = "To call functions, answer with nothing but the calls, each with its own arguments, in this format:"
EXAMPLE = ("function name", '{"argument name": "value"}')

Turn = dict[str, object]  # a message as templates expect it


def tools_text(tools: Sequence[FunctionBody], format: CallFormat) -> str:
    """What a system message says about tools."""
    lines = [orjson.dumps(tool_variable(tool)).decode() for tool in tools]
    return "\n".join([BEFORE_TOOLS, *lines, "", BEFORE_FORMAT, write_calls([EXAMPLE], format)])


def tool_variable(tool: FunctionBody) -> Turn:
    """A tool as templates expect it: every key is there."""
    function = {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}


def with_tools(
    turns: Sequence[Turn], tools: Sequence[FunctionBody], format: CallFormat, *, takes_system: bool = True
) -> list[Turn]:
    """The conversation with the tools in its system message, or in its first where the template takes none."""
    if not tools:
        return list(turns)
    text = tools_text(tools, format)
    first, rest = turns[0], turns[1:]
    if first["role"] == "system":
        return [first | {"content": "\n\n".join(filter(None, (str(first["content"]), text)))}, *rest]
    if takes_system:
        return [{"role": "system", "content": text}, *turns]
    return [first | {"content": f"{text}\n\n{first['content']}"}, *rest]


def told_turns(messages: Iterable[Message], turns: Iterable[Turn], format: CallFormat) -> list[Turn]:
    """The conversation without calls and results: they are text of the assistant and of the user.

    Results that follow each other are one user's message, since many templates want turns to alternate.
    """
    told: list[Turn] = []
    for is_result, group in groupby(zip(messages, turns, strict=True), key=lambda each: each[0].role == "tool"):
        if is_result:
            told.append({"role": "user", "content": "\n".join(_result(str(turn["content"])) for _, turn in group)})
        else:
            told += [_said(message, turn, format) for message, turn in group]
    return told


def _said(message: Message, turn: Turn, format: CallFormat) -> Turn:
    """A message, with its calls as the model would have written them."""
    calls = [(call.function.name, call.function.arguments or "{}") for call in message.tool_calls or ()]
    if not calls:
        return turn
    content = "\n".join(filter(None, [str(turn["content"]), write_calls(calls, format)]))
    return {key: value for key, value in turn.items() if key != "tool_calls"} | {"content": content}


def _result(content: str) -> str:
    return f"<tool_response>\n{content}\n</tool_response>"
