import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings, strategies as st

from engine.text import Released, Span, TextStream, Vocabulary

FRAGMENTS = [
    *(b"", b"a", b"b", b" a", b"ab", b"aaa", b"ba\xe6", "日a本".encode(), "日本".encode(), "👋🏽".encode()),
    *(b"\xe6", b"\xe6\x97", b"\x97\xa5", b"\xa5", b"\xa5\xe6\x9c", b"\xac"),
    *(
        b"\xf0\x9f",
        b"\x91\x8b",
        b"\xf0\x9f\x91",
        b"\x8ba",
        b"\xc3",
        b"\xa9b",
        b"\xef\xbf",
        b"\xbd",
        b"\xff",
        b"\xed",
        b"\xa0",
    ),
]
PIECES = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=4), max_size=12)
STOPS = st.lists(st.text(alphabet="ab 日本👋é\ufffd", min_size=1, max_size=4), max_size=16)

BEGINNINGS = frozenset(
    chr(code).encode()[:count]
    for code in range(0x80, 0x110000, 64)  # characters that differ in their last byte begin alike
    if not 0xD800 <= code < 0xE000
    for count in range(1, len(chr(code).encode()))
)


def is_character(data: bytes) -> bool:
    return data.decode("utf-8", "replace").encode() == data and len(data.decode()) == 1


def characters(data: bytes) -> list[bytes]:
    """`data` cut into whole characters and maximal broken ones, each of which decodes to one character."""
    cut: list[bytes] = []
    while data:
        starts = [data[:size] for size in range(1, 5)]
        first = next(filter(is_character, starts), None) or max(
            BEGINNINGS.intersection(starts), key=len, default=data[:1]
        )
        cut.append(first)
        data = data[len(first) :]
    return cut


def begun_at_the_end(data: bytes) -> bytes:
    """The last character of `data`, where it is begun and not whole."""
    last = characters(data)[-1:]
    return last[0] if last and last[0] in BEGINNINGS else b""


@dataclass(frozen=True)
class Case:
    """Tokens `0, 1, …` of these pieces after a prompt of these bytes; `unmatched` ones come before min_tokens."""

    prompt: bytes
    pieces: list[bytes]
    stops: list[str]
    include_stop: bool
    unmatched: int

    @property
    def begun(self) -> bytes:
        """What the prompt leaves to the outputs: a begun character, if they go on with it."""
        begun, outputs = begun_at_the_end(self.prompt), b"".join(self.pieces)
        return begun if len(characters(begun + outputs[:1])) == 1 else b""

    def whole(self, count: int) -> str:
        """The text that `count` tokens surely have."""
        data = self.begun + b"".join(self.pieces[:count])
        return data.removesuffix(begun_at_the_end(data)).decode("utf-8", "replace")

    def stop(self) -> tuple[int, str, int] | None:
        """The token that completes a stop string, that string, and where it ends."""
        for index in range(self.unmatched, len(self.pieces)):
            text = self.whole(index + 1)
            for end in range(len(self.whole(index)) + 1, len(text) + 1):
                completed = [stop for stop in self.stops if text[:end].endswith(stop)]
                if completed:
                    return index, max(completed, key=len), end
        return None

    def expected(self) -> tuple[str, list[Span]]:
        """The whole answer: decode everything, then cut."""
        stop = self.stop()
        data = self.begun + b"".join(self.pieces)
        if stop is None:
            text = data.decode("utf-8", "replace") if b"".join(self.pieces) else ""
            return text, [Span(self.start(index), in_text=True) for index in range(len(self.pieces))]
        index, string, end = stop
        cut = end if self.include_stop else end - len(string)
        return data.decode("utf-8", "replace")[:cut], [self.span(token, cut) for token in range(index + 1)]

    def start(self, index: int) -> int:
        """The character that the token's first byte lies in; without bytes, the next one to become whole."""
        whole, begun = self.whole(index), begun_at_the_end(self.begun + b"".join(self.pieces[:index]))
        breaks = begun and self.pieces[index] and len(characters(begun + self.pieces[index][:1])) > 1
        return len(whole) + bool(breaks)

    def span(self, index: int, cut: int) -> Span:
        outputs = b"".join(self.pieces[:index])
        start = self.start(index)
        has_text = bool(self.pieces[index] or (outputs and begun_at_the_end(self.begun + outputs)))
        return Span(min(start, cut), in_text=start < cut if has_text else start <= cut)


