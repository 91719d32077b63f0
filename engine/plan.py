"""Plan: which positions the next step computes, decided without side effects, then reserved whole."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.cache.tables import BlockTables
from engine.ledger import Planned
from engine.roster import Roster
from engine.sequence import Sequence, State
from engine.stats import Stats
from engine.step import Choose, Chunk, Plan, Score, Ticket


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one step may hold: positions, and rows that need logits."""

    max_positions: int
    max_logit_rows: int


@dataclass(frozen=True, slots=True)
class Grant:
    """`count` positions of one sequence, from its `computed` mark on."""

    sequence: Sequence
    count: int

    @property
    def upto(self) -> int:
        """The `planned` mark that the grant leads to."""
        return self.sequence.ledger.computed + self.count


@dataclass(frozen=True, slots=True)
class Decision:
    """What a step computes, and who loses the cache for it."""

    grants: tuple[Grant, ...] = ()
    victims: tuple[Sequence, ...] = ()


def plan_step(roster: Roster, tables: BlockTables, limits: Limits) -> Decision:
    """Decide a step; changes nothing.

    A sequence whose last step failed runs alone, so that it can't take others with it.
    """
    suspects = [sequence for sequence in roster.running if sequence.failures]
    if suspects and (decision := _decide(suspects[:1], roster, tables, limits)).grants:
        return decision
    return _decide([sequence for sequence in roster.running if not sequence.failures], roster, tables, limits)


def _decide(candidates: list[Sequence], roster: Roster, tables: BlockTables, limits: Limits) -> Decision:
    wanted = _share_budget(candidates, limits)
    return _fit(wanted, roster, tables)


def _share_budget(candidates: list[Sequence], limits: Limits) -> list[Grant]:
    """Each candidate's positions under the budget: those that owe one token first, then the rest in order."""
    positions, rows = limits.max_positions, limits.max_logit_rows
    grants = []
    for sequence in sorted(candidates, key=lambda sequence: (sequence.num_owed > 1, sequence.order)):
        count = _most_under(sequence, positions, rows)
        if count > 0:
            grants.append(Grant(sequence, count))
            positions -= count
            rows -= _num_rows(sequence, count)
    return sorted(grants, key=lambda grant: grant.sequence.order)


def _most_under(sequence: Sequence, positions: int, rows: int) -> int:
    """The most positions that fit into what is left of a step's budget."""
    if rows == 0:
        return 0
    count = min(sequence.num_owed, positions)
    if _num_rows(sequence, count) > rows:  # score what the rows hold, and choose in a later step
        first, _ = _score_range(sequence, count)
        count = first + rows - sequence.ledger.computed
    return count


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
        count = min(grant.count, _num_held_with(grant.sequence, tables, room))
        if count > 0:
            grants.append(Grant(grant.sequence, count))
            taken += min(missing, room)
    return Decision(tuple(grants), tuple(victims))


def _room(tables: BlockTables, victims: Iterable[Sequence]) -> int:
    return tables.pool.num_available + tables.pool.num_freed_by(victim.blocks for victim in victims)


def _num_held_with(sequence: Sequence, tables: BlockTables, room: int) -> int:
    """Positions beyond `computed` that the sequence's blocks hold, with `room` more of them."""
    return (len(sequence.blocks) + room) * tables.block_size - sequence.ledger.computed


def _victims_for(sequence: Sequence, roster: Roster, victims: list[Sequence]) -> Iterator[Sequence]:
    """Whose cache may be taken for `sequence`: the paused ones', then that of running ones behind it, last first."""
    behind = (other for other in roster.running if other.order > sequence.order)
    for victim in [*reversed(roster.paused), *reversed(list(behind))]:
        if victim.blocks and victim not in victims:
            yield victim


def reserve(
    decision: Decision, *, number: int, incarnation: int, roster: Roster, tables: BlockTables, stats: Stats
) -> Plan:
    """Take the victims' caches, reserve every block that the step needs, raise `planned`; build the plan."""
    for victim in decision.victims:
        tables.preempt(victim)
        stats.preemptions += 1
        stats.rollbacks["preempted"] += 1
        if victim.state is State.RUNNING:
            roster.move(victim, State.WAITING)
    tables.reserve([(grant.sequence, grant.upto) for grant in decision.grants])
    return Plan(number, tuple(_issue(grant, incarnation) for grant in decision.grants))


def _issue(grant: Grant, incarnation: int) -> Chunk:
    sequence = grant.sequence
    base = sequence.ledger.computed
    chunk = Chunk(
        ticket=Ticket(sequence.id, sequence.epoch, incarnation, base, tuple(sequence.blocks)),
        tokens=tuple(sequence.tokens[base : grant.upto]),
        choose=_choose(sequence) if _chooses(sequence, grant.count) else None,
        score=_score(sequence, grant.count),
    )
    sequence.ledger.plan(Planned(grant.upto))
    return chunk


def _choose(sequence: Sequence) -> Choose:
    request = sequence.request
    outputs = tuple(sequence.tokens[sequence.num_prompt :]) if request.sampling.penalizes else ()
    too_early = sequence.num_outputs < request.stopping.min_tokens
    return Choose(
        sampling=request.sampling,
        choice=sequence.choice,
        output_index=sequence.num_outputs,
        prompt=request.prompt if request.sampling.repetition_penalty != 1.0 else (),
        outputs=outputs,
        banned=tuple(sorted(request.stopping.eos_ids | request.stopping.token_ids)) if too_early else (),
        top_logprobs=request.top_logprobs,
    )


def _score(sequence: Sequence, count: int) -> Score | None:
    first, stop = _score_range(sequence, count)
    top = sequence.request.prompt_logprobs
    if top is None or first == stop:
        return None
    return Score(first, tuple(sequence.tokens[first + 1 : stop + 1]), top)
