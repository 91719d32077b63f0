import pytest

from engine.grammar.allowance import Allowance


def test_what_is_left_can_be_taken_and_no_more() -> None:
    allowance = Allowance(5)
    allowance.take(3)
    allowance.take(2)

    with pytest.raises(ValueError, match="more than 5"):
        allowance.take(1)
