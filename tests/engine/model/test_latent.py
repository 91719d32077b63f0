"""Latent attention against the module's own, over an attention that sees one sequence."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AutoModelForCausalLM, DeepseekV2Config, DeepseekV3Config, PreTrainedConfig

from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.cache.storage import KVStorage
from engine.errors import ModelUnsupported
from engine.model.attention import NAME, attach
from engine.model.kernels.choice import Kernels
from engine.model.latent import keep_latents
from tests.engine.model.groups import PATHS, group_maker, settled

RANK, TURNED = 32, 16
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 32,
    "first_k_dense_replace": 2,
    "kv_lora_rank": RANK,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": TURNED,
    "v_head_dim": 20,
    "initializer_range": 0.2,
}
CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "deepseek-v2": lambda: DeepseekV2Config(**SIZES, q_lora_rank=None),
    "deepseek-v3": lambda: DeepseekV3Config(**SIZES, q_lora_rank=48),
    "deepseek-v3 by halves": lambda: DeepseekV3Config(**SIZES, q_lora_rank=None, rope_interleave=False),
}
TOKENS = torch.arange(20).unsqueeze(0)


class OneSequence:
    """Attends to the rows of the step alone, and notes what was cached."""

    def __init__(self) -> None:
        self.rows: dict[int, Tensor] = {}
        layout = Layout((CacheGroup((0, 1), RowShape(1, RANK + TURNED, RANK, "float32", latent=True)),))
        self.storage = KVStorage(layout, num_units=1, block_size=1, device=torch.device("cpu"))

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, **_: object) -> Tensor:
        raise AssertionError(f"layer {layer} hands on expanded heads")

    def attend_latent(self, layer: int, query: Tensor, row: Tensor) -> Tensor:
        self.rows[layer] = row
        hidden = torch.ones(len(row), len(row), dtype=torch.bool).triu(1)
        weights = (query @ row.t()).masked_fill(hidden, -torch.inf).softmax(-1)
        return (weights @ row[:, :RANK]).transpose(0, 1)


def random_model(name: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: nn.Module = AutoModelForCausalLM.from_config(CONFIGS[name]()).requires_grad_(requires_grad=False)
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


@pytest.mark.parametrize("kernels", PATHS, ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_attention_over_compressed_rows_is_that_over_the_heads_they_expand_to(
    name: str, kernels: Kernels | None
) -> None:
    model, attention = random_model(name), OneSequence()
    expected = model(input_ids=TOKENS, use_cache=False).logits

    with group_maker(kernels) as make:
        keep_latents(model, make)
        attach(model, attention)
        model.set_attn_implementation(NAME)  # type: ignore[operator]  # a model of the library
        logits = model(input_ids=TOKENS, position_ids=TOKENS, use_cache=False).logits

    torch.testing.assert_close(logits, expected, atol=1e-4 * float(expected.abs().max()), rtol=0)
    assert {layer: tuple(rows.shape) for layer, rows in attention.rows.items()} == {
        layer: (TOKENS.numel(), RANK + TURNED) for layer in range(2)
    }
    assert NAME in AttentionInterface()


def test_nothing_keeps_the_expanding_matrix() -> None:
    model = random_model("deepseek-v3")

    keep_latents(model, settled)

    assert not [name for name, _ in model.named_parameters() if "kv_b_proj" in name]


def test_a_bias_of_what_is_expanded_is_refused() -> None:
    model = random_model("deepseek-v3")
    for module in model.modules():
        if hasattr(module, "kv_b_proj"):
            module.kv_b_proj = nn.Linear(RANK, 4 * 44, bias=True)

    with pytest.raises(ModelUnsupported, match="DeepseekV3Attention adds a bias"):
        keep_latents(model, settled)
