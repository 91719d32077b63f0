from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, Phi3Config, PreTrainedConfig, PreTrainedModel

from engine.errors import ModelUnsupported
from engine.model.rotary import freeze_rotary
from tests.models.architectures import make_model, plain_logits

TRAINED = 32
SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
    "pad_token_id": 0,
}
TOKENS = [3 + at % 50 for at in range(60)]


def longrope() -> PreTrainedConfig:
    parameters = {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "short_factor": [1.0] * 16,
        "long_factor": [4.0] * 16,
        "original_max_position_embeddings": TRAINED,
        "factor": 4.0,
    }
    return Phi3Config(**SIZES, max_position_embeddings=4 * TRAINED, rope_parameters=parameters)


def dynamic() -> PreTrainedConfig:
    parameters = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    return LlamaConfig(**SIZES, max_position_embeddings=64, rope_parameters=parameters)


def frozen(config: PreTrainedConfig, context_length: int) -> PreTrainedModel:
    model = make_model(config)
    freeze_rotary(model, context_length)
    return model


def test_a_long_context_has_the_long_factors_for_every_sequence() -> None:
    whole = plain_logits(make_model(longrope()), TOKENS)

    model = frozen(longrope(), 4 * TRAINED)

    torch.testing.assert_close(plain_logits(model, TOKENS), whole)
    torch.testing.assert_close(plain_logits(model, TOKENS[:20]), whole[:20])


def test_a_context_no_longer_than_the_trained_one_has_the_short_factors() -> None:
    expected = plain_logits(make_model(longrope()), TOKENS[:20])

    model = frozen(longrope(), TRAINED)

    torch.testing.assert_close(plain_logits(model, TOKENS[:20]), expected)
    torch.testing.assert_close(plain_logits(model, TOKENS)[:20], expected)


def test_dynamic_factors_within_the_model_s_context_are_the_plain_ones() -> None:
    expected = plain_logits(make_model(dynamic()), TOKENS)

    torch.testing.assert_close(plain_logits(frozen(dynamic(), 64), TOKENS), expected)


def test_factors_that_vary_by_layer_and_batch_are_refused() -> None:
    class Mixed(nn.Module):
        rope_type = {"full_attention": "longrope", "sliding_attention": "default"}  # noqa: RUF012  # as transformers'

        def forward(self, inputs: Tensor) -> Tensor:
            return inputs

    with pytest.raises(ModelUnsupported, match="Mixed mixes rotary types"):
        freeze_rotary(nn.Sequential(Mixed()), 64)


def test_other_models_are_left_alone() -> None:
    model = make_model(LlamaConfig(**SIZES))
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}

    freeze_rotary(model, 64)

    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
