"""The client's own guess at the whole output, followed through edits."""

from bisect import bisect_left
from collections.abc import Sequence as Run

from engine.draft.agreement import agreement
from engine.draft.source import Guess

GRAM = 3  # outputs that must agree before a place anywhere in the guess is taken: two lead astray, four come late
NEAR = 48  # tokens of the guess, from where it was lost on, in which fewer are enough
MAX_PLACES = 8  # that are compared on either side of where it was lost
FIRM = 2  # outputs that agree where nine of ten next ones do too, mostly; behind one it is two of three
SURE = 6  # outputs that must agree before the place where it was lost is given up
FAR = 16  # outputs that are compared to tell places apart
MAX_FIRST_TOKENS = 4096  # of the guess that are indexed at once
MAX_NEW_TOKENS = 128  # and with each output, so that a huge guess never holds the event loop up
MAX_NEW_OUTPUTS = 1024  # that one call follows: twice what a step can give


class PredictedOutput:
    """Knows which token of the guess comes next, or may come next.

    While outputs equal the guess it follows. Once they differ it is lost, and looks for where the guess goes on
    behind the edit: a place where the last GRAM outputs stand, anywhere, or fewer of them near by. Of several the one
    where most outputs before agree, of equal ones the nearest behind the place where it was lost first, then the
    nearest before. Until it finds one it supposes that as many tokens were replaced as came out. That place counts
    until SURE outputs agree at another, so that an equal passage elsewhere leads astray for a few tokens only.
    """

    def __init__(self, guess: Run[int], *, num_prompt: int) -> None:
        self._guess = tuple(guess)
        self._num_seen = num_prompt
        self._first = num_prompt
        self._next = 0  # index of the token that is expected next
        self._agreed = FIRM  # how many of the last outputs agree; at the beginning nothing speaks against the guess
        self._lost_at = 0  # where it was lost
        self._num_lost = 0  # outputs since
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._num_indexed = GRAM - 1
        self._index(MAX_FIRST_TOKENS)

    def propose(self, tokens: Run[int], most: int) -> Guess | None:
        """The guess from where the outputs have come to; None while there are outputs left to follow."""
        stop = min(len(tokens), self._num_seen + MAX_NEW_OUTPUTS)
        for seen in range(self._num_seen, stop):
            self._index(MAX_NEW_TOKENS)
            self._follow(tokens, seen)
        self._num_seen = stop
        rest = self._guess[self._next : self._next + most]
        return Guess(rest, firm=self._agreed >= FIRM) if rest and stop == len(tokens) else None

    def _index(self, count: int) -> None:
        """Take `count` more runs of the guess in: with each output, so that when it was asked makes no difference."""
        stop = min(len(self._guess), self._num_indexed + count)
        for end in range(self._num_indexed + 1, stop + 1):
            self._ends.setdefault(self._guess[end - GRAM : end], []).append(end)
        self._num_indexed = max(self._num_indexed, stop)

    def _follow(self, tokens: Run[int], seen: int) -> None:
        """Take output number `seen` of the sequence's tokens."""
        if self._next < len(self._guess) and self._guess[self._next] == tokens[seen]:
            self._next += 1
            self._agreed += 1
        else:
            if not self._num_lost:
                self._lost_at = self._next
            self._num_lost = max(self._num_lost, 1)
            self._find(tokens, seen + 1)
        if self._agreed >= SURE:
            self._num_lost = 0
        elif self._num_lost:
            self._num_lost += 1

    def _find(self, tokens: Run[int], end: int) -> None:
        """Suppose where the guess goes on behind the outputs before `end`."""
        last = tuple(tokens[max(self._first, end - GRAM) : end])
        found = self._anywhere(tokens, end, last) or self._near(last[-2:]) or self._near(last[-1:])
        self._next, self._agreed = found or (self._lost_at + self._num_lost, 0)

    def _anywhere(self, tokens: Run[int], end: int, run: tuple[int, ...]) -> tuple[int, int] | None:
        """The best of the places that hold this run of GRAM outputs, and how many agree there."""
        ends = self._ends.get(run)
        if ends is None:
            return None
        behind = bisect_left(ends, self._lost_at)
        near = (*ends[behind : behind + MAX_PLACES], *reversed(ends[max(0, behind - MAX_PLACES) : behind]))
        far = min(FAR, end - self._first)
        agreed = [agreement(self._guess, place, tokens, end, most=far) for place in near]
        best = agreed.index(max(agreed))
        return near[best], agreed[best]

    def _near(self, run: tuple[int, ...]) -> tuple[int, int] | None:
        """The end of the first place near where the guess was lost that holds this run of outputs, and its length."""
        start = max(0, self._lost_at - len(run) + 1)
        for at in range(start, min(len(self._guess) - len(run) + 1, self._lost_at + NEAR)):
            if self._guess[at : at + len(run)] == run:
                return at + len(run), len(run)
        return None
