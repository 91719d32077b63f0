import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BloomConfig,
    DeepseekV3Config,
    Gemma3TextConfig,
    GPTNeoConfig,
    LlamaConfig,
    MambaConfig,
    MiniMaxConfig,
    Phi3Config,
    PhimoeConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Starcoder2Config,
)
from transformers.models.llama import modeling_llama
from transformers.models.mamba import modeling_mamba

from engine.errors import ModelUnsupported
from engine.model import gate
from engine.model.batch import Span
from engine.model.gate import Path, Verdict, check_structure
from engine.model.kernels.choice import Kernels
from engine.model.kernels.native import Activation, Library
from engine.model.mixers.attach import MIXERS
from engine.model.native_forward import NativeForward
from engine.model.packed_forward import PackedForward
from engine.model.recognise import ACTIVATIONS, recognise
from engine.model.recurrence import Recurrence
from engine.model.shrink import shrink_config
from engine.model.structure import Structure
from engine.step import Chunk, Plan
from tests.models.architectures import ARCHITECTURES, EXPERTS, OTHERS, VARIANTS
from tests.models.recurrent import RECURRENT
from tests.models.support import every_kernels

FASTEST = every_kernels()[-1]
SPLIT = 256  # positions that the kernels attend to at once
STRAIGHT, MODULES = Path(straight=True, kernels=FASTEST), Path(straight=False, kernels=FASTEST)
ON_TORCH = Path(straight=False, kernels=None)


@pytest.mark.parametrize("name", [*ARCHITECTURES, *OTHERS, *EXPERTS])
def test_an_architecture_that_torch_serves_passes(name: str) -> None:
    assert check_structure((ARCHITECTURES | OTHERS | EXPERTS)[name](), None) == Verdict(ON_TORCH)


@pytest.mark.parametrize("kernels", every_kernels(), ids=str)
@pytest.mark.parametrize("name", [*ARCHITECTURES, *VARIANTS, *EXPERTS])
def test_an_architecture_that_is_described_passes_straight(name: str, kernels: Kernels) -> None:
    verdict = check_structure((ARCHITECTURES | VARIANTS | EXPERTS)[name](), kernels)

    assert verdict.path == Path(straight=True, kernels=kernels)
    assert verdict.faults == ()
    assert (verdict.rotary is None) == (name == "gpt2")


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_described_passes_as_modules_and_it_is_said_why(name: str) -> None:
    verdict = check_structure(OTHERS[name](), FASTEST)

    assert verdict.path == MODULES
    assert verdict.faults == (f"{STRAIGHT}: its structure is not one of those described",)


@pytest.mark.parametrize("kernels", [None, FASTEST])
@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_model_passes_as_modules(name: str, kernels: Kernels | None) -> None:
    assert check_structure(RECURRENT[name](), kernels).path == Path(straight=False, kernels=kernels)


def test_a_recurrent_module_that_is_not_ours_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(MIXERS, "MambaMixer")

    with pytest.raises(
        ModelUnsupported, match=r"layers \[0, 1\] keep states, and layers \[\] have mixers that are known"
    ):
        check_structure(MambaConfig(), None)


def test_a_recurrent_module_that_is_passed_by_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_mamba.MambaBlock, "forward", lambda _, hidden_states, **__: hidden_states)

    with pytest.raises(ModelUnsupported, match=r"mamba can't be served: .*called our mixers \[0, 0\] times"):
        check_structure(MambaConfig(), None)


def test_a_state_that_is_not_carried_from_chunk_to_chunk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Recurrence.begin

    def forgetful(self: Recurrence, spans: Sequence[Span]) -> None:
        plain(self, [replace(span, states=replace(span.states, source=None)) for span in spans if span.states])

    monkeypatch.setattr(Recurrence, "begin", forgetful)

    with pytest.raises(ModelUnsupported, match=r"mamba can't be served: .*depend on how a prompt is cut into chunks"):
        check_structure(MambaConfig(), None)


def test_a_config_of_full_size_is_tried_small() -> None:
    config = LlamaConfig(num_hidden_layers=80, hidden_size=8192, num_attention_heads=64, num_key_value_heads=8)

    assert check_structure(config, None).path == ON_TORCH
    assert check_structure(config, FASTEST).path == STRAIGHT


@pytest.mark.parametrize("kernels", [None, FASTEST])
def test_a_model_that_goes_past_our_attention_is_refused(kernels: Kernels | None) -> None:
    with pytest.raises(ModelUnsupported, match=r"gpt_neo can't be served: .*called our attention \[0, 0\] times"):
        check_structure(GPTNeoConfig(attention_types=[[["global"], 2]], num_layers=2), kernels)


