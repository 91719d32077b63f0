"""Chat completions: what a client sends."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from server.wire.base import Wire, by_shape
from server.wire.sampling import SamplingFields, StructureFields

MAX_TOOL_NAME = 256
MAX_TOOLS = 1024


class TextPart(Wire):
    """A part of a message's content."""

    type: Literal["text"]
    text: str


class RefusalPart(Wire):
    """A part of an earlier answer, in which the model refused."""

    type: Literal["refusal"]
    refusal: str


def _no_media(part: object) -> object:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(kind, str) and kind not in ("text", "refusal"):
        raise PydanticCustomError("unsupported_parameter", "this model reads text parts alone")
    return part


def _part_tag(part: object) -> str | None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    return f"<{kind}>" if kind in ("text", "refusal") else None


Part = Annotated[
    Annotated[TextPart, Tag("<text>")] | Annotated[RefusalPart, Tag("<refusal>")],
    Discriminator(_part_tag, custom_error_type="part", custom_error_message="must be an object with a `type`"),
    BeforeValidator(_no_media),
]
Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Part], Field(fail_fast=True), Tag("<list>")],
    by_shape("a string or a list of parts"),
]


class FunctionCall(Wire):
    """A call that the model made earlier. Arguments are JSON as text; whatever else they are stays text."""

    name: str
    arguments: str | None = None


class ToolCall(Wire):
    """One entry of an assistant message's `tool_calls`."""

    id: str | None = None
    function: FunctionCall


class Message(Wire):
    """One turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = Field(default=None, validate_default=True)
    name: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(fail_fast=True)] | None = None
    tool_call_id: str | None = None
    reasoning_content: object = Field(default=None, description="what the assistant thought")
    reasoning: object = Field(default=None, description="the same, as other servers call it")
    refusal: str | None = Field(default=None, description="what the assistant said in place of an answer")
    function_call: object = Field(default=None, description="refused: `tool_calls` have taken its place")
    audio: object = Field(default=None, description="refused")

    @field_validator("content")
    @classmethod
    def _only_the_assistant_may_say_nothing(cls, content: str | list[Part] | None, info: ValidationInfo) -> object:
        if info.data.get("role") != "assistant" and (content is None or content == []):
            raise PydanticCustomError("incomplete", "is required for this role")
        return content

    @field_validator("function_call")
    @classmethod
    def _no_call_of_the_older_kind(cls, call: object) -> object:
        if call is not None:
            raise PydanticCustomError("unsupported_parameter", "`tool_calls` have taken its place")
        return call

    @field_validator("audio")
    @classmethod
    def _no_audio(cls, audio: object) -> object:
        if audio is not None:
            raise PydanticCustomError("unsupported_parameter", "this model reads text alone")
        return audio


Messages = Annotated[list[Message], Field(min_length=1, fail_fast=True)]


class FunctionBody(Wire):
    """A function that the model may call. `parameters` is the JSON schema of its arguments."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_TOOL_NAME)]
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class FunctionTool(Wire):
    """A tool that the client runs."""

    type: Literal["function"]
    function: FunctionBody


class OtherTool(Wire):
    """A tool of a kind that is not known here. It is passed over."""

    type: str


def _tool_tag(tool: object) -> str | None:
    kind = tool.get("type") if isinstance(tool, Mapping) else getattr(tool, "type", None)
    if not isinstance(kind, str):
        return None
    return "<function>" if kind == "function" else "<other>"


Tools = Annotated[
    list[
        Annotated[
            Annotated[FunctionTool, Tag("<function>")] | Annotated[OtherTool, Tag("<other>")],
            Discriminator(_tool_tag, custom_error_type="tool", custom_error_message="must be an object with a `type`"),
        ]
    ],
    Field(fail_fast=True, max_length=MAX_TOOLS),
]
ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<text>")] | Annotated[dict[str, object], Tag("<object>")],
    by_shape("a string or an object"),
]


class TemplateFields(Wire):
    """How messages become a prompt. A template itself never comes from a client."""

    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, object] | None = None
    reasoning_effort: str | None = Field(default=None, description="for templates that know it; none: no thinking")
    chat_template: object = Field(default=None, description="refused")


class ToolFields(Wire):
    """What the model may call."""

    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = Field(default=None, description="false: one call at most")


class Prediction(Wire):
    """The client's guess at the whole answer. It makes a right guess fast, and changes nothing else."""

    type: Literal["content"]
    content: Content


class ChatRequest(SamplingFields, TemplateFields, ToolFields, StructureFields):
    """The body of `POST /v1/chat/completions`."""

    messages: Messages
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = Field(default=None, description="wins over max_tokens")
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    functions: list[object] | None = None
    function_call: object = None
    modalities: Annotated[list[str], Field(fail_fast=True)] | None = None
    audio: object = None
    web_search_options: object = None
    prediction: Prediction | None = None
