"""What is asked of one row of logits, and what comes back, whichever code answers."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from engine.request import TokenLogprob
from engine.step import Choose

UNIFORM_BITS = 52  # of a double's 53: the largest uniform times any sum stays below the sum


@dataclass(frozen=True, slots=True)
class Ask:
    """Choose a token, or take the known `target`; with `num_top`, score it and list that many best tokens.

    A `mask`, as `step.Masks` has them, says all that may be chosen: bans don't count beside it.
    """

    choose: Choose | None = None
    target: int | None = None
    num_top: int | None = None
    mask: bytes | None = None

    def allows(self, token: int) -> bool:
        """Whether a token may be chosen."""
        if self.mask is not None:
            return bool(self.mask[token // 8] >> token % 8 & 1)
        return self.choose is None or token not in self.choose.banned


@dataclass(frozen=True, slots=True)
class Answer:
    """The token, chosen or known, and what was asked beside it; None where the row's largest logit is not finite."""

    token: int
    logprob: TokenLogprob | None = None


class Sampler(Protocol):
    """Answers one ask for each row of `logits` [rows, vocabulary] float32, each from its own row alone."""

    def __call__(self, logits: Tensor, asks: Sequence[Ask]) -> Sequence[Answer | None]:
        """Leaves the logits as they were."""
        ...


def uniform(seed: int, choice: int, output_index: int) -> float:
    """The one random number in [0, 1) of an output: a counter hashed, so it repeats whatever the batch is."""
    digest = hashlib.blake2b(f"{seed}/{choice}/{output_index}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> (64 - UNIFORM_BITS)) / (1 << UNIFORM_BITS)


def or_allowed(token: int, ask: Ask, vocabulary_size: int) -> int:
    """The token, or the lowest id that may be chosen where the logits left nothing to choose from."""
    if ask.allows(token):
        return token
    return next((id for id in range(vocabulary_size) if ask.allows(id)), token)
