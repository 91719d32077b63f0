"""How many drafted tokens a step is worth, and whose."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

MARGIN = 1.25  # chances and prices are averages, and a draft that only just pays is not worth its risk


@dataclass(frozen=True, slots=True)
class Offer:
    """A guess of `count` tokens, each of which stands by `chance` if those before it do."""

    count: int
    chance: float

    def expected(self, count: int) -> float:
        """How many of the first `count` tokens stand, on average."""
        return sum(self.chance**number for number in range(1, count + 1))


class Price(Protocol):
    """What drafted tokens cost, in seconds."""

    @property
    def least(self) -> float:
        """The least that one more costs."""
        ...

    def of(self, count: int) -> float:
        """What so many cost together."""
        ...

    def fills(self, most: int) -> Sequence[int]:
        """The counts, `most` at most, that cost least for each token."""
        ...


def could_pay(*, most: int, num_tokens: int, seconds: float, price: Price) -> bool:
    """Whether `share_drafts` would take anything if all of it stood; if not, nobody need be asked."""
    return any(count * seconds >= MARGIN * price.of(count) * num_tokens for count in price.fills(most))


def share_drafts(offers: Sequence[Offer], *, most: int, num_tokens: float, seconds: float, price: Price) -> list[int]:
    """How many tokens of each offer to draft, `most` in all.

    A step that takes `seconds` gives `num_tokens` without drafts. The likeliest come first, and as many are taken as
    give the most tokens a second: one that opens a tile of rows may pay only with those that fill it.
    """
    taken: list[int] = []
    best, best_speed, tokens = 0, num_tokens / seconds if seconds else 0.0, float(num_tokens)
    for count, (index, chance) in zip(range(1, most + 1), _likeliest(offers), strict=False):
        cost = seconds + MARGIN * price.of(count)
        if chance * cost < MARGIN * price.least * tokens:
            break
        taken.append(index)
        tokens += chance
        if tokens > best_speed * cost:
            best, best_speed = count, tokens / cost if cost else 0.0
    return [taken[:best].count(index) for index in range(len(offers))]


def _likeliest(offers: Sequence[Offer]) -> Iterator[tuple[int, float]]:
    """Whose token comes next, and its chance to stand: that of its own times that of those before it."""
    rest = [(-offer.chance, index, 1) for index, offer in enumerate(offers) if offer.count]
    heapq.heapify(rest)
    while rest:
        chance, index, number = rest[0]
        yield index, -chance
        if number < offers[index].count:
            heapq.heapreplace(rest, (chance * offers[index].chance, index, number + 1))
        else:
            heapq.heappop(rest)
