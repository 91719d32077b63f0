from hypothesis import given, strategies as st

from engine.request import Delta, End, FinishReason, OutputToken, Usage
from server.reading.pieces import Reader
from server.reading.readings import Readings, Said
from tests.server.reading.texts import TAGS, reader_of

END = End(FinishReason.STOP, Usage(1, 0, 1))
TEXT = '<think>\nhm\n</think>\n\nSo: 日 <tool_call>\n{"name": "look", "arguments": {"a": 1}}\n</tool_call>\n then'


def make() -> Reader:
    return reader_of("hermes", thinking=TAGS)


def said(borders: list[int], sizes: list[int]) -> Said:
    """The text in tokens that end at these borders, some in a delta; each token's id is its number."""
    stops = sorted({len(TEXT), *borders})
    starts = [0, *stops[:-1]]
    tokens = [OutputToken(number, start, in_text=True) for number, start in enumerate(starts)]
    readings, at = Readings(make), 0
    while at < len(tokens):
        size = sizes.pop() if sizes else 1
        some = tokens[at : at + size]
        at += size
        text = TEXT[some[0].text_offset : stops[min(at, len(stops)) - 1]]
        readings.read(Delta(0, text, tuple(some), end=END if at >= len(tokens) else None))
    return readings.said[0]


@given(borders=st.lists(st.integers(1, len(TEXT) - 1), max_size=40), sizes=st.lists(st.integers(1, 5), max_size=40))
def test_content_has_every_token_that_is_in_it_even_in_part(borders: list[int], sizes: list[int]) -> None:
    got = said(borders, sizes)

    stops = sorted({len(TEXT), *borders})
    content = [range(TEXT.index("So:"), TEXT.index(" <tool_call>")), range(TEXT.index("\n then"), len(TEXT))]
    reasoning = range(TEXT.index("hm"), TEXT.index("hm") + 2)
    spans = list(enumerate(zip([0, *stops[:-1]], stops, strict=True)))
    listed = [number for number, span in spans if any(set(range(*span)) & set(one) for one in content)]
    thought = [number for number, span in spans if number not in listed and set(range(*span)) & set(reasoning)]
    assert "".join(got.text) == "So: 日\n then"
    assert [token.id for token in got.places.content] == listed == got.places.numbers
    assert got.places.num_reasoning == len(thought)


def test_a_token_is_content_as_soon_as_its_text_is() -> None:
    readings = Readings(make)

    readings.read(Delta(0, "So", (OutputToken(1, 0, in_text=True),)))

    assert [token.id for token in readings.said[0].places.content] == [1]


def test_parts_of_a_character_go_with_it() -> None:
    readings = Readings()

    readings.read(Delta(0, "a日", (OutputToken(1, 0, in_text=True), OutputToken(2, 1, in_text=True))))
    readings.read(Delta(0, "", (OutputToken(3, 1, in_text=True),), end=END))

    assert [token.id for token in readings.said[0].places.content] == [1, 2, 3]


def test_a_token_without_text_goes_with_what_it_follows() -> None:
    plain, calling = Readings(), Readings(make)
    call = '<tool_call>{"name": "look"}</tool_call>'

    plain.read(Delta(0, "a", (OutputToken(1, 0, in_text=True), OutputToken(2, 1, in_text=True)), end=END))
    calling.read(Delta(0, call, (OutputToken(1, 0, in_text=True), OutputToken(2, len(call), in_text=True)), end=END))

    assert [token.id for token in plain.said[0].places.content] == [1, 2]
    assert calling.said[0].places.content == []


def test_a_token_that_is_not_in_the_text_is_nowhere() -> None:
    readings = Readings()

    readings.read(Delta(0, "a", (OutputToken(1, 0, in_text=True), OutputToken(2, 1, in_text=False)), end=END))

    assert [token.id for token in readings.said[0].places.content] == [1]
