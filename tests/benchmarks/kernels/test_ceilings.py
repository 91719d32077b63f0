import pytest

from benchmarks.kernels import ceilings
from benchmarks.kernels.ceilings import SMOKE, NoCompiler, best_of, fbgemm_rate, probe, together


def test_the_best_of_several_times_is_the_shortest() -> None:
    times = iter([3.0, 1.0, 2.0])

    assert best_of(3, lambda: next(times)) == 1.0


def test_all_threads_do_their_part() -> None:
    done: list[int] = []

    seconds = together(3, done.append)

    assert sorted(done) == [0, 1, 2]
    assert seconds > 0


def test_the_probe_reads_and_multiplies() -> None:
    found = probe(SMOKE)

    assert found.read_rate(1 << 20, 1) > 0
    assert found.read_rate(1 << 20, 2) > 0
    assert found.multiply_add_rate(2) > 0


def test_fbgemm_has_a_rate() -> None:
    assert fbgemm_rate(2, 4 << 20, tries=1) > 0


def test_without_a_compiler_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(NoCompiler, match="there is no cc on the PATH"):
        probe(SMOKE)


def test_what_the_compiler_says_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SOURCE", ceilings.SOURCE.with_name("missing.c"))

    with pytest.raises(NoCompiler, match=r"cc can't build missing.c: .*missing.c"):
        probe(SMOKE)
