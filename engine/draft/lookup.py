"""Prompt lookup: what followed the same tokens earlier in the sequence."""

from array import array
from collections.abc import Sequence as Run

from engine.draft.agreement import agreement
from engine.draft.source import Guess

GRAM = 2  # tokens that must agree: a third of such guesses begin right in prose, half in code; of one token's a sixth
FIRM = 6  # so many make a guess firm: in prose two of three begin right, nine of ten where something is quoted
FAR = 16  # tokens that are compared: more tell no better which place is meant
MAX_PLACES = 16  # that are compared, the latest: as good as all of them within 2 %
MAX_NEW_TOKENS = 4096  # that one call takes into the index, so that a long prompt never holds the event loop up


class PromptLookup:
    """Remembers where each run of GRAM tokens ended last, and where before that.

    Takes 4 bytes a token and about 140 for each run of GRAM that is unlike all others: in text every third to second.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}
        self._before = array("I", [0] * GRAM)  # by end: where the same run ended before; 0: nowhere

    def propose(self, tokens: Run[int], most: int) -> Guess | None:
        """What followed the last tokens where they stood before; None while the index lags behind.

        Of several places that where most tokens before agree, of equal ones the latest.
        """
        self._extend(tokens)
        if len(self._before) < len(tokens):
            return None
        agreed, end = self._best_place(tokens)
        if not agreed:
            return None
        period = len(tokens) - end
        return Guess(tuple(tokens[end + step % period] for step in range(most)), firm=agreed >= FIRM)

    def _extend(self, tokens: Run[int]) -> None:
        """Take in runs that something follows."""
        known = len(self._before)
        for end in range(known, min(len(tokens), known + MAX_NEW_TOKENS)):
            run = tuple(tokens[end - GRAM : end])
            self._before.append(self._ends.get(run, 0))
            self._ends[run] = end

    def _best_place(self, tokens: Run[int]) -> tuple[int, int]:
        """How many tokens agree where most do, and where they end; 0 where the last GRAM never stood before."""
        agreed = best = 0
        end = self._ends.get(tuple(tokens[-GRAM:]), 0)
        for _ in range(MAX_PLACES):
            if not end or agreed == FAR:
                break
            here = agreement(tokens, len(tokens), tokens, end, most=FAR)
            if here > agreed:
                agreed, best = here, end
            end = self._before[end]
        return agreed, best
