"""What recurrent and convolution layers keep of a sequence, read from a model's config."""

from collections.abc import Callable, Sequence
from math import gcd

from engine.cache.layout import LANES, StateArray, StateGroup
from engine.errors import ModelUnsupported

INPUTS, STATE = "inputs", "state"  # the arrays of a layer: a convolution's last inputs, what a scan carries
SCAN, CONVOLUTION = "linear_attention", "conv"
RECURRENT = frozenset({SCAN, "mamba", "mamba2", CONVOLUTION, "recurrent"})  # kinds of layers that have no rows
BESIDE = "hybrid"  # a layer with a mixer and attention side by side


def read_states(config: object) -> tuple[StateGroup, ...]:
    """The states that a decoder's layers keep; empty where it has attention alone.

    Raises ModelUnsupported where layers are of a recurrent kind, and the model is not one whose states are known.
    """
    kinds, model = layer_kinds(config), str(getattr(config, "model_type", None))
    check_kinds(model, kinds)
    layers = tuple(layer for layer, kind in enumerate(kinds) if _is_recurrent(kind))
    if not layers:
        return ()
    kind, arrays = MODELS[model]
    return (StateGroup(kind, layers, arrays(config)),)


def check_kinds(model: str, kinds: Sequence[str]) -> None:
    """Raise ModelUnsupported with the first kind of recurrent layers that is not run in a model of this type."""
    own = KINDS.get(model, {SCAN, "mamba"})
    for kind in filter(_is_recurrent, kinds):
        if model not in MODELS or kind not in own:
            known = f"type {sorted(own)[0]}" if model in MODELS else ", ".join(sorted(MODELS))
            raise ModelUnsupported(
                f"{model} can't be served: its layers of type {kind} are not run, only those of {known}"
            )


def _is_recurrent(kind: str) -> bool:
    return kind in RECURRENT or kind == BESIDE


def layer_kinds(config: object) -> Sequence[str]:
    """What a config says of each layer; empty where it says nothing."""
    found: Sequence[str] | None = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    return found or ()


def _sizes(config: object, *names: str) -> tuple[int, ...]:
    values = tuple(getattr(config, name, None) for name in names)
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, int) or value < 1:
            raise ModelUnsupported(
                f"the model's config has {name} {value!r}, and a recurrent layer needs a whole number of at least 1"
            )
    return tuple(int(value) for value in values if value is not None)


def _check_shared(config: object, many: str, few: str) -> None:
    """Raise ModelUnsupported unless each of few groups is shared by equally many heads."""
    heads, groups = _sizes(config, many, few)
    if heads % groups:
        raise ModelUnsupported(f"the model's config has {many} {heads}, which is no multiple of {few}, {groups}")


def _inputs(taps: int, channels: int) -> StateArray:
    return StateArray(INPUTS, (taps - 1, channels))


def _by_channel(channels: int, states: int, taps: int) -> tuple[StateArray, ...]:
    """Mamba's: neighbouring channels lie together, as many as the kernels take at once."""
    dim = gcd(channels, LANES)
    return (_inputs(taps, channels), StateArray(STATE, (channels // dim, states, dim)))


def _mamba(config: object) -> tuple[StateArray, ...]:
    return _by_channel(*_sizes(config, "intermediate_size", "state_size", "conv_kernel"))


def _jamba(config: object) -> tuple[StateArray, ...]:
    expand, hidden, states, taps = _sizes(config, "mamba_expand", "hidden_size", "mamba_d_state", "mamba_d_conv")
    return _by_channel(expand * hidden, states, taps)


def _by_head(*names: str) -> Callable[[object], tuple[StateArray, ...]]:
    """Mamba-2's, from the names of the fields that say how many heads, how wide, states, groups and taps."""

    def arrays(config: object) -> tuple[StateArray, ...]:
        heads, dim, states, groups, taps = _sizes(config, *names)
        _check_shared(config, names[0], names[3])
        return (_inputs(taps, heads * dim + 2 * groups * states), StateArray(STATE, (heads, states, dim)))

    return arrays


def _delta(config: object) -> tuple[StateArray, ...]:
    key_heads, value_heads = _sizes(config, "linear_num_key_heads", "linear_num_value_heads")
    _check_shared(config, "linear_num_value_heads", "linear_num_key_heads")
    key_dim, value_dim = _sizes(config, "linear_key_head_dim", "linear_value_head_dim")
    (taps,) = _sizes(config, "linear_conv_kernel_dim")
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    return (_inputs(taps, channels), StateArray(STATE, (value_heads, key_dim, value_dim)))


def _short(config: object) -> tuple[StateArray, ...]:
    taps, channels = _sizes(config, "conv_L_cache", "hidden_size")
    return (_inputs(taps, channels),)


_MAMBA2 = ("num_heads", "head_dim", "state_size", "n_groups", "conv_kernel")
_MAMBA2_BESIDE = ("mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv")
MODELS: dict[str, tuple[str, Callable[[object], tuple[StateArray, ...]]]] = {
    "mamba": ("Mamba", _mamba),
    "falcon_mamba": ("Mamba", _mamba),
    "jamba": ("Mamba", _jamba),
    "mamba2": ("Mamba-2", _by_head(*_MAMBA2)),
    "falcon_h1": ("Mamba-2", _by_head(*_MAMBA2_BESIDE)),
    "bamba": ("Mamba-2", _by_head(*_MAMBA2_BESIDE)),
    "granitemoehybrid": ("Mamba-2", _by_head(*_MAMBA2_BESIDE)),
    "qwen3_next": ("gated delta", _delta),
    "qwen3_5_text": ("gated delta", _delta),
    "qwen3_5_moe_text": ("gated delta", _delta),
    "lfm2": ("short convolution", _short),
    "lfm2_moe": ("short convolution", _short),
}
KINDS = {"falcon_h1": {BESIDE}, "lfm2": {CONVOLUTION}, "lfm2_moe": {CONVOLUTION}}  # of layers, where not scans alone
