"""Structural tags, with the library that enforces them over a small vocabulary of bytes and two special marks."""

from collections.abc import Mapping

import pytest

from engine.errors import GrammarRefused
from engine.grammar.guidance import guidance_for
from engine.request import Grammar
from engine.text import Vocabulary
from server.asked import Asked
from server.errors import ApiError
from server.structure import grammar_of
from server.wire.sampling import StructureFields
from tests.fakes import FakeTokenizer

SPECIAL = ("<call>", "</call>")
END = 256
IDS = {mark: END + 1 + number for number, mark in enumerate(SPECIAL)}


class BytesAndMarks(FakeTokenizer):
    """One token a byte, and the marks."""

    vocabulary = Vocabulary(
        [*(bytes([byte]) for byte in range(256)), b"<end>", *(mark.encode() for mark in SPECIAL)],
        frozenset({END, *IDS.values()}),
    )
    eos_ids = frozenset({END})


LIBRARY = guidance_for(BytesAndMarks())
PLACE = {"type": "object", "properties": {"at": {"enum": ["here", "there"]}}, "required": ["at"]}
HERE = '{"at":"here"}'
GO = {"begin": "<f=go>", "schema": PLACE, "end": "</f>"}
WAIT = {"begin": "<f=wait>", "schema": '{"type":"integer"}', "end": "</f>"}
OLD = {"type": "structural_tag", "structures": [GO, WAIT], "triggers": ["<f="]}
GO_TAG = {"type": "tag", "begin": "<f=go>", "content": {"type": "json_schema", "json_schema": PLACE}, "end": "</f>"}
WAIT_TAG = {"type": "tag", "begin": "<f=wait>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": "</f>"}


def asked(fields: Mapping[str, object]) -> Asked:
    found = grammar_of(StructureFields.model_validate(fields), IDS)
    assert found is not None
    return found


def by_format(format: object) -> Asked:
    return asked({"response_format": {"type": "structural_tag", "format": format}})


def tokens(text: str) -> list[int]:
    """The text's bytes, marks as one token."""
    ids: list[int] = []
    while text:
        mark = next((mark for mark in SPECIAL if text.startswith(mark)), "")
        ids += [IDS[mark]] if mark else list(text[0].encode())
        text = text[len(mark) or 1 :]
    return ids


def matches(grammar: Grammar, text: str | list[int]) -> bool:
    """Whether an answer may be this text as a whole."""
    matcher = LIBRARY.compile(grammar).start()
    ids = tokens(text) if isinstance(text, str) else text
    return all(matcher.take(id) for id in ids) and (matcher.is_over or matcher.take(END))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": OLD}, "response_format"),
        ({"structured_outputs": {"structural_tag": OLD}}, "structured_outputs.structural_tag"),
        (
            {
                "structured_outputs": {
                    "structural_tag": '{"triggers": ["<f="], "structures": ['
                    '{"begin": "<f=go>", "schema": {"enum": [{"at": "here"}]}, "end": "</f>"}, '
                    '{"begin": "<f=wait>", "schema": {"type": "integer"}, "end": "</f>"}]}'
                }
            },
            "structured_outputs.structural_tag",
        ),
        (
            {
                "response_format": {
                    "type": "structural_tag",
                    "format": {"type": "triggered_tags", "triggers": ["<f="], "tags": [GO_TAG, WAIT_TAG]},
                }
            },
            "response_format",
        ),
    ],
)
def test_text_is_free_until_a_trigger_and_then_a_tag_is_written_and_so_on(
    fields: Mapping[str, object], param: str
) -> None:
    found = asked(fields)

    assert found.param == param
    for text in (
        "",
        "No.",
        "a < b, <f and <g=go>",
        f"I <f=go>{HERE}</f> and <f=wait>5</f><f=wait>6</f>",
        "<f=wait>5</f>\n",
    ):
        assert matches(found.grammar, text), text
    for text in ("<f=run>", '<f=go>{"at":"where"}</f>', "<f=go>5</f>", f"<f=go>{HERE}", "so <f=wait>x</f>", "<f="):
        assert not matches(found.grammar, text), text


def test_each_trigger_has_its_own_tags_and_the_shorter_is_met_first() -> None:
    structures = [GO, {"begin": "[[n]]", "schema": None, "end": ""}]
    grammar = asked({"response_format": OLD | {"structures": structures, "triggers": ["<f=g", "[[", "<f="]}}).grammar

    assert matches(grammar, f"a <f=go>{HERE}</f> b [[n]]true")
    assert not matches(grammar, "[[o]]1")
    assert not matches(grammar, "<f=wait>5</f>")


