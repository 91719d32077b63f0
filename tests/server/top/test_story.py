from typing import Any

import pytest

from server.top.sight import Drafts
from server.top.story import WINDOW_SECONDS, Story
from tests.server.top.sights import rejection, sequence, sight

MORE: dict[str, Any] = {
    "steps": 60,
    "positions": {
        "planned": 500,
        "computed": 460,
        "accepted": 100,
        "published": 100,
        "rejected": 40,
        "recomputed": 0,
        "new": 4,
    },
    "drafts": {"lookup": {"drafts": 8, "tokens": 40, "kept": 25}, "grammar": {"drafts": 2, "tokens": 2, "kept": 2}},
    "prefix": {"queries": 150, "hits": 100},
    "seconds": {
        "execute": {"count": 60, "sum": 4.0},
        "masks": {"count": 10, "sum": 1.0},
        "plan": {"count": 40, "sum": 2.0},
    },
    "step_positions": {"count": 60, "sum": 480.0},
}


def story(*moments: float) -> Story:
    """The usual snapshot at the first moment, and at the others one in which more was done."""
    told = Story("http://here")
    told.add(sight(whole=True), moments[0])
    for moment in moments[1:]:
        told.add(sight(**MORE), moment)
    return told


def test_rates_are_differences_a_second() -> None:
    rates = story(10.0, 12.0).frame(12.0).rates

    assert (rates.steps, rates.positions["planned"], rates.positions["new"]) == (10.0, 100.0, 2.0)
    assert rates.drafts == {"lookup": 2.0, "grammar": 1.0}
    assert rates.recent["lookup"] == Drafts(4, 20, 15)
    assert rates.hit_rate == pytest.approx(0.76)
    assert (rates.stages["execute"], rates.stages["masks"], rates.stages["plan"]) == (0.1, 0.1, None)
    assert rates.step_positions == 10.0
    assert rates.first_token is None


def test_one_snapshot_has_no_rates() -> None:
    rates = story(10.0).frame(10.0).rates

    assert (rates.steps, rates.positions["planned"], rates.hit_rate) == (0.0, 0.0, None)


def test_rates_fall_to_nothing_while_nothing_comes() -> None:
    told = story(10.0, 12.0)

    falling = [told.frame(now).rates.steps for now in (12.0, 14.0, 16.0)]

    assert falling[0] > falling[1] > falling[2] == 0.0


def test_rates_forget_what_is_older_than_the_window() -> None:
    told = story(10.0, 12.0, 40.0)
    told.add(sight(**MORE | {"steps": 90}), 41.0)

    assert told.frame(41.0).rates.steps == pytest.approx(30 / WINDOW_SECONDS)


def test_a_new_connection_begins_anew() -> None:
    told = story(10.0, 12.0)
    told.add(sight(whole=True, steps=1, rejections=[rejection(9)]), 13.0)

    frame = told.frame(13.5)

    assert frame.rates.steps == 0.0
    assert [each.step for each in frame.rejections] == [49]


def test_fallen_drafts_are_kept_the_newest_first() -> None:
    told = story(10.0)
    for number in range(1, 4):
        told.add(sight(rejections=[rejection(number)]), 10.0 + number)

    assert [each.step for each in told.frame(14.0).rejections] == [43, 42, 41]


def test_a_request_ages_while_no_snapshot_comes() -> None:
    frame = story(10.0).frame(13.0)

    assert frame.age == 3.0
    assert frame.age_of(frame.sight.sequences[0]) == 13.0
    young = sight(sequences=[sequence(arrived=500.0)]).sequences[0]
    assert frame.age_of(young) == 0.0


def test_a_frame_tells_what_is_wrong_with_the_connection() -> None:
    assert story(1.0).frame(1.0, "gone").notice == "gone"
