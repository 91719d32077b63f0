from collections.abc import Callable

import pytest

from server.terminal.answers import TRIES, Answers, Broken, Piece
from server.terminal.client import ChatError, Client, Refused
from server.terminal.counts import Counts
from tests.server.terminal.scripted import MODELS, answer, error, events, serving

BODY = {"model": "m"}


def asking(url: str, *, pause: Callable[[float], None] = lambda _seconds: None) -> Answers:
    """A clock that ticks once whenever it is read."""
    ticks = iter(range(1000))
    return Answers(Client(url), clock=lambda: float(next(ticks)), pause=pause)


def ask(*answers: bytes) -> tuple[list[Piece | Counts], list[str | None]]:
    """What comes of a question, and behind which events the server was asked."""
    with serving(*answers) as server:
        got = list(asking(server.url).ask(BODY))
    return got, [asked.headers.get("last-event-id") for asked in server.asked]


def text_of(parts: list[Piece | Counts]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Piece))


def test_an_answer_is_its_pieces_and_its_counts() -> None:
    got, _ = ask(answer(events("a", "b")))

    assert got == [
        Piece("a"),
        Piece("b"),
        Counts(prompt=20, cached=16, made=5, accepted=2, rejected=1, first_seconds=1.0, seconds=2.0),
    ]


def test_thoughts_are_told_apart() -> None:
    thought = {"choices": [{"delta": {"reasoning_content": "hm", "content": "so"}}], "usage": None}

    assert ask(answer(events(thought)))[0][:2] == [Piece("hm", is_thought=True), Piece("so")]


def test_a_server_that_counts_nothing_is_understood() -> None:
    [counts] = ask(answer(events({"choices": [], "usage": {"prompt_tokens": 3}}, done=False) + "data: [DONE]\n\n"))[0]

    assert counts == Counts(3, 0, 0, 0, 0, first_seconds=None, seconds=1.0)


def test_an_answer_that_breaks_off_is_taken_up_behind_its_last_event() -> None:
    got, behind = ask(answer(events("a", "b", done=False)), answer(events("c", first=2)))

    assert text_of(got) == "abc"
    assert behind == [None, "chatcmpl-1:1"]


def test_a_server_that_is_away_for_a_moment_is_asked_again() -> None:
    got, behind = ask(
        answer(events("a", done=False)), b"", answer(events(first=1, done=False)), answer(events(first=1))
    )

    assert text_of(got) == "a"
    assert behind == [None, *["chatcmpl-1:0"] * 3]


def test_each_try_waits_and_the_last_one_fails() -> None:
    waited: list[float] = []

    with serving(answer(events("a", done=False))) as server, pytest.raises(Broken, match="before the answer's end"):
        list(asking(server.url, pause=waited.append).ask(BODY))

    assert len(waited) == TRIES == len(server.asked) - 1


def test_an_answer_of_which_nothing_came_is_not_asked_for_twice() -> None:
    with serving(answer(": keep-alive\n\n")) as server, pytest.raises(Broken):
        list(asking(server.url).ask(BODY))

    assert len(server.asked) == 1


@pytest.mark.parametrize("other", [events("again", id="chatcmpl-2"), "data: {}\n\n"])
def test_another_answer_is_not_taken_for_the_rest(other: str) -> None:
    with (
        serving(answer(events("a", done=False)), answer(other)) as server,
        pytest.raises(Broken, match="does not take up"),
    ):
        list(asking(server.url).ask(BODY))


def test_an_answer_that_has_expired_is_told_in_the_servers_words() -> None:
    with (
        serving(answer(events("a", done=False)), error("it has expired", status="404 Not Found")) as server,
        pytest.raises(Refused, match="it has expired"),
    ):
        list(asking(server.url).ask(BODY))


def test_an_error_within_the_stream_ends_the_answer() -> None:
    failed = {"error": {"message": "the step failed", "code": "step_failed"}}

    with (
        serving(answer(events("a", failed, done=False))) as server,
        pytest.raises(Refused, match="the step failed") as refused,
    ):
        list(asking(server.url).ask(BODY))

    assert refused.value.code == "step_failed"


@pytest.mark.parametrize("data", ["{", "[]"])
def test_what_is_no_chunk_ends_the_answer(data: str) -> None:
    with serving(answer(f"data: {data}\n\n")) as server, pytest.raises(ChatError, match="no part of an answer"):
        list(asking(server.url).ask(BODY))


def test_a_model_that_loads_is_waited_for_and_that_is_told_once() -> None:
    loading = error("loads", status="503 Service Unavailable", code="model_loading")
    told: list[str] = []

    with serving(loading, loading, MODELS) as server:
        served = asking(server.url).models(waits=lambda: told.append("waits"))

    assert served == ["org/tiny", "gpt-4o"]
    assert told == ["waits"]


def test_a_server_that_ends_is_not_waited_for() -> None:
    with (
        serving(error("ends", status="503 Service Unavailable", code="draining")) as server,
        pytest.raises(Refused, match="ends"),
    ):
        asking(server.url).models(waits=lambda: None)
