import os
import time
from pathlib import Path

import pytest

from benchmarks.watching.processor import Processor

TICKS = os.sysconf("SC_CLK_TCK")


def stat(user: int, system: int, *, name: str = "a (strange) name") -> str:
    return f"7 ({name}) S 1 7 7 0 -1 0 0 0 0 0 {user} {system} 90 91 20 0 3 0 5 6 7\n"


def test_the_loop_is_the_main_thread_and_its_time_is_the_user_s_and_the_system_s(tmp_path: Path) -> None:
    (tmp_path / "7" / "task" / "7").mkdir(parents=True)
    (tmp_path / "7" / "stat").write_text(stat(50, 10))
    (tmp_path / "7" / "task" / "7" / "stat").write_text(stat(5, 1))

    assert Processor.of(7, tmp_path) == Processor(loop=6 / TICKS, threads=60 / TICKS)


def test_where_nothing_is_told_nothing_is_known(tmp_path: Path) -> None:
    assert Processor.of(7, tmp_path) is None


def test_what_was_used_between_two_moments_is_their_difference() -> None:
    used = Processor(3.0, 7.0) - Processor(1.0, 2.0)

    assert used == Processor(loop=2.0, threads=5.0)


@pytest.mark.skipif(Processor.of(os.getpid()) is None, reason="this system has no /proc")
def test_this_very_process_has_used_something() -> None:
    while time.process_time() < 0.05:
        pass

    used = Processor.of(os.getpid())

    assert used is not None
    assert 0 < used.loop <= used.threads
