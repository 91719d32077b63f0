"""Which models are refused before their weights are read, each by the name of what is missing."""

from collections.abc import Iterator

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedConfig

from engine.cache.mixers import read_states
from engine.errors import ModelUnsupported

MEDIA = ("text_config", "vision_config", "audio_config")
ALIBI_MODELS = frozenset({"bloom", "mpt"})
STATES_OF_THEIR_OWN = frozenset({"rwkv", "xlstm"})  # and no types of layers that would say so


def check_config(config: PreTrainedConfig) -> None:
    """Raise ModelUnsupported with the first reason, if there is one."""
    for reason in _reasons(config):
        raise ModelUnsupported(f"{config.model_type} can't be served: {reason}")
    read_states(config)


def _reasons(config: PreTrainedConfig) -> Iterator[str]:
    if config.is_encoder_decoder:
        yield "it is an encoder-decoder model, and only decoders are run"
    media = next((name for name in MEDIA if name in config.sub_configs), None)
    if config.get_text_config() is not config or media:
        yield f"it is a multimodal model (its config has a {media or 'text_config'}), and only text models are run"
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        yield "transformers has no causal language model of this type"
    if config.is_heterogeneous:
        yield "its layers have sizes of their own, and only one size for all is run"
    if getattr(config, "alibi", False) or config.model_type in ALIBI_MODELS:
        yield "its attention uses ALiBi, which is not run"
    if config.model_type in STATES_OF_THEIR_OWN:
        yield "its layers keep a state of a kind that is not run"
    method = (getattr(config, "quantization_config", None) or {}).get("quant_method")
    if method is not None:
        yield f"its weights are quantized with {method}, and only float weights and GGUF files are read"
