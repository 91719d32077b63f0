"""Grammars of answers, with the library that enforces them over a small vocabulary of bytes and two special marks."""

import re

import pytest

from config.settings import ServerSettings
from engine.errors import GrammarRefused
from engine.grammar.guidance import guidance_for
from engine.request import Grammar, Syntax
from engine.text import Vocabulary
from server.asked import Asked
from server.calling import Shape, shape_of
from server.dialect import Dialect, dialect_of
from server.reading.answer import Thinking
from server.reading.calls import write_calls
from server.reading.formats import FORMATS
from server.reading.pieces import CallArguments, CallBegun, Reasoning, Text, joined
from server.structure import grammar_of
from server.tools import Offer
from server.wire.chat import FunctionBody
from server.wire.sampling import StructureFields
from tests.fakes import FakeTokenizer

SPECIAL = ("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]")
END = 256
VOCABULARY = Vocabulary(
    [*(bytes([byte]) for byte in range(256)), b"<end>", *(mark.encode() for mark in SPECIAL)],
    frozenset(range(END, END + 1 + len(SPECIAL))),
)
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"at": {"$ref": "#/$defs/place"}},
    "required": ["at"],
    "additionalProperties": False,
    "$defs": {"place": {"enum": ["here", "there"]}},
}
LOOK = FunctionBody(name="look", parameters=SCHEMA)
STRICT = FunctionBody(name="look", parameters=SCHEMA, strict=True)
GO = FunctionBody(name="go")
HERE, THERE = '{"at":"here"}', '{"at":"there"}'
ANY = '{"a":1}'
TAGS = Thinking("<think>", "</think>")


class BytesAndMarks(FakeTokenizer):
    """One token a byte, and the marks."""

    vocabulary = VOCABULARY
    eos_ids = frozenset({END})


LIBRARY = guidance_for(BytesAndMarks())


def dialect(format: str, template: str = "") -> Dialect:
    return dialect_of(template, ServerSettings.model_validate({"tool_format": format}), VOCABULARY)


def tokens(text: str) -> list[int]:
    """The text's bytes, marks that are special as one token."""
    ids: list[int] = []
    while text:
        mark = next((mark for mark in SPECIAL if text.startswith(mark)), "")
        ids += [END + 1 + SPECIAL.index(mark)] if mark else list(text[0].encode())
        text = text[len(mark) or 1 :]
    return ids


def matches(shape: Shape, text: str | list[int]) -> bool:
    """Whether an answer may be this text as a whole."""
    assert shape.asked is not None
    matcher = LIBRARY.compile(shape.asked.grammar).start()
    ids = tokens(text) if isinstance(text, str) else text
    return all(matcher.take(id) for id in ids) and (matcher.is_over or matcher.take(END))


def required(*functions: FunctionBody, format: str = "hermes", template: str = "", **fields: object) -> Shape:
    offer = Offer(functions, functions, required=True, single=bool(fields.get("single")))
    thinking = fields.get("thinking")
    assert thinking is None or isinstance(thinking, Thinking)
    return shape_of(None, offer, thinking, dialect(format, template))


def free(*functions: FunctionBody, format: str = "hermes", single: bool = False) -> Shape:
    return shape_of(None, Offer(functions, functions, single=single), None, dialect(format))


@pytest.mark.parametrize(
    ("format", "template"),
    [*((name, "") for name in FORMATS), ("mistral", "[ARGS]")],
)
def test_required_calls_are_spelled_in_the_models_format_and_read_again(format: str, template: str) -> None:
    shape = required(LOOK, GO, format=format, template=template)
    spelled = dialect(format, template).format
    assert spelled is not None

    several = [[("go", "{}"), ("look", THERE), ("go", "{}")]] if format != "harmony" else []
    for calls in ([("look", HERE)], *several):
        text = write_calls(calls, spelled)
        assert matches(shape, text)
        reader = shape.reader()
        pieces = joined([*reader.feed(text), *reader.finish()])
        assert [piece.name for piece in pieces if isinstance(piece, CallBegun)] == [name for name, _ in calls]
        assert [piece.text for piece in pieces if isinstance(piece, CallArguments)] == [text for _, text in calls]
        assert not any(isinstance(piece, Text) for piece in pieces)
    for wrong in ([("look", "{}")], [("look", '{"at":"where"}')], [("go", '{"a":1}')], [("other", "{}")]):
        assert not matches(shape, write_calls(wrong, spelled))
    assert not matches(shape, "No.")
    assert not matches(shape, "")


