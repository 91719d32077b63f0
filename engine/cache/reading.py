"""What a `transformers` decoder's config says about each layer's state."""

from collections.abc import Sequence

from engine.cache.layout import CacheGroup, Layout, Reach, RowShape
from engine.cache.mixers import BESIDE, RECURRENT, check_kinds, layer_kinds, read_states
from engine.errors import ModelUnsupported

REACHES = {
    "full_attention": Reach.FULL,
    "attention": Reach.FULL,
    "sliding_attention": Reach.WINDOW,
    "chunked_attention": Reach.CHUNK,
    BESIDE: Reach.FULL,
}
WINDOWS_EVERYWHERE = frozenset(
    {"mistral", "mixtral", "phi3", "phimoe", "qwen3_moe", "starcoder2"}
)  # a window, and no types


def read_layout(config: object, dtype: str, *, in_lanes: bool) -> Layout:
    """The cache groups that a decoder's config asks for, `in_lanes` for the native kernels.

    Raises ModelUnsupported with the name of a kind of layer whose state is not known.
    """
    states = read_states(config)
    rows = _rows(config, dtype, in_lanes=in_lanes)
    owners = _owners(config)
    reading = {layer for layer, _ in owners}
    by_rule: dict[tuple[Reach, int], list[int]] = {}
    for layer, rule in enumerate(_rules(config)):
        if rule is not None and layer not in reading:
            by_rule.setdefault(rule, []).append(layer)
    groups = tuple(CacheGroup(tuple(layers), rows, *rule) for rule, layers in by_rule.items())
    return Layout(groups, states, owners)


def check_layer_kinds(model: str, kinds: Sequence[str]) -> None:
    """Raise ModelUnsupported with the first kind of layers that is not run in a model of this type."""
    check_kinds(model, kinds)
    for kind in kinds:
        if kind not in REACHES and kind not in RECURRENT:
            raise ModelUnsupported(f"the model has layers of type {kind}, whose state this engine does not keep")


def _rules(config: object) -> list[tuple[Reach, int] | None]:
    """For each layer which positions it sees; None where it has no rows."""
    num_layers = field(config, "num_hidden_layers", "n_layer", "num_layers")
    kinds = layer_kinds(config)
    if not kinds:
        window = getattr(config, "sliding_window", None)
        if getattr(config, "model_type", None) in WINDOWS_EVERYWHERE and isinstance(window, int):
            return [(Reach.WINDOW, positive(config, "sliding_window"))] * num_layers
        return [(Reach.FULL, 0)] * num_layers
    check_layer_kinds(str(getattr(config, "model_type", None)), kinds)
    return [_rule(config, kind) for kind in kinds]


def _rule(config: object, kind: str) -> tuple[Reach, int] | None:
    if kind in RECURRENT:
        return None
    match REACHES[kind]:
        case Reach.FULL:
            return (Reach.FULL, 0)
        case Reach.WINDOW:
            return (Reach.WINDOW, positive(config, "sliding_window"))
        case Reach.CHUNK:
            return (Reach.CHUNK, positive(config, "attention_chunk_size"))


def _rows(config: object, dtype: str, *, in_lanes: bool) -> RowShape:
    if isinstance(getattr(config, "kv_lora_rank", None), int):
        rank, turned = positive(config, "kv_lora_rank"), positive(config, "qk_rope_head_dim")
        return RowShape(1, rank + turned, rank, dtype, in_lanes, latent=True)
    num_heads = getattr(config, "num_attention_heads", None) or getattr(config, "n_head", None) or 1
    num_kv_heads: int = getattr(config, "num_key_value_heads", None) or num_heads
    head_dim: int = getattr(config, "head_dim", None) or field(config, "hidden_size", "n_embd") // num_heads
    return RowShape(num_kv_heads, head_dim, head_dim, dtype, in_lanes)


def _owners(config: object) -> tuple[tuple[int, int], ...]:
    """The layers at the end that read the rows of the last one before them of their own type."""
    shared, kinds = getattr(config, "num_kv_shared_layers", None) or 0, layer_kinds(config)
    if not (shared and kinds):
        return ()
    if not 0 < shared < len(kinds):
        raise ModelUnsupported(f"num_kv_shared_layers is {shared}, and the model has {len(kinds)} layers")
    first = len(kinds) - shared
    return tuple((layer, _last(kinds[:first], kinds[layer])) for layer in range(first, len(kinds)))


def _last(kinds: Sequence[str], kind: str) -> int:
    found = [index for index, each in enumerate(kinds) if each == kind]
    if not found:
        raise ModelUnsupported(f"a layer of type {kind} reads another's rows, and none of that type stands before it")
    return found[-1]


def field(config: object, *names: str) -> int:
    """The first of these fields that the config has. Raises ModelUnsupported where it has none."""
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int):
            return value
    raise ModelUnsupported(f"the model's config has no {names[0]}")


def positive(config: object, name: str) -> int:
    """A field that must be 1 or more. Raises ModelUnsupported."""
    value = field(config, name)
    if value < 1:
        raise ModelUnsupported(f"the model's config has {name} {value}, and it must be 1 or more")
    return value
