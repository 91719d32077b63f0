from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from engine.draft.rounds import share_rounds
from engine.draft.share import Offer
from engine.pace import DraftPrice, RoundPrice

SURE, LIKELY, DOUBTFUL = Offer(8, 0.99), Offer(8, 0.7), Offer(8, 0.1)
CHEAP = DraftPrice(token=0.2, tile=0.0, rows=1, row_tile=None)
ROUNDS = RoundPrice(fixed=0.4, token=0.1)


@dataclass(frozen=True)
class Step:
    """A step without guesses: one stream in four seconds, unless said otherwise."""

    num_tokens: float = 1.0
    seconds: float = 4.0

    def shared(
        self, *offers: Offer, most: int = 99, price: DraftPrice = CHEAP, rounds: RoundPrice = ROUNDS
    ) -> list[int]:
        return share_rounds(
            offers, most=most, num_tokens=self.num_tokens, seconds=self.seconds, price=price, rounds=rounds
        )


def test_likely_tokens_are_guessed_and_unlikely_ones_are_not() -> None:
    assert Step().shared(SURE) == [8]
    assert Step().shared(DOUBTFUL) == [0]


def test_the_less_a_round_costs_the_more_rounds_there_are() -> None:
    counts = [Step().shared(LIKELY, rounds=RoundPrice(fixed, 0.1))[0] for fixed in (0.0, 0.4, 1.0, 4.0)]

    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1] > counts[-1] == 0


def test_a_round_that_one_stream_does_not_pay_for_is_paid_by_several() -> None:
    dear = RoundPrice(fixed=2.4, token=0.0)

    assert Step(1.0, 4.0).shared(LIKELY, rounds=dear) == [0]
    assert all(
        count > 0 for count in Step(4.0, 4.4).shared(*[SURE] * 4, price=DraftPrice(0.0, 0.0, 4, None), rounds=dear)
    )


def test_who_is_too_doubtful_stays_out_of_the_rounds_of_others() -> None:
    assert Step(3.0, 6.0).shared(DOUBTFUL, SURE, Offer(0, 0.9)) == [0, 8, 0]


def test_an_offer_is_never_exceeded_and_neither_is_the_room() -> None:
    assert Step().shared(Offer(2, 0.9), Offer(5, 0.9), rounds=RoundPrice(0.0, 0.0)) == [2, 5]
    assert Step().shared(Offer(2, 0.9), Offer(5, 0.9), most=3, rounds=RoundPrice(0.0, 0.0)) == [2, 1]
    assert Step().shared(Offer(2, 0.9), most=0) == [0]


def test_a_round_that_opens_a_tile_of_rows_has_to_pay_for_it() -> None:
    tiled = DraftPrice(token=0.0, tile=50.0, rows=14, row_tile=16)

    assert Step(14.0, 20.0).shared(*[SURE] * 3, price=tiled, rounds=RoundPrice(0.0, 0.0)) == [1, 1, 0]


def test_before_anything_is_known_all_is_guessed() -> None:
    free = DraftPrice(0.0, 0.0, 2, None)

    assert Step(2.0, 0.0).shared(LIKELY, DOUBTFUL, price=free, rounds=RoundPrice(0.0, 0.0)) == [8, 8]


offers = st.lists(st.builds(Offer, st.integers(0, 6), st.floats(0.01, 0.99)), min_size=1, max_size=4)


@given(offers=offers, most=st.integers(0, 12), price=st.floats(0.001, 2.0), fixed=st.floats(0.0, 2.0))
def test_a_step_with_guesses_never_expects_less_than_one_without(
    offers: list[Offer], most: int, price: float, fixed: float
) -> None:
    verifying, rounds = DraftPrice(price, 0.0, len(offers), None), RoundPrice(fixed, price)

    counts = share_rounds(offers, most=most, num_tokens=len(offers), seconds=2.0, price=verifying, rounds=rounds)

    assert sum(counts) <= most
    assert all(count <= offer.count for count, offer in zip(counts, offers, strict=True))
    expected = len(offers) + sum(offer.expected(count) for offer, count in zip(offers, counts, strict=True))
    seconds = 2.0 + verifying.of(sum(counts)) + rounds.of(sum(counts), max(counts))
    assert expected / seconds >= len(offers) / 2.0 or expected == pytest.approx(len(offers))
