"""From a model's config to its cache groups, and how many blocks fit.

In this engine every attention layer, windowed ones too, keeps the K and V rows of all positions, so
there is one group.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from config.settings import CacheSettings
from engine.errors import CacheTooLarge, CacheTooSmall, ModelUnsupported

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}
SCALE_BYTES = 4  # of each head's K and V at each position, where they are int8
LANES = 16  # positions that the native kernels read side by side
FREE_SHARE = 0.25  # of the free memory, where no size is set: the rest is the model's and the system's
MAX_DEFAULT_BYTES = 2 << 30  # where no size is set; more is a choice that the operator makes
MIN_BLOCKS = 4  # fewer hold no conversation, whatever their size
ATTENTION_LAYERS = frozenset({"full_attention", "sliding_attention"})


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers whose state has one shape and one rule: a K and a V row for each position and kv head."""

    num_layers: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    dtype: str
    in_lanes: bool = False  # as the native kernels read it, heads padded

    def block_bytes(self, block_size: int) -> int:
        """Bytes of one block in all of the group's layers."""
        dims = (self.key_dim, self.value_dim)
        row_bytes = sum(map(padded_dim, dims) if self.in_lanes else dims) * DTYPE_BYTES[self.dtype]
        if self.dtype == "int8":
            row_bytes += 2 * SCALE_BYTES
        return self.num_layers * self.num_kv_heads * row_bytes * block_size

    def __str__(self) -> str:
        dims = str(self.key_dim) if self.key_dim == self.value_dim else f"{self.key_dim}/{self.value_dim}"
        return f"full attention, {self.num_layers} layers, {self.num_kv_heads} kv heads x {dims}"


def padded_dim(dim: int) -> int:
    """A head's values as the native kernels store them: a multiple of 16."""
    return -(-dim // LANES) * LANES


@dataclass(frozen=True, slots=True)
class Layout:
    """All cache groups of a model."""

    groups: tuple[CacheGroup, ...]

    @property
    def dtype(self) -> str:
        """The type of the cached rows."""
        return self.groups[0].dtype

    def block_bytes(self, block_size: int) -> int:
        """Bytes of one block in every group."""
        return sum(group.block_bytes(block_size) for group in self.groups)

    def __str__(self) -> str:
        return "; ".join(map(str, self.groups))


def read_layout(config: object, dtype: str, *, in_lanes: bool) -> Layout:
    """The cache groups that a `transformers` decoder config asks for, `in_lanes` for the native kernels.

    Raises ModelUnsupported where a layer keeps another kind of state.
    """
    num_layers: int = _field(config, "num_hidden_layers", "n_layer", "num_layers")
    _check_layer_types(getattr(config, "layer_types", None) or ())
    num_heads: int = _field(config, "num_attention_heads", "n_head", "num_heads")
    num_kv_heads: int = getattr(config, "num_key_value_heads", None) or num_heads
    head_dim: int = getattr(config, "head_dim", None) or _field(config, "hidden_size", "n_embd") // num_heads
    return Layout((CacheGroup(num_layers, num_kv_heads, head_dim, head_dim, dtype, in_lanes),))


def plan_blocks(
    layout: Layout, cache: CacheSettings, *, free_bytes: int, max_sequences: int, context_length: int
) -> int:
    """How many blocks to reserve: the number set, or what the memory set holds, or a share of what is free.

    Without a size set, no more than `max_sequences` contexts are of use. Raises CacheTooSmall, CacheTooLarge.
    """
    block_bytes = layout.block_bytes(cache.block_size)
    if cache.num_blocks is not None:
        num_blocks = cache.num_blocks
    elif cache.memory_bytes is not None:
        num_blocks = cache.memory_bytes // block_bytes
    else:
        useful = max_sequences * -(-context_length // cache.block_size)
        num_blocks = min(int(min(free_bytes * FREE_SHARE, MAX_DEFAULT_BYTES)) // block_bytes, useful)
    if num_blocks < MIN_BLOCKS:
        raise CacheTooSmall(cache_bytes=num_blocks * block_bytes, block_bytes=block_bytes, min_blocks=MIN_BLOCKS)
    if num_blocks * block_bytes > free_bytes:
        raise CacheTooLarge(cache_bytes=num_blocks * block_bytes, free_bytes=free_bytes)
    return num_blocks


def _check_layer_types(layer_types: Sequence[str]) -> None:
    for kind in layer_types:
        if kind not in ATTENTION_LAYERS:
            raise ModelUnsupported(f"the model has layers of type {kind}, whose state this engine does not keep")


def _field(config: object, *names: str) -> int:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int):
            return value
    raise ModelUnsupported(f"the model's config has no {names[0]}")
