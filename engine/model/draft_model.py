"""A second, smaller model that guesses for the first: found, compared with it, and made ready beside it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from config.settings import Settings
from engine.cache.beside import with_rows_beside
from engine.errors import ModelError, ModelUnsupported, SettingUnusable
from engine.model.assemble import Assembly, Sizes, assemble
from engine.model.drafter import Drafter, make_drafter
from engine.model.load import OpenedModel, open_model
from engine.model.tokenizer import load_tokenizer
from engine.stats import DraftModelInfo
from engine.text import Vocabulary


@dataclass(frozen=True, slots=True)
class DraftModel:
    """A draft model that fits its target; its weights are not read yet."""

    opened: OpenedModel
    parts: Assembly

    def beside(self, target: Assembly) -> Assembly:
        """The target with room for this model's rows in its cache."""
        layout = with_rows_beside(target.layout, self.parts.layout)
        return replace(target, layout=layout, draft_model=DraftModelInfo(self.opened.name, self.opened.context_length))

    def maker(self, sizes: Sizes, *, table: int) -> Callable[[], Drafter]:
        """What makes it, for a target of these sizes; `table` is the block table that leads to its rows."""
        own = replace(sizes, max_positions=max(sizes.max_positions, sizes.block_size), num_slots=0)
        return lambda: make_drafter(lambda: self.parts.make_forward(own), table=table)


def open_draft_model(
    settings: Settings, target: Assembly, vocabulary: Vocabulary, *, progress: Callable[[str], None]
) -> DraftModel | None:
    """The draft model that the settings name, if they name one; blocking. Raises SettingUnusable."""
    path = settings.model.draft_path
    if path is None:
        return None
    own = settings.model.model_copy(update={"path": path, "name": None})
    try:
        opened = open_model(own, progress=progress)
        _compare(opened, target.vocabulary_size, vocabulary)
        return DraftModel(opened, assemble(opened, own, settings.cache, progress=progress, drafts=True))
    except ModelError as error:
        raise SettingUnusable(f"the draft model {path}: {error}", setting="model.draft_path") from error


def _compare(opened: OpenedModel, vocabulary_size: int, vocabulary: Vocabulary) -> None:
    """Raise ModelUnsupported unless each token is the same to both models."""
    if opened.config.vocab_size != vocabulary_size:
        sizes = f"it has {opened.config.vocab_size} tokens and the model {vocabulary_size}"
        raise ModelUnsupported(f"{sizes}: they must share a tokenizer")
    own = load_tokenizer(str(opened.path)).vocabulary
    token = own.first_difference(vocabulary)
    if token is not None:
        here, there = (each.bytes_of(token, skip_special=False) for each in (own, vocabulary))
        spelled = f"token {token} spells {here!r} to it and {there!r} to the model"
        raise ModelUnsupported(f"{spelled}: they must share a tokenizer")
