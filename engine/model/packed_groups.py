"""A matrix for each group of rows, packed in its bits for the native kernels."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from engine.model.encoding import Encoded, encode
from engine.model.kernels.matrix import pack
from engine.model.kernels.product import GroupedProduct, Place
from engine.model.parameters import alike


class PackedGroups(nn.Module):
    """A linear layer for each group of rows; shares nothing with the matrices that it is made of."""

    def __init__(
        self,
        weights: Tensor,
        biases: Tensor | None,
        *,
        place: Place,
        reencode: Callable[[Encoded], Encoded],
    ) -> None:
        super().__init__()
        parts = alike([reencode(encode(weight.contiguous())) for weight in weights])
        self.matrices = [pack(place.kernels.library, part) for part in parts]
        self.biases = None if biases is None else biases.detach().float().contiguous()
        self._product = GroupedProduct(place, [matrix.weight() for matrix in self.matrices], self.biases)

    def forward(self, rows: Tensor, starts: Sequence[int]) -> Tensor:
        """As `Grouped`."""
        return self._product(rows.float(), starts).to(rows.dtype)