def test_a_reference_that_is_wrong_once_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = gate._plain_logits
    calls: list[list[int]] = []

    def wrong_at_first(model: PreTrainedModel, tokens: list[int]) -> Tensor:
        calls.append(tokens)
        return plain(model, tokens) * (1.01 if len(calls) <= 2 else 1.0)

    monkeypatch.setattr(gate, "_plain_logits", wrong_at_first)

    assert not check_structure(LlamaConfig(), None).faults
    assert len(calls) == 4


def test_what_a_small_copy_raises_is_the_reason() -> None:
    with pytest.raises(ModelUnsupported, match="phi3 can't be served: a small copy failed with"):
        check_structure(Phi3Config(hidden_act="nonsense"), None)


def test_a_small_copy_that_can_not_be_made_again_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, made = gate._random_model, []

    def once(config: PreTrainedConfig) -> PreTrainedModel:
        made.append(config)
        if len(made) > 1:
            raise KeyError("tidemark")
        return plain(config)

    monkeypatch.setattr(gate, "_random_model", once)

    with pytest.raises(
        ModelUnsupported, match=r"bloom can't be served: a small copy failed with KeyError\('tidemark'\)"
    ):
        check_structure(BloomConfig(), FASTEST)


def test_what_is_stored_beside_parameters_is_random_too() -> None:
    model = gate._random_model(shrink_config(DeepseekV3Config()))
    [bias] = [buffer for name, buffer in model.named_buffers() if "e_score_correction_bias" in name]

    assert bool(bias.all())


def test_a_kind_of_layers_that_a_model_has_no_word_for_is_the_reason() -> None:
    config = Gemma3TextConfig(num_hidden_layers=2, layer_types=["full_attention", "chunked_attention"])

    with pytest.raises(
        ModelUnsupported, match=r"gemma3_text can't be served: its layers of type chunked_attention are"
    ):
        check_structure(config, None)


@pytest.mark.parametrize("config", [BloomConfig(), MiniMaxConfig(num_hidden_layers=2)])
@pytest.mark.parametrize("kernels", [None, FASTEST])
def test_a_model_with_another_kind_of_state_is_refused(config: PreTrainedConfig, kernels: Kernels | None) -> None:
    with pytest.raises(ModelUnsupported):
        check_structure(config, kernels)


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
        check_structure(LlamaConfig(), None)


def test_a_layer_that_looks_at_the_size_of_the_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty_llama(monkeypatch, lambda inputs: inputs * (1 + 1e-6 * (inputs.shape[1] > 300)))

    with pytest.raises(ModelUnsupported, match="two sequences in one batch"):
        check_structure(LlamaConfig(), None)


@pytest.mark.parametrize("kernels", [None, FASTEST])
def test_a_layer_that_looks_at_the_length_of_a_chunk_is_refused(
    monkeypatch: pytest.MonkeyPatch, kernels: Kernels | None
) -> None:
    faulty_llama(monkeypatch, lambda inputs: inputs * (1 + 1e-6 * (inputs.shape[1] < 30)))

    with pytest.raises(ModelUnsupported, match="cut into chunks"):
        check_structure(LlamaConfig(), kernels)


def test_a_model_that_departs_from_its_description_is_not_run_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTIVATIONS, "relu", Activation.SILU)

    verdict = check_structure(LlamaConfig(hidden_act="relu"), FASTEST)

    assert verdict.path == MODULES
    assert "its logits differ from plain attention's by up to" in verdict.faults[0]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda plan: len(plan.chunks) == 2, "two sequences in one batch change each other's logits"),
        (lambda plan: plan.num_positions == 90, "its logits depend on how a prompt is cut into chunks"),
    ],
)
def test_kernels_whose_answers_depend_on_the_company_are_not_used(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[..., bool], reason: str
) -> None:
    plain = NativeForward.run
    monkeypatch.setattr(NativeForward, "run", lambda self, plan: plain(self, plan) * (1 + 1e-6 * fault(plan)))

    verdict = check_structure(LlamaConfig(), FASTEST)

    assert verdict.path == MODULES
    assert verdict.faults == (f"{STRAIGHT}: {reason}",)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda chunk, at: 0.01 * (at >= SPLIT), "its logits differ from plain attention's"),
        (lambda chunk, at: 1e-6 * (0 < chunk.ticket.base < SPLIT <= at), "how a prompt is cut into chunks"),
        (lambda chunk, at: 1e-6 * (at >= SPLIT and len(chunk.tokens) == 1), "how a prompt is cut into chunks"),
    ],
)
def test_kernels_that_are_wrong_behind_a_split_of_the_context_are_not_used(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[Chunk, int], float], reason: str
) -> None:
    plain = NativeForward.run

    def broken(forward: NativeForward, plan: Plan) -> Tensor:
        rows = [(chunk, chunk.ticket.base + index) for chunk in plan.chunks for index in range(len(chunk.tokens))]
        return plain(forward, plan) * torch.tensor([[1 + fault(chunk, at)] for chunk, at in rows])

    monkeypatch.setattr(NativeForward, "run", broken)

    verdict = check_structure(LlamaConfig(), FASTEST)

    assert verdict.path == MODULES
    assert reason in verdict.faults[0]


