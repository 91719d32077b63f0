"""Drafts: who guesses what follows a sequence's tokens, and how well that went lately."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from engine.draft.forced import ForcedTokens
from engine.draft.lookup import PromptLookup
from engine.draft.prediction import PredictedOutput
from engine.draft.source import Source
from engine.grammar.grammars import Grammars
from engine.sequence import PREDICTION, Sequence

LOOKUP = "prompt_lookup"
GRAMMAR = "grammar"
DRAFT_MODEL = "draft_model"

FIRST_CHANCE = {True: 0.8, False: 0.4}  # of a token to stand, if its guess is firm, or not
FIRST_CHANCE_OF_MODEL = 0.7  # in the first sequences; later ones begin with what was seen in those before
FADING_BY_SEQUENCE = 0.9  # of that, with each new sequence
PRIOR_TRIALS = 2.0  # how many tokens the first chance counts for
FADING = 0.99  # of what was seen, with each output token: what failed is tried again, but seldom

MakeSource = Callable[[Sequence], Source | None]


@dataclass(frozen=True, slots=True)
class Draft:
    """A guess, who made it, and how likely each token stands if those before it do."""

    source: str
    tokens: tuple[int, ...]
    chance: float
    num_guesses: int = 0  # tokens that the draft model has yet to find, in the step itself

    @property
    def count(self) -> int:
        """How many tokens are drafted."""
        return len(self.tokens) + self.num_guesses

    def cut(self, count: int) -> "Draft":
        """The first `count` tokens of it."""
        return replace(self, tokens=self.tokens[:count], num_guesses=min(self.num_guesses, count))


@dataclass(slots=True)
class _Evidence:
    """How many tokens of one kind of guess were looked at in a sequence, and how many stood; the recent ones count."""

    kept: float = 0.0
    trials: float = 0.0
    num_outputs: int = 0  # when it was last faded

    def add(self, num_drafts: int, num_kept: int) -> None:
        """Take what became of a draft: tokens behind the first that fell were not looked at."""
        self.kept += num_kept
        self.trials += min(num_drafts, num_kept + 1)

    def chance(self, first: float, num_outputs: int) -> float:
        """The chance now, after so many outputs."""
        share = FADING ** (num_outputs - self.num_outputs)
        self.kept, self.trials, self.num_outputs = self.kept * share, self.trials * share, num_outputs
        return (self.kept + PRIOR_TRIALS * first) / (self.trials + PRIOR_TRIALS)


@dataclass(slots=True)
class _Record:
    sources: dict[str, Source]
    evidence: dict[tuple[str, bool], _Evidence] = field(default_factory=dict)  # by source and firmness
    last: dict[str, bool] = field(default_factory=dict)  # by source: whether its last draft was firm


class Drafts:
    """Asks the sources of each sequence and takes the likeliest guess; remembers what stood.

    `makers` make, by name, what guesses for one sequence, or None where it has nothing to go by. What a sequence's
    grammar leaves no choice about comes before all of them, and what it refuses is cut off. A draft model of so long a
    context promises guesses, which it finds as the step runs; none where there is a grammar, whose masks are made
    meanwhile and can't wait for them.
    """

    def __init__(
        self,
        makers: Mapping[str, MakeSource],
        *,
        max_tokens: int,
        grammars: Grammars,
        draft_context: int | None = None,
    ) -> None:
        self._makers = makers
        self._max_tokens = max_tokens
        self._grammars = grammars
        self._draft_context = draft_context
        self._records: dict[str, _Record] = {}
        self._overall = _Evidence()  # of the draft model, over all sequences

    def draft(self, sequence: Sequence) -> Draft | None:
        """The likeliest guess, of equally likely ones the first source's; the same tokens give the same one."""
        most = self._most_for(sequence)
        if most <= 0:
            return None
        record = self._record_of(sequence)
        best: Draft | None = None
        for name, source in record.sources.items():
            guess = source.propose(sequence.tokens, most)
            tokens = () if guess is None else self._grammars.allowed(sequence, guess.tokens)
            if guess is None or not tokens:
                continue
            chance = _chance(record, (name, guess.firm), FIRST_CHANCE[guess.firm], sequence.num_outputs)
            if guess.sure:
                chance = 1.0
            if best is None or chance > best.chance:
                best, record.last[name] = Draft(name, tokens, chance), guess.firm
        return best

    def promise(self, sequence: Sequence, draft: Draft | None) -> Draft | None:
        """What the draft model would guess for `sequence`; None where it can't, or where `draft` is as likely."""
        if self._draft_context is None or sequence.request.grammar is not None:
            return None
        most = min(self._most_for(sequence), self._draft_context - len(sequence.tokens))
        if most <= 0:
            return None
        record, first = self._record_of(sequence), self._overall.chance(FIRST_CHANCE_OF_MODEL, 0)
        chance = _chance(record, (DRAFT_MODEL, True), first, sequence.num_outputs)
        if draft is not None and draft.chance >= chance:
            return None
        record.last[DRAFT_MODEL] = True
        return Draft(DRAFT_MODEL, (), chance, most)

    def _most_for(self, sequence: Sequence) -> int:
        """The longest draft that the sequence may have now: the token behind it must still fit."""
        wanted = sequence.request.max_draft_tokens
        room = sequence.max_length - len(sequence.tokens) - 1
        return min(self._max_tokens, room) if wanted is None else min(self._max_tokens, room, wanted)

    def _record_of(self, sequence: Sequence) -> _Record:
        if sequence.id not in self._records:
            made = {name: make(sequence) for name, make in self._makers.items()}
            if sequence.request.grammar is not None:
                made = {GRAMMAR: ForcedTokens(lambda: self._grammars.forced(sequence)), **made}
            self._records[sequence.id] = _Record({name: source for name, source in made.items() if source is not None})
            self._overall.kept *= FADING_BY_SEQUENCE
            self._overall.trials *= FADING_BY_SEQUENCE
        return self._records[sequence.id]

    def observe(self, sequence: Sequence, source: str, *, num_drafts: int, num_kept: int) -> None:
        """Take what became of a source's last draft."""
        record = self._records[sequence.id]
        record.evidence[source, record.last[source]].add(num_drafts, num_kept)
        if source == DRAFT_MODEL:
            self._overall.add(num_drafts, num_kept)

    def forget(self, sequence: Sequence) -> None:
        """The sequence has ended."""
        self._records.pop(sequence.id, None)


def _chance(record: _Record, kind: tuple[str, bool], first: float, num_outputs: int) -> float:
    return record.evidence.setdefault(kind, _Evidence(num_outputs=num_outputs)).chance(first, num_outputs)


def usual_sources(*, prompt_lookup: bool) -> dict[str, MakeSource]:
    """The client's own guess, and what the sequence itself said before."""
    lookup: dict[str, MakeSource] = {LOOKUP: lambda _: PromptLookup()} if prompt_lookup else {}
    return {PREDICTION: _predicted, **lookup}


def _predicted(sequence: Sequence) -> Source | None:
    guess = sequence.request.prediction
    return PredictedOutput(guess, num_prompt=sequence.num_prompt) if guess else None
