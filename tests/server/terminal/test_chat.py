"""The chat over a server whose answers are written down, with a person or a program in front."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from server.console import Console
from server.terminal.answers import Answers, Broken, Piece
from server.terminal.chat import Chat
from server.terminal.client import ChatError, Client, Refused
from server.terminal.counts import Counts
from server.terminal.screen import Screen
from server.terminal.talk import Talk

Json = dict[str, Any]
COUNTS = Counts(prompt=20, cached=16, made=5, accepted=2, rejected=1, first_seconds=0.5, seconds=1.0)
Answer = Sequence[str | BaseException]


class FakeAnswers(Answers):
    """Says what it is told to, one answer after the other; keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(Client("http://host"), clock=float, pause=lambda _seconds: None)
        self.left = list(answers)
        self.asked: list[Json] = []

    def models(self, *, waits: Callable[[], None]) -> list[str]:
        waits()
        return ["org/tiny", "gpt-4o"]

    def ask(self, body: Json) -> Iterator[Piece | Counts]:
        self.asked.append(json.loads(json.dumps(body)))
        for part in self.left.pop(0):
            if isinstance(part, BaseException):
                raise part
            yield Piece(part.removeprefix("~"), is_thought=part.startswith("~"))
        yield COUNTS


@dataclass
class Seen:
    """What came of a chat."""

    code: int
    out: str
    errors: str
    talk: Talk
    asked: list[Json]

    @property
    def questions(self) -> list[list[str]]:
        """The contents of the messages of each question."""
        return [[message["content"] for message in body["messages"]] for body in self.asked]


def chat(*lines: str | BaseException, answers: Sequence[Answer] = (), is_terminal: bool = True) -> Seen:
    source, out, errors, talk = list(lines), io.StringIO(), io.StringIO(), Talk("org/tiny")
    fake = FakeAnswers(*answers)

    def read(_prompt: str) -> str:
        if not source:
            raise EOFError
        line = source.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    screen = Screen(out, is_terminal=is_terminal)
    code = Chat(fake, talk, screen=screen, console=Console(errors), read=read).run()
    return Seen(code, out.getvalue(), errors.getvalue(), talk, fake.asked)


def test_a_person_sees_the_answer_and_what_it_took() -> None:
    seen = chat("hello", answers=[["~hm", "Hi", "!"]])

    assert seen.out == (
        "\x1b[2mhm\x1b[0m\nHi!\n\x1b[2mprompt 20 tokens, 16 cached; answer 5 tokens, 8/s; "
        "accepted 2 of 3 predicted; first after 0.50 s\x1b[0m\n\n"
    )
    assert seen.code == 0


def test_a_program_sees_the_answers_alone() -> None:
    seen = chat("hello", "", "and?", answers=[["~hm", "Hi", "!"], ["So."]], is_terminal=False)

    assert seen.out == "Hi!\nSo.\n"
    assert (seen.code, seen.errors) == (0, "")


def test_each_question_brings_what_was_said_along() -> None:
    seen = chat("hello", "and?", answers=[["Hi"], ["So"]])

    assert seen.questions == [["hello"], ["hello", "Hi", "and?"]]


def test_an_interrupt_stops_the_answer_and_keeps_what_came() -> None:
    seen = chat("hello", "and?", answers=[["Hi", KeyboardInterrupt()], ["So"]])

    assert seen.questions[1] == ["hello", "Hi", "and?"]
    assert "Hi\n\x1b[2mstopped" in seen.out
    assert seen.code == 0


def test_an_interrupt_before_the_first_text_takes_the_question_back() -> None:
    seen = chat("hello", "and?", answers=[[KeyboardInterrupt()], ["So"]])

    assert seen.questions[1] == ["and?"]


def test_an_interrupt_at_the_prompt_gives_the_line_up() -> None:
    seen = chat(KeyboardInterrupt(), "hello", answers=[["Hi"]])

    assert seen.out.startswith("\nHi")


