"""The recurrent layers on the kernels.

Each is a torch operator too, `torch.ops.tidemark.convolve` and so on, with a fake implementation for whoever traces a
graph with it; modules call it without torch's dispatch.

`spans` [chunks, 4] and `checkpoints` [checkpoints, 3] are int32, as recurrent.h has them. Rows may be columns of
wider ones. What is put out is zero in rows behind the spans.
"""

import torch
from torch import Tensor

from engine.model.kernels.library import library
from engine.model.kernels.native import Level, Library
from engine.model.kernels.recurrent import Columns, Convolution, DeltaRule, Selection, StateStep


def convolve(  # noqa: PLR0913, PLR0917  # an operator's schema has no structures
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    states: Tensor,
    spans: Tensor,
    checkpoints: Tensor,
    form: list[int],
    level: int,
    pool: int,
) -> Tensor:
    """Rows [n, channels] float32, each channel's last inputs times `weight` [taps, channels] -> [n, channels].

    `states` is [slots, taps - 1, channels]; `form` is (rows of the spans, 1 for silu).
    """
    num_rows, silu = form
    out = _output(rows, num_rows)
    taps, channels = weight.shape
    assert states.is_contiguous(), "slots lie one behind the other"
    convolution = Convolution(
        input=_columns(rows),
        output=out.data_ptr(),
        weight=weight.data_ptr(),
        bias=_pointer(bias),
        states=states.data_ptr(),
        channels=channels,
        taps=taps,
        silu=silu,
        step=_step(spans, checkpoints),
    )
    _library().convolve(pool, Level(level), convolution)
    return out


def select(  # noqa: PLR0913, PLR0917  # an operator's schema has no structures
    rows: list[Tensor],
    gate: Tensor | None,
    a: Tensor,
    skip: Tensor,
    time_bias: Tensor | None,
    states: Tensor,
    spans: Tensor,
    checkpoints: Tensor,
    form: list[int],
    limits: list[float],
    level: int,
    pool: int,
) -> Tensor:
    """The selective scan over `rows` (x, time, b, c) -> [n, heads × dim] float32; shapes as in `scans.Selection`.

    `states` is [slots, heads, states, dim]; `form` is (rows of the spans, groups); `limits` are those of a step.
    """
    num_rows, groups = form
    x, time, b, c = rows
    out = _output(x, num_rows)
    _, heads, num_states, dim = states.shape
    assert states.is_contiguous(), "slots lie one behind the other"
    selection = Selection(
        input=_columns(x),
        time=_columns(time),
        b=_columns(b),
        c=_columns(c),
        gate=Columns() if gate is None else _columns(gate),
        output=out.data_ptr(),
        a=a.data_ptr(),
        skip=skip.data_ptr(),
        time_bias=_pointer(time_bias),
        states=states.data_ptr(),
        heads=heads,
        dim=dim,
        num_states=num_states,
        groups=groups,
        by_channel=a.ndim > 1,
        time_min=limits[0],
        time_max=limits[1],
        step=_step(spans, checkpoints),
    )
    _library().select(pool, Level(level), selection)
    return out


def apply_delta_rule(  # noqa: PLR0913, PLR0917  # an operator's schema has no structures
    rows: list[Tensor],
    a: Tensor,
    time_bias: Tensor,
    states: Tensor,
    spans: Tensor,
    checkpoints: Tensor,
    num_rows: int,
    level: int,
    pool: int,
) -> Tensor:
    """The gated delta rule over `rows` (query, key, value, time, rate) -> [n, value heads × value dim] float32.

    `states` is [slots, value heads, key dim, value dim]; `num_rows` are the spans'.
    """
    query, key, value, time, rate = rows
    out = _output(value, num_rows)
    _, value_heads, key_dim, value_dim = states.shape
    assert states.is_contiguous(), "slots lie one behind the other"
    rule = DeltaRule(
        query=_columns(query),
        key=_columns(key),
        value=_columns(value),
        time=_columns(time),
        rate=_columns(rate),
        output=out.data_ptr(),
        a=a.data_ptr(),
        time_bias=time_bias.data_ptr(),
        states=states.data_ptr(),
        key_heads=key.shape[1] // key_dim,
        value_heads=value_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        step=_step(spans, checkpoints),
    )
    _library().apply_delta_rule(pool, Level(level), rule)
    return out


_convolve = torch.library.custom_op("tidemark::convolve", convolve, mutates_args=("states",))
_select = torch.library.custom_op("tidemark::select", select, mutates_args=("states",))
_apply_delta_rule = torch.library.custom_op("tidemark::apply_delta_rule", apply_delta_rule, mutates_args=("states",))


@_convolve.register_fake
def _(  # noqa: PLR0913, PLR0917  # as the operator
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    states: Tensor,
    spans: Tensor,
    checkpoints: Tensor,
    form: list[int],
    level: int,
    pool: int,
) -> Tensor:
    return rows.new_empty(rows.shape)


@_select.register_fake
def _(  # noqa: PLR0913, PLR0917  # as the operator
    rows: list[Tensor],
    gate: Tensor | None,
    a: Tensor,
    skip: Tensor,
    time_bias: Tensor | None,
    states: Tensor,
    spans: Tensor,
    checkpoints: Tensor,
    form: list[int],
    limits: list[float],
    level: int,
    pool: int,
) -> Tensor:
    return rows[0].new_empty(rows[0].shape)


@_apply_delta_rule.register_fake
def _(  # noqa: PLR0913, PLR0917  # as the operator
    rows: list[Tensor],
    a: Tensor,
    time_bias: Tensor,
    states: Tensor,
    spans: Tensor,
    checkpoints: Tensor,
    num_rows: int,
    level: int,
    pool: int,
) -> Tensor:
    return rows[2].new_empty(rows[2].shape)


def _output(rows: Tensor, num_rows: int) -> Tensor:
    out = rows.new_empty(rows.shape)
    out[num_rows:].zero_()
    return out


def _columns(rows: Tensor) -> Columns:
    assert rows.dtype is torch.float32, "the kernels read float32"
    assert rows.stride(1) == 1 or rows.shape[1] == 1, "the values of a row lie side by side"
    return Columns(rows.data_ptr(), rows.stride(0))


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _step(spans: Tensor, checkpoints: Tensor) -> StateStep:
    return StateStep(spans.data_ptr(), checkpoints.data_ptr(), len(spans), len(checkpoints))


def _library() -> Library:
    loaded = library()
    assert loaded is not None, "who holds a pool has the library"
    return loaded
