from tests.sdks.catalogue import Client
from tests.sdks.run import Claim, Result
from tests.sdks.table import table

CLIENT = Client("a", "A", ("a",), "a")


def row_of(result: Result) -> str:
    return table([result]).splitlines()[-1]


def test_a_client_that_does_everything_has_all_its_claims_named() -> None:
    result = Result(CLIENT, "a 1.0", (Claim("chat", None), Claim("tools", None)))

    assert row_of(result) == "| A | a 1.0 | chat; tools | all 2 |"
    assert result.failures == []


def test_what_did_not_hold_is_named_in_the_table_and_told_with_its_reason() -> None:
    result = Result(CLIENT, "a 1.0", (Claim("chat", None), Claim("tools", "no call came")))

    assert row_of(result) == "| A | a 1.0 | chat; tools | 1 of 2; not: tools |"
    assert result.failures == ["tools: no call came"]


def test_a_scenario_that_broke_off_is_no_success() -> None:
    result = Result(CLIENT, "a 1.0", (Claim("chat", None),), broke="the scenario ended with 1")

    assert row_of(result) == "| A | a 1.0 | chat | 1 of 1; not: what was left when it broke off |"
    assert result.failures == ["the scenario ended with 1"]
