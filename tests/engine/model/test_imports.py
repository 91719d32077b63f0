import subprocess
import sys
from pathlib import Path

import transformers

from tests.tiny import make_tiny_model_folder

HEAVY = ("sympy", "torch._dynamo", "torch._inductor", "torch.distributed.tensor", "torch.distributed.fsdp")


def run(program: str) -> list[str]:
    """What a process of its own prints: this one has imported it all."""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_what_serving_never_calls_is_not_imported(tmp_path: Path) -> None:
    make_tiny_model_folder(tmp_path)

    heavy = run(f"""
import sys
from engine.model.imports import lean_imports

with lean_imports():
    from config.settings import ModelSettings
    from engine.model.gate import check_structure
    from engine.model.load import open_model
    from engine.model.tokenizer import load_tokenizer

    opened = open_model(ModelSettings(path={str(tmp_path)!r}), progress=lambda _: None)
    check_structure(opened.config, None)
    load_tokenizer({str(tmp_path)!r})
print(*(name for name in {HEAVY!r} if name in sys.modules))
""")

    assert heavy == []


def test_afterwards_everything_is_there() -> None:
    program = """
import gc
import torch
from engine.model.imports import lean_imports

with lean_imports():
    import transformers
    from transformers import LlamaForCausalLM, masking_utils
    print(gc.isenabled())
print(gc.isenabled(), gc.get_freeze_count() > 10_000)
print(torch._dynamo.__file__.endswith("torch/_dynamo/__init__.py"))
with masking_utils.TransformGetItemToIndex():
    print(torch.arange(3)[torch.tensor(1)].item())
print(len(transformers.__all__), len(transformers.models.__all__))
"""

    exports = [len(module.__all__) for module in (transformers, sys.modules["transformers.models"])]
    assert run(program) == ["False", "True", "True", "True", "1", *map(str, exports)]


def test_a_compiler_that_was_there_before_stays() -> None:
    program = """
import torch._dynamo as before
from engine.model.imports import lean_imports

with lean_imports():
    from transformers import AutoModelForCausalLM
import torch
print(torch._dynamo is before)
"""

    assert run(program) == ["True"]