def test_a_trigger_that_is_a_special_token_is_that_token_and_shown() -> None:
    structures = [{"begin": "<call>go:", "schema": PLACE, "end": "</call>"}]
    found = asked({"response_format": OLD | {"structures": structures, "triggers": ["<call>"]}})

    assert found.shown == frozenset(IDS.values())
    assert matches(found.grammar, f"I <call>go:{HERE}</call>.")
    assert not matches(found.grammar, "I <call>run")
    assert matches(found.grammar, list(b"<call>run")), "that is text, which is no call"
    assert asked({"response_format": OLD}).shown == frozenset()


@pytest.mark.parametrize(
    ("format", "matching", "others"),
    [
        ({"type": "const_string", "value": 'a"b'}, ['a"b'], ["ab", ""]),
        ({"type": "json_schema", "json_schema": PLACE}, [HERE], ["{}"]),
        ({"type": "json_schema", "json_schema": True}, ["1", "{}"], ["x"]),
        ({"type": "regex", "pattern": "a/+"}, ["a/", "a//"], ["a"]),
        ({"type": "grammar", "grammar": 'root ::= "a" root | "b"'}, ["b", "aab"], ["a"]),
        ({"type": "any_text"}, ["", "a\nb"], []),
        (
            {"type": "sequence", "elements": [{"type": "const_string", "value": "x"}, GO_TAG, {"type": "any_text"}]},
            [f"x<f=go>{HERE}</f>", f"x<f=go>{HERE}</f> and"],
            [f"<f=go>{HERE}</f>", "x"],
        ),
        (
            {"type": "or", "elements": [WAIT_TAG, {"type": "const_string", "value": "no"}]},
            ["no", "<f=wait>5</f>"],
            [""],
        ),
        ({"type": "optional", "content": WAIT_TAG}, ["", "<f=wait>5</f>"], ["<f=wait>5</f>" * 2]),
        ({"type": "star", "content": WAIT_TAG}, ["", "<f=wait>5</f>" * 2], ["x"]),
        ({"type": "plus", "content": WAIT_TAG}, ["<f=wait>5</f>" * 2], [""]),
        (
            {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"},
            ["<t></t>", "<t>a<b</t>"],
            ["<t>a", "<t></t>x"],
        ),
        (
            {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</call>"},
            ["<t>a<b</call>"],
            ["<t>a"],
        ),
        (
            {"type": "triggered_tags", "triggers": ["<f="], "tags": [WAIT_TAG], "at_least_one": True},
            ["<f=wait>5</f>", "<f=wait>5</f> and <f=wait>6</f>."],
            ["", "No.", "so <f=wait>5</f>", "<f=wait>5</f> <f=go>"],
        ),
        (
            {"type": "triggered_tags", "triggers": ["<f="], "tags": [WAIT_TAG], "stop_after_first": True},
            ["No.", "so <f=wait>5</f>"],
            ["so <f=wait>5</f>.", "<f=go>"],
        ),
        (
            {
                **{"type": "triggered_tags", "triggers": ["<f="], "tags": [WAIT_TAG, GO_TAG]},
                **{"at_least_one": True, "stop_after_first": True},
            },
            ["<f=wait>5</f>", f"<f=go>{HERE}</f>"],
            ["so <f=wait>5</f>", "<f=wait>5</f>."],
        ),
        (
            {"type": "tags_with_separator", "tags": [WAIT_TAG], "separator": ","},
            ["", "<f=wait>5</f>,<f=wait>6</f>"],
            ["<f=wait>5</f>,", "<f=wait>5</f><f=wait>6</f>"],
        ),
        (
            {"type": "tags_with_separator", "tags": [WAIT_TAG], "separator": "", "at_least_one": True},
            ["<f=wait>5</f><f=wait>6</f>"],
            [""],
        ),
        (
            {"type": "tags_with_separator", "tags": [WAIT_TAG], "separator": ",", "stop_after_first": True},
            ["", "<f=wait>5</f>"],
            ["<f=wait>5</f>,<f=wait>6</f>"],
        ),
    ],
)
def test_formats_say_more(format: object, matching: list[str], others: list[str]) -> None:
    grammar = by_format(format).grammar

    for text in matching:
        assert matches(grammar, text), text
    for text in others:
        assert not matches(grammar, text), text


AT = "response_format.format"


@pytest.mark.parametrize(
    ("format", "param"),
    [
        ({}, AT),
        ({"type": "token", "token": 5}, f"{AT}.type"),
        ({"type": "const_string", "value": ""}, AT),
        ({"type": "json_schema", "json_schema": False}, AT),
        ({"type": "json_schema", "json_schema": {}, "style": "qwen_xml"}, f"{AT}.style"),
        ({"type": "regex"}, AT),
        ({"type": "grammar", "grammar": 5}, AT),
        ({"type": "any_text", "excludes": ["x"]}, f"{AT}.excludes"),
        ({"type": "sequence", "elements": []}, AT),
        ({"type": "sequence", "elements": [{"type": "any_text"}, GO_TAG]}, f"{AT}.elements[0]"),
        ({"type": "or", "elements": ["x"]}, f"{AT}.elements[0]"),
        ({"type": "or"}, AT),
        ({"type": "star"}, AT),
        ({"type": "star", "content": {"type": "any_text"}}, f"{AT}.content"),
        ({"type": "tag", "begin": "x", "end": "y"}, AT),
        ({"type": "tag", "begin": "", "content": GO_TAG, "end": "y"}, AT),
        (GO_TAG | {"end": ["a", "b"]}, f"{AT}.end"),
        (GO_TAG | {"content": {"type": "any_text"}, "end": ""}, f"{AT}.content"),
        (GO_TAG | {"content": {"type": "any_text"}, "end": "x<call>"}, f"{AT}.content"),
        (GO_TAG | {"content": {"type": "any_text", "excludes": ["a"]}}, f"{AT}.content.excludes"),
        ({"type": "triggered_tags", "triggers": [], "tags": [GO_TAG]}, AT),
        ({"type": "triggered_tags", "triggers": [5], "tags": [GO_TAG]}, AT),
        ({"type": "triggered_tags", "triggers": ["["], "tags": [GO_TAG]}, f"{AT}.tags[0].begin"),
        ({"type": "triggered_tags", "triggers": ["<"], "tags": [GO_TAG, "x"]}, f"{AT}.tags[1]"),
        ({"type": "triggered_tags", "triggers": ["<"], "tags": [GO_TAG], "at_least_one": 1}, f"{AT}.at_least_one"),
        ({"type": "triggered_tags", "triggers": ["<"], "tags": [GO_TAG], "excludes": ["a"]}, f"{AT}.excludes"),
        (
            {"type": "triggered_tags", "triggers": ["x<call>"], "tags": [GO_TAG | {"begin": "x<call>"}]},
            f"{AT}.triggers",
        ),
        (
            {"type": "plus", "content": {"type": "triggered_tags", "triggers": ["<"], "tags": [GO_TAG]}},
            f"{AT}.content",
        ),
        ({"type": "tags_with_separator", "tags": [GO_TAG]}, AT),
    ],
)
def test_what_a_format_can_t_say_is_refused_at_its_place(format: object, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        by_format(format)

    assert refused.value.status == 400
    assert refused.value.body["param"] == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {"response_format": OLD | {"structures": [GO, GO | {"schema": {"type": "objekt"}}]}},
            "response_format.structures[1].schema",
        ),
        (
            {"structured_outputs": {"structural_tag": OLD | {"structures": [GO | {"schema": '{"not": {}}'}]}}},
            "structured_outputs.structural_tag.structures[0].schema",
        ),
        *(
            ({"response_format": {"type": "structural_tag", "format": format}}, f"response_format.format{within}")
            for format, within in [
                ({"type": "json_schema", "json_schema": {"type": "objekt"}}, ".json_schema"),
                ({"type": "regex", "pattern": "("}, ".pattern"),
                ({"type": "grammar", "grammar": "start: thing"}, ".grammar"),
                (
                    {
                        "type": "triggered_tags",
                        "triggers": ["<f="],
                        "tags": [GO_TAG, GO_TAG | {"content": {"type": "regex", "pattern": "("}}],
                    },
                    ".tags[1].content.pattern",
                ),
            ]
        ),
    ],
)
def test_what_the_library_refuses_of_a_tag_has_its_place(fields: Mapping[str, object], param: str) -> None:
    found = asked(fields)

    with pytest.raises(GrammarRefused) as refused:
        LIBRARY.compile(found.grammar)

    assert found.places[refused.value.part] == param


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("{", "structured_outputs.structural_tag"),
        ("[]", "structured_outputs.structural_tag"),
        ("{}", "structured_outputs.structural_tag"),
        ('{"structures": [], "triggers": ["a"]}', "structured_outputs.structural_tag.structures"),
        ('{"structures": [{"begin": "a"}], "triggers": ["a"]}', "structured_outputs.structural_tag.structures[0].end"),
        (OLD | {"triggers": ["<g"]}, "structured_outputs.structural_tag.structures[0].begin"),
        (
            OLD | {"structures": [GO | {"schema": "{"}]},
            "structured_outputs.structural_tag.structures[0].schema",
        ),
    ],
)
def test_what_structures_lack_is_refused_at_its_place(given: object, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        asked({"structured_outputs": {"structural_tag": given}})

    assert refused.value.body["param"] == param
