import orjson
import pytest

from server.reading.answer import AnswerReader
from server.reading.calls import CallFormat, Calls, write_calls
from server.reading.formats import FORMATS, Mistral
from server.reading.pieces import CallArguments, CallBegun, Piece, Reasoning, Text
from tests.server.reading.texts import SCHEMAS, call, read, reader_of

LOOK = '{"at": "}\\"{", "n": [1, {"b": null}]}'

HERMES = [
    (f'<tool_call>\n{{"name": "look", "arguments": {LOOK}}}\n</tool_call>', call(0, "look", LOOK)),
    (
        'Let me see.\n\n<tool_call>{"name": "look", "arguments": {}}</tool_call>\n'
        '<tool_call>\n{"name": "get_weather", "arguments": {"a": 1}}\n</tool_call>\n',
        [Text("Let me see."), *call(0, "look", "{}"), *call(1, "get_weather", '{"a": 1}')],
    ),
    ('<tool_call>{"arguments": {"a": 1}, "name": "look"}</tool_call>', call(0, "look", '{"a": 1}')),
    ('<tool_call>{"id": "7", "type": "x", "name": "look", "arguments": {}}', call(0, "look", "{}")),
    ('<tool_call>{"name": "look", "arguments": {"a": 1}, "why": -1.5}</tool_call>', call(0, "look", '{"a": 1}')),
    ('<tool_call>{"name": "look"}</tool_call>', call(0, "look", "{}")),
    ('<tool_call>{"name": "look", "arguments": null}</tool_call>', call(0, "look", "{}")),
    (r'<tool_call>{"name": "l\u006fok", "arguments": "{\"a\": 1}"}</tool_call>', call(0, "look", '{"a": 1}')),
    ('<tool_call>{"name": "look", "parameters": {}}</tool_call> and so', [*call(0, "look", "{}"), Text(" and so")]),
]
TAGGED = [
    (
        "So:\n<tool_call>\n<function=look>\n<parameter=at>\n12\n</parameter>\n<parameter=n>\n3\n</parameter>\n"
        "<parameter=odd>True</parameter><parameter=x>[1]</parameter><parameter=y>a\n<b></parameter>\n"
        "</function>\n</tool_call>",
        [Text("So:"), *call(0, "look", '{"at":"12","n":3,"odd":true,"x":[1],"y":"a\\n<b>"}')],
    ),
    (
        "<tool_call><function=get_weather></function></tool_call>\n"
        "<tool_call><function=get_weather><parameter=a>1</parameter></function></tool_call>",
        [*call(0, "get_weather", "{}"), *call(1, "get_weather", '{"a":1}')],
    ),
]
LLAMA = [
    (f'{{"name": "look", "parameters": {LOOK}}}', call(0, "look", LOOK)),
    ('\n {"type": "function", "name": "look", "parameters": {}}\n', call(0, "look", "{}")),
    ('<|python_tag|>{"name": "look", "parameters": {}}', call(0, "look", "{}")),
    (
        '{"name": "look", "parameters": {}}; {"name": "look", "parameters": {"a": 1}}\n{"name": "look"}',
        [*call(0, "look", "{}"), *call(1, "look", '{"a": 1}'), *call(2, "look", "{}")],
    ),
    ('So: <|python_tag|>{"name": "look", "parameters": {}} yes', [Text("So:"), *call(0, "look", "{}"), Text(" yes")]),
]
PYTHONIC = [
    ('[look(at="x)", n=[1, -2.5, (None, true)], d={"k": False})]', "look"),
    ("<|tool_call_start|>[look(at='x)', n=[1, -2.5, [null, True]], d={'k': false})]<|tool_call_end|>", "look"),
]
MISTRAL = [
    (
        '[TOOL_CALLS] [{"name": "look", "arguments": {"a": 1}}, {"name": "look", "arguments": {}, "id": "abcdefghi"}]',
        [*call(0, "look", '{"a": 1}'), *call(1, "look", "{}")],
    ),
    (
        'Hm.[TOOL_CALLS]look[ARGS]{"a": 1}[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{}',
        [Text("Hm."), *call(0, "look", '{"a": 1}'), *call(1, "get_weather", "{}")],
    ),
    ("[TOOL_CALLS]look{}", call(0, "look", "{}")),
    ("[TOOL_CALLS] look [ARGS] {} then", [*call(0, "look", "{}"), Text(" then")]),
]


