"""How far two places of two runs of tokens agree backwards."""

from collections.abc import Sequence as Run


def agreement(run: Run[int], end: int, other: Run[int], other_end: int, *, most: int) -> int:
    """How many tokens before `end` of one run equal those before `other_end` of the other, `most` of them compared."""
    most = min(most, end, other_end)
    count = 0
    while count < most and run[end - 1 - count] == other[other_end - 1 - count]:
        count += 1
    return count
