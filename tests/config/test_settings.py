from pathlib import Path

import pytest
from pydantic import ValidationError

from config.settings import CacheSettings, EngineSettings, ModelSettings, ServerSettings, Settings


def test_a_setting_can_not_be_changed_after_construction() -> None:
    settings = Settings(model=ModelSettings(path="m"))

    with pytest.raises(ValidationError, match="frozen"):
        settings.server.port = 1
    with pytest.raises(ValidationError, match="frozen"):
        settings.server = ServerSettings()


def test_constructing_settings_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER__PORT", "1")
    monkeypatch.setenv("SERVER", '{"port": 1}')

    assert Settings(model=ModelSettings(path="m")).server.port == 8000


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("2GiB", 2 << 30), ("512 MiB", 512 << 20), ("1.5MiB", 3 << 19), ("2MB", 2_000_000), ("1048576", 1 << 20)],
)
def test_a_size_may_be_text(text: str, num_bytes: int) -> None:
    assert CacheSettings.model_validate({"memory_bytes": text}).memory_bytes == num_bytes


def test_auto_leaves_a_value_to_be_worked_out() -> None:
    model = ModelSettings.model_validate({"path": "m", "num_threads": "auto", "name": "auto"})

    assert (model.num_threads, model.name) == (None, None)


@pytest.mark.parametrize("value", [True, "8000", 8000.0, None])
def test_only_an_integer_is_an_integer(value: object) -> None:
    with pytest.raises(ValidationError):
        ServerSettings.model_validate({"port": value})


def test_a_cache_has_one_size() -> None:
    with pytest.raises(ValidationError, match="only one of num_blocks and memory_bytes"):
        CacheSettings(num_blocks=8, memory_bytes=1 << 30)


@pytest.mark.parametrize("limit", ["max_step_positions", "max_logit_rows"])
def test_a_step_has_room_for_every_sequence(limit: str) -> None:
    EngineSettings.model_validate({"max_sequences": 8, limit: 8})

    with pytest.raises(ValidationError, match=rf"max_sequences \(9\) must be at most {limit} \(8\)"):
        EngineSettings.model_validate({"max_sequences": 9, limit: 8})


def test_metrics_can_not_ask_for_keys_that_nobody_has() -> None:
    with pytest.raises(ValidationError, match="metrics_need_key needs one of api_keys"):
        ServerSettings(metrics_need_key=True)


def test_the_served_name_is_the_one_that_was_set() -> None:
    assert ModelSettings(path="org/model", name="mine").served_name == "mine"


def test_the_served_name_of_a_hub_id_is_the_whole_id() -> None:
    assert ModelSettings(path="org/model").served_name == "org/model"


def test_the_served_name_of_a_folder_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a-model.v2"
    folder.mkdir()
    monkeypatch.chdir(folder)

    names = {ModelSettings(path=path).served_name for path in (str(folder), f"{folder}/", ".", "../a-model.v2")}

    assert names == {"a-model.v2"}


def test_the_served_name_of_a_file_leaves_its_ending_out(tmp_path: Path) -> None:
    file = tmp_path / "a-model.Q4_1.gguf"
    file.touch()

    assert ModelSettings(path=str(file)).served_name == "a-model.Q4_1"
