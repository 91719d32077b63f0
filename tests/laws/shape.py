"""How small an engine over the digest model is."""

from collections.abc import Mapping
from dataclasses import dataclass

from config.settings import EngineSettings
from engine.cache.layout import Layout
from engine.cache.sizing import CacheSizes, context_that_fits
from engine.cache.tables import BlockTables
from engine.draft.drafts import MakeSource
from engine.grammar.grammars import Grammars
from engine.stats import CacheInfo, DraftModelInfo, ModelInfo
from tests.digest import FULL, VOCABULARY_SIZE
from tests.draft_model import BENDS, CONTEXT, DigestDraftModel
from tests.laws.drafters import sources_of
from tests.toy_grammar import toy_grammars


@dataclass(frozen=True, slots=True)
class Shape:
    """The engine's sizes. The context is never larger than the pool, which has `num_blocks` in every group."""

    layout: Layout = FULL
    num_blocks: int = 8
    num_checkpoints: int = 2
    block_size: int = 2
    max_context: int = 24
    max_sequences: int = 3
    max_step_positions: int = 8
    max_logit_rows: int = 8
    max_step_seconds: float | None = None
    max_waiting: int = 4
    reserved_outputs: int = 0
    max_buffered_deltas: int = 4
    slow_reader_seconds: float = 10.0
    position_seconds: float = 0.0  # what a step takes for each of its positions
    prefix_caching: bool = True
    max_draft_tokens: int = 0
    drafter: str = "usual"
    draft_model: str | None = None  # how it bends what is right; the layout has its rows then

    @property
    def context_length(self) -> int:
        """Positions that one request may have."""
        return context_that_fits(self.layout, self.sizes.num_units, self.block_size, self.max_context)

    @property
    def sizes(self) -> CacheSizes:
        """What the pools have."""
        num_slots = self.max_sequences + self.num_checkpoints if self.layout.states else 0
        return CacheSizes(self.num_blocks * sum(self.layout.widths), num_slots)

    def sources(self) -> Mapping[str, MakeSource]:
        """Who drafts."""
        return sources_of(self.drafter, context_length=self.context_length, layout=self.layout)

    def grammars(self) -> Grammars:
        """What follows outputs through toy grammars."""
        return toy_grammars()

    @property
    def draft_context(self) -> int | None:
        """Positions that a draft model takes."""
        return CONTEXT if self.draft_model else None

    def made_draft_model(self) -> DigestDraftModel | None:
        """What guesses in the step itself."""
        if self.draft_model is None:
            return None
        bend, num_units = BENDS[self.draft_model], self.sizes.num_units
        return DigestDraftModel(self.layout, num_units, block_size=self.block_size, bend=bend)

    def tables(self) -> BlockTables:
        """An empty cache."""
        return BlockTables(
            self.layout,
            self.sizes,
            block_size=self.block_size,
            fingerprint="digest",
            prefix_caching=self.prefix_caching,
        )

    def settings(self) -> EngineSettings:
        """The engine's own section."""
        return EngineSettings(
            max_sequences=self.max_sequences,
            max_step_positions=self.max_step_positions,
            max_logit_rows=self.max_logit_rows,
            max_step_seconds=self.max_step_seconds,
            max_draft_tokens=self.max_draft_tokens,
            max_waiting=self.max_waiting,
            reserved_outputs=self.reserved_outputs,
            max_buffered_deltas=self.max_buffered_deltas,
            slow_reader_seconds=self.slow_reader_seconds,
            check_laws=True,
        )

    def info(self) -> ModelInfo:
        """What is served."""
        return ModelInfo(
            name="digest",
            context_length=self.context_length,
            model_context_length=self.max_context,
            vocabulary_size=VOCABULARY_SIZE,
            architecture="digest",
            dtype="hash",
            runs_on="arithmetic",
            draft_model=DraftModelInfo("guesser", CONTEXT) if self.draft_model else None,
            cache=CacheInfo(
                self.block_size,
                self.sizes.num_units,
                1,
                "hash",
                "one slot a position",
                groups=tuple(map(str, self.layout.groups)),
                num_slots=self.sizes.num_slots,
                widths=self.layout.widths,
            ),
            embedding_size=2,
        )