def stream_of(case: Case) -> TextStream:
    vocabulary = Vocabulary([*case.pieces, case.prompt], frozenset())
    prompt = [len(case.pieces)]
    return TextStream(vocabulary, prompt, stop=tuple(case.stops), include_stop=case.include_stop, skip_special=True)


def run(case: Case, releases: list[bool]) -> tuple[list[Released], str | None]:
    """What comes out where a release follows the tokens that `releases` says, and the stop string."""
    stream, out, matched = stream_of(case), [], None
    for index in range(len(case.pieces)):
        matched = stream.push(index, matching=index >= case.unmatched)
        if releases[index % len(releases)]:
            out.append(stream.release())
        if matched is not None:
            break
    return [*out, stream.finish()], matched


CASES = st.builds(
    Case, st.sampled_from(FRAGMENTS) | st.binary(max_size=4), PIECES, STOPS, st.booleans(), st.integers(0, 4)
)
RELEASES = st.lists(st.booleans(), min_size=1, max_size=12)


@given(CASES, RELEASES)
@example(Case(b"\xe6", [b"", b"\xe6", b"a"], ["\ufffd"], include_stop=False, unmatched=0), [False])
@example(Case(b"\xed", [b"\xa0\x00"], [], include_stop=False, unmatched=0), [False])
@example(Case(b"", [b"\xed", b"\xa0"], [], include_stop=False, unmatched=0), [True])
@settings(max_examples=1_000)
def test_all_releases_add_up_to_the_whole_text_cut_at_the_stop(case: Case, releases: list[bool]) -> None:
    text, spans = case.expected()
    stop = case.stop()

    released, matched = run(case, releases)

    assert "".join(part.text for part in released) == text
    assert matched == (stop[1] if stop else None)
    assert [span for part in released for span in part.spans] == spans


@given(CASES)
def test_what_is_held_is_a_begun_character_and_the_longest_end_that_may_become_a_stop(case: Case) -> None:
    stream, out = stream_of(case), ""

    for index in range(len(case.pieces)):
        if stream.push(index, matching=False) is not None:
            break
        out += stream.release().text
        whole = case.whole(index + 1)
        held = [
            n for n in range(1, len(whole) + 1) if any(s != whole[-n:] and s.startswith(whole[-n:]) for s in case.stops)
        ]

        assert out == whole[: len(whole) - max(held, default=0)]


@given(CASES, RELEASES)
def test_after_the_finish_nothing_more_comes(case: Case, releases: list[bool]) -> None:
    stream = stream_of(case)
    for index in range(len(case.pieces)):
        if stream.push(index) is not None:
            break

    stream.finish()

    assert stream.finish() == Released("")
    assert stream.release() == Released("")


TIDE = Vocabulary(
    [b"The", b" tide", b" E", b"OF", b"TEXT", "日本".encode()[:4], "日本".encode()[4:], b"<end>", b""], frozenset({7})
)


def streamed(
    vocabulary: Vocabulary, tokens: list[int], *, stop: tuple[str, ...] = (), include_stop: bool = False
) -> tuple[list[str], list[Span]]:
    """The text of each release, the finish last, and all spans."""
    stream = TextStream(vocabulary, [0], stop=stop, include_stop=include_stop, skip_special=True)
    parts = []
    for token in tokens:
        stream.push(token)
        parts.append(stream.release())
    parts.append(stream.finish())
    return [part.text for part in parts], [span for part in parts for span in part.spans]


