"""Files whose layers hold their matrices in different bits, as many GGUF files do."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.model.angles import find_rotary, make_angles
from engine.model.encoding import Encoded, encode
from engine.model.kernels.choice import Kernels
from engine.model.kernels.native import Kind, Level
from engine.model.module_weights import ModuleWeights
from engine.model.native_forward import NativeForward
from engine.model.precision import Precision, encode_as
from engine.model.recognise import recognise
from tests.models.architectures import ARCHITECTURES, EXPERTS, VARIANTS, make_model, plain_logits
from tests.models.case import NUM_BLOCKS, Case, random_sequences, same_bits
from tests.models.support import CONTEXT, every_kernels, make_lanes

CONFIGS = ARCHITECTURES | VARIANTS | EXPERTS
SEQUENCES = random_sequences((70, 33))
Bits = Mapping[
    str, Precision | None
]  # of the parameters that a name is part of; None is float16, which can't be asked for
MIXTURES: dict[str, Bits] = {
    "values-finer": {"v_proj": "int8", "proj": "int4"},
    "queries-coarser": {"q_proj": "int4", "up_proj": "int4", "proj": "bfloat16"},
    "values-whole": {"v_proj": "float32", "up_proj": "float32", "proj": "int4"},
    "queries-whole": {"q_proj": "float32", "gate_proj": "float32", "proj": "int4"},
    "down-whole": {"down_proj": "float32", "o_proj": "float32", "proj": "int8"},
    "finer-experts": {"experts": "int8", "proj": "int4"},
    "halves": {"k_proj": None, "up_proj": None, "proj": "bfloat16"},
    "head-coarser": {"lm_head": "int4", "embed": "int8"},
    "head-whole": {"lm_head": "float32", "proj": "int8", "embed": "bfloat16"},
}


def in_bits(name: str, matrix: Encoded, bits: Bits) -> Encoded:
    whole: Precision = "float32"
    precision = next((each for part, each in bits.items() if part in name), whole)
    return encode(matrix.dense().half()) if precision is None else encode_as(matrix, precision)


def decoded(name: str, matrix: Tensor, bits: Bits, level: Level) -> Tensor:
    """What is multiplied with: tiles take float16 as bfloat16 has it; among float32 experts all are float32."""
    encoded = in_bits(name, encode(matrix), bits)
    rounded = encoded.kind is Kind.F16 and level is Level.AMX and "experts" not in name
    return encoded.dense().bfloat16().float() if rounded else encoded.dense()


class Mixed(ModuleWeights):
    """A module's parameters, each in bits of its own."""

    def __init__(self, model: nn.Module, bits: Bits) -> None:
        super().__init__(model)
        self._bits = bits

    def encoded(self, name: str) -> Encoded:
        return in_bits(name, super().encoded(name), self._bits)

    def experts(self, name: str) -> tuple[Encoded, ...]:
        """Every other expert as it is."""
        found = super().experts(name)
        return tuple(matrix if index % 2 else in_bits(name, matrix, self._bits) for index, matrix in enumerate(found))


def make_mixed(model: PreTrainedModel, bits: Bits, kernels: Kernels) -> NativeForward:
    source = Mixed(model, bits)
    structure = recognise(model.config, source.names())
    rotary = find_rotary(model)
    assert structure is not None
    assert rotary is not None
    with torch.inference_mode():
        return NativeForward(
            structure,
            source,
            make_lanes(model.config, "float32", num_blocks=NUM_BLOCKS, block_size=16),
            kernels=kernels,
            max_rows=256,
            num_threads=2,
            angles=lambda data: make_angles(rotary, model.config, data, context_length=CONTEXT),
            reencode=lambda matrix: matrix,
        )


@pytest.mark.parametrize("kernels", every_kernels(), ids=str)
@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("name", ["llama", "llama-odd", "mixtral"])
def test_matrices_of_one_layer_may_be_held_in_different_bits(name: str, mixture: str, kernels: Kernels) -> None:
    bits = MIXTURES[mixture]
    forward = make_mixed(make_model(CONFIGS[name]()), bits, kernels)
    case = Case(forward, SEQUENCES)

    alone, batched = case.alone(), case.batched()

    plain = plain_of(make_model(CONFIGS[name]()), bits, kernels.level)
    worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(alone, plain, strict=True))
    assert worst < 1e-4
    assert same_bits(batched, alone)
    forward.close()


def plain_of(model: PreTrainedModel, bits: Bits, level: Level) -> list[Tensor]:
    """What plain `transformers` says with the matrices as they are decoded."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                parameter.copy_(decoded(name, parameter, bits, level))
            for index in range(0, len(parameter) if parameter.ndim == 3 else 0, 2):
                parameter[index] = decoded(name, parameter[index], bits, level)
    return [plain_logits(model, tokens) for tokens in SEQUENCES]
