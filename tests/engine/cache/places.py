"""Sequences that get their places from block tables and are computed without a model."""

from engine.cache.hits import Match
from engine.cache.layout import Layout
from engine.cache.sizing import CacheSizes
from engine.cache.tables import BlockTables
from engine.ledger import Accepted, Computed, Planned, Positions
from engine.sequence import Sequence
from tests.digest import FULL
from tests.parts import a_request

PROMPT = (2, 3, 4, 5, 2, 3)
BLOCK_SIZE = 2


def some_tables(
    num_blocks: int = 8, *, layout: Layout = FULL, num_slots: int = 0, prefix_caching: bool = True
) -> BlockTables:
    """An empty cache of `num_blocks` blocks of two positions in every group."""
    sizes = CacheSizes(num_blocks * sum(layout.widths), num_slots)
    return BlockTables(layout, sizes, block_size=BLOCK_SIZE, fingerprint="digest", prefix_caching=prefix_caching)


def a_sequence(
    prompt: tuple[int, ...] = PROMPT, *, number: int = 1, salt: str = "", prompt_logprobs: int | None = None
) -> Sequence:
    """A sequence that waits."""
    request = a_request(prompt, id=f"request-{number}", salt=salt, prompt_logprobs=prompt_logprobs)
    return Sequence(request, 0, number=number, max_length=200, positions=Positions(), arrived_at=0.0)


def start(tables: BlockTables, sequence: Sequence) -> Match:
    """Give the sequence what it finds in the cache."""
    match = tables.match(sequence)
    tables.seat(sequence, match)
    sequence.ledger.admit(match.num_positions)
    return match


def plan(tables: BlockTables, sequence: Sequence, upto: int) -> tuple[tuple[int, int], ...]:
    """Give the sequence places below `upto`, as a step that is issued does; the checkpoints that it writes."""
    tables.reserve([(sequence, upto, 0)])
    use = tables.use_states(sequence, upto)
    sequence.ledger.plan(Planned(upto))
    return () if use is None else use.checkpoints


def commit(tables: BlockTables, sequence: Sequence, upto: int) -> None:
    """Let everything below `upto` be computed."""
    sequence.ledger.commit(Computed(upto), Accepted(len(sequence.tokens)))
    tables.index(sequence)


def compute(tables: BlockTables, sequence: Sequence, *borders: int) -> None:
    """Compute the positions below each of `borders`, in a step each."""
    for upto in borders:
        plan(tables, sequence, upto)
        commit(tables, sequence, upto)


def answer(tables: BlockTables, sequence: Sequence, *tokens: int) -> None:
    """Choose each of `tokens` in turn, and compute what came before it."""
    for token in tokens:
        plan(tables, sequence, len(sequence.tokens))
        sequence.tokens.append(token)
        sequence.ledger.commit(Computed(len(sequence.tokens) - 1), Accepted(len(sequence.tokens)))
        tables.index(sequence)


def computed(tables: BlockTables, sequence: Sequence) -> Sequence:
    """A sequence whose prompt is in the cache, but for its last token."""
    start(tables, sequence)
    compute(tables, sequence, len(sequence.tokens) - 1)
    return sequence


def found(match: Match, group: int = 0) -> tuple[tuple[int, ...], int]:
    """What a match has of one group, and how many positions."""
    return match.tables[group], match.num_positions
