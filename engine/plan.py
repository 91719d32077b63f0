"""Plan: which positions the next step computes, decided without side effects, then reserved whole."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.cache.tables import BlockTables
from engine.course import Loss
from engine.draft.drafts import Drafts
from engine.drafting import DraftRoom, Grant, add_drafts
from engine.ledger import Planned
from engine.pace import Pace, Prices, as_streams
from engine.preemption import preempt
from engine.roster import Roster
from engine.sequence import Sequence
from engine.stats import Stats
from engine.step import Choose, Chunk, Plan, Pool, Score, Ticket

OLDEST_PART = 4  # the prompt that came first has one part of so many of what prompts get, whoever overtakes it


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one step may hold: positions, and rows that need logits."""

    max_positions: int
    max_logit_rows: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What a step computes, and who loses the cache for it."""

    grants: tuple[Grant, ...] = ()
    victims: tuple[Sequence, ...] = ()


def plan_step(roster: Roster, tables: BlockTables, limits: Limits, pace: Pace, drafts: Drafts) -> Decision:
    """Decide a step; changes nothing.

    A sequence whose last step failed runs alone and without drafts, so that it can't take others with it. Drafts
    take what streams alone leave of a step; prompts come first, and nobody loses the cache for a draft.
    """
    suspects = [sequence for sequence in roster.running if sequence.failures]
    if suspects and (decision := _fit(_share_step(suspects[:1], limits, pace), roster, tables)).grants:
        return decision
    sound = [sequence for sequence in roster.running if not sequence.failures]
    grants = _share_step(sound, limits, pace)
    if not _streams_alone(grants):
        return _fit(grants, roster, tables)
    room = DraftRoom(_room_for_drafts(grants, limits, tables), limits.max_positions)
    drafted = add_drafts(grants, room, tables, pace, drafts)
    return Decision(drafted) if _all_fit(drafted, tables) else _fit(grants, roster, tables)


def _streams_alone(grants: list[Grant]) -> bool:
    return bool(grants) and all(_chooses(grant.sequence, grant.count) and grant.count == 1 for grant in grants)


def _room_for_drafts(grants: list[Grant], limits: Limits, tables: BlockTables) -> int:
    """How many tokens a step of these streams may draft: each is a position, a row of logits and perhaps a state."""
    room = min(limits.max_positions, limits.max_logit_rows) - sum(_num_rows(grant.sequence, 1) for grant in grants)
    return room if tables.num_draft_states is None else min(room, tables.num_draft_states)


def _all_fit(grants: Iterable[Grant], tables: BlockTables) -> bool:
    missing = sum(tables.num_missing(grant.sequence, grant.upto) for grant in grants)
    return missing <= tables.pool.num_available


def _share_step(candidates: list[Sequence], limits: Limits, pace: Pace) -> list[Grant]:
    """Each candidate's positions: those that owe one get it, the others share what is left of the step's limits."""
    streaming = [sequence for sequence in candidates if sequence.num_owed == 1]
    grants = [Grant(sequence, 1) for sequence in streaming]
    prompts = [sequence for sequence in candidates if sequence.num_owed > 1]
    if prompts:
        streams = as_streams(streaming)
        num_rows = sum(_num_rows(sequence, 1) for sequence in streaming)
        seconds = pace.seconds_for_prompts(len(prompts), streams)
        room = _Room(limits.max_positions - len(streaming), limits.max_logit_rows - num_rows, seconds)
        grants += _share_room(prompts, room, pace.prices(streams))
        grants.sort(key=lambda grant: grant.sequence.order)
    return grants


@dataclass(frozen=True, slots=True)
class _Room:
    """What of a step is left for prompts, or taken by one."""

    positions: int
    rows: int
    seconds: float

    def __add__(self, other: "_Room") -> "_Room":
        return _Room(self.positions + other.positions, self.rows + other.rows, self.seconds + other.seconds)

    def __sub__(self, other: "_Room") -> "_Room":
        return _Room(self.positions - other.positions, self.rows - other.rows, self.seconds - other.seconds)

    @property
    def part(self) -> "_Room":
        """What is kept for the oldest: at least one position, with its row."""
        positions, rows = max(1, self.positions // OLDEST_PART), max(1, self.rows // OLDEST_PART)
        return _Room(positions, rows, self.seconds / OLDEST_PART)


def _share_room(prompts: list[Sequence], room: _Room, prices: Prices) -> list[Grant]:
    """The shortest first, so that they overtake; but a part of every step is kept for the oldest, the first of them."""
    oldest = prompts[0]
    kept = _taken(oldest, max(1, _most_within(oldest, room.part, prices)), prices)
    room -= kept
    grants = []
    for sequence in sorted(prompts, key=lambda prompt: (prompt.request.priority, prompt.num_owed, prompt.number)):
        if sequence is oldest:
            room += kept
        least = 1 if sequence is oldest else 0
        count = max(least, _most_within(sequence, room, prices))
        if count > 0:
            grants.append(Grant(sequence, count))
            room -= _taken(sequence, count, prices)
    return grants


def _taken(sequence: Sequence, count: int, prices: Prices) -> _Room:
    num_rows = _num_rows(sequence, count)
    return _Room(count, num_rows, prices.of(sequence.ledger.computed, count, num_rows))


def _most_within(sequence: Sequence, room: _Room, prices: Prices) -> int:
    """The most of the sequence's next positions that fit."""
    if room.rows <= 0:
        return 0
    count = min(sequence.num_owed, room.positions)
    if _num_rows(sequence, count) > room.rows:  # score what the rows hold, and choose in a later step
        first, _ = _score_range(sequence, count)
        count = first + room.rows - sequence.ledger.computed
    return bisect_right(range(1, count + 1), room.seconds, key=lambda num: _taken(sequence, num, prices).seconds)


