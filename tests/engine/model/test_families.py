"""Families of `transformers` whose models are not compared one by one: a small copy passes, or a name is told."""

from typing import Any

import pytest
from transformers import CONFIG_MAPPING, PreTrainedConfig

from engine.errors import ModelUnsupported
from engine.model.gate import Path, Verdict, check_structure
from engine.model.support import check_config
from tests.models.support import every_kernels

FASTEST = every_kernels()[-1]
DOTS = {"n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2}
SERVED: dict[str, dict[str, Any]] = {  # with what their own defaults lack
    "afmoe": {},
    "aria_text": {},
    "arcee": {},
    "axk1": {},
    "cohere2_moe": {},
    "dots1": DOTS,
    "ernie4_5": {},
    "ernie4_5_moe": {"moe_layer_start_index": 3},
    "exaone4": {},
    "exaone_moe": {},
    "flex_olmo": {},
    "glm4_moe": {},
    "granitemoeshared": {},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 16, "moe_topk": 2},
    "lfm2_moe": {"num_hidden_layers": 4, "layer_types": ["conv", "conv", "full_attention", "conv"]},
    "minimax_m2": {},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8, "head_dim": 128},
    "olmo3": {},
    "sarvam_moe": {},
    "seed_oss": {},
    "solar_open": {},
}
SCANS = "its layers of type linear_attention are not run"
REFUSED = {
    "bailing_hybrid": SCANS,
    "dbrx": "a small copy failed with AttributeError",  # of its own code, which asks its config for what it has not
    "deepseek_v32": "layers of type indexed_attention, whose state this engine does not keep",
    "deepseek_v4": "layers of type heavily_compressed_attention, whose state this engine does not keep",
    "gemma4_text": "its layers have sizes of their own",
    "git": "it is a multimodal model",
    "glm_moe_dsa": "layers of type indexed_attention, whose state this engine does not keep",
    "hrm_text": "HrmTextAttention calls attention, but is no layer of the cache",
    "jetmoe": "JetMoeParallelExperts keeps its experts in a way that is not run",
    "kimi_linear": SCANS,
    "lfm3": "its layers of type conv are not run",
    "longcat_flash": "LongcatFlashExperts keeps its experts in a way that is not run",
    "mimo_v2_flash": r"MiMoV2FlashAttention makes K and V of \d kv heads x 32/64, and by the config it is 2 kv heads",
    "minimax": SCANS,
    "nemotron_h": SCANS,
    "olmo_hybrid": SCANS,
    "phi4_multimodal": "it is a multimodal model",
    "qwen4_exp_text": SCANS,
    "recurrent_gemma": SCANS,
    "rwkv": "its layers keep a state of a kind that is not run",
    "xlstm": "its layers keep a state of a kind that is not run",
    "zamba": SCANS,
    "zamba2": SCANS,
    "zaya": "its layers of type hybrid are not run",
}


def config_of(name: str, **fields: Any) -> PreTrainedConfig:
    """A config with the library's own sizes."""
    return CONFIG_MAPPING[name](**fields)


def try_family(config: PreTrainedConfig) -> Verdict:
    """What a load says before it reads weights."""
    check_config(config)
    return check_structure(config, FASTEST)


@pytest.mark.parametrize("name", SERVED)
def test_a_family_beside_the_others_is_served(name: str) -> None:
    assert try_family(config_of(name, **SERVED[name])).path == Path(straight=False, kernels=FASTEST)


@pytest.mark.parametrize("name", REFUSED)
def test_a_family_that_is_not_served_is_refused_by_what_it_has(name: str) -> None:
    config = config_of(name)

    with pytest.raises(ModelUnsupported, match=f"{name} can't be served: .*{REFUSED[name]}"):
        try_family(config)
