import json
from pathlib import Path

import pytest

from server.terminal.client import ChatError
from server.terminal.talk import Talk


def talked() -> Talk:
    talk = Talk("m", "be brief")
    talk.ask("hello")
    talk.answered("hi")
    return talk


def test_a_question_is_asked_with_everything_that_was_said() -> None:
    talk = talked()
    talk.set("temperature", "0.5")
    talk.ask("and?")

    assert talk.body() == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "hi"},
            {"role": "user", "content": "and?"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
    }


def test_without_a_system_text_there_is_no_system_message() -> None:
    talk = Talk("m")
    talk.ask("hello")

    assert [message["role"] for message in talk.body()["messages"]] == ["user"]


def test_a_guess_is_a_prediction() -> None:
    assert talked().body(guess="hi")["prediction"] == {"type": "content", "content": "hi"}
    assert "prediction" not in talked().body()


def test_a_question_without_an_answer_is_no_part_of_the_conversation() -> None:
    talk = talked()

    talk.ask("and?")
    talk.answered("")

    assert talk.messages == talked().messages


def test_the_last_turn_can_be_taken_back() -> None:
    talk = talked()

    assert talk.take_back() == ("hello", "hi")
    assert talk.messages == []
    assert talk.take_back() is None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("temperature", "1", 1.0), ("max_tokens", "7", 7), ("stop", "7", "7"), ("seed", "-1", -1)],
)
def test_a_setting_has_its_kind(name: str, text: str, value: object) -> None:
    talk = Talk("m")

    talk.set(name, text)

    assert talk.settings == {name: value}
    assert talk.setting(name) == str(value)


def test_a_setting_can_be_taken_back() -> None:
    talk = Talk("m", settings={"seed": 5})

    talk.set("seed", "none")
    talk.set("seed", "none")

    assert talk.settings == {}
    assert talk.setting("seed") == "none"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("warmth", "1", "no setting 'warmth'"),
        ("seed", "1.5", "seed must be an integer from "),
        ("temperature", "hot", "temperature must be a number from 0 to 2, or none"),
    ],
)
def test_what_is_no_setting_is_refused(name: str, text: str, why: str) -> None:
    with pytest.raises(ChatError, match=why):
        Talk("m").set(name, text)


def test_what_is_no_setting_can_not_be_shown() -> None:
    with pytest.raises(ChatError, match="no setting"):
        Talk("m").setting("warmth")


def test_a_conversation_is_saved_and_loaded(tmp_path: Path) -> None:
    talk = talked()
    talk.set("seed", "5")
    talk.answered("日本")
    talk.save(tmp_path / "talk.json")
    talk.messages.pop()
    talk.save(tmp_path / "talk.json")
    other = Talk("other")

    other.load(tmp_path / "talk.json")

    assert other == Talk("other", "be brief", {"seed": 5}, talk.messages)


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "[]",
        "{}",
        json.dumps({"system": "", "settings": {}, "messages": [5]}),
        json.dumps({"system": "", "settings": 5, "messages": []}),
        json.dumps({"system": "", "settings": {}, "messages": [{"role": "user", "content": "a"}]}),
        json.dumps({"system": "", "settings": {}, "messages": [{"role": "x", "content": ""}] * 2}),
    ],
)
def test_a_file_that_holds_no_conversation_changes_nothing(kept: str, tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_text(kept)
    talk = talked()

    with pytest.raises(ChatError, match="holds no conversation"):
        talk.load(tmp_path / "talk.json")

    assert talk == talked()


def test_files_that_can_not_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(ChatError, match=r"missing.json can't be read: No such file"):
        talked().load(tmp_path / "missing.json")
    with pytest.raises(ChatError, match=r"can't be written: Is a directory"):
        talked().save(tmp_path)
