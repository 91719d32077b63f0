"""What a client on this machine reads of the settings: where the server is, and a key for it."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from config.catalogue import SETTINGS
from config.errors import DEFAULT, ConfigError, Given
from config.flags import add_key
from config.load import resolve

EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # what a server listens on is no address to call
NO_MODEL = {"model.path": Given("-", DEFAULT)}  # a client has none, and the tree can't be without


@dataclass(frozen=True, slots=True)
class Address:
    """A server's URL, and the key to send."""

    url: str
    key: str | None = field(repr=False)


def add_client_flags(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the flags that say where the server is."""
    parser.allow_abbrev = False
    parser.add_argument(
        "--url", metavar="URL", help="the server (default http://127.0.0.1:8000, or as the settings say)"
    )
    add_key(parser)
    parser.add_argument(
        "--config", metavar="FILE", help="read the server's settings from a TOML file (TIDEMARK_CONFIG)"
    )
    parser.set_defaults(print_config=False)


def resolve_client(namespace: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Address:
    """Where the server is: as a flag says, else where the settings would have it listen on this machine.

    Raises:
        ConfigError: with one line for each wrong value.
    """
    server = resolve(namespace, environ, assumed=NO_MODEL).settings.server
    key = server.api_keys[0].get_secret_value() if server.api_keys else None
    if namespace.url is not None:
        return Address(namespace.url, key)
    if server.port == 0:
        raise ConfigError(f"server.port: 0 is any free port; give --url ({SETTINGS['server.port'].meaning})")
    host = EVERY_INTERFACE.get(server.host, server.host)
    return Address(f"http://{f'[{host}]' if ':' in host else host}:{server.port}", key)
