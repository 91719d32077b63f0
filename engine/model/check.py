"""What a model's files say of its sizes, checked before anything is built by it: by itself, and against the tensors."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Protocol

from transformers import PreTrainedConfig

from engine.cache.reading import check_layer_kinds
from engine.errors import ModelError
from engine.model.gguf_names import FAMILIES as GGUF_FAMILIES
from engine.model.gguf_reader import GgufFile, Strings
from engine.model.recognise import FAMILIES
from engine.model.structure import AttentionData, ExpertsData, FeedForwardData, LinearData, NormData, Structure

CONTEXT_FIELDS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
CONFIG_SIZES = (
    *("vocab_size", "hidden_size", "n_embd", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head"),
    *("num_key_value_heads", "head_dim", "intermediate_size", "n_inner", *CONTEXT_FIELDS),
)
MIXER_SIZES = (
    *("state_size", "expand", "conv_kernel", "n_groups", "num_heads", "chunk_size", "time_step_rank"),
    *("mamba_d_state", "mamba_expand", "mamba_d_conv", "mamba_n_groups", "mamba_n_heads", "mamba_d_head"),
    *("mamba_chunk_size", "mamba_d_ssm", "mamba_dt_rank", "attn_layer_period", "expert_layer_period"),
    *("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"),
    *("linear_conv_kernel_dim", "full_attention_interval", "decoder_sparse_step", "conv_L_cache", "block_multiple_of"),
)
_INNER, _HEADS = ("mamba_expand", "hidden_size"), ("mamba_n_heads", "mamba_d_head")
MIXER_WIDTHS = {  # by model: what gives a mixer's width, how many heads it has, and how wide they are
    "mamba2": (("expand", "hidden_size"), "num_heads", "head_dim"),
    "bamba": (_INNER, *_HEADS),
    "granitemoehybrid": (_INNER, *_HEADS),
    "falcon_h1": (("mamba_d_ssm",), *_HEADS),
}
CHOSEN = "auto"  # what transformers works out of other sizes
GGUF_NEEDED = ("block_count", "context_length", "embedding_length", "attention.head_count")
GGUF_SIZES = (
    *("attention.head_count_kv", "attention.key_length", "attention.value_length"),
    *("feed_forward_length", "vocab_size"),
)
LAYER = re.compile(r"(?:^|\.)(?:layers|h|blk)\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a model's files call the sizes."""

    layers: str = "num_hidden_layers"
    hidden: str = "hidden_size"
    heads: str = "num_attention_heads"
    kv_heads: str = "num_key_value_heads"
    width: str = "intermediate_size"
    vocabulary: str = "vocab_size"


class Stored(Protocol):
    """Parameters as they lie in files."""

    def place(self, name: str) -> str:
        """What the file calls a parameter that is one tensor."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape that it has there."""
        ...


def terms_of(file: GgufFile) -> Terms:
    """What a GGUF file calls the sizes."""
    name = file.architecture
    vocabulary = f"{name}.vocab_size" if f"{name}.vocab_size" in file.metadata else "the number of tokens"
    return Terms(
        layers=f"{name}.block_count",
        hidden=f"{name}.embedding_length",
        heads=f"{name}.attention.head_count",
        kv_heads=f"{name}.attention.head_count_kv",
        width=f"{name}.feed_forward_length",
        vocabulary=vocabulary,
    )


def check_folder(folder: Path) -> None:
    """Raise ModelError where a folder's config.json has a size that can't be one, or kinds of layers that are not run.

    The rest is for its reader to judge.
    """
    try:
        fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError:
        return
    if not isinstance(fields, dict):
        return
    values = {name: fields[name] for name in (*CONFIG_SIZES, *MIXER_SIZES) if name in fields}
    _check_numbers("config.json", {name: value for name, value in values.items() if value != CHOSEN})
    _check_widths(fields)
    for name in ("layer_types", "layers_block_type"):
        if isinstance(kinds := fields.get(name), list):
            check_layer_kinds(str(fields.get("model_type")), [str(kind) for kind in kinds])


def check_file(file: GgufFile) -> None:
    """Raise ModelError where a size in a GGUF file's metadata can't be one, or is not there."""
    prefix, metadata = f"{file.architecture}.", file.metadata
    known = file.architecture in GGUF_FAMILIES
    for key in (f"{prefix}{field}" for field in GGUF_NEEDED if known):
        if key not in metadata:
            raise ModelError(f"{file.path.name} does not say {key}")
    keys = [f"{prefix}{field}" for field in (*GGUF_NEEDED, *GGUF_SIZES)]
    values = {key: metadata[key] for key in keys if key in metadata}
    lists = [key for key, value in values.items() if isinstance(value, list | Strings)]
    if known and lists:
        raise ModelError(f"{file.path.name}: {lists[0]} has a value for each layer, and only one for all is read")
    _check_numbers(file.path.name, values)
    num_layers = metadata.get(f"{prefix}block_count")
    if known and isinstance(num_layers, int):
        check_layers(num_layers, file.tensors, terms_of(file), exactly=True)


def _check_numbers(file: str, values: Mapping[str, object]) -> None:
    """A value for each layer, and none at all, are for the reader to judge."""
    for name, value in values.items():
        if value is None or isinstance(value, list | Strings):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(f"{file}: {name} is {value!r:.80}, and must be a whole number of at least 1")


