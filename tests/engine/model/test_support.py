import pytest
from transformers import (
    BloomConfig,
    CLIPTextConfig,
    FalconConfig,
    FalconH1Config,
    Gemma3Config,
    JambaConfig,
    Lfm2Config,
    LlamaConfig,
    Mamba2Config,
    MptConfig,
    PreTrainedConfig,
    Qwen3NextConfig,
    T5Config,
)

from engine.errors import ModelUnsupported
from engine.model.support import check_config
from tests.models.architectures import ARCHITECTURES

REFUSED = [
    (T5Config(), "t5 can't be served: it is an encoder-decoder"),
    (Gemma3Config(), "gemma3 .*text_config"),
    (CLIPTextConfig(), "no causal language model"),
    (BloomConfig(), "bloom .*ALiBi"),
    (MptConfig(), "mpt .*ALiBi"),
    (FalconConfig(alibi=True), "falcon .*ALiBi"),
    (Mamba2Config(), r"mamba2 .*recurrent layers.*\(state_size\)"),
    (JambaConfig(), r"jamba .*recurrent layers.*\(mamba_d_state\)"),
    (FalconH1Config(), r"falcon_h1 .*recurrent layers.*\(mamba_d_state\)"),
    (Lfm2Config(), r"lfm2 .*recurrent layers.*\(conv_L_cache\)"),
    (Qwen3NextConfig(), r"qwen3_next .*recurrent layers.*\(linear_conv_kernel_dim\)"),
]


@pytest.mark.parametrize(("config", "reason"), REFUSED, ids=[config.model_type for config, _ in REFUSED])
def test_what_is_not_run_is_refused_by_name(config: PreTrainedConfig, reason: str) -> None:
    with pytest.raises(ModelUnsupported, match=reason):
        check_config(config)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_is_run_is_not_refused(name: str) -> None:
    check_config(ARCHITECTURES[name]())


def test_weights_quantized_in_a_way_not_read_are_refused_by_name() -> None:
    config = LlamaConfig()
    config.quantization_config = {"quant_method": "awq"}

    with pytest.raises(ModelUnsupported, match="llama can't be served: its weights are quantized with awq"):
        check_config(config)
