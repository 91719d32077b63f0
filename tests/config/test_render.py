import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from config.catalogue import SETTINGS, Kind
from config.load import load
from config.render import render, toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text != "auto")


def test_each_value_has_its_origin_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[server]\ndrain_seconds = 1.5\n")
    argv = ["some/model", "--config", str(file), "--port", "9", "--cache-memory", "1024MiB"]

    lines = [" ".join(line.split()) for line in render(load(argv, {"TIDEMARK_SERVER__HOST": "::1"})).splitlines()]

    assert [line for line in lines if line.startswith("[")] == ["[model]", "[cache]", "[engine]", "[server]"]
    assert 'path = "some/model" # MODEL' in lines
    assert "port = 9 # --port" in lines
    assert 'host = "::1" # TIDEMARK_SERVER__HOST' in lines
    assert f"drain_seconds = 1.5 # {file}" in lines
    assert 'memory_bytes = "1GiB" # --cache-memory' in lines
    assert 'num_blocks = "auto" # default' in lines
    assert 'cors_origins = ["localhost"] # default' in lines
    assert "prefix_caching = true # default" in lines


def test_keys_are_hidden_and_can_not_be_read_back() -> None:
    text = render(load(["m"], {"TIDEMARK_SERVER__API_KEYS": "sesame"}))

    assert "sesame" not in text
    assert "api_keys" not in tomllib.loads(text)["server"]
    assert "(hidden)" in text


BY_KIND: Mapping[Kind, st.SearchStrategy[object]] = {
    Kind.TEXT: TEXT,
    Kind.INTEGER: st.integers(64, 512),  # within every range, whichever settings meet
    Kind.NUMBER: st.floats(1e-9, 1e9),
    Kind.SIZE: st.integers(1 << 20, 1 << 50),
    Kind.SWITCH: st.booleans(),
    Kind.LIST: st.lists(TEXT),
}
APART = {"model.path", "server.api_keys", "server.metrics_need_key", "engine.max_sequences", "cache.num_blocks"}
VALUES = {
    name: st.sampled_from(setting.choices) if setting.choices else BY_KIND[setting.kind]
    for name, setting in SETTINGS.items()
    if name not in APART
}


@given(st.fixed_dictionaries({"model.path": TEXT}, optional=VALUES))
def test_what_is_printed_reads_back_as_the_same_settings(
    tmp_path_factory: pytest.TempPathFactory, values: Mapping[str, object]
) -> None:
    folder = tmp_path_factory.mktemp("config")
    first, second = folder / "first.toml", folder / "second.toml"
    first.write_text("".join(f"{name} = {toml(value)}\n" for name, value in values.items()), encoding="utf-8")
    loaded = load(["--config", str(first)], {})

    second.write_text(render(loaded), encoding="utf-8", newline="")

    assert load(["--config", str(second)], {}).settings == loaded.settings
    for name, value in values.items():
        assert loaded.settings.model_dump()[SETTINGS[name].section][SETTINGS[name].field] == (
            tuple(value) if isinstance(value, list) else value
        )