HARMONY = [
    (
        "<|channel|>analysis<|message|>hm, so<|end|><|start|>assistant<|channel|>final<|message|>yes \n no<|return|>",
        [Reasoning("hm, so"), Text("yes \n no")],
    ),
    ("<|channel|>final<|message|>yes ", [Text("yes ")]),
    (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.look "
        '<|constrain|>json<|message|>{"at": "x"}<|call|>',
        [Reasoning("hm"), *call(0, "look", '{"at": "x"}')],
    ),
    ("<|start|>assistant to=functions.look<|channel|>commentary json<|message|>{}", call(0, "look", "{}")),
    (
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.look"
        "<|message|>{}<|call|>",
        [Text("I look."), *call(0, "look", "{}")],
    ),
    ("plain", [Text("plain")]),
]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("format", "text", "want"),
    [
        *(("hermes", *case) for case in (*HERMES, *TAGGED)),
        *(("llama", *case) for case in LLAMA),
        *(("mistral", *case) for case in MISTRAL),
        *(("harmony", *case) for case in HARMONY),
    ],
)
def test_calls_are_read_from_the_models_own_format(format: str, text: str, want: list[Piece], size: int) -> None:
    assert read(reader_of(format), [text[at : at + size] for at in range(0, len(text), size)]) == want


@pytest.mark.parametrize(("text", "name"), PYTHONIC)
def test_calls_in_python_become_json(text: str, name: str) -> None:
    want = call(0, name, '{"at":"x)","n":[1,-2.5,[null,true]],"d":{"k":false}}')

    assert read(reader_of("pythonic"), text) == want


def test_several_calls_in_python() -> None:
    pieces = read(reader_of("pythonic"), "[look(), get_weather(city='Paris')] so")

    assert pieces == [*call(0, "look", "{}"), *call(1, "get_weather", '{"city":"Paris"}'), Text(" so")]


NO_CALLS = {
    "hermes": [
        "<tool_call>",
        "<tool_ca",
        "a < b, <tool_cal and <tool_call> so",
        '<tool_call>{"name": "look", ',
        '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
        '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
        '<tool_call>{"name": "look", "arguments": []}</tool_call>',
        '<tool_call>{"name": "look", "arguments": "[]"}</tool_call>',
        '<tool_call>{"name": "look", "arguments": nul}</tool_call>',
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "look" "arguments": {}}</tool_call>',
        '<tool_call>{"name": "look", "because": {}}</tool_call>',
        '<tool_call>{"na\\',
        "<tool_call>[look()]</tool_call>",
        "<tool_call><function=other></function></tool_call>",
        "<tool_call><function=look></parameter></tool_call>",
        "<tool_call><function=look><parameter=a>1</function></tool_call>",
        "<tool_call><function=a name that is longer than any></function></tool_call>",
        "<tool_call><function=a name that is longer than any",
        '{"name": "look", "arguments": {}}',
        f'<tool_call>{{"{"x" * 500}": 1}}',
        f'<tool_call>{{"{"x" * 40}": 1}}',
        f'<tool_call>{{"id": {"1" * 50}, "name": "look"}}',
        """<tool_call>{"name": "look", "arguments": {'at': 'x'}}</tool_call>""",
        '<tool_call>{"name": "look", "arguments": {at: "x"}}</tool_call>',
        '<tool_call>{"name": "look", "arguments": {"at", "x"}}</tool_call>',
        '<tool_call>{"name": "look", "arguments": {"at',
        '<tool_call>{"arguments": {"at": x"}, "name": "look"}</tool_call>',
        "<tool_call><function=look><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>",
    ],
    "llama": [
        '{"title": "look"}',
        "{",
        '{"name": "other", "parameters": {}}',
        'I say {"name": "look", "parameters": {}}',
        "<|python_tag|>print(1)",
        '{"name": "look", "parameters": {at: "x"}}; {"name": "look"}',
    ],
    "pythonic": [
        "[1] is what I look at",
        "[look",
        "[look(",
        "[look(5)]",
        "[look(a=b)]",
        "[look(**5)]",
        "[look(a=1, **{'a': 2})]",
        "[look(a={1: 2})]",
        "[look(a=1, a=2)]",
        "[look(a=len('x'))]",
        "[look(a={**{}})]",
        "[look(a=" + "-" * 5000 + "1)]",
        "[look(a=" + "9" * 30 + ")]",
        "[lookout()]",
        "[other()]",
        "look()",
    ],
    "harmony": [
        "<|channel|>",
        "<|channel|>final",
        "<|channel|>commentary to=functions.other<|message|>{}",
        "<|channel|>commentary to=functions.look<|message|>x",
        "<|start|>" + "x" * 600,
        "<|channel|>commentary to=functions.look<|message|>{at: 1}",
    ],
    "mistral": [
        "[TOOL_CALLS]",
        "[TOOL_CALLS] other[ARGS]{}",
        "[TOOL_CALLS]a longer name than any tool has{}",
        '[TOOL_CALLS]look[ARGS]"x"',
        "[TOOL_CALLS]look[ARGS]{at: 1}",
        "[TOOL_CALLS]look[CALL_ID]!![ARGS]{}",
        '[TOOL_CALLS][{"name": "other", "arguments": {}}]',
        "[TOOL",
    ],
}


