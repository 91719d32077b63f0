"""The native kernels in the modules of `transformers`: linears packed in their bits, attention over blocks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from engine.cache.lanes import LaneStorage
from engine.model.batch import Span
from engine.model.encoding import Encoded, encode
from engine.model.kernels import ops
from engine.model.kernels.choice import Kernels
from engine.model.kernels.matrix import Matrix, pack


class PackedLinear(nn.Module):
    """A linear layer whose matrix is packed; it shares nothing with the one that it replaces."""

    def __init__(self, matrix: Matrix, bias: Tensor | None, *, kernels: Kernels, pool: int) -> None:
        super().__init__()
        self.matrix = matrix
        self.bias = None if bias is None else bias.detach().float().contiguous()
        self.form = [matrix.outputs, matrix.inputs, int(matrix.kind), matrix.block, int(matrix.has_min)]
        self.level, self.pool = int(kernels.level), pool

    def forward(self, inputs: Tensor) -> Tensor:
        """[…, inputs] -> […, outputs]."""
        rows = inputs.reshape(-1, inputs.shape[-1]).float()
        out: Tensor = ops.linear(rows, self.matrix.data, self.bias, self.form, self.level, self.pool)
        return out.view(*inputs.shape[:-1], self.matrix.outputs).to(inputs.dtype)


def pack_linears(
    model: nn.Module, *, kernels: Kernels, pool: int, reencode: Callable[[Encoded], Encoded]
) -> list[PackedLinear]:
    """Put a PackedLinear in the place of every linear layer; the matrices that nothing else holds are freed."""
    packed = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) in (nn.Linear, Conv1D):
                parameters = dict(child.named_parameters())
                weight = parameters["weight"].detach()
                encoded = encode(weight.t().contiguous() if type(child) is Conv1D else weight)
                matrix = pack(kernels.library, reencode(encoded))
                linear = PackedLinear(matrix, parameters.get("bias"), kernels=kernels, pool=pool)
                setattr(parent, name, linear)
                packed.append(linear)
    return packed


class KernelAttention:
    """The attention of all layers of one model over one cache, by the native kernels; knows the step that runs."""

    def __init__(self, storage: LaneStorage, *, kernels: Kernels, pool: int) -> None:
        self.storage = storage
        self.calls = [0] * len(storage.keys)  # by layer, for whoever wants to see that all were made
        self._level, self._pool = int(kernels.level), pool
        self._num_rows = 0
        self._step: list[Tensor] = []

    def begin(self, spans: Sequence[Span]) -> None:
        """Take the spans of the step that follows."""
        size = self.storage.block_size
        positions = [position for span in spans for position in range(span.start, span.stop)]
        slots = [span.blocks[at // size] * size + at % size for span in spans for at in range(span.start, span.stop)]
        tables: list[int] = []
        rows: list[tuple[int, int, int, int]] = []
        for span in spans:
            rows.append((span.row, span.start, span.length, len(tables)))
            tables.extend(span.blocks)
        self._num_rows = len(positions)
        self._step = [torch.tensor(values, dtype=torch.int32) for values in (positions, slots, rows, tables)]

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
        """As `PagedAttention.attend`: [heads, rows, dim] and [kv heads, rows, dim] -> [rows, heads, dim]."""
        self.calls[layer] += 1
        storage, count = self.storage, self._num_rows
        heads, kv_heads, dim = query.shape[0], key.shape[0], query.shape[-1]
        qkv = torch.cat([part[:, :count].transpose(0, 1).reshape(count, -1) for part in (query, key, value)], dim=1)
        scales = [storage.key_scales[layer], storage.value_scales[layer]] if storage.key_scales else []
        mixed = ops.attention(
            qkv.float(),
            storage.keys[layer],
            storage.values[layer],
            scales,
            self._step,
            None if sinks is None else sinks.float().contiguous(),
            [heads, kv_heads, dim, storage.block_size, window or 0],
            softcap or 0.0,
            self._level,
            self._pool,
        )
        out = query.new_zeros(query.shape[1], heads, dim)
        out[:count] = mixed.view(count, heads, dim)
        return out
