import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest

from config.errors import ConfigError
from config.flags import add_flags
from config.load import Loaded, load, resolve
from config.settings import ModelSettings, Settings


def wrong(argv: list[str], environ: Mapping[str, str] | None = None) -> str:
    """The message that these sources are refused with."""
    with pytest.raises(ConfigError) as raised:
        load(argv, environ or {})
    return str(raised.value)


def load_file(tmp_path: Path, text: str) -> Loaded:
    file = tmp_path / "tidemark.toml"
    file.write_text(text, encoding="utf-8")
    return load(["m", "--config", str(file)], {})


def wrong_file(tmp_path: Path, text: str) -> str:
    """The message that a file of this text is refused with, its path cut to its name."""
    with pytest.raises(ConfigError) as raised:
        load_file(tmp_path, text)
    return str(raised.value).replace(f"{tmp_path}/", "")


def test_without_sources_every_setting_has_its_default() -> None:
    loaded = load(["m"], {})

    assert loaded.settings == Settings(model=ModelSettings(path="m"))
    assert {origin for name, origin in loaded.origins.items() if name != "model.path"} == {"default"}
    assert loaded.origins["model.path"] == "MODEL"
    assert not loaded.print_config


def test_flags_win_over_variables_over_the_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[server]\nport = 1\nhost = 'file'\nmax_json_depth = 9\n[cache]\nblock_size = 8\n")
    environ = {"TIDEMARK_SERVER__PORT": "2", "TIDEMARK_SERVER__HOST": "variable"}

    loaded = load(["m", "--config", str(file), "--port", "3"], environ)

    server = loaded.settings.server
    assert (server.port, server.host, server.max_json_depth, server.drain_seconds) == (3, "variable", 9, 30.0)
    assert loaded.settings.cache.block_size == 8
    assert loaded.origins["server.port"] == "--port"
    assert loaded.origins["server.host"] == "TIDEMARK_SERVER__HOST"
    assert loaded.origins["server.max_json_depth"] == str(file)
    assert loaded.origins["server.drain_seconds"] == "default"


