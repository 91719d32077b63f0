"""Attention over the paged cache, as a function that `transformers` models call.

The rows of a step are first written to the cache; then everything is read back from it, in its
type, and computed in float32. Each (tile, split) pair is one product of one shape, so that a
query's bits depend on its own position and context, not on the batch or the chunking.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from engine.cache.layout import RowShape
from engine.cache.memory import UnitMemory
from engine.cache.storage import KVStorage, Slots
from engine.errors import ModelUnsupported
from engine.model.batch import Span, slots_of
from engine.model.rows import PATTERNS, Trials, agreeing_counts
from engine.model.tiles import Geometry, Pairs, Sight, Tiles, make_tiles

NAME = "tidemark"  # in transformers' registry of attention functions, and our attribute of its attention modules
LATENT = "tidemark_latent"  # our attribute of attention modules that cache compressed rows
SPLIT = 128  # positions; smaller ones cost calls, larger ones waste half a split for each sequence
LOWEST = -1e30  # below every score, and finite: a query that sees nothing of a split gets weight 0, not NaN
QUERY_LOADS = (*[1] * 16, 256)  # queries of a chunk to expect: mostly decoding, at times a part of a prompt
PAIRS_BYTES = 12 << 20  # of K and V read at once; of 1 to 50 MB the fastest at the default model's shapes
MAX_TILE_ROWS = 192  # query rows of a tile, all heads of a group; more make the scores leave the CPU's cache


class PagedAttention:
    """The attention of all layers of one model over one cache; knows the step that runs."""

    def __init__(self, storage: KVStorage, geometries: Mapping[RowShape, Geometry]) -> None:
        self.storage = storage
        self.geometries = geometries
        self.calls = dict.fromkeys(storage.cells, 0)  # by layer, for whoever wants to see that all were made
        self._spans: Sequence[Span] = ()
        self._slots: dict[int, Slots] = {}  # by block table
        self._tiles: dict[tuple[RowShape, int, Sight], tuple[Tiles, ...]] = {}

    def begin(self, spans: Sequence[Span]) -> None:
        """Take the spans of the step that follows."""
        self._spans = spans
        self._slots, self._tiles = {}, {}

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        window: int | None,
        softcap: float | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Write K and V, unless they are another layer's, and attend over all that the cache holds.

        `query` [heads, rows, dim] is scaled already, `key` and `value` are [kv heads, rows, dim]; the rows
        behind the batch's own are padding. Returns [rows, heads, dim].
        """
        if self.storage.layout.owner_of(layer) == layer:
            self._write(layer, key, value)
        return self._read(layer, query, window, softcap, sinks)

    def attend_latent(self, layer: int, query: Tensor, row: Tensor) -> Tensor:
        """Write latent rows [rows, key dim], and attend from `query` [heads, rows, key dim], which is scaled already.

        V is the beginning of the rows. Returns [rows, heads, value dim].
        """
        self._write(layer, row.unsqueeze(0), None)
        return self._read(layer, query, None, None, None)

    def _write(self, layer: int, key: Tensor, value: Tensor | None) -> None:
        table = self.storage.layout.places[layer].table
        if table not in self._slots:
            self._slots[table] = slots_of(self._spans, table, block_size=self.storage.block_size)
        slots = self._slots[table]
        keys = key.transpose(0, 1)[: len(slots.units)]
        values = None if value is None else value.transpose(0, 1)[: len(slots.units)]
        self.storage.write(layer, slots, keys, values)

    def _read(
        self, layer: int, query: Tensor, window: int | None, softcap: float | None, sinks: Tensor | None
    ) -> Tensor:
        self.calls[layer] += 1
        group = self.storage.layout.group_of(layer)
        rows = query.transpose(0, 1)
        out = rows.new_zeros(rows.shape[0], rows.shape[1], group.rows.value_dim)
        for tiles in self._tiles_of(layer, Sight(group.window(window), group.chunk)):
            out.index_copy_(0, tiles.rows, self._attend_tiles(layer, rows, tiles, softcap, sinks).to(out.dtype))
        return out

    def _tiles_of(self, layer: int, sight: Sight) -> tuple[Tiles, ...]:
        layout = self.storage.layout
        rows, table = layout.group_of(layer).rows, layout.places[layer].table
        if (rows, table, sight) not in self._tiles:
            self._tiles[rows, table, sight] = make_tiles(self._spans, table, self.geometries[rows], sight)
        return self._tiles[rows, table, sight]

    def _attend_tiles(
        self, layer: int, rows: Tensor, tiles: Tiles, softcap: float | None, sinks: Tensor | None
    ) -> Tensor:
        num_tiles, num_queries = tiles.queries.shape
        num_heads, num_kv_heads = rows.shape[1], self.storage.layout.group_of(layer).rows.num_kv_heads
        grouped = rows.index_select(0, tiles.queries.flatten()).float()
        grouped = grouped.view(num_tiles, num_queries, num_kv_heads, num_heads // num_kv_heads, -1).transpose(1, 2)
        parts = [self._attend_pairs(layer, grouped, pairs, softcap) for pairs in tiles.pairs]
        highest, total, mixed = (torch.cat(part) if len(parts) > 1 else part[0] for part in zip(*parts, strict=True))
        joined = _join(torch.cat([pairs.tiles for pairs in tiles.pairs]), num_tiles, highest, total, mixed, sinks)
        return joined.transpose(1, 2).reshape(num_tiles * num_queries, num_heads, -1).index_select(0, tiles.places)

    def _attend_pairs(
        self, layer: int, grouped: Tensor, pairs: Pairs, softcap: float | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of each query in each pair: the highest score, the sum of weights relative to it, the weighted values."""
        keys, values = self.storage.read(layer, pairs.blocks)  # [pairs × kv heads, positions, dim]
        queries = grouped.index_select(0, pairs.tiles)  # [pairs, kv heads, queries, group, dim]
        scores = torch.bmm(queries.reshape(len(keys), -1, queries.shape[-1]), keys.transpose(1, 2))
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        by_query = scores.view(*queries.shape[:-1], -1)
        by_query[pairs.num_full :].masked_fill_(pairs.hidden, -torch.inf)
        values.view(*queries.shape[:2], *values.shape[1:])[pairs.num_full :].masked_fill_(pairs.unheld, 0.0)
        highest = by_query.amax(-1).clamp_min_(LOWEST)
        weights = by_query.sub_(highest.unsqueeze(-1)).exp_()
        mixed = torch.bmm(weights.view(scores.shape), values)
        return highest, weights.sum(-1), mixed.view(*highest.shape, -1)


def _join(tiles: Tensor, num_tiles: int, highest: Tensor, total: Tensor, mixed: Tensor, sinks: Tensor | None) -> Tensor:
    """Join the pairs of each tile, in their order: [tiles, kv heads, queries, group, dim]."""
    shape = (num_tiles, *highest.shape[1:])
    index = tiles.view(-1, 1, 1, 1).expand_as(highest)
    top = highest.new_full(shape, LOWEST).scatter_reduce_(0, index, highest, "amax")
    if sinks is not None:
        sinks = sinks.float().view(1, shape[1], 1, shape[3])
        top = torch.maximum(top, sinks)
    factor = (highest - top.index_select(0, tiles)).exp_()
    weight = highest.new_zeros(shape).index_add_(0, tiles, total * factor)
    if sinks is not None:
        weight = weight + (sinks - top).exp_()
    values = mixed.new_zeros(*shape, mixed.shape[-1]).index_add_(0, tiles, mixed * factor.unsqueeze(-1))
    return values / weight.unsqueeze(-1)


class Attending(Protocol):
    """What the modules are handed: attention in torch's operators, or in the native kernels."""

    @property
    def storage(self) -> UnitMemory:
        """The cache."""
        ...

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        window: int | None,
        softcap: float | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Write K and V, attend over all that the cache holds."""
        ...

    def attend_latent(self, layer: int, query: Tensor, row: Tensor) -> Tensor:
        """Write the rows, attend over all that the cache holds: [heads, rows, key dim] -> [rows, heads, value dim]."""
        ...


class Absorbing(Protocol):
    """A layer that caches compressed rows: what makes its queries and results fit them."""

    def absorb(self, query: Tensor) -> Tensor:
        """Queries [heads, rows, dim] -> [heads, rows, key dim]."""
        ...

    def expand(self, mixed: Tensor) -> Tensor:
        """What was attended to, [rows, heads, rank] -> [rows, heads, value dim]."""
        ...


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The function that `transformers` calls; the module says which cache and which layer.

    Of the options `scaling`, `sliding_window`, `softcap` and `s_aux` are ours to heed.
    """
    paged: Attending | None = getattr(module, NAME, None)
    layer: int = getattr(module, "layer_idx", -1)
    if paged is None or layer not in paged.storage.layout.places:
        raise ModelUnsupported(f"{type(module).__name__} calls attention, but is no layer of the cache")
    if attention_mask is not None:
        raise ModelUnsupported(f"{type(module).__name__} brings a mask of its own")
    scaling: float | None = options.get("scaling")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    _check_rows(module, paged.storage.layout.group_of(layer).rows, key[0], value[0])
    latent: Absorbing | None = getattr(module, LATENT, None)
    if latent is not None:
        mixed = paged.attend_latent(layer, latent.absorb(query[0] * scale), key[0, 0])
        return latent.expand(mixed).unsqueeze(0), None
    out = paged.attend(
        layer,
        query[0] * scale,
        key[0],
        value[0],
        window=options.get("sliding_window"),
        softcap=options.get("softcap"),
        sinks=options.get("s_aux"),
    )
    return out.unsqueeze(0), None


def _check_rows(module: nn.Module, rows: RowShape, key: Tensor, value: Tensor) -> None:
    """Raise ModelUnsupported where a layer's K and V [kv heads, rows, dim] have other places in the cache."""
    found = len(key), key.shape[-1], value.shape[-1]
    if found != (rows.num_kv_heads, rows.key_dim, rows.value_dim):
        told = f"{found[0]} kv heads x {found[1]}/{found[2]}"
        raise ModelUnsupported(f"{type(module).__name__} makes K and V of {told}, and by the config it is {rows}")


def attach(model: nn.Module, paged: Attending) -> None:
    """Hand the cache to every module that names a layer, since not all models pass our arguments on."""
    AttentionInterface.register(NAME, attend)
    for module in model.modules():
        if isinstance(getattr(module, "layer_idx", None), int):
            setattr(module, NAME, paged)


def settle_geometries(storage: KVStorage, num_heads: int) -> dict[RowShape, Geometry]:
    """For each shape of rows: measure which tile heights agree, and cut splits of about `SPLIT` positions."""
    shapes = {group.rows for group in storage.layout.groups}
    return {rows: _settle_geometry(rows, storage.block_size, num_heads // rows.num_kv_heads) for rows in shapes}


def _settle_geometry(rows: RowShape, block_size: int, group: int) -> Geometry:
    """`group` is how many query heads share a kv head."""
    split = block_size * max(1, SPLIT // block_size)
    num_kv_heads, dims = rows.num_kv_heads, (rows.key_dim, rows.value_dim)

    def trial(num_queries: int) -> Tensor | None:
        return _try_tile(num_queries * group, num_kv_heads, split, dims)

    found = agreeing_counts([Trials(trial)], [1], loads=QUERY_LOADS, max_rows=max(1, MAX_TILE_ROWS // group))
    if not found:
        raise ModelUnsupported("no shape of an attention tile gives a query the same bits at each place")
    pair_bytes = num_kv_heads * split * sum(dims) * 4  # in float32
    max_pairs = max(1, PAIRS_BYTES // pair_bytes)
    return Geometry(block_size, num_kv_heads, split, found[0].counts[0], found[0].counts[-1], max_pairs)


def _try_tile(num_rows: int, num_kv_heads: int, split: int, dims: tuple[int, int]) -> Tensor | None:
    """What both products of a pair give for the same rows at every place; None where the place matters."""
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(PATTERNS, dims[0], generator=generator)
    weights = torch.rand(PATTERNS, split, generator=generator)
    keys, values = (torch.randn(split, dim, generator=generator) for dim in dims)
    expected: Tensor | None = None
    for num_pairs in (PATTERNS * num_kv_heads, *(num_kv_heads * n for n in (1, 2, 3, 5, 16, 64))):
        which = (torch.arange(num_pairs)[:, None] + torch.arange(num_rows)) % PATTERNS
        scores = torch.bmm(queries[which], keys.expand(num_pairs, -1, -1).contiguous().transpose(1, 2))
        mixed = torch.bmm(weights[which], values.expand(num_pairs, -1, -1).contiguous())
        both = torch.cat([scores, mixed], dim=-1)
        if expected is None:
            expected = both[torch.arange(PATTERNS), 0]
        if not torch.equal(both, expected[which]):
            return None
    return expected
