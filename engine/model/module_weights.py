"""The parameters of a model that `transformers` holds in memory."""

from collections.abc import Set as AbstractSet

from torch import Tensor, nn

from engine.model.encoding import Encoded, encode


class ModuleWeights:
    """Implements `engine.model.weights.WeightSource` over a module."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = dict(model.named_parameters())  # a tied head goes by the embedding's name

    def names(self) -> AbstractSet[str]:
        """What can be asked for."""
        return self._parameters.keys()

    def encoded(self, name: str) -> Encoded:
        """A matrix [outputs, inputs] in its own type."""
        return encode(self._parameters[name])

    def experts(self, name: str) -> tuple[Encoded, ...]:
        """The matrices of a parameter [experts, outputs, inputs]."""
        return tuple(encode(matrix) for matrix in self._parameters[name])

    def vector(self, name: str) -> Tensor:
        """A norm's weight or a bias."""
        return self._parameters[name].detach().float()
