"""Made-up machines: folders that look like `/`, and what is found there."""

from dataclasses import replace
from pathlib import Path

from config.groups import Groups
from config.root import Root
from config.settings import Settings
from server.doctor.machine import Machine, Memory, Processor, System

GIB = 1 << 30
MODERN = frozenset({"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"})
MACHINE = Machine(
    Processor("A processor", MODERN, logical=8, physical=4, allowed=8, nodes=1, clock="tsc"),
    Memory(total=16 * GIB, available=12 * GIB, swap_total=0, swap_used=0, huge_pages="madvise"),
    Groups(),
    System("6.1", None, open_files=1024, gpu_devices=0, gpu_driver=None),
)

CPUINFO = """\
processor\t: {number}
model name\t: A processor
physical id\t: 0
core id\t\t: {core}
flags\t\t: fpu avx2 fma f16c avx512f
"""


def settings(path: str = "-", /, **sections: dict[str, object]) -> Settings:
    tree: dict[str, dict[str, object]] = {"model": {"path": path}}
    for name, fields in sections.items():
        tree[name] = tree.get(name, {}) | fields
    return Settings.model_validate(tree)


def write(folder: Path, files: dict[str, str]) -> Root:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Root(folder)


def machine(**parts: dict[str, object]) -> Machine:
    """The usual machine, but for some fields of its parts."""
    changed = {name: replace(getattr(MACHINE, name), **fields) for name, fields in parts.items()}
    return replace(MACHINE, **changed)