def test_a_stop_string_that_spans_tokens_never_leaks() -> None:
    texts, spans = streamed(TIDE, [0, 1, 2, 3], stop=(" EOF",))

    assert texts == ["The", " tide", "", "", ""]
    assert [span.in_text for span in spans] == [True, True, False, False]


def test_text_held_for_a_stop_string_that_does_not_come_is_released_at_once() -> None:
    texts, spans = streamed(TIDE, [0, 2, 1], stop=(" EOF",))

    assert texts == ["The", "", " E tide", ""]
    assert spans == [Span(0, in_text=True), Span(3, in_text=True), Span(5, in_text=True)]


def test_text_held_at_the_end_is_flushed() -> None:
    texts, _ = streamed(TIDE, [0, 2], stop=(" EOF and thirty more characters that never come",))

    assert texts == ["The", "", " E"]


def test_a_token_that_the_stop_cuts_is_listed_whole() -> None:
    texts, spans = streamed(TIDE, [0, 2, 3, 4], stop=("TE", "OFTEX"))

    assert "".join(texts) == "The EOF"
    assert spans == [Span(0, in_text=True), Span(3, in_text=True), Span(5, in_text=True), Span(7, in_text=False)]
    assert streamed(TIDE, [2, 4], stop=("EXT",))[1] == [Span(0, in_text=True), Span(2, in_text=True)]


def test_an_included_stop_string_keeps_its_tokens_and_ends_the_text() -> None:
    texts, spans = streamed(TIDE, [0, 2, 3, 4], stop=("EOFT",), include_stop=True)

    assert "".join(texts) == "The EOFT"
    assert all(span.in_text for span in spans)


def test_a_stop_string_matches_characters_that_tokens_split() -> None:
    texts, spans = streamed(TIDE, [0, 5, 6], stop=("日本",))

    assert "".join(texts) == "The"
    assert [span.in_text for span in spans] == [True, False, False]


def test_split_characters_come_out_whole() -> None:
    assert streamed(TIDE, [5, 6])[0] == ["日", "本", ""]


def test_a_token_is_released_with_its_last_character() -> None:
    stream = TextStream(TIDE, [0], stop=(), include_stop=False, skip_special=True)

    stream.push(5)
    first = stream.release()
    stream.push(6)
    second = stream.release()

    assert first == Released("日", ())
    assert second == Released("本", (Span(0, in_text=True), Span(1, in_text=True)))


def test_a_character_that_stays_begun_becomes_one_replacement_character_at_the_end() -> None:
    assert streamed(TIDE, [0, 5])[0] == ["The", "日", "\ufffd"]


def test_a_prompt_that_ends_in_half_a_character_gives_the_first_delta_that_character_alone() -> None:
    stream = TextStream(TIDE, [0, 1, 5], stop=(), include_stop=False, skip_special=True)

    stream.push(6)

    assert stream.release() == Released("本", (Span(0, in_text=True),))


def test_a_prompts_broken_character_is_not_the_outputs() -> None:
    stream = TextStream(TIDE, [0, 1, 5], stop=(), include_stop=False, skip_special=True)

    stream.push(1)

    assert stream.release() == Released(" tide", (Span(0, in_text=True),))
    assert TextStream(TIDE, [5], stop=(), include_stop=False, skip_special=True).finish() == Released("")


def test_silent_and_skipped_tokens_are_released_with_their_neighbours() -> None:
    stream = TextStream(TIDE, [0], stop=("EOF",), include_stop=False, skip_special=True)

    for token in (2, 7, 8):
        stream.push(token)
    held = stream.release()
    stream.push(1)
    stream.push(4, silent=True)
    released = stream.release()

    assert held == Released(" ", ())
    assert released.text == "E tide"
    assert [span.in_text for span in released.spans] == [True, True, True, True, False]
    assert [span.offset for span in released.spans] == [0, 2, 2, 2, 7]