def test_one_call_where_there_may_be_no_more() -> None:
    shape = required(GO, single=True)

    assert matches(shape, write_calls([("go", "{}")], FORMATS["hermes"]))
    assert not matches(shape, write_calls([("go", "{}")] * 2, FORMATS["hermes"]))


def test_one_call_where_the_template_can_show_no_more() -> None:
    shape = required(GO, template="This model only supports single tool-calls at once!")

    assert not matches(shape, write_calls([("go", "{}")] * 2, FORMATS["hermes"]))


def test_a_call_may_be_thought_about() -> None:
    call = write_calls([("go", "{}")], FORMATS["hermes"])
    open_, begun = required(GO, thinking=TAGS), required(GO, thinking=Thinking("<think>", "</think>", begun=True))

    assert matches(open_, call)
    assert matches(open_, f"<think>hm <tool_call></think>\n\n{call}")
    assert not matches(open_, f"hm</think>{call}")
    assert matches(begun, f"hm</think>\n{call}")
    assert not matches(begun, call)


def test_tags_that_are_special_tokens_are_those() -> None:
    shape = required(GO, format="mistral", template="[THINK]", thinking=Thinking("[THINK]", "[/THINK]"))
    call = write_calls([("go", "{}")], FORMATS["mistral"])

    assert matches(shape, f"[THINK]hm[/THINK]{call}")
    assert not matches(shape, [*b"[THINK]hm[/THINK]", *tokens(call)])


def test_a_name_that_spells_a_mark_is_text() -> None:
    shape = required(FunctionBody(name="[ARGS]"), format="mistral")

    mark = tokens("[TOOL_CALLS]")
    assert matches(shape, [*mark, *b'[{"name": "[ARGS]", "arguments": {}}]'])
    assert not matches(shape, '[TOOL_CALLS][{"name": "[ARGS]", "arguments": {}}]')


def test_functions_without_a_type_take_objects() -> None:
    shape = required(FunctionBody(name="go", parameters={"properties": {"a": {"type": "integer"}}}))

    assert matches(shape, write_calls([("go", '{"a":1}')], FORMATS["hermes"]))
    assert not matches(shape, write_calls([("go", "[1]")], FORMATS["hermes"]))


def test_functions_that_take_objects_and_more_are_given_objects() -> None:
    shape = required(FunctionBody(name="go", parameters={"type": ["object", "null"]}))

    assert matches(shape, write_calls([("go", ANY)], FORMATS["hermes"]))
    assert not matches(shape, write_calls([("go", "null")], FORMATS["hermes"]))


def test_a_function_that_takes_no_objects_can_not_be_called() -> None:
    shape = required(FunctionBody(name="go", parameters={"type": "string"}))

    with pytest.raises(GrammarRefused, match="incompatible types"):
        matches(shape, "")


@pytest.mark.parametrize("asked", [None, Asked(Grammar(Syntax.REGEX, "a+"), "guided_regex")])
@pytest.mark.parametrize("format", FORMATS)
def test_a_schema_that_is_none_is_its_tool_s_fault(format: str, asked: Asked | None) -> None:
    wrong = FunctionBody(name="look", parameters={"type": "objekt"}, strict=True)
    places = {"look": "tools[5].function.parameters"}

    for required in (True, False):
        offer = Offer((GO, wrong), (GO, wrong), required=required, places=places)
        shape = shape_of(asked, offer, None, dialect(format))
        if shape.asked is None:
            continue  # such calls are never strict where they are free
        with pytest.raises(GrammarRefused) as refused:
            LIBRARY.compile(shape.asked.grammar)
        assert shape.asked.places[refused.value.part] == "tools[5].function.parameters"


def test_what_is_asked_for_beside_tools_keeps_its_own_places() -> None:
    tags = grammar_of(
        StructureFields.model_validate(
            {"response_format": {"type": "structural_tag", "format": {"type": "regex", "pattern": "("}}}
        ),
        {},
    )

    shape = shape_of(tags, Offer((GO,), (GO,)), TAGS, dialect("hermes"))

    assert shape.asked is not None
    with pytest.raises(GrammarRefused) as refused:
        LIBRARY.compile(shape.asked.grammar)
    assert shape.asked.places[refused.value.part] == "response_format.format.pattern"


