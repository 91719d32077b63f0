import pytest
from hypothesis import example, given, strategies as st

from engine.model.control import CUT, STRETCH, ControlTokens, clean

SPECIAL = ["<<s<<", "<|end|>", "<|", "s"]
CONTROL = ControlTokens(SPECIAL, ["<think>"])


def cut(text: str, role: str = "user") -> str:
    return str(CONTROL.cut_message({"role": role, "content": text})["content"])


@given(st.text(alphabet="<|s>end", max_size=30))
@example("<<s<<s<<")
def test_no_control_token_is_left_whole_and_nothing_is_lost(text: str) -> None:
    parts = cut(text).split(CUT)

    assert "".join(parts) == text
    assert not any(token in part for part in parts for token in SPECIAL if len(token) > 1)


@pytest.mark.parametrize("offset", range(-8, 2))
def test_a_spelling_that_lies_over_two_stretches_is_cut_once(offset: int) -> None:
    text = "x" * (STRETCH + offset) + "<|end|>" + "x" * STRETCH

    assert cut(text) == text.replace("<|", f"<{CUT}|")


def test_text_that_spells_none_is_left_alone() -> None:
    assert cut("a < b > c, s") == "a < b > c, s"


def test_tokens_that_are_not_special_are_cut_but_in_the_assistants_messages() -> None:
    assert cut("<think>") == f"<{CUT}think>"
    assert cut("<think>", role="assistant") == "<think>"
    assert CONTROL.cut_variables({"note": "<think>"}) == {"note": f"<{CUT}think>"}


def test_values_that_are_not_text_stay_what_they_are() -> None:
    call = {"<|": [1, 2.5, None, True, ("<|",)]}

    message = CONTROL.cut_message({"role": "assistant", "tool_calls": call})

    assert message["tool_calls"] == {f"<{CUT}|": [1, 2.5, None, True, [f"<{CUT}|"]]}


def test_a_cut_can_not_be_forged() -> None:
    assert cut(f"a{CUT}b") == "a\ufffdb"
    assert clean("\udfffx\ud83d\ude00") == "\ufffdx\ufffd\ufffd"
    assert clean("日本 👋🏽") == "日本 👋🏽"
