"""Responses: what a client gets. Every key that OpenAI's own answers have is there."""

from typing import Literal

from typing_extensions import TypedDict

from server.wire.chat_bodies import TokenLogprobBody

# -- items ----------------------------------------------------------------------------------------

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class InputText(TypedDict):
    """A text that the client wrote."""

    type: Literal["input_text"]
    text: str


class OutputText(TypedDict):
    """A text that the model wrote."""

    type: Literal["output_text"]
    text: str
    annotations: list[object]
    logprobs: list[TokenLogprobBody]


class ReasoningText(TypedDict):
    """What the model thought."""

    type: Literal["reasoning_text"]
    text: str


class MessageBody(TypedDict):
    """A turn of the client's, or of who stands behind it."""

    id: str
    type: Literal["message"]
    role: Literal["user", "system", "developer"]
    status: ItemStatus
    content: list[InputText]


class AnswerBody(TypedDict):
    """A turn of the model's."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: ItemStatus
    content: list[OutputText]


class CallBody(TypedDict):
    """A call of a tool."""

    id: str
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    status: ItemStatus


class ResultBody(TypedDict):
    """What came of a call."""

    id: str
    type: Literal["function_call_output"]
    call_id: str
    output: str
    status: ItemStatus


class ReasoningBody(TypedDict):
    """The reasoning before an answer. Nothing sums it up here, and nothing is encrypted."""

    id: str
    type: Literal["reasoning"]
    summary: list[object]
    content: list[ReasoningText]
    encrypted_content: None
    status: ItemStatus


OutputItem = AnswerBody | CallBody | ReasoningBody
ItemBody = MessageBody | OutputItem | ResultBody


class ItemList(TypedDict):
    """Items of a response's input, as far as one answer has them."""

    object: Literal["list"]
    data: list[ItemBody]
    first_id: str
    last_id: str
    has_more: bool


# -- responses ------------------------------------------------------------------------------------

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class InputDetails(TypedDict):
    """How much of the input was found in the cache."""

    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(TypedDict):
    """What the output's tokens were."""

    reasoning_tokens: int


class ResponseUsage(TypedDict):
    """`usage`."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(TypedDict):
    """Why a response failed."""

    code: Literal["server_error"]
    message: str


class Incomplete(TypedDict):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens"]


class Echo(TypedDict):
    """What a response repeats of its request."""

    model: str
    background: bool
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: dict[str, object]
    safety_identifier: str | None
    service_tier: Literal["default"]
    store: bool
    temperature: float
    text: dict[str, object]
    tool_choice: object
    tools: list[dict[str, object]]
    top_logprobs: int
    top_p: float
    truncation: Literal["auto", "disabled"]
    user: str | None


class ResponseBody(Echo):
    """A response, at any moment of its life."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Status
    error: ResponseError | None
    incomplete_details: Incomplete | None
    output: list[OutputItem]
    usage: ResponseUsage | None
    conversation: None


class Deleted(TypedDict):
    """A response that is gone."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class InputTokens(TypedDict):
    """How many tokens an input takes."""

    object: Literal["response.input_tokens"]
    input_tokens: int


# -- events ---------------------------------------------------------------------------------------


class _Numbered(TypedDict, total=False):
    sequence_number: int


class LifeEvent(_Numbered):
    """A response has come to another state."""

    type: Literal[
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    response: ResponseBody


class ItemEvent(_Numbered):
    """An item begins, or ends."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: OutputItem


class _OfItem(_Numbered):
    item_id: str
    output_index: int


class PartEvent(_OfItem):
    """A part of an item begins, or ends."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    content_index: int
    part: OutputText | ReasoningText


class TextGrowth(_OfItem):
    """More of a text."""

    type: Literal["response.output_text.delta"]
    content_index: int
    delta: str
    logprobs: list[TokenLogprobBody]


class TextEnd(_OfItem):
    """A whole text."""

    type: Literal["response.output_text.done"]
    content_index: int
    text: str
    logprobs: list[TokenLogprobBody]


class ReasoningGrowth(_OfItem):
    """More of the reasoning."""

    type: Literal["response.reasoning_text.delta"]
    content_index: int
    delta: str


class ReasoningEnd(_OfItem):
    """The whole reasoning."""

    type: Literal["response.reasoning_text.done"]
    content_index: int
    text: str


class ArgumentsGrowth(_OfItem):
    """More of a call's arguments."""

    type: Literal["response.function_call_arguments.delta"]
    delta: str


class ArgumentsEnd(_OfItem):
    """A call's whole arguments."""

    type: Literal["response.function_call_arguments.done"]
    name: str
    arguments: str


OutputEvent = (
    ItemEvent | PartEvent | TextGrowth | TextEnd | ReasoningGrowth | ReasoningEnd | ArgumentsGrowth | ArgumentsEnd
)
ResponseEvent = LifeEvent | OutputEvent
