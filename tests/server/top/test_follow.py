import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from server.terminal.client import ChatError, Client
from server.top import follow
from server.top.follow import Follower
from tests.server.terminal.scripted import PATIENCE_SECONDS, answer, error, serving
from tests.server.top.sights import body


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "RETRY_SECONDS", 0.01)


def snapshots(*bodies: object, end: str | None = None, lines: str = "") -> bytes:
    told = [f"event: snapshot\ndata: {json.dumps(each)}\n\n" for each in bodies]
    last = [] if end is None else [f"event: end\ndata: {end}\n\n"]
    return answer("".join([": keep-alive\n\n", *told, lines, *last]))


class Told:
    """Waits until the follower has told something that is looked for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.notices: list[str] = []

    def __call__(self, notice: str) -> None:
        with self._changed:
            self.notices.append(notice)
            self._changed.notify_all()

    def until(self, words: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: any(words in each for each in self.notices), PATIENCE_SECONDS)


@contextmanager
def following(*answers: bytes) -> Iterator[tuple[Follower, Told]]:
    told, clock = Told(), count()
    with serving(*answers) as server:
        follower = Follower(
            Client(server.url, "key"), every=0.25, clock=lambda: float(next(clock)), tells=lambda: told(follower.notice)
        )
        with follower.following():
            yield follower, told


def test_snapshots_become_frames() -> None:
    with following(snapshots(body(whole=True), body(steps=50), lines="event: other\ndata: x\n\n")) as (follower, told):
        follower.first(lambda _: None)
        told.until("the connection was lost; trying again")

        frame = follower.frame()

    assert frame.sight.steps == 50
    assert frame.notice


def test_the_server_is_asked_with_the_key_and_the_pace() -> None:
    with serving(snapshots(body(whole=True))) as server:
        follower = Follower(Client(server.url, "key"), every=0.25, clock=lambda: 0.0)
        with follower.following():
            follower.first(lambda _: None)

    assert server.asked[0].line == "GET /ledger/events?every=0.25 HTTP/1.1"
    assert server.asked[0].headers["authorization"] == "Bearer key"


def test_a_server_that_comes_back_is_followed_again() -> None:
    first = snapshots(body(whole=True), end='{"reason": "draining"}')
    with following(
        first, error("loading", status="503 X", code="model_loading"), snapshots(body(whole=True, steps=1))
    ) as (
        follower,
        told,
    ):
        told.until("the server is ending; waiting for another")
        told.until("loading; trying again")
        told.until("the connection was lost")

        assert follower.frame().sight.steps == 1
        follower.check()


@pytest.mark.parametrize("end", ["{}", "nothing", '["x"]'])
def test_an_end_without_a_reason_is_an_end(end: str) -> None:
    with following(snapshots(body(whole=True), end=end)) as (_, told):
        told.until("the server has ended the stream; waiting for another")


def test_a_server_that_loads_is_waited_for() -> None:
    waits = Told()
    loading = error("the model is being loaded", status="503 X", code="model_loading")
    with following(*[loading] * 20, snapshots(body(whole=True))) as (follower, _):
        follower.first(waits)

    assert set(waits.notices) <= {"", "the model is being loaded; trying again"}


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (error("no", status="401 X"), "the server does not know this key"),
        (
            error("no such path", status="404 X"),
            "can't be watched: perhaps it is no Tidemark, or one that is older than",
        ),
        (error("wrong", status="400 X"), "wrong"),
        (snapshots({"steps": 3}), "does not tell what `tidemark top` shows"),
        (snapshots(lines="event: snapshot\ndata: {\n\n"), "property name"),
        (snapshots(lines=f"event: snapshot\ndata: {'[' * 100_000}\n\n"), "recursion"),
        (snapshots(body()), "does not begin with a whole snapshot"),
        (answer("<html>hello</html>"), "ended before it told anything"),
    ],
)
def test_what_does_not_pass_is_the_end(refusal: bytes, why: str) -> None:
    with following(refusal) as (follower, _), pytest.raises(ChatError, match=why):
        follower.first(lambda _: None)


def test_no_server_at_the_start_is_the_end() -> None:
    follower = Follower(Client("http://127.0.0.1:9"), every=1.0, clock=lambda: 0.0)

    with follower.following(), pytest.raises(ChatError, match="no server answers at"):
        follower.first(lambda _: None)


def test_a_server_that_went_away_is_looked_for() -> None:
    with serving(snapshots(body(whole=True))) as server:
        told = Told()
        follower = Follower(Client(server.url), every=0.25, clock=lambda: 0.0, tells=lambda: told(follower.notice))
        with follower.following():
            told.until("no server answers at")
            follower.check()


def test_a_follower_that_is_left_takes_nothing_more() -> None:
    with serving(snapshots(body(whole=True), *[body(steps=step) for step in range(50)])) as server:
        entered, left = threading.Event(), threading.Event()

        def leave() -> None:
            assert entered.wait(PATIENCE_SECONDS)
            context.__exit__(None, None, None)
            left.set()

        follower = Follower(Client(server.url), every=0.25, clock=lambda: 0.0, tells=leave)
        context = follower.following()
        context.__enter__()
        entered.set()
        assert left.wait(PATIENCE_SECONDS)

    assert follower.frame().sight.steps == 40


def test_the_reason_of_an_end_does_not_drive_the_terminal() -> None:
    with following(snapshots(body(whole=True), end='{"reason": "\\u001b[2Jgone"}')) as (_, told):
        told.until("[2Jgone; waiting for another")

    assert all(notice.isprintable() for notice in told.notices)