def test_a_list_of_a_higher_source_replaces_the_lower_one(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[model]\naliases = ['a', 'b']\n")

    loaded = load(["m", "--config", str(file), "--model-alias", "c"], {})

    assert loaded.settings.model.aliases == ("c",)


def test_auto_in_a_higher_source_undoes_a_value(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[cache]\nnum_blocks = 5\n")

    loaded = load(["m", "--config", str(file)], {"TIDEMARK_CACHE__NUM_BLOCKS": "auto"})

    assert loaded.settings.cache.num_blocks is None
    assert loaded.origins["cache.num_blocks"] == "TIDEMARK_CACHE__NUM_BLOCKS"


def test_the_file_may_be_named_by_a_variable_and_a_flag_wins(tmp_path: Path) -> None:
    named, flagged = tmp_path / "named.toml", tmp_path / "flagged.toml"
    named.write_text("[server]\nport = 1\n")
    flagged.write_text("[server]\nport = 2\n")
    environ = {"TIDEMARK_CONFIG": str(named)}

    assert load(["m"], environ).settings.server.port == 1
    assert load(["m", "--config", str(flagged)], environ).settings.server.port == 2


def test_an_empty_name_of_a_file_is_refused_though_a_variable_names_one(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.touch()

    assert wrong(["m", "--config", ""], {"TIDEMARK_CONFIG": str(file)}).startswith("--config: must be the path of a ")
    assert wrong(["m", "--config="]).startswith("--config: must be the path of a ")


def test_an_empty_variable_names_no_file() -> None:
    assert load(["m"], {"TIDEMARK_CONFIG": ""}).settings == Settings(model=ModelSettings(path="m"))


def test_the_model_may_come_from_any_source(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[model]\npath = 'file'\n")

    assert load(["--config", str(file)], {}).settings.model.path == "file"
    assert load([], {"TIDEMARK_MODEL__PATH": "variable"}).settings.model.path == "variable"
    assert load(["--model", "flag"], {}).settings.model.path == "flag"
    assert load(["--port", "1", "MODEL"], {}).settings.model.path == "MODEL"


def test_without_a_mapping_the_process_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SERVER__PORT", "2")
    parser = argparse.ArgumentParser()
    add_flags(parser)

    assert resolve(parser.parse_args(["--model", "m"])).settings.server.port == 2


def test_variables_of_other_programs_are_ignored() -> None:
    loaded = load(["m"], {"PORT": "1", "HOST": "x", "SERVER__PORT": "1", "MYTIDEMARK_SERVER__PORT": "1", "PATH": "/"})

    assert loaded.settings.server.port == 8000


def test_what_kubernetes_says_of_a_service_named_tidemark_is_ignored() -> None:
    links = {
        "TIDEMARK_SERVICE_HOST": "10.0.0.1",
        "TIDEMARK_SERVICE_PORT": "80",
        "TIDEMARK_SERVICE_PORT_HTTP": "80",
        "TIDEMARK_PORT": "tcp://10.0.0.1:80",
        "TIDEMARK_PORT_80_TCP": "tcp://10.0.0.1:80",
        "TIDEMARK_PORT_80_TCP_PROTO": "tcp",
        "TIDEMARK_PORT_80_TCP_PORT": "80",
        "TIDEMARK_PORT_80_TCP_ADDR": "10.0.0.1",
        "TIDEMARK_CANARY_SERVICE_HOST": "10.0.0.2",
    }

    assert load(["m"], links).settings == Settings(model=ModelSettings(path="m"))


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--port", "70000"], "server.port: must be an integer from 0 to 65535, got 70000 (from --port)"),
        (["--server-port", "-1"], "server.port: must be an integer from 0 to 65535, got -1 (from --server-port)"),
        (["--port", "http"], "server.port: must be an integer from 0 to 65535, got 'http' (from --port)"),
        (
            ["--engine-stall-seconds", "nan"],
            "engine.stall_seconds: must be a finite number above 0, got nan (from --engine-stall-seconds)",
        ),
        (
            ["--max-step-seconds", "inf"],
            "engine.max_step_seconds: must be a finite number above 0 or auto, got inf (from --max-step-seconds)",
        ),
        (
            ["--server-drain-seconds", "inf"],
            "server.drain_seconds: must be a finite number of at least 0, got inf (from --server-drain-seconds)",
        ),
        (
            ["--weights", "int3"],
            "model.weights: must be one of auto, float32, bfloat16, int8, int4, got 'int3' (from --weights)",
        ),
        (
            ["--cache-memory", "3"],
            "cache.memory_bytes: must be a size such as 512MiB of at least 1MiB or auto, got '3' (from --cache-memory)",
        ),
        (
            ["--num-blocks", "0"],
            "cache.num_blocks: must be an integer of at least 1 or auto, got 0 (from --num-blocks)",
        ),
        (
            ["--cors-origins", "a,,,b"],
            "server.cors_origins: must be a list of non-empty texts, got ('a', '', '', 'b') (from --cors-origins)",
        ),
    ],
)
def test_a_wrong_flag_is_one_line_with_its_field_range_and_source(argv: list[str], line: str) -> None:
    assert wrong(["m", *argv]) == line


@pytest.mark.parametrize(
    ("variable", "text", "line"),
    [
        (
            "TIDEMARK_SERVER__PORT",
            "http",
            "server.port: must be an integer from 0 to 65535, got 'http' (from TIDEMARK_SERVER__PORT)",
        ),
        (
            "TIDEMARK_CACHE__PREFIX_CACHING",
            "maybe",
            "cache.prefix_caching: must be true or false, got 'maybe' (from TIDEMARK_CACHE__PREFIX_CACHING)",
        ),
        (
            "TIDEMARK_SERVER__PROT",
            "1",
            "server.prot: no such setting (from TIDEMARK_SERVER__PROT); did you mean TIDEMARK_SERVER__PORT?",
        ),
        ("TIDEMARK_PORT", "1", "port: no such setting (from TIDEMARK_PORT); did you mean TIDEMARK_SERVER__PORT?"),
        ("TIDEMARK_XYZZY", "1", "xyzzy: no such setting (from TIDEMARK_XYZZY)"),
        (
            "TIDEMARK_SERVER",
            "{}",
            "server: no such setting (from TIDEMARK_SERVER); did you mean TIDEMARK_SERVER__PORT?",
        ),
    ],
)
def test_a_wrong_variable_is_one_line_with_its_field_range_and_source(variable: str, text: str, line: str) -> None:
    assert wrong(["m"], {variable: text}) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[server]\nport = 70000", "server.port: must be an integer from 0 to 65535, got 70000 (from tidemark.toml)"),
        ("[server]\nport = true", "server.port: must be an integer from 0 to 65535, got True (from tidemark.toml)"),
        ("[server]\nport = '80'", "server.port: must be an integer from 0 to 65535, got '80' (from tidemark.toml)"),
        ("[server]\nport = [1]", "server.port: must be an integer from 0 to 65535, got (1,) (from tidemark.toml)"),
        (
            "[model]\naliases = [1, 2]",
            "model.aliases: must be a list of non-empty texts, got (1, 2) (from tidemark.toml)",
        ),
        ("[server]\nprot = 1", "server.prot: no such setting (from tidemark.toml); did you mean server.port?"),
        ("port = 1", "port: no such setting (from tidemark.toml); did you mean server.port?"),
        ("[server.port]\nx = 1", "server.port.x: no such setting (from tidemark.toml); did you mean server.port?"),
        ("server = 1", "server: no such setting (from tidemark.toml); did you mean server.port?"),
        ('"x\\ny" = 1', "'x\\ny': no such setting (from tidemark.toml)"),
        (
            "[server\n",
            "tidemark.toml: not a TOML file: Expected ']' at the end of a table declaration (at line 1, column 8)",
        ),
    ],
)
def test_a_wrong_file_is_one_line_with_its_field_range_and_name(tmp_path: Path, text: str, line: str) -> None:
    assert wrong_file(tmp_path, text) == line


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_bytes(b"\xff\xfe")

    assert wrong(["m", "--config", str(file)]).startswith(f"{file}: not a TOML file: 'utf-8' codec")


