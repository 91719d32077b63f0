"""Formats: texts of each kind that the library does not know, by a pattern or by a kind that it knows."""

from collections.abc import Mapping

from engine.grammar.schema import Schema

_ESCAPED = "%[0-9A-Fa-f]{2}"
_BEYOND = r"\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF"  # what IRIs and templates have and URIs have not


def _reference(more: str) -> str:
    """RFC 3986's URI-reference, RFC 3987's with `more` characters; without addresses in brackets."""
    name = rf"A-Za-z0-9._~!$&'()*+,;=\-{more}"
    first, letter = rf"(?:[{name}@]|{_ESCAPED})", rf"(?:[{name}:@]|{_ESCAPED})"
    server = rf"//(?:(?:[{name}:]|{_ESCAPED})*@)?(?:[{name}]|{_ESCAPED})*(?::[0-9]*)?(?:/{letter}*)*"
    rooted = rf"/(?:{letter}+(?:/{letter}*)*)?"
    whole = rf"[A-Za-z][A-Za-z0-9+.\-]*:(?:{server}|{rooted}|{letter}+(?:/{letter}*)*)?"
    relative = rf"(?:{server}|{rooted}|{first}+(?:/{letter}*)*)?"
    return rf"^(?:{whole}|{relative})(?:\?(?:{letter}|[/?])*)?(?:#(?:{letter}|[/?])*)?$"


def _template() -> str:
    """RFC 6570's."""
    name = rf"(?:[A-Za-z0-9_]|{_ESCAPED})(?:\.?(?:[A-Za-z0-9_]|{_ESCAPED}))*"
    variable = rf"{name}(?::[1-9][0-9]{{0,3}}|\*)?"
    literal = rf"[!#$&(-;=?-\[\]_a-z~{_BEYOND}]|{_ESCAPED}"
    return rf"^(?:{literal}|\{{[+#./;?&]?{variable}(?:,{variable})*\}})*$"


def _regex() -> str:
    """Of ECMA 262's those with plain characters, classes and groups that hold no groups."""
    literal = "[A-Za-z0-9 _/,:;=!@#%&\"'<>~`\\-]"
    escaped = r"\\[dDwWsS.*+?^$|(){}\[\]/\\]"
    members = r"\[\^?(?:\\[dws\]\\]|a-z|A-Z|0-9|[A-Za-z0-9_ ])+\]"
    times = r"(?:[*+?]\??|\{[0-9]{1,3},?\})?"
    pieces = rf"(?:(?:{literal}|{escaped}|{members}|\.){times})+"
    group = rf"\((?:\?:)?{pieces}(?:\|{pieces})*\){times}"
    branch = rf"(?:{pieces}|{group})+"
    return rf"^\^?{branch}(?:\|{branch})*\$?$"


_POINTER = "(?:/(?:[^/~]|~[01])*)*"

FORMATS: Mapping[str, Schema] = {
    "idn-email": {"format": "email"},
    "idn-hostname": {"format": "hostname"},
    "iri": {"format": "uri"},
    "uri-reference": {"pattern": _reference("")},
    "iri-reference": {"pattern": _reference(_BEYOND)},
    "uri-template": {"pattern": _template()},
    "json-pointer": {"pattern": f"^{_POINTER}$"},
    "relative-json-pointer": {"pattern": f"^(?:0|[1-9][0-9]{{0,9}})(?:#|{_POINTER})$"},
    "regex": {"pattern": _regex()},
}
