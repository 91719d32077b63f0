"""How many rounds of the draft model a step is worth, and who takes part in each."""

from collections.abc import Sequence
from typing import Protocol

from engine.draft.share import MARGIN, Offer, Price


class RoundPrice(Protocol):
    """What the draft model costs, in seconds."""

    @property
    def least(self) -> float:
        """The least that one more token costs, in a round that there is."""
        ...

    def of(self, count: int, num_rounds: int) -> float:
        """What so many tokens cost in so many rounds."""
        ...


def share_rounds(
    offers: Sequence[Offer], *, most: int, num_tokens: float, seconds: float, price: Price, rounds: RoundPrice
) -> list[int]:
    """How many tokens of each offer to guess, `most` in all.

    The draft model guesses one token of each sequence in a round, for those who took part in the round before. As with
    drafts that are known (`share_drafts`), as many are taken as give the most tokens a second, a round with all in it.
    """
    taken: list[int] = []
    best, best_speed, tokens = 0, num_tokens / seconds if seconds else 0.0, float(num_tokens)
    going, depth = [index for index, offer in enumerate(offers) if offer.count], 0
    while going:
        going, depth, joining = [], depth + 1, sorted(going, key=lambda index: -offers[index].chance)
        for index in joining[: most - len(taken)]:
            count, chance = len(taken) + 1, offers[index].chance ** depth
            cost = seconds + MARGIN * (price.of(count) + rounds.of(count, depth))
            if chance * cost < MARGIN * (price.least + rounds.least) * tokens:
                break
            taken.append(index)
            tokens += chance
            if offers[index].count > depth:
                going.append(index)
            if tokens > best_speed * cost:
                best, best_speed = count, tokens / cost if cost else 0.0
    return [taken[:best].count(index) for index in range(len(offers))]
