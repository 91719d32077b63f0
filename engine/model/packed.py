"""The native kernels in the modules of `transformers`: linears packed in their bits, attention over blocks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from engine.cache.lanes import LaneStorage
from engine.model.batch import Span, slots_of
from engine.model.encoding import Encoded, encode
from engine.model.kernels.attention import AttentionForm, CachedAttention, make_step
from engine.model.kernels.cache import form_of
from engine.model.kernels.matrix import Matrix, pack
from engine.model.kernels.native import Step
from engine.model.kernels.product import MatrixProduct, Place
from engine.model.padding import Filling, apart


class PackedLinear(nn.Module):
    """A linear layer whose matrix is packed; it shares nothing with the one that it replaces."""

    def __init__(self, matrix: Matrix, bias: Tensor | None, *, place: Place, filling: Filling) -> None:
        super().__init__()
        self.matrix = matrix
        self.bias = None if bias is None else bias.detach().float().contiguous()
        self.weight = torch.empty(0)  # for modules that ask for its type: float32 goes in and comes out
        self._product = MatrixProduct(place, matrix.weight(), self.bias)
        self._filling = filling

    def forward(self, inputs: Tensor) -> Tensor:
        """[…, inputs] -> […, outputs], zeros for padding; narrow rows lie apart."""
        num_rows = inputs.numel() // self.matrix.inputs
        return apart(self._product(inputs.float(), self._filling.own(num_rows)).to(inputs.dtype))


def pack_linears(
    model: nn.Module, *, place: Place, filling: Filling, reencode: Callable[[Encoded], Encoded]
) -> list[PackedLinear]:
    """Put a PackedLinear in the place of every linear layer; the matrices that nothing else holds are freed."""
    packed = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) in (nn.Linear, Conv1D):
                parameters = dict(child.named_parameters())
                weight = parameters["weight"].detach()
                encoded = encode(weight.t().contiguous() if type(child) is Conv1D else weight)
                matrix = pack(place.kernels.library, reencode(encoded))
                linear = PackedLinear(matrix, parameters.get("bias"), place=place, filling=filling)
                setattr(parent, name, linear)
                packed.append(linear)
    return packed


class KernelAttention:
    """The attention of all layers of one model over one cache, by the native kernels; knows the step that runs."""

    def __init__(self, storage: LaneStorage, place: Place) -> None:
        self.storage = storage
        self.calls = dict.fromkeys(storage.cells, 0)  # by layer, for whoever wants to see that all were made
        self._place = place
        self._layers: dict[tuple[int, AttentionForm], CachedAttention] = {}
        self._tables: list[Tensor] = []
        self._step = Step()

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
        flat = [(each.units * size + each.offsets).tolist() for each in slots]
        self._tables = [torch.tensor(values, dtype=torch.int32) for values in (positions, flat, rows, units)]
        self._tables[2] = self._tables[2].view(num_tables, len(spans), 4)  # also where no layer attends
        self._step = make_step(self._tables)

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
        group, (query, *_) = self.storage.layout.group_of(layer), parts
        form = AttentionForm(len(query), group.window(window) or 0, group.chunk or 0, softcap or 0.0, len(parts) == 1)
        if (layer, form) not in self._layers:
            self._layers[layer, form] = self._make(layer, form, sinks)
        count, padded = self._step.num_rows, query.shape[1]
        rows = torch.cat([part[:, :count].transpose(0, 1).reshape(count, -1) for part in parts], dim=1)
        mixed = self._layers[layer, form](rows.float(), self._step, padded)
        return mixed.view(padded, len(query), group.rows.value_dim).to(query.dtype)

    def _make(self, layer: int, form: AttentionForm, sinks: Tensor | None) -> CachedAttention:
        """A layer's sinks are a parameter, which no step changes."""
        cells, rows = self.storage.cells[layer].tensors, form_of(self.storage, layer)
        return CachedAttention(self._place, cells, rows, form, None if sinks is None else sinks.float().contiguous())
