"""Turns: Anthropic's messages, which are made of blocks, as a chat's."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import assert_never

import orjson

from server.rules import wrong
from server.wire.messages import (
    Block,
    InputMessage,
    ServersBlock,
    TextBlock,
    Texts,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

BETWEEN_MESSAGES = "\n\n"  # of one role, which together are one turn
BILLING = "x-anthropic-billing-header"  # differs in every request, so that no prefix would ever be found again

ChatMessage = dict[str, object]  # an entry of a chat body's `messages`, as JSON


def system_message(system: Texts | None) -> list[ChatMessage]:
    """The message in front of all others, if there is a text for it."""
    texts = [system] if isinstance(system, str) else [block.text for block in system or ()]
    kept = "".join(text for text in texts if not text.startswith(BILLING))
    return [{"role": "system", "content": kept}] if kept else []


def chat_messages(messages: Sequence[InputMessage]) -> list[ChatMessage]:
    """A conversation as a chat's: messages of one role that follow each other are one turn, each result is its own."""
    for place, message in enumerate(messages):
        _check(message, f"messages[{place}].content")
    last = messages[-1]
    if last.role == "assistant" and any(isinstance(block, ToolUseBlock) for block in _blocks(last)):
        raise wrong("messages", "the last one calls a tool, and there is no result to go on from")
    turns = groupby(messages, key=lambda message: message.role)
    return [message for role, parts in turns for message in _turn(role, parts)]


def _check(message: InputMessage, where: str) -> None:
    """Refuse blocks that this role does not write."""
    if not message.content and message.role != "assistant" and not isinstance(message.content, str):
        raise wrong(where, "must not be empty for this role")
    for number, block in enumerate(_blocks(message)):
        if not _may_write(message.role, block):
            raise wrong(f"{where}[{number}].type", "is nothing that this role writes")


def _may_write(role: str, block: Block) -> bool:
    match block:
        case TextBlock():
            return True
        case ToolResultBlock():
            return role == "user"
        case ToolUseBlock() | ThinkingBlock() | ServersBlock():
            return role == "assistant"
    assert_never(block)


def _blocks(message: InputMessage) -> Sequence[Block]:
    """What a message is made of; a text is one block."""
    content = message.content
    return (TextBlock(type="text", text=content),) if isinstance(content, str) else content


def _turn(role: str, messages: Iterable[InputMessage]) -> Iterator[ChatMessage]:
    said = _Said(role)
    for message in messages:
        said.begin()
        for block in _blocks(message):
            if isinstance(block, ToolResultBlock):
                yield from said.taken()
                yield _result(block)
            else:
                said.take(block)
    yield from said.taken()


def _result(block: ToolResultBlock) -> ChatMessage:
    """What came of a call. A chat knows no flag for an error, so the text says it."""
    content = block.content or ""
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    if block.is_error and not text.lower().startswith("error"):
        text = f"Error: {text}"
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": text}


@dataclass(slots=True)
class _Said:
    """What one role has said since the last result. `texts` are by message."""

    role: str
    texts: list[list[str]] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ChatMessage] = field(default_factory=list)

    def begin(self) -> None:
        """Another message of the same turn."""
        self.texts.append([])

    def take(self, block: TextBlock | ToolUseBlock | ThinkingBlock | ServersBlock) -> None:
        """Add a block of the message that was begun last."""
        match block:
            case TextBlock():
                self.texts[-1].append(block.text)
            case ThinkingBlock():
                self.thoughts.append(block.thinking)
            case ToolUseBlock():
                self.calls.append(_call(block))
            case ServersBlock():
                pass  # what it says is that server's to read
            case _:
                assert_never(block)

    def taken(self) -> list[ChatMessage]:
        """The chat's message for it, once. The assistant may have said nothing, and has still had a turn."""
        texts, self.texts = self.texts, [[]]
        if self.role != "assistant" and not any(texts):
            return []
        parts = ["".join(text) for text in texts]
        message: ChatMessage = {"role": self.role, "content": BETWEEN_MESSAGES.join(filter(None, parts))}
        if self.thoughts:
            message["reasoning_content"] = "".join(self.thoughts)
        if self.calls:
            message["tool_calls"] = self.calls
        return [message]


def _call(block: ToolUseBlock) -> ChatMessage:
    function = {"name": block.name, "arguments": orjson.dumps(block.input).decode()}
    return {"id": block.id, "type": "function", "function": function}
