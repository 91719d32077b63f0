"""Write a model as a folder of float32 safetensors that never ends by itself, for a peer that reads no other.

python -m benchmarks.peers.export MODEL FOLDER
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.peers.place import PEERS

EXPORTS = PEERS / "exports"


def exported(model: Path) -> Path:
    """The folder of `model`'s export, made by a process of its own if it is not there."""
    folder = EXPORTS / f"{model.stem}-{_fingerprint(model)}"
    if not folder.exists():
        EXPORTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=EXPORTS) as making:
            whole = Path(making) / "model"
            subprocess.run([sys.executable, "-m", "benchmarks.peers.export", model, whole], check=True)
            whole.rename(folder)
    return folder


def _fingerprint(model: Path) -> str:
    """Changes when the file, or the folder's listing, does."""
    stat = model.stat()
    return hashlib.sha256(f"{model.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]


def export(model: Path, folder: Path) -> None:
    """Unpack the weights and write them with the tokenizer.

    transformers' server refuses `ignore_eos`; without an end in the generation config it has the same effect.
    """
    import torch  # noqa: PLC0415  # a second that only this process pays
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415  # as above

    home, file = (model, None) if model.is_dir() else (model.parent, model.name)
    unpack = GgufConfig(dequantize=True) if file else None
    network = AutoModelForCausalLM.from_pretrained(
        home, gguf_file=file, dtype=torch.float32, quantization_config=unpack
    )
    network.generation_config.eos_token_id = None
    network.save_pretrained(folder)
    AutoTokenizer.from_pretrained(home, gguf_file=file).save_pretrained(folder)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    export(args.model, args.folder)


if __name__ == "__main__":
    main()
