"""How much cache there is: units of the pool for rows, slots for recurrent states, and the context that they hold."""

from bisect import bisect_right
from dataclasses import dataclass

from config.settings import CacheSettings
from engine.cache.layout import CacheGroup, Layout, Reach
from engine.errors import CacheTooLarge, CacheTooSmall, StatesTooLarge

FREE_SHARE = 0.25  # of the free memory, where no size is set: the rest is the model's and the system's
MAX_DEFAULT_BYTES = 2 << 30  # where no size is set; more is a choice that the operator makes
CHECKPOINT_SHARE = 0.25  # of the cache's memory, where no size is set for checkpoints
MIN_CHECKPOINTS = 2  # a prompt's end and one on the way
USEFUL_CHECKPOINTS = 32  # for each sequence that may run; small states would else fill their part with thousands
MAX_CONTEXT = 1 << 20  # positions, where no group keeps all: a file may claim any number
MIN_BLOCKS = 4  # fewer hold no conversation, whatever their size


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """How many units the pool has, and how many slots of recurrent state: one a running sequence, and checkpoints."""

    num_units: int
    num_slots: int = 0

    def num_bytes(self, layout: Layout, block_size: int) -> int:
        """What they take together."""
        return self.num_units * layout.unit_bytes(block_size) + self.num_slots * layout.slot_bytes


def plan_cache(
    layout: Layout, cache: CacheSettings, *, free_bytes: int, max_sequences: int, context_length: int
) -> CacheSizes:
    """How much to reserve: the number set, or what the memory set holds, or a share of what is free.

    States of all sequences that may run come first. Without a size set, no more than `max_sequences` contexts are of
    use. Raises CacheTooSmall, CacheTooLarge, StatesTooLarge.
    """
    asked = cache.memory_bytes
    memory = int(min(free_bytes * FREE_SHARE, MAX_DEFAULT_BYTES)) if asked is None else asked
    if cache.num_blocks is not None and layout.groups:
        memory = cache.num_blocks * layout.block_bytes(cache.block_size)
    num_slots = _num_slots(layout, cache, memory, max_sequences)
    left = memory - num_slots * layout.slot_bytes
    if left < 0 and cache.num_blocks is None and (layout.groups or asked is not None):
        raise StatesTooLarge(num_slots=num_slots, slot_bytes=layout.slot_bytes, cache_bytes=memory)
    useful = max_sequences * -(-context_length // cache.block_size) * sum(layout.widths)  # kept for later prompts too
    num_units = _num_units(layout, cache, left, useful if asked is None else None)
    sizes = CacheSizes(num_units, num_slots)
    if (num_bytes := sizes.num_bytes(layout, cache.block_size)) > free_bytes:
        raise CacheTooLarge(cache_bytes=num_bytes, free_bytes=free_bytes)
    return sizes


def _num_units(layout: Layout, cache: CacheSettings, memory: int, useful: int | None) -> int:
    """The blocks that were set, in every group, or the units that the memory holds, no more than are of use."""
    if not layout.groups:
        return 0
    per_block, unit_bytes = sum(layout.widths), layout.unit_bytes(cache.block_size)
    if cache.num_blocks is not None:
        num_units = cache.num_blocks * per_block
    else:
        fitting = memory // unit_bytes
        num_units = fitting if useful is None else min(fitting, useful)
    if num_units < MIN_BLOCKS * per_block:
        block_bytes = layout.block_bytes(cache.block_size)
        raise CacheTooSmall(cache_bytes=num_units * unit_bytes, block_bytes=block_bytes, min_blocks=MIN_BLOCKS)
    return num_units


def _num_slots(layout: Layout, cache: CacheSettings, memory: int, max_sequences: int) -> int:
    """A slot for each sequence that may run, and as many checkpoints as their part of the memory holds."""
    if not layout.states:
        return 0
    if not cache.prefix_caching:
        return max_sequences
    part = memory * CHECKPOINT_SHARE if cache.checkpoint_bytes is None else cache.checkpoint_bytes
    fitting = max(MIN_CHECKPOINTS, int(part) // max(1, layout.slot_bytes))
    is_set = cache.memory_bytes is not None or cache.checkpoint_bytes is not None
    return max_sequences + (fitting if is_set else min(fitting, max_sequences * USEFUL_CHECKPOINTS))


def most_blocks(group: CacheGroup, block_size: int) -> int | None:
    """How many blocks a sequence that decodes holds at most in a group; None where it keeps all."""
    match group.reach:
        case Reach.FULL:
            return None
        case Reach.WINDOW | Reach.CHUNK:
            return -(-(group.size - 1) // block_size) + 1


def num_units_for(layout: Layout, positions: int, block_size: int) -> int:
    """Units that a sequence of so many positions holds when its last one is computed alone."""
    blocks = -(-positions // block_size)
    held = (most_blocks(group, block_size) for group in layout.groups)
    return sum(
        width * (blocks if most is None else min(blocks, most)) for width, most in zip(layout.widths, held, strict=True)
    )


def context_that_fits(layout: Layout, num_units: int, block_size: int, longest: int) -> int:
    """The most positions of one sequence that the pool holds, `longest` at most."""
    longest = min(longest, MAX_CONTEXT)
    if not layout.groups:
        return longest
    blocks = range(1, -(-longest // block_size) + 1)
    fitting = bisect_right(blocks, num_units, key=lambda count: num_units_for(layout, count * block_size, block_size))
    return min(longest, fitting * block_size)
