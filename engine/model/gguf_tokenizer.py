"""What `transformers` leaves out of the tokenizer that a GGUF file describes.

It builds vocabulary, merges and added tokens, and the way text is split before merging for the
families that it knows. A file names that way in `tokenizer.ggml.pre`; the names are llama.cpp's.
"""

import logging
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.integrations.gguf.reader import read_gguf_metadata

logger = logging.getLogger(__name__)

GPT2_SPLITS = frozenset(
    {"default", "gpt-2", "gpt2", "phi-2", "jina-v1-en", "roberta-bpe", "mpt", "olmo", "jais", "trillion"}
)
DIGIT_SPLITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
WHOLE_WORDS = frozenset({"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "lfm2", "tekken"})

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")  # of text, of a turn, of a message


def load_gguf_tokenizer(path: Path) -> tuple[PreTrainedTokenizerFast, frozenset[int]]:
    """The tokenizer that a GGUF file describes, and the tokens that end its output."""
    metadata, _ = read_gguf_metadata(str(path))
    split = str(metadata.get("tokenizer.ggml.pre", "default"))
    options: dict[str, Any] = {}
    if "tokenizer.ggml.add_bos_token" not in metadata and split in WHOLE_WORDS:
        options["add_bos_token"] = True  # these families begin with BOS unless the file says otherwise
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(path.parent), gguf_file=path.name, **options)
    if metadata.get("tokenizer.ggml.model") == "gpt2":
        set_split(tokenizer.backend_tokenizer, split)
    elif metadata.get("tokenizer.ggml.add_space_prefix") is False:
        drop_space_prefix(tokenizer.backend_tokenizer)
    end_ids = (metadata.get(f"tokenizer.ggml.{key}") for key in _END_KEYS)
    return tokenizer, frozenset(int(id_) for id_ in end_ids if id_ is not None)


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
