"""Chat completions: what a client gets."""

from typing import Literal

from typing_extensions import TypedDict

from server.wire.scores import PromptLogprobs
from server.wire.usage import UsageBody


class TopLogprob(TypedDict):
    """One of the likeliest tokens at a place."""

    token: str
    logprob: float
    bytes: list[int]


class _Index(TypedDict, total=False):
    """Where token ids are returned: which of the choice's it is, from 0."""

    index: int


class TokenLogprobBody(TopLogprob, _Index):
    """The chosen token at a place, and the likeliest ones there."""

    top_logprobs: list[TopLogprob]


class LogprobsBody(TypedDict):
    """`logprobs` of a choice."""

    content: list[TokenLogprobBody]
    refusal: None


class FunctionCallBody(TypedDict):
    """Which function is called, and its arguments as JSON."""

    name: str
    arguments: str


class ToolCallBody(TypedDict):
    """A call that the model makes."""

    id: str
    type: Literal["function"]
    function: FunctionCallBody


class _Parts(TypedDict, total=False):
    reasoning_content: str
    tool_calls: list[ToolCallBody]


class AssistantMessage(_Parts):
    """The answer. Its content is null where it holds calls alone."""

    role: Literal["assistant"]
    content: str | None
    refusal: None


class _TokenIds(TypedDict, total=False):
    token_ids: list[int]


class ChatChoice(_TokenIds):
    """One choice of a whole answer."""

    index: int
    message: AssistantMessage
    logprobs: LogprobsBody | None
    finish_reason: Literal["stop", "length", "tool_calls"]
    stop_reason: str | int | None


class _PromptTokenIds(TypedDict, total=False):
    prompt_token_ids: list[int]


class ChatCompletion(_PromptTokenIds, PromptLogprobs):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: UsageBody


class FunctionCallDelta(TypedDict, total=False):
    """A call's name, and later parts of its arguments."""

    name: str
    arguments: str


class _ToolCallBegun(TypedDict, total=False):
    id: str
    type: Literal["function"]


class ToolCallDelta(_ToolCallBegun):
    """What a chunk adds to one call: first its id, type and name, then its arguments."""

    index: int
    function: FunctionCallDelta


class ChunkDelta(TypedDict, total=False):
    """What a chunk adds to its choice's message."""

    role: Literal["assistant"]
    content: str
    reasoning_content: str
    tool_calls: list[ToolCallDelta]


class ChunkChoice(_TokenIds):
    """One choice's part of a chunk."""

    index: int
    delta: ChunkDelta
    logprobs: LogprobsBody | None
    finish_reason: Literal["stop", "length", "tool_calls"] | None
    stop_reason: str | int | None


class _ChunkExtras(TypedDict, total=False):
    usage: UsageBody | None
    prompt_token_ids: list[int]


class ChatChunk(_ChunkExtras):
    """One event of a streamed answer."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
