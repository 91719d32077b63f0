"""JSON schemas as the library takes them: without what demands nothing, which it would refuse."""

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote

Schema = dict[str, object]
NOTES = frozenset({"title", "description", "$comment", "default", "examples", "deprecated"})  # for people

# Names to schemas, and `dependencies` to names too.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_DATA = frozenset({"const", "enum", "default", "examples", "example"})  # values, whatever they look like
PLAIN = frozenset(  # they refer to nothing, and take no more room than they are long
    {
        *("type", "properties", "required", "additionalProperties", "items"),
        *("anyOf", "enum", "const", "minimum", "maximum"),
        *("$schema", "$comment", "title", "description", "default", "examples"),
    }
)
_IDLE = {"uniqueItems": False, "unevaluatedProperties": True, "unevaluatedItems": True, "propertyNames": True}
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties", "patternProperties"})

# Those that JSON Schema defines. Any other (OpenAPI's int64, password, …) is a note for people.
_FORMATS = frozenset(
    {
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"),
        *("uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template"),
        *("json-pointer", "relative-json-pointer", "regex"),
    }
)


def demanding(schema: Mapping[str, object]) -> Schema:
    """The schema without keywords that allow everything, and with the type of `oneOf`'s branches that mean objects."""
    return changed(schema, _Demanding(schema).schema)


def subschemas(schema: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """A schema, and all within it."""
    yield schema
    for key, value in schema.items():
        if key in _DATA:
            continue
        within = (
            value.values()
            if key in _NAMED and isinstance(value, dict)
            else value
            if isinstance(value, list)
            else [value]
        )
        for part in within:
            if isinstance(part, dict):
                yield from subschemas(part)


def changed(schema: Mapping[str, object], change: Callable[[Schema], Schema]) -> Schema:
    """A schema changed, and then all within what came of it."""
    return {key: _changed_within(key, value, change) for key, value in change(dict(schema)).items()}


def resolved(schema: object, root: Mapping[str, object]) -> object:
    """What a schema refers to within the root, by nothing but its reference, or itself."""
    match schema:
        case {"$ref": str() as reference} if reference.startswith("#/"):
            found: object = root
            for name in unquote(reference[2:]).split("/"):
                key = name.replace("~1", "/").replace("~0", "~")
                found = found.get(key) if isinstance(found, Mapping) else None
            return found
        case _:
            return schema


def meaning(schema: object, root: Mapping[str, object]) -> object:
    """What a schema demands, or what it refers to does. None where it refers to what is not there, or demands more."""
    if not isinstance(schema, dict):
        return schema
    demands = {key: value for key, value in schema.items() if key not in NOTES}
    if "$ref" not in demands:
        return demands
    found = resolved(demands, root) if len(demands) == 1 else demands
    return None if found is demands else meaning(found, root)


def _changed_within(key: str, value: object, change: Callable[[Schema], Schema]) -> object:
    if key in _DATA:
        return value
    if key in _NAMED and isinstance(value, dict):
        return {name: _changed_part(part, change) for name, part in value.items()}
    return _changed_part(value, change)


def _changed_part(value: object, change: Callable[[Schema], Schema]) -> object:
    """What may be a schema, a list of them, or neither."""
    if isinstance(value, list):
        return [_changed_part(part, change) for part in value]
    return changed(value, change) if isinstance(value, dict) else value


class _Demanding:
    """Leaves out of one schema."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root

    def schema(self, schema: Schema) -> Schema:
        """One schema, and none within it."""
        kept = {key: value for key, value in schema.items() if not _is_idle(key, value)}
        if isinstance(branches := kept.get("oneOf"), list):
            kept["oneOf"] = [self._branch(branch) for branch in branches]
        return kept

    def _branch(self, branch: object) -> object:
        """One that speaks of properties alone lets all else pass that is no object, as its neighbours do."""
        meant = resolved(branch, self._root)
        if not isinstance(meant, dict) or "type" in meant or not _OF_OBJECTS & meant.keys():
            return branch
        return {"allOf": [branch, {"type": "object"}]}


def _is_idle(key: str, value: object) -> bool:
    if key == "format":
        return isinstance(value, str) and value not in _FORMATS
    return key in _IDLE and value is _IDLE[key]