def test_a_decoder_that_fails_on_a_small_copy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no memory")

    monkeypatch.setattr(NativeForward, "run", fail)

    verdict = check_structure(LlamaConfig(), FASTEST)

    assert verdict.path == MODULES
    assert verdict.faults == (f"{STRAIGHT}: a small copy failed with MemoryError('no memory')",)


def test_kernels_that_fail_on_both_paths_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Library, "run", lambda *_: 1 // 0)

    verdict = check_structure(LlamaConfig(), FASTEST)

    failed = "a small copy failed with ZeroDivisionError('integer division or modulo by zero')"
    assert verdict == Verdict(ON_TORCH, (f"{STRAIGHT}: {failed}", f"{MODULES}: {failed}"))


def test_kernels_that_answer_wrongly_on_both_paths_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for forward in (NativeForward, PackedForward):
        plain = forward.run
        monkeypatch.setattr(forward, "run", lambda self, plan, plain=plain: plain(self, plan) * 1.001)

    verdict = check_structure(LlamaConfig(), FASTEST)

    assert verdict.path == ON_TORCH
    assert all("its logits differ from plain attention's by up to" in fault for fault in verdict.faults)


def test_what_fails_on_every_path_is_refused_with_every_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty_llama(monkeypatch, lambda inputs: inputs + inputs.roll(1, dims=1))
    differ = r"its logits differ from plain attention's by up to [\d.]+"

    with pytest.raises(ModelUnsupported) as refused:
        check_structure(LlamaConfig(), FASTEST)

    reasons = rf"{STRAIGHT}: its structure is not .*; {MODULES}: {differ}; {ON_TORCH}: {differ}"
    assert re.fullmatch(f"llama can't be served: {reasons}", str(refused.value))


def test_experts_that_fail_on_the_kernels_run_on_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Library, "run", lambda *_: 1 // 0)

    verdict = check_structure(EXPERTS["mixtral"](), FASTEST)

    assert verdict.path == ON_TORCH
    assert all("ZeroDivision" in fault for fault in verdict.faults)


@pytest.mark.parametrize("config", [LlamaConfig(), Starcoder2Config(), OTHERS["stablelm-normed"]()])
@pytest.mark.parametrize("fails", [False, True])
def test_the_threads_of_every_trial_are_ended(
    monkeypatch: pytest.MonkeyPatch, config: PreTrainedConfig, fails: bool
) -> None:
    pools: list[int] = []
    opened, closed = Library.open_pool, Library.close_pool

    def open_pool(library: Library, num_threads: int) -> int:
        pools.append(opened(library, num_threads))
        return pools[-1]

    def close_pool(library: Library, pool: int) -> None:
        pools.remove(pool)
        closed(library, pool)

    monkeypatch.setattr(Library, "open_pool", open_pool)
    monkeypatch.setattr(Library, "close_pool", close_pool)
    if fails:
        monkeypatch.setattr(Library, "run", lambda *_: 1 // 0)

    verdict = check_structure(config, FASTEST)

    assert (verdict.path == ON_TORCH) == fails
    assert pools == []


def test_a_description_that_leaves_something_out_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_one_layer(config: PreTrainedConfig, names: frozenset[str]) -> Structure:
        structure = recognise(config, names)
        assert structure is not None
        return replace(structure, layers=structure.layers[:1])

    monkeypatch.setattr(gate, "recognise", with_one_layer)

    verdict = check_structure(LlamaConfig(), FASTEST)

    assert verdict.path == MODULES
    assert "its logits differ" in verdict.faults[0]


def test_the_caller_s_random_numbers_and_threads_are_left_alone() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)

    check_structure(LlamaConfig(), None)
    check_structure(LlamaConfig(), FASTEST)

    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("kernels", [FASTEST, None], ids=str)
def test_a_model_that_sees_farther_than_its_config_says_is_refused(kernels: Kernels | None) -> None:
    fields: dict[str, Any] = {"layer_types": ["sliding_attention", "full_attention"] * 16, "sliding_window": 8}
    config = LlamaConfig(**fields)

    with pytest.raises(ModelUnsupported, match="its logits differ from plain attention's"):
        check_structure(config, kernels)


def test_a_model_whose_masks_alone_have_its_windows_is_served() -> None:
    config = PhimoeConfig(num_hidden_layers=2, sliding_window=24)

    assert check_structure(config, FASTEST).path == MODULES
