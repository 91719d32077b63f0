"""How many drafted tokens a step is worth, and whose."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

MARGIN = 1.25  # prices are averages: where rows fill tiles, the first token of a draft costs more than the next


@dataclass(frozen=True, slots=True)
class Offer:
    """A guess of `count` tokens, each of which stands by `chance` if those before it do."""

    count: int
    chance: float


def share_drafts(offers: Sequence[Offer], *, most: int, num_tokens: int, seconds: float, price: float) -> list[int]:
    """How many tokens of each offer to draft, `most` in all.

    A step that takes `seconds` gives `num_tokens` without drafts; a drafted token adds `price` seconds. The likeliest
    come first, as long as one more gives clearly more tokens a second than the step has without it.
    """
    counts = [0] * len(offers)
    likeliest = [(-offer.chance, index) for index, offer in enumerate(offers) if offer.count]
    heapq.heapify(likeliest)
    tokens = float(num_tokens)
    for _ in range(most):
        if not likeliest:
            break
        chance, index = -likeliest[0][0], likeliest[0][1]
        if chance * seconds < MARGIN * price * tokens:
            break
        tokens, seconds = tokens + chance, seconds + price
        counts[index] += 1
        if counts[index] < offers[index].count:
            heapq.heapreplace(likeliest, (-chance * offers[index].chance, index))
        else:
            heapq.heappop(likeliest)
    return counts