@pytest.mark.parametrize("format", ["hermes", "mistral"])
def test_strict_functions_are_called_right_within_any_text(format: str) -> None:
    shape = free(STRICT, GO, format=format)

    def call(name: str, arguments: str) -> str:
        return write_calls([(name, arguments)], FORMATS[format])

    assert matches(shape, "any text, with < and [TOOL and }")
    assert matches(shape, f"so {call('look', HERE)} and {call('go', ANY)} then")
    assert not matches(shape, call("look", "{}"))
    assert not matches(shape, call("other", "{}"))


def test_a_strict_call_is_the_last_where_there_may_be_one() -> None:
    shape = free(STRICT, single=True)
    call = write_calls([("look", HERE)], FORMATS["hermes"])

    assert matches(shape, "none")
    assert matches(shape, f"so {call}")
    assert not matches(shape, f"so {call} x")


OPENED = {
    "llama": (
        '{"name": "look", "parameters": %s}; {"name": "go", "parameters": {"a":1}}',
        [
            '{"a":1}',
            '{"name": "Bob"}',
            '{"id": 5, "x": ["name"]}',
            '{"type":"object","name":"x"}',
            'a {"name": "look"}',
        ],
        [
            *(
                ' {"id":1,"name":"look"',
                '{"id":{"a":1},"name"',
                '{"arguments":',
                '{"n\\u0061me"',
                '{"name":"l\\u006fok"',
            ),
            *("<|python_tag|>x", 'so <|python_tag|>{"name": "x"'),
        ],
    ),
    "pythonic": (
        "[look(**%s), go(**{})]",
        ["[1] is", "[look]", "[f(x)]", "go(a=1)", "as [look(at='here')]"],
        ["[look(at=", " [ go(x", "<|python_start|>x", "so <|tool_call_start|>[f("],
    ),
}


@pytest.mark.parametrize("thinking", [None, TAGS])
@pytest.mark.parametrize("format", OPENED)
def test_strict_calls_that_are_the_whole_answer_or_behind_a_mark_are_right(
    format: str, thinking: Thinking | None
) -> None:
    shape = shape_of(None, Offer((STRICT, GO), (STRICT, GO)), thinking, dialect(format))
    calls, texts, wrong = OPENED[format]

    for before in (
        "",
        *(f"so {mark}" for mark in FORMATS[format].marks),
        *(["<think>hm</think>\n\n"] if thinking else []),
    ):
        assert matches(shape, before + calls % HERE), before
        assert not matches(shape, before + calls % "{}"), before
        assert not matches(shape, before + (calls % HERE).replace("go", "run")), before
    for text in ("", "No.", *texts):
        assert matches(shape, text), text
    for text in wrong:
        assert not matches(shape, text), text
        assert not matches(shape, f"{text}: 1"), text


@pytest.mark.parametrize("format", OPENED)
def test_what_a_free_answer_may_be_is_read_as_it_was_meant(format: str) -> None:
    shape = shape_of(None, Offer((STRICT, GO), (STRICT, GO)), None, dialect(format))
    calls, texts, _ = OPENED[format]

    for text in texts:
        reader = shape.reader()
        assert joined([*reader.feed(text), *reader.finish()]) == [Text(text)]
    reader = shape.reader()
    pieces = joined([*reader.feed(calls % HERE), *reader.finish()])
    assert [piece.name for piece in pieces if isinstance(piece, CallBegun)] == ["look", "go"]
    assert not any(isinstance(piece, Text) for piece in pieces)


def test_spaces_may_be_left_out_before_the_arguments() -> None:
    shape = free(STRICT, GO, format="llama")

    assert matches(shape, '\n{"name":"look","parameters":{"at":"here"}}')
    assert not matches(shape, '{"name":"look","parameters":{}}')


def test_one_strict_call_where_there_may_be_no_more() -> None:
    assert matches(free(STRICT, format="pythonic", single=True), f"[look(**{HERE})]")
    assert not matches(free(STRICT, format="pythonic", single=True), f"[look(**{HERE}), look(**{HERE})]")


def test_channels_that_are_no_special_tokens_stay_free() -> None:
    assert free(STRICT, format="harmony").asked is None


CHANNELS = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>")

CHANNEL_IDS = {mark: END + 1 + number for number, mark in enumerate(CHANNELS)}


