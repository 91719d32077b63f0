"""The tokenizer that a GGUF file describes.

`transformers` builds vocabulary, merges and added tokens, and the way text is split before merging for
the families that it knows. A file names that way in `tokenizer.ggml.pre`; the names are llama.cpp's.
"""

import logging
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_TOKENIZER_MAPPING, convert_gguf_tokenizer

from engine.model.gguf_reader import GgufFile, Strings

logger = logging.getLogger(__name__)

GPT2_SPLITS = frozenset(
    {"default", "gpt-2", "gpt2", "phi-2", "jina-v1-en", "roberta-bpe", "mpt", "olmo", "jais", "trillion"}
)
DIGIT_SPLITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
WHOLE_WORDS = frozenset({"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "lfm2", "tekken"})

_END_KEYS = ("ggml.eos_token_id", "ggml.eot_token_id", "ggml.eom_token_id")  # of text, of a turn, of a message
_SPECIAL_KEYS = {
    "bos_token": "ggml.bos_token_id",
    "eos_token": "ggml.eos_token_id",
    "unk_token": "ggml.unknown_token_id",
    "pad_token": "ggml.padding_token_id",
}


class GgufTokenizer(PreTrainedTokenizerFast):
    """A tokenizer of `transformers` around a backend that is already built, which it does not copy."""

    def __init__(self, backend: Tokenizer, **options: object) -> None:
        self._tokenizer = backend
        super().__init__(**options)  # type: ignore[no-untyped-call]  # transformers leaves it untyped


def load_gguf_tokenizer(path: Path) -> tuple[PreTrainedTokenizerFast, frozenset[int]]:
    """The tokenizer that a GGUF file describes, and the tokens that end its output."""
    file = GgufFile(path)
    said = {key.removeprefix("tokenizer."): value for key, value in file.metadata.items()}
    values = {key: value.read() if isinstance(value, Strings) else value for key, value in said.items()}
    parts = {name: values[key] for key, name in GGUF_TOKENIZER_MAPPING["tokenizer"].items() if key in values}
    backend, _ = convert_gguf_tokenizer(file.architecture, parts)
    split = str(values.get("ggml.pre", "default"))
    tokenizer = GgufTokenizer(backend, **_options(values, split))
    if values.get("ggml.model") == "gpt2":
        set_split(tokenizer.backend_tokenizer, split)
    elif values.get("ggml.add_space_prefix") is False:
        drop_space_prefix(tokenizer.backend_tokenizer)
    end_ids = (values.get(key) for key in _END_KEYS)
    return tokenizer, frozenset(id_ for id_ in end_ids if isinstance(id_, int))


def _options(values: dict[str, Any], split: str) -> dict[str, object]:
    """What else the tokenizer is made of: its special tokens, its template, and what it adds to texts."""
    tokens = values["ggml.tokens"]
    named = {name: values.get(key) for name, key in _SPECIAL_KEYS.items()}
    options: dict[str, object] = {name: None if id_ is None else tokens[id_] for name, id_ in named.items()}
    options |= {name: values[key] for key, name in GGUF_TOKENIZER_MAPPING["tokenizer_config"].items() if key in values}
    if values.get("ggml.model") == "gemma4":
        options["add_bos_token"] = False  # its template writes BOS, whatever the file says
    elif values.get("ggml.model") == "llama" or split in WHOLE_WORDS:
        options.setdefault("add_bos_token", True)  # these begin with BOS unless the file says otherwise
    return options


def set_split(backend: Tokenizer, split: str) -> None:
    """Split text before merging as the vocabulary's merges were learned; warn where that isn't known."""
    if split in DIGIT_SPLITS:
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    elif split not in GPT2_SPLITS and isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        logger.warning("the file's tokenizer splits text as %r, not known here: GPT-2's way is used", split)
    if split in WHOLE_WORDS and isinstance(backend.model, models.BPE):
        model = backend.model
        model.ignore_merges = True  # a word that is a token is that token, whatever the merges say
        backend.model = model


def drop_space_prefix(backend: Tokenizer) -> None:
    """Begin no text with a space of the tokenizer's own, and take none away from a decoded one."""
    if isinstance(backend.pre_tokenizer, pre_tokenizers.Metaspace):
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
        backend.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
