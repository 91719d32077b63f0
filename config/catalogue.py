"""What is known of each setting beside its value, read off the tree: kind, range, default, meaning."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, assert_never

from config.settings import AUTO, KIB, MIB, Section, Settings

PREFIX = "TIDEMARK_"
EMPTY = "none"
TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
Schema = Mapping[str, Any]  # JSON Schema, as pydantic writes it


class Kind(Enum):
    """How a setting is spelled as text."""

    TEXT = "text"
    CHOICE = "choice"
    INTEGER = "integer"
    NUMBER = "number"
    SIZE = "size"
    SWITCH = "switch"
    LIST = "list"


NOUNS = {
    Kind.TEXT: "a non-empty text",
    Kind.INTEGER: "an integer",
    Kind.NUMBER: "a finite number",
    Kind.SIZE: "a size such as 512MiB",
    Kind.SWITCH: "true or false",
    Kind.LIST: "a list of non-empty texts",
}
KEYS = "a list of keys of visible ASCII characters, without spaces"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `name` is dotted, `allowed` completes the sentence "must be …"."""

    name: str
    kind: Kind
    meaning: str
    allowed: str
    choices: tuple[str, ...]
    default: object
    required: bool
    secret: bool

    @property
    def section(self) -> str:
        """The part of the tree that it belongs to."""
        return self.name.partition(".")[0]

    @property
    def field(self) -> str:
        """Its name within the section."""
        return self.name.partition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.name.replace(".", "__").upper()

    @property
    def flag(self) -> str:
        """The command-line flag that sets it."""
        return "--" + self.name.replace(".", "-").replace("_", "-")

    def parse(self, text: str) -> object:
        """The value that `text` spells; `text` itself where it spells none, for the tree to refuse."""
        match self.kind:
            case Kind.TEXT | Kind.CHOICE | Kind.SIZE:
                return text
            case Kind.INTEGER:
                return _number(int, text)
            case Kind.NUMBER:
                return _number(float, text)
            case Kind.SWITCH:
                return TRUTHS.get(text.lower(), text)
            case Kind.LIST:
                return () if text == EMPTY else tuple(text.split(","))
        assert_never(self.kind)

    def spell(self, value: object) -> str:
        """The text that `parse` reads as `value`, sizes as people write them."""
        match value:
            case None:
                return AUTO
            case bool():
                return str(value).lower()
            case list() | tuple():
                return ",".join(value) or EMPTY
            case int() if self.kind is Kind.SIZE:
                return size_text(value)
        return str(value)


def _number(kind: type[int] | type[float], text: str) -> object:
    try:
        return kind(text)
    except ValueError:
        return text


def size_text(num_bytes: int) -> str:
    """A size as people write it, exactly."""
    for unit, scale in (("GiB", MIB * KIB), ("MiB", MIB), ("KiB", KIB)):
        if num_bytes and num_bytes % scale == 0:
            return f"{num_bytes // scale}{unit}"
    return f"{num_bytes}B"


def _kind(name: str, schema: Schema) -> Kind:
    if "enum" in schema:
        return Kind.CHOICE
    if name.endswith("_bytes"):
        return Kind.SIZE
    kinds = {"string": Kind.TEXT, "integer": Kind.INTEGER, "number": Kind.NUMBER, "boolean": Kind.SWITCH}
    return kinds.get(schema["type"], Kind.LIST)


def _range(kind: Kind, schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']}"
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of at least {size_text(low) if kind is Kind.SIZE else low}"
    return ""


def _setting(name: str, schema: Schema) -> Setting:
    optional = "anyOf" in schema
    plain: Schema = schema["anyOf"][0] if optional else schema
    kind, choices = _kind(name, plain), tuple(plain.get("enum", ()))
    secret = plain.get("items", {}).get("writeOnly", False)
    noun = f"one of {', '.join(choices)}" if choices else KEYS if secret else NOUNS[kind]
    return Setting(
        name=name,
        kind=kind,
        meaning=schema["description"],
        allowed=noun + _range(kind, plain) + (f" or {AUTO}" if optional else ""),
        choices=choices,
        default=schema.get("default"),
        required="default" not in schema,
        secret=secret,
    )


def _sections() -> Mapping[str, type[Section]]:
    annotations = {name: field.annotation for name, field in Settings.model_fields.items()}
    return {name: kind for name, kind in annotations.items() if isinstance(kind, type) and issubclass(kind, Section)}


def _read_off() -> Mapping[str, Setting]:
    schemas = {name: section.model_json_schema()["properties"] for name, section in _sections().items()}
    names = {f"{section}.{name}": schema for section, fields in schemas.items() for name, schema in fields.items()}
    return MappingProxyType({name: _setting(name, schema) for name, schema in names.items()})


SETTINGS = _read_off()
