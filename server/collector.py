"""Collector: Python's garbage collector rests while a model loads, and never walks what that left.

Imports and loading make some 400,000 objects that nearly all stay. The collector would walk them again and again
while they are made, which costs half a second, and later, in the midst of serving, stop everything for
as long.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def resting_collector() -> Iterator[None]:
    """Collect nothing within, and once at the end; what is left then is taken to stay for good."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
