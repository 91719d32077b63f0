"""The options of recurrent layers in a small config."""

from collections.abc import Sequence

from transformers import PreTrainedConfig

HEAD_DIM = 32
SIZES = {
    "state_size": 16,
    "time_step_rank": 32,
    "mamba_d_state": 16,
    "mamba_dt_rank": 32,
    "mamba_d_ssm": 256,
    "mamba_d_head": HEAD_DIM,
    "linear_key_head_dim": HEAD_DIM,
    "linear_value_head_dim": HEAD_DIM,
}
PERIODS = ("attn_layer", "expert_layer")  # Jamba's
MAX_GROUPS, NUM_KEY_HEADS = 2, 2


def shrink_mixers(small: PreTrainedConfig) -> None:
    """Set the sizes of a small config's mixers, its hidden size being set."""
    for name, size in SIZES.items():
        if getattr(small, name, None) is not None:
            setattr(small, name, size)
    for name in ("n_groups", "mamba_n_groups"):
        if (groups := getattr(small, name, None)) is not None:
            setattr(small, name, min(groups, MAX_GROUPS))
    expand = getattr(small, "mamba_expand", None) or getattr(small, "expand", None) or 1
    inner = getattr(small, "mamba_d_ssm", None) or expand * small.hidden_size
    if getattr(small, "mamba_n_heads", None) is not None:
        small.mamba_n_heads = inner // HEAD_DIM
    if small.model_type == "mamba2":
        small.num_heads, small.head_dim = inner // HEAD_DIM, HEAD_DIM
    if (key_heads := getattr(small, "linear_num_key_heads", None)) is not None:
        ratio = min(small.linear_num_value_heads // key_heads, 2)
        small.linear_num_key_heads, small.linear_num_value_heads = NUM_KEY_HEADS, NUM_KEY_HEADS * ratio


def shrink_periods(small: PreTrainedConfig, config: PreTrainedConfig, layers: Sequence[int]) -> None:
    """Let the layers that are kept be what they were, where a period and an offset say what each one is."""
    for name in PERIODS:
        period, offset = (getattr(config, f"{name}_{part}", None) for part in ("period", "offset"))
        if isinstance(period, int) and isinstance(offset, int):
            found = _period([layer % period == offset for layer in layers])
            setattr(small, f"{name}_period", found[0])
            setattr(small, f"{name}_offset", found[1])


def _period(wanted: Sequence[bool]) -> tuple[int, int]:
    """A period and an offset that choose the wanted ones, or none; of the first layers of each kind some always do."""
    count = len(wanted)
    pairs = ((period, offset) for period in range(1, count + 2) for offset in range(period))
    return next(
        (period, offset)
        for period, offset in pairs
        if [layer % period == offset for layer in range(count)] == list(wanted)
    )
