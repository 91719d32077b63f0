"""Pace: what a step costs, learned from the steps that were committed, and how long prompts may make the next one.

A step's time is taken as the sum of four parts: what it takes without any prompt (a fixed part, each
stream, and what the streams read), the prompts' positions, the rows of logits beyond the streams' own, and
the streams' drafts, each a position and a row, which the kernels may compute by tiles of rows.
What a draft model does first is measured apart.
How each part grows is fixed by the constants below, roughly; what a unit of it costs is learned, each from
the steps that show it. So no two costs can be mistaken for each other, however alike the steps are.
"""

from collections.abc import Iterable, Sequence as Run
from dataclasses import dataclass, replace

from engine.sequence import Sequence
from engine.stats import PaceView
from engine.step import Chunk

# In plain positions: what a step costs at all, what a stream adds (its position and its row of logits), and
# how much context, read by a position, costs as much as the position. Only rough, as the costs are learned.
FIXED_UNITS = 8.0
STREAM_UNITS = 1.25
CONTEXT_PER_UNIT = 2048

STRETCH = 2.0  # how many times as long one prompt may make a step that has streams
MAX_STRETCH = 3.0  # and more prompts than streams: it would be unfair if many waited for the pace of few, …
UNFELT_SECONDS = 0.05  # … for whom a step may take so long anyway: no reader feels a pause that short
ALONE_SECONDS = 1.0  # how long a step without streams may take, so that who arrives meanwhile is soon served,
ALONE_STRETCH = 8.0  # or so many times its fixed part, which large models pay anew for every step
MIN_POSITIONS = 8  # prompts get at least the time of so many positions
LOOK_EVERY = 16  # of so many steps in a row with streams and prompts, one shows what the streams alone take
SURPRISE = 1 / 3  # and so does the next one after a step that was so far from what was expected: what has changed?
WEIGHT = 0.25  # of the newest step in what was learned
LOOK_WEIGHT = 0.5  # where it was made to look
SHOWS = 0.25  # the share of a step from which a part's cost can be read; from a smaller one drafts' little by little
CAUTION_BESIDE = 2.0  # a position beside streams is in a small batch: dearer than one of a large chunk, until measured
CAUTION_SCORE = 4.0  # and a row of logits may cost several positions
LOOK_DRAFTS_EVERY = 128  # of so many steps in a row with drafts, one shows what the streams take without
DRIFT = 1 / 8  # by which the price of drafts moves to what streams add, with each step that shows nothing of it
TILE_UNITS = FIXED_UNITS  # what a further tile of rows costs, until it is measured: the weights are gone through again
MAX_FED = 1 << 20  # positions, where nothing is known of what they cost
FADING = 1 - 1 / 4096  # of what the draft model costs, with each step without it: what seemed too dear is tried again


def prompt_work(start: int, count: int) -> float:
    """`count` positions from `start` on, in plain positions: each reads everything before it."""
    return count + count * (start + count / 2) / CONTEXT_PER_UNIT


@dataclass(frozen=True, slots=True)
class Streams:
    """Sequences that compute one position and choose the next token, and the positions that they read together."""

    count: int = 0
    context: int = 0

    @property
    def units(self) -> float:
        """What a step with these streams alone costs, in plain positions."""
        return FIXED_UNITS + self.count * STREAM_UNITS + self.context / CONTEXT_PER_UNIT


def as_streams(sequences: Run[Sequence]) -> Streams:
    """Sequences that owe one position each, as streams."""
    return Streams(len(sequences), sum(sequence.ledger.accepted for sequence in sequences))


@dataclass(frozen=True, slots=True)
class Load:
    """What a step computes, in the terms that its time depends on.

    `work` is that of everything but the streams, in plain positions; `num_scores` its rows of logits.
    `num_drafts` are the streams' drafted positions. The draft model computes `num_fed` positions in `num_rounds`.
    """

    streams: Streams
    work: float = 0.0
    num_scores: int = 0
    num_drafts: int = 0
    num_rounds: int = 0
    num_fed: int = 0

    @property
    def guessing_units(self) -> float:
        """What the draft model does, in its own plain positions."""
        return FIXED_UNITS * self.num_rounds + self.num_fed


def load_of(chunks: Iterable[Chunk]) -> Load:
    """The load of a step's chunks."""
    count = context = num_scores = num_drafts = num_rounds = num_fed = 0
    work = 0.0
    for chunk in chunks:
        if chunk.owed_stop - chunk.start == 1 and chunk.choose is not None and chunk.score is None:
            count += 1
            context += chunk.owed_stop
            num_drafts += chunk.num_drafts
        else:
            work += prompt_work(chunk.start, len(chunk.tokens))
            num_scores += chunk.num_logit_rows
        if chunk.feed is not None:
            num_rounds = max(num_rounds, 1, chunk.num_guesses)
            num_fed += len(chunk.feed.tokens) + max(0, chunk.num_guesses - 1)
    return Load(Streams(count, context), work, num_scores, num_drafts, num_rounds, num_fed)


