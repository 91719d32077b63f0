"""What the model step runs on: the operator's choice, or the fastest that this CPU has."""

from dataclasses import dataclass
from typing import Literal

from engine.errors import SettingUnusable
from engine.model.kernels.library import library
from engine.model.kernels.native import Level, Library

TILE_ROWS = 16

Choice = Literal["auto", "torch", "avx2", "avx512", "amx"]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The native library, at one of its levels."""

    library: Library
    level: Level

    @property
    def row_tile(self) -> int | None:
        """Rows that are computed together, where the first of them costs most: those of an AMX tile."""
        return TILE_ROWS if self.level is Level.AMX else None

    def __str__(self) -> str:
        return self.level.name.lower()


def choose_kernels(choice: Choice) -> Kernels | None:
    """The kernels to use; None is torch. Raises SettingUnusable where the level asked for is not to be had."""
    if choice == "torch":
        return None
    loaded = library()
    levels = () if loaded is None else loaded.levels
    if choice == "auto":
        return None if loaded is None else Kernels(loaded, levels[-1])
    wanted = Level[choice.upper()]
    if loaded is None or wanted not in levels:
        have = ", ".join(["torch", *(level.name.lower() for level in levels)])
        raise SettingUnusable(f"model.kernels is {choice}, and here are {have}", setting="model.kernels")
    return Kernels(loaded, wanted)
