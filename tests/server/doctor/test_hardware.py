from collections.abc import Mapping

import pytest

from config.groups import Groups, MemoryLimit
from config.settings import Settings
from server.doctor.findings import Finding, Grade
from server.doctor.hardware import free_within, hardware
from server.doctor.machine import Machine, Memory, Processor, System
from tests.server.doctor.machines import GIB, MACHINE, machine, settings


def judged(
    seen: Machine = MACHINE, asked: Settings | None = None, threads: Mapping[str, str] | None = None
) -> dict[str, Finding]:
    return {each.topic: each for each in hardware(seen, asked or settings(), threads or {})}


def test_a_usual_machine_has_nothing_to_change() -> None:
    assert {each.grade for each in judged().values()} == {Grade.OK}


def test_a_machine_that_tells_nothing_is_not_known_and_no_error() -> None:
    unknown = Machine(
        Processor(None, frozenset(), None, None, None, None, None),
        Memory(None, None, 0, 0, None),
        Groups(),
        System(None, None, None, 0, None),
    )

    found = judged(unknown, threads={"OMP_NUM_THREADS": "64"})

    assert {found[topic].text for topic in ("processor", "cores", "instructions", "memory", "open files", "clock")} == {
        "not known"
    }
    assert free_within(unknown) is None
    assert Grade.FAULT not in {each.grade for each in found.values()}


def test_cores_are_what_affinity_and_quota_leave() -> None:
    seen = machine(processor={"allowed": 6}, groups={"cores": 2.5})

    assert judged(seen)["cores"].text == (
        "2.5 to use; the machine has 4 with 8 threads; this process may run on 6; its control group has a quota of 2.5"
    )


@pytest.mark.parametrize(
    ("num_threads", "quota", "grade"),
    [
        (None, None, Grade.OK),
        (None, 2.5, Grade.OK),
        (2, 2.5, Grade.OK),
        (3, 2.5, Grade.OK),
        (16, None, Grade.WARNING),
    ],
)
def test_more_threads_than_cores_are_warned_of(num_threads: int | None, quota: float | None, grade: Grade) -> None:
    asked = settings(model={"num_threads": num_threads})

    finding = judged(machine(groups={"cores": quota}), asked)["threads"]

    assert finding.grade is grade
    assert ("give --num-threads" in finding.advice) is (grade is Grade.WARNING)


@pytest.mark.parametrize(
    ("threads", "advice"),
    [
        ({"OMP_WAIT_POLICY": "active"}, "lets them sleep"),
        ({"OMP_NUM_THREADS": "9"}, "set OMP_NUM_THREADS to 8"),
        ({"GOMP_CPU_AFFINITY": "0-7"}, "finds one core: unset it (GOMP_CPU_AFFINITY)"),
        ({"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}, "(OMP_PROC_BIND, OMP_PLACES)"),
    ],
)
def test_settings_of_openmp_that_hurt_are_told(threads: dict[str, str], advice: str) -> None:
    finding = judged(threads=threads)["OpenMP"]

    assert finding.grade is Grade.WARNING
    assert advice in finding.advice


@pytest.mark.parametrize(
    "threads", [{"OMP_WAIT_POLICY": "PASSIVE"}, {"OMP_NUM_THREADS": "8,2"}, {"OMP_PROC_BIND": "false"}]
)
def test_settings_of_openmp_that_do_not_hurt_are_not_told(threads: dict[str, str]) -> None:
    assert "OpenMP" not in judged(threads=threads)


@pytest.mark.parametrize(
    ("seen", "topic", "grade", "words"),
    [
        (machine(processor={"flags": frozenset({"avx", "fma"})}), "instructions", Grade.WARNING, "no AVX2, F16C"),
        (machine(processor={"nodes": 2}), "NUMA", Grade.NOTE, "2 nodes"),
        (machine(groups={"periods": 100, "throttled": 40}), "throttling", Grade.WARNING, "in 40% of 100 periods"),
        (machine(groups={"periods": 100, "throttled": 1}), "throttling", Grade.OK, "in 1% of 100 periods"),
        (machine(memory={"swap_total": GIB}), "swap", Grade.NOTE, "0 bytes in use of 1.0 GiB"),
        (machine(memory={"swap_total": GIB, "swap_used": 1 << 20}), "swap", Grade.WARNING, "1 MiB in use"),
        (machine(memory={"huge_pages": "never"}), "large pages", Grade.WARNING, "never"),
        (machine(system={"open_files": 100}), "open files", Grade.WARNING, "at most 100"),
        (machine(processor={"clock": "hpet"}), "clock", Grade.NOTE, "hpet"),
        (machine(system={"container": "Docker"}), "system", Grade.OK, "in a container (Docker)"),
    ],
)
def test_each_rule_says_what_it_saw(seen: Machine, topic: str, grade: Grade, words: str) -> None:
    finding = judged(seen)[topic]

    assert finding.grade is grade
    assert words in finding.text
    assert bool(finding.advice) is (grade is not Grade.OK)


@pytest.mark.parametrize(
    ("limit", "free"),
    [
        (None, 12 * GIB),
        (MemoryLimit(4 * GIB, GIB), 3 * GIB),
        (MemoryLimit(GIB, 2 * GIB), 0),
        (MemoryLimit(99 * GIB, None), 12 * GIB),
    ],
)
def test_what_may_be_taken_is_what_is_free_within_the_limit(limit: MemoryLimit | None, free: int) -> None:
    assert free_within(machine(groups={"memory": limit})) == free


def test_the_memory_line_names_the_limit() -> None:
    limited = judged(machine(groups={"memory": MemoryLimit(4 * GIB, GIB)}))["memory"].text
    unused = judged(machine(groups={"memory": MemoryLimit(4 * GIB, None)}))["memory"].text

    assert limited == "12.0 GiB free of 16.0 GiB; the control group may hold 4.0 GiB, of which 1.0 GiB are taken"
    assert unused.endswith("may hold 4.0 GiB")
