"""What a source of drafts is."""

from collections.abc import Sequence as Run
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Guess:
    """Tokens that are expected next; `firm` where what came before them agrees for some tokens.

    `sure` where nothing else can be chosen.
    """

    tokens: tuple[int, ...]
    firm: bool
    sure: bool = False


class Source(Protocol):
    """Guesses what follows the tokens of one sequence."""

    def propose(self, tokens: Run[int], most: int) -> Guess | None:
        """The guess for what follows `tokens`, prompt and outputs, of 1 to `most` tokens; None if it has none.

        Called with the same tokens as before, or with more of them. The work of a call is bounded.
        """
        ...