@pytest.mark.parametrize(("format", "text"), [(name, text) for name, texts in NO_CALLS.items() for text in texts])
@pytest.mark.parametrize("end", ["", " \n", " and more"])
def test_what_is_no_call_is_text_to_the_last_character(format: str, text: str, end: str) -> None:
    assert read(reader_of(format), text + end) == [Text(text + end)]
    assert read(reader_of(format), [text + end]) == [Text(text + end)]


@pytest.mark.parametrize(
    ("format", "text"),
    [("hermes", '<tool_call>{"arguments": {"a": "x'), ("hermes", '<tool_call>{"id": "x'), ("pythonic", "[look(a='x")],
)
def test_a_call_that_does_not_begin_is_not_held_for_ever(format: str, text: str) -> None:
    reader = reader_of(format)

    assert reader.feed(text + "x" * 60_000) == ()
    assert reader.feed("x" * 10_000) == (Text(text[:1]), Text((text + "x" * 70_000)[1:]))


def test_text_that_only_begins_like_a_mark_is_held_no_longer_than_it_does() -> None:
    reader = reader_of("hermes")

    assert reader.feed("so <tool_") == (Text("so"),)
    assert reader.feed("box") == (Text(" <tool_box"),)


def test_arguments_come_as_they_are_written() -> None:
    reader = reader_of("hermes")

    head = reader.feed('<tool_call>{"name": "look", "arguments": {"at"')
    assert head == ()
    head = reader.feed(": ")
    more = reader.feed('"her')

    assert head[0] == CallBegun(0, "call0", "look")
    assert [getattr(piece, "text", None) for piece in (*head[1:], *more)] == ['{"at": ', '"her']


