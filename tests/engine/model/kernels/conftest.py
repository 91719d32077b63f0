"""What the operators run on: threads, and each level that this CPU has."""

from collections.abc import Iterator

import pytest

from engine.model.kernels.native import Level
from tests.engine.model.kernels.machine import LEVELS, opened


@pytest.fixture(scope="module")
def pool() -> Iterator[int]:
    with opened(2) as handle:
        yield handle


@pytest.fixture(params=LEVELS, ids=lambda level: level.name)
def level(request: pytest.FixtureRequest) -> Level:
    found: Level = request.param
    return found
