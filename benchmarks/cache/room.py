"""How much memory a model's cache takes, worked out from its layout; nothing is loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.table import ABSENT, GIB, markdown
from config.settings import CacheSettings
from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.cache.reading import field, read_layout
from engine.cache.sizing import MAX_CONTEXT, context_that_fits, num_units_for

BLOCK_SIZE = CacheSettings().block_size
LONG = 32_768  # positions of the sequence that the table tells of
MIN_BLOCKS_RATIO = 1.85  # of int8 to bfloat16, in as many bytes
MIB = 1 << 20
HEAD = (
    "",
    "what is cached, in bfloat16",
    f"a sequence of {LONG:,}, MiB",
    "the same in int8",
    "of K and V everywhere",
    "positions in 1 GiB",
    "the same in int8",
    "blocks, int8 to bfloat16",
    "unused",
)


@dataclass(frozen=True, slots=True)
class Room:
    """What one model's cache takes: in bfloat16, in int8, and in bfloat16 if every layer kept K and V of all."""

    name: str
    half: Layout
    small: Layout
    plain: Layout

    @property
    def blocks_ratio(self) -> float | None:
        """How many times the blocks fit in int8; None where there are none."""
        return self.half.block_bytes(BLOCK_SIZE) / self.small.block_bytes(BLOCK_SIZE) if self.half.groups else None

    @property
    def plain_share(self) -> float | None:
        """What a long sequence takes, of what it would with K and V of all positions; None where no layer attends."""
        return sequence_bytes(self.half, LONG) / sequence_bytes(self.plain, LONG) if self.half.groups else None


def room_of(name: str, config: object) -> Room:
    """Read a config. Raises ModelUnsupported."""
    half, small = (read_layout(config, dtype, in_lanes=True) for dtype in ("bfloat16", "int8"))
    return Room(name, half, small, _plain(config, half))


def _plain(config: object, layout: Layout) -> Layout:
    """As if every layer that attends, be it to another's rows, kept whole heads of every position."""
    if not layout.groups:
        return layout
    rows = layout.groups[0].rows
    if rows.latent:
        key_dim = field(config, "qk_nope_head_dim") + field(config, "qk_rope_head_dim")
        heads, value_dim = field(config, "num_attention_heads"), field(config, "v_head_dim")
        rows = RowShape(heads, key_dim, value_dim, rows.dtype, rows.in_lanes)
    return replace(layout, groups=(CacheGroup(tuple(sorted(layout.places)), rows),), owners=())


def sequence_bytes(layout: Layout, positions: int) -> int:
    """What one sequence holds while it decodes: units of every group, and its state."""
    return num_units_for(layout, positions, BLOCK_SIZE) * layout.unit_bytes(BLOCK_SIZE) + layout.slot_bytes


def longest(layout: Layout, memory: int) -> int | None:
    """The most positions of one sequence in so many bytes; None where they take none."""
    if not layout.groups:
        return None
    num_units = (memory - layout.slot_bytes) // layout.unit_bytes(BLOCK_SIZE)
    return context_that_fits(layout, num_units, BLOCK_SIZE, MAX_CONTEXT)


def room_text(configs: Mapping[str, object]) -> str:
    """A line for each config, and whether int8 keeps what it promises."""
    rooms = [room_of(name, config) for name, config in configs.items()]
    return f"{markdown(HEAD, [_line(room) for room in rooms])}\n\n{judgement(rooms)}"


def _line(room: Room) -> tuple[str, ...]:
    ratio, share = room.blocks_ratio, room.plain_share
    return (
        room.name,
        str(room.half),
        *(f"{sequence_bytes(layout, LONG) / MIB:,.1f}" for layout in (room.half, room.small)),
        ABSENT if share is None else f"{share:.1%}",
        *(_positions(longest(layout, GIB)) for layout in (room.half, room.small)),
        ABSENT if ratio is None else f"{ratio:.2f}",
        f"{room.half.waste:.1%}",
    )


def _positions(count: int | None) -> str:
    return "any" if count is None else f"{count:,}"


def judgement(rooms: Sequence[Room]) -> str:
    """For how many of the models int8 makes enough room."""
    ratios = [ratio for room in rooms if (ratio := room.blocks_ratio) is not None]
    kept = sum(ratio >= MIN_BLOCKS_RATIO for ratio in ratios)
    return f"int8 holds at least {MIN_BLOCKS_RATIO} times the blocks of bfloat16 for {kept} of {len(ratios)} models."
