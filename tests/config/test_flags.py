import argparse

import pytest

from config.catalogue import SETTINGS, Kind
from config.flags import add_flags, add_model
from config.load import load, resolve


def value_of(name: str, argv: list[str]) -> object:
    loaded = load(["m", *argv], {})
    return getattr(getattr(loaded.settings, SETTINGS[name].section), SETTINGS[name].field)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_a_flag_of_its_own(name: str) -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    setting = SETTINGS[name]

    given = parser.parse_args([setting.flag] if setting.kind is Kind.SWITCH else [setting.flag, "text"])

    assert vars(given)[name].origin == setting.flag


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["--host", "0.0.0.0"], "server.host", "0.0.0.0"),
        (["--port", "0"], "server.port", 0),
        (["--max-model-len", "512"], "model.max_context", 512),
        (["--served-model-name", "x"], "model.name", "x"),
        (["--model-alias", "a", "--model-alias", "b,c"], "model.aliases", ("a", "b", "c")),
        (["--cors-origins", "none"], "server.cors_origins", ()),
        (["--cors-origins", "https://a.example,*"], "server.cors_origins", ("https://a.example", "*")),
        (["--num-blocks", "7"], "cache.num_blocks", 7),
        (["--cache-memory", "2GiB"], "cache.memory_bytes", 2 << 30),
        (["--cache-memory=auto"], "cache.memory_bytes", None),
        (["--max-sequences", "4"], "engine.max_sequences", 4),
        (["--engine-slow-reader-seconds", "5"], "engine.slow_reader_seconds", 5.0),
        (["--no-cache-prefix-caching"], "cache.prefix_caching", False),
        (["--cache-prefix-caching"], "cache.prefix_caching", True),
        (["--server-vllm-metrics"], "server.vllm_metrics", True),
        (["--port", "1", "--server-port", "2"], "server.port", 2),
    ],
)
def test_a_flag_sets_its_setting(argv: list[str], name: str, value: object) -> None:
    assert value_of(name, argv) == value


def test_keys_add_up_over_flags() -> None:
    keys = load(["m", "--api-key", "a", "--api-key", "b"], {}).settings.server.api_keys

    assert [key.get_secret_value() for key in keys] == ["a", "b"]


def test_flags_join_the_subparser_of_a_command() -> None:
    parser = argparse.ArgumentParser()
    command = parser.add_subparsers().add_parser("trace")
    command.add_argument("prompt")
    add_flags(command)

    namespace = parser.parse_args(["trace", "hello", "--model", "m", "--print-config"])
    loaded = resolve(namespace, {})

    assert namespace.prompt == "hello"
    assert (loaded.settings.model.path, loaded.print_config) == ("m", True)


@pytest.mark.parametrize("argv", [["m", "--port", "1"], ["--port", "1", "m"], ["--print-config", "m"]])
def test_the_model_may_stand_before_or_after_the_flags(argv: list[str]) -> None:
    parser = argparse.ArgumentParser()
    add_model(parser)
    add_flags(parser)

    assert resolve(parser.parse_args(argv), {}).settings.model.path == "m"


def test_the_positional_model_wins_where_it_comes_last() -> None:
    assert load(["--model", "a", "b"], {}).settings.model.path == "b"


@pytest.mark.parametrize("argv", [["m", "--prot", "1"], ["m", "--por", "1"], ["m", "--port"], ["m", "n"]])
def test_a_flag_that_does_not_exist_ends_with_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        load(argv, {})

    assert "error:" in capsys.readouterr().err


def test_help_names_every_flag_meaning_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        load(["--help"], {})

    text = " ".join(capsys.readouterr().out.split())
    for setting in SETTINGS.values():
        assert setting.flag in text
        assert setting.meaning in text
    assert "--port INTEGER" in text
    assert "(default 32MiB)" in text
    assert "{" not in text
