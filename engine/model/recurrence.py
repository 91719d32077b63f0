"""The recurrent layers of one model over its state slots, as the mixers of `transformers` are handed them."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.cache.mixers import INPUTS, STATE
from engine.cache.states import StateStorage
from engine.model.batch import Span
from engine.model.scans import Delta, Selection, StateStep, make_state_step


class Scanning(Protocol):
    """What runs the layers: the functions of `scans`, or the native kernels. What comes out is float32."""

    def convolve(
        self, rows: Tensor, weight: Tensor, bias: Tensor | None, states: Tensor, step: StateStep, *, silu: bool
    ) -> Tensor:
        """Each channel's last inputs times `weight` [taps, channels]."""
        ...

    def select(self, selection: Selection, states: Tensor, step: StateStep) -> Tensor:
        """The selective scan."""
        ...

    def apply_delta_rule(self, delta: Delta, states: Tensor, step: StateStep) -> Tensor:
        """The gated delta rule."""
        ...


class Recurrence:
    """Which states a step's rows begin with and leave, for every recurrent layer; knows the step that runs."""

    def __init__(self, storage: StateStorage, scans: Scanning) -> None:
        self.storage = storage
        self.calls = dict.fromkeys(storage.arrays, 0)  # by layer, for whoever wants to see that all were made
        self._scans = scans
        self._step = StateStep(torch.empty(0, 4), torch.empty(0, 3), 0)

    def begin(self, spans: Sequence[Span]) -> None:
        """Take the spans of the step that follows."""
        if self.calls:
            self._step = make_state_step(spans)

    def convolve(self, layer: int, rows: Tensor, weight: Tensor, bias: Tensor | None, *, silu: bool) -> Tensor:
        """The convolution that every recurrent layer begins with: [rows, channels] in the rows' type."""
        self.calls[layer] += 1
        out = self._scans.convolve(rows, weight, bias, self._array(layer, INPUTS), self._step, silu=silu)
        return out.to(rows.dtype)

    def select(self, layer: int, selection: Selection) -> Tensor:
        """The selective scan: [rows, heads × dim] float32."""
        return self._scans.select(selection, self._array(layer, STATE), self._step)

    def apply_delta_rule(self, layer: int, delta: Delta) -> Tensor:
        """The gated delta rule: [rows, value heads × value dim] float32."""
        return self._scans.apply_delta_rule(delta, self._array(layer, STATE), self._step)

    def shape(self, layer: int) -> tuple[int, ...]:
        """The shape of a layer's state in one slot."""
        return tuple(self._array(layer, STATE).shape[1:])

    def _array(self, layer: int, name: str) -> Tensor:
        return self.storage.arrays[layer][name]
