import json
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from engine.errors import (
    ChatTemplateFailed,
    ModelNotFound,
    ModelUnsupported,
    NoChatTemplate,
    PromptError,
    SettingUnusable,
    VariableReserved,
)
from engine.model.pieces import vocabulary_of
from engine.model.tokenizer import MAX_RENDERED, RENDER_SECONDS, TransformersTokenizer, load_tokenizer
from tests.tiny import CHAT_TEMPLATE, IM_END, IM_START, NUM_TOKENS, make_tiny_tokenizer

LLAMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'user' %}[INST] {{ message.content }} [/INST]{% else %}{{ message.content }}</s>{% endif %}"
    "{% endfor %}"
)
SPELLINGS = ["<|im_end|>", "<|im_", "start|>", "<|", "<", "</s>", "<s", ">", "a", " ", "\n", "日", "\ud800"]
CONTENTS = st.lists(st.sampled_from(SPELLINGS), max_size=8).map("".join)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def sentencepiece(*, metaspace: bool) -> Tokenizer:
    """A tokenizer as Llama-2's: BPE over text with ▁ for spaces and tokens for single bytes, BOS added."""
    ordinary = ["▁", *"abcdefhilnoprstux.", "▁t", "he", "▁the", "▁a"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *ordinary]
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "a")]
    vocab = {token: id_ for id_, token in enumerate(tokens)}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()])
    else:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        backend.decoder = decoders.Sequence(steps)
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens[:3]])
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return backend


def save(backend: Tokenizer, folder: Path, *, chat_template: str | None = LLAMA_TEMPLATE) -> Path:
    source = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>", chat_template=chat_template
    )
    source.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def byte_level(tiny: Path) -> TransformersTokenizer:
    return load(tiny)


