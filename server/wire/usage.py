"""Usage: how many tokens an answer took. Every detail is there, 0 where nothing is counted yet."""

from typing_extensions import TypedDict


class PromptDetails(TypedDict):
    """How much of the prompt was found in the cache."""

    cached_tokens: int


class CompletionDetails(TypedDict):
    """What the completion's tokens were."""

    reasoning_tokens: int
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class UsageBody(TypedDict):
    """`usage`: each prompt counts once, whatever the number of choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails
