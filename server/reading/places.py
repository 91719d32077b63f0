"""Places: which tokens a choice's content and reasoning are made of, told by where their text stands."""

from collections import deque
from collections.abc import Iterable

from engine.request import Delta, OutputToken
from server.reading.pieces import Piece, Reasoning, Text


class Places:
    """The tokens of one choice. A token whose text is content even in part is content's, whole.

    `content` has those that are known to be, in order, and `numbers` says which of the choice's tokens they are, from
    0. `num_reasoning` counts those of reasoning alone. Where a token belongs depends on the text, never on the parts
    in which that came.
    """

    def __init__(self) -> None:
        self.content: list[OutputToken] = []
        self.numbers: list[int] = []
        self.num_reasoning = 0
        self._waiting: deque[tuple[int, OutputToken]] = deque()
        self._num_taken = 0
        self._length = 0  # of the whole text
        self._content = _Ranges()
        self._reasoning = _Ranges()

    def take(self, delta: Delta, pieces: Iterable[Piece]) -> None:
        """More tokens, and the pieces that their delta made certain."""
        numbered = enumerate(delta.tokens, start=self._num_taken)
        self._waiting.extend((number, token) for number, token in numbered if token.in_text)
        self._num_taken += len(delta.tokens)
        self._length += len(delta.text)
        for piece in pieces:
            match piece:
                case Text(text, start):
                    self._content.add(start, start + len(text))
                case Reasoning(text, start):
                    self._reasoning.add(start, start + len(text))
                case _:
                    pass
        while self._waiting and self._place(ended=delta.end is not None):
            self._waiting.popleft()

    def _place(self, *, ended: bool) -> bool:
        """Put the first waiting token where it belongs, unless that is not known yet."""
        number, token = self._waiting[0]
        start = token.text_offset
        if self._content.hold(start, start):
            self._list(number, token)
            return True
        stop = self._waiting[1][1].text_offset if len(self._waiting) > 1 else self._length
        if not ended and (len(self._waiting) == 1 or max(self._content.stop, self._reasoning.stop) < stop):
            return False
        trails = self._reasoning.stop <= self._content.stop == start == stop  # no text of its own, behind the content's
        if trails or self._content.hold(start, stop):
            self._list(number, token)
        else:
            self.num_reasoning += self._reasoning.hold(start, stop)
        return True

    def _list(self, number: int, token: OutputToken) -> None:
        self.content.append(token)
        self.numbers.append(number)


class _Ranges:
    """Ranges of characters, in order; those that touch are one."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    @property
    def stop(self) -> int:
        """The end of the last one."""
        return self._ranges[-1][1] if self._ranges else 0

    def add(self, start: int, stop: int) -> None:
        """The next range."""
        if self._ranges and self._ranges[-1][1] == start:
            start = self._ranges.pop()[0]
        self._ranges.append((start, stop))

    def hold(self, start: int, stop: int) -> bool:
        """Whether any character from `start` on, the one at `start` in any case, lies in one of them."""
        return any(first < max(stop, start + 1) and start < last for first, last in reversed(self._ranges))