@pytest.fixture(scope="module", params=["Replace", "Metaspace"])
def llama(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TransformersTokenizer:
    backend = sentencepiece(metaspace=request.param == "Metaspace")
    return load(save(backend, tmp_path_factory.mktemp("llama")))


def load(
    folder: Path, *, chat_template: str | None = None, render_seconds: float = RENDER_SECONDS
) -> TransformersTokenizer:
    tokenizer = load_tokenizer(str(folder), chat_template=chat_template, render_seconds=render_seconds)
    assert isinstance(tokenizer, TransformersTokenizer)
    return tokenizer


def with_template(
    folder: Path, template: str, target: Path, *, render_seconds: float = RENDER_SECONDS
) -> TransformersTokenizer:
    """The tokenizer of `folder` with the operator's own template."""
    target.write_text(template, encoding="utf-8")
    return load(folder, chat_template=str(target), render_seconds=render_seconds)


def chat(tokenizer: TransformersTokenizer, *messages: dict[str, object], **variables: object) -> list[int]:
    return tokenizer.encode_chat(
        list(messages), add_generation_prompt=True, continue_final_message=False, template_kwargs=variables
    )


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def assistant(content: object) -> dict[str, object]:
    return {"role": "assistant", "content": content}


# -- pieces ---------------------------------------------------------------------------------------


def test_byte_level_pieces_are_raw_bytes(byte_level: TransformersTokenizer) -> None:
    ids = byte_level.encode(" the 日", add_special_tokens=False)

    pieces = [byte_level.vocabulary.bytes_of(id_, skip_special=True) for id_ in ids]

    assert pieces == [b" the", b" ", b"\xe6", b"\x97", b"\xa5"]


def test_sentencepiece_pieces_are_raw_bytes(llama: TransformersTokenizer) -> None:
    ids = llama.encode("the 日", add_special_tokens=False)

    pieces = [llama.vocabulary.bytes_of(id_, skip_special=True) for id_ in ids]

    assert pieces == [b" the", b" ", b"\xe6", b"\x97", b"\xa5"]


def test_special_tokens_are_their_literals_and_ids_past_the_tokenizer_spell_nothing(
    byte_level: TransformersTokenizer,
) -> None:
    vocabulary = byte_level.vocabulary

    assert vocabulary.size == NUM_TOKENS
    assert vocabulary.special_ids == {0, 1, 2}
    assert vocabulary.bytes_of(IM_END, skip_special=False) == b"<|im_end|>"
    assert vocabulary.bytes_of(IM_END, skip_special=True) == b""
    assert vocabulary.bytes_of(NUM_TOKENS, skip_special=False) == b""


@given(TEXTS)
def test_byte_level_text_survives_the_way_there_and_back(byte_level: TransformersTokenizer, text: str) -> None:
    ids = byte_level.encode(text, add_special_tokens=False)

    assert byte_level.vocabulary.decode(ids, skip_special=False) == text


@given(TEXTS)
def test_sentencepiece_text_survives_the_way_there_and_back(llama: TransformersTokenizer, text: str) -> None:
    text = f"x{text}".replace("▁", "")  # ▁ is a space to it; a Metaspace decoder strips a first space that was typed
    ids = llama.encode(text, add_special_tokens=True)

    assert llama.vocabulary.decode(ids, skip_special=True) == text


def test_added_tokens_are_spelled_as_written_special_or_not() -> None:
    backend = sentencepiece(metaspace=False)
    backend.add_tokens([AddedToken("▁▁", special=False, normalized=False)])
    backend.add_special_tokens([AddedToken("<tool▁call>", special=True, normalized=False)])

    vocabulary = vocabulary_of(backend)

    assert vocabulary.bytes_of(vocabulary.size - 2, skip_special=True) == b"  "
    assert vocabulary.bytes_of(vocabulary.size - 1, skip_special=False) == "<tool▁call>".encode()
    assert vocabulary.bytes_of(vocabulary.size - 1, skip_special=True) == b""


@pytest.mark.parametrize(
    ("decoder", "name"),
    [
        (decoders.WordPiece(), "WordPiece"),
        (decoders.Sequence([decoders.Fuse(), decoders.BPEDecoder("</w>")]), "BPEDecoder"),
        (decoders.Replace(Regex("a+"), "b"), "Replace"),
        (decoders.Strip("_", 0, 2), "Strip"),
        (None, "None"),
    ],
)
def test_a_decoder_that_is_not_known_is_refused_by_name(decoder: decoders.Decoder | None, name: str) -> None:
    backend = sentencepiece(metaspace=False)
    if decoder is None:
        backend = Tokenizer(models.BPE())
    else:
        backend.decoder = decoder

    with pytest.raises(ModelUnsupported, match=name):
        vocabulary_of(backend)


def test_pieces_that_spell_another_text_than_the_tokenizer_decodes_are_refused() -> None:
    backend = sentencepiece(metaspace=False)
    backend.decoder = decoders.Sequence([backend.decoder, decoders.Replace("Hello", "Bye")])  # of a whole text

    with pytest.raises(ModelUnsupported, match=r"decodes .Bye.*spell .Hello"):
        vocabulary_of(backend)


def test_a_byte_level_token_outside_the_byte_alphabet_is_its_own_text() -> None:
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "日本"]
    backend = Tokenizer(models.BPE(vocab={token: id_ for id_, token in enumerate(tokens)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()

    assert vocabulary_of(backend).text_of(256) == "日本"


# -- plain text -----------------------------------------------------------------------------------


def test_a_raw_prompt_may_spell_control_tokens(byte_level: TransformersTokenizer) -> None:
    ids = byte_level.encode("<|im_start|>user", add_special_tokens=True)

    assert ids[0] == IM_START
    assert byte_level.vocabulary.decode(ids[1:], skip_special=False) == "user"


def test_bos_is_added_where_the_tokenizer_adds_it(
    byte_level: TransformersTokenizer, llama: TransformersTokenizer
) -> None:
    assert llama.encode("the", add_special_tokens=True) == [1, *llama.encode("the", add_special_tokens=False)]
    assert llama.encode("", add_special_tokens=True) == [1]
    assert byte_level.encode("", add_special_tokens=True) == []
    assert (llama.bos_id, byte_level.bos_id) == (1, IM_START)


def test_a_lone_surrogate_becomes_a_replacement_character(byte_level: TransformersTokenizer) -> None:
    ids = byte_level.encode("x\ud800y\udfff", add_special_tokens=False)

    assert byte_level.vocabulary.decode(ids, skip_special=False) == "x\ufffdy\ufffd"


def test_a_long_text_is_not_cut_by_the_tokenizers_own_settings(tmp_path: Path) -> None:
    backend = sentencepiece(metaspace=False)
    backend.enable_truncation(4)
    backend.enable_padding(length=64)

    tokenizer = load(save(backend, tmp_path))

    assert (
        tokenizer.encode("xxxxxxxx", add_special_tokens=True)[2:]
        == [tokenizer.encode("ax", add_special_tokens=False)[-1]] * 8
    )


def test_threads_share_a_tokenizer(byte_level: TransformersTokenizer) -> None:
    texts = [f"the {number} <|im_end|> hello" for number in range(8)]
    expected = [(byte_level.encode(text, add_special_tokens=True), chat(byte_level, user(text))) for text in texts]
    seen: list[list[tuple[list[int], list[int]]]] = []

    def work() -> None:
        seen.append(
            [(byte_level.encode(text, add_special_tokens=True), chat(byte_level, user(text))) for text in texts]
        )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [expected] * 4


class PanicException(BaseException):
    """Named as pyo3's, which no Python code can import."""


class Breaking:
    """A backend whose encoding fails."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure

    def encode_batch_fast(self, _texts: list[str], *, add_special_tokens: bool) -> list[object]:
        del add_special_tokens
        raise self.failure


@pytest.mark.parametrize("failure", [PanicException("index out of bounds"), RuntimeError("index out of bounds")])
def test_a_tokenizer_that_breaks_is_a_prompt_error(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    tokenizer = load(tiny)
    monkeypatch.setattr(tokenizer, "_backend", Breaking(failure))

    with pytest.raises(PromptError, match="index out of bounds"):
        tokenizer.encode("x", add_special_tokens=True)
    with pytest.raises(PromptError, match="index out of bounds"):
        chat(tokenizer, user("x"))


def test_what_ends_the_process_is_not_taken_for_the_tokenizers_failure(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = load(tiny)
    monkeypatch.setattr(tokenizer, "_backend", Breaking(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode("x", add_special_tokens=True)


# -- conversations --------------------------------------------------------------------------------


def test_a_conversation_is_encoded_in_the_models_own_format(byte_level: TransformersTokenizer) -> None:
    ids = chat(byte_level, user("hello"))

    assert (ids[0], ids.count(IM_START), ids.count(IM_END)) == (IM_START, 2, 1)
    assert (
        byte_level.vocabulary.decode(ids, skip_special=False)
        == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )


@given(CONTENTS)
def test_a_control_token_that_a_message_spells_stays_text(byte_level: TransformersTokenizer, content: str) -> None:
    ids = chat(byte_level, user(content))

    assert (ids.count(IM_START), ids.count(IM_END)) == (2, 1)
    visible = content.replace("\ud800", "\ufffd")
    assert (
        byte_level.vocabulary.decode(ids, skip_special=False)
        == f"<|im_start|>user\n{visible}<|im_end|>\n<|im_start|>assistant\n"
    )


@given(CONTENTS)
def test_a_cut_adds_no_space_where_texts_begin_with_one(llama: TransformersTokenizer, content: str) -> None:
    ids = chat(llama, user(content), assistant("a"))

    assert (ids.count(1), ids.count(2)) == (1, 1)
    visible = content.replace("\ud800", "\ufffd")
    text = llama.vocabulary.decode(ids, skip_special=False)
    assert text.replace("<s> ", "<s>", 1) == f"<s>[INST] {visible} [/INST]a</s>"


def test_control_tokens_are_cut_in_every_part_of_a_message(tiny: Path, tmp_path: Path) -> None:
    tokenizer = with_template(tiny, "{{ messages | tojson }}{{ note }}", tmp_path / "template")
    call = {"function": {"name": "<|im_end|>", "arguments": {"<|im_start|>": ["<|im_end|>", 1, None, True]}}}

    ids = chat(tokenizer, {"role": "assistant", "tool_calls": [call]}, note="<|im_end|>")

    assert not {IM_START, IM_END} & set(ids)
    expected = json.dumps([{"role": "assistant", "tool_calls": [call]}]) + "<|im_end|>"
    assert tokenizer.vocabulary.decode(ids, skip_special=False) == expected


def test_an_added_token_of_the_template_is_text_for_a_user_and_itself_for_the_assistant(tmp_path: Path) -> None:
    backend = sentencepiece(metaspace=False)
    backend.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    backend.add_tokens([AddedToken("<table>", special=False, normalized=False)])
    think, table = (backend.get_vocab()[token] for token in ("<think>", "<table>"))
    tokenizer = load(save(backend, tmp_path, chat_template=LLAMA_TEMPLATE + "{% if think %}<think>{% endif %}"))

    assert chat(tokenizer, user("a <think>")).count(think) == 0
    assert chat(tokenizer, user("a <think>"), think=True).count(think) == 1
    assert chat(tokenizer, assistant("<think>a")).count(think) == 1
    assert chat(tokenizer, user("a <table>")).count(table) == 1, "not a token that the template writes"


def test_the_final_message_can_be_left_open(byte_level: TransformersTokenizer) -> None:
    ids = byte_level.encode_chat(
        [user("hello"), assistant("the <|im_end|>")],
        add_generation_prompt=False,
        continue_final_message=True,
        template_kwargs={},
    )

    assert ids.count(IM_END) == 1
    text = byte_level.vocabulary.decode(ids, skip_special=False)
    assert text == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nthe <|im_end|>"


def test_a_template_sees_the_clients_variables(tiny: Path, tmp_path: Path) -> None:
    tokenizer = with_template(tiny, "{{ messages[0].content }} {{ mood }} {{ tools | length }}", tmp_path / "template")

    ids = chat(tokenizer, user("hello"), mood="calm", tools=[{"type": "function"}])

    assert tokenizer.vocabulary.decode(ids, skip_special=False) == "hello calm 1"


def test_control_tokens_in_tools_and_calls_stay_text(tiny: Path, tmp_path: Path) -> None:
    template = "{{ tools | tojson }}{{ messages[0].tool_calls | tojson }}<|im_end|>"
    tokenizer = with_template(tiny, template, tmp_path / "template")
    spelled = {"<|im_end|>": ["<|im_end|>"], "name": "<|im_end|>"}

    ids = chat(tokenizer, assistant("") | {"tool_calls": [spelled]}, tools=[spelled])

    assert ids.count(IM_END) == 1
    assert tokenizer.vocabulary.decode(ids, skip_special=False).count("<|im_end|>") == 7


@pytest.mark.parametrize(
    "name",
    ["chat_template", "messages", "conversation", "conversations", "tokenize", "add_generation_prompt", "self"],
)
def test_a_variable_can_not_take_the_place_of_the_template_or_the_messages(
    byte_level: TransformersTokenizer, name: str
) -> None:
    with pytest.raises(VariableReserved, match=f"{name} can't be a template variable") as refused:
        chat(byte_level, user("hello"), **{name: "{{ 1 }}"})

    assert refused.value.name == name


def test_without_a_template_conversations_are_refused(tmp_path: Path) -> None:
    tokenizer = load(save(sentencepiece(metaspace=False), tmp_path, chat_template=None))

    assert tokenizer.chat_template is None
    with pytest.raises(NoChatTemplate, match="completions"):
        chat(tokenizer, user("a"))


def nested(depth: int) -> object:
    value: object = "a"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("template", "content", "reason"),
    [
        ("{{ raise_exception('roles must alternate') }}", "a", "roles must alternate"),
        ("{{ messages[0].content + 1 }}", "a", "TypeError"),
        ("{{ messages[0].missing.key }}", "a", "missing"),
        ("{{ messages[0].content.__class__.__mro__ }}", "a", "unsafe"),
        ("{{ 1 // 0 }}", "a", "ZeroDivisionError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "a", "RecursionError"),
        (CHAT_TEMPLATE, nested(10_000), "RecursionError"),
        (CHAT_TEMPLATE, 5, "TypeError"),
        ("{{ raise_exception(messages[0].content) }}", "a<|im_end|>\ud800" * 100_000, r"failed: a<\|im_end\|>\ufffda"),
        ("{{ raise_exception('a\\ud83d') }}", "a", "a\ufffd"),
        ("{{ raise_exception('first\nsecond') }}", "a", "first"),
    ],
)
def test_whatever_fails_in_a_template_is_a_short_prompt_error(
    tiny: Path, tmp_path: Path, template: str, content: object, reason: str
) -> None:
    tokenizer = with_template(tiny, template, tmp_path / "template")

    with pytest.raises(ChatTemplateFailed, match=reason) as failed:
        chat(tokenizer, user(content))

    message = str(failed.value)
    assert len(message.encode()) < 1_000
    assert "\n" not in message


def test_no_messages_are_a_prompt_error(byte_level: TransformersTokenizer) -> None:
    with pytest.raises(ChatTemplateFailed):
        chat(byte_level)


# -- loading --------------------------------------------------------------------------------------


def test_the_models_configs_name_the_tokens_that_end_its_output(tmp_path: Path) -> None:
    folder = save(sentencepiece(metaspace=False), tmp_path)
    assert load(folder).eos_ids == {2}

    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "eos_token_id": 5}))
    assert load(folder).eos_ids == {2, 5}

    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 4]}))
    assert load(folder).eos_ids == {2, 3, 4}


def test_the_operators_template_replaces_the_models_own(tiny: Path, tmp_path: Path) -> None:
    tokenizer = with_template(tiny, "{{ messages[0].content }}!", tmp_path / "template")

    assert tokenizer.vocabulary.decode(chat(tokenizer, user("hello")), skip_special=False) == "hello!"


def test_an_operators_template_that_does_not_parse_is_refused_at_once(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match="line 2"):
        with_template(tiny, "\n{% for message in messages %}", tmp_path / "template")


ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% set k = j %}{% endfor %}{% endfor %}"


def test_an_operators_template_without_an_end_is_refused_at_once(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match=r"fails on a lone user's message: it was not done within 0\.2 seconds"):
        with_template(tiny, ENDLESS, tmp_path / "template", render_seconds=0.2)


def test_a_template_that_comes_to_no_end_with_some_conversation_fails_on_that_one(tiny: Path, tmp_path: Path) -> None:
    template = "{% if messages[0].content == 'more' %}" + ENDLESS + "{% endif %}{{ messages[0].content }}"
    tokenizer = with_template(tiny, template, tmp_path / "template", render_seconds=2)

    with pytest.raises(ChatTemplateFailed, match="it was not done within 2 seconds"):
        chat(tokenizer, user("more"))
    assert chat(tokenizer, user("less"))


def test_a_template_that_writes_more_than_a_body_can_hold_fails(tiny: Path, tmp_path: Path) -> None:
    tokenizer = with_template(tiny, "{{ 'x' * " + str(MAX_RENDERED + 1) + " }}", tmp_path / "template")

    with pytest.raises(ChatTemplateFailed, match=f"at most {MAX_RENDERED}"):
        chat(tokenizer, user("a"))


def test_a_missing_template_file_is_named(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingUnusable, match="no-template"):
        load(tiny, chat_template=str(tmp_path / "no-template"))


@pytest.mark.parametrize("name", ["missing", "missing.gguf"])
def test_a_missing_model_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFound, match=name):
        load(tmp_path / name)


@pytest.mark.parametrize("damage", [b"", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64])
def test_a_damaged_gguf_file_is_refused(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "model.gguf").write_bytes(damage)

    with pytest.raises(ModelUnsupported, match=r"model\.gguf"):
        load(tmp_path / "model.gguf")


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match="no tokenizer"):
        load(tmp_path)
