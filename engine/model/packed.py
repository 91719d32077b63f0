"""The native kernels in the modules of `transformers`: linears packed in their bits, attention over blocks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from engine.cache.lanes import LaneStorage
from engine.model.batch import Span, slots_of
from engine.model.encoding import Encoded, encode
from engine.model.kernels import ops
from engine.model.kernels.cache import form_of
from engine.model.kernels.choice import Kernels
from engine.model.kernels.matrix import Matrix, pack
from engine.model.padding import apart


class PackedLinear(nn.Module):
    """A linear layer whose matrix is packed; it shares nothing with the one that it replaces."""

    def __init__(self, matrix: Matrix, bias: Tensor | None, *, kernels: Kernels, pool: int) -> None:
        super().__init__()
        self.matrix = matrix
        self.bias = None if bias is None else bias.detach().float().contiguous()
        self.weight = torch.empty(0)  # for modules that ask for its type: float32 goes in and comes out
        self.form = [matrix.outputs, matrix.inputs, int(matrix.kind), matrix.block, int(matrix.has_min)]
        self.level, self.pool = int(kernels.level), pool

    def forward(self, inputs: Tensor) -> Tensor:
        """[…, inputs] -> […, outputs]; narrow rows lie apart."""
        rows = inputs.reshape(-1, inputs.shape[-1]).float()
        out: Tensor = ops.linear(rows, self.matrix.data, self.bias, self.form, self.level, self.pool)
        return apart(out.view(*inputs.shape[:-1], self.matrix.outputs).to(inputs.dtype))


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
        self.calls = dict.fromkeys(storage.cells, 0)  # by layer, for whoever wants to see that all were made
        self._level, self._pool = int(kernels.level), pool
        self._num_rows = 0
        self._step: list[Tensor] = []

    def begin(self, spans: Sequence[Span]) -> None:
        """Take the spans of the step that follows."""
        size, num_tables = self.storage.block_size, self.storage.layout.num_tables
        positions = [position for span in spans for position in range(span.start, span.stop)]
        slots = [slots_of(spans, number, block_size=size) for number in range(num_tables)]
        units: list[int] = []
        rows: list[list[tuple[int, int, int, int]]] = [[] for _ in range(num_tables)]
        for number, rows_of_table in enumerate(rows):
            for span in spans:
                table = span.tables[number]
                rows_of_table.append((span.row, span.start, span.length, len(units) - table.first))
                units.extend(table.units)
        self._num_rows = len(positions)
        flat = [(each.units * size + each.offsets).tolist() for each in slots]
        self._step = [torch.tensor(values, dtype=torch.int32) for values in (positions, flat, rows, units)]

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
        shared = self.storage.layout.owner_of(layer) != layer
        parts = (query,) if shared else (query, key, value)
        return self._attend(layer, parts, window=window, softcap=softcap, sinks=sinks)

    def attend_latent(self, layer: int, query: Tensor, row: Tensor) -> Tensor:
        """As `PagedAttention.attend_latent`: [heads, rows, key dim] and [rows, key dim] -> [rows, heads, value dim]."""
        return self._attend(layer, (query, row.unsqueeze(0)), window=None, softcap=None, sinks=None)

    def _attend(
        self,
        layer: int,
        parts: Sequence[Tensor],
        *,
        window: int | None,
        softcap: float | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """`parts`: queries, and K and V as far as the layer writes them."""
        self.calls[layer] += 1
        storage, count, query = self.storage, self._num_rows, parts[0]
        group, shared = storage.layout.group_of(layer), storage.layout.owner_of(layer) != layer
        rows = torch.cat([part[:, :count].transpose(0, 1).reshape(count, -1) for part in parts], dim=1)
        mixed = ops.attention(
            rows.float(),
            list(storage.cells[layer].tensors),
            self._step,
            None if sinks is None else sinks.float().contiguous(),
            [len(query), group.window(window) or 0, group.chunk or 0, int(shared)],
            list(form_of(storage, layer)),
            softcap or 0.0,
            self._level,
            self._pool,
        )
        out = query.new_zeros(query.shape[1], len(query), group.rows.value_dim)
        out[:count] = mixed.view(count, len(query), -1)
        return out
