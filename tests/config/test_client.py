import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest

from config.client import Address, add_client_flags, resolve_client
from config.errors import ConfigError


def address(*argv: str, environ: Mapping[str, str] | None = None) -> Address:
    parser = argparse.ArgumentParser()
    add_client_flags(parser)
    return resolve_client(parser.parse_args(argv), environ or {})


def test_a_server_with_default_settings_is_on_this_machine_and_needs_no_key() -> None:
    assert address() == Address("http://127.0.0.1:8000", None)


def test_a_server_is_found_by_its_own_settings(tmp_path: Path) -> None:
    file = tmp_path / "tidemark.toml"
    file.write_text("[model]\npath = 'm'\n[server]\nport = 9000\napi_keys = ['first', 'second']\n")

    assert address("--config", str(file)) == Address("http://127.0.0.1:9000", "first")
    assert address(environ={"TIDEMARK_CONFIG": str(file), "TIDEMARK_SERVER__PORT": "9001"}).url.endswith(":9001")


def test_flags_win() -> None:
    environ = {"TIDEMARK_SERVER__API_KEYS": "theirs", "TIDEMARK_SERVER__PORT": "9000"}

    assert address("--url", "https://host", "--api-key", "mine", environ=environ) == Address("https://host", "mine")
    assert address("--url", "https://host", environ=environ).key == "theirs"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("::1", "http://[::1]:8000"),
        ("name", "http://name:8000"),
    ],
)
def test_what_a_server_listens_on_becomes_an_address_to_call(host: str, url: str) -> None:
    assert address(environ={"TIDEMARK_SERVER__HOST": host}).url == url


def test_a_free_port_can_not_be_known() -> None:
    with pytest.raises(ConfigError, match="give --url"):
        address(environ={"TIDEMARK_SERVER__PORT": "0"})
    assert address("--url", "http://host", environ={"TIDEMARK_SERVER__PORT": "0"}).url == "http://host"


def test_a_wrong_setting_is_told() -> None:
    with pytest.raises(ConfigError, match=r"server\.port: must be"):
        address(environ={"TIDEMARK_SERVER__PORT": "x"})


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(address("--api-key", "secret"))
