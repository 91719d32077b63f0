import math

import pytest

from server.terminal.settings import SETTINGS, read_setting
from server.wire.chat import ChatRequest

FIELDS = ChatRequest.model_json_schema()["properties"]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_has_the_range_that_the_server_takes(name: str) -> None:
    number, (field, _) = SETTINGS[name], FIELDS[name]["anyOf"]

    if number is None:
        assert field.get("type", "string") == "string"
        return
    assert field["type"] == ("integer" if number.make is int else "number")
    assert number.low == field.get("minimum", field.get("exclusiveMinimum"))
    assert number.is_above == ("exclusiveMinimum" in field)
    assert number.high == field.get("maximum", field.get("exclusiveMaximum", math.inf + 1) - 1)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0", 0.0),
        ("temperature", "2", 2.0),
        ("top_p", "1e-9", 1e-9),
        ("top_k", "-1", -1),
        ("seed", str(2**64 - 1), 2**64 - 1),
        ("stop", "7", "7"),
        ("seed", "none", None),
        ("reasoning_effort", "none", None),
    ],
)
def test_a_value_of_the_range_is_read(name: str, text: str, value: object) -> None:
    assert read_setting(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("seed", "x", f"an integer from {-(2**63)} to {2**64 - 1}"),
        ("seed", "1e3", "an integer from "),
        ("seed", str(2**64), "an integer from "),
        ("seed", "9" * 5000, "an integer from "),
        ("max_tokens", "1.5", "an integer of at least 1"),
        ("max_tokens", "0", "an integer of at least 1"),
        ("temperature", "9", "a number from 0 to 2"),
        ("temperature", "nan", "a number from 0 to 2"),
        ("temperature", "inf", "a number from 0 to 2"),
        ("temperature", "", "a number from 0 to 2"),
        ("top_p", "0", "a number above 0, up to 1"),
    ],
)
def test_what_is_no_value_is_told_with_what_is(name: str, text: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=f"^must be {allowed}.*, or none$"):
        read_setting(name, text)
