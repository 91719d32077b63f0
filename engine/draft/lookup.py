"""Prompt lookup: what followed the same tokens earlier in the sequence."""

from collections.abc import Sequence as Run

from engine.draft.source import Guess

GRAM = 3  # tokens that must agree
FIRM = 6  # and so many make a guess firm
MAX_NEW_TOKENS = 4096  # that one call takes into the index, so that a long prompt never holds the event loop up


class PromptLookup:
    """Remembers where each run of GRAM tokens ended last: about 120 bytes a token."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}
        self._num_indexed = GRAM - 1  # every run that ends at most here is known

    def propose(self, tokens: Run[int], most: int) -> Guess | None:
        """What followed the last tokens where they stood before, the latest place; None while the index lags behind."""
        self._extend(tokens)
        if self._num_indexed < len(tokens) - 1:
            return None
        end = self._ends.get(tuple(tokens[-GRAM:]))
        if end is None:
            return None
        period = len(tokens) - end
        guess = tuple(tokens[end + step % period] for step in range(most))
        return Guess(guess, firm=_agree(tokens, end))

    def _extend(self, tokens: Run[int]) -> None:
        """Take in runs that something follows."""
        stop = min(len(tokens) - 1, self._num_indexed + MAX_NEW_TOKENS)
        for end in range(self._num_indexed + 1, stop + 1):
            self._ends[tuple(tokens[end - GRAM : end])] = end
        self._num_indexed = max(self._num_indexed, stop)


def _agree(tokens: Run[int], end: int) -> bool:
    """Whether the last FIRM tokens equal those before `end`."""
    return end >= FIRM and all(tokens[-back] == tokens[end - back] for back in range(GRAM + 1, FIRM + 1))