def test_a_file_that_is_missing_or_a_folder_is_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "t.toml"

    assert wrong(["m", "--config", str(missing)]) == f"{missing}: the settings can't be read: No such file or directory"
    assert wrong(["m"], {"TIDEMARK_CONFIG": str(tmp_path)}) == f"{tmp_path}: the settings can't be read: Is a directory"


def test_a_missing_model_says_how_to_name_one() -> None:
    line = "model.path: not set; give MODEL, --model-path, TIDEMARK_MODEL__PATH or a TOML file"

    assert wrong([]) == line
    assert wrong(["--weights", "float32"]) == line


def test_each_of_several_wrong_values_has_its_line() -> None:
    lines = wrong(["m", "--port", "70000", "--log-level", "loud"], {"TIDEMARK_CACHE__BLOCK_SIZE": "0"}).splitlines()

    assert [line.partition(":")[0] for line in lines] == ["cache.block_size", "server.port", "server.log_level"]


def test_values_that_do_not_go_together_name_both_sources(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[cache]\nnum_blocks = 5\n")

    message = wrong(["m", "--config", str(file), "--cache-memory", "1GiB", "--max-sequences", "300"])

    assert message.splitlines() == [
        "cache: only one of num_blocks and memory_bytes can be set "
        f"(cache.num_blocks from {file}, cache.memory_bytes from --cache-memory)",
        "engine: max_sequences (300) must be at most max_step_positions (256), one for each "
        "(engine.max_sequences from --max-sequences, engine.max_step_positions from default)",
    ]


def test_a_wrong_key_is_never_shown() -> None:
    message = wrong(["m"], {"TIDEMARK_SERVER__API_KEYS": "sesame,"})

    assert message == (
        "server.api_keys: must be a list of keys of visible ASCII characters, without spaces, "
        "got a hidden value (from TIDEMARK_SERVER__API_KEYS)"
    )


@pytest.mark.parametrize("key", ["ké", " pad ", "pad ", "a b", "a\nb", "a\n", "a\x7f", "a\tb", "\udcff"])
def test_a_key_that_no_client_can_send_is_refused_and_never_shown(key: str) -> None:
    message = wrong(["m", "--api-key", f"good,{key}"])

    assert message.endswith("without spaces, got a hidden value (from --api-key)")


def test_a_key_may_have_any_visible_character_of_ascii() -> None:
    every = "".join(map(chr, range(0x21, 0x7F))).replace(",", "")

    (key,) = load(["m", "--api-key", every], {}).settings.server.api_keys

    assert key.get_secret_value() == every


def test_an_empty_key_variable_does_not_open_the_server() -> None:
    assert "server.api_keys" in wrong(["m"], {"TIDEMARK_SERVER__API_KEYS": ""})


def test_a_long_wrong_value_is_cut() -> None:
    line = wrong(["m", "--port", "9" * 10_000])

    assert "9" * 70 in line
    assert len(line) < 200


def test_surrogates_from_a_broken_environment_are_refused_in_plain_text() -> None:
    line = wrong(["m"], {"TIDEMARK_SERVER__HOST": "\udcff"})

    assert line == "server.host: must be a non-empty text, got '\\udcff' (from TIDEMARK_SERVER__HOST)"
