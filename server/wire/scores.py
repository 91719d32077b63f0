"""Scores of a prompt's tokens, as vLLM has them in answers to chats and text completions."""

from typing_extensions import TypedDict


class PromptLogprob(TypedDict):
    """One token's score; its rank among all tokens, from 1, where it is known."""

    logprob: float
    rank: int | None
    decoded_token: str


class PromptLogprobs(TypedDict, total=False):
    """`prompt_logprobs`: for each token of the prompt its own score and the best ones, by id; the first has none."""

    prompt_logprobs: list[dict[str, PromptLogprob] | None]
