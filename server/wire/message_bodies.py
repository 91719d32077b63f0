"""Anthropic's Messages: what a client gets."""

from typing import Literal

from typing_extensions import TypedDict


class TextBody(TypedDict):
    """A part of the answer itself."""

    type: Literal["text"]
    text: str
    citations: None


class ThinkingBody(TypedDict):
    """What the model thought before it answered. Nothing signs it here."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class CallerBody(TypedDict):
    """Who calls the tool: the model itself."""

    type: Literal["direct"]


class ToolUseBody(TypedDict):
    """A call of a tool."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, object]
    caller: CallerBody
    toolset_name: None


BlockBody = TextBody | ThinkingBody | ToolUseBody


class CacheCreationBody(TypedDict):
    """What was written for a certain time: nothing, the cache keeps what it has room for."""

    ephemeral_5m_input_tokens: int
    ephemeral_1h_input_tokens: int


class OutputDetails(TypedDict):
    """What the output's tokens were."""

    thinking_tokens: int


class DeltaUsageBody(TypedDict):
    """`usage` at the end of a stream. The three counts of input tokens add up to the prompt's."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputDetails
    server_tool_use: None


class MessageUsageBody(DeltaUsageBody):
    """`usage`."""

    cache_creation: CacheCreationBody
    inference_geo: None
    service_tier: Literal["standard"]
    speed: None


StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class EndBody(TypedDict):
    """Why an answer ended; as long as it goes on there is no reason."""

    stop_reason: StopReason | None
    stop_sequence: str | None
    stop_details: None
    container: None


class MessageBody(EndBody):
    """A whole answer, or one that begins."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[BlockBody]
    usage: MessageUsageBody
    diagnostics: None


class TextDelta(TypedDict):
    """More of a text."""

    type: Literal["text_delta"]
    text: str


class ThinkingDelta(TypedDict):
    """More of a thought."""

    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(TypedDict):
    """A thought's end."""

    type: Literal["signature_delta"]
    signature: str


class InputDelta(TypedDict):
    """More of a call's arguments."""

    type: Literal["input_json_delta"]
    partial_json: str


BlockDelta = TextDelta | ThinkingDelta | SignatureDelta | InputDelta


class MessageStart(TypedDict):
    """The answer begins."""

    type: Literal["message_start"]
    message: MessageBody


class BlockStart(TypedDict):
    """A block begins, empty."""

    type: Literal["content_block_start"]
    index: int
    content_block: BlockBody


class BlockGrowth(TypedDict):
    """A block grows."""

    type: Literal["content_block_delta"]
    index: int
    delta: BlockDelta


class BlockStop(TypedDict):
    """A block has ended; the next has the next index."""

    type: Literal["content_block_stop"]
    index: int


class MessageDelta(TypedDict):
    """The answer's reason and usage."""

    type: Literal["message_delta"]
    delta: EndBody
    usage: DeltaUsageBody


class Plain(TypedDict):
    """Something that needs no words: the answer has ended, or the server lives."""

    type: Literal["message_stop", "ping"]


BlockEvent = BlockStart | BlockGrowth | BlockStop
MessageEvent = MessageStart | BlockEvent | MessageDelta | Plain


class TokenCount(TypedDict):
    """How many tokens a conversation takes."""

    input_tokens: int


class MessagesErrorBody(TypedDict):
    """What went wrong."""

    type: str
    message: str


class MessagesErrorEnvelope(TypedDict):
    """How every error arrives, within a stream too."""

    type: Literal["error"]
    error: MessagesErrorBody
    request_id: str | None
