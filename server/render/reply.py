"""Reply: what every part of an answer repeats, and the parts that chat and text completions share."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.request import End, FinishReason, Usage
from engine.text import Vocabulary
from server.requests import skips_special
from server.service import Loaded
from server.wire.sampling import SamplingFields
from server.wire.usage import CompletionDetails, PromptDetails, UsageBody


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: who it is, and what the client wants to see in it.

    `num_choices` is for each prompt. `top_logprobs` None shows none, k the k best beside the chosen; `prompt_logprobs`
    likewise of the prompt's tokens.
    """

    id: str
    created: int
    model: str
    fingerprint: str
    vocabulary: Vocabulary
    num_choices: int
    top_logprobs: int | None
    prompt_logprobs: int | None
    skip_special: bool
    shows_tokens: bool
    shows_usage: bool
    shown_special_ids: frozenset[int] = frozenset()

    def skips(self, token: int) -> bool:
        """Whether a token would be left out of the text if it were a special one."""
        return self.skip_special and token not in self.shown_special_ids


def reply_of(
    id: str,
    body: SamplingFields,
    loaded: Loaded,
    *,
    created: int,
    top_logprobs: int | None,
    shown_special_ids: frozenset[int] = frozenset(),
) -> Reply:
    """The frame of the answer to a body."""
    return Reply(
        id=id,
        created=created,
        model=body.model,
        fingerprint=loaded.fingerprint,
        vocabulary=loaded.engine.vocabulary,
        num_choices=body.n or 1,
        top_logprobs=top_logprobs,
        prompt_logprobs=body.prompt_logprobs,
        skip_special=skips_special(body),
        shows_tokens=bool(body.return_token_ids),
        shows_usage=body.stream_options is not None and bool(body.stream_options.include_usage),
        shown_special_ids=shown_special_ids,
    )


def new_id(prefix: str) -> str:
    """An id that nobody can guess."""
    return f"{prefix}-{secrets.token_hex(12)}"


def stop_or_length(end: End) -> Literal["stop", "length"]:
    """Why a text ended by itself."""
    return "length" if end.reason is FinishReason.LENGTH else "stop"


def finish_reason(end: End, *, calls: bool) -> Literal["stop", "length", "tool_calls"]:
    """Why a choice ended by itself. Calls that were made before the room ran out may not be whole."""
    reason = stop_or_length(end)
    return "tool_calls" if calls and reason == "stop" else reason


def usage_body(usages: Mapping[tuple[int, int], Usage], *, num_reasoning: int = 0) -> UsageBody:
    """The sums over all sequences, by prompt and choice; a prompt counts once, as its first choice saw it."""
    firsts = [usage for (_, choice), usage in usages.items() if choice == 0]
    prompt_tokens = sum(usage.prompt_tokens for usage in firsts)
    completion_tokens = sum(usage.output_tokens for usage in usages.values())
    return UsageBody(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=prompt_tokens + completion_tokens,
        prompt_tokens_details=PromptDetails(cached_tokens=sum(usage.cached_tokens for usage in firsts)),
        completion_tokens_details=CompletionDetails(
            reasoning_tokens=num_reasoning,
            accepted_prediction_tokens=sum(usage.accepted_prediction_tokens for usage in usages.values()),
            rejected_prediction_tokens=sum(usage.rejected_prediction_tokens for usage in usages.values()),
        ),
    )
