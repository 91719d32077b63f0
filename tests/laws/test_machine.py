"""An engine through any life keeps every law and answers each request as if it were alone."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.laws.machine import EngineMachine

def test_x() -> None:
    run_state_machine_as_test(EngineMachine, settings=settings(max_examples=3000, stateful_step_count=70, report_multiple_bugs=False))
    print(EngineMachine.num_examples, EngineMachine.num_rules, EngineMachine.num_steps)
