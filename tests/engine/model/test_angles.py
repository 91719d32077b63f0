import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig

from engine.errors import ModelUnsupported
from engine.model.angles import find_rotary, make_angles
from engine.model.kernels.native import Rotary
from engine.model.structure import RotaryData
from tests.models.architectures import ARCHITECTURES, MAX_CONTEXT, VARIANTS, make_model

HALF = RotaryData(Rotary.HALF, 16, None)


def angles_of(name: str, data: RotaryData, *, context_length: int = MAX_CONTEXT) -> tuple[Tensor, Tensor]:
    model = make_model((ARCHITECTURES | VARIANTS)[name]())
    rotary = find_rotary(model)
    assert rotary is not None
    angles = make_angles(rotary, model.config, data, context_length=context_length)
    return angles.cos, angles.sin


def plain(frequencies: Tensor, count: int = MAX_CONTEXT) -> Tensor:
    return torch.arange(count)[:, None] * frequencies


def test_every_position_of_the_context_has_an_angle_for_each_pair() -> None:
    cos, sin = angles_of("llama", HALF, context_length=100)

    expected = plain(10_000.0 ** (-torch.arange(0, 16, 2) / 16), 100)
    assert (cos.shape, cos.dtype, cos.is_contiguous()) == ((100, 8), torch.float32, True)
    torch.testing.assert_close(cos, expected.cos())
    torch.testing.assert_close(sin, expected.sin())


def test_a_longer_context_than_there_is_room_for_takes_no_memory() -> None:
    model = make_model(ARCHITECTURES["llama"]())
    rotary = find_rotary(model)
    assert rotary is not None

    few = make_angles(rotary, model.config, HALF, context_length=1 << 62, num_positions=10)
    all_ = make_angles(rotary, model.config, HALF, context_length=8, num_positions=10)

    assert (len(few.cos), len(few.sin), len(all_.cos)) == (10, 10, 8)
    torch.testing.assert_close(few.cos[:8], all_.cos)


def test_neighbours_that_turn_together_have_one_angle() -> None:
    cos, _ = angles_of("cohere", RotaryData(Rotary.INTERLEAVED, 16, None))

    torch.testing.assert_close(cos, plain(500_000.0 ** (-torch.arange(0, 16, 2) / 16)).cos())


def test_a_part_of_a_head_has_angles_of_its_own_number() -> None:
    cos, _ = angles_of("gpt-neox", RotaryData(Rotary.HALF, 8, None))

    torch.testing.assert_close(cos, plain(10_000.0 ** (-torch.arange(0, 8, 2) / 8)).cos())


def test_types_of_layers_have_their_own_angles() -> None:
    windowed, _ = angles_of("gemma3", RotaryData(Rotary.HALF, 32, "sliding_attention"))
    full, _ = angles_of("gemma3", RotaryData(Rotary.HALF, 32, "full_attention"))

    assert windowed.shape == full.shape
    assert not torch.equal(windowed, full)


@pytest.mark.parametrize(("context_length", "factor"), [(64, 1.0), (MAX_CONTEXT, 4.0)])
def test_longrope_takes_the_factors_of_the_context_that_is_served(context_length: int, factor: float) -> None:
    cos, sin = angles_of("phi3-longrope", HALF, context_length=context_length)

    turned = torch.atan2(sin, cos)[1] * factor
    torch.testing.assert_close(turned, 10_000.0 ** (-torch.arange(0, 16, 2) / 16))


def test_a_scale_of_the_attention_is_in_the_angles() -> None:
    cos, sin = angles_of("llama-yarn", HALF)

    assert (cos**2 + sin**2 - 1).abs().max() > 0.01


def test_a_model_without_a_rotary_module_has_none() -> None:
    assert find_rotary(make_model(ARCHITECTURES["gpt2"]())) is None


def test_two_kinds_of_rotary_modules_are_none_that_is_known() -> None:
    class Other(nn.Module):
        rope_type = "default"

    model = nn.ModuleList([make_model(ARCHITECTURES["llama"]()), Other()])

    assert find_rotary(model) is None


def test_another_number_of_angles_is_refused_with_the_numbers() -> None:
    with pytest.raises(ModelUnsupported, match="gives 16 angles for 12 values of a head"):
        angles_of("llama", RotaryData(Rotary.HALF, 12, None))


def test_a_module_that_gives_each_pair_once_is_taken_as_it_is() -> None:
    class Once(nn.Module):
        def __init__(self, config: LlamaConfig) -> None:
            super().__init__()

        def forward(self, _: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
            turned = positions[..., None] * torch.tensor([1.0, 0.5])
            return turned.cos(), turned.sin()

    cos = make_angles(Once, LlamaConfig(), RotaryData(Rotary.HALF, 4, None), context_length=3).cos

    torch.testing.assert_close(cos, (torch.arange(3.0)[:, None] * torch.tensor([1.0, 0.5])).cos())
