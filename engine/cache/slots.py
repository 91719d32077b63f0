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
PROMPT_PART = 4  # one prompt's checkpoints on the way are at most one of so many: it leaves others theirs


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
        held.taking.sort()
        return tuple(held.taking)

    def _worthy(self, sequence: Sequence, upto: int) -> list[int]:
        """The block borders beyond `computed` and not beyond `upto` where a later request may start, the ends first."""
        computed, size = sequence.ledger.computed, self.block_size
        ends = {self.last_border(sequence), sequence.stem // size * size}
        on_the_way = (*self._within_prompt(sequence, upto), *self._within_answer(sequence, upto))
        return [at for at in sorted(ends) if computed < at <= upto] + [at for at in on_the_way if at not in ends]

    def last_border(self, sequence: Sequence) -> int:
        """The last position that a request with the same tokens could start from."""
        return (len(sequence.tokens) - 1) // self.block_size * self.block_size

    def _within_prompt(self, sequence: Sequence, upto: int) -> range:
        """Borders on the way of a prompt, half as many each time that they would be more than one prompt's part."""
        num_prompt, every = sequence.num_prompt, EVERY_BLOCKS
        most = max(1, self.pool.num_available // PROMPT_PART)
        while num_prompt // (every * self.block_size) > most:
            every *= 2
        return self._borders(sequence.ledger.computed, min(upto, num_prompt), every)

    def _within_answer(self, sequence: Sequence, upto: int) -> range:
        """Borders on the way of an answer: the last one that is sure to be computed, and those behind drafts."""
        start, stop = max(sequence.ledger.computed, sequence.num_prompt), min(upto, len(sequence.tokens))
        surely = self._borders(start, stop, EVERY_ANSWER_BLOCKS)
        return self._borders(surely[-1] - 1 if surely else start, upto, EVERY_ANSWER_BLOCKS)

    def _borders(self, start: int, stop: int, every: int) -> range:
        """The ends of every so many blocks beyond `start` and not beyond `stop`."""
        step = every * self.block_size
        return range((start // step + 1) * step, stop + 1, step)

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
                self._note_latest(sequence, prefix, position)
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

    def _note_latest(self, sequence: Sequence, prefix: Prefix, position: int) -> None:
        """Of an answer's checkpoints the last is enough."""
        held = sequence.held
        if position <= sequence.num_prompt:
            return
        slot = None if held.latest is None else self.index.find(prefix, held.latest // self.block_size - 1)
        if slot is not None:
            self.pool.drop(slot)
        held.latest = position

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
