"""The settings as TOML, each with its origin as a comment: what `--print-config` prints."""

import json
from collections.abc import Mapping

from pydantic import SecretStr

from config.catalogue import SETTINGS, Kind, Setting
from config.load import Loaded
from config.settings import AUTO

COLUMN = 48  # where the comments begin


def render(loaded: Loaded) -> str:
    """Every setting. Read back as a TOML file it gives the same settings, but for keys: those stay hidden."""
    values = loaded.settings.model_dump()
    sections = dict.fromkeys(setting.section for setting in SETTINGS.values())
    return "\n".join(_section(section, values[section], loaded.origins) for section in sections)


def _section(section: str, values: Mapping[str, object], origins: Mapping[str, str]) -> str:
    settings = [setting for setting in SETTINGS.values() if setting.section == section]
    lines = [_line(setting, values[setting.field], origins[setting.name]) for setting in settings]
    return "\n".join([f"[{section}]", *lines, ""])


def _line(setting: Setting, value: object, origin: str) -> str:
    line = f"{setting.field} = {toml(setting.spell(value) if setting.kind is Kind.SIZE else value)}"
    if setting.secret and value:
        line, origin = f"# {line}", f"{origin} (hidden)"
    return f"{line:<{COLUMN}} # {origin}"


def toml(value: object) -> str:
    """`value` in TOML's notation, `None` as auto and a secret as stars."""
    match value:
        case None:
            return f'"{AUTO}"'
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case tuple() | list():
            return f"[{', '.join(toml(item) for item in value)}]"
        case SecretStr():
            return toml(str(value))
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML allows no bare DEL
