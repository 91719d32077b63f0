import signal

import pytest

from server.signals import endings, once_for_a_terminal
from tests.hangups import hangups


@pytest.mark.parametrize(
    ("numbers", "times"),
    [
        ([signal.SIGHUP, signal.SIGHUP], 1),
        ([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM], 2),
        ([signal.SIGTERM, signal.SIGHUP], 2),
        ([signal.SIGINT, signal.SIGINT], 2),
    ],
)
def test_a_second_signal_is_passed_on_unless_it_is_the_same_terminal_that_closes(
    numbers: list[signal.Signals], times: int
) -> None:
    passed_on: list[int] = []
    heard = once_for_a_terminal(passed_on.append)

    for number in numbers:
        heard(number)

    assert len(passed_on) == times


def test_a_terminal_that_closes_asks_for_the_end_unless_nohup_keeps_it_away() -> None:
    with hangups(signal.SIG_DFL):
        assert signal.SIGHUP in endings()
    with hangups(signal.SIG_IGN):
        assert signal.SIGHUP not in endings()
