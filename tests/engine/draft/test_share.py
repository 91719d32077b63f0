from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from engine.draft.share import Offer, could_pay, share_drafts
from engine.pace import DraftPrice


@dataclass(frozen=True)
class Each:
    """Each token costs the same, and the first beyond `room` opens a tile, which costs more."""

    least: float
    tile: float = 0.0
    room: int = 0

    def of(self, count: int) -> float:
        return self.least * count + (self.tile if count > self.room else 0.0)

    def fills(self, most: int) -> tuple[int, ...]:
        return (min(self.room, most), most)


SURE, LIKELY, DOUBTFUL = Offer(8, 0.99), Offer(8, 0.7), Offer(8, 0.1)


def test_a_likely_token_that_costs_little_is_drafted_and_an_unlikely_one_is_not() -> None:
    assert share_drafts([SURE], most=99, num_tokens=1, seconds=4.0, price=Each(0.5)) == [8]
    assert share_drafts([DOUBTFUL], most=99, num_tokens=1, seconds=4.0, price=Each(0.5)) == [0]


def test_each_further_token_is_less_likely() -> None:
    assert share_drafts([LIKELY], most=99, num_tokens=1, seconds=4.0, price=Each(0.5)) == [3]


def test_dearer_tokens_are_fewer() -> None:
    counts = [
        share_drafts([LIKELY], most=99, num_tokens=1, seconds=4.0, price=Each(price))[0] for price in (0.1, 0.5, 2, 4)
    ]

    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1] > counts[-1] == 0


def test_a_crowd_drafts_only_what_is_nearly_sure() -> None:
    crowd = [LIKELY] * 15 + [SURE]

    assert share_drafts(crowd, most=99, num_tokens=16, seconds=18.0, price=Each(0.75)) == [0] * 15 + [8]


def test_the_likeliest_of_all_streams_come_first_when_there_is_little_room() -> None:
    assert share_drafts([LIKELY, SURE], most=3, num_tokens=2, seconds=4.0, price=Each(0.01)) == [0, 3]


def test_where_nothing_costs_anything_all_is_drafted() -> None:
    assert share_drafts([DOUBTFUL, Offer(0, 0.0), LIKELY], most=99, num_tokens=3, seconds=0.0, price=Each(0.0)) == [
        8,
        0,
        8,
    ]


def test_a_tile_of_rows_is_opened_only_for_enough_tokens() -> None:
    dear = Each(0.1, tile=4.0, room=2)

    few = share_drafts([Offer(4, 0.99)], most=99, num_tokens=8, seconds=8.0, price=dear)
    many = share_drafts([Offer(15, 0.99)], most=99, num_tokens=8, seconds=8.0, price=dear)

    assert few == [2]
    assert many == [15]


@given(
    token=st.floats(0.0, 3.0),
    tile=st.floats(0.0, 20.0),
    rows=st.integers(1, 40),
    most=st.integers(1, 60),
    row_tile=st.sampled_from([None, 16]),
)
def test_where_nothing_could_pay_not_even_what_is_sure_is_drafted(
    token: float, tile: float, rows: int, most: int, row_tile: int | None
) -> None:
    price = DraftPrice(token, tile, rows, row_tile)

    pays = could_pay(most=most, num_tokens=rows, seconds=10.0, price=price)
    counts = share_drafts([Offer(most, 1.0)], most=most, num_tokens=rows, seconds=10.0, price=price)

    assert pays or counts == [0]


def test_a_crowd_that_fills_its_tile_is_not_asked_and_one_that_leaves_rows_is() -> None:
    full, roomy = (DraftPrice(token=0.4, tile=8.0, rows=rows, row_tile=16) for rows in (16, 12))

    assert not could_pay(most=240, num_tokens=16, seconds=17.0, price=full)
    assert could_pay(most=240, num_tokens=12, seconds=17.0, price=roomy)


offers = st.lists(st.builds(Offer, st.integers(0, 6), st.floats(0.01, 0.99)), min_size=1, max_size=4)


@given(offers=offers, most=st.integers(0, 12), price=st.floats(0.001, 2.0))
def test_a_step_with_drafts_never_expects_less_than_one_without(offers: list[Offer], most: int, price: float) -> None:
    counts = share_drafts(offers, most=most, num_tokens=len(offers), seconds=2.0, price=Each(price))

    assert sum(counts) <= most
    assert all(count <= offer.count for count, offer in zip(counts, offers, strict=True))
    expected = len(offers) + sum(
        offer.chance**length for count, offer in zip(counts, offers, strict=True) for length in range(1, count + 1)
    )
    assert expected / (2.0 + price * sum(counts)) >= len(offers) / 2.0 or expected == pytest.approx(len(offers))
