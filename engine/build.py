"""Build: from settings to an engine over a real model. The one place that puts the parts together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.settings import EngineSettings, Settings
from config.threads import let_threads_sleep
from engine.cache.layout import Layout, Reach
from engine.cache.sizing import CacheSizes, context_that_fits, plan_cache
from engine.cache.tables import BlockTables
from engine.draft.drafts import usual_sources
from engine.engine import Engine
from engine.grammar.compiler import CompileLimits, Compiler
from engine.grammar.grammars import Grammars, end_ids_of
from engine.grammar.matcher import Library
from engine.model.imports import lean_imports
from engine.stats import CacheInfo, ModelInfo
from engine.text import Tokenizer

if TYPE_CHECKING:
    from engine.model.assemble import Assembly
    from engine.model.load import OpenedModel


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
    with lean_imports():
        built = _build(settings, progress)
    from engine.model.memory import give_back  # noqa: PLC0415  # torch is there by now

    give_back()
    return built


def _build(settings: Settings, progress: Callable[[str], None]) -> Built:
    # Imported here, so that whoever needs no model waits for no torch.
    from engine.model.assemble import Sizes, assemble  # noqa: PLC0415
    from engine.model.draft_model import open_draft_model  # noqa: PLC0415
    from engine.model.load import open_model  # noqa: PLC0415
    from engine.model.memory import free_bytes  # noqa: PLC0415
    from engine.model.runner import make_runner  # noqa: PLC0415
    from engine.model.tokenizer import load_tokenizer  # noqa: PLC0415

    opened = open_model(settings.model, progress=progress)
    progress("reading the tokenizer")
    tokenizer = load_tokenizer(str(opened.path), chat_template=settings.model.chat_template)
    parts = assemble(opened, settings.model, settings.cache, progress=progress)
    drafting = open_draft_model(settings, parts, tokenizer.vocabulary, progress=progress)
    if drafting is not None:
        parts = drafting.beside(parts)
    cache = plan_cache(
        parts.layout,
        settings.cache,
        free_bytes=free_bytes(),
        max_sequences=settings.engine.max_sequences,
        context_length=opened.context_length,
    )
    sizes = Sizes(cache.num_units, settings.cache.block_size, settings.engine.max_step_positions, cache.num_slots)
    for each in [opened] if drafting is None else [drafting.opened, opened]:
        progress(f"reading {each.config.model_type} weights from {each.path.name}")
    make_guesser = None if drafting is None else drafting.maker(sizes, table=parts.layout.table_beside)
    runner = make_runner(lambda: parts.make_forward(sizes), make_guesser=make_guesser)
    info = _info(settings, opened, parts, cache, runner.forward.weights)
    engine = Engine(
        runner=runner,
        tables=_tables(settings, opened, parts.layout, cache, info),
        info=info,
        vocabulary=tokenizer.vocabulary,
        settings=settings.engine,
        sources=usual_sources(prompt_lookup=settings.engine.prompt_lookup),
        grammars=_grammars(settings.engine, tokenizer, info),
    )
    return Built(engine, tokenizer)


def _grammars(settings: EngineSettings, tokenizer: Tokenizer, info: ModelInfo) -> Grammars:
    """Structured output, whose library is imported when the first grammar comes."""

    def make_library() -> Library:
        from engine.grammar.trial import tried_for  # noqa: PLC0415

        return tried_for(tokenizer, seconds=settings.max_grammar_seconds)

    limits = CompileLimits(settings.max_grammar_bytes, settings.max_grammar_seconds, settings.max_kept_grammars)
    compiler = Compiler(make_library, limits)
    return Grammars(compiler, vocabulary_size=info.vocabulary_size, end_ids=end_ids_of(tokenizer))


def _tables(
    settings: Settings, opened: "OpenedModel", layout: Layout, sizes: CacheSizes, info: ModelInfo
) -> BlockTables:
    cache = (info.cache.layout, info.cache.dtype)
    return BlockTables(
        layout,
        sizes,
        block_size=settings.cache.block_size,
        fingerprint=" ".join(
            map(str, (opened.path, info.architecture, info.dtype, info.runs_on, *cache, info.draft_model))
        ),
        prefix_caching=settings.cache.prefix_caching,
    )


def _info(settings: Settings, opened: "OpenedModel", parts: "Assembly", sizes: CacheSizes, weights: str) -> ModelInfo:
    block_size = settings.cache.block_size
    return ModelInfo(
        name=opened.name,
        context_length=context_that_fits(parts.layout, sizes.num_units, block_size, opened.context_length),
        model_context_length=opened.context_length,
        vocabulary_size=parts.vocabulary_size,
        architecture=parts.architecture,
        dtype=weights,
        runs_on=parts.runs_on,
        cache=_cache_info(parts.layout, sizes, block_size),
        embedding_size=opened.config.hidden_size,
        draft_model=parts.draft_model,
        row_tile=parts.row_tile,
    )


def _cache_info(layout: Layout, sizes: CacheSizes, block_size: int) -> CacheInfo:
    return CacheInfo(
        block_size,
        sizes.num_units,
        layout.unit_bytes(block_size),
        layout.dtype,
        str(layout),
        groups=tuple(map(str, layout.groups)),
        forgets=any(group.reach is not Reach.FULL for group in layout.groups),
        blocks_a_step=sum(layout.widths),
        waste=layout.waste,
        num_slots=sizes.num_slots,
        slot_bytes=layout.slot_bytes,
        widths=layout.widths,
    )
