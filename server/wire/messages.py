"""Anthropic's Messages: what a client sends."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from server.wire.base import Named, StopString, Wire, by_shape

MAX_STOP_SEQUENCES = 16


class TextBlock(Wire):
    """A part of a text."""

    type: Literal["text"]
    text: str


class ThinkingBlock(Wire):
    """What the model thought earlier."""

    type: Literal["thinking"]
    thinking: str = ""


class ToolUseBlock(Wire):
    """A call of a tool that the model made earlier."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, object]


class ServersBlock(Wire):
    """What a server of another kind put into an earlier answer: it is passed over."""

    type: str


_SERVERS = ("redacted_thinking", "server_tool_use", "mcp_tool_use")
_MEDIA = ("image", "document", "search_result", "container_upload")


def _no_media(block: object) -> object:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind in _MEDIA:
        raise PydanticCustomError("unsupported_parameter", "this model reads text blocks alone")
    return block


def _block_tag(block: object) -> str | None:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind in ("text", "thinking", "tool_use", "tool_result"):
        return f"<{kind}>"
    by_a_server = isinstance(kind, str) and (kind in _SERVERS or kind.endswith("_tool_result"))
    return "<server>" if by_a_server else None


TextOnly = Annotated[TextBlock, BeforeValidator(_no_media)]
Texts = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[TextOnly], Field(fail_fast=True), Tag("<list>")],
    by_shape("a string or a list of text blocks"),
]


class ToolResultBlock(Wire):
    """What came of a call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Texts | None = None
    is_error: bool | None = None


Block = Annotated[
    Annotated[TextBlock, Tag("<text>")]
    | Annotated[ThinkingBlock, Tag("<thinking>")]
    | Annotated[ToolUseBlock, Tag("<tool_use>")]
    | Annotated[ToolResultBlock, Tag("<tool_result>")]
    | Annotated[ServersBlock, Tag("<server>")],
    Discriminator(
        _block_tag, custom_error_type="block", custom_error_message="must be a block whose `type` is known here"
    ),
    BeforeValidator(_no_media),
]
Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Block], Field(fail_fast=True), Tag("<list>")],
    by_shape("a string or a list of blocks"),
]


class InputMessage(Wire):
    """One turn of the conversation, or a part of one: what follows from the same role belongs to it."""

    role: Literal["user", "assistant", "system"]
    content: Content


class Tool(Wire):
    """A tool that the model may call. Without a schema it is one of Anthropic's own, which are not here."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: dict[str, object] | None = None
    strict: bool | None = None


class ToolChoice(Wire):
    """`tool_choice`."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Wire):
    """`thinking`. Whether a model thinks is its template's to say; its budget is not enforced."""

    type: Literal["enabled", "disabled", "adaptive"]


class OutputFormat(Wire):
    """A schema that the answer must follow."""

    type: Literal["json_schema"]
    schema_: dict[str, object] = Field(alias="schema")


class OutputConfig(Wire):
    """`output_config`."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class ConversationFields(Named):
    """What a conversation is made of. Null is the same as absent."""

    messages: Annotated[list[InputMessage], Field(min_length=1, fail_fast=True)]
    system: Texts | None = None
    tools: Annotated[list[Tool], Field(fail_fast=True)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    chat_template_kwargs: dict[str, object] | None = Field(default=None, description="as in chat completions")
    chat_template: object = Field(default=None, description="refused")


class CountRequest(ConversationFields):
    """The body of `POST /v1/messages/count_tokens`."""


class MessagesRequest(ConversationFields):
    """The body of `POST /v1/messages`."""

    max_tokens: Annotated[int, Field(ge=1)]
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    stop_sequences: Annotated[list[StopString], Field(max_length=MAX_STOP_SEQUENCES)] | None = None
