"""BlockTables: a sequence's places in the cache, from the pool, shared through the prefix index."""

from collections.abc import Iterable

from engine.cache.blocks import BlockPool
from engine.cache.hits import Hits, Match
from engine.cache.layout import Layout, Reach
from engine.cache.prefix import Prefix, PrefixIndex, PrefixKeys
from engine.cache.sizing import CacheSizes, most_blocks
from engine.cache.slots import StateSlots
from engine.held import GroupTable
from engine.ledger import Drafted
from engine.look import UnitTable
from engine.sequence import Sequence
from engine.stats import BlockCounts, TableView
from engine.step import StateUse, Table


class BlockTables:
    """All block tables, and the only one that takes blocks and slots from the pools or gives them back.

    All groups' tables of a sequence end at the same block of positions; where they begin depends on how far back
    the group's layers see. Moves no marks but through `preempt`, which invalidates.
    """

    def __init__(
        self, layout: Layout, sizes: CacheSizes, *, block_size: int, fingerprint: str, prefix_caching: bool = True
    ) -> None:
        self.layout = layout
        self.block_size = block_size
        self.prefix_caching = prefix_caching
        self.keys = PrefixKeys(fingerprint=fingerprint, block_size=block_size)
        self.states = StateSlots(sizes.num_slots, block_size=block_size, keeps_checkpoints=prefix_caching)
        self._hits = Hits(layout, self.states, block_size=block_size)
        self.pool = BlockPool(sizes.num_units, on_evict=self._hits.forget)
        self.units_per_block = sum(layout.widths)
        self._groups = tuple(zip(layout.groups, layout.widths, strict=True))
        self._forgetful = [each for each in enumerate(layout.groups) if each[1].reach is not Reach.FULL]
        self._beside = layout.group_beside if layout.beside else None
        self._drafted: set[int] = set()  # blocks of that group which the draft model has computed whole

    @property
    def indexes(self) -> tuple[PrefixIndex, ...]:
        """What is known of each group."""
        return self._hits.indexes

    # -- how much -----------------------------------------------------------------------------

    def num_blocks_for(self, positions: int) -> int:
        """Blocks that hold `positions` positions."""
        return -(-positions // self.block_size)

    def num_missing(self, sequence: Sequence, upto: int) -> int:
        """Units that `sequence` lacks to hold everything below position `upto`."""
        return max(0, self.num_blocks_for(upto) - sequence.held.num_blocks) * self.units_per_block

    def num_held_with(self, sequence: Sequence, room: int) -> int:
        """Positions beyond `computed` that the sequence has places for, with `room` units more."""
        more = room // self.units_per_block if self.units_per_block else self.num_blocks_for(sequence.max_length)
        return (sequence.held.num_blocks + more) * self.block_size - sequence.ledger.computed

    def num_wanted(self, sequence: Sequence, upto: int, match: Match | None = None) -> int:
        """Units that a sequence still takes, beside those of a `match`, until all below position `upto` is computed."""
        total = self.num_blocks_for(upto)
        wanted = 0
        for number, (group, width) in enumerate(self._groups):
            held = len(match.tables[number]) if match else _num_held(sequence, number)
            end = match.num_positions // self.block_size if match else sequence.held.num_blocks
            most = most_blocks(group, self.block_size)
            lacking = total - end if most is None else min(total - end, most - held)
            wanted += width * max(0, lacking)
        return wanted

    def has_room(self, num_units: int, match: Match) -> bool:
        """Whether so many units are available beside a match, and a slot where the model is recurrent."""
        if self.states.there and self.states.num_available(match.checkpoint) < 1:
            return False
        return num_units <= self.pool.num_available - self.pool.num_cached(match.blocks)

    # -- prefixes -----------------------------------------------------------------------------

    def match(self, sequence: Sequence) -> Match:
        """The longest prefix of the sequence's tokens that it may start from: valid in every group."""
        if self.prefix_caching:  # else a sequence has no keys, so nothing is found and nobody waits for another
            self._extend_keys(sequence, len(sequence.tokens))
        most = min(sequence.max_hit // self.block_size, len(sequence.keys))
        return self._hits.match(self._prefix(sequence), most)

    def seat(self, sequence: Sequence, match: Match) -> None:
        """Give a sequence that holds nothing the shared blocks of its `match`, and a slot if its model is recurrent."""
        held = sequence.held
        assert not held.anything, "seated twice"
        self.pool.share(match.blocks)
        pairs = zip(match.tables, match.firsts, strict=True)
        held.tables = [GroupTable(list(table), first) for table, first in pairs]
        held.num_blocks = held.num_indexed = match.num_positions // self.block_size
        sequence.stem = match.stem
        self.states.seat(held, match.checkpoint)

    def index(self, sequence: Sequence) -> None:
        """Make known what is full, computed and accepted; let go of what no query sees any more. Called at commit."""
        held = sequence.held
        upto = min(sequence.ledger.computed, sequence.ledger.accepted)
        end = upto // self.block_size
        if self.prefix_caching and (end > held.num_indexed or held.taking):
            self._extend_keys(sequence, upto)
            self._index_blocks(sequence, end)
        if held.taking or held.ring or held.source is not None:
            self.states.commit(sequence, self._prefix(sequence))
        self._note_drafted(sequence)
        self._release_behind(sequence)
        self._release_beyond(sequence)

    def _index_blocks(self, sequence: Sequence, end: int) -> None:
        held, prefix = sequence.held, self._prefix(sequence)
        for table, index in zip(held.tables, self.indexes, strict=True):
            for number in range(max(held.num_indexed, table.first), end):
                block = table.blocks[number - table.first]
                if index.insert(prefix, number, block):
                    self.pool.keep(block)
        self._hits.remember(sequence.keys[held.num_indexed : end])
        held.num_indexed = max(held.num_indexed, end)

    def _release_behind(self, sequence: Sequence) -> None:
        for number, group in self._forgetful:
            table = sequence.held.tables[number]
            count = group.first_seen(sequence.ledger.computed) // self.block_size - table.first
            if count > 0:
                self.pool.release(table.blocks[:count])
                del table.blocks[:count]
                table.first += count

    def _release_beyond(self, sequence: Sequence) -> None:
        """Give back the blocks that only drafts stood in which fell."""
        held = sequence.held
        count = self.num_blocks_for(sequence.ledger.planned) - held.num_blocks
        if count < 0:
            for table in held.tables:
                self.pool.release(table.blocks[count:])
                del table.blocks[count:]
            held.num_blocks += count

    # -- places -------------------------------------------------------------------------------

    @property
    def num_draft_states(self) -> int | None:
        """How many drafts a step may hold for the sake of the states behind them; None without recurrent layers."""
        return self.states.num_for_drafts if self.states.there else None

    def reserve(self, wanted: Iterable[tuple[Sequence, int, int]]) -> None:
        """Give every sequence places for all positions below a number, so many of the last of which are drafts.

        All of them, or none and an error.
        """
        wanted = list(wanted)
        missing = sum(self.num_missing(sequence, upto) for sequence, upto, _ in wanted)
        assert missing <= self.pool.num_available, "the plan fits the pool"
        most = self.num_draft_states
        assert most is None or sum(count for _, _, count in wanted) <= most, "the plan fits the slots"
        for sequence, upto, num_drafts in wanted:
            held = sequence.held
            if num_drafts and most is not None:
                self.states.take_ring(held, range(upto - num_drafts, upto))
            count = self.num_blocks_for(upto) - held.num_blocks
            if count <= 0:
                continue
            for kind, ((_, width), table) in enumerate(zip(self._groups, held.tables, strict=True)):
                new = self.pool.reserve(count, width, kind)
                table.blocks.extend(new)
                if kind == self._beside:
                    self._drafted.difference_update(new)
            held.num_blocks += count

    def tables_of(self, sequence: Sequence) -> tuple[Table, ...]:
        """The sequence's block tables as a step reads them: one for each unit of a block."""
        tables: list[Table] = []
        for (_, width), table in zip(self._groups, sequence.held.tables, strict=True):
            if width == 1 or not table.blocks:
                tables.extend([Table(tuple(table.blocks), table.first)] * width)
            else:
                columns = zip(*map(self.pool.units, table.blocks), strict=True)
                tables.extend(Table(column, table.first) for column in columns)
        return tuple(tables)

    def use_states(self, sequence: Sequence, upto: int) -> StateUse | None:
        """The slots that a step from `computed` to `upto` reads and writes; None without recurrent layers."""
        held = sequence.held
        if held.slot is None:
            return None
        source = held.source if held.source is not None else held.slot
        from_nothing = sequence.ledger.computed == 0
        kept = (*self.states.take_checkpoints(sequence, upto), *held.ring)
        return StateUse(None if from_nothing else source, held.slot, kept)

    # -- the draft model ----------------------------------------------------------------------

    def drafted_upto(self, sequence: Sequence) -> int:
        """Below which the draft model has computed all, for this sequence or for others that share its blocks."""
        if self._beside is None:
            return 0
        drafted, blocks = sequence.ledger.drafted, self._blocks_beside(sequence)
        number = drafted // self.block_size
        while number < len(blocks) and blocks[number] in self._drafted:
            number += 1
        return max(drafted, number * self.block_size)

    def lacking(self, sequence: Sequence) -> range:
        """The next of its accepted positions that the draft model has not computed, up to a block that it has."""
        start, blocks = self.drafted_upto(sequence), self._blocks_beside(sequence)
        numbers = range(start // self.block_size, sequence.ledger.computed // self.block_size)
        known = next((number for number in numbers if blocks[number] in self._drafted), None)
        return range(start, sequence.ledger.accepted if known is None else known * self.block_size)

    def places_beside(self, sequence: Sequence, positions: range) -> set[int]:
        """The blocks beside which the draft model's rows of these positions lie."""
        last = self.num_blocks_for(positions.stop)
        return set(self._blocks_beside(sequence)[positions.start // self.block_size : last])

    def settled(self, sequence: Sequence, upto: int) -> Drafted:
        """The `drafted` mark where a step has computed below `upto` and commit has set `computed`.

        Blocks that are full may soon be shared, and then count whole or not at all.
        """
        computed, size = sequence.ledger.computed, self.block_size
        upto = min(upto, computed)
        return Drafted(upto if upto // size == computed // size else upto // size * size)

    def _note_drafted(self, sequence: Sequence) -> None:
        if self._beside is None:
            return
        blocks, number = self._blocks_beside(sequence), sequence.ledger.drafted // self.block_size
        while number > 0 and blocks[number - 1] not in self._drafted:
            number -= 1
            self._drafted.add(blocks[number])

    def _blocks_beside(self, sequence: Sequence) -> list[int]:
        assert self._beside is not None, "there is a draft model"
        return sequence.held.tables[self._beside].blocks

    # -- giving back --------------------------------------------------------------------------

    def release(self, sequence: Sequence) -> None:
        """Give back all that a sequence holds."""
        held = sequence.held
        for table in held.tables:
            self.pool.release(table.blocks)
        held.tables = []
        held.num_blocks = held.num_indexed = 0
        self.states.release(held)

    def preempt(self, sequence: Sequence) -> None:
        """Take a sequence's cache; it keeps its output and starts again from what is found in the cache."""
        self.release(sequence)
        sequence.invalidate()

    def leads(self, leader: Sequence, follower: Sequence, match: Match) -> bool:
        """Whether `leader` is about to compute the state that `follower`, after `match`, could start from next."""
        most = min(follower.max_hit // self.block_size, len(follower.keys))  # leading blocks that a hit could give
        number = match.num_positions // self.block_size
        if self.states.there:  # which it can only start from where a checkpoint is
            border = self.states.last_border(leader) // self.block_size
            if border <= number:
                return False
            number = border - 1
        if number >= min(most, len(leader.keys)):
            return False
        return leader.keys[number] == follower.keys[number] and leader.ledger.computed < (number + 1) * self.block_size

    def view(self, sequence: Sequence) -> tuple[TableView, ...]:
        """The sequence's tables, each block with its number of owners."""
        return tuple(
            TableView(number, table.first, tuple((block, self.pool.owners(block)) for block in table.blocks))
            for number, table in enumerate(sequence.held.tables)
        )

    def units_of(self, sequence: Sequence) -> tuple[UnitTable, ...]:
        """The sequence's tables, each block with all its units."""
        return tuple(
            UnitTable(table.first, tuple(table.blocks) if width == 1 else self._all_units(table.blocks))
            for (_, width), table in zip(self._groups, sequence.held.tables, strict=False)
        )

    def _all_units(self, blocks: Iterable[int]) -> tuple[int, ...]:
        return tuple(unit for block in blocks for unit in self.pool.units(block))

    def group_counts(self) -> tuple[BlockCounts, ...]:
        """How many units of each group are in each state; what is free is free for all of them."""
        return tuple(self.pool.counts_of(number) for number in range(len(self._groups)))

    def _prefix(self, sequence: Sequence) -> Prefix:
        return Prefix(self.keys.root(sequence.request.salt), sequence.keys, sequence.tokens)

    def _extend_keys(self, sequence: Sequence, upto: int) -> None:
        self.keys.extend(sequence.keys, sequence.tokens, salt=sequence.request.salt, upto=upto)

    # -- laws ---------------------------------------------------------------------------------

    def check(self, sequences: Iterable[Sequence]) -> None:
        """Assert the laws of pools, indexes and tables."""
        sequences = list(sequences)
        self.pool.check(block for sequence in sequences for block in sequence.held.blocks())
        self.states.check(sequence.held for sequence in sequences)
        self._hits.check()
        for sequence in sequences:
            self._check_tables(sequence)

    def _check_tables(self, sequence: Sequence) -> None:
        held, computed = sequence.held, sequence.ledger.computed
        needed = self.num_blocks_for(sequence.ledger.planned)
        assert held.num_blocks >= needed, f"{sequence.id} lacks places for what is planned"
        assert len(set(held.blocks())) == len(list(held.blocks())), "a table holds a block once"
        for group, table in zip(self.layout.groups, held.tables, strict=False):
            assert table.end == held.num_blocks, "all groups' tables end together"
            assert table.first <= group.first_seen(computed) // self.block_size, "what is still seen is still held"
            for block in table.blocks_from(computed // self.block_size):
                assert self.pool.owners(block) == 1, f"{sequence.id} would write shared block {block}"
        assert held.num_blocks == needed, f"{sequence.id} holds places for what is not planned"
        if self.states.there and held.anything:
            assert held.slot is not None, "who holds a cache has a state"
            assert self.states.pool.owners(held.slot) == 1, "a live state has one owner"
        if self._beside is not None and held.anything:
            self._check_drafted(sequence)

    def _check_drafted(self, sequence: Sequence) -> None:
        drafted, computed = sequence.ledger.drafted, sequence.ledger.computed
        number, blocks = drafted // self.block_size, self._blocks_beside(sequence)
        assert drafted % self.block_size == 0 or number == computed // self.block_size, "full blocks count whole"
        assert self._drafted.issuperset(blocks[:number]), "what is drafted is known of each block"
        assert self._drafted.isdisjoint(blocks[computed // self.block_size :]), "nothing is known of what is not full"


def _num_held(sequence: Sequence, number: int) -> int:
    tables = sequence.held.tables
    return len(tables[number].blocks) if tables else 0
