import pytest
from transformers import (
    BloomConfig,
    CLIPTextConfig,
    FalconConfig,
    Gemma3Config,
    LlamaConfig,
    MiniMaxConfig,
    MptConfig,
    NemotronHConfig,
    PreTrainedConfig,
    RecurrentGemmaConfig,
    RwkvConfig,
    T5Config,
    Zamba2Config,
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
    (RwkvConfig(), "rwkv .*a state of a kind"),
    (MiniMaxConfig(num_hidden_layers=2), "minimax .*layers of type linear_attention are not run, only those of bamba"),
    (NemotronHConfig(), "nemotron_h .*layers of type linear_attention are not run"),
    (RecurrentGemmaConfig(), "recurrent_gemma .*layers of type linear_attention are not run"),
    (Zamba2Config(), "zamba2 .*layers of type .* are not run"),
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
