"""Which models are refused before their weights are read, each by the name of what is missing."""

from collections.abc import Iterator

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedConfig

from engine.errors import ModelUnsupported

ALIBI_MODELS = frozenset({"bloom", "mpt"})
_RECURRENT = "it has recurrent layers, whose state is not kept yet"
UNSUPPORTED_FIELDS = {
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
    method = (getattr(config, "quantization_config", None) or {}).get("quant_method")
    if method is not None:
        yield f"its weights are quantized with {method}, and only float weights and GGUF files are read"


def _number(config: PreTrainedConfig, field: str) -> int:
    value = getattr(config, field, None)
    return value if isinstance(value, int) else 0
