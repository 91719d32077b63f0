"""JSON schemas as the library takes them: without what demands nothing, which it would refuse."""

from collections.abc import Mapping

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})  # names to schemas
_DATA = frozenset({"const", "enum", "default", "examples", "example"})  # values, whatever they look like
_IDLE = {"uniqueItems": False, "unevaluatedProperties": True, "unevaluatedItems": True, "propertyNames": True}

# Those that JSON Schema defines. Any other (OpenAPI's int64, password, …) is a note for people.
_FORMATS = frozenset(
    {
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"),
        *("uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template"),
        *("json-pointer", "relative-json-pointer", "regex"),
    }
)


def demanding(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema without keywords that allow everything."""
    return {key: _within(key, value) for key, value in schema.items() if not _is_idle(key, value)}


def _within(key: str, value: object) -> object:
    if key in _DATA:
        return value
    if key in _NAMED and isinstance(value, dict):
        return {name: _part(part) for name, part in value.items()}
    return _part(value)


def _part(value: object) -> object:
    """What may be a schema, a list of them, or neither."""
    if isinstance(value, list):
        return [_part(part) for part in value]
    return demanding(value) if isinstance(value, dict) else value


def _is_idle(key: str, value: object) -> bool:
    if key == "format":
        return isinstance(value, str) and value not in _FORMATS
    return key in _IDLE and value is _IDLE[key]
