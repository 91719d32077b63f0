"""An engine keeps every law through whatever happens to it, and answers each request as if it were alone."""

import sys

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.laws.machine import LONG, EngineMachine

NUM_PARTS = 26  # of 100 lives or more in CI: over 2,000 long ones, shared by several processes
NUM_RULES = 70  # in one life, at most


@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_any_life_of_an_engine_keeps_the_laws(part: int, capfd: pytest.CaptureFixture[str]) -> None:
    class Machine(EngineMachine):
        """This part's own counts."""

    if settings().derandomize:
        seed(part)(Machine)

    run_state_machine_as_test(Machine, settings=settings(stateful_step_count=NUM_RULES))

    num_lives, num_long = Machine.num_lives, Machine.num_long_lives
    means = f"{Machine.num_rules / num_lives:.1f} rules and {Machine.num_steps / num_lives:.1f} steps on average"
    drafts = f"{Machine.num_drafts_kept} drafts kept, {Machine.num_drafts_rejected} rejected"
    bound = f"{Machine.num_bound} outputs by a grammar"
    with capfd.disabled():
        sys.stderr.write(
            f"\nlaws, part {part}: {num_lives} lives, {num_long} of {LONG} or more steps; {means}; {drafts}; {bound}\n"
        )
    assert num_long >= num_lives / 2, "nothing passes by doing nothing"
    assert Machine.num_drafts_kept >= num_lives / 10, "drafts stand"
    assert Machine.num_drafts_rejected >= num_lives / 50, (
        "drafts fall, though a pace that learns from it drafts no more"
    )
    assert Machine.num_bound >= num_lives, "some outputs follow a grammar"
