"""Imports all of Tidemark, so that Python keeps the bytecode of what a start loads and of nothing else.

Compiled at each start it costs seconds of CPU, and compiled for every module of every package hundreds of megabytes.
"""

import importlib
import pkgutil

PACKAGES = ("config", "engine", "server")
NO_MODULES = ("__main__", "libtidemark")  # one runs, the other is loaded by ctypes


def load(package: str) -> None:
    """Import a package with all its modules."""
    paths = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(paths, f"{package}."):
        if not module.name.endswith(NO_MODULES):
            importlib.import_module(module.name)


if __name__ == "__main__":
    for name in PACKAGES:
        load(name)
    # Loaded later: these read GGUF files and tokenizers, and hold the default model's code.
    importlib.import_module("transformers.models.llama.modeling_llama")
    importlib.import_module("transformers.generation.utils")
