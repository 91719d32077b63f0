"""Build: from settings to an engine over a real model. The one place that puts the parts together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.settings import Settings
from config.threads import let_threads_sleep
from engine.cache.layout import Layout, plan_blocks, read_layout
from engine.cache.tables import BlockTables
from engine.engine import Engine
from engine.stats import CacheInfo, ModelInfo
from engine.text import Tokenizer

if TYPE_CHECKING:
    from engine.model.load import LoadedModel


@dataclass(frozen=True, slots=True)
class Built:
    """A loaded model's engine, not yet running, and its tokenizer."""

    engine: Engine
    tokenizer: Tokenizer


def build(settings: Settings, *, progress: Callable[[str], None]) -> Built:
    """Load the model, lay out its cache and make the engine; blocking, so call it on a thread.

    `progress` is told, in a few words, what is being done. Raises ModelError's subclasses.
    """
    let_threads_sleep()
    progress("importing torch and transformers")
    # Imported here, so that whoever needs no model waits for no torch.
    from engine.model.gate import check_structure  # noqa: PLC0415
    from engine.model.load import load_model  # noqa: PLC0415
    from engine.model.memory import free_bytes  # noqa: PLC0415
    from engine.model.runner import make_runner  # noqa: PLC0415
    from engine.model.tokenizer import load_tokenizer  # noqa: PLC0415

    loaded = load_model(settings.model, progress=progress)
    progress("reading the tokenizer")
    tokenizer = load_tokenizer(str(loaded.path), chat_template=settings.model.chat_template)
    progress("checking the model's answers on a small copy")
    check_structure(loaded.model.config)
    layout = read_layout(loaded.model.config, loaded.dtype)
    num_blocks = plan_blocks(
        layout,
        settings.cache,
        free_bytes=free_bytes(),
        max_sequences=settings.engine.max_sequences,
        context_length=loaded.context_length,
    )
    progress("measuring which shapes give every row the same bits")
    runner = make_runner(
        loaded,
        layout,
        num_blocks=num_blocks,
        block_size=settings.cache.block_size,
        max_positions=settings.engine.max_step_positions,
        num_threads=settings.model.num_threads,
    )
    engine = Engine(
        runner=runner,
        tables=_tables(settings, loaded, layout, num_blocks),
        info=_info(settings, loaded, layout, num_blocks),
        vocabulary=tokenizer.vocabulary,
        settings=settings.engine,
    )
    return Built(engine, tokenizer)


def _tables(settings: Settings, loaded: "LoadedModel", layout: Layout, num_blocks: int) -> BlockTables:
    return BlockTables(
        num_blocks=num_blocks,
        block_size=settings.cache.block_size,
        fingerprint=f"{loaded.path} {loaded.architecture} {loaded.dtype} {layout} {layout.dtype}",
        prefix_caching=settings.cache.prefix_caching,
    )


def _info(settings: Settings, loaded: "LoadedModel", layout: Layout, num_blocks: int) -> ModelInfo:
    block_size = settings.cache.block_size
    cache = CacheInfo(block_size, num_blocks, layout.block_bytes(block_size), layout.dtype, str(layout))
    return ModelInfo(
        name=loaded.name,
        context_length=min(loaded.context_length, cache.num_positions),
        model_context_length=loaded.context_length,
        vocabulary_size=loaded.vocabulary_size,
        architecture=loaded.architecture,
        dtype=loaded.dtype,
        cache=cache,
    )
