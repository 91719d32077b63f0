import pytest
from transformers import LlamaConfig

from benchmarks.cache.published import published
from benchmarks.cache.room import BLOCK_SIZE, judgement, longest, room_of, room_text, sequence_bytes

MODELS = published()


def test_a_sequence_takes_whole_blocks_in_every_layer_that_sees_all() -> None:
    room = room_of("a", MODELS["SmolLM2 135M"])

    assert sequence_bytes(room.half, 100) == 112 * 30 * 3 * 2 * 64 * 2
    assert sequence_bytes(room.small, 100) == 112 * 30 * 3 * 2 * (64 + 4)
    assert room.plain_share == 1


def test_windows_take_no_more_of_a_longer_sequence() -> None:
    half = room_of("a", MODELS["Gemma 3 1B"]).half

    grown = sequence_bytes(half, 20_000) - sequence_bytes(half, 10_000)

    assert grown == 10_000 * 4 * 2 * 256 * 2


def test_latent_rows_are_compared_with_whole_heads() -> None:
    room = room_of("a", MODELS["DeepSeek-V2-Lite"])

    assert room.plain_share == pytest.approx(576 / (16 * (192 + 128)))


def test_layers_that_read_anothers_rows_are_compared_with_rows_of_their_own() -> None:
    room = room_of("a", MODELS["Gemma 3n E2B"])

    assert sequence_bytes(room.plain, BLOCK_SIZE) == BLOCK_SIZE * 30 * 2 * 2 * 256 * 2


def test_a_state_is_taken_once_whatever_the_length() -> None:
    half = room_of("a", MODELS["Mamba-2 130M"]).half

    assert sequence_bytes(half, 1) == sequence_bytes(half, 10_000) == 24 * (24 * 64 * 128 + 3 * 1792) * 4
    assert longest(half, 1 << 30) is None


def test_the_longest_sequence_fills_the_memory_but_for_its_state() -> None:
    half = room_of("a", MODELS["Falcon-H1 0.5B"]).half

    positions = longest(half, 1 << 30)

    assert positions is not None
    assert sequence_bytes(half, positions) <= 1 << 30 < sequence_bytes(half, positions + 1)


def test_models_whose_int8_blocks_are_too_large_are_counted() -> None:
    narrow = LlamaConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)

    text = judgement([room_of("narrow", narrow), room_of("wide", MODELS["Gemma 3 1B"])])

    assert text.endswith("for 1 of 2 models.")


def test_a_model_without_rows_has_no_figure_of_them() -> None:
    text = room_text({"m": MODELS["Mamba-2 130M"]})

    assert "| 18.5 | 18.5 | - | any | any | - | 0.0% |" in text
    assert text.endswith("for 0 of 0 models.")
