"""The draft model's part of a step: it computes what it lacks, and guesses token by token what will be chosen."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from engine.model.asks import Ask
from engine.model.runner import ModelForward, try_first_step
from engine.step import Chunk, Plan, Table


def make_drafter(make_forward: Callable[[], ModelForward], *, table: int) -> "Drafter":
    """Make the draft model's forward pass and try it once. Raises ModelError."""
    forward = make_forward()
    try:
        try_first_step(forward)
    except BaseException:
        forward.close()
        raise
    return Drafter(forward, table=table)


@dataclass(slots=True)
class _Guessing:
    """One chunk whose tokens the draft model guesses, and what it has guessed so far."""

    chunk: Chunk
    start: int  # of the positions that the next round computes
    tokens: tuple[int, ...]
    guesses: list[int] = field(default_factory=list)

    def take(self, guess: int) -> None:
        """The round has guessed a token, which the next one computes."""
        self.guesses.append(guess)
        self.start += len(self.tokens)
        self.tokens = (guess,)


class Drafter:
    """Implements `engine.model.runner.Guesser` over a forward pass of its own.

    Its rows lie in the units of block table number `table`. A guess is chosen as the target chooses, with the same
    random number, so that tokens which are likely to both are chosen by both. Made and run on the runner's thread.
    """

    def __init__(self, forward: ModelForward, *, table: int) -> None:
        self._forward = forward
        self._table = table

    def guess(self, plan: Plan) -> list[tuple[int, ...]]:
        """For each chunk of a plan the tokens that it has places for."""
        found = [_Guessing(chunk, chunk.feed.start, chunk.feed.tokens) if chunk.feed else None for chunk in plan.chunks]
        going = [each for each in found if each is not None]
        while going:
            self._round(plan.number, going)
            going = [each for each in going if len(each.guesses) < each.chunk.num_guesses]
        return [tuple(each.guesses) if each else () for each in found]

    def _round(self, number: int, going: Iterable[_Guessing]) -> None:
        """Compute everybody's next positions, and guess behind them who has places for it."""
        chunks = [self._chunk(each) for each in going]
        logits = self._forward.run(Plan(number, tuple(chunks)))
        asks = [Ask(choose=chunk.choose) for chunk in chunks if chunk.choose]
        answers = iter(self._forward.sampler(logits, asks) if asks else ())
        for each, chunk in zip(going, chunks, strict=True):
            if chunk.choose is not None:
                answer = next(answers)
                each.take(0 if answer is None else answer.token)  # logits that are no numbers guess as good as nothing

    def _chunk(self, each: _Guessing) -> Chunk:
        ticket, choose = each.chunk.ticket, each.chunk.choose if each.chunk.num_guesses else None
        own = replace(ticket, base=each.start, tables=self._own(ticket.tables), states=None)
        return Chunk(own, each.tokens, choose and choose.after(tuple(each.guesses)))

    def _own(self, tables: tuple[Table, ...]) -> tuple[Table, ...]:
        return (tables[self._table],)

    def close(self) -> None:
        """End what the forward pass keeps running."""
        self._forward.close()
