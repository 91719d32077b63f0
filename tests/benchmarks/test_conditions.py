from pathlib import Path

from benchmarks.conditions import Conditions, commit_of, cpu_of, isa_of, memory_of

CPUINFO = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu sse avx2 fma abm\n\nprocessor\t: 1\n"


def conditions(others_before: float | None) -> Conditions:
    versions = {"Python": "3.11.1"}
    return Conditions("Some CPU", ("avx2", "fma"), 2, 24 << 30, others_before, "abc", versions, "2026-01-02")


def test_the_processor_and_its_instruction_sets_are_read() -> None:
    assert cpu_of(CPUINFO) == "Some CPU @ 3 GHz"
    assert isa_of(CPUINFO) == ("avx2", "fma")


def test_a_machine_that_tells_nothing_is_still_described() -> None:
    assert cpu_of("")
    assert isa_of("") == ()
    assert memory_of("") == 0


def test_memory_is_read_in_bytes() -> None:
    assert memory_of("MemTotal:       1024 kB\nMemFree: 5 kB\n") == 1 << 20


def test_a_busy_machine_is_said_to_be_busy() -> None:
    assert "the machine was quiet before (others took 1% of the cores)" in conditions(0.01).sentence()
    assert "the machine was not quiet before (others took 80% of the cores)" in conditions(0.8).sentence()
    assert "whether the machine was quiet before is unknown" in conditions(None).sentence()


def test_a_folder_outside_git_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == "unknown"
