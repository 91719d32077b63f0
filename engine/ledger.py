"""The four marks of a sequence, their moves, and the counts that derive from them."""

from dataclasses import dataclass, replace
from typing import NamedTuple, NewType

Planned = NewType("Planned", int)
Computed = NewType("Computed", int)
Drafted = NewType("Drafted", int)
Accepted = NewType("Accepted", int)
Published = NewType("Published", int)


@dataclass(slots=True)
class Positions:
    """How many positions all ledgers together moved, by event. Only ledgers write it.

    `computed` is what steps computed, so prefix hits are not in it; `recomputed` is the part of it
    that had been computed before. `accepted` and `published` count outputs.
    """

    planned: int = 0
    computed: int = 0
    accepted: int = 0
    published: int = 0
    rejected: int = 0
    recomputed: int = 0

    def copy(self) -> "Positions":
        """The counts at this moment."""
        return replace(self)


class Marks(NamedTuple):  # cheaper to make than a dataclass, and one is made for every token
    """The four marks as they stood at one moment."""

    planned: Planned
    computed: Computed
    accepted: Accepted
    published: Published


class Ledger:
    """The four marks of one sequence: exclusive upper bounds on positions, counted from 0.

    Moved by `admit`, `plan`, `commit`, `publish` and invalidation alone, each through the method of
    its name. `accepted` and `published` never go down. Beside them is `drafted`, the draft model's own `computed`.
    """

    __slots__ = (
        "_accepted",
        "_computed",
        "_drafted",
        "_highest_computed",
        "_planned",
        "_positions",
        "_prompt",
        "_published",
    )

    def __init__(self, *, prompt_tokens: int, positions: Positions) -> None:
        self._prompt = prompt_tokens
        self._positions = positions
        self._planned = self._computed = self._drafted = self._highest_computed = 0
        self._accepted = self._published = prompt_tokens

    @property
    def planned(self) -> Planned:
        """Everything below has a cache place and is in a step that has been issued."""
        return Planned(self._planned)

    @property
    def computed(self) -> Computed:
        """Everything below has valid state in every cache group, for exactly the accepted tokens."""
        return Computed(self._computed)

    @property
    def drafted(self) -> Drafted:
        """Everything below has valid rows of the draft model, for exactly the accepted tokens."""
        return Drafted(self._drafted)

    @property
    def accepted(self) -> Accepted:
        """Everything below is a final token."""
        return Accepted(self._accepted)

    @property
    def published(self) -> Published:
        """Everything below has been handed to the client's stream."""
        return Published(self._published)

    @property
    def marks(self) -> Marks:
        """All four, frozen."""
        return Marks(
            Planned(self._planned), Computed(self._computed), Accepted(self._accepted), Published(self._published)
        )

    @property
    def in_flight(self) -> bool:
        """Whether an issued step has not been committed yet."""
        return self._planned != self._computed

    def admit(self, hit: int, drafted: int = 0) -> None:
        """Start at the `hit` positions that the prefix cache holds already, the first ones the draft model's too."""
        assert self._planned == self._computed == 0, "admitted twice"
        assert 0 <= hit < self._accepted, "a hit leaves at least one token to compute"
        assert 0 <= drafted <= hit, "the draft model is never ahead"
        self._planned = self._computed = hit
        self._drafted = drafted
        self._highest_computed = max(self._highest_computed, hit)

    def plan(self, upto: Planned) -> None:
        """Raise `planned` to `upto`: those positions have cache places and go into a step."""
        assert not self.in_flight, "one step in flight at a time"
        assert self._planned < upto, "a plan computes something"
        self._positions.planned += upto - self._planned
        self._planned = upto

    def commit(self, computed: Computed, accepted: Accepted) -> None:
        """Take a step's result: `computed` positions stand, `accepted` tokens are final."""
        assert self._computed < computed <= self._planned, "a commit computes what was planned"
        assert accepted >= self._accepted, "accepted never goes down"
        self._positions.rejected += self._planned - computed
        self._positions.computed += computed - self._computed
        self._positions.recomputed += max(0, min(computed, self._highest_computed) - self._computed)
        self._positions.accepted += accepted - self._accepted
        self._planned = self._computed = computed
        self._accepted = accepted
        self._highest_computed = max(self._highest_computed, computed)

    def draft(self, upto: Drafted) -> None:
        """Move `drafted`: a commit knows which of the draft model's rows are of tokens that stand."""
        assert 0 <= upto <= self._computed, "the draft model is never ahead"
        self._drafted = upto

    def publish(self, upto: Published) -> None:
        """Raise `published`: everything below `upto` is in the client's stream."""
        assert self._published <= upto <= self._accepted, "published is a growing prefix of accepted"
        self._positions.published += upto - self._published
        self._published = upto

    def invalidate(self) -> None:
        """The cache is gone: nothing is computed any more, what was accepted and published stands."""
        self._planned = self._computed = self._drafted = 0

    def check(self) -> None:
        """Assert the laws that hold whenever no move is half done."""
        assert 0 <= self._drafted <= self._computed <= self._planned, (self._drafted, self.marks)
        assert self._prompt <= self._published <= self._accepted, self.marks
        assert self._computed <= self._accepted, self.marks
