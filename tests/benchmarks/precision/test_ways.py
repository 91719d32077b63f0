import pytest

from benchmarks.precision.ways import LEVELS, NoKernels, Way, choices_of, levels_here, levels_of


def test_levels_are_those_that_are_asked_for_and_here_slowest_first() -> None:
    assert levels_here(["avx2"]) == ["avx2"]
    assert [level for level in LEVELS if level in levels_here(LEVELS)] == levels_here(LEVELS)


def test_no_level_at_all_is_an_error() -> None:
    with pytest.raises(NoKernels, match="of none of them there is none here"):
        levels_here(["none of them"])


def test_one_thing_is_chosen_at_a_time() -> None:
    ways = {**levels_of(["avx2", "avx512"]), **choices_of("avx512")}

    assert ways["`--kernels avx2`"] == Way("avx2", "auto", "auto")
    assert ways["`--weights int4`"] == Way("avx512", "int4", "auto")
    assert ways["`--cache-dtype int8`"] == Way("avx512", "auto", "int8")
    assert str(ways["`--weights int4`"]) == "--kernels avx512 --weights int4 --cache-dtype auto"
