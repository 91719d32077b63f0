import gc
from collections.abc import Iterator

import pytest

from server.collector import resting_collector


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Whatever a test freezes can be collected again after it."""
    yield
    gc.unfreeze()


def test_nothing_is_collected_while_a_model_loads() -> None:
    with resting_collector():
        collects = gc.isenabled()

    assert not collects
    assert gc.isenabled()


def test_what_was_made_is_not_walked_again() -> None:
    with resting_collector():
        made = [[index] for index in range(1_000)]

    assert gc.get_freeze_count() > len(made)
    assert not any(walked is made for walked in gc.get_objects())


def test_a_failure_leaves_the_collector_at_work() -> None:
    with pytest.raises(ValueError, match="no such model"), resting_collector():
        raise ValueError("no such model")

    assert gc.isenabled()
