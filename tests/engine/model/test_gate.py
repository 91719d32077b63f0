from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers import BloomConfig, GPTNeoConfig, JambaConfig, LlamaConfig, Phi3Config, PreTrainedConfig
from transformers.models.llama import modeling_llama

from engine.errors import ModelUnsupported
from engine.model.gate import check_structure
from tests.models.architectures import ARCHITECTURES


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_that_is_served_passes(name: str) -> None:
    check_structure(ARCHITECTURES[name]())


def test_a_config_of_full_size_is_tried_small() -> None:
    check_structure(LlamaConfig(num_hidden_layers=80, hidden_size=8192, num_attention_heads=64, num_key_value_heads=8))


def test_a_model_that_goes_past_our_attention_is_refused() -> None:
    with pytest.raises(ModelUnsupported, match=r"gpt_neo can't be served: .*called our attention \[0, 0\] times"):
        check_structure(GPTNeoConfig(attention_types=[[["global"], 2]], num_layers=2))


def test_what_a_small_copy_raises_is_the_reason() -> None:
    with pytest.raises(ModelUnsupported, match="phi3 can't be served: a small copy failed with"):
        check_structure(Phi3Config(hidden_act="nonsense"))


@pytest.mark.parametrize("config", [BloomConfig(), JambaConfig()])
def test_a_model_with_another_kind_of_state_is_refused(config: PreTrainedConfig) -> None:
    with pytest.raises(ModelUnsupported):
        check_structure(config)


def faulty_llama(monkeypatch: pytest.MonkeyPatch, fault: Callable[[Tensor], Tensor]) -> None:
    """Have every feed-forward layer of a Llama change its input [1, rows, width] first."""
    plain: Callable[[LlamaConfig], nn.Module] = modeling_llama.LlamaMLP

    class Faulty(nn.Module):
        def __init__(self, config: LlamaConfig) -> None:
            super().__init__()
            self.plain = plain(config)

        def forward(self, inputs: Tensor) -> Tensor:
            outputs: Tensor = self.plain(fault(inputs))
            return outputs

    monkeypatch.setattr(modeling_llama, "LlamaMLP", Faulty)


def test_a_layer_that_mixes_its_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty_llama(monkeypatch, lambda inputs: inputs + inputs.roll(1, dims=1))

    with pytest.raises(ModelUnsupported, match="llama can't be served"):
        check_structure(LlamaConfig())


def test_a_layer_that_looks_at_the_size_of_the_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty_llama(monkeypatch, lambda inputs: inputs * (1 + 1e-6 * (inputs.shape[1] > 160)))

    with pytest.raises(ModelUnsupported, match="two sequences in one batch"):
        check_structure(LlamaConfig())


def test_a_layer_that_looks_at_the_length_of_a_chunk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty_llama(monkeypatch, lambda inputs: inputs * (1 + 1e-6 * (inputs.shape[1] < 30)))

    with pytest.raises(ModelUnsupported, match="cut into chunks"):
        check_structure(LlamaConfig())


def test_the_caller_s_random_numbers_and_threads_are_left_alone() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)

    check_structure(LlamaConfig())

    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == 2
