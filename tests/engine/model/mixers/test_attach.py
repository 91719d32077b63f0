from typing import Any

import pytest
from transformers import FalconMambaConfig, JambaConfig, LlamaConfig, MambaConfig, PreTrainedConfig

from engine.cache.layout import Layout
from engine.cache.mixers import read_states
from engine.cache.states import StateStorage
from engine.errors import ModelUnsupported
from engine.model import scans
from engine.model.mixers.attach import attach_mixers, normed_widths
from engine.model.recurrence import Recurrence
from tests.models.architectures import ARCHITECTURES, make_model
from tests.models.recurrent import RECURRENT

SMALL: dict[str, Any] = {"vocab_size": 32, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}


def recurrence_of(config: PreTrainedConfig) -> Recurrence:
    return Recurrence(StateStorage(Layout((), read_states(config)), num_slots=1), scans)


@pytest.mark.parametrize("name", RECURRENT)
def test_parameters_stay_where_they_are(name: str) -> None:
    model = make_model(RECURRENT[name]())
    before = {key: parameter.data_ptr() for key, parameter in model.named_parameters()}

    attach_mixers(model, recurrence_of(model.config))

    assert {key: parameter.data_ptr() for key, parameter in model.named_parameters()} == before


def test_a_model_of_attention_alone_stays_as_it_is() -> None:
    model = make_model(ARCHITECTURES["llama"]())
    recurrence = recurrence_of(model.config)

    attach_mixers(model, recurrence)

    assert recurrence.calls == {}
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_mixer_for_which_no_state_is_kept_is_refused() -> None:
    with pytest.raises(ModelUnsupported, match=r"layers \[\] keep states, and layers \[0, 1\] have mixers"):
        attach_mixers(make_model(MambaConfig(**SMALL)), recurrence_of(LlamaConfig()))


def test_an_activation_that_the_scans_lack_is_refused_with_its_layer() -> None:
    model = make_model(MambaConfig(**SMALL, hidden_act="relu"))

    with pytest.raises(ModelUnsupported, match="layer 0 has relu behind its convolution, and only silu is run there"):
        attach_mixers(model, recurrence_of(model.config))


def test_what_mixers_norm_is_told_by_its_width() -> None:
    jamba = JambaConfig(
        **{name: size for name, size in SMALL.items() if name != "state_size"},
        num_attention_heads=2,
        num_key_value_heads=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        mamba_d_state=12,
        num_experts=1,
    )

    assert normed_widths(make_model(jamba)) == {12}
    assert normed_widths(make_model(FalconMambaConfig(**SMALL))) == {8}
    assert normed_widths(make_model(MambaConfig(**SMALL))) == set()
