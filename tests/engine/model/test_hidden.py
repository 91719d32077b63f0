from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedConfig

from engine.model.hidden import HiddenStates, decoder_of
from engine.step import Chunk, Plan, Pool, Table, Ticket
from tests.models.architectures import ARCHITECTURES, EXPERTS, OTHERS, VARIANTS, make_model
from tests.models.recurrent import RECURRENT

CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = ARCHITECTURES | VARIANTS | OTHERS | EXPERTS | RECURRENT
SCALED = {"minicpm3": 4.0}  # what its own code multiplies the states with on their way to the head
TOKENS = (5, 6, 7, 8)


@pytest.mark.parametrize("name", CONFIGS)
def test_hidden_states_are_what_the_head_is_given(name: str) -> None:
    model = make_model(CONFIGS[name]())
    hidden = HiddenStates(model)
    given: list[torch.Tensor] = []
    head = model.get_output_embeddings()
    assert head is not None
    head.register_forward_pre_hook(lambda _head, inputs: given.append(inputs[0]))

    with torch.inference_mode():
        model(input_ids=torch.tensor([TOKENS]), use_cache=False)

    plan = Plan(1, (Chunk(Ticket("s", 0, 0, 0, (Table(()),)), TOKENS, pool=Pool(1)),))
    assert torch.equal(hidden.of(plan) * SCALED.get(name, 1.0), given[0][0, 1:])


def test_the_decoder_is_found_where_the_model_does_not_name_it() -> None:
    model = make_model(OTHERS["llama4"]())

    assert model.get_decoder() is model
    assert type(decoder_of(model)).__name__ == "Llama4TextModel"
