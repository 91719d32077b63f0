"""Linear layers whose rows do not depend on the rows beside them."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from engine.errors import ModelUnsupported
from engine.model.padding import apart
from engine.model.rows import PATTERNS, RowCounts, Trials, agreeing_counts, trial_of

BATCH_LOADS = (1, 4, 8, 16, 64, 256)  # rows of a step: decoding few or many, a chunk of a prompt
HEAD_LOADS = (1, 4, 16)  # rows that need logits
PIECES = (32, 16, 8, 4, 1)  # rows of a product that always has as many; 32 leave no pointwise operator a leftover


class RowLinear(nn.Module):
    """A linear layer that is computed with agreeing row counts alone. Shares the weights of the one it replaces."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None, *, transposed: bool) -> None:
        super().__init__()
        self.weight = weight  # [out, in], or [in, out] where transposed
        self.bias = bias
        self.transposed = transposed
        self.rows = RowCounts((1,))

    def forward(self, inputs: Tensor) -> Tensor:
        """[…, rows, in] -> […, rows, out], where all leading dimensions are 1; narrow rows lie apart."""
        return apart(self._products(inputs))

    def _products(self, inputs: Tensor) -> Tensor:
        num_rows = inputs.shape[-2]
        sizes = self.rows.split(num_rows)
        if len(sizes) == 1 and sizes[0] == num_rows:
            return self.product(inputs)
        missing = sum(sizes) - num_rows
        padded = functional.pad(inputs, (0, 0, 0, missing)) if missing else inputs
        if not sizes:
            return self.product(padded)
        pieces = [self.product(piece) for piece in padded.split(sizes, dim=-2)]
        return torch.cat(pieces, dim=-2).narrow(-2, 0, num_rows)

    def product(self, inputs: Tensor) -> Tensor:
        """The product as the library computes it for this many rows."""
        weight = self.weight.t() if self.transposed else self.weight
        return functional.linear(inputs, weight, self.bias)

    @property
    def in_features(self) -> int:
        """The width of a row that comes in."""
        return self.weight.shape[0 if self.transposed else 1]

    @property
    def out_features(self) -> int:
        """The width of a row that goes out."""
        return self.weight.shape[1 if self.transposed else 0]


def replace_linears(model: nn.Module) -> list[RowLinear]:
    """Put a RowLinear in the place of every linear layer; returns all that the model has then."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) in (nn.Linear, Conv1D):
                parameters = dict(child.named_parameters())
                linear = RowLinear(parameters["weight"], parameters.get("bias"), transposed=type(child) is Conv1D)
                setattr(parent, name, linear)
    return [module for module in model.modules() if isinstance(module, RowLinear)]


def settle_rows(linears: Iterable[RowLinear], *, loads: tuple[int, ...]) -> int:
    """Measure which row counts agree and set them; returns the quantum that they share.

    Raises ModelUnsupported where not even one row gives the same bits twice.
    """
    by_kind: dict[tuple[object, ...], list[RowLinear]] = {}
    for linear in linears:
        weight = linear.weight
        key = (weight.shape, weight.stride(), weight.dtype, linear.bias is None, linear.transposed)
        by_kind.setdefault(key, []).append(linear)
    kinds = list(by_kind.values())
    weights = [kind[0].weight.numel() * len(kind) for kind in kinds]
    found = agreeing_counts([_trials(kind[0]) for kind in kinds], weights, loads=loads, max_rows=max(32, *loads))
    if kinds and not found:
        raise ModelUnsupported("on this machine the model's products give other bits each time")
    for kind, rows in zip(kinds, found, strict=True):
        for linear in kind:
            linear.rows = rows
    return found[0].quantum if found else 1


def settle_count(weight: Tensor) -> int:
    """A number of rows among which a product with `weight` [outputs, inputs] gives a row the same bits at each place.

    Raises ModelUnsupported where there is none.
    """
    trials = _trials(RowLinear(nn.Parameter(weight, requires_grad=False), None, transposed=False))
    for count in PIECES:
        if trials.agreeing([count]) is not None:
            return count
    raise ModelUnsupported("on this machine the model's products give other bits each time")


def _trials(linear: RowLinear) -> Trials:
    """Trials of a layer of this shape whose every sum is zero but for its rounding.

    What comes out is then the trace of the order of the sum, which bfloat16 would hide nearly always.
    """
    generator = torch.Generator().manual_seed(0)
    half, odd = divmod(linear.in_features, 2)
    order = torch.randperm(half, generator=generator)
    sizes = 2.0 ** torch.randint(-4, 5, (PATTERNS, half), generator=generator)
    rows = sizes * torch.randn(PATTERNS, half, generator=generator)
    weights = torch.randn(linear.out_features, half, generator=generator)
    patterns = functional.pad(torch.cat([rows, rows[:, order]], dim=1), (0, odd))
    weight = functional.pad(torch.cat([weights, -weights[:, order]], dim=1), (0, odd))
    stand_in = torch.empty_like(linear.weight).copy_(weight.t() if linear.transposed else weight)
    bias = None if linear.bias is None else nn.Parameter(torch.zeros_like(linear.bias))
    product = RowLinear(nn.Parameter(stand_in), bias, transposed=linear.transposed).product
    return Trials(trial_of(product, patterns.to(stand_in)))
