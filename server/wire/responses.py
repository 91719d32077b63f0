"""Responses: what a client sends."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from server.wire.base import Named, Stop, Wire, by_shape
from server.wire.chat import MAX_TOOLS
from server.wire.sampling import LogitBias

MAX_ITEMS = 20_000
MAX_METADATA = 16

# -- items ----------------------------------------------------------------------------------------


_KINDS = ("input_text", "output_text", "text", "refusal")


class TextPart(Wire):
    """A part of a text, as the client or the model wrote it; what the model wrote to refuse is one, too."""

    type: Literal["input_text", "output_text", "text", "refusal"]
    text: str | None = None
    refusal: str | None = None

    @property
    def said(self) -> str:
        """What stands in it."""
        return (self.refusal if self.type == "refusal" else self.text) or ""

    @model_validator(mode="after")
    def _a_text_in_its_place(self) -> Self:
        if (self.refusal if self.type == "refusal" else self.text) is None:
            raise PydanticCustomError("incomplete", "needs its text")
        return self


def _no_media(part: object) -> object:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(kind, str) and kind not in _KINDS:
        raise PydanticCustomError("unsupported_parameter", "this model reads text parts alone")
    return part


Part = Annotated[TextPart, BeforeValidator(_no_media)]
Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Part], Field(fail_fast=True), Tag("<list>")],
    by_shape("a string or a list of parts"),
]


class MessageItem(Wire):
    """A turn of somebody."""

    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: Content


class CallItem(Wire):
    """A call of a tool that the model made earlier."""

    type: Literal["function_call"]
    id: str | None = None
    call_id: str
    name: str
    arguments: str


class ResultItem(Wire):
    """What came of a call."""

    type: Literal["function_call_output"]
    id: str | None = None
    call_id: str
    output: Content


class ReasoningItem(Wire):
    """What a model thought earlier; of content that is not text, such as another server's, nothing is read."""

    type: Literal["reasoning"]
    id: str | None = None
    content: object = None


class ReferenceItem(Wire):
    """An item that is kept here, by its id."""

    id: str


class OtherItem(Wire):
    """An item of a kind that is not known here. It is passed over."""

    type: str


_KNOWN = ("message", "function_call", "function_call_output", "reasoning", "item_reference")


def _item_tag(item: object) -> str | None:
    if not isinstance(item, Mapping):
        return None
    kind = item.get("type")
    if kind is None:
        return "<message>" if "role" in item or "id" not in item else "<item_reference>"
    if not isinstance(kind, str):
        return None
    return f"<{kind}>" if kind in _KNOWN else "<other>"


Item = Annotated[
    Annotated[MessageItem, Tag("<message>")]
    | Annotated[CallItem, Tag("<function_call>")]
    | Annotated[ResultItem, Tag("<function_call_output>")]
    | Annotated[ReasoningItem, Tag("<reasoning>")]
    | Annotated[ReferenceItem, Tag("<item_reference>")]
    | Annotated[OtherItem, Tag("<other>")],
    Discriminator(_item_tag, custom_error_type="item", custom_error_message="must be an object with a `type`"),
]
Input = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Item], Field(fail_fast=True, max_length=MAX_ITEMS), Tag("<list>")],
    by_shape("a string or a list of items"),
]

# -- what is asked --------------------------------------------------------------------------------


class Format(Wire):
    """`text.format`."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: dict[str, object] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class TextFields(Wire):
    """`text`."""

    format: Format | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningFields(Wire):
    """`reasoning`."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


Tools = Annotated[list[dict[str, object]], Field(fail_fast=True, max_length=MAX_TOOLS)]
ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<text>")] | Annotated[dict[str, object], Tag("<object>")],
    by_shape("a string or an object"),
]


class ConversationFields(Named):
    """What a conversation is made of. Null is the same as absent."""

    input: Input
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextFields | None = None
    reasoning: ReasoningFields | None = None
    truncation: Literal["auto", "disabled"] | None = Field(default=None, description="nothing is ever cut off")
    conversation: object = Field(default=None, description="refused")
    chat_template_kwargs: dict[str, object] | None = Field(default=None, description="as in chat completions")
    chat_template: object = Field(default=None, description="refused")


class TokensRequest(ConversationFields):
    """The body of `POST /v1/responses/input_tokens`."""


class ResponsesRequest(ConversationFields):
    """The body of `POST /v1/responses`."""

    store: bool | None = Field(default=None, description="false: nothing of it is kept")
    stream: bool | None = None
    background: bool | None = Field(default=None, description="it runs on whoever leaves")
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    include: Annotated[list[str], Field(fail_fast=True)] | None = None
    metadata: Annotated[dict[str, str], Field(max_length=MAX_METADATA)] | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None
    prompt: object = Field(default=None, description="refused")
    context_management: object = Field(default=None, description="refused")

    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = Field(default=None, description="any 64-bit integer")
    stop: Stop | None = None
    logit_bias: LogitBias | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = Field(default=None, description="0 and -1 keep every token")
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=10)] | None = None
    ignore_eos: bool | None = None
    cache_salt: str | None = Field(default=None, description="requests share cached prefixes within one salt alone")
    priority: int | None = Field(default=None, description="a lower one goes first")
    max_draft_tokens: Annotated[int, Field(ge=0)] | None = None
