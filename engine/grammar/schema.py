"""JSON schemas as the library takes them: without what demands nothing, which it would refuse."""

from collections.abc import Iterator, Mapping

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})  # names to schemas
_DATA = frozenset({"const", "enum", "default", "examples", "example"})  # values, whatever they look like
PLAIN = frozenset(  # they refer to nothing, and take no more room than they are long
    {
        *(
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "anyOf",
            "enum",
            "const",
            "minimum",
            "maximum",
        ),
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


def demanding(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema without keywords that allow everything, and with the type of `oneOf`'s branches that mean objects."""
    return _Demanding(schema).schema(schema)


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


class _Demanding:
    """Reads the parts of one schema."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root

    def schema(self, schema: Mapping[str, object]) -> dict[str, object]:
        """One schema, and all within it."""
        return {key: self._within(key, value) for key, value in schema.items() if not _is_idle(key, value)}

    def _within(self, key: str, value: object) -> object:
        if key in _DATA:
            return value
        if key in _NAMED and isinstance(value, dict):
            return {name: self._part(part) for name, part in value.items()}
        if key == "oneOf" and isinstance(value, list):
            return [self._branch(part) for part in value]
        return self._part(value)

    def _part(self, value: object) -> object:
        """What may be a schema, a list of them, or neither."""
        if isinstance(value, list):
            return [self._part(part) for part in value]
        return self.schema(value) if isinstance(value, dict) else value

    def _branch(self, branch: object) -> object:
        """One that speaks of properties alone lets all else pass that is no object, as its neighbours do."""
        part = self._part(branch)
        meant = self._resolved(branch)
        if not isinstance(meant, dict) or "type" in meant or not _OF_OBJECTS & meant.keys():
            return part
        return {"allOf": [part, {"type": "object"}]}

    def _resolved(self, branch: object) -> object:
        """What a branch refers to within the schema, or itself."""
        match branch:
            case {"$ref": str() as reference} if reference.startswith("#/"):
                found: object = self._root
                for name in reference[2:].split("/"):
                    key = name.replace("~1", "/").replace("~0", "~")
                    found = found.get(key) if isinstance(found, dict) else None
                return found
            case _:
                return branch


def _is_idle(key: str, value: object) -> bool:
    if key == "format":
        return isinstance(value, str) and value not in _FORMATS
    return key in _IDLE and value is _IDLE[key]
