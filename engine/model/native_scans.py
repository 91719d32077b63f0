"""The recurrent layers on the native kernels."""

from torch import Tensor

from engine.model.kernels import scans
from engine.model.kernels.choice import Kernels
from engine.model.scans import Delta, Selection, StateStep


class NativeScans:
    """Implements `recurrence.Scanning` on the threads of one pool. Rows and states are float32."""

    def __init__(self, kernels: Kernels, pool: int) -> None:
        self._level, self._pool = int(kernels.level), pool

    def convolve(
        self, rows: Tensor, weight: Tensor, bias: Tensor | None, states: Tensor, step: StateStep, *, silu: bool
    ) -> Tensor:
        """As `scans.convolve`."""
        form, tables = [step.num_rows, int(silu)], (step.spans, step.checkpoints)
        out: Tensor = scans.convolve(rows, weight, bias, states, *tables, form, self._level, self._pool)
        return out

    def select(self, selection: Selection, states: Tensor, step: StateStep) -> Tensor:
        """As `scans.select`."""
        out: Tensor = scans.select(
            [selection.x, selection.time, selection.b, selection.c],
            selection.gate,
            selection.a,
            selection.skip,
            selection.time_bias,
            states,
            step.spans,
            step.checkpoints,
            [step.num_rows, selection.groups],
            list(selection.limits),
            self._level,
            self._pool,
        )
        return out

    def apply_delta_rule(self, delta: Delta, states: Tensor, step: StateStep) -> Tensor:
        """As `scans.apply_delta_rule`."""
        rows = [delta.query, delta.key, delta.value, delta.time, delta.rate]
        place = (states, step.spans, step.checkpoints, step.num_rows, self._level, self._pool)
        out: Tensor = scans.apply_delta_rule(rows, delta.a, delta.time_bias, *place)
        return out
