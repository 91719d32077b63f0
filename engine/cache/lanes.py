"""The tensors that hold the cache as the native kernels read it: sixteen positions side by side."""

import torch

from engine.cache.layout import LANES, Layout
from engine.cache.memory import UnitMemory


class LaneStorage(UnitMemory):
    """K and V in lane groups; blocks of a multiple of 16 positions.

    A unit's keys in one cell are [kv heads, block size / 16, dims / 2, 16, 2] and its values
    [kv heads, block size / 16, 8, dims, 2]: two neighbouring values of 16 keys, and one value of two
    neighbouring positions, lie together. In float32 they are [.., dims, 16] and [.., 16, dims]. Dims are
    padded to a multiple of 16. int8 has a float32 scale for each position of a head: [kv heads, block size].
    """

    def __init__(self, layout: Layout, *, num_units: int, block_size: int) -> None:
        assert block_size % LANES == 0, "smaller blocks are for the other storage"
        assert all(group.rows.in_lanes for group in layout.groups), "else its padding is not counted"
        super().__init__(layout, num_units=num_units, block_size=block_size, device=torch.device("cpu"))