class BytesAndChannels(FakeTokenizer):
    """One token a byte, and the marks of channels, two of which end an answer."""

    vocabulary = Vocabulary(
        [*(bytes([byte]) for byte in range(256)), b"<end>", *(mark.encode() for mark in CHANNELS)],
        frozenset({END, *CHANNEL_IDS.values()}),
    )
    eos_ids = frozenset({END, CHANNEL_IDS["<|call|>"], CHANNEL_IDS["<|return|>"]})


CHANNEL_LIBRARY = guidance_for(BytesAndChannels())
ADDRESSED = "<|channel|>commentary to=functions.look <|constrain|>json<|message|>"
THOUGHT = "<|channel|>analysis<|message|>to=functions.look? {}<|end|><|start|>assistant"


def in_channels(*functions: FunctionBody, eos_ids: frozenset[int] = BytesAndChannels.eos_ids) -> Shape:
    settings = ServerSettings.model_validate({"tool_format": "harmony"})
    dialect = dialect_of("", settings, BytesAndChannels.vocabulary, eos_ids=eos_ids)
    return shape_of(None, Offer(functions, functions), None, dialect)


def channel_tokens(text: str) -> list[int]:
    parts = re.split(f"({'|'.join(map(re.escape, CHANNELS))})", text)
    return [id for part in parts for id in ([CHANNEL_IDS[part]] if part in CHANNEL_IDS else part.encode())]


def matches_in_channels(shape: Shape, text: str) -> bool:
    assert shape.asked is not None
    matcher = CHANNEL_LIBRARY.compile(shape.asked.grammar).start()
    return all(matcher.take(id) for id in channel_tokens(text)) and (matcher.is_over or matcher.take(END))


@pytest.mark.parametrize(
    "said",
    [
        f"{ADDRESSED}{HERE}",
        f"{THOUGHT}{ADDRESSED}{HERE}",
        f"{THOUGHT}<|channel|>commentary<|message|>First I look.<|end|><|start|>assistant{ADDRESSED}{HERE}",
        f"<|start|>assistant to=functions.look<|channel|>commentary<|message|>{HERE}",
        f"<|channel|>commentary to=functions.look<|message|>\n{HERE}",
        "<|channel|>commentary to=functions.go <|constrain|>json<|message|>{}",
        f"<|channel|>commentary to=functions.go <|constrain|>json<|message|>{ANY}",
    ],
)
def test_a_strict_call_in_a_channel_is_enforced_and_read(said: str) -> None:
    shape = in_channels(STRICT, GO)

    assert matches_in_channels(shape, said)
    assert not matches_in_channels(shape, said + "x"), "a call ends the answer"
    reader = shape.reader()
    pieces = joined([*reader.feed(said), *reader.finish()])
    assert [piece.name for piece in pieces if isinstance(piece, CallBegun)] == [
        "go" if "functions.go" in said else "look"
    ]


@pytest.mark.parametrize(
    "said",
    [
        "",
        "No.",
        "to=functions.run {}",
        "<|channel|>final<|message|>No. {}",
        f"{THOUGHT}<|channel|>final<|message|>to=functions.look is what I thought of",
        "<|channel|>commentary to=browser.search<|message|>{}",
        "<|channel|>final<|message|>No.<|end|>",
    ],
)
def test_texts_in_channels_are_free(said: str) -> None:
    assert matches_in_channels(in_channels(STRICT, GO), said)


@pytest.mark.parametrize(
    "said",
    [
        ADDRESSED + "{}",
        ADDRESSED + "look here",
        "<|channel|>commentary to=functions.run <|constrain|>json<|message|>{}",
        "<|channel|>commentary to=functions.looking<|message|>{}",
        "<|start|>assistant to=functions.look<|channel|>commentary<|message|>{}",
        f"{ADDRESSED}{HERE}<|start|>assistant{ADDRESSED}{HERE}",
    ],
)
def test_a_wrong_call_in_a_channel_can_not_be_made(said: str) -> None:
    assert not matches_in_channels(in_channels(STRICT, GO), said)


def test_a_mark_that_ends_answers_is_in_none() -> None:
    shape = in_channels(STRICT, eos_ids=frozenset(CHANNEL_IDS.values()) - {CHANNEL_IDS[CHANNELS[0]]})
    ending = in_channels(STRICT, eos_ids=BytesAndChannels.eos_ids | {CHANNEL_IDS["<|end|>"]})

    assert shape.asked is None, "channels can't be told"
    assert matches_in_channels(ending, f"{ADDRESSED}{HERE}")
    assert not matches_in_channels(ending, THOUGHT)


