"""The command line's flags, one for each setting of the tree and short ones for those that are used most."""

import argparse
from collections.abc import Sequence

from config.catalogue import SETTINGS, Kind, Setting
from config.errors import Given, Layer

SHORT = {
    "model.path": "--model",
    "model.name": "--served-model-name",
    "model.aliases": "--model-alias",
    "model.draft_path": "--draft-model",
    "model.weights": "--weights",
    "model.kernels": "--kernels",
    "model.num_threads": "--num-threads",
    "model.max_context": "--max-model-len",
    "model.chat_template": "--chat-template",
    "cache.block_size": "--block-size",
    "cache.num_blocks": "--num-blocks",
    "cache.memory_bytes": "--cache-memory",
    "engine.max_sequences": "--max-sequences",
    "engine.max_step_positions": "--max-step-positions",
    "engine.max_step_seconds": "--max-step-seconds",
    "engine.max_draft_tokens": "--max-draft-tokens",
    "engine.max_waiting": "--max-waiting",
    "engine.check_laws": "--check-laws",
    "server.host": "--host",
    "server.port": "--port",
    "server.api_keys": "--api-key",
    "server.cors_origins": "--cors-origins",
    "server.show_text": "--show-text",
    "server.tool_format": "--tool-format",
    "server.reasoning_format": "--reasoning-format",
    "server.traces": "--otel",
    "server.log_level": "--log-level",
    "server.log_format": "--log-format",
}


class _Give(argparse.Action):
    """Keeps what a flag gave, and the flag's own name as its origin, under the setting's dotted name."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        setting = SETTINGS[self.dest]
        origin = option_string or str(self.metavar)
        if setting.kind is Kind.SWITCH:
            value: object = not origin.startswith("--no-")
        else:
            value = setting.parse(str(values))
        earlier = getattr(namespace, self.dest, None)
        if isinstance(value, tuple) and earlier is not None:
            value = (*earlier.value, *value)
        setattr(namespace, self.dest, Given(value, origin))


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Give `parser` a flag for each setting, `--config` and `--print-config`."""
    parser.allow_abbrev = False  # an abbreviation would change its meaning with the next new setting
    parser.add_argument("--config", metavar="FILE", help="read settings from a TOML file (TIDEMARK_CONFIG)")
    parser.add_argument("--print-config", action="store_true", help="print every setting and where it comes from")
    for section in dict.fromkeys(setting.section for setting in SETTINGS.values()):
        group = parser.add_argument_group(section)
        for setting in SETTINGS.values():
            if setting.section == section:
                _add(group, setting)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the positional MODEL; it may be left out where another source names the model."""
    parser.add_argument(
        dest="model.path", metavar="MODEL", nargs="?", action=_Give, default=argparse.SUPPRESS,
        help=SETTINGS["model.path"].meaning,
    )  # fmt: skip


def add_key(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the flag with which a client gives its key."""
    parser.add_argument(
        "--api-key", dest="server.api_keys", metavar="KEY", action=_Give, default=argparse.SUPPRESS,
        help="the key to send; it shows in process lists, TIDEMARK_SERVER__API_KEYS does not",
    )  # fmt: skip


def given_by(namespace: argparse.Namespace) -> Layer:
    """What the flags gave."""
    return {name: given for name, given in vars(namespace).items() if name in SETTINGS}


def _add(group: argparse._ArgumentGroup, setting: Setting) -> None:
    options = [*([SHORT[setting.name]] if setting.name in SHORT else []), setting.flag]
    default = "" if setting.required else f" (default {setting.spell(setting.default)})"
    text = setting.meaning + default
    if setting.kind is Kind.SWITCH:
        options = [*options, *(f"--no-{option[2:]}" for option in options)]
        group.add_argument(*options, dest=setting.name, action=_Give, nargs=0, default=argparse.SUPPRESS, help=text)
    else:
        group.add_argument(
            *options,
            dest=setting.name,
            action=_Give,
            default=argparse.SUPPRESS,
            help=text,
            metavar="|".join(setting.choices) or setting.kind.name,
        )