@pytest.mark.parametrize(
    ("format", "text", "arguments", "left"),
    [
        ("hermes", '<tool_call>{"name": "look", "arguments": {"a": [1', '{"a": [1', ""),
        (
            "hermes",
            '<tool_call>{"name": "look", "arguments": {"a": 1} oops</tool_call>',
            '{"a": 1}',
            " oops</tool_call>",
        ),
        ("hermes", '<tool_call>{"name": "look", "arguments": {}} oops', "{}", " oops"),
        ("llama", '{"name": "look", "parameters": {}}; nothing', "{}", "; nothing"),
        ("llama", '{"name": "look", "parameters": {"at": x"}}; {"name": "look"}', '{"at": x', '"}}; {"name": "look"}'),
        ("llama", '{"name": "look", "parameters": {"at": "x" y}} so', '{"at": "x" ', "y}} so"),
        ("llama", '{"name": "look", "parameters": {"at": [1}} so', '{"at": [1', "}} so"),
        ("hermes", '<tool_call>{"name": "look", "arguments": {}, "parameters": {}}', "{}", ', "parameters": {}}'),
        ("mistral", "[TOOL_CALLS]look[ARGS]{\"at\": 'x'} so", '{"at": ', "'x'} so"),
        ("pythonic", "[look(), get_weather(5)]", "{}", ", get_weather(5)]"),
        ("mistral", '[TOOL_CALLS][{"name": "look", "arguments": {}} {', "{}", " {"),
    ],
)
def test_a_call_that_breaks_once_it_has_begun_stays_and_the_rest_is_text(
    format: str, text: str, arguments: str, left: str
) -> None:
    want = call(0, "look", arguments) + ([Text(left)] if left else [])

    assert read(reader_of(format), text) == want


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("hermes", '<tool_call>{"name": "look"}</tool_call><tool_call>{"name": "look"}</tool_call> so'),
        ("llama", '{"name": "look"}; {"name": "look"}'),
        ("pythonic", "[look(), look()]"),
        ("mistral", '[TOOL_CALLS][{"name": "look"}, {"name": "look"}]'),
    ],
)
def test_nothing_is_said_behind_the_last_call_that_may_be_made(format: str, text: str) -> None:
    assert read(reader_of(format, most=1), text) == call(0, "look", "{}")


TWO_CALLS = [("look", '{"at": "x", "n": [1]}'), ("look", "{}")]
IN_TAGS = "<tool_call><function=look><parameter=at>x</parameter></function></tool_call>"


@pytest.mark.parametrize(
    ("format", "text"),
    [
        *((format, write_calls(TWO_CALLS, format)) for format in (*FORMATS.values(), Mistral(named=True))),
        (FORMATS["hermes"], f"{IN_TAGS}\n{IN_TAGS}"),
        (FORMATS["mistral"], "[TOOL_CALLS]look[CALL_ID]abcdefghi[ARGS]{}[TOOL_CALLS]look[CALL_ID]abcdefghi[ARGS]{}"),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_what_the_end_cuts_behind_a_call_is_no_text_wherever_it_cuts(format: CallFormat, text: str, size: int) -> None:
    schemas = {"look": SCHEMAS["look"]}
    made = 0

    for end in range(len(text) + 1):
        reader = AnswerReader(None, format, lambda: Calls(schemas))()
        pieces = read(reader, [text[at : min(at + size, end)] for at in range(0, end, size)])

        num_calls = sum(isinstance(piece, CallBegun) for piece in pieces)
        texts = [piece for piece in pieces if isinstance(piece, Text)]
        assert texts == ([] if num_calls or not end else [Text(text[:end])])
        assert num_calls >= made
        made = num_calls
    assert made == 2


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("hermes", '<tool_call>{"name": "look"}</tool_call> a <b'),
        ("hermes", '<tool_call>{"name": "look"}</tool_call> so <tool_call> no'),
        ("hermes", '<tool_call>{"name": "look"}\n</tool_box'),
        ("hermes", "<tool_call><function=look></function></tool_call>\n<tool_call><function=nothing></function>"),
        ("mistral", "[TOOL_CALLS]look{} see [TOOLS]"),
        ("mistral", "[TOOL_CALLS]look{}[TOOL_CALLS]a name longer than any tool's"),
    ],
)
def test_text_behind_a_call_that_is_no_cut_mark_is_kept(format: str, text: str) -> None:
    [_, _, left] = read(reader_of(format), text)

    assert isinstance(left, Text)
    assert text.endswith(left.text)


@pytest.mark.parametrize("format", [*FORMATS.values(), Mistral(named=True)])
def test_a_format_reads_what_is_spelled_in_it(format: CallFormat) -> None:
    calls = [("look", '{"at": "x\\"}", "n": [1, null, true]}'), ("get_weather", "{}")]
    reader = AnswerReader(None, format, lambda: Calls(SCHEMAS))()

    pieces = read(reader, write_calls(calls, format))

    assert [piece.name for piece in pieces if isinstance(piece, CallBegun)] == ["look", "get_weather"]
    arguments = [orjson.loads(piece.text) for piece in pieces if isinstance(piece, CallArguments)]
    assert arguments == [{"at": 'x"}', "n": [1, None, True]}, {}]
    assert len(pieces) == 4
