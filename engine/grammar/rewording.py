"""Rewording: keywords that the library lacks, said by those that it has. What fits the new words fits the old ones."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from urllib.parse import quote

from engine.grammar.allowance import Allowance
from engine.grammar.formats import FORMATS
from engine.grammar.opposite import Opposites, Said, every, some
from engine.grammar.schema import Schema, changed, meaning

MAX_LISTED = 5  # values of which an array may hold each once: it has 326 contents
CHARACTERS = 10  # of a word, about
MAX_BRANCHES = 8  # that exclude one another: each names all others
MAX_KEYS = 64  # of an object, where one is chosen: each way names all others

_DIALECT = re.compile(r"https?://json-schema\.org/(?:draft-0([3-7])/|draft/(2019-09|2020-12)/)?schema#?")
_SINCE = {"propertyNames": 6, "if": 7, "dependentRequired": 8, "dependentSchemas": 8}  # drafts: before, they are notes
_LATEST = 9
_OPEN = "%:?=&@!$'()*+,;~/#"  # characters of a reference that are not escaped


def reworded(schema: Mapping[str, object]) -> Schema:
    """The schema, in other words where there are some. What can't be said stays, for the library to refuse."""
    return changed(schema, _Rewording(schema).schema)


class _Rewording:
    """Knows the draft and the references of one schema."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._allowance = Allowance()
        self._opposites = Opposites(root, self._allowance)
        ways: dict[str, Callable[[Schema], list[Schema] | None]] = {
            "format": _format,
            "propertyNames": self._property_names,
            "minProperties": self._min_properties,
            "maxProperties": self._max_properties,
            "uniqueItems": self._unique_items,
            "oneOf": self._one_of,
            "not": lambda schema: _listed(self._opposites.of(schema["not"])),
            "if": self._if,
            "dependencies": _dependencies("dependencies"),
            "dependentRequired": _dependencies("dependentRequired"),
            "dependentSchemas": _dependencies("dependentSchemas"),
        }
        draft = _draft(root.get("$schema"))
        self._ways = {key: way for key, way in ways.items() if _SINCE.get(key, 0) <= draft}

    def schema(self, schema: Schema) -> Schema:
        """One schema, and none within it."""
        kept, said = dict(schema), list[Schema]()
        for key, way in self._ways.items():
            if key in schema and (words := way(schema)) is not None:
                del kept[key]
                said += words
        if "if" not in kept and "if" in schema:
            kept = {key: value for key, value in kept.items() if key not in {"then", "else"}}
        for key, spelled in (("$schema", _dialect), ("$ref", _reference)):
            if isinstance(value := kept.get(key), str):
                kept[key] = spelled(value)
        return _joined(kept, said)

    def _one_of(self, schema: Schema) -> list[Schema] | None:
        """Each branch without all others, where they tell but which keys have to be there."""
        branches = schema["oneOf"]
        if not isinstance(branches, list) or not 1 < len(branches) <= MAX_BRANCHES or not all(map(_of_keys, branches)):
            return None
        others = [self._opposites.of(branch) for branch in branches]
        ways = (every([branch, *others[:n], *others[n + 1 :]]) for n, branch in enumerate(branches))
        return _listed(some(ways))

    def _if(self, schema: Schema) -> list[Schema] | None:
        """Both that and what follows from it, or its opposite and what follows else."""
        condition = _said(schema["if"])
        then, otherwise = _said(schema.get("then", True)), _said(schema.get("else", True))
        if then is True and otherwise is True:
            return []
        unless = every([self._opposites.of(condition), otherwise])
        return _listed(some([then if otherwise is True else every([condition, then]), unless]))

    def _property_names(self, schema: Schema) -> list[Schema] | None:
        """Keys that match, and no others; those of each other keyword have to be among them."""
        match meaning(schema["propertyNames"], self._root):
            case {"type": "string", **rest} if not rest:
                return []
            case {"pattern": str() as pattern, **rest} if rest in ({}, {"type": "string"}):
                return [{"patternProperties": {pattern: {}}, "additionalProperties": False}]
            case {"enum": list() as listed, **rest} if rest in ({}, {"type": "string"}):
                keys = [key for key in listed if isinstance(key, str)]
                return [{"properties": {key: {} for key in keys}, "additionalProperties": False}]
            case _:
                return None

    def _unique_items(self, schema: Schema) -> list[Schema] | None:
        """All that an array of few values may hold."""
        least, most = _count(schema.get("minItems", 0)), _count(schema.get("maxItems", MAX_LISTED))
        if most in (0, 1):
            return []
        match schema.get("type"), meaning(schema.get("items"), self._root):
            case "array", {"enum": list() as values} if least is not None and most is not None:
                different = list(_different(values))
                if len(different) > MAX_LISTED:
                    return None
                counts = range(least, min(most, len(different)) + 1)
                held = [list(some) for count in counts for some in permutations(different, count)]
                self._allowance.take(len(held) * len(json.dumps(different)) // CHARACTERS)
                return [{"enum": held}]
            case _:
                return None

    def _min_properties(self, schema: Schema) -> list[Schema] | None:
        """Of the keys that are named but not required one more, or none."""
        least, required, optional = _count(schema["minProperties"]), *_keys(schema)
        if least is not None and least <= len(required):
            return []
        if least != len(required) + 1 or not 0 < len(optional) <= MAX_KEYS:
            return None
        self._allowance.take(len(optional))
        return [{"anyOf": [{"required": [key]} for key in optional]}]

    def _max_properties(self, schema: Schema) -> list[Schema] | None:
        """The required keys, and of those that are named one more, or none."""
        most, required, optional = _count(schema["maxProperties"]), *_keys(schema)
        if most is None or most - len(required) not in (0, 1) or not optional:
            return None
        none: dict[str, object] = {**dict.fromkeys(required, True), **dict.fromkeys(optional, False)}
        if len(none) > MAX_KEYS:
            return None
        self._allowance.take(len(none) ** 2)
        ways = [none, *({**none, key: True} for key in optional if most > len(required))]
        return [{"anyOf": [{"properties": way, "additionalProperties": False} for way in ways]}]


def _format(schema: Schema) -> list[Schema] | None:
    kind = schema["format"]
    said = FORMATS.get(kind) if isinstance(kind, str) else None
    return None if said is None else [dict(said)]


def _dependencies(keyword: str) -> Callable[[Schema], list[Schema] | None]:
    """Where a key is, others have to be, or a schema has to fit."""

    def way(schema: Schema) -> list[Schema] | None:
        given = schema[keyword]
        if not isinstance(given, dict):
            return None
        wanted: dict[str, Said | None] = {
            key: {"required": part} if isinstance(part, list) else _said(part) for key, part in given.items()
        }
        return _listed(every(some([{"properties": {key: False}}, part]) for key, part in wanted.items()))

    return way


def _of_keys(branch: object) -> bool:
    """Whether a branch names required keys, and no more than that it means an object."""
    match meaning(branch, {}):
        case {"required": _, **rest}:
            return rest in ({}, {"type": "object"})
        case {"allOf": [part, {"type": "object"}], **rest} if not rest:  # as `demanding` says it
            return _of_keys(part)
        case _:
            return False


def _said(value: object) -> Said | None:
    return True if value == {} else value if isinstance(value, dict | bool) else None


def _listed(said: Said | None) -> list[Schema] | None:
    """As a list of what is demanded."""
    if said is None or isinstance(said, dict):
        return None if said is None else [said]
    return [] if said else [{"anyOf": [False]}]


def _keys(schema: Schema) -> tuple[list[str], list[str]]:
    """Those that are required, and those that are named besides."""
    required, named = schema.get("required"), schema.get("properties")
    wanted = list(dict.fromkeys(key for key in required if isinstance(key, str))) if isinstance(required, list) else []
    return wanted, [key for key in named if key not in wanted] if isinstance(named, dict) else []


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _different(values: list[object]) -> Iterator[object]:
    """Each value once, as JSON has them: 1 and 1.0 are the same, 1 and true are not."""
    seen: list[tuple[bool, object]] = []
    for value in values:
        if (key := (isinstance(value, bool), value)) not in seen:
            seen.append(key)
            yield value


def _draft(uri: object) -> int:
    """Which one it names; the latest where that is not known."""
    named = _DIALECT.fullmatch(uri) if isinstance(uri, str) else None
    if named is None:
        return _LATEST
    return int(named[1]) if named[1] else {"2019-09": 8}.get(named[2], _LATEST)


def _dialect(uri: str) -> str:
    """Under its one name, where it is one that is known."""
    if (named := _DIALECT.fullmatch(uri)) is None:
        return uri
    if named[1]:
        return f"http://json-schema.org/draft-0{named[1]}/schema#"
    return f"https://json-schema.org/draft/{named[2] or '2020-12'}/schema"


def _reference(uri: str) -> str:
    return quote(uri, safe=_OPEN) if uri.startswith("#") else uri


def _joined(schema: Schema, said: list[Schema]) -> Schema:
    """A schema and more that it demands. What is of one key needs no place of its own if that is free."""
    apart = list[Schema]()
    for words in said:
        if len(words) == 1 and not words.keys() & schema.keys():
            schema = {**schema, **words}
        else:
            apart.append(words)
    if not apart:
        return schema
    others = schema.get("allOf", [])
    return {**schema, "allOf": [*others, *apart]} if isinstance(others, list) else schema
