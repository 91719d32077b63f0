"""A decoder's structure as data: which parameters, which norms, which rotary, in which order.

`recognise` describes a model by its config and its parameters' names. It may be wrong about a model
that it has never met, so what it says is only used once a small random copy has given the same
answers as `transformers` (gate.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.model.kernels.native import Activation, NormKind, Rotary, Scoring


@dataclass(frozen=True, slots=True)
class NormData:
    """A norm: its parameters, and what the model adds to its weight."""

    weight: str | None
    bias: str | None
    kind: NormKind
    eps: float
    offset: float = 0.0

    def parameters(self) -> Iterator[str | None]:
        """The names of what it reads; None is what it does without."""
        yield from (self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class LinearData:
    """A linear layer, or several stacked along their outputs; each has its weight and perhaps its bias.

    `order` names, for each output, the row of the parameter that it is; None is their own order.
    `transposed` parameters are [inputs, outputs].
    """

    weights: tuple[str, ...]
    biases: tuple[str, ...] = ()
    order: tuple[int, ...] | None = None
    transposed: bool = False

    def parameters(self) -> Iterator[str | None]:
        """The names of what it reads."""
        yield from (*self.weights, *self.biases)


@dataclass(frozen=True, slots=True)
class RotaryData:
    """How heads are turned: which values together, how many of a head, and whose angles."""

    style: Rotary
    dim: int
    layer_type: str | None  # where angles differ by the type of layer


@dataclass(frozen=True, slots=True)
class AttentionData:
    """One layer's attention."""

    qkv: LinearData
    out: LinearData
    heads: int
    kv_heads: int
    head_dim: int
    rotary: RotaryData | None
    query_norm: NormData | None
    key_norm: NormData | None
    norm_whole: bool  # over all heads of a row at once
    scale: float
    window: int | None
    softcap: float | None
    sinks: str | None

    def parameters(self) -> Iterator[str | None]:
        """The names of what it reads; None is what it does without."""
        for part in (self.qkv, self.out, self.query_norm, self.key_norm):
            if part is not None:
                yield from part.parameters()
        yield self.sinks


@dataclass(frozen=True, slots=True)
class FeedForwardData:
    """One layer's feed-forward part: all gates and then all ups where it is gated, the activation, down."""

    up: LinearData
    down: LinearData
    width: int
    activation: Activation
    gated: bool

    def parameters(self) -> Iterator[str | None]:
        """The names of what it reads."""
        yield from self.up.parameters()
        yield from self.down.parameters()


@dataclass(frozen=True, slots=True)
class ExpertsData:
    """A router, and one feed-forward part for each expert, held in stacked parameters.

    `interleaved` parameters have gates and ups in turns.
    """

    router: LinearData
    up: str
    up_bias: str | None
    down: str
    down_bias: str | None
    count: int
    chosen: int
    width: int
    activation: Activation
    alpha: float
    limit: float
    scoring: Scoring
    normalize: bool
    transposed: bool
    interleaved: bool

    def parameters(self) -> Iterator[str | None]:
        """The names of what it reads; None is what it does without."""
        yield from self.router.parameters()
        yield from (self.up, self.up_bias, self.down, self.down_bias)


@dataclass(frozen=True, slots=True)
class LayerData:
    """One layer: norms before its parts, norms of what they give, and how that is added.

    A `parallel` layer's feed-forward part reads what its attention reads; without a norm of its own it
    takes the attention's.
    """

    attention_norm: NormData | None
    attention: AttentionData
    after_attention: NormData | None
    feed_norm: NormData | None
    feed: FeedForwardData | ExpertsData
    after_feed: NormData | None
    parallel: bool
    residual_scale: float

    def parameters(self) -> Iterator[str | None]:
        """The names of what it reads; None is what it does without."""
        norms = (self.attention_norm, self.after_attention, self.feed_norm, self.after_feed)
        for part in (self.attention, self.feed, *norms):
            if part is not None:
                yield from part.parameters()


@dataclass(frozen=True, slots=True)
class Structure:
    """A whole decoder."""

    hidden: int
    vocabulary: int
    embedding: str
    embedding_scale: float
    positions: str | None  # a table of learned positions
    layers: tuple[LayerData, ...]
    final_norm: NormData
    head: LinearData
    logit_scale: float
    logit_softcap: float | None

    @property
    def parameters(self) -> frozenset[str]:
        """The names of all that it reads."""
        names = {self.embedding, self.positions, *self.final_norm.parameters(), *self.head.parameters()}
        for layer in self.layers:
            names.update(layer.parameters())
        return frozenset(name for name in names if name is not None)

    @property
    def has_experts(self) -> bool:
        """Whether any layer has experts."""
        return any(isinstance(layer.feed, ExpertsData) for layer in self.layers)
