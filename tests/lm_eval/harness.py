"""Harness: lm-eval in an environment of its own, asked for the same tasks through a server and through transformers."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.lm_eval.samples import Samples, read_samples
from tests.sdks.environment import ROOT, Environment

TASKS = ("tidemark_choice", "tidemark_passage", "tidemark_say")
FOLDER = Path(__file__).parent / "tasks"
CONTEXT = 2048  # tokens; lm-eval cuts to it what is longer

# Everything is here: nothing is looked for on the network.
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
_SAVE_TOKENIZER = """
import sys
from transformers import AutoTokenizer
folder, file, target = sys.argv[1:]
AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(target)
"""


@dataclass(frozen=True, slots=True)
class Harness:
    """Runs tasks on the model of a GGUF file. `home` is a folder for what it writes."""

    model: Path
    home: Path
    environment: Environment

    @property
    def _tokenizer(self) -> Path:
        return self.home / "tokenizer"

    def prepare(self) -> None:
        """Save the model's tokenizer where lm-eval finds it for both."""
        self._call("-c", _SAVE_TOKENIZER, str(self.model.parent), self.model.name, str(self._tokenizer))

    def through_server(self, url: str, *, name: str, batch_size: int) -> Samples:
        """What `local-completions` found at a server, token ids sent in bodies of `batch_size` prompts."""
        arguments = {
            "model": "tidemark",
            "base_url": f"{url}/v1/completions",
            "tokenizer_backend": "huggingface",
            "tokenizer": str(self._tokenizer),
            "max_length": str(CONTEXT),
            "num_concurrent": "2",
        }
        return self._run("local-completions", arguments, batch_size, name)

    def through_transformers(self) -> Samples:
        """What lm-eval's own `hf` found, with the weights of the same file, made float32."""
        arguments = {
            "pretrained": str(self.model.parent),
            "gguf_file": self.model.name,
            "tokenizer": str(self._tokenizer),
            "dtype": "float32",
            "max_length": str(CONTEXT),
        }
        return self._run("hf", arguments, 1, "transformers")

    def _run(self, kind: str, arguments: dict[str, str], batch_size: int, name: str) -> Samples:
        output = self.home / name.replace(" ", "-").replace(",", "")
        given = ",".join(f"{key}={value}" for key, value in arguments.items())
        flags = ("--model", kind, "--model_args", given, "--batch_size", str(batch_size), "--device", "cpu")
        places = ("--include_path", str(FOLDER), "--output_path", str(output), "--log_samples")
        self._call("-m", "lm_eval", *flags, "--tasks", ",".join(TASKS), *places)
        return read_samples(output)

    def _call(self, *arguments: str) -> None:
        environment = {**os.environ, **_OFFLINE, "OPENAI_API_KEY": "none"}  # noqa: TID251  # what lm-eval reads is its own
        subprocess.run([self.environment.python, *arguments], cwd=ROOT, env=environment, check=True)
