"""The straight-line decoder: a structure and its parameters as one program of native instructions."""

from collections import Counter
from collections.abc import Callable, Sequence

from torch import Tensor

from engine.cache.lanes import LaneStorage
from engine.cache.layout import padded_dim
from engine.model.angles import Angles
from engine.model.balance import balanced
from engine.model.encoding import Encoded
from engine.model.kernels.builder import Builder, BuiltProgram
from engine.model.kernels.cache import form_of, native_cache
from engine.model.kernels.matrix import Matrix
from engine.model.kernels.native import (
    Attention,
    Cache,
    Combine,
    Embed,
    Experts,
    Format,
    Gate,
    Gather,
    Heads,
    Kind,
    Level,
    Library,
    Linear,
    Norm,
    NormKind,
    Op,
    Rotary,
    Route,
    Softcap,
)
from engine.model.parameters import Parameters, check_shape, stack_name
from engine.model.structure import (
    AttentionData,
    ExpertsData,
    FeedForwardData,
    LayerData,
    LinearData,
    NormData,
    RotaryData,
    Structure,
)
from engine.model.weights import WeightSource


class StraightProgram:
    """Compiles one decoder.

    `reencode` turns a matrix of the source into the bits that the operator chose. Parameters are read one
    by one and kept packed alone.
    """

    def __init__(
        self,
        structure: Structure,
        source: WeightSource,
        storage: LaneStorage,
        *,
        library: Library,
        level: Level,
        max_rows: int,
        angles: Callable[[RotaryData], Angles],
        reencode: Callable[[Encoded], Encoded],
    ) -> None:
        self.structure = structure
        self._read = Parameters(source, library, reencode)
        self._storage = storage
        self._make_angles = angles
        self._angles: dict[RotaryData, Angles] = {}
        self._inputs: dict[tuple[str, int, Format], int] = {}
        self._builder = Builder(level, max_rows=max_rows)
        self._stream = self._builder.buffer(structure.hidden)
        self.logits = self._builder.outside(structure.vocabulary)
        self.hidden = self._builder.outside(structure.hidden, padded=True)

    @property
    def weight_bytes(self) -> Counter[Kind]:
        """Bytes of all matrices, by how they are stored."""
        return self._read.num_bytes

    def build(self) -> BuiltProgram:
        """Read every parameter and put the instructions in order; those of the tail make `hidden`."""
        structure, builder = self.structure, self._builder
        table = self._embed()
        for index, layer in enumerate(structure.layers):
            self._layer(index, layer)
        gathered = builder.buffer(structure.hidden)
        builder.emit(Op.GATHER, Gather(input=self._stream, output=gathered))
        tied = structure.head.weights == (structure.embedding,)
        heads = [table] if tied else self._read.matrices(structure.head)
        rows = self._normed(structure.final_norm, gathered, "last", heads[0], of_logits=True)
        self._project(heads, structure.head, rows, self.logits, scale=structure.logit_scale, of_logits=True)
        if structure.logit_softcap:
            body = Softcap(output=self.logits, cap=structure.logit_softcap)
            builder.emit(Op.SOFTCAP, body, of_logits=True)
        builder.emit(Op.GATHER, Gather(input=self._stream, output=gathered), in_tail=True)
        self._emit_norm(structure.final_norm, gathered, self.hidden, of_logits=True, in_tail=True)
        return builder.finish()

    # -- the parts of a decoder ---------------------------------------------------------------

    def _embed(self) -> Matrix:
        structure, builder = self.structure, self._builder
        table = self._read.table(structure.embedding)
        check_shape(structure.embedding, (table.outputs, table.inputs), (structure.vocabulary, structure.hidden))
        body = Embed(output=self._stream, scale=structure.embedding_scale, table=builder.weight(table))
        builder.emit(Op.EMBED, body)
        if structure.positions is not None:
            learned = self._read.table(structure.positions)
            check_shape(structure.positions, (learned.inputs,), (structure.hidden,))
            by_position = Embed(output=self._stream, scale=1.0, by_position=1, table=builder.weight(learned))
            builder.emit(Op.EMBED, by_position)
        return table

    def _layer(self, index: int, layer: LayerData) -> None:
        qkv = self._read.matrices(layer.attention.qkv)
        rows = self._normed(layer.attention_norm, self._stream, "attention", qkv[0])
        if layer.parallel:  # both parts read the stream as it is before either is added
            feed = self._feed_inputs(layer, layer.feed_norm or layer.attention_norm)
            self._attention(index, layer, qkv, rows)
        else:
            self._attention(index, layer, qkv, rows)
            feed = self._feed_inputs(layer, layer.feed_norm)
        feed()

    def _attention(self, index: int, layer: LayerData, qkv: Sequence[Matrix], rows: int) -> None:
        data, builder, group = layer.attention, self._builder, self._storage.layout.group_of(index)
        dim, padded = data.head_dim, padded_dim(data.head_dim)
        projected = self._buffer("qkv", (data.heads + 2 * data.kv_heads) * dim)
        self._project(qkv, data.qkv, rows, projected)
        queries = self._buffer("queries", data.heads * padded)
        cache = self._cache(index)
        builder.emit(Op.HEADS, self._heads(data, projected, queries, cache))
        out = self._read.matrices(data.out)
        mixed = self._buffer("mixed", data.heads * dim, self._format(out[0]))
        sinks = None if data.sinks is None else self._read.vector(data.sinks, data.heads)
        body = Attention(
            input=queries,
            output=mixed,
            heads=data.heads,
            window=group.window(data.window) or 0,
            chunk=group.chunk or 0,
            softcap=data.softcap or 0.0,
            sinks=builder.pointer(sinks),
            cache=cache,
        )
        builder.emit(Op.ATTENTION, body)
        self._add(out, data.out, mixed, layer.after_attention, layer.residual_scale)

    def _heads(self, data: AttentionData, projected: int, queries: int, cache: Cache) -> Heads:
        builder = self._builder
        query_norm, key_norm = self._head_norms(data)
        norm = data.query_norm or data.key_norm
        body = Heads(
            input=projected,
            output=queries,
            heads=data.heads,
            norm_kind=NormKind.RMS if norm is None else norm.kind,
            eps=0.0 if norm is None else norm.eps,
            scale=data.scale,
            norm_whole=data.norm_whole,
            query_norm=builder.pointer(query_norm),
            key_norm=builder.pointer(key_norm),
            cache=cache,
        )
        if data.rotary is not None:
            angles = self._angles_of(data.rotary)
            body.rotary, body.rotary_dim = data.rotary.style, data.rotary.dim
            body.num_angles = len(angles.cos)
            body.cos, body.sin = builder.pointer(angles.cos), builder.pointer(angles.sin)
        else:
            body.rotary = Rotary.NONE
        return body

    def _head_norms(self, data: AttentionData) -> tuple[Tensor | None, Tensor | None]:
        """The weights of the norms of queries and keys, as they suit the cache."""
        dim, whole = data.head_dim, data.norm_whole
        query = self._read.norm_weight(data.query_norm, dim * (data.heads if whole else 1))
        key = self._read.norm_weight(data.key_norm, dim * (data.kv_heads if whole else 1))
        if query is None or key is None or whole or self._storage.layout.dtype != "int8":
            return query, key
        return balanced(query, key, data.rotary)

    def _cache(self, index: int) -> Cache:
        storage = self._storage
        return native_cache(storage.cells[index].tensors, form_of(storage, index))

    def _feed_inputs(self, layer: LayerData, norm: NormData | None) -> Callable[[], None]:
        """Emit what the feed-forward part reads; returns what emits the part itself."""
        feed = layer.feed
        if isinstance(feed, ExpertsData):
            return self._experts_inputs(layer, feed, norm)
        up = self._read.matrices(feed.up)
        read = self._normed(norm, self._stream, "feed", up[0])
        return lambda: self._feed_forward(layer, feed, up, read)

    def _feed_forward(self, layer: LayerData, feed: FeedForwardData, up: Sequence[Matrix], rows: int) -> None:
        projected = self._buffer("up", feed.width * (2 if feed.gated else 1))
        self._project(up, feed.up, rows, projected)
        down = self._read.matrices(feed.down)
        acted = self._buffer("acted", feed.width, self._format(down[0]))
        body = Gate(input=projected, output=acted, activation=feed.activation, gated=feed.gated, per_row=1)
        self._builder.emit(Op.GATE, body)
        self._add(down, feed.down, acted, layer.after_feed, layer.residual_scale)

    def _experts_inputs(self, layer: LayerData, feed: ExpertsData, norm: NormData | None) -> Callable[[], None]:
        router = self._read.matrices(feed.router, reencode=False)
        up = self._read.experts(feed, feed.up, interleaved=feed.interleaved)
        for_router = self._normed(norm, self._stream, "router", router[0])
        rows = self._normed(norm, self._stream, "feed", up[0])
        return lambda: self._experts(layer, feed, router, for_router, up, rows)

    def _experts(
        self,
        layer: LayerData,
        feed: ExpertsData,
        router: Sequence[Matrix],
        for_router: int,
        up: Sequence[Matrix],
        rows: int,
    ) -> None:
        builder = self._builder
        scores = self._buffer("scores", feed.count)
        self._project(router, feed.router, for_router, scores)
        chosen = {"experts": feed.count, "chosen": feed.chosen}
        route = Route(input=scores, **chosen, scoring=feed.scoring, normalize=feed.normalize, scale=1.0)
        builder.emit(Op.ROUTE, route)
        builder.reserve_routes(experts=feed.count, chosen=feed.chosen)
        projected = self._buffer("expert up", 2 * feed.width, per_row=feed.chosen)
        self._emit_experts(feed, up, feed.up_bias, rows, projected, expand=True)
        down = self._read.experts(feed, feed.down, interleaved=False)
        acted = self._buffer("expert acted", feed.width, self._format(down[0]), per_row=feed.chosen)
        gate = Gate(
            input=projected,
            output=acted,
            activation=feed.activation,
            gated=1,
            per_row=feed.chosen,
            alpha=feed.alpha,
            limit=feed.limit,
        )
        builder.emit(Op.GATE, gate)
        pairs = self._buffer("expert out", self.structure.hidden, per_row=feed.chosen)
        self._emit_experts(feed, down, feed.down_bias, acted, pairs, expand=False)
        target = self._stream if layer.after_feed is None else self._buffer("branch", self.structure.hidden)
        added = target == self._stream
        scale = layer.residual_scale if added else 1.0
        body = Combine(input=pairs, output=target, chosen=feed.chosen, accumulate=added, scale=scale)
        builder.emit(Op.COMBINE, body)
        if layer.after_feed is not None:
            self._add_normed(layer.after_feed, target, layer.residual_scale)

    def _emit_experts(
        self,
        feed: ExpertsData,
        matrices: Sequence[Matrix],
        bias: str | None,
        rows: int,
        output: int,
        *,
        expand: bool,
    ) -> None:
        builder = self._builder
        name, shape = feed.up if expand else feed.down, (builder.width(output), builder.width(rows))
        for matrix in matrices:
            check_shape(name, (len(matrices), matrix.outputs, matrix.inputs), (feed.count, *shape))
        biases = None
        if bias is not None:
            turns = expand and feed.interleaved
            table = self._read.expert_biases(bias, (feed.count, shape[0]), interleaved=turns)
            biases = builder.pointers(list(table))
        body = Experts(
            input=rows,
            output=output,
            experts=feed.count,
            chosen=feed.chosen,
            expand=expand,
            weights=builder.weights(matrices),
            biases=biases,
        )
        builder.emit(Op.EXPERTS, body)

    # -- rows, matrices and norms -------------------------------------------------------------

    def _normed(self, norm: NormData | None, rows: int, name: str, reader: Matrix, *, of_logits: bool = False) -> int:
        """Rows as `reader` reads them: normed, or as they are."""
        format = self._format(reader)
        if norm is None and format is Format.PLAIN:
            return rows
        output = self._buffer(f"{name} input", self.structure.hidden, format)
        self._emit_norm(norm, rows, output, of_logits=of_logits)
        return output

    def _emit_norm(
        self,
        norm: NormData | None,
        rows: int,
        output: int,
        *,
        accumulate: bool = False,
        scale: float = 1.0,
        of_logits: bool = False,
        in_tail: bool = False,
    ) -> None:
        width = self._builder.width(output)
        body = Norm(
            input=rows,
            output=output,
            kind=NormKind.NONE if norm is None else norm.kind,
            eps=0.0 if norm is None else norm.eps,
            accumulate=accumulate,
            scale=scale,
            weight=self._builder.pointer(self._read.norm_weight(norm, width)),
            bias=self._builder.pointer(None if norm is None else self._read.norm_bias(norm, width)),
        )
        self._builder.emit(Op.NORM, body, of_logits=of_logits, in_tail=in_tail)

    def _add(
        self, matrices: Sequence[Matrix], data: LinearData, rows: int, after: NormData | None, scale: float
    ) -> None:
        """Add a part's last linear layer to the stream, by way of its norm if it has one."""
        if after is None:
            self._project(matrices, data, rows, self._stream, accumulate=True, scale=scale)
            return
        branch = self._buffer("branch", self.structure.hidden)
        self._project(matrices, data, rows, branch)
        self._add_normed(after, branch, scale)

    def _add_normed(self, after: NormData, branch: int, scale: float) -> None:
        self._emit_norm(after, branch, self._stream, accumulate=True, scale=scale)

    def _project(
        self,
        matrices: Sequence[Matrix],
        data: LinearData,
        rows: int,
        output: int,
        *,
        accumulate: bool = False,
        scale: float = 1.0,
        of_logits: bool = False,
    ) -> None:
        builder = self._builder
        total = sum(matrix.outputs for matrix in matrices)
        for matrix in matrices:
            wanted = builder.width(output), builder.width(rows)
            check_shape(stack_name(data.weights), (total, matrix.inputs), wanted)
        bias = self._read.bias(data, total)
        column = 0
        for matrix in matrices:
            part = None if bias is None else bias[column : column + matrix.outputs]
            target = output if len(matrices) == 1 else builder.view(output, column, matrix.outputs)
            body = Linear(
                input=rows,
                output=target,
                accumulate=accumulate,
                scale=scale,
                weight=builder.weight(matrix),
                bias=builder.pointer(part),
            )
            builder.emit(Op.LINEAR, body, of_logits=of_logits)
            column += matrix.outputs

    def _angles_of(self, data: RotaryData) -> Angles:
        if data not in self._angles:
            self._angles[data] = self._make_angles(data)
        return self._angles[data]

    def _format(self, reader: Matrix) -> Format:
        """How the rows lie that a matrix is multiplied with: float32 ones take plain rows on every level."""
        return Format.PLAIN if reader.kind is Kind.F32 else self._builder.input_format

    def _buffer(self, name: str, width: int, format: Format = Format.PLAIN, *, per_row: int = 1) -> int:
        """The buffer of that name and shape, which all layers share."""
        key = (f"{name} × {per_row}", width, format)
        if key not in self._inputs:
            self._inputs[key] = self._builder.buffer(width, format, per_row=per_row)
        return self._inputs[key]