@dataclass(frozen=True, slots=True)
class Prices:
    """What prompts cost in the next step, in seconds."""

    position: float
    score: float

    def of(self, start: int, count: int, num_scores: int) -> float:
        """The price of `count` positions from `start` on with so many rows of logits."""
        return self.position * prompt_work(start, count) + self.score * num_scores


@dataclass(frozen=True, slots=True)
class DraftPrice:
    """What drafted tokens cost in the next step, in seconds: each by itself, and each tile of rows that they open.

    A step of so many `rows` without drafts fills tiles of `row_tile` rows; None where rows cost alike.
    """

    token: float
    tile: float
    rows: int
    row_tile: int | None

    @property
    def least(self) -> float:
        """The least that one more costs."""
        return self.token

    def of(self, count: int) -> float:
        """The price of so many together."""
        return self.token * count + self.tile * _num_opened(self.rows, count, self.row_tile)

    def fills(self, most: int) -> tuple[int, ...]:
        """The counts, `most` at most, that cost least for each token: those that fill tiles, where rows have them."""
        if self.row_tile is None:
            return (most,)
        first = -self.rows % self.row_tile or self.row_tile
        return (*range(first, most, self.row_tile), most)

    def behind(self, count: int) -> "DraftPrice":
        """The same behind so many that are drafted already."""
        return replace(self, rows=self.rows + count)