def _check_widths(fields: Mapping[str, object]) -> None:
    """Raise ModelError where a mixer's heads don't make up its width."""
    names, *parts = MIXER_WIDTHS.get(str(fields.get("model_type")), ((), "", ""))
    sizes = [size for name in names if isinstance(size := fields.get(name), int)]
    heads, dim = (fields.get(part) for part in parts)
    if len(sizes) != len(names) or not isinstance(heads, int):
        return
    if prod(sizes) % heads or (isinstance(dim, int) and prod(sizes) != heads * dim):
        width, told = " x ".join(names), f"{parts[0]} is {heads}, {parts[1]} {dim}"
        raise ModelError(f"config.json: {told}, and these heads don't make up {width}, {prod(sizes)}")


def check_heads(config: PreTrainedConfig, terms: Terms) -> None:
    """Raise ModelError where heads of keys don't have equally many of queries."""
    heads, kv_heads = (getattr(config, name, None) for name in ("num_attention_heads", "num_key_value_heads"))
    if isinstance(heads, int) and isinstance(kv_heads, int) and (kv_heads < 1 or heads % kv_heads):
        raise ModelError(f"{terms.heads} is {heads}, which is no multiple of {terms.kv_heads}, {kv_heads}")


def check_layers(num_layers: int, tensors: Iterable[str], terms: Terms, *, exactly: bool) -> None:
    """Raise ModelError where there are not tensors for all layers; `exactly`: or for more."""
    found = 1 + max((int(layer[1]) for name in tensors if (layer := LAYER.search(name))), default=-1)
    if found and (num_layers > found or (exactly and num_layers != found)):
        raise ModelError(f"{terms.layers} is {num_layers}, and there are tensors of {found} layers")


def check_parameters(config: PreTrainedConfig, tensors: Iterable[str], terms: Terms) -> None:
    """Raise ModelError where a folder's tensors are of fewer layers than its config says."""
    check_layers(config.num_hidden_layers, tensors, terms, exactly=config.model_type in FAMILIES)


def check_shapes(config: PreTrainedConfig, structure: Structure, stored: Stored, terms: Terms) -> None:
    """Raise ModelError with the first tensor that has another shape than the sizes give it.

    The tensors of experts, biases and the norms of heads are left to their reader.
    """
    for name, wanted, sizes in _Shapes(structure, terms, config.max_position_embeddings).all():
        if (found := stored.shape(name)) != wanted:
            by = " and ".join(filter(None, (", ".join(sizes[:-1]), sizes[-1])))
            place = stored.place(name)
            raise ModelError(f"{place} has the shape {list(found)}, and by {by} it is {list(wanted)}")


_Shape = tuple[str, tuple[int, ...], tuple[str, ...]]  # a tensor's name, its shape, and the sizes that give it
_Rows = tuple[int, tuple[str, ...]]  # a number of rows, and the sizes that give it


class _Shapes:
    """The shapes of a decoder's tensors."""

    def __init__(self, structure: Structure, terms: Terms, num_positions: int) -> None:
        self._structure = structure
        self._terms = terms
        self._positions: _Rows = (num_positions, (f"max_position_embeddings ({num_positions})",))
        self._hidden: _Rows = (structure.hidden, (f"{terms.hidden} ({structure.hidden})",))

    def all(self) -> Iterator[_Shape]:
        """Those of the whole decoder, in the order of its layers."""
        structure = self._structure
        vocabulary: _Rows = (structure.vocabulary, (f"{self._terms.vocabulary} ({structure.vocabulary})",))
        yield from _linear(LinearData((structure.embedding,)), (vocabulary,), self._hidden)
        if structure.positions is not None:
            yield from _linear(LinearData((structure.positions,)), (self._positions,), self._hidden)
        for layer in structure.layers:
            yield from self._norms(layer.attention_norm, layer.after_attention, layer.feed_norm, layer.after_feed)
            yield from self._attention(layer.attention)
            if not isinstance(layer.feed, ExpertsData):
                yield from self._feed(layer.feed)
        yield from self._norms(structure.final_norm)
        if structure.head.weights != (structure.embedding,):
            yield from _linear(structure.head, (vocabulary,), self._hidden)

    def _norms(self, *norms: NormData | None) -> Iterator[_Shape]:
        width, sizes = self._hidden
        for norm in norms:
            if norm is not None and norm.weight is not None:
                yield norm.weight, (width,), sizes

    def _attention(self, data: AttentionData) -> Iterator[_Shape]:
        dim, terms = data.head_dim, self._terms
        queries: _Rows = (data.heads * dim, (f"{terms.heads} ({data.heads})", f"heads of {dim}"))
        keys: _Rows = (data.kv_heads * dim, (f"{terms.kv_heads} ({data.kv_heads})", f"heads of {dim}"))
        yield from _linear(data.qkv, (queries, keys, keys), self._hidden)
        yield from _linear(data.out, (self._hidden,), queries)

    def _feed(self, data: FeedForwardData) -> Iterator[_Shape]:
        width: _Rows = (data.width, (f"{self._terms.width} ({data.width})",))
        yield from _linear(data.up, (width, width) if data.gated else (width,), self._hidden)
        yield from _linear(data.down, (self._hidden,), width)


def _linear(data: LinearData, outputs: tuple[_Rows, ...], inputs: _Rows) -> Iterator[_Shape]:
    """A linear layer's matrices: one for each of its outputs, or one for all of them."""
    if len(data.weights) != len(outputs):
        sizes = dict.fromkeys(size for _, by in outputs for size in by)
        outputs = ((sum(rows for rows, _ in outputs), tuple(sizes)),)
    for name, (rows, by) in zip(data.weights, outputs, strict=True):
        shape = (inputs[0], rows) if data.transposed else (rows, inputs[0])
        yield name, shape, tuple(dict.fromkeys((*by, *inputs[1])))
