"""What a step chose, for tests of one token at a time."""

from engine.request import TokenLogprob
from engine.step import ChunkResult


def token_of(result: ChunkResult) -> int | None:
    """The first token that was chosen."""
    return result.chosen[0].token if result.chosen else None


def logprob_of(result: ChunkResult) -> TokenLogprob | None:
    """The first chosen token's log-probability."""
    return result.chosen[0].logprob if result.chosen else None
