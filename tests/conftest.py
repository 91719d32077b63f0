"""What every test may ask for."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from config.threads import let_threads_sleep
from tests.hangups import hangups

DEFAULT_MODEL = Path(__file__).parent.parent / ".models" / "SmolLM2-135M-Instruct.Q4_1.gguf"

let_threads_sleep()  # the tests share two cores with each other

settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("hour", settings.get_profile("ci"), derandomize=False)
settings.register_profile(  # `make mutants`: few examples, and the first one that breaks is enough
    "mutant",
    settings.get_profile("ci"),
    max_examples=60,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
)
settings.load_profile("ci")  # `make laws-hour` says --hypothesis-profile=hour


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop that the server runs on, and no other."""
    return "asyncio"


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The file of the default model, which `make model` fetches."""
    assert DEFAULT_MODEL.is_file(), f"{DEFAULT_MODEL} is missing: run `make model`"
    return DEFAULT_MODEL


@pytest.fixture
def hangups_heard() -> Iterator[None]:
    """Processes that the test starts are sent SIGHUP as others are, though the tests may run under `nohup`."""
    with hangups(signal.SIG_DFL):
        yield
