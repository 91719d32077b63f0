"""Surveyor: finds out what this installation could serve here, without serving it. What `tidemark doctor` asks."""

from collections.abc import Callable, Mapping
from pathlib import Path

from config.settings import Settings
from config.threads import let_threads_sleep
from engine.cache.sizing import context_that_fits, plan_cache
from engine.survey import KernelSurvey, ModelSurvey, NotFetched, TorchSurvey


def survey_torch() -> TorchSurvey:
    """Import torch and ask it; blocking. Raises ImportError, or OSError of a library that it lacks."""
    let_threads_sleep()
    from engine.model.survey import torch_here  # noqa: PLC0415  # torch waits until it is asked for

    return torch_here()


def survey_kernels() -> KernelSurvey:
    """Load the native library and try each of its levels on small matrices; blocking."""
    let_threads_sleep()
    from engine.model.survey import try_kernels  # noqa: PLC0415

    return try_kernels()


def survey_model(settings: Settings, *, progress: Callable[[str], None]) -> ModelSurvey | NotFetched:
    """Open the model that the settings name, check its structure and lay out its cache; blocking, some seconds.

    Weights are not read and nothing is fetched. Raises ModelError's subclasses, as `build` would.
    """
    let_threads_sleep()
    from engine.model.assemble import assemble  # noqa: PLC0415
    from engine.model.draft_model import open_draft_model  # noqa: PLC0415
    from engine.model.load import open_model  # noqa: PLC0415
    from engine.model.locate import locate_here  # noqa: PLC0415
    from engine.model.memory import free_bytes  # noqa: PLC0415
    from engine.model.survey import read_files  # noqa: PLC0415
    from engine.model.tokenizer import load_tokenizer  # noqa: PLC0415

    paths = {name: path for name in ("path", "draft_path") if (path := getattr(settings.model, name)) is not None}
    found = {name: locate_here(path) for name, path in paths.items()}
    for name, path in paths.items():
        if found[name] is None:
            return NotFetched(path)
    here = settings.model_copy(update={"model": settings.model.model_copy(update=_texts(found))})
    opened = open_model(here.model, progress=progress)
    tokenizer = load_tokenizer(str(opened.path), chat_template=here.model.chat_template)
    parts = assemble(opened, here.model, here.cache, progress=progress)
    drafting = open_draft_model(here, parts, tokenizer.vocabulary, progress=progress)
    if drafting is not None:
        parts = drafting.beside(parts)
    files = read_files(opened.path, here.model.weights, is_native=parts.is_native)
    drafts = None if drafting is None else read_files(drafting.opened.path, "auto", is_native=parts.is_native)
    block_size = here.cache.block_size
    cache = plan_cache(
        parts.layout,
        here.cache,
        free_bytes=free_bytes(),
        max_sequences=here.engine.max_sequences,
        context_length=opened.context_length,
    )
    return ModelSurvey(
        path=settings.model.path,
        file_bytes=files.file_bytes,
        architecture=parts.architecture,
        stored_as=files.stored_as,
        runs_on=parts.runs_on,
        context_length=context_that_fits(parts.layout, cache.num_units, block_size, opened.context_length),
        model_context_length=opened.context_length,
        weight_bytes=files.weight_bytes + (0 if drafts is None else drafts.weight_bytes),
        cache_bytes=cache.num_bytes(parts.layout, block_size),
    )


def _texts(paths: Mapping[str, Path | None]) -> dict[str, str]:
    return {name: str(path) for name, path in paths.items()}
