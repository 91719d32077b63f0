"""The tensors that hold what recurrent and convolution layers keep of each sequence, slot by slot."""

from collections.abc import Iterable

import torch
from torch import Tensor

from engine.cache.layout import Layout


class StateStorage:
    """For each recurrent layer and each array of its state a tensor [slots, …] float32.

    Memory is reserved here and touched as slots are first written; what a slot holds before that is undefined.
    """

    def __init__(self, layout: Layout, *, num_slots: int) -> None:
        self.num_slots = num_slots
        self.arrays: dict[int, dict[str, Tensor]] = {
            layer: {array.name: torch.empty((num_slots, *array.shape)) for array in group.arrays}
            for group in layout.states
            for layer in group.layers
        }

    def poison(self, slots: Iterable[int]) -> None:
        """Fill slots with NaN, so that a test sees any use of what they held."""
        chosen = torch.tensor(sorted(slots), dtype=torch.int64)
        for arrays in self.arrays.values():
            for array in arrays.values():
                array.index_fill_(0, chosen, float("nan"))