def test_special_tokens_that_are_shown_are_text_though_others_are_skipped() -> None:
    vocabulary = Vocabulary([b"a", b"[CALL]", b"<end>"], frozenset({1, 2}))
    stream = TextStream(vocabulary, [0], stop=(), include_stop=False, skip_special=True, shown_special=frozenset({1}))

    for token in (0, 2, 1, 0):
        stream.push(token)

    assert stream.finish().text == "a[CALL]a"


def test_special_tokens_are_text_where_they_are_not_skipped() -> None:
    stream = TextStream(TIDE, [0], stop=("nd>T",), include_stop=False, skip_special=False)

    assert stream.push(7) is None
    assert stream.push(0) == "nd>T"
    assert stream.finish().text == "<e"


def test_a_stop_string_completed_before_min_tokens_does_not_count() -> None:
    stream = TextStream(TIDE, [0], stop=("The",), include_stop=False, skip_special=True)

    assert stream.push(0, matching=False) is None
    assert stream.release().text == "The"
    assert stream.push(0) == "The"
    assert stream.finish().text == ""


def test_a_stop_string_begun_before_min_tokens_counts_where_it_ends() -> None:
    stream = TextStream(TIDE, [0], stop=(" EOF",), include_stop=False, skip_special=True)

    stream.push(2, matching=False)

    assert stream.push(3) == " EOF"
    assert stream.finish().text == ""


def test_no_token_follows_a_stop_string() -> None:
    stream = TextStream(TIDE, [0], stop=("The",), include_stop=False, skip_special=True)
    stream.push(0)

    with pytest.raises(AssertionError, match="nothing follows"):
        stream.push(1)


def test_ids_without_a_piece_spell_nothing() -> None:
    assert TIDE.size == 9
    assert TIDE.bytes_of(9, skip_special=False) == b""
    assert TIDE.bytes_of(-2, skip_special=False) == b""
    assert TIDE.decode([0, 8, 400, 1], skip_special=True) == "The tide"


def test_special_tokens_have_a_literal_that_can_be_skipped() -> None:
    assert TIDE.text_of(7) == "<end>"
    assert TIDE.text_of(5) == "日\ufffd"
    assert TIDE.decode([0, 7], skip_special=False) == "The<end>"
    assert TIDE.decode([0, 7], skip_special=True) == "The"


def test_a_whole_text_loses_the_space_that_the_tokenizer_added() -> None:
    vocabulary = Vocabulary([b"<s>", b" The", b" tide"], frozenset({0}), drops_first_space=True)
    stream = TextStream(vocabulary, [], stop=(), include_stop=False, skip_special=True)
    for token in (0, 1, 2):
        stream.push(token)

    assert vocabulary.decode([0, 1, 2], skip_special=True) == "The tide"
    assert stream.finish().text == "The tide"


def test_text_needs_neither_torch_nor_transformers() -> None:
    code = "import sys, engine.text; sys.exit(bool({'torch', 'transformers', 'tokenizers'} & sys.modules.keys()))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_vocabularies_differ_where_a_token_has_other_bytes_or_is_special_in_one_alone() -> None:
    pieces = [b"<eos>", b"a", b"b"]
    vocabulary = Vocabulary(pieces, frozenset({0}))

    assert vocabulary.first_difference(Vocabulary(pieces, frozenset({0}), drops_first_space=True)) is None
    assert vocabulary.first_difference(Vocabulary([*pieces, b""], frozenset({0}))) is None
    assert vocabulary.first_difference(Vocabulary([*pieces, b"c"], frozenset({0}))) == 3
    assert Vocabulary([b"<eos>", b"b", b"b"], frozenset({0})).first_difference(vocabulary) == 1
    assert vocabulary.first_difference(Vocabulary(pieces, frozenset())) == 0
