"""GGUF files for tests, written by the `gguf` package."""

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
