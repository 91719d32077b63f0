import threading
from itertools import count

import pytest

from engine.model.patience import TookTooLong, within


def test_what_a_call_returns_or_raises_is_handed_on() -> None:
    assert within(60, lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)
    with pytest.raises(KeyboardInterrupt):
        within(60, interrupt)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_call_without_an_end_is_ended_and_says_nothing() -> None:
    threads: list[threading.Thread] = []

    def endless() -> None:
        threads.append(threading.current_thread())
        for _ in count():
            try:
                1 // 0  # noqa: B018  # what it does is of no use
            except Exception:  # noqa: BLE001  # as a careless library may
                continue

    with pytest.raises(TookTooLong, match=r"not done within 0\.2 seconds"):
        within(0.2, endless)

    threads[0].join(60)
    assert not threads[0].is_alive()
