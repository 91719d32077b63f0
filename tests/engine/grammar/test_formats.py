import json

import pytest

from engine.grammar.formats import FORMATS
from tests.engine.grammar.test_guidance import for_schema, is_whole

MATCHING = {
    "idn-email": ["a@b.example"],
    "idn-hostname": ["b.example"],
    "iri": ["http://b.example/a?b#c"],
    "uri-reference": [
        "",
        "a",
        "/",
        "/a/b?c=d#e",
        "//b:80/a%20b",
        "a:b",
        "#",
        "?a",
        "../a",
        "./a:b",
        "http://a@b",
        "a/",
    ],
    "iri-reference": ["é/b", "http://é.example/#ü"],
    "uri-template": ["", "a/{b}", "{+x,y:3}/{z*}", "http://é.example/{?q}", "%41"],
    "json-pointer": ["", "/", "/a/~0~1b", "/é"],
    "relative-json-pointer": ["0", "1/a", "0#", "12"],
    "regex": ["a", "^a+$", "a|b", "[a-z0-9]{2}", "(ab|c)*d?", r"\d+\.\w{1,}", "(?:a)+?", r"[^\]]", "a-b"],
}
OTHERS = {
    "idn-email": ["a"],
    "idn-hostname": ["a b"],
    "iri": ["a b"],
    "uri-reference": [" ", "a b", "a[", "%g1", "1:b", "é", "/a:b c", "://"],
    "iri-reference": ["é é", "\u00a0\n"],
    "uri-template": ["{", "{a", "a}", "{}", "{a,}", "a b"],
    "json-pointer": ["a", "/~2", "~"],
    "relative-json-pointer": ["", "01", "-1", "#"],
    "regex": ["", "a**", "[", "(a", "a{3,1}", "*", "(?<a>b)", "[z-a]", "\\", "a|", ")", "((a))"],
}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_text_of_a_kind_matches_and_another_does_not(kind: str) -> None:
    schema = {"type": "string", "format": kind}

    for text in MATCHING[kind]:
        assert is_whole(for_schema(schema), json.dumps(text, ensure_ascii=False)), text
    for text in OTHERS[kind]:
        assert not is_whole(for_schema(schema), json.dumps(text, ensure_ascii=False)), text
