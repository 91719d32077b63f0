import json
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, strategies as st

from engine.errors import GrammarRefused
from engine.grammar.grammars import end_ids_of
from engine.grammar.guidance import (
    MAX_REASON_CHARACTERS,
    Guidance,
    GuidanceCompiled,
    GuidanceMatcher,
    Tokens,
    guidance_for,
)
from engine.grammar.translate import is_plain
from engine.request import Grammar, Syntax
from engine.text import Vocabulary
from tests.digest import tokens_in
from tests.fakes import BOS, EOS, FakeTokenizer

LIBRARY = guidance_for(FakeTokenizer())
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def matcher_of(source: str, syntax: Syntax = Syntax.LARK) -> GuidanceMatcher:
    return LIBRARY.compile(Grammar(syntax, source)).start()


def for_schema(schema: object) -> GuidanceMatcher:
    return matcher_of(json.dumps(schema), Syntax.JSON_SCHEMA)


def behind(matcher: GuidanceMatcher, text: str) -> GuidanceMatcher:
    for byte in text.encode():
        assert matcher.take(byte), f"{chr(byte)!r} of {text!r}"
    return matcher


def is_whole(matcher: GuidanceMatcher, text: str) -> bool:
    """Whether a text matches from its beginning to its end."""
    return all(matcher.take(byte) for byte in text.encode()) and (matcher.is_over or EOS in allowed(matcher))


def allowed(matcher: GuidanceMatcher) -> list[int]:
    return tokens_in(matcher.mask())


