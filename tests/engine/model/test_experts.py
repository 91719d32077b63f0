from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    GptOssConfig,
    JetMoeConfig,
    Llama4TextConfig,
    MixtralConfig,
    PreTrainedConfig,
)

from engine.errors import ModelUnsupported
from engine.model.experts import Experts, FixedRows, ScaledExperts, replace_experts
from engine.model.kernels.choice import Kernels
from tests.engine.model.groups import PATHS, group_maker, settled

SIZES: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
SIZES |= {"intermediate_size": 96, "vocab_size": 32, "num_local_experts": 6}
CONFIGS: list[PreTrainedConfig] = [
    MixtralConfig(**SIZES, num_experts_per_tok=3),
    GptOssConfig(**SIZES, num_experts_per_tok=2),
    Llama4TextConfig(**SIZES, num_experts_per_tok=2),
]


def feed_forward(config: PreTrainedConfig) -> nn.ModuleDict:
    """The only layer's feed-forward part, as the one part of a module."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = AutoModelForCausalLM.from_config(config).model.layers[0]
        part: nn.Module = layer.mlp if hasattr(layer, "mlp") else layer.feed_forward
        for parameter in part.parameters():
            nn.init.normal_(parameter, std=0.3)
    return nn.ModuleDict({"part": part}).requires_grad_(requires_grad=False)


def run(model: nn.ModuleDict, rows: Tensor) -> Tensor:
    out = model["part"](rows.unsqueeze(0))
    first: Tensor = out[0] if isinstance(out, tuple) else out
    return first.reshape(rows.shape)


def random_rows(count: int) -> Tensor:
    return torch.randn(count, 64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kernels", PATHS, ids=str)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.model_type)
def test_they_are_those_of_transformers_and_rows_do_not_depend_on_each_other(
    config: PreTrainedConfig, kernels: Kernels | None
) -> None:
    model, rows = feed_forward(config), random_rows(64)
    expected = run(model, rows)

    with group_maker(kernels) as make:
        replace_experts(model, make)
        together = run(model, rows)
        some = run(model, rows[40:48])

    torch.testing.assert_close(together, expected, atol=1e-4 * float(expected.abs().max()), rtol=0)
    assert torch.equal(some, together[40:48])


def test_nothing_keeps_the_stacked_matrices() -> None:
    model = feed_forward(CONFIGS[0])

    replace_experts(model, settled)

    assert all(parameter.ndim < 3 for parameter in model.parameters())


def test_the_routers_beside_experts_are_computed_with_one_number_of_rows() -> None:
    mixtral, llama4 = feed_forward(CONFIGS[0]), feed_forward(CONFIGS[2])
    replace_experts(mixtral, settled)
    replace_experts(llama4, settled)

    assert isinstance(mixtral["part"].gate, FixedRows)
    assert isinstance(llama4["part"], ScaledExperts)
    assert isinstance(llama4["part"].router, FixedRows)


class Recording(nn.Module):
    """A router that says how many rows it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.append(len(rows))
        return rows, rows.sum(-1)


def test_fixed_rows_are_padded_and_cut() -> None:
    router = Recording()
    rows = random_rows(10)

    same, sums = FixedRows(router, 8)(rows)

    assert router.seen == [8, 8]
    assert torch.equal(same, rows)
    assert torch.equal(sums, rows.sum(-1))


class Biased(nn.Module):
    """A router that adds what it is given."""

    def forward(self, rows: Tensor, bias: Tensor) -> tuple[Tensor]:
        return (rows + bias,)


def test_fixed_rows_hand_a_bias_of_all_rows_on() -> None:
    rows, bias = random_rows(10), torch.arange(64.0)

    (found,) = FixedRows(Biased(), 8)(rows, bias)

    assert torch.equal(found, rows + bias)


def test_experts_that_no_row_chose_are_passed_over() -> None:
    model = feed_forward(CONFIGS[0])
    experts = replace_experts(model, settled)[0]
    rows = random_rows(8)

    out = experts(rows, torch.full((8, 1), 5), torch.ones(8, 1))

    assert isinstance(experts, Experts)
    assert bool(out.isfinite().all())


def test_matrices_that_are_held_in_another_way_are_refused_by_name() -> None:
    config = JetMoeConfig(hidden_size=64, num_hidden_layers=1, intermediate_size=96, vocab_size=32, kv_channels=16)

    with pytest.raises(ModelUnsupported, match="JetMoeParallelExperts keeps its experts in a way that is not run"):
        replace_experts(AutoModelForCausalLM.from_config(config), settled)


def test_a_norm_of_what_each_expert_gives_is_refused() -> None:
    model = feed_forward(CONFIGS[0])
    model["part"].experts.has_post_expert_norm = True  # type: ignore[union-attr]  # as `transformers` sets it

    with pytest.raises(ModelUnsupported, match="MixtralExperts norms what each expert gives"):
        replace_experts(model, settled)
