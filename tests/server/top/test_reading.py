import threading

import pytest

from server.terminal.client import NoServer, Refused
from server.top import reading as module
from server.top.reading import Reading
from server.top.values import NoSight
from tests.server.terminal.scripted import PATIENCE_SECONDS

LAST = 0  # what ends a reading


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.0)


class Asked:
    """What there is to answer, one after the other, and for ever the last; and what was known each time."""

    def __init__(self, *answers: int | Exception) -> None:
        self._answers = list(answers)
        self._told = threading.Condition()
        self._num_told = 0
        self.known: list[int | None] = []

    def __call__(self, known: int | None) -> int:
        self.known.append(known)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reading(self) -> Reading[int]:
        """One that has been told as often as there are answers."""
        num_answers = len(self._answers)
        reading = Reading(self, goes_on=lambda told: told != LAST, tells=self._note)
        with self._told:
            assert self._told.wait_for(lambda: self._num_told >= num_answers, PATIENCE_SECONDS)
        reading.close()
        return reading

    def _note(self) -> None:
        with self._told:
            self._num_told += 1
            self._told.notify_all()


def test_each_answer_is_asked_for_with_the_one_before() -> None:
    asked = Asked(3, 4, LAST)

    reading = asked.reading()

    assert (reading.told, reading.notice) == (LAST, "")
    assert asked.known == [None, 3, 4]


@pytest.mark.parametrize(
    "error", [NoServer("gone"), NoSight("gone"), Refused("gone", status=503), Refused("gone", status=404)]
)
def test_why_there_is_nothing_is_told_and_it_is_asked_again(error: Exception) -> None:
    asked = Asked(error)

    assert (asked.reading().notice, len(asked.known) > 0) == ("gone", True)
    assert Asked(error, LAST).reading().notice == ""


def test_what_is_known_stays_though_nothing_newer_comes() -> None:
    lost, unknown = Asked(3, NoServer("gone")).reading(), Asked(3, Refused("gone", status=404)).reading()

    assert (lost.told, lost.notice) == (3, "gone")
    assert (unknown.told, unknown.notice) == (3, "the server knows it no more; this is what it told before")


def test_a_reading_that_is_closed_asks_no_more() -> None:
    readings, asked = list[Reading[int]](), list[int | None]()
    made = threading.Event()

    def ask(known: int | None) -> int:
        asked.append(known)
        assert made.wait(PATIENCE_SECONDS)
        readings[0].close()
        return 1

    before = threading.enumerate()
    readings.append(Reading(ask))
    [thread] = [thread for thread in threading.enumerate() if thread not in before]
    made.set()
    thread.join(PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert asked == [None]