def _num_opened(rows: int, count: int, row_tile: int | None) -> int:
    """Tiles that `count` rows more open."""
    return 0 if row_tile is None else -(-(rows + count) // row_tile) - -(-rows // row_tile)


@dataclass(frozen=True, slots=True)
class RoundPrice:
    """What guesses of the draft model cost in the next step, in seconds: each round, and each token in it."""

    fixed: float
    token: float

    @property
    def least(self) -> float:
        """The least that one more token costs."""
        return self.token

    def of(self, count: int, num_rounds: int) -> float:
        """The price of so many tokens in so many rounds."""
        return self.fixed * num_rounds + self.token * count


class Pace:
    """Learns from committed steps. Knows no clock: times are handed in, and 0 seconds tell nothing.

    Before the first step everything costs nothing, so everything fits. `row_tile` is how many rows the model step
    computes together, if it does: the first of a tile costs most.
    """

    __slots__ = (
        "_alone",
        "_beside",
        "_draft",
        "_guess",
        "_max_step_seconds",
        "_rest",
        "_row_tile",
        "_score",
        "_tile",
        "_until_bare",
        "_until_look",
    )

    def __init__(self, max_step_seconds: float | None = None, *, row_tile: int | None = None) -> None:
        self._max_step_seconds = max_step_seconds  # None: from what the streams alone take
        self._row_tile = row_tile
        self._rest = 0.0  # seconds for one of `Streams.units`
        self._alone = 0.0  # for a position without streams in the step
        self._beside = 0.0  # for a position beside streams
        self._score = 0.0  # for a row of logits
        self._draft = 0.0  # for a drafted position with its row of logits; what a stream adds, until drafts show it
        self._tile = 0.0  # for a tile of rows that drafts open
        self._guess = 0.0  # for a position of the draft model; a round of it has a fixed part beside
        self._until_look = LOOK_EVERY - 1  # steps with streams and prompts
        self._until_bare = 0  # steps with drafts, until one without shows again what streams take

    # -- what the planner asks ----------------------------------------------------------------

    def seconds_for_prompts(self, num_prompts: int, streams: Streams) -> float:
        """How long so many prompts may keep the next step beside these streams.

        Now and then nothing: a step in which the prompts only just move on shows what the streams take.
        """
        if streams.count and self._until_look == 0:
            return 0.0
        least = self.prices(streams).position * MIN_POSITIONS
        return max(least, self.goal(num_prompts, streams) - self.seconds_of(streams))

    def prices(self, streams: Streams) -> Prices:
        """What positions and rows of logits cost beside these streams."""
        return Prices(self._beside if streams.count else self._alone, self._score)

    def price_of_drafts(self, streams: Streams) -> DraftPrice | None:
        """What drafts behind these streams cost; None for a step that has to show what they take without."""
        return DraftPrice(self._draft, self._tile, streams.count, self._row_tile) if self._until_bare else None

    def price_of_rounds(self) -> RoundPrice:
        """What the draft model's guesses cost; nothing before the first ones."""
        return RoundPrice(self._guess * FIXED_UNITS, self._guess)

    def num_fed_within(self, seconds: float) -> int:
        """How many positions the draft model computes in so many seconds, at least none."""
        return max(0, int(seconds / self._guess - FIXED_UNITS)) if self._guess else MAX_FED

    def seconds_of(self, streams: Streams) -> float:
        """How long a step with these streams alone takes."""
        return self._rest * streams.units

    def goal(self, num_prompts: int, streams: Streams) -> float:
        """How long a step with so many prompts and these streams may take."""
        if self._max_step_seconds is not None:
            return self._max_step_seconds
        rest = self.seconds_of(streams)
        if not streams.count:
            return max(ALONE_SECONDS, ALONE_STRETCH * rest)
        stretched = rest * min(STRETCH + (num_prompts - 1) / streams.count, MAX_STRETCH)
        return max(stretched, UNFELT_SECONDS) if num_prompts > streams.count else stretched

    # -- what a step shows --------------------------------------------------------------------

    def observe(self, load: Load, seconds: float, guessing_seconds: float = 0.0) -> None:
        """Take how long a step took from its issue to its end, and how much of it the draft model."""
        seconds -= guessing_seconds
        self._learn_guess(load, guessing_seconds)
        is_mixed = load.streams.count > 0 and load.work > 0
        is_look = is_mixed and self._until_look == 0
        self._until_look = self._until_look - 1 if is_mixed and not is_look else LOOK_EVERY - 1
        if load.num_drafts:
            self._until_bare -= 1
        elif load.streams.count and not load.work:
            self._until_bare = LOOK_DRAFTS_EVERY
        if seconds <= 0:
            return
        if not self._rest:
            self._begin(load, seconds)
        surprise = self._learn(load, seconds, LOOK_WEIGHT if is_look else WEIGHT)
        if is_mixed and not is_look and abs(surprise) > SURPRISE:
            self._until_look = 0

    def _learn_guess(self, load: Load, seconds: float) -> None:
        if not load.num_rounds:
            self._guess *= FADING
        elif seconds > 0:
            cost = seconds / load.guessing_units
            self._guess = _moved(self._guess, cost / self._guess - 1, WEIGHT) if self._guess else cost

    def _learn(self, load: Load, seconds: float, weight: float) -> float:
        """Move the one cost that the step shows; return how far the step was from what was expected, relative to it."""
        streams, prices = load.streams, self.prices(load.streams)
        work, scores = prices.position * load.work, prices.score * load.num_scores
        rest, drafts = self.seconds_of(streams), self._draft * load.num_drafts
        tiles = self._tile * _num_opened(streams.count, load.num_drafts, self._row_tile)
        total = rest + work + scores + drafts + tiles
        error = seconds - total
        if tiles:
            self._tile = _moved(self._tile, error / tiles, weight * min(1.0, tiles / (SHOWS * total)))
        elif drafts:
            self._draft = _moved(self._draft, error / drafts, weight * min(1.0, drafts / (SHOWS * total)))
        elif scores >= SHOWS * total:
            self._score = _moved(self._score, error / scores, weight)
        elif work < SHOWS * total:
            self._rest = _moved(self._rest, error / rest, weight)
            self._draft += DRIFT * (STREAM_UNITS * self._rest - self._draft)
            self._tile += DRIFT * (TILE_UNITS * self._rest - self._tile)
        elif streams.count:
            self._beside = _moved(self._beside, error / work, weight)
        else:
            self._alone = _moved(self._alone, error / work, weight)
        return error / total

    def _begin(self, load: Load, seconds: float) -> None:
        unit = seconds / (load.streams.units + load.work + CAUTION_SCORE * load.num_scores)
        self._rest = self._alone = unit
        self._beside = CAUTION_BESIDE * unit
        self._score = CAUTION_SCORE * unit
        self._draft = STREAM_UNITS * unit
        self._tile = TILE_UNITS * unit

    def view(self, num_prompts: int, streams: Streams) -> PaceView:
        """What has been learned, and what follows for a step with so many prompts and these streams."""
        return PaceView(
            goal=self.goal(num_prompts, streams),
            step=self._rest * FIXED_UNITS,
            stream=self._rest * STREAM_UNITS,
            position_alone=self._alone,
            position_beside=self._beside,
            draft=self._draft,
            draft_tile=self._tile,
            round=self._guess * FIXED_UNITS,
            guess=self._guess,
            score=self._score,
        )


def _moved(cost: float, error: float, weight: float) -> float:
    """A cost that was wrong by `error`, relative to itself, in one step; no step counts for more than twice or half."""
    return cost * (1 + weight * min(max(error, -0.5), 1.0))
