"""Recurrent layers, position by position in torch: what the native kernels are compared to.

States are [slots, …] float32. A span begins with the state of its source slot, zeros below 0, and leaves the one
behind its last position in its target slot. What runs at a position has the same shapes in every step, so that
its bits depend on nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.batch import Span

LEAST_SQUARE = 1e-6  # added to the square of a key's and a query's length, as the models do


@dataclass(frozen=True, slots=True)
class StateStep:
    """The spans of a step with their slots, for the layers that keep a state a sequence."""

    spans: Tensor  # [chunks, 4] int32: row, length, source slot or -1, target slot
    checkpoints: Tensor  # [checkpoints, 3] int32: number of the span, positions of it, slot; ascending
    num_rows: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What the selective scan takes of each row, and the constants of its layer.

    `gate` is absent where the model gates behind a norm. Where steps differ by channel (Mamba), `time` is as wide
    as `x` and `a` is [heads, states, dim]; else (Mamba-2) there is one a head, and `a` is [heads].
    """

    x: Tensor  # [rows, heads × dim]
    time: Tensor  # [rows, heads] or [rows, heads × dim]
    b: Tensor  # [rows, groups × states]
    c: Tensor  # [rows, groups × states]
    gate: Tensor | None  # [rows, heads × dim]
    a: Tensor
    skip: Tensor  # [heads] or [heads × dim]
    time_bias: Tensor | None  # [heads]; None where it is in `time`
    groups: int
    limits: tuple[float, float]  # of a step


@dataclass(frozen=True, slots=True)
class Delta:
    """What the gated delta rule takes of each row, and the constants of its layer."""

    query: Tensor  # [rows, key heads × key dim]
    key: Tensor  # [rows, key heads × key dim]
    value: Tensor  # [rows, value heads × value dim]
    time: Tensor  # [rows, value heads]
    rate: Tensor  # [rows, value heads]
    a: Tensor  # [value heads]
    time_bias: Tensor  # [value heads]


def make_state_step(spans: Sequence[Span]) -> StateStep:
    """The rows and slots of a step's spans."""
    rows: list[tuple[int, ...]] = []
    checkpoints: list[tuple[int, ...]] = []
    for number, span in enumerate(spans):
        use = span.states
        assert use is not None, "a sequence of a recurrent model has slots"
        rows.append((span.row, span.length, -1 if use.source is None else use.source, use.target))
        checkpoints.extend((number, position - span.start, slot) for position, slot in sorted(use.checkpoints))
    return StateStep(_table(rows, 4), _table(checkpoints, 3), sum(span.length for span in spans))


def _table(rows: Sequence[tuple[int, ...]], width: int) -> Tensor:
    return torch.tensor(rows, dtype=torch.int32).view(-1, width)


def convolve(
    rows: Tensor, weight: Tensor, bias: Tensor | None, states: Tensor, step: StateStep, *, silu: bool
) -> Tensor:
    """Each channel's last inputs times `weight` [taps, channels]: [rows, channels] float32.

    The state is the inputs before a position, oldest first: [slots, taps - 1, channels].
    """
    out = rows.new_zeros(rows.shape, dtype=torch.float32)

    def advance(row: int, state: Tensor) -> Tensor:
        window = torch.cat([state, rows[row : row + 1].float()])
        mixed = (window * weight).sum(0)
        mixed = mixed if bias is None else mixed + bias
        out[row] = functional.silu(mixed) if silu else mixed
        return window[1:]

    _carry(states, step, advance)
    return out


def select(selection: Selection, states: Tensor, step: StateStep) -> Tensor:
    """The selective scan: [rows, heads × dim] float32. The state is [slots, heads, states, dim]."""
    _, heads, _, dim = states.shape
    decay = selection.a if selection.a.ndim > 1 else selection.a.view(heads, 1, 1)
    skip = selection.skip.view(heads, -1)
    out = selection.x.new_zeros(selection.x.shape, dtype=torch.float32)

    def advance(row: int, state: Tensor) -> Tensor:
        x = selection.x[row].float().view(heads, dim)
        time = selection.time[row].float()
        time = time if selection.time_bias is None else time + selection.time_bias
        step = functional.softplus(time).clamp(*selection.limits).view(heads, 1, -1)
        b, c = (_shared(part[row].float(), selection.groups, heads) for part in (selection.b, selection.c))
        state = torch.exp(step * decay) * state + (step * x.unsqueeze(1)) * b.unsqueeze(2)
        y = (state * c.unsqueeze(2)).sum(1) + skip * x
        if selection.gate is not None:
            y = y * functional.silu(selection.gate[row].float()).view(heads, dim)
        out[row] = y.view(-1)
        return state

    _carry(states, step, advance)
    return out


def apply_delta_rule(delta: Delta, states: Tensor, step: StateStep) -> Tensor:
    """The gated delta rule: [rows, value heads × value dim] float32.

    The state is [slots, value heads, key dim, value dim].
    """
    heads, key_dim, value_dim = states.shape[1:]
    key_heads = delta.key.shape[1] // key_dim
    out = delta.value.new_zeros(delta.value.shape, dtype=torch.float32)

    def advance(row: int, state: Tensor) -> Tensor:
        query, key = (_shared(part[row].float(), key_heads, heads) for part in (delta.query, delta.key))
        query, key = _normalize(query) * key_dim**-0.5, _normalize(key)
        decay = torch.exp(delta.a * functional.softplus(delta.time[row].float() + delta.time_bias))
        state = state * decay.view(heads, 1, 1)
        missing = delta.value[row].float().view(heads, value_dim) - (state * key.unsqueeze(2)).sum(1)
        change = missing * torch.sigmoid(delta.rate[row].float()).unsqueeze(1)
        state = state + key.unsqueeze(2) * change.unsqueeze(1)
        out[row] = (state * query.unsqueeze(2)).sum(1).view(-1)
        return state

    _carry(states, step, advance)
    return out


def _carry(states: Tensor, step: StateStep, advance: Callable[[int, Tensor], Tensor]) -> None:
    """Take each span's state from position to position, and keep it where it is asked for."""
    kept: dict[tuple[int, int], list[int]] = {}
    for number, count, slot in step.checkpoints.tolist():
        kept.setdefault((number, count), []).append(slot)
    for number, (row, length, source, target) in enumerate(step.spans.tolist()):
        state = states[source].clone() if source >= 0 else torch.zeros_like(states[target])
        for done in range(length):
            state = advance(row + done, state)
            for slot in kept.get((number, done + 1), ()):
                states[slot] = state
        states[target] = state


def _shared(row: Tensor, groups: int, heads: int) -> Tensor:
    """What each head takes of a row that some share: [groups × n] -> [heads, n]."""
    return row.view(groups, -1).repeat_interleave(heads // groups, dim=0)


def _normalize(heads: Tensor) -> Tensor:
    return heads / torch.sqrt(heads.square().sum(-1, keepdim=True) + LEAST_SQUARE)
