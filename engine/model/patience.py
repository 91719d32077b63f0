"""Patience: a call on a thread of its own, which is ended where it takes too long."""

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


class TookTooLong(Exception):
    """The call was ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it was not done within {seconds:g} seconds")


class _Ended(SystemExit):
    """What is raised within the call: no `Exception` that a library may catch, and a thread ends with it silently."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """What a call returns or raises, or TookTooLong. It is ended between two steps of Python, not in a library."""
    outcome: Future[T] = Future()
    thread = threading.Thread(target=_settle, args=(outcome, call), daemon=True)  # no exit waits for it
    thread.start()
    wait((outcome,), seconds)
    if not outcome.done():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Ended))
        raise TookTooLong(seconds)
    return outcome.result()


def _settle(outcome: Future[T], call: Callable[[], T]) -> None:
    try:
        outcome.set_result(call())
    except BaseException as failure:  # noqa: BLE001  # whoever waits is told of it
        outcome.set_exception(failure)
