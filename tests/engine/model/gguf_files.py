"""GGUF files for tests, written by the `gguf` package."""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray


def new_file(path: Path, architecture: str = "llama") -> gguf.GGUFWriter:
    """A file that has no tensors yet; `close` writes it."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    return writer


def close(writer: gguf.GGUFWriter) -> None:
    """Write what was added, and the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_blocks(
    writer: gguf.GGUFWriter, name: str, values: NDArray[np.float32], kind: gguf.GGMLQuantizationType
) -> None:
    """Add a tensor, quantized by the `gguf` package."""
    writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)


LLAMA = {
    "block_count": 2,
    "context_length": 64,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "vocab_size": 32,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
}
LAYER = {
    "attn_norm": (64,),
    "attn_q": (64, 64),
    "attn_k": (32, 64),
    "attn_v": (32, 64),
    "attn_output": (64, 64),
    "ffn_norm": (64,),
    "ffn_gate": (96, 64),
    "ffn_up": (96, 64),
    "ffn_down": (64, 96),
}


def write_llama(
    path: Path, values: Mapping[str, object] | None = None, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> None:
    """A two-layer Llama of 4 heads of 16; `values` and `shapes` take the place of its own, and None leaves one out."""
    writer = new_file(path)
    writer.add_token_list([f"token {id_}" for id_ in range(32)])
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    for key, value in (LLAMA | dict(values or {})).items():
        _add_value(writer, f"llama.{key}", value)
    own = {f"blk.{layer}.{name}.weight": shape for layer in range(2) for name, shape in LAYER.items()}
    whole = {"token_embd.weight": (32, 64), "output_norm.weight": (64,), "output.weight": (32, 64)}
    random = np.random.default_rng(0)
    for name, shape in (whole | own | dict(shapes or {})).items():
        writer.add_tensor(name, random.standard_normal(shape).astype(np.float32) / 8)
    close(writer)


def _add_value(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    match value:
        case None:
            return
        case str():
            writer.add_string(key, value)
        case list():
            writer.add_array(key, value)
        case int() if value < 0:
            writer.add_int32(key, value)
        case int():
            writer.add_uint32(key, value)
        case _:
            raise AssertionError(f"no test writes {value!r}")
