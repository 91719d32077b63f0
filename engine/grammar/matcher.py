"""What follows an output through a grammar, and what makes such followers."""

from collections.abc import Sequence as Run
from typing import Protocol

from engine.request import Grammar


class Matcher(Protocol):
    """Stands behind the tokens that it has taken. A call may take a while; none holds the interpreter for long."""

    @property
    def is_over(self) -> bool:
        """Whether what was taken is complete and nothing but an end can follow."""
        ...

    @property
    def failure(self) -> str:
        """Why nothing more can be taken, where that is no end; else empty."""
        ...

    def take(self, token: int) -> bool:
        """Move on by one token; False, and nothing has moved, where the grammar does not allow it."""
        ...

    def copy(self) -> "Matcher":
        """Another one at the same place, which goes its own way; a thread may have it for itself."""
        ...

    def num_allowed(self, tokens: Run[int]) -> int:
        """How many of the leading `tokens` may come next, one after the other. Moves nothing."""
        ...

    def forced(self) -> tuple[int, ...]:
        """The tokens that come next because nothing else may; none where there is a choice. Moves nothing."""
        ...

    def mask(self) -> bytes:
        """Which tokens may come next, as `engine.step.Masks` has them; end tokens where the output may end."""
        ...


class Compiled(Protocol):
    """A grammar that is ready; threads may share it."""

    def start(self) -> Matcher:
        """A matcher that has taken nothing."""
        ...


class Library(Protocol):
    """Makes grammars ready for one tokenizer; threads may share it."""

    def compile(self, grammar: Grammar) -> Compiled:
        """Blocking. Raises GrammarRefused."""
        ...
