"""The client's own guess at the whole output, followed through edits."""

from bisect import bisect_left
from collections.abc import Sequence as Run

from engine.draft.source import Guess

GRAM = 3  # outputs that must agree before the guess counts as found again
NEAR = 48  # tokens of the guess, from where it was lost on, in which fewer are enough
MAX_NEW_TOKENS = 1024  # of the guess that are indexed with each output


class PredictedOutput:
    """Knows which token of the guess comes next, or may come next.

    While outputs equal the guess it follows. Once they differ it is lost, and looks for where the guess goes on
    behind the edit: where the last outputs stand in it, a run of GRAM anywhere and a shorter one near by, the nearest
    behind the place where it was lost first. Until then it supposes that as many tokens were replaced as came out.
    """

    def __init__(self, guess: Run[int], *, num_prompt: int) -> None:
        self._guess = tuple(guess)
        self._num_seen = num_prompt
        self._first = num_prompt
        self._next = 0  # index of the token that is expected next
        self._agreed = GRAM  # how many of the last outputs agree; at the beginning nothing speaks against the guess
        self._lost_at = 0  # where it was lost
        self._num_lost = 0  # outputs since
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._num_indexed = GRAM - 1

    def propose(self, tokens: Run[int], most: int) -> Guess | None:
        """The guess from where the outputs have come to."""
        for seen in range(self._num_seen, len(tokens)):
            self._index()
            self._follow(tokens, seen)
        self._num_seen = len(tokens)
        rest = self._guess[self._next : self._next + most]
        return Guess(rest, firm=self._agreed >= GRAM) if rest else None

    def _index(self) -> None:
        stop = min(len(self._guess), self._num_indexed + MAX_NEW_TOKENS)
        for end in range(self._num_indexed + 1, stop + 1):
            self._ends.setdefault(self._guess[end - GRAM : end], []).append(end)
        self._num_indexed = max(self._num_indexed, stop)

    def _follow(self, tokens: Run[int], seen: int) -> None:
        """Take output number `seen` of the sequence's tokens."""
        token = tokens[seen]
        if self._next < len(self._guess) and self._guess[self._next] == token:
            self._next += 1
            self._agreed += 1
            self._num_lost = 0 if self._agreed >= GRAM else self._num_lost + bool(self._num_lost)
            return
        if not self._num_lost:
            self._lost_at = self._next
        self._num_lost += 1
        self._find(tuple(tokens[max(self._first, seen + 1 - GRAM) : seen + 1]))

    def _find(self, last: tuple[int, ...]) -> None:
        """Suppose where the guess goes on behind the `last` outputs."""
        self._agreed = 0
        ends = self._ends.get(last, ())
        if ends:
            place = bisect_left(ends, self._lost_at)
            self._next = ends[place] if place < len(ends) else ends[-1]
            self._agreed, self._num_lost = GRAM, 0
            return
        for count in (2, 1):
            end = self._near(last[-count:])
            if end is not None:
                self._next, self._agreed = end, count
                return
        self._next = self._lost_at + self._num_lost

    def _near(self, run: tuple[int, ...]) -> int | None:
        """The end of the first place near where the guess was lost that holds this run of outputs."""
        start = max(0, self._lost_at - len(run) + 1)
        for at in range(start, min(len(self._guess) - len(run) + 1, self._lost_at + NEAR)):
            if self._guess[at : at + len(run)] == run:
                return at + len(run)
        return None
