from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, Llama4TextConfig

from engine.model.tempered import temper_queries

EVERY = 8


def random_model(**options: Any) -> nn.Module:
    config = Llama4TextConfig(
        hidden_size=32,
        head_dim=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=32,
        intermediate_size_mlp=32,
        vocab_size=32,
        moe_layers=[],
        no_rope_layers=[1, 0],
        attention_chunk_size=None,
        max_position_embeddings=64,
        floor_scale=EVERY,
        attn_scale=0.7,
        initializer_range=0.3,
        **options,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: nn.Module = AutoModelForCausalLM.from_config(config).requires_grad_(requires_grad=False)
    model.set_attn_implementation("eager")  # type: ignore[operator]  # a model of the library
    return model.eval()


def logits_of(model: nn.Module, tokens: Tensor, positions: Tensor) -> Tensor:
    logits: Tensor = model(input_ids=tokens, position_ids=positions, use_cache=False).logits
    return logits


def test_positions_in_their_order_have_the_temperature_of_transformers() -> None:
    model = random_model()
    places = torch.arange(30).unsqueeze(0)
    expected = logits_of(model, places, places)

    temper_queries(model)

    torch.testing.assert_close(logits_of(model, places, places), expected, atol=1e-5, rtol=0)


def test_the_temperature_goes_by_the_position_not_by_the_row() -> None:
    model = random_model()
    tokens = torch.arange(6).unsqueeze(0)
    layer = model.model.layers[1].self_attn  # type: ignore[union-attr,index]  # a model of the library
    assert isinstance(layer, nn.Module)
    plain: nn.Module = layer.q_proj  # type: ignore[assignment]  # a module types its attributes otherwise
    temper_queries(model)
    seen: list[Tensor] = []
    layer.q_proj.register_forward_hook(lambda _, inputs, out: seen.append(out / plain(inputs[0])))  # type: ignore[union-attr]  # a module

    logits_of(model, tokens, torch.tensor([[0, EVERY - 2, EVERY - 1, 4 * EVERY - 2, 4 * EVERY - 1, 0]]))

    times = torch.tensor([0.0, 0.0, 1.0, 3.0, 4.0, 0.0])
    expected = (torch.log1p(times) * 0.7 + 1).unsqueeze(-1).expand(6, 32)
    torch.testing.assert_close(seen[0][0], expected)


def test_layers_with_rotary_and_models_without_temperature_stay_as_they_are() -> None:
    tempered, plain = random_model(), random_model(attn_temperature_tuning=False)

    temper_queries(tempered)
    temper_queries(plain)

    def kinds(model: nn.Module) -> list[str]:
        return [type(layer.self_attn.q_proj).__name__ for layer in model.model.layers]  # type: ignore[union-attr]

    assert kinds(tempered) == ["Linear", "Tempered"]
    assert kinds(plain) == ["Linear", "Linear"]
