"""An engine keeps every law through whatever happens to it, and answers each request as if it were alone."""

import sys

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.laws.machine import EngineMachine

NUM_PARTS = 24  # of 100 lives each in CI, so that several processes share them
NUM_RULES = 70  # in one life, at most


@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_any_life_of_an_engine_keeps_the_laws(part: int, capfd: pytest.CaptureFixture[str]) -> None:
    class Machine(EngineMachine):
        """This part's own counts."""

    if settings().derandomize:
        seed(part)(Machine)

    run_state_machine_as_test(Machine, settings=settings(stateful_step_count=NUM_RULES))

    mean_rules, mean_steps = Machine.num_rules / Machine.num_lives, Machine.num_steps / Machine.num_lives
    with capfd.disabled():
        sys.stderr.write(
            f"\nlaws, part {part}: {Machine.num_lives} lives of {mean_rules:.1f} rules, {mean_steps:.1f} steps\n"
        )
    assert min(mean_rules, mean_steps) >= 30, "nothing passes by doing nothing"
