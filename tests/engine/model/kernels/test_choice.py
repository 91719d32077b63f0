from types import SimpleNamespace

import pytest

from engine.errors import ModelUnsupported
from engine.model.kernels import choice
from engine.model.kernels.choice import Choice, Kernels, choose_kernels
from engine.model.kernels.native import Level
from tests.engine.model.kernels.machine import LEVELS, the_library


def test_torch_is_no_kernels() -> None:
    assert choose_kernels("torch") is None


def test_auto_is_the_fastest_level_that_this_cpu_has() -> None:
    assert choose_kernels("auto") == Kernels(the_library(), max(LEVELS))


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_a_level_that_this_cpu_has_can_be_asked_for(level: Level) -> None:
    names: dict[Level, Choice] = {Level.AVX2: "avx2", Level.AVX512: "avx512", Level.AMX: "amx"}

    chosen = choose_kernels(names[level])

    assert chosen == Kernels(the_library(), level)
    assert str(chosen) == names[level]


def test_a_level_that_this_cpu_lacks_is_refused_with_those_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "library", lambda: SimpleNamespace(levels=(Level.AVX2, Level.AVX512)))

    with pytest.raises(ModelUnsupported, match=r"model\.kernels is amx, and here are torch, avx2, avx512"):
        choose_kernels("amx")


def test_without_a_library_auto_is_torch_and_a_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "library", lambda: None)

    assert choose_kernels("auto") is None
    with pytest.raises(ModelUnsupported, match=r"model\.kernels is avx2, and here are torch$"):
        choose_kernels("avx2")
