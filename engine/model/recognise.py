"""From a config and the names of a model's parameters to its structure, for the decoders that are known."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedConfig

from engine.model.kernels.native import Activation, NormKind, Rotary, Scoring
from engine.model.structure import (
    AttentionData,
    ExpertsData,
    FeedForwardData,
    LayerData,
    LinearData,
    NormData,
    RotaryData,
    Structure,
)

ACTIVATIONS = {
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "gelu": Activation.GELU_ERF,
    "gelu_new": Activation.GELU_TANH,
    "gelu_fast": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "relu": Activation.RELU,
    "relu2": Activation.RELU_SQUARED,
}


@dataclass(frozen=True, slots=True)
class Family:
    """In what a family of decoders departs from Llama."""

    norm: NormKind = NormKind.RMS
    norm_offset: float = 0.0
    rotary: Rotary = Rotary.HALF
    norm_whole: bool = False
    normalize_experts: bool | None = None  # None: as the config says
    windows_everywhere: bool = False  # a window in the config holds for every layer
    rotary_by_type: bool = False  # angles differ by the type of layer
    rotary_in_windows: bool = False  # only windowed layers turn their heads


FAMILIES = {
    "llama": Family(),
    "mistral": Family(windows_everywhere=True),
    "qwen2": Family(),
    "qwen3": Family(),
    "phi3": Family(windows_everywhere=True),
    "smollm3": Family(),
    "granite": Family(),
    "olmo2": Family(norm_whole=True),
    "gemma": Family(norm_offset=1.0),
    "gemma2": Family(norm_offset=1.0),
    "gemma3_text": Family(norm_offset=1.0, rotary_by_type=True),
    "cohere": Family(norm=NormKind.LAYER, rotary=Rotary.INTERLEAVED),
    "cohere2": Family(norm=NormKind.LAYER, rotary=Rotary.INTERLEAVED, rotary_in_windows=True),
    "stablelm": Family(norm=NormKind.LAYER),
    "gpt_neox": Family(norm=NormKind.LAYER),
    "gpt2": Family(norm=NormKind.LAYER),
    "mixtral": Family(windows_everywhere=True, normalize_experts=True),
    "qwen3_moe": Family(windows_everywhere=True),
    "olmoe": Family(norm_whole=True),
    "gpt_oss": Family(),
}


@dataclass(frozen=True, slots=True)
class Names:
    """Where a family keeps its parameters; `{}` is the layer's number."""

    layer: str = "model.layers.{}."
    attention: str = "self_attn."
    qkv: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    out: str = "o_proj"
    query_norm: str = "q_norm"
    key_norm: str = "k_norm"
    up: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")
    down: str = "mlp.down_proj"
    attention_norm: str = "input_layernorm"
    feed_norm: str = "post_attention_layernorm"
    embedding: str = "model.embed_tokens"
    positions: str | None = None
    final_norm: str = "model.norm"
    router: str = "mlp.gate"


NAMES = {
    "phi3": replace(Names(), qkv=("qkv_proj",), up=("mlp.gate_up_proj",)),
    "gpt_neox": replace(
        Names(),
        layer="gpt_neox.layers.{}.",
        attention="attention.",
        qkv=("query_key_value",),
        out="dense",
        up=("mlp.dense_h_to_4h",),
        down="mlp.dense_4h_to_h",
        embedding="gpt_neox.embed_in",
        final_norm="gpt_neox.final_layer_norm",
    ),
    "gpt2": Names(
        layer="transformer.h.{}.",
        attention="attn.",
        qkv=("c_attn",),
        out="c_proj",
        up=("mlp.c_fc",),
        down="mlp.c_proj",
        attention_norm="ln_1",
        feed_norm="ln_2",
        embedding="transformer.wte",
        positions="transformer.wpe.weight",
        final_norm="transformer.ln_f",
    ),
    "gpt_oss": replace(Names(), router="mlp.router"),
}


# What old files keep beside the parameters, and `transformers` makes anew: angles, and masks as large as the context.
BUFFER = re.compile(r".*\.(rotary_emb\.inv_freq|(attn|attention)\.(bias|masked_bias))")


def recognise(config: PreTrainedConfig, names: AbstractSet[str]) -> Structure | None:
    """The structure of a model whose parameters have these `names`; None where it is not one of those known.

    It reads every one of them: where one is left over, the model does something that is not described.
    """
    family = FAMILIES.get(config.model_type)
    if family is None or _departs(config):
        return None
    try:
        structure = _Reader(config, names, family).structure()
    except (KeyError, AttributeError):  # a name or an option that this family should have
        return None
    unread = names - structure.parameters
    return structure if all(BUFFER.fullmatch(name) for name in unread) else None


