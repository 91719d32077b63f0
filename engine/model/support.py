"""Which models are refused before their weights are read, each by the name of what is missing."""

from collections.abc import Iterator

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedConfig

from engine.errors import ModelUnsupported
from engine.model.recognise import FAMILIES

ALIBI_MODELS = frozenset({"bloom", "mpt"})
_RECURRENT = "it has recurrent layers, whose state is not kept yet"
_EXPERTS = "its feed-forward layers are experts, of a kind that is not run yet"
EXPERT_FIELDS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
UNSUPPORTED_FIELDS = {
    "kv_lora_rank": "its attention is latent, which is not cached yet",
    "num_kv_shared_layers": "some layers read another's cache, which is not run yet",
    "attention_chunk_size": "its attention is chunked, which is not run yet",
    "mamba_d_state": _RECURRENT,
    "state_size": _RECURRENT,
    "linear_conv_kernel_dim": _RECURRENT,
    "conv_L_cache": _RECURRENT,
    "attention_hidden_size": _RECURRENT,
}


def check_config(config: PreTrainedConfig) -> None:
    """Raise ModelUnsupported with the first reason, if there is one."""
    for reason in _reasons(config):
        raise ModelUnsupported(f"{config.model_type} can't be served: {reason}")


def _reasons(config: PreTrainedConfig) -> Iterator[str]:
    if config.is_encoder_decoder:
        yield "it is an encoder-decoder model, and only decoders are run"
    if config.get_text_config() is not config:
        yield "it is a multimodal model (its config has a text_config), and only text models are run"
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        yield "transformers has no causal language model of this type"
    if getattr(config, "alibi", False) or config.model_type in ALIBI_MODELS:
        yield "its attention uses ALiBi, which is not run"
    for field, what in UNSUPPORTED_FIELDS.items():
        if _number(config, field):
            yield f"{what} ({field})"
    if (experts := expert_field(config)) is not None and config.model_type not in FAMILIES:
        yield f"{_EXPERTS} ({experts})"
    method = (getattr(config, "quantization_config", None) or {}).get("quant_method")
    if method is not None:
        yield f"its weights are quantized with {method}, and only float weights and GGUF files are read"


def expert_field(config: PreTrainedConfig) -> str | None:
    """The option that gives a model its experts; None where it has one feed-forward part a layer."""
    return next((field for field in EXPERT_FIELDS if _number(config, field) > 1), None)


def _number(config: PreTrainedConfig, field: str) -> int:
    value = getattr(config, field, None)
    return value if isinstance(value, int) else 0