def spelled(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode()


@pytest.mark.parametrize(
    ("syntax", "source", "matching", "others"),
    [
        (Syntax.JSON_SCHEMA, json.dumps(PERSON), ['{"name":"x","age":1}', '{ "name": "é",\n\t"age":\r\n -5 }'], ["{}"]),
        (Syntax.JSON_SCHEMA, "true", ["1", '{"a":[null]}'], ["a"]),
        (Syntax.REGEX, r"[0-9]{2}(,é)?", ["12", "12,é"], ["1", "123", "x"]),
        (Syntax.REGEX, r"^a|b$", ["a", "b"], ["ab", "^a"]),
        (Syntax.LARK, 'start: "a" ITEM+\nITEM: /[0-9]/', ["a1", "a12"], ["a", "1"]),
        (Syntax.GBNF, 'root ::= "a" [0-9]+ # text\n', ["a1", "a12"], ["a", "1"]),
    ],
)
def test_an_output_follows_a_grammar_in_each_syntax(
    syntax: Syntax, source: str, matching: list[str], others: list[str]
) -> None:
    for text in matching:
        assert is_whole(matcher_of(source, syntax), text), text
    for text in others:
        assert not is_whole(matcher_of(source, syntax), text), text


def test_a_grammar_embeds_schemas_with_bounded_whitespace_and_leaves_its_own_literals_alone() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    source = f'start: "%json {{}}" /%json/ %json {json.dumps(schema)} | "b" %json {{"const": 1}}  // %json {{'

    assert is_whole(matcher_of(source), '%json {}%json{ "a" : 1}')
    assert is_whole(matcher_of(source), "b1")
    assert not is_whole(matcher_of(source), '%json {}%json{   "a":1}')


@pytest.mark.parametrize("indentation", ["\n" + " " * 33, "\n\n", "  ", "\t"])
def test_whitespace_within_json_is_bounded(indentation: str) -> None:
    assert not is_whole(for_schema({"type": "object"}), "{" + indentation + "}")
    assert is_whole(for_schema({"type": "object"}), "{\n" + " " * 32 + "}")


def test_json_ends_at_its_brace() -> None:
    matcher = behind(for_schema({"type": "object"}), '{"a":{')
    assert not matcher.is_over

    assert behind(matcher, "}}").is_over
    assert allowed(matcher) == [EOS]


def test_the_end_is_allowed_where_an_output_may_end_and_nowhere_else() -> None:
    matcher = matcher_of("a+", Syntax.REGEX)

    assert allowed(matcher) == [ord("a")]
    assert allowed(behind(matcher, "a")) == [ord("a"), EOS]
    assert not matcher.is_over
    assert matcher.take(EOS)
    assert matcher.is_over


def test_what_a_grammar_refuses_moves_nothing_and_is_no_failure() -> None:
    matcher = behind(matcher_of("ab", Syntax.REGEX), "a")

    assert not matcher.take(ord("a"))

    assert matcher.failure == ""
    assert allowed(matcher) == [ord("b")]


def test_a_copy_goes_its_own_way() -> None:
    matcher = behind(matcher_of("a[bc]d", Syntax.REGEX), "a")
    before = matcher.mask()

    assert behind(matcher.copy(), "bd").is_over

    assert matcher.mask() == before
    assert matcher.num_allowed(list(b"cdd")) == 2
    assert matcher.num_allowed(list(b"xd")) == 0
    assert matcher.mask() == before


def test_forced_tokens_are_the_only_ones_that_may_come_next() -> None:
    matcher = behind(for_schema(PERSON), '{"')

    forced = matcher.forced()

    assert spelled(forced) == 'name"'
    for token in forced:
        assert allowed(matcher) == [token]
        assert matcher.take(token)
    assert matcher.forced() == ()


@pytest.mark.parametrize("seed", range(20))
def test_asking_changes_nothing_and_the_same_outputs_have_the_same_masks(seed: int) -> None:
    """Whatever was asked of one matcher, and however often it was copied, another that took the same agrees."""
    random, schema = Random(seed), {"type": "array", "items": PERSON, "maxItems": 2}
    asked, quiet, outputs = for_schema(schema), for_schema(schema), []

    while not asked.is_over:
        forced = asked.forced()
        asked.num_allowed([*forced, 1, 2])
        asked.copy().take(1)
        assert asked.mask() == quiet.mask()
        if forced:
            assert allowed(asked) == [forced[0]]
        outputs.append(random.choice([token for token in allowed(asked) if token < ord("~")]))
        assert asked.take(outputs[-1])
        assert quiet.take(outputs[-1])

    again = for_schema(schema)
    assert all(again.take(token) for token in outputs)
    assert again.mask() == asked.mask() == quiet.mask()


def test_nothing_is_forced_or_allowed_behind_the_end() -> None:
    matcher = behind(matcher_of("a", Syntax.REGEX), "a")

    assert matcher.forced() == ()
    assert matcher.num_allowed([ord("a")]) == 0


def test_a_control_token_is_never_text() -> None:
    matcher = for_schema({"enum": ["<eos>", "<bos>"]})
    assert allowed(matcher) == [ord('"')]

    assert spelled(behind(matcher, '"').forced()) == "<"
    assert EOS not in allowed(matcher)
    assert behind(matcher, '<bos>"').is_over


@pytest.mark.parametrize(
    ("syntax", "source", "reason"),
    [
        (Syntax.JSON_SCHEMA, '{"type": "objekt"}', "objekt"),
        (Syntax.JSON_SCHEMA, '{"not": {"pattern": "a"}}', "not"),
        (Syntax.JSON_SCHEMA, '{"x-guidance": {"lenient": true}, "not": {"pattern": "a"}}', "not"),
        (Syntax.JSON_SCHEMA, '{"not": {}}', "nsatisfiable"),
        (Syntax.JSON_SCHEMA, '{"type": "string", "pattern": "(?=a)"}', "regex"),
        (Syntax.JSON_SCHEMA, '{"$ref": "http://example.com/x"}', "Resource"),
        (Syntax.JSON_SCHEMA, "false", "an object"),
        (Syntax.JSON_SCHEMA, "[]", "an object"),
        (Syntax.JSON_SCHEMA, "{", "Expecting"),
        (Syntax.JSON_SCHEMA, '{"items":' * 500 + "{}" + "}" * 500, "recursion"),
        (Syntax.JSON_SCHEMA, '{"type": "string", "pattern": "("}', "unclosed group"),
        (Syntax.JSON_SCHEMA, '{"$ref": "#"}', "no text matches it"),
        (Syntax.REGEX, "(", "regex"),
        (Syntax.REGEX, "(" * 5_000 + ")" * 5_000, "regex"),
        (Syntax.REGEX, "a(?=b)", "regex"),
        (Syntax.LARK, "start: thing", "thing"),
        (Syntax.LARK, "start: %json [", "Expecting"),
        (Syntax.LARK, "start: " + "(" * 5_000 + '"a"' + ")" * 5_000, "nested"),
        (Syntax.LARK, "start: " + " | ".join(f'"a{number}"' for number in range(3_000)), "3000 branches"),
        (Syntax.LARK, 'start: "x"+ %json {"$ref": "#"}', "no text matches it"),
        (Syntax.LARK, 'start: "a" <eos>', "ends an answer"),
        (Syntax.LARK, 'start: "x" <[0-300]>', "ends an answer"),
        (Syntax.GBNF, 'root ::= "a" root', "items"),
        (Syntax.GBNF, "root ::= thing", "thing"),
        (Syntax.GBNF, "root ::= " + "(" * 5_000 + '"a"' + ")" * 5_000, "recursion"),
    ],
)
def test_what_can_t_be_compiled_is_refused_in_one_short_line(syntax: Syntax, source: str, reason: str) -> None:
    with pytest.raises(GrammarRefused) as refused:
        LIBRARY.compile(Grammar(syntax, source))

    message = str(refused.value)
    assert syntax.value in message or "JSON schema" in message, "the schema within"
    assert reason in message
    assert "\n" not in message
    assert len(message) < MAX_REASON_CHARACTERS + 50


@pytest.mark.parametrize(
    ("syntax", "source", "answer"),
    [
        (Syntax.REGEX, "(x|y)*a{49000}", "xya"),
        (Syntax.REGEX, "(a{100}){100}{4}", "a"),
        (Syntax.LARK, 'start: (A | "c")+ "d" x\nx: "e"{49000}\nA: /a/', "cade"),
        (Syntax.LARK, 'start: "b" x{100}\nx: y{100}\ny: z{100}\nz: "e"{100}', "be"),
        (Syntax.GBNF, 'root ::= "c" "e"{49000}', "ce"),
        (Syntax.JSON_SCHEMA, json.dumps({"type": "string", "pattern": "^(ab|c)(a{100}){100}$"}), '"ca'),
    ],
)
def test_what_goes_on_for_long_is_followed_from_behind_its_beginning(syntax: Syntax, source: str, answer: str) -> None:
    matcher = behind(matcher_of(source, syntax), answer)

    for _ in range(20):
        assert not matcher.forced()
        [next_] = allowed(matcher)
        assert matcher.take(next_)


def test_a_part_is_a_grammar_as_a_whole_whatever_its_syntax_and_its_names() -> None:
    parts = [
        Grammar(Syntax.LARK, 'start: a | "<" start ">"\na: "x"'),
        Grammar(Syntax.LARK, '%llguidance {}\nstart: a\na: "y" "y"\n%ignore " "'),
        Grammar(Syntax.GBNF, 'root ::= "z" | "z" root'),
        Grammar(Syntax.REGEX, "[0-9]/"),
        Grammar(Syntax.JSON_SCHEMA, '{"enum": [true]}'),
    ]
    named = tuple((f"p{number}", part) for number, part in enumerate(parts))
    whole = Grammar(Syntax.LARK, "start: a\na: " + " ".join(f'@{name} "."' for name, _ in named), named)

    assert is_whole(LIBRARY.compile(whole).start(), "<<x>>.y y.zzz.7/.true.")
    assert not is_whole(LIBRARY.compile(whole).start(), "<<x>.y y.zzz.7/.true.")


def test_a_fault_of_a_part_is_found_before_it_is_reached() -> None:
    with pytest.raises(GrammarRefused, match=r"JSON schema.*no text matches it"):
        LIBRARY.compile(Grammar(Syntax.LARK, 'start: "x"+ @p', (("p", Grammar(Syntax.JSON_SCHEMA, '{"$ref": "#"}')),)))


def test_a_part_at_fault_is_named_however_deep_it_is() -> None:
    good, wrong = Grammar(Syntax.JSON_SCHEMA, "{}"), Grammar(Syntax.JSON_SCHEMA, '{"type": "objekt"}')
    inner = Grammar(Syntax.LARK, "start: @good @wrong", (("good", good), ("wrong", wrong)))
    whole = Grammar(Syntax.LARK, 'start: "x"+ @inner', (("inner", inner),))

    with pytest.raises(GrammarRefused, match=r"JSON schema.*objekt") as refused:
        LIBRARY.compile(whole)
    with pytest.raises(GrammarRefused) as without:
        LIBRARY.compile(Grammar(Syntax.LARK, "start: thing @good", (("good", good),)))

    assert refused.value.part == "wrong"
    assert without.value.part == ""


class Noting(Guidance):
    """Notes what it compiles."""

    def __init__(self) -> None:
        super().__init__(LIBRARY._tokenizer, LIBRARY._ends)
        self.compiled: list[Grammar] = []

    def _whole(self, grammar: Grammar) -> GuidanceCompiled:
        self.compiled.append(grammar)
        return super()._whole(grammar)


def test_plain_schemas_are_compiled_once_and_with_the_whole() -> None:
    library = Noting()
    plain = tuple((f"p{number}", Grammar(Syntax.JSON_SCHEMA, json.dumps(PERSON))) for number in range(60))
    long = Grammar(Syntax.JSON_SCHEMA, '{"pattern": "^a+$"}')
    whole = Grammar(
        Syntax.LARK, "start: " + " ".join(f"@{name}" for name, _ in plain) + " @p60", (*plain, ("p60", long))
    )

    library.compile(whole)

    assert library.compiled == [long, whole]


VALUES = st.none() | st.booleans() | st.integers(-100, 100) | st.text("ab", max_size=3)
NAMES = st.sampled_from(["a", "b", "c", ""])


def plain_schemas(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Schemas of what is plain, many of which nothing matches."""
    types = ["object", "array", "string", "integer", "number", "boolean", "null"]
    within = inner | st.booleans()
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from([*types, ["string", "null"], ["object", "integer"]]),
            "properties": st.dictionaries(NAMES, within, max_size=3),
            "required": st.lists(NAMES, max_size=3, unique=True),
            "additionalProperties": within,
            "items": within,
            "enum": st.lists(VALUES | st.dictionaries(NAMES, VALUES, max_size=2), max_size=3),
            "const": VALUES,
            "anyOf": st.lists(within, max_size=3),
            "minimum": st.integers(-50, 50),
            "maximum": st.integers(-50, 50),
        },
    )


@given(st.recursive(plain_schemas(st.just({})), plain_schemas, max_leaves=5))
def test_what_is_wrong_with_a_plain_schema_shows_before_it_is_reached(schema: object) -> None:
    part = Grammar(Syntax.JSON_SCHEMA, json.dumps(schema))
    assert is_plain(part)

    assert is_refused(part) is is_refused(Grammar(Syntax.LARK, 'start: "x"+ @p', (("p", part),)))


def is_refused(grammar: Grammar) -> bool:
    try:
        LIBRARY.compile(grammar)
    except GrammarRefused:
        return True
    return False


def test_a_grammar_that_can_t_be_followed_allows_nothing_and_says_why() -> None:
    """In an error, such as a limit of its own, the library would let the output end as if it were whole."""
    matcher = matcher_of("a", Syntax.REGEX)

    matcher._matcher.consume_token(ord("b"))

    assert matcher.mask() == b""
    assert not matcher.is_over
    assert not matcher.take(EOS)
    assert matcher.failure


# -- tokens ---------------------------------------------------------------------------------------


PIECES = [b"a", b"b", b"ab", b" ab", b"\n", b"<x>", b"<", b"x>"]


class Marked:
    """A tokenizer that begins every text with a space, as SentencePiece does, and knows control tokens."""

    def __call__(self, text: str) -> list[int]:
        if text.startswith("\n"):
            return [4, *({"ab": [2], "<x>": [5], "": []}[text[1:]])]
        return {"ab": [3], "<x>": [5]}[text]


def test_a_text_within_an_output_has_no_space_of_the_tokenizer_s_own() -> None:
    tokens = Tokens(Vocabulary(PIECES, frozenset({5})), {5}, Marked())

    assert tokens("ab") == [2]


def test_a_text_that_spells_a_control_token_is_tokenized_without_it() -> None:
    tokens = Tokens(Vocabulary(PIECES, frozenset({5})), {5}, Marked())

    assert tokens("<x>") == [6, 7]


def test_what_no_token_spells_is_left_out() -> None:
    tokens = Tokens(Vocabulary([b"a", b"<x>"], frozenset({1})), {1}, lambda text: [])

    assert tokens("az") == [0]


def test_a_model_without_an_end_has_one_beyond_its_vocabulary() -> None:
    tokenizer = FakeTokenizer()
    tokenizer.eos_ids = frozenset()

    matcher = guidance_for(tokenizer).compile(Grammar(Syntax.REGEX, "a+")).start()

    assert end_ids_of(tokenizer) == {EOS + 1}
    assert allowed(behind(matcher, "a")) == [ord("a"), EOS + 1]
    assert BOS not in allowed(matcher)
