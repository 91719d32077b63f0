import asyncio
from contextlib import ExitStack

import orjson
import pytest

from engine.course import Event, Moment
from engine.stats import StepRecord, StepRow
from server.errors import ApiError
from server.lookout import LEAST_SECONDS, MAX_WATCHERS, Lookout, Sight
from tests.fakes import INFO, FakeEngine, make_settings
from tests.http.clients import Json
from tests.parts import a_request

pytestmark = pytest.mark.anyio
STEP = StepRecord(1, (StepRow("one/0", 5, 5, 6, 5, (0, 5), (7,), (), drafts=(3,), source="prediction"),))


class Case:
    """A lookout over a fake engine, and its clock."""

    def __init__(self, *, linger_seconds: float = 60.0) -> None:
        self.now = 0.0
        self.engine = FakeEngine()
        self.lookout = Lookout(make_settings(), clock=lambda: self.now, linger_seconds=linger_seconds)

    def sight(self, state: str = "ready") -> Sight:
        return self.lookout.sight(self.engine, state)

    def told(self, sight: Sight, before: Sight | None) -> Json:
        frame = self.lookout.frame(sight, before, INFO)
        assert frame.startswith(b"event: snapshot\ndata: {")
        assert frame.endswith(b"}\n\n")
        body: Json = orjson.loads(frame.split(b"data: ")[1])
        return body


async def test_all_watchers_share_a_look_until_it_is_old() -> None:
    case = Case()

    first = case.sight()
    case.now = LEAST_SECONDS / 2
    same = case.sight()
    case.now = LEAST_SECONDS
    case.engine.open(a_request((2, 3)))
    later = case.sight()

    assert first is same
    assert (first.number, later.number) == (1, 2)
    assert case.engine.num_looks == 2


async def test_where_nothing_happened_the_look_before_stands() -> None:
    case = Case()
    first = case.sight()

    case.now = 1.0
    idle = case.sight()
    case.now = 2.0
    draining = case.sight("draining")

    assert idle is first
    assert draining is not first
    assert case.told(draining, first)["server"] == "draining"


async def test_the_first_of_a_watcher_is_whole_and_the_next_tells_what_has_changed() -> None:
    case = Case()
    first = case.sight()
    whole = case.told(first, None)
    case.engine.open(a_request((2, 3)))
    case.now = 1.0

    more = case.told(case.sight(), first)

    assert whole["whole"]
    assert whole["units"] == {"states": "00000000"}
    assert whole["info"]["model"] == INFO.name
    assert not more["whole"]
    assert "info" not in more
    assert more["units"] == {"changed": [[0, "1"]]}
    assert [each["id"] for each in more["sequences"]] == ["request/0"]
    assert more["uptime_seconds"] == 1.0
    assert "slots" not in more


async def test_who_skipped_looks_is_told_all_that_changed_since_its_own() -> None:
    case = Case()
    looks = [case.sight()]
    for _ in range(2):
        case.now += 1.0
        case.engine.open(a_request((2, 3)))
        looks.append(case.sight())

    slow, quick = case.told(looks[2], looks[0]), case.told(looks[2], looks[1])

    assert slow["units"] == {"changed": [[0, "11"]]}
    assert quick["units"] == {"changed": [[1, "1"]]}


async def test_a_frame_is_made_once_for_all_who_saw_the_same_before() -> None:
    case = Case()
    first = case.sight()

    assert case.lookout.frame(first, None, INFO) is case.lookout.frame(first, None, INFO)


async def test_drafts_that_fell_are_told_once_and_not_to_who_comes_later() -> None:
    case = Case()
    with case.lookout.watching(case.engine):
        first = case.sight()
        case.engine.observers[0](STEP)
        case.now = 1.0
        case.engine.open(a_request((2, 3)))
        second = case.sight()

        assert [each["number"] for each in case.told(second, first)["rejections"]] == [1]
        assert case.told(second, None)["rejections"] == []


async def test_who_ended_is_told_once_and_not_to_who_comes_later() -> None:
    case = Case()
    with case.lookout.watching(case.engine):
        first = case.sight()
        for sequence in ("one/0", "two/0"):
            case.engine.hearers[0](sequence, Moment(Event.ENDED, 1.0, reason="abort"))
        case.now = 1.0
        case.engine.open(a_request((2, 3)))
        second = case.sight()

        ended = {"number": 1, "sequence": "one/0", "time": 1.0, "reason": "abort"}
        assert case.told(second, first)["ended"] == [ended, ended | {"number": 2, "sequence": "two/0"}]
        assert case.told(second, None)["ended"] == []


async def test_steps_are_noted_while_somebody_watches_and_no_longer() -> None:
    case = Case(linger_seconds=0.0)

    with case.lookout.watching(case.engine), case.lookout.watching(case.engine):
        case.engine.observers[0](STEP)
        case.engine.hearers[0]("two/0", Moment(Event.QUEUED, 1.0))
        assert len(case.engine.observers) == 1
        assert case.lookout.timelines.of("one")
        assert case.lookout.timelines.of("two")
    await asyncio.sleep(0.001)  # timers end in order

    assert case.engine.observers == []
    assert case.engine.hearers == []
    assert case.lookout.timelines.of("one") == []
    assert case.lookout._latest is None


async def test_who_comes_back_soon_finds_what_was_noted() -> None:
    case = Case()
    with case.lookout.watching(case.engine):
        case.engine.observers[0](STEP)

    with case.lookout.watching(case.engine):
        assert len(case.engine.observers) == 1
        assert case.lookout.timelines.of("one")


async def test_of_a_request_that_runs_when_the_first_watcher_comes_the_beginning_is_missing() -> None:
    case = Case()
    case.engine.open(a_request((2, 3), id="one"))

    with case.lookout.watching(case.engine):
        case.engine.observers[0](STEP)

        [timeline] = case.lookout.timelines.of("one")
        assert not timeline.complete
        assert [moment.event for moment in timeline.moments] == [Event.ADMITTED]


async def test_one_watcher_too_many_is_refused_and_a_place_is_free_again() -> None:
    case = Case()
    with ExitStack() as places:
        for _ in range(MAX_WATCHERS):
            places.enter_context(case.lookout.watching(case.engine))

        with pytest.raises(ApiError, match="16 watch") as refusal, case.lookout.watching(case.engine):
            pass

    assert refusal.value.status == 503
    case.lookout.check_room()