@pytest.mark.parametrize("lines", [["hello"], [KeyboardInterrupt()]])
def test_an_interrupt_ends_a_program(lines: list[str | BaseException]) -> None:
    with pytest.raises(KeyboardInterrupt):
        chat(*lines, answers=[["Hi", KeyboardInterrupt()]], is_terminal=False)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_failure_is_told_and_the_conversation_goes_on(is_terminal: bool) -> None:
    failing: list[Answer] = [["Hi", Broken("it was lost")], [Refused("too hot", status=400)], ["So"]]

    seen = chat("hello", "hot?", "and?", answers=failing, is_terminal=is_terminal)

    assert seen.errors == "tidemark: it was lost\ntidemark: too hot\n"
    assert seen.questions[-1] == ["hello", "Hi", "and?"]
    assert seen.out.startswith("Hi\nSo\n")
    assert seen.code == (0 if is_terminal else 1)


def test_a_text_may_begin_with_a_slash() -> None:
    assert chat("//etc/hosts?", answers=[["A file."]]).questions == [["/etc/hosts?"]]


def test_retry_asks_again_and_takes_the_earlier_answer_for_the_guess() -> None:
    seen = chat("a", "b", "/retry", "c", answers=[["A"], ["B"], ["B2"], ["C"]])

    assert seen.questions[2] == ["a", "A", "b"]
    assert seen.asked[2]["prediction"] == {"type": "content", "content": "B"}
    assert seen.questions[3] == ["a", "A", "b", "B2", "c"]


def test_retry_asks_a_question_again_that_was_not_answered() -> None:
    seen = chat("a", "b", "/retry", answers=[["A"], [ChatError("lost")], ["B"]])

    assert seen.questions[2] == ["a", "A", "b"]
    assert "prediction" not in seen.asked[2]


def test_retry_needs_a_question() -> None:
    assert chat("/retry").errors == "tidemark: there is no question yet\n"
    assert chat("a", "/new", "/retry", answers=[[ChatError("lost")]]).errors.endswith("there is no question yet\n")


def test_a_new_conversation_keeps_the_system_text_and_the_settings() -> None:
    seen = chat("/system be brief", "/set seed 5", "a", "/new", "b", answers=[["A"], ["B"]])

    assert seen.questions == [["be brief", "a"], ["be brief", "b"]]
    assert seen.asked[1]["seed"] == 5


def test_the_system_text_is_shown_and_taken_away() -> None:
    seen = chat("/system", "/system be  brief", "/system", "/system none", "a", answers=[["A"]])

    assert seen.out.startswith("none\nbe  brief\nA\n")
    assert seen.questions == [["a"]]


def test_settings_are_shown_and_set() -> None:
    seen = chat("/set temperature 0.2", "/set temperature", "/set seed none", "/set")

    assert seen.out.startswith("temperature 0.2\ntemperature 0.2\ntop_p none\n")
    assert seen.talk.settings == {"temperature": 0.2}


def test_the_model_is_chosen_among_those_that_are_served() -> None:
    seen = chat("/model", "/model gpt-4o", "a", "/model nope", answers=[["A"]])

    assert seen.out.startswith("org/tiny (this one)\ngpt-4o\nA\n")
    assert seen.asked[0]["model"] == "gpt-4o"
    assert seen.errors == "tidemark: no such model; this server has org/tiny, gpt-4o\n"


def test_a_conversation_is_saved_and_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "my talk.json"

    chat("a", f"/save {file}", answers=[["A"]])
    seen = chat("x", f"/load {file}", "b", "/save", "/load", answers=[["X"], ["B"]])

    assert seen.questions[1] == ["a", "A", "b"]
    assert seen.errors == "tidemark: which file?\n" * 2


def test_the_counts_of_all_answers_are_shown() -> None:
    seen = chat("a", "b", "/stats", answers=[["A"], ["B"]], is_terminal=False)

    assert seen.out.splitlines()[-1] == (
        "2 answers in 2.0 s; prompts 40 tokens, 32 cached; answers 10 tokens, 4 of them predicted"
    )


def test_help_lists_every_command() -> None:
    out = chat("/help").out

    for name in ("help", "new", "system", "set", "model", "retry", "save", "load", "stats", "quit"):
        assert f"\n/{name} " in f"\n{out}"


@pytest.mark.parametrize("word", ["/nope", "/", "/Help", "/help2"])
def test_what_is_no_command_is_not_asked(word: str) -> None:
    seen = chat(word)

    assert seen.asked == []
    assert "/help lists what there is" in seen.errors


def test_quitting_leaves_the_rest_unread() -> None:
    seen = chat("/quit", "hello")

    assert (seen.asked, seen.code, seen.out) == ([], 0, "")