def _departs(config: PreTrainedConfig) -> bool:
    """Whether an option is set that no description of ours has a word for."""
    unknown = ("clip_qkv", "alibi", "scale_attn_by_inverse_layer_idx", "final_logit_softcapping_per_layer")
    return any(getattr(config, name, None) for name in unknown) or getattr(config, "scale_attn_weights", True) is False


class _Reader:
    """Reads one config; every method describes a part."""

    def __init__(self, config: PreTrainedConfig, names: AbstractSet[str], family: Family) -> None:
        self.config: Any = config  # its fields differ by model
        self.names = names
        self.family = family
        self.where = NAMES.get(config.model_type, Names())
        self.transposed = config.model_type == "gpt2"
        self.hidden: int = self.config.hidden_size
        self.heads: int = self.config.num_attention_heads
        self.kv_heads: int = getattr(config, "num_key_value_heads", None) or self.heads
        self.head_dim: int = getattr(config, "head_dim", None) or self.hidden // self.heads
        self.eps: float = self._first("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps")

    def structure(self) -> Structure:
        config, where = self.config, self.where
        tied = "lm_head.weight" not in self.names
        head = f"{where.embedding}.weight" if tied else "lm_head.weight"
        return Structure(
            hidden=self.hidden,
            vocabulary=config.vocab_size,
            embedding=f"{where.embedding}.weight",
            embedding_scale=self._embedding_scale(),
            positions=where.positions,
            layers=tuple(self.layer(index) for index in range(config.num_hidden_layers)),
            final_norm=self.norm(where.final_norm),
            head=LinearData((head,), tuple(name for name in ("lm_head.bias",) if name in self.names)),
            logit_scale=getattr(config, "logit_scale", None) or 1.0 / getattr(config, "logits_scaling", 1.0),
            logit_softcap=getattr(config, "final_logit_softcapping", None),
        )

    def layer(self, index: int) -> LayerData:
        prefix = self.where.layer.format(index)
        sandwich = f"{prefix}post_feedforward_layernorm.weight" in self.names
        own_feed_norm = f"{prefix}pre_feedforward_layernorm"
        after_only = sandwich and f"{own_feed_norm}.weight" not in self.names
        feed_norm = own_feed_norm if sandwich else f"{prefix}{self.where.feed_norm}"
        return LayerData(
            attention_norm=None if after_only else self.norm(f"{prefix}{self.where.attention_norm}"),
            attention=self.attention(index, f"{prefix}{self.where.attention}"),
            after_attention=self.norm(f"{prefix}post_attention_layernorm") if sandwich else None,
            feed_norm=None if after_only else self.norm_if_there(feed_norm),
            feed=self.experts(prefix) if f"{prefix}{self.where.router}.weight" in self.names else self.feed(prefix),
            after_feed=self.norm(f"{prefix}post_feedforward_layernorm") if sandwich else None,
            parallel=self._parallel(),
            residual_scale=getattr(self.config, "residual_multiplier", 1.0),
        )

    def attention(self, index: int, prefix: str) -> AttentionData:
        where, config = self.where, self.config
        windowed = self._windowed(index)
        scale = getattr(config, "attention_multiplier", None)
        if query_scale := getattr(config, "query_pre_attn_scalar", None):
            scale = query_scale**-0.5
        return AttentionData(
            qkv=self.linear(*(f"{prefix}{name}" for name in where.qkv), order=self._qkv_order()),
            out=self.linear(f"{prefix}{where.out}"),
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            rotary=self.rotary(index, windowed=windowed),
            query_norm=self.norm_if_there(f"{prefix}{where.query_norm}"),
            key_norm=self.norm_if_there(f"{prefix}{where.key_norm}"),
            norm_whole=self.family.norm_whole,
            scale=self.head_dim**-0.5 if scale is None else scale,
            window=config.sliding_window if windowed else None,
            softcap=getattr(config, "attn_logit_softcapping", None),
            sinks=f"{prefix}sinks" if f"{prefix}sinks" in self.names else None,
        )

    def rotary(self, index: int, *, windowed: bool) -> RotaryData | None:
        config = self.config
        turns: list[int] | None = getattr(config, "no_rope_layers", None)  # 1 where a layer does turn its heads
        if self.where.positions or (turns is not None and not turns[index]):
            return None
        if self.family.rotary_in_windows and not windowed:
            return None
        parameters: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
        share = parameters.get("partial_rotary_factor") or 1.0
        layer_type = config.layer_types[index] if self.family.rotary_by_type else None
        return RotaryData(self.family.rotary, int(self.head_dim * share), layer_type)

    def feed(self, prefix: str) -> FeedForwardData:
        up = self.linear(*(f"{prefix}{name}" for name in self.where.up))
        gated = len(self.where.up) == 2 or self.where.up == ("mlp.gate_up_proj",)  # noqa: PLR2004  # gate and up
        return FeedForwardData(
            up=up,
            down=self.linear(f"{prefix}{self.where.down}"),
            width=self._first("n_inner", "intermediate_size", default=4 * self.hidden),
            activation=self._activation(),
            gated=gated,
        )

    def experts(self, prefix: str) -> ExpertsData:
        config = self.config
        clamped = f"{prefix}mlp.experts.gate_up_proj_bias" in self.names
        normalize = self.family.normalize_experts
        return ExpertsData(
            router=self.linear(f"{prefix}{self.where.router}"),
            up=f"{prefix}mlp.experts.gate_up_proj",
            up_bias=f"{prefix}mlp.experts.gate_up_proj_bias" if clamped else None,
            down=f"{prefix}mlp.experts.down_proj",
            down_bias=f"{prefix}mlp.experts.down_proj_bias" if clamped else None,
            count=self._first("num_local_experts", "num_experts"),
            chosen=config.num_experts_per_tok,
            width=getattr(config, "moe_intermediate_size", None) or config.intermediate_size,
            activation=Activation.CLAMPED_SWIGLU if clamped else self._activation(),
            alpha=config.swiglu_alpha if clamped else 0.0,
            limit=config.swiglu_limit if clamped else 0.0,
            scoring=Scoring.SOFTMAX_OF_CHOSEN if clamped else Scoring.SOFTMAX,
            normalize=getattr(config, "norm_topk_prob", False) if normalize is None else normalize,
            transposed=clamped,
            interleaved=clamped,
        )

    def linear(self, *modules: str, order: tuple[int, ...] | None = None) -> LinearData:
        weights = tuple(f"{module}.weight" for module in modules)
        missing = [name for name in weights if name not in self.names]
        if missing:
            raise KeyError(missing[0])
        biases = tuple(f"{module}.bias" for module in modules if f"{module}.bias" in self.names)
        if biases and len(biases) != len(weights):
            raise KeyError(f"{modules[0]} has {len(biases)} biases for {len(weights)} weights")
        return LinearData(weights, biases, order, transposed=self.transposed)

    def norm(self, module: str) -> NormData:
        found = self.norm_if_there(module)
        if found is None:
            raise KeyError(module)
        return found

    def norm_if_there(self, module: str) -> NormData | None:
        if f"{module}.weight" not in self.names:
            return None
        bias = f"{module}.bias" if f"{module}.bias" in self.names else None
        return NormData(f"{module}.weight", bias, self.family.norm, self.eps, self.family.norm_offset)

    def _windowed(self, index: int) -> bool:
        if getattr(self.config, "sliding_window", None) is None:
            return False
        types: list[str] | None = getattr(self.config, "layer_types", None)
        if types is None:
            return self.family.windows_everywhere
        return types[index] == "sliding_attention"

    def _qkv_order(self) -> tuple[int, ...] | None:
        """GPT-NeoX keeps a head's q, k and v together; ours are all q, then all k, then all v."""
        if self.config.model_type != "gpt_neox":
            return None
        return tuple(
            (3 * head + part) * self.head_dim + value
            for part in range(3)
            for head in range(self.heads)
            for value in range(self.head_dim)
        )

    def _parallel(self) -> bool:
        config = self.config
        return config.model_type in {"cohere", "cohere2"} or bool(getattr(config, "use_parallel_residual", False))

    def _activation(self) -> Activation:
        for name in ("hidden_activation", "hidden_act", "activation_function"):
            if (value := getattr(self.config, name, None)) is not None:
                return ACTIVATIONS[value]
        raise KeyError("hidden_act")

    def _embedding_scale(self) -> float:
        if self.config.model_type.startswith("gemma"):
            return float(self.hidden**0.5)
        return float(getattr(self.config, "embedding_multiplier", 1.0))

    def _first(self, *names: str, default: Any = None) -> Any:
        """The first of these options that is set; a model's options are named as its authors liked."""
        found = (value for name in names if (value := getattr(self.config, name, None)) is not None)
        value = next(found, default)
        if value is None:
            raise AttributeError(names[0])
        return value
