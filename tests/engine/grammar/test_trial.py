"""Grammars that crash the library, or run on: each ends the process that tries it, and nothing else."""

import json
import threading
from multiprocessing import Pipe
from pathlib import Path

import pytest

from engine.errors import GrammarRefused
from engine.grammar import trial
from engine.grammar.grammars import end_ids_of
from engine.grammar.guidance import guidance_for
from engine.grammar.trial import Tried, tried_for
from engine.grammar.trying import answer
from engine.request import Grammar, Syntax
from tests.digest import tokens_in
from tests.fakes import FakeTokenizer

PATIENCE = 60.0  # far beyond what anything here takes
TOKENIZER = FakeTokenizer()
LIBRARY = guidance_for(TOKENIZER)


def a_tried(*, seconds: float = PATIENCE) -> Tried:
    return Tried(LIBRARY, (TOKENIZER.vocabulary, end_ids_of(TOKENIZER)), seconds=seconds)


def schema(value: object) -> Grammar:
    return Grammar(Syntax.JSON_SCHEMA, json.dumps(value))


def references(count: int) -> Grammar:
    """A schema that refers to one that refers to one, and so on."""
    links: list[dict[str, object]] = [{"$ref": f"#/$defs/d{number + 1}"} for number in range(count)]
    named = {f"d{number}": link for number, link in enumerate([*links, {"type": "string"}])}
    return schema({"$ref": "#/$defs/d0", "$defs": named})


def terminals(count: int) -> Grammar:
    """The same in Lark."""
    lines = ["start: T0", *(f"T{number}: T{number + 1}" for number in range(count)), f"T{count}: /a/"]
    return Grammar(Syntax.LARK, "\n".join(lines))


ENDLESS = schema({"allOf": [{"type": "string", "pattern": f"a{number}q"} for number in range(200)]})
PATTERN = schema({"type": "string", "pattern": "^ab$"})


def test_a_grammar_that_stood_its_trial_is_the_librarys() -> None:
    matcher = a_tried().compile(PATTERN).start()

    assert all(matcher.take(byte) for byte in b'"ab"')
    assert tokens_in(matcher.mask()) == sorted(end_ids_of(TOKENIZER))


@pytest.mark.parametrize("deep", [references(5_000), terminals(10_000)], ids=["schema", "lark"])
def test_a_grammar_that_crashes_the_library_is_refused_and_the_next_is_tried_again(deep: Grammar) -> None:
    tried = a_tried()
    tried.compile(PATTERN)

    with pytest.raises(GrammarRefused, match="too much memory, or goes too deep"):
        tried.compile(deep)

    assert tried.compile(PATTERN)


def test_a_grammar_that_takes_too_long_is_ended_and_keeps_nobody_waiting() -> None:
    with pytest.raises(GrammarRefused, match=r"not ready within 0\.5 seconds"):
        a_tried(seconds=0.5).compile(ENDLESS)


def test_what_is_wrong_is_told_with_the_part_that_is() -> None:
    wrong = Grammar(Syntax.LARK, "start: @piece", parts=(("piece", schema({"type": "objekt"})),))

    with pytest.raises(GrammarRefused, match="objekt") as refusal:
        a_tried().compile(wrong)

    assert refusal.value.part == "piece"
    assert refusal.value.syntax == "JSON schema"


def test_what_is_plain_is_not_tried_and_needs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TRYING", "raise SystemExit")
    tried = a_tried()

    assert tried.compile(schema({"type": "object", "properties": {"a": {"type": "integer"}}}))
    with pytest.raises(GrammarRefused, match="no process could be started"):
        tried.compile(PATTERN)


def test_one_process_tries_one_grammar_after_the_other_until_it_ends() -> None:
    tried = a_tried()
    tried.compile(PATTERN)
    [first] = tried._idle

    tried.compile(schema({"type": "string", "pattern": "^c$"}))
    assert tried._idle == [first]

    first.end()
    tried.compile(schema({"type": "string", "pattern": "^d$"}))
    assert tried._idle != [first]


def test_what_lies_where_the_server_was_started_is_not_taken_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(tmp_path)

    assert a_tried().compile(PATTERN)


def test_text_that_is_no_json_is_refused_by_the_library() -> None:
    with pytest.raises(GrammarRefused):
        tried_for(TOKENIZER, seconds=PATIENCE).compile(Grammar(Syntax.JSON_SCHEMA, "{"))


def test_the_process_answers_each_grammar_until_its_connection_ends() -> None:
    ours, theirs = Pipe()
    limits: list[float] = []
    thread = threading.Thread(target=answer, args=(theirs, limits.append))
    thread.start()
    with ours:
        ours.send((TOKENIZER.vocabulary, end_ids_of(TOKENIZER)))
        answers = [ours.recv()]
        for grammar in (PATTERN, schema({"type": "objekt", "$ref": "#"})):
            ours.send((grammar, 3.0))
            answers.append(ours.recv())
    thread.join()

    assert answers[:2] == [None, None]
    assert answers[2][0] == "JSON schema"
    assert limits == [3.0, 3.0]


def test_a_process_that_tries_grammars_is_not_told_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SERVER__API_KEYS", "secret")
    tried = a_tried()
    tried.compile(PATTERN)

    [process] = tried._idle
    told = Path(f"/proc/{process._process.pid}/environ").read_bytes()
    assert b"PATH=" in told
    assert b"secret" not in told
