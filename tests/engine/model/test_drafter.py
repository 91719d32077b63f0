"""The draft model's rounds over a forward pass that says what it was asked."""

from collections.abc import Sequence
from typing import cast

import pytest
import torch
from torch import Tensor

from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.cache.storage import KVStorage
from engine.errors import ModelUnsupported
from engine.model.asks import Answer, Ask
from engine.model.drafter import Drafter, make_drafter
from engine.model.runner import ModelForward
from engine.request import Sampling
from engine.step import Choose, Chunk, Feed, Plan, StateUse, Table, Ticket

LAYOUT = Layout((CacheGroup((0,), RowShape(1, 2, 2, "float32")),))
TABLES = (Table((1, 2)), Table((3, 4)), Table((5, 6)))
CHOOSE = Choose(Sampling(seed=4, frequency_penalty=0.5), choice=1, output_index=6, outputs=(2, 2))


class Counting:
    """A forward pass whose choice is the last token and one; logits are no numbers at the position `broken_at`."""

    weights = "none"

    def __init__(self, *, broken_at: int | None = None, fails: bool = False) -> None:
        self.storage = KVStorage(LAYOUT, num_units=8, block_size=4, device=torch.device("cpu"))
        self.plans: list[Plan] = []
        self.asked: list[Ask] = []
        self.closed = False
        self._broken_at = broken_at
        self._fails = fails

    def run(self, plan: Plan) -> Tensor:
        if self._fails:
            raise RuntimeError("no rows today")
        self.plans.append(plan)
        chosen = [chunk for chunk in plan.chunks if chunk.choose]
        return torch.tensor([[float(chunk.tokens[-1]), float(chunk.stop)] for chunk in chosen])

    def sampler(self, logits: Tensor, asks: Sequence[Ask]) -> list[Answer | None]:
        self.asked.extend(asks)
        rows = cast("list[list[float]]", logits.tolist())
        return [None if stop == self._broken_at else Answer(int(token) + 1) for token, stop in rows]

    def hidden(self, plan: Plan) -> Tensor:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def chunk(name: str, base: int, feed: Feed | None, num_guesses: int = 0) -> Chunk:
    ticket = Ticket(name, 0, 1, base, TABLES, StateUse(None, 0))
    return Chunk(ticket, (9,), CHOOSE, num_drafts=num_guesses, feed=feed, num_guesses=num_guesses)


def as_forward(forward: Counting) -> ModelForward:
    return cast("ModelForward", forward)


def test_guesses_come_round_by_round_and_each_is_computed_before_the_next() -> None:
    forward = Counting()

    guesses = Drafter(as_forward(forward), table=1).guess(Plan(3, (chunk("a", 5, Feed(3, (7, 8, 9)), 3),)))

    assert guesses == [(10, 11, 12)]
    computed = [(each.start, each.tokens) for plan in forward.plans for each in plan.chunks]
    assert computed == [(3, (7, 8, 9)), (6, (10,)), (7, (11,))]


def test_a_round_has_everybody_who_still_guesses_and_the_first_also_who_only_catches_up() -> None:
    forward = Counting()
    chunks = (
        chunk("a", 5, Feed(5, (3,)), 2),
        chunk("b", 5, None),
        chunk("c", 5, Feed(0, (4, 5))),
        chunk("d", 5, Feed(5, (6,)), 1),
    )

    guesses = Drafter(as_forward(forward), table=0).guess(Plan(3, chunks))

    assert guesses == [(4, 5), (), (), (7,)]
    assert [[each.ticket.sequence for each in plan.chunks] for plan in forward.plans] == [["a", "c", "d"], ["a"]]


def test_its_rows_are_found_by_the_one_table_and_it_has_no_states() -> None:
    forward = Counting()

    Drafter(as_forward(forward), table=2).guess(Plan(3, (chunk("a", 5, Feed(5, (3,)), 1),)))

    (only,) = forward.plans[0].chunks
    assert only.ticket.tables == (TABLES[2],)
    assert only.ticket.states is None
    assert only.score is None


def test_a_guess_is_chosen_with_the_randomness_and_penalties_of_its_output() -> None:
    forward = Counting()

    Drafter(as_forward(forward), table=0).guess(Plan(3, (chunk("a", 5, Feed(5, (3,)), 3),)))

    chosen = [ask.choose for ask in forward.asked]
    assert chosen == [CHOOSE.after(()), CHOOSE.after((4,)), CHOOSE.after((4, 5))]
    assert [each.output_index for each in chosen if each] == [6, 7, 8]
    assert all(ask.num_top is None for ask in forward.asked)


def test_logits_that_are_no_numbers_cost_a_guess_and_no_request() -> None:
    forward = Counting(broken_at=6)

    assert Drafter(as_forward(forward), table=0).guess(Plan(3, (chunk("a", 5, Feed(5, (3,)), 2),))) == [(0, 1)]


def test_who_only_catches_up_asks_for_no_logits() -> None:
    forward = Counting()

    Drafter(as_forward(forward), table=0).guess(Plan(3, (chunk("a", 5, Feed(0, (3, 4))),)))

    assert not forward.asked
    assert forward.plans[0].chunks[0].num_logit_rows == 0


def test_a_forward_pass_that_fails_its_first_step_is_ended_and_refused() -> None:
    broken, sound = Counting(fails=True), Counting()

    with pytest.raises(ModelUnsupported, match="the first step failed"):
        make_drafter(lambda: as_forward(broken), table=0)
    drafter = make_drafter(lambda: as_forward(sound), table=0)

    assert broken.closed
    assert not sound.closed
    drafter.close()
    assert sound.closed
