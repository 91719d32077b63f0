import os

import pytest

from benchmarks.cores import Cores, seconds_of, wait_for_quiet

A_SECOND = os.sysconf("SC_CLK_TCK")


def stat(*seconds: int) -> str:
    return "cpu  " + " ".join(str(count * A_SECOND) for count in seconds) + "\ncpu0 1 2 3\n"


class Watch:
    """What others take, one look after the other, and a clock that goes on by one with each."""

    def __init__(self, *shares: float | None) -> None:
        self._shares = iter(shares)
        self.seconds = 0.0

    def look(self) -> float | None:
        self.seconds += 1
        return next(self._shares)

    def clock(self) -> float:
        return self.seconds


def test_what_is_neither_idle_nor_waiting_is_used() -> None:
    assert seconds_of(stat(1, 2, 3, 40, 5, 6, 7, 8, 900, 900)) == (72, 27)


def test_another_file_is_not_taken_for_counts() -> None:
    with pytest.raises(ValueError, match="intr"):
        seconds_of("intr 1 2 3\n")


def test_others_have_what_was_used_and_not_by_us() -> None:
    before, after = Cores(passed=100, used=50, ours=10), Cores(passed=120, used=65, ours=15)

    assert before.taken_by_others(after) == 0.5


def test_a_share_stays_a_share_where_the_clocks_differ() -> None:
    assert Cores(0, 0, 0).taken_by_others(Cores(10, 1, 2)) == 0
    assert Cores(0, 0, 0).taken_by_others(Cores(0, 0, 0)) == 0


def test_a_quiet_machine_is_not_waited_for() -> None:
    watch = Watch(0.01)

    assert wait_for_quiet(60, watch=watch.look, clock=watch.clock) == 0.01


def test_a_busy_machine_is_waited_for_until_it_is_quiet() -> None:
    watch = Watch(0.9, 0.5, 0.02)

    assert wait_for_quiet(60, watch=watch.look, clock=watch.clock) == 0.02


def test_the_wait_for_a_quiet_machine_has_an_end() -> None:
    watch = Watch(0.9, 0.8, 0.7, 0.6, 0.5)

    assert wait_for_quiet(3, watch=watch.look, clock=watch.clock) == 0.7


def test_a_system_that_tells_nothing_is_not_waited_for() -> None:
    watch = Watch(None)

    assert wait_for_quiet(60, watch=watch.look, clock=watch.clock) is None
