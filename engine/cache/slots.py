"""StateSlots: where recurrent states live, and which of them are kept as checkpoints of prefixes.

A running sequence has one slot, which every step reads and overwrites. A checkpoint is a copy of the state as
it was before some block border; steps write it, commit makes it known, and what is known and not in use
is evicted before a live state would go without a slot.
"""

from collections.abc import Iterable

from engine.cache.blocks import BlockPool
from engine.cache.prefix import Prefix, PrefixIndex
from engine.held import Held
from engine.sequence import Sequence
from engine.stats import BlockCounts

EVERY_BLOCKS = 16  # of a prompt: the way back from anywhere in a long document that others share
EVERY_ANSWER_BLOCKS = 4  # of an answer: what the next turn of a conversation computes again at most


class StateSlots:
    """Accounts of `num_slots` states. A model without recurrent layers has none, and all of this is idle."""

    def __init__(self, num_slots: int, *, block_size: int, keeps_checkpoints: bool) -> None:
        self.block_size = block_size
        self.index = PrefixIndex(block_size=block_size)
        self.pool = BlockPool(num_slots, on_evict=self.index.forget)
        self._keeps_checkpoints = keeps_checkpoints

    @property
    def there(self) -> bool:
        """Whether the model has recurrent states at all."""
        return self.pool.num_units > 0

    def num_available(self, checkpoint: int | None) -> int:
        """Slots that could be reserved beside a `checkpoint` that is in use."""
        return self.pool.num_available - (0 if checkpoint is None else self.pool.num_cached([checkpoint]))

    def counts(self) -> BlockCounts:
        """How many slots are in each state; cached ones are checkpoints."""
        return self.pool.counts()

    def longest(self, prefix: Prefix, num_blocks: int) -> tuple[int, int | None]:
        """The most leading blocks, `num_blocks` at most, behind which a checkpoint stands, and its slot."""
        for count in range(num_blocks, 0, -1):
            slot = self.index.find(prefix, count - 1)
            if slot is not None:
                return count, slot
        return 0, None

    def seat(self, held: Held, checkpoint: int | None) -> None:
        """Give a sequence its slot, and a hold on the checkpoint that its first step starts from."""
        if not self.there:
            return
        if checkpoint is not None:
            self.pool.share([checkpoint])
            held.source = checkpoint
        [held.slot] = self.pool.reserve(1)

    # -- what a step writes -------------------------------------------------------------------

    @property
    def num_for_drafts(self) -> int:
        """Slots that a step may use for states behind drafts: half of those that checkpoints could have."""
        return self.pool.num_available // 2

    def take_ring(self, held: Held, positions: range) -> None:
        """Reserve a slot for the state before each of `positions`; where a draft falls, one of them goes on."""
        assert not held.ring, "one step in flight at a time"
        held.ring = list(zip(positions, self.pool.reserve(len(positions)), strict=True))

    def take_checkpoints(self, sequence: Sequence, upto: int) -> tuple[tuple[int, int], ...]:
        """Reserve slots for the checkpoints that a step from `computed` to `upto` is worth."""
        held = sequence.held
        assert not held.taking, "one step in flight at a time"
        if self._keeps_checkpoints:
            for position in self._worthy(sequence, upto):
                if self.pool.num_available:
                    held.taking.append((position, self.pool.reserve(1)[0]))
        return tuple(held.taking)

    def _worthy(self, sequence: Sequence, upto: int) -> list[int]:
        """The block borders beyond `computed` and not beyond `upto` where a later request may want to start."""
        computed, size = sequence.ledger.computed, self.block_size
        ends = {self.last_border(sequence), sequence.stem // size * size}
        on_the_way = [at for at in self._borders(computed, upto) if self._is_on_the_way(sequence, at)]
        if self.pool.num_free <= len(ends):  # these evict nothing
            on_the_way = [at for at in on_the_way if at > sequence.num_prompt]
        return sorted({at for at in ends if computed < at <= upto} | set(on_the_way))

    def last_border(self, sequence: Sequence) -> int:
        """The last position that a request with the same tokens could start from."""
        return self._border_within(len(sequence.tokens))

    def _border_within(self, num_tokens: int) -> int:
        return (num_tokens - 1) // self.block_size * self.block_size

    def _borders(self, start: int, stop: int) -> range:
        size = self.block_size
        return range((start // size + 1) * size, stop + 1, size)

    def _is_on_the_way(self, sequence: Sequence, position: int) -> bool:
        every = EVERY_ANSWER_BLOCKS if position > sequence.num_prompt else EVERY_BLOCKS
        return position % (every * self.block_size) == 0

    def commit(self, sequence: Sequence, prefix: Prefix) -> None:
        """Make known what the committed step wrote, and let go of what it started from."""
        held, computed = sequence.held, sequence.ledger.computed
        if held.source is not None:
            self.pool.release([held.source])
            held.source = None
        self._pick(held, computed)
        for position, slot in held.taking:
            if position <= computed and self.index.insert(prefix, position // self.block_size - 1, slot):
                self.pool.keep(slot)
                self.pool.release([slot])
                self._rank(sequence, prefix, position, slot)
            else:
                self.pool.release([slot])
        held.taking.clear()

    def _pick(self, held: Held, computed: int) -> None:
        """Let the state at `computed` be the live one, and give the others back."""
        for position, slot in held.ring:
            given_back = slot
            if position == computed:
                assert held.slot is not None, "who drafts has a state"
                held.slot, given_back = slot, held.slot
            self.pool.release([given_back])
        held.ring.clear()

    def _rank(self, sequence: Sequence, prefix: Prefix, position: int, slot: int) -> None:
        """Of an answer's checkpoints the last is enough; those within a prompt go first when slots run out."""
        if position > sequence.num_prompt:
            self._drop_latest(sequence.held, prefix)
            sequence.held.latest = position
        elif position < self._border_within(sequence.num_prompt) and position != sequence.stem:
            self.pool.put_first(slot)

    def _drop_latest(self, held: Held, prefix: Prefix) -> None:
        if held.latest is None:
            return
        slot = self.index.find(prefix, held.latest // self.block_size - 1)
        if slot is not None:
            self.pool.drop(slot)

    def release(self, held: Held) -> None:
        """Give back all slots of a sequence."""
        self.pool.release(list(held.slots()))
        held.slot = held.source = held.latest = None
        held.taking.clear()
        held.ring.clear()

    def check(self, holders: Iterable[Held]) -> None:
        """Assert the laws of slots and checkpoints."""
        self.pool.check(slot for held in holders for slot in held.slots())
        self.index.check()
