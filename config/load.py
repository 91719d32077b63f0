"""Where settings come from: defaults < TOML file < environment < flags, each value with its origin."""

import argparse
import os
import re
import tomllib
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import InitSettingsSource

from config.catalogue import PREFIX, SETTINGS
from config.errors import DEFAULT, ConfigError, Given, Layer, explain, unknown
from config.flags import add_flags, add_model, given_by
from config.settings import Settings

FILE_VARIABLE = f"{PREFIX}CONFIG"
# Kubernetes gives every container such variables for a service named tidemark; they are no settings.
_SERVICE_LINK = re.compile(r"\w*(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, where each came from by dotted name, and whether to print them and end."""

    settings: Settings
    origins: Mapping[str, str]
    print_config: bool


def load(argv: Sequence[str], environ: Mapping[str, str]) -> Loaded:
    """Read `argv`, the flags and MODEL without a program's name, and the other sources.

    Raises:
        ConfigError: with one line for each wrong value.
        SystemExit: from argparse, for a flag that does not exist and after `--help`.
    """
    parser = argparse.ArgumentParser("tidemark", usage="tidemark serve MODEL [flags]")
    add_model(parser)
    add_flags(parser)
    return resolve(parser.parse_args(argv), environ)


def resolve(
    namespace: argparse.Namespace, environ: Mapping[str, str] = os.environ, *, assumed: Layer | None = None
) -> Loaded:
    """Merge what a parser that `add_flags` extended has found with the other sources; what is `assumed` yields to all.

    Raises:
        ConfigError: with one line for each wrong value.
    """
    path = _path_of_file(namespace.config, environ)
    file = {} if path is None else _from_file(path)
    layers = (given_by(namespace), _from_environment(environ), file, assumed or {})  # the highest first
    strangers = [line for layer in layers for line in unknown(layer)]
    if strangers:
        raise ConfigError("\n".join(strangers))
    given = ChainMap(*(dict(layer) for layer in layers))
    origins = {name: given[name].origin if name in given else DEFAULT for name in SETTINGS}
    return Loaded(_validated(layers, given), origins, namespace.print_config)


def _validated(layers: Sequence[Layer], given: Layer) -> Settings:
    sources = tuple(InitSettingsSource(Settings, init_kwargs=_tree(layer)) for layer in layers)
    try:
        return Settings(_build_sources=(sources, {}))  # type: ignore[call-arg]  # BaseSettings' own, hidden by the fields
    except ValidationError as wrong:
        raise ConfigError("\n".join(explain(wrong, given))) from None


def _tree(layer: Layer) -> dict[str, dict[str, object]]:
    tree: dict[str, dict[str, object]] = {}
    for name, given in layer.items():
        tree.setdefault(SETTINGS[name].section, {})[SETTINGS[name].field] = given.value
    return tree


def _from_environment(environ: Mapping[str, str]) -> Layer:
    ours = {name: text for name, text in environ.items() if name.startswith(PREFIX) and name != FILE_VARIABLE}
    links = {name for name, text in ours.items() if _SERVICE_LINK.fullmatch(name) or text.startswith(("tcp:", "udp:"))}
    dotted = {name: name.removeprefix(PREFIX).replace("__", ".").lower() for name in ours if name not in links}
    return {
        known: Given(SETTINGS[known].parse(ours[name]) if known in SETTINGS else ours[name], name)
        for name, known in dotted.items()
    }


def _path_of_file(flag: str | None, environ: Mapping[str, str]) -> Path | None:
    """An empty variable names no file: so it is unset where an image sets it."""
    if flag == "":
        raise ConfigError("--config: must be the path of a TOML file, got ''")
    path = environ.get(FILE_VARIABLE) if flag is None else flag
    return Path(path) if path else None


def _from_file(path: Path) -> Layer:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: the settings can't be read: {error.strerror}") from None
    except ValueError as error:  # of tomllib, which names line and column, or of the UTF-8 decoder
        raise ConfigError(f"{path}: not a TOML file: {error}") from None
    return {name: Given(value, str(path)) for name, value in _flat(tables, "").items()}


def _flat(table: Mapping[str, object], prefix: str) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = tuple(value) if isinstance(value, list) else value
    return flat
