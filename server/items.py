"""Items: what a client put in, as it is kept, and the conversation that items make, as a chat's messages."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from server.render.items import item_id
from server.wire.response_bodies import (
    AnswerBody,
    CallBody,
    InputText,
    ItemBody,
    MessageBody,
    OutputText,
    ReasoningBody,
    ReasoningText,
    ResultBody,
)
from server.wire.responses import (
    CallItem,
    Content,
    Input,
    Item,
    MessageItem,
    OtherItem,
    ReasoningItem,
    ReferenceItem,
    ResultItem,
)

ChatMessage = dict[str, object]  # an entry of a chat body's `messages`, as JSON


def references(given: Input) -> list[str]:
    """The ids of items that are named and not given."""
    return [] if isinstance(given, str) else [item.id for item in given if isinstance(item, ReferenceItem)]


def kept_items(given: Input, *, find: Callable[[str], ItemBody]) -> list[ItemBody]:
    """What a client put in, each with an id. What is named is found; what is not known here is passed over."""
    if isinstance(given, str):
        return [_message("user", given, None)]
    return [kept for item in given for kept in _kept(item, find)]


def _kept(item: Item, find: Callable[[str], ItemBody]) -> Iterator[ItemBody]:
    match item:
        case MessageItem():
            yield _answer(item) if item.role == "assistant" else _message(item.role, _text(item.content), item.id)
        case CallItem():
            yield CallBody(
                id=item.id or item_id("fc"),
                type="function_call",
                call_id=item.call_id,
                name=item.name,
                arguments=item.arguments,
                status="completed",
            )
        case ResultItem():
            yield ResultBody(
                id=item.id or item_id("fco"),
                type="function_call_output",
                call_id=item.call_id,
                output=_text(item.output),
                status="completed",
            )
        case ReasoningItem():
            yield from _reasoning(item)
        case ReferenceItem():
            yield find(item.id)
        case OtherItem():
            pass
        case _:
            assert_never(item)


def _message(role: Literal["user", "system", "developer"], text: str, id: str | None) -> MessageBody:
    return MessageBody(
        id=id or item_id("msg"),
        type="message",
        role=role,
        status="completed",
        content=[InputText(type="input_text", text=text)],
    )


def _answer(item: MessageItem) -> AnswerBody:
    text = OutputText(type="output_text", text=_text(item.content), annotations=[], logprobs=[])
    return AnswerBody(
        id=item.id or item_id("msg"), type="message", role="assistant", status="completed", content=[text]
    )


def _reasoning(item: ReasoningItem) -> Iterator[ReasoningBody]:
    """Reasoning in plain text. What another server has encrypted or summed up is passed over."""
    parts = item.content if isinstance(item.content, list) else []
    texts = [text for part in parts if isinstance(part, dict) and isinstance(text := part.get("text"), str)]
    if texts:
        yield ReasoningBody(
            id=item.id or item_id("rs"),
            type="reasoning",
            summary=[],
            content=[ReasoningText(type="reasoning_text", text="".join(texts))],
            encrypted_content=None,
            status="completed",
        )


def _text(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.said for part in content)


# -- as a chat ------------------------------------------------------------------------------------


def chat_messages(items: Sequence[ItemBody]) -> list[ChatMessage]:
    """The conversation: what the model did between two turns of others is one message, if it said one text at most."""
    turns = _Turns()
    for item in items:
        turns.take(item)
    return list(turns.finish())


@dataclass(slots=True)
class _Assistant:
    """What the model did since somebody else spoke."""

    text: str | None = None
    reasoning: str | None = None
    calls: list[ChatMessage] = field(default_factory=list)

    @property
    def message(self) -> ChatMessage:
        message: ChatMessage = {"role": "assistant", "content": self.text or ""}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self.calls
        return message


class _Turns:
    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._own: _Assistant | None = None

    def take(self, item: ItemBody) -> None:
        match item["type"]:
            case "message":
                self._take_message(item)
            case "reasoning":
                own = self._begin(anew=self._own is not None and self._own.reasoning is not None)
                own.reasoning = "".join(part["text"] for part in item["content"])
            case "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                self._begin().calls.append({"id": item["call_id"], "type": "function", "function": function})
            case "function_call_output":
                self._say({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
            case other:
                assert_never(other)

    def _take_message(self, item: MessageBody | AnswerBody) -> None:
        text = "".join(part["text"] for part in item["content"])
        if item["role"] == "assistant":
            own = self._begin(anew=self._own is not None and (self._own.text is not None or bool(self._own.calls)))
            own.text = text
        else:
            self._say({"role": item["role"], "content": text})

    def _begin(self, *, anew: bool = False) -> _Assistant:
        """The model's own turn, which goes on unless it has to begin anew."""
        if anew:
            self._close()
        if self._own is None:
            self._own = _Assistant()
        return self._own

    def _say(self, message: ChatMessage) -> None:
        self._close()
        self._messages.append(message)

    def _close(self) -> None:
        if self._own is not None:
            self._messages.append(self._own.message)
            self._own = None

    def finish(self) -> Iterable[ChatMessage]:
        self._close()
        return self._messages
