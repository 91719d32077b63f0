"""What is wrong with the settings, in one line for each wrong value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from config.catalogue import PREFIX, SETTINGS

DEFAULT = "default"
MAX_SHOWN = 80  # characters of a wrong value: enough to recognise it


class ConfigError(Exception):
    """The settings can't be used. The message has one line for each wrong value."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value as a source gave it, and what to call that source."""

    value: object
    origin: str


Layer = Mapping[str, Given]  # what one source gave, by dotted name


def unknown(layer: Layer) -> list[str]:
    """One line for each name that is no setting."""
    strangers = [name for name in layer if name not in SETTINGS]
    return [
        f"{_printable(name)}: no such setting (from {layer[name].origin}){_hint(name, layer)}" for name in strangers
    ]


def _hint(name: str, layer: Layer) -> str:
    by_field = {setting.field: setting for setting in SETTINGS.values()}
    whole = [SETTINGS[match] for match in get_close_matches(name, SETTINGS, n=1)]
    parts = [by_field[match] for match in get_close_matches(name.rpartition(".")[2], by_field, n=1)]
    for setting in (*whole, *parts):
        return f"; did you mean {setting.variable if layer[name].origin.startswith(PREFIX) else setting.name}?"
    return ""


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def explain(wrong: ValidationError, given: Layer) -> list[str]:
    """One line for each wrong value or combination: its name, what is allowed, what came, from where."""
    lines = [_line(error, given) for error in wrong.errors(include_url=False)]
    return list(dict.fromkeys(lines))  # a list with two wrong items is one wrong value


def _line(error: ErrorDetails, given: Layer) -> str:
    section, name = str(error["loc"][0]), ".".join(str(part) for part in error["loc"][:2])
    if error["type"] == "wrong_together":
        names = [f"{section}.{field}" for field in error["ctx"]["fields"]]
        return f"{section}: {error['ctx']['rule']} ({_origins(names, given)})"
    if error["type"] == "missing":
        return _missing(section)
    setting = SETTINGS[name]
    shown = "a hidden value" if setting.secret else _shown(given[name].value)
    return f"{name}: must be {setting.allowed}, got {shown} (from {given[name].origin})"


def _missing(section: str) -> str:
    required = next(setting for setting in SETTINGS.values() if setting.required and setting.section == section)
    return f"{required.name}: not set; give MODEL, {required.flag}, {required.variable} or a TOML file"


def _origins(names: Sequence[str], given: Layer) -> str:
    return ", ".join(f"{name} from {given[name].origin if name in given else DEFAULT}" for name in names)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
