"""Text completions: what a client sends, and what it gets."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag
from typing_extensions import TypedDict

from server.wire.base import Tokens, is_past_64_bits
from server.wire.chat import Prediction
from server.wire.sampling import SamplingFields, StructureFields
from server.wire.scores import PromptLogprobs
from server.wire.usage import UsageBody

# -- requests -------------------------------------------------------------------------------------


def _prompt_tag(prompt: object) -> str | None:
    """Tell the four forms apart by the first element; `bool` is no token id."""
    if isinstance(prompt, str):
        return "<text>"
    if not isinstance(prompt, list) or not prompt:
        return None
    if is_past_64_bits(prompt[0]):
        return "<tokens>"
    tags = {str: "<texts>", int: "<tokens>", list: "<token lists>"}
    return tags.get(type(prompt[0]))


Prompt = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[str], Field(fail_fast=True), Tag("<texts>")]
    | Annotated[Tokens, Tag("<tokens>")]
    | Annotated[list[Tokens], Field(fail_fast=True), Tag("<token lists>")],
    Discriminator(
        _prompt_tag,
        custom_error_type="wrong_type",
        custom_error_message="must be a string, or a list (not empty) of strings, token ids or lists of token ids",
    ),
]


class CompletionRequest(SamplingFields, StructureFields):
    """The body of `POST /v1/completions`."""

    prompt: Prompt
    max_tokens: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="16 if absent; 0 scores the prompt"
    )
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    best_of: Annotated[int, Field(ge=1, le=128)] | None = Field(default=None, description="n, or absent")
    suffix: str | None = Field(default=None, description="refused unless empty")
    add_special_tokens: bool | None = None
    prediction: Prediction | None = Field(default=None, description="as in chat completions")


# -- answers --------------------------------------------------------------------------------------


class CompletionLogprobs(TypedDict):
    """`logprobs` of a choice; the first token of an echoed prompt has none."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class _Ids(PromptLogprobs, total=False):
    prompt_token_ids: list[int]
    token_ids: list[int]


class CompletionChoice(_Ids):
    """One choice of a whole answer, or its part of a chunk, in which the reason comes with the last."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    stop_reason: str | int | None


class _Usage(TypedDict, total=False):
    usage: UsageBody | None


class Completion(_Usage):
    """A whole answer, or one event of a streamed one."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
