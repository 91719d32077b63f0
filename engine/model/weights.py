"""Where a model's parameters are read from, one at a time, by the names that `transformers` gives them."""

from collections.abc import Set as AbstractSet
from typing import Protocol

from torch import Tensor

from engine.model.encoding import Encoded


class WeightSource(Protocol):
    """A model's parameters, each decoded when it is asked for and kept by the caller alone."""

    def names(self) -> AbstractSet[str]:
        """What can be asked for, such as `model.layers.0.self_attn.q_proj.weight`; a tied head is not among them."""
        ...

    def encoded(self, name: str) -> Encoded:
        """A matrix [outputs, inputs] in the bits that the source has."""
        ...

    def experts(self, name: str) -> tuple[Encoded, ...]:
        """The matrices [outputs, inputs] of a parameter that holds one for each expert."""
        ...

    def vector(self, name: str) -> Tensor:
        """A norm's weight or a bias, [width] float32, as the module of `transformers` holds it."""
        ...
