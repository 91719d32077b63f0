"""What a verification takes from the guesses of one source, without a model: the outputs are known."""

from collections.abc import Sequence as Run
from dataclasses import dataclass

from engine.draft.source import Source


@dataclass(frozen=True, slots=True)
class Verified:
    num_steps: int
    num_drafted: int
    num_kept: int


def verified(source: Source, outputs: Run[int], *, prompt: Run[int] = (), most: int = 8) -> Verified:
    """Steps that each propose up to `most` tokens, keep those that are right, and add the true one behind them."""
    tokens, end = list(prompt), len(prompt) + len(outputs)
    num_steps = num_drafted = num_kept = 0
    while len(tokens) < end:
        guess = source.propose(tokens, most)
        drafted = guess.tokens if guess else ()
        rest = outputs[len(tokens) - len(prompt) :]
        kept = 0
        while kept < min(len(drafted), len(rest)) and drafted[kept] == rest[kept]:
            kept += 1
        tokens += rest[: kept + 1]
        num_steps, num_drafted, num_kept = num_steps + 1, num_drafted + len(drafted), num_kept + kept
    return Verified(num_steps, num_drafted, num_kept)


class Counted(list[int]):
    """Tokens that count how many of them were read."""

    def __init__(self, tokens: Run[int]) -> None:
        super().__init__(tokens)
        self.num_read = 0

    def __getitem__(self, place):  # type: ignore[no-untyped-def]  # both of list's overloads
        found = super().__getitem__(place)
        self.num_read += len(found) if isinstance(place, slice) else 1
        return found
