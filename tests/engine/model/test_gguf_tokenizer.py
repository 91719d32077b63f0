import logging
from pathlib import Path

import pytest
from gguf import GGUFWriter, TokenType
from tokenizers import pre_tokenizers

from engine.model.tokenizer import TransformersTokenizer, load_tokenizer

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
CONTROL = ["<|end|>", "<|start|>", "<|turn|>"]


@pytest.fixture(scope="module")
def smollm(default_model: Path) -> TransformersTokenizer:
    return load(default_model)


def load(path: Path) -> TransformersTokenizer:
    tokenizer = load_tokenizer(str(path))
    assert isinstance(tokenizer, TransformersTokenizer)
    return tokenizer


def new_file(path: Path, *, model: str) -> GGUFWriter:
    """A model file with the keys that every one has, to be given a vocabulary and written."""
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(16)
    writer.add_feed_forward_length(16)
    writer.add_head_count(1)
    writer.add_tokenizer_model(model)
    return writer


def write(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def byte_level_file(path: Path, *, split: str, add_bos: bool | None = None) -> Path:
    """A byte-level BPE whose merges make `Ġa`, `Ġ1` and `12`; `ab` is a token that no merge makes."""
    writer = new_file(path, model="gpt2")
    writer.add_tokenizer_pre(split)
    tokens = [*CONTROL, *BYTES, "Ġa", "Ġ1", "12", "ab"]
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL] * len(CONTROL) + [TokenType.NORMAL] * (len(tokens) - len(CONTROL)))
    writer.add_token_merges(["Ġ a", "Ġ 1", "1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_eot_token_id(2)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    write(writer)
    return path


def sentencepiece_file(path: Path, *, space_prefix: bool) -> Path:
    writer = new_file(path, model="llama")
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a"]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.BYTE] * 256, *[TokenType.NORMAL] * 3]
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * (len(tokens) - 1) + [-1.0])
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(space_prefix)
    write(writer)
    return path


def pieces(tokenizer: TransformersTokenizer, text: str) -> list[str]:
    return [tokenizer.vocabulary.text_of(id_) for id_ in tokenizer.encode(text, add_special_tokens=True)]


# -- the default model ----------------------------------------------------------------------------


def test_the_default_model_splits_digits_from_what_is_before_them(smollm: TransformersTokenizer) -> None:
    assert pieces(smollm, "in 1984  42") == ["in", " ", "1", "9", "8", "4", "  ", "4", "2"]


def test_the_default_model_adds_no_bos_and_ends_at_the_end_of_a_turn(smollm: TransformersTokenizer) -> None:
    assert pieces(smollm, "<|im_start|>user") == ["<|im_start|>", "user"]
    assert smollm.bos_id == 1
    assert smollm.eos_ids == {2}
    assert smollm.vocabulary.size == 49152
    assert smollm.vocabulary.special_ids == set(range(17))


def test_the_default_models_template_writes_its_control_tokens(smollm: TransformersTokenizer) -> None:
    ids = smollm.encode_chat(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi<|im_end|>"}],
        add_generation_prompt=True,
        continue_final_message=False,
        template_kwargs={},
    )

    assert (ids.count(1), ids.count(2)) == (3, 2)
    assert smollm.vocabulary.decode(ids, skip_special=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|><|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("text", ["Repeat: 👋🏽 日本 ď", "x = {'a': 1}\n\n\t# çà", "  two  spaces  ", "\x00\x7f\ufffd"])
def test_the_default_models_text_survives_the_way_there_and_back(smollm: TransformersTokenizer, text: str) -> None:
    ids = smollm.encode(text, add_special_tokens=True)

    assert smollm.vocabulary.decode(ids, skip_special=False) == text


# -- what files say -------------------------------------------------------------------------------


def test_a_file_that_splits_digits_makes_each_a_token(tmp_path: Path) -> None:
    tokenizer = load(byte_level_file(tmp_path / "model.gguf", split="starcoder"))

    assert pieces(tokenizer, "b 12 a") == ["b", " ", "1", "2", " a"]


def test_a_file_that_splits_as_gpt2_keeps_numbers_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = load(byte_level_file(tmp_path / "model.gguf", split="gpt-2"))

    assert pieces(tokenizer, "b 12 a") == ["b", " 1", "2", " a"]
    assert not caplog.records


def test_a_file_that_names_an_unknown_split_is_loaded_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        tokenizer = load(byte_level_file(tmp_path / "model.gguf", split="of-tomorrow"))

    assert "of-tomorrow" in caplog.text
    assert pieces(tokenizer, "b a") == ["b", " a"]


def test_llama3_words_that_are_tokens_are_whole_and_texts_begin_with_bos(tmp_path: Path) -> None:
    tokenizer = load(byte_level_file(tmp_path / "model.gguf", split="llama-bpe"))

    assert pieces(tokenizer, "ab") == ["<|start|>", "ab"]
    assert pieces(load(byte_level_file(tmp_path / "2.gguf", split="llama-bpe", add_bos=False)), "ab") == ["ab"]
    assert pieces(load(byte_level_file(tmp_path / "3.gguf", split="gpt-2")), "ab") == ["a", "b"]


def test_a_file_may_ask_for_bos(tmp_path: Path) -> None:
    tokenizer = load(byte_level_file(tmp_path / "model.gguf", split="smollm", add_bos=True))

    assert pieces(tokenizer, "a") == ["<|start|>", "a"]
    assert tokenizer.bos_id == 1


def test_the_end_of_text_and_the_end_of_a_turn_both_end_the_output(tmp_path: Path) -> None:
    assert load(byte_level_file(tmp_path / "model.gguf", split="gpt-2")).eos_ids == {0, 2}


def test_a_file_may_do_without_the_space_before_a_text(tmp_path: Path) -> None:
    with_space = load(sentencepiece_file(tmp_path / "1.gguf", space_prefix=True))
    without = load(sentencepiece_file(tmp_path / "2.gguf", space_prefix=False))

    assert pieces(with_space, "a a") == ["<s>", " a", " a"]
    assert pieces(without, "a a") == ["<s>", "a", " a"]
    for tokenizer in (with_space, without):
        ids = tokenizer.encode("a a", add_special_tokens=True)
        assert tokenizer.vocabulary.decode(ids, skip_special=True) == "a a"