def test_functions_that_are_not_strict_stay_free_unless_not_all_are_allowed() -> None:
    allowed = Offer((LOOK, GO), (GO,))

    assert free(LOOK, GO).asked is None
    assert not matches(
        shape_of(None, allowed, None, dialect("hermes")), write_calls([("look", "{}")], FORMATS["hermes"])
    )


JSON = Grammar(
    Syntax.JSON_SCHEMA, '{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}'
)


@pytest.mark.parametrize("format", FORMATS)
def test_an_answer_that_has_to_match_may_be_calls_instead(format: str) -> None:
    offer = Offer((GO,), (GO,))
    shape = shape_of(Asked(JSON, "response_format"), offer, None, dialect(format))
    marked = dialect(format).format
    assert marked is not None
    call = write_calls([("go", "{}")], marked)
    if not call.startswith(marked.marks):
        call = marked.marks[0] + call

    assert matches(shape, '{"a":1}')
    assert matches(shape, call)
    assert not matches(shape, "text")


@pytest.mark.parametrize(
    ("grammar", "answer"),
    [
        (JSON, '{"a":1}'),
        (Grammar(Syntax.REGEX, r"a/b\/c\\"), "a/b/c\\"),
        (Grammar(Syntax.LARK, 'start: "yes" | "no"'), "yes"),
        (Grammar(Syntax.LARK, 'start: "yes" | "no " start'), "no no yes"),
        (Grammar(Syntax.LARK, '%llguidance {}\nstart: "yes"'), "yes"),
        (Grammar(Syntax.LARK, ' start: "a" "b"\n%ignore " "'), "a b"),
        (Grammar(Syntax.LARK, "start: /a(bc)*/ tm_said\ntm_said: TM_TEXT\nTM_TEXT: /x/"), "abcx"),
        (Grammar(Syntax.GBNF, 'root ::= "yes" | "no " root'), "no yes"),
    ],
)
def test_what_is_asked_for_comes_behind_the_reasoning(grammar: Grammar, answer: str) -> None:
    shape = shape_of(Asked(grammar, "x"), Offer(), TAGS, dialect("hermes"))

    assert matches(shape, answer)
    assert matches(shape, f"<think>hm</think>\n{answer}")
    assert not matches(shape, f"<think>hm</think>{answer}x")
    reader = shape.reader()
    assert joined([*reader.feed(f"<think>hm</think>{answer}"), *reader.finish()]) == [Reasoning("hm"), Text(answer)]


@pytest.mark.parametrize(
    ("grammar", "answer"),
    [
        (Grammar(Syntax.REGEX, r"[<a-z]+"), "<too"),
        (Grammar(Syntax.GBNF, 'root ::= "yes" | "no " root'), "no yes"),
        (Grammar(Syntax.LARK, 'start: "a" "<"\n%ignore " "'), "a <"),
    ],
)
def test_calls_in_the_place_of_an_answer_and_behind_reasoning_whatever_it_has_to_match(
    grammar: Grammar, answer: str
) -> None:
    shape = shape_of(Asked(grammar, "x"), Offer((GO,), (GO,)), TAGS, dialect("hermes"))
    call = write_calls([("go", "{}")], FORMATS["hermes"])

    for thought in ("", "<think>hm</think>\n"):
        assert matches(shape, thought + answer)
        assert matches(shape, thought + call)
        assert not matches(shape, f"{thought}{answer}!")


@pytest.mark.parametrize("thinking", [None, TAGS])
def test_one_of_thousands_of_texts_may_be_asked_for(thinking: Thinking | None) -> None:
    asked = grammar_of(StructureFields(guided_choice=[f"label {number}" for number in range(5_000)]), {})

    shape = shape_of(asked, Offer(), thinking, dialect("hermes"))

    assert matches(shape, "label 4999")
    assert matches(shape, "label 4")
    assert not matches(shape, "label 5000")


def test_without_tools_and_reasoning_it_is_what_was_asked_for() -> None:
    asked = Asked(JSON, "x")

    assert shape_of(asked, Offer(), None, dialect("hermes")).asked is asked
