"""From settings to an engine over a tiny real model, on each path."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from config.settings import Settings
from engine.build import Built, build
from engine.errors import CacheTooSmall, ModelUnsupported
from engine.model.kernels import library as library_module
from engine.model.kernels.library import library
from engine.model.runner import ModelRunner
from engine.request import Request, Sampling, Stopping
from engine.stats import DraftModelInfo
from tests.models.support import every_kernels
from tests.tiny import MAX_CONTEXT, VOCABULARY_SIZE, make_tiny_model_folder

FASTEST = str(every_kernels()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_model_folder(folder)
    return folder


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As if the native library had not been built."""
    monkeypatch.setattr(library_module, "__file__", str(tmp_path / "library.py"))
    library.cache_clear()
    yield
    library.cache_clear()


def built_from(
    folder: Path, *, model: dict[str, object] | None = None, cache: dict[str, object] | None = None
) -> Built:
    tree = {
        "model": {"path": str(folder), "num_threads": 1} | (model or {}),
        "cache": {"num_blocks": 64} | (cache or {}),
        "engine": {"check_laws": True},
    }
    return build(Settings.model_validate(tree), progress=lambda _: None)


def close(built: Built) -> None:
    runner = built.engine._runner
    assert isinstance(runner, ModelRunner)
    runner.close()


async def answer(built: Built) -> list[int]:
    """What the engine says to a prompt, greedily."""
    request = Request(
        id="r",
        prompt=tuple(range(5, 45)),
        sampling=Sampling(seed=0, temperature=0.0),
        stopping=Stopping(max_tokens=12),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(built.engine.run())
        async with built.engine.open(request) as deltas:
            tokens = [token.id async for delta in deltas for token in delta.tokens]
        built.engine.stop()
    return tokens


@pytest.mark.anyio
async def test_all_paths_say_the_same_in_float32(folder: Path) -> None:
    answers = []
    for kernels in ("torch", *map(str, every_kernels())):
        built = built_from(folder, model={"kernels": kernels, "weights": "float32"})
        answers.append(await answer(built))
        close(built)

    assert len(answers[0]) == 12
    assert all(tokens == answers[0] for tokens in answers)


def test_what_is_served_is_told(folder: Path) -> None:
    built = built_from(folder)
    info = built.engine.info

    assert info.name == folder.name
    assert (info.context_length, info.model_context_length) == (MAX_CONTEXT, MAX_CONTEXT)
    assert (info.architecture, info.vocabulary_size) == ("LlamaForCausalLM", VOCABULARY_SIZE)
    assert info.runs_on == f"straight-line decoder, {FASTEST}"
    assert (info.dtype, info.cache.dtype) == ("float32", "bfloat16")
    assert info.cache.num_blocks == 64
    close(built)


@pytest.mark.anyio
async def test_without_the_library_one_warning_is_given_and_torch_serves(
    folder: Path, without_library: None, caplog: pytest.LogCaptureFixture
) -> None:
    built = built_from(folder)

    assert built.engine.info.runs_on == "modules of transformers, torch"
    assert len(await answer(built)) == 12
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "the native kernels are not used" in warning.getMessage()
    close(built)


def test_without_the_library_a_level_and_integers_are_refused(folder: Path, without_library: None) -> None:
    with pytest.raises(ModelUnsupported, match=r"model\.kernels is avx2, and here are torch"):
        built_from(folder, model={"kernels": "avx2"})
    with pytest.raises(ModelUnsupported, match=r"model\.weights is int8, which takes the native kernels"):
        built_from(folder, model={"weights": "int8"})


def test_a_cache_that_holds_nothing_of_use_is_refused_before_weights_are_read(folder: Path) -> None:
    with pytest.raises(CacheTooSmall):
        built_from(folder, cache={"num_blocks": 2})


def test_what_is_being_done_is_said_in_order(folder: Path) -> None:
    said: list[str] = []
    settings = Settings.model_validate({"model": {"path": str(folder), "num_threads": 1}, "cache": {"num_blocks": 64}})

    close(build(settings, progress=said.append))

    assert said == [
        "importing torch and transformers",
        "reading the tokenizer",
        "checking the model's answers on a small copy",
        f"reading llama weights from {folder.name}",
    ]


@pytest.mark.parametrize(
    "other",
    [{"weights": "bfloat16"}, {"kernels": "torch"}, {"kernels": "avx2"} if FASTEST != "avx2" else {"weights": "int8"}],
)
def test_a_cache_that_others_bits_filled_is_not_hit(folder: Path, other: dict[str, object]) -> None:
    roots = []
    for model in ({}, other):
        built = built_from(folder, model=model)
        roots.append(built.engine._tables.keys.root(""))
        close(built)

    assert roots[0] != roots[1]


@pytest.mark.anyio
@pytest.mark.parametrize("kernels", ["torch", FASTEST])
async def test_a_model_that_drafts_for_itself_guesses_every_token(folder: Path, kernels: str) -> None:
    plain, drafting = (
        built_from(folder, model={"kernels": kernels, "draft_path": draft_path}) for draft_path in (None, str(folder))
    )

    answers = [await answer(built) for built in (plain, drafting)]

    counts = drafting.engine.snapshot().drafts["draft_model"]
    assert answers[0] == answers[1]
    assert counts.kept == counts.tokens > 0
    close(plain)
    close(drafting)


def test_a_draft_model_has_its_rows_in_the_cache_and_is_told(folder: Path) -> None:
    said: list[str] = []
    tree = {"model": {"path": str(folder), "draft_path": str(folder), "num_threads": 1}, "cache": {"num_blocks": 64}}

    plain, drafting = built_from(folder), build(Settings.model_validate(tree), progress=said.append)

    alone, beside = plain.engine.info, drafting.engine.info
    assert (alone.draft_model, beside.draft_model) == (None, DraftModelInfo(folder.name, MAX_CONTEXT))
    assert beside.cache == replace(alone.cache, block_bytes=2 * alone.cache.block_bytes)
    assert said.count(f"reading llama weights from {folder.name}") == 2
    assert plain.engine._tables.keys.root("") != drafting.engine._tables.keys.root("")
    close(plain)
    close(drafting)
