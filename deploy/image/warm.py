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
            load_if_whole(module.name)


def load_if_whole(module: str) -> None:
    """Import a module, unless it wants a package that the image has not: one of the extras'."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if str(missing.name).partition(".")[0] in PACKAGES:
            raise


if __name__ == "__main__":
    for name in PACKAGES:
        load(name)
    # Loaded later: these read GGUF files and tokenizers, and hold the default model's code.
    importlib.import_module("transformers.models.llama.modeling_llama")
    importlib.import_module("transformers.generation.utils")
