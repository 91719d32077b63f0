from dataclasses import replace
from pathlib import Path

import pytest

from config.settings import Settings
from engine.build import build
from engine.errors import ModelError, ModelNotFound
from engine.survey import ModelSurvey, NotFetched
from engine.surveyor import survey_kernels, survey_model, survey_torch
from tests.tiny import make_tiny_model_folder


def settings(**model: object) -> Settings:
    return Settings.model_validate({"model": model, "cache": {"num_blocks": 16}})


def silent(_text: str) -> None:
    return


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_model_folder(folder)
    return folder


def test_a_model_is_surveyed_as_it_would_be_built(folder: Path) -> None:
    told: list[str] = []

    found = survey_model(settings(path=str(folder)), progress=told.append)
    info = build(settings(path=str(folder)), progress=silent).engine.info

    assert isinstance(found, ModelSurvey)
    assert (found.architecture, found.runs_on) == (info.architecture, info.runs_on)
    assert (found.context_length, found.model_context_length) == (info.context_length, info.model_context_length)
    assert found.cache_bytes == info.cache.num_bytes
    assert found.stored_as == "F32"
    assert told == ["checking the model's answers on a small copy"]


def test_a_draft_model_is_surveyed_with_it(folder: Path) -> None:
    alone = survey_model(settings(path=str(folder)), progress=silent)
    both = survey_model(settings(path=str(folder), draft_path=str(folder)), progress=silent)

    assert isinstance(alone, ModelSurvey)
    assert isinstance(both, ModelSurvey)
    assert both.weight_bytes == 2 * alone.weight_bytes
    assert both.cache_bytes == 2 * alone.cache_bytes
    assert replace(both, weight_bytes=0, cache_bytes=0, context_length=0) == replace(
        alone, weight_bytes=0, cache_bytes=0, context_length=0
    )


def test_a_hub_id_that_is_not_here_is_not_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    for model in ({"path": "nobody/never-fetched"}, {"path": "here.gguf", "draft_path": "nobody/never-fetched"}):
        assert survey_model(settings(**model), progress=silent) == NotFetched("nobody/never-fetched")


@pytest.mark.parametrize(
    ("path", "error"), [("missing.gguf", ModelNotFound), ("/no/such/folder/at/all", ModelNotFound)]
)
def test_what_can_not_be_served_is_refused_as_at_the_start(path: str, error: type[ModelError]) -> None:
    with pytest.raises(error):
        survey_model(settings(path=path), progress=silent)


def test_torch_and_kernels_can_be_asked() -> None:
    assert survey_torch().version
    assert survey_kernels().unusable is None
