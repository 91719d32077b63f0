from dataclasses import replace

import pytest

from engine.errors import (
    CacheTooLarge,
    CacheTooSmall,
    EngineError,
    ModelNotFound,
    SettingUnusable,
    StatesTooLarge,
)
from engine.survey import ModelSurvey
from server.doctor.findings import Finding, Grade
from server.doctor.port import PortState
from server.doctor.serving import advice_on, keys, model, no_model, not_fetched, port, refused, store, traces
from server.doctor.store import StoreState
from tests.server.doctor.machines import GIB, settings

SURVEY = ModelSurvey(
    path="x.gguf",
    file_bytes=GIB,
    architecture="LlamaForCausalLM",
    stored_as="Q4_1",
    runs_on="straight-line decoder, avx2",
    context_length=2048,
    model_context_length=2048,
    weight_bytes=GIB,
    cache_bytes=GIB,
)


def judged(
    found: ModelSurvey = SURVEY, free: int | None = 8 * GIB, **sections: dict[str, object]
) -> dict[str, Finding]:
    return {each.topic: each for each in model(found, settings("x.gguf", **sections), free)}


@pytest.mark.parametrize(
    ("state", "grade", "words"),
    [
        (PortState(), Grade.OK, "127.0.0.1:8000 is free"),
        (PortState("Address already in use", "0.1.0"), Grade.NOTE, "Tidemark 0.1.0 answers at 127.0.0.1:8000"),
        (PortState("Address already in use"), Grade.FAULT, "can't be listened on: Address already in use"),
    ],
)
def test_a_port_that_another_program_has_prevents_serving(state: PortState, grade: Grade, words: str) -> None:
    finding = port(state, settings())

    assert (finding.grade, words in finding.text) == (grade, True)


def test_any_free_port_is_always_there() -> None:
    assert port(PortState("whatever"), settings(server={"port": 0})).grade is Grade.OK


@pytest.mark.parametrize(
    ("server", "warns"),
    [
        ({}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "0.0.0.0", "api_keys": ("key",)}, False),
    ],
)
def test_a_server_that_others_reach_without_a_key_is_warned_of(server: dict[str, object], warns: bool) -> None:
    assert [each.grade for each in keys(settings(server=server))] == [Grade.WARNING] * warns


def test_a_model_that_fits_has_nothing_to_change() -> None:
    found = judged()

    assert {each.grade for each in found.values()} == {Grade.OK}
    assert found["model"].text == "x.gguf: LlamaForCausalLM, Q4_1, 1.0 GiB"
    assert found["all together"].text == "about 2.5 GiB at full load, of 8.0 GiB that may be taken"


@pytest.mark.parametrize(
    ("free", "grade"),
    [(8 * GIB, Grade.OK), (5 * GIB // 2, Grade.WARNING), (GIB // 2, Grade.FAULT), (None, Grade.OK)],
)
def test_weights_and_cache_are_held_against_the_memory(free: int | None, grade: Grade) -> None:
    assert judged(free=free)["all together"].grade is grade


def test_a_context_that_the_cache_cuts_short_is_noted() -> None:
    finding = judged(replace(SURVEY, context_length=512))["context"]

    assert (finding.grade, finding.text) == (Grade.NOTE, "512 positions, of 2048 that the model has")


def test_weights_in_bits_that_were_asked_for_say_so() -> None:
    assert judged(model={"weights": "int8"})["weights"].text == "about 1.0 GiB in memory, as int8"


def test_a_model_on_torch_is_warned_of_unless_that_was_asked_for() -> None:
    slow = replace(SURVEY, runs_on="modules of transformers, torch")

    assert judged(slow)["runs on"].grade is Grade.WARNING
    assert judged(slow, model={"kernels": "torch"})["runs on"].grade is Grade.OK


def test_a_model_that_is_refused_prevents_serving_and_one_that_is_elsewhere_does_not() -> None:
    assert next(refused("x", "bloom can't be served")).grade is Grade.FAULT
    assert next(not_fetched("org/x")).grade is Grade.NOTE
    assert next(no_model()).grade is Grade.NOTE


SMALL = CacheTooSmall(cache_bytes=1, block_bytes=1, min_blocks=4)
LARGE = CacheTooLarge(cache_bytes=2, free_bytes=1)


@pytest.mark.parametrize(
    ("error", "cache", "words"),
    [
        (SMALL, {"num_blocks": 1}, "Raise --num-blocks"),
        (SMALL, {}, "Raise --cache-memory"),
        (LARGE, {"memory_bytes": "900GiB"}, "Lower --cache-memory"),
        (LARGE, {"num_blocks": 10_000}, "Lower --num-blocks"),
        (StatesTooLarge(num_slots=1, slot_bytes=2, cache_bytes=1), {}, "lower --max-sequences"),
        (SettingUnusable("", setting="model.chat_template"), {}, "--chat-template"),
        (SettingUnusable("", setting="cache.dtype"), {}, "--cache-dtype"),
        (ModelNotFound(""), {}, "another model"),
    ],
)
def test_the_advice_names_the_flag_that_is_at_fault(error: EngineError, cache: dict[str, object], words: str) -> None:
    assert words in advice_on(error, settings("x.gguf", cache=cache))


def test_a_store_and_traces_that_are_to_be_had_are_told() -> None:
    asked = settings(server={"store_path": "kept"})

    assert store(StoreState(), asked, beside=False) == Finding("store", "responses are kept in kept")
    assert traces(None).grade is Grade.OK