def _score_range(sequence: Sequence, count: int) -> tuple[int, int]:
    """Positions, in the next `count`, whose following prompt token still wants its log-probability."""
    computed = sequence.ledger.computed
    if sequence.request.prompt_logprobs is None:
        return computed, computed
    first = max(computed, len(sequence.prompt_logprobs) - 1)
    return first, max(first, min(computed + count, sequence.num_prompt - 1))


def _num_rows(sequence: Sequence, count: int) -> int:
    first, stop = _score_range(sequence, count)
    return stop - first + _chooses(sequence, count)


def _chooses(sequence: Sequence, count: int) -> bool:
    return count == sequence.num_owed and not sequence.request.chooses_nothing


def _fit(wanted: list[Grant], roster: Roster, tables: BlockTables) -> Decision:
    """Cut what is wanted, oldest first, to the blocks there are, and name whose cache is taken for it."""
    if _all_fit(wanted, tables):
        return Decision(tuple(wanted))  # as nearly always
    grants: list[Grant] = []
    victims: list[Sequence] = []
    taken = 0
    for grant in wanted:
        if grant.sequence in victims:
            continue
        candidates = _victims_for(grant.sequence, roster, victims)
        missing = tables.num_missing(grant.sequence, grant.upto)
        while missing > (room := _room(tables, victims) - taken) and (victim := next(candidates, None)):
            victims.append(victim)
        count = min(grant.count, tables.num_held_with(grant.sequence, room))
        if count > 0:
            grants.append(Grant(grant.sequence, count))
            taken += tables.num_missing(grant.sequence, grant.sequence.ledger.computed + count)
    return Decision(tuple(grants), tuple(victims))


def _room(tables: BlockTables, victims: Iterable[Sequence]) -> int:
    return tables.pool.num_available + tables.pool.num_freed_by(
        block for victim in victims for block in victim.held.blocks()
    )


def _victims_for(sequence: Sequence, roster: Roster, victims: list[Sequence]) -> Iterator[Sequence]:
    """Whose cache may be taken for `sequence`: the paused ones', then that of running ones behind it, last first."""
    behind = (other for other in roster.running if other.order > sequence.order)
    for victim in [*reversed(roster.paused), *reversed(list(behind))]:
        if victim.held.anything and victim not in victims:
            yield victim


def reserve(
    decision: Decision, *, number: int, incarnation: int, roster: Roster, tables: BlockTables, stats: Stats
) -> Plan:
    """Take the victims' caches, reserve every block that the step needs, raise `planned`; build the plan."""
    for victim in decision.victims:
        preempt(victim, Loss.ROOM, roster=roster, tables=tables, stats=stats)
    tables.reserve([(grant.sequence, grant.upto, grant.num_drafts) for grant in decision.grants])
    return Plan(number, tuple(_issue(grant, incarnation, tables) for grant in decision.grants))


def _issue(grant: Grant, incarnation: int, tables: BlockTables) -> Chunk:
    sequence, upto = grant.sequence, grant.upto
    base = sequence.ledger.computed
    places = (tables.tables_of(sequence), tables.use_states(sequence, upto))
    chunk = Chunk(
        ticket=Ticket(sequence.id, sequence.epoch, incarnation, base, *places),
        tokens=(*sequence.tokens[base : base + grant.count], *(grant.draft.tokens if grant.draft else ())),
        choose=_choose(sequence) if _chooses(sequence, grant.count) else None,
        score=_score(sequence, grant.count),
        num_drafts=grant.num_drafts,
        source=grant.draft.source if grant.draft else "",
        pool=_pool(sequence, grant.count),
        feed=grant.feed,
        num_guesses=grant.draft.num_guesses if grant.draft else 0,
    )
    sequence.ledger.plan(Planned(upto))
    return chunk


def _choose(sequence: Sequence) -> Choose:
    request, num_outputs = sequence.request, sequence.num_outputs
    outputs = tuple(sequence.tokens[sequence.num_prompt :]) if request.sampling.penalizes else ()
    too_early = num_outputs < request.stopping.min_tokens
    return Choose(
        sampling=request.sampling,
        choice=sequence.choice,
        output_index=num_outputs,
        prompt=request.prompt if request.sampling.repetition_penalty != 1.0 else (),
        outputs=outputs,
        banned=tuple(sorted(request.stopping.eos_ids | request.stopping.token_ids)) if too_early else (),
        min_outputs=request.stopping.min_tokens,
        top_logprobs=request.top_logprobs,
    )


def _score(sequence: Sequence, count: int) -> Score | None:
    top = sequence.request.prompt_logprobs
    if top is None:
        return None
    first, stop = _score_range(sequence, count)
    if first == stop:
        return None
    return Score(first, tuple(sequence.tokens[first + 1 : stop + 1]), top)


def _pool(sequence: Sequence, count: int) -> Pool | None:
    """The positions, in the next `count`, whose hidden states are still to be added; some may be computed again."""
    first = max(sequence.ledger.computed, sequence.pooled_upto)
    if sequence.request.pooling is None or first >= sequence.ledger.computed + count:
        return None
    return Pool(first, sequence.pooled)
