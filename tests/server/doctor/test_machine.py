from pathlib import Path

import pytest

from config.groups import Groups
from config.root import Root
from server.doctor.machine import Machine, Memory, Processor, System, read_machine
from tests.server.doctor.machines import CPUINFO, write

KIB = 1024
FILES = {
    "proc/cpuinfo": "\n".join(CPUINFO.format(number=number, core=number // 2) for number in range(4)),
    "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-1,3\n",
    "proc/self/limits": "Limit  Soft Limit  Hard Limit\nMax open files      256      4096       files\n",
    "proc/meminfo": "MemTotal:  100 kB\nMemAvailable:  50 kB\nSwapTotal:  20 kB\nSwapFree:  15 kB\n",
    "proc/sys/kernel/osrelease": "6.1.0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
    "sys/devices/system/cpu/online": "0-3\n",
    "sys/devices/system/node/node0/x": "",
    "sys/devices/system/node/node1/x": "",
    "sys/devices/system/node/online": "0-1",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
    "sys/bus/pci/devices/0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0/class": "0x030200\n",
    "sys/bus/pci/devices/1/vendor": "0x10de\n",
    "sys/bus/pci/devices/1/class": "0x0c0330\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n",
    ".dockerenv": "",
}


def test_a_machine_is_read_from_what_its_system_tells(tmp_path: Path) -> None:
    flags = frozenset(["fpu", "avx2", "fma", "f16c", "avx512f"])

    assert read_machine(write(tmp_path, FILES)) == Machine(
        Processor("A processor", flags, logical=4, physical=2, allowed=3, nodes=2, clock="hpet"),
        Memory(100 * KIB, 50 * KIB, swap_total=20 * KIB, swap_used=5 * KIB, huge_pages="never"),
        Groups(),
        System("6.1.0", "Docker", open_files=256, gpu_devices=1, gpu_driver="550.54.15"),
    )


def test_a_system_that_tells_nothing_is_not_known(tmp_path: Path) -> None:
    assert read_machine(Root(tmp_path)) == Machine(
        Processor(None, frozenset(), None, None, None, None, None),
        Memory(None, None, 0, 0, None),
        Groups(),
        System(None, None, None, 0, None),
    )


def test_processors_are_counted_where_no_list_says_how_many_are_on(tmp_path: Path) -> None:
    processor = read_machine(write(tmp_path, {"proc/cpuinfo": FILES["proc/cpuinfo"]})).processor

    assert (processor.logical, processor.allowed) == (4, None)


@pytest.mark.parametrize(
    ("files", "container"),
    [
        ({"run/.containerenv": ""}, "Podman"),
        ({"var/run/secrets/kubernetes.io/x": ""}, "Kubernetes"),
        ({"proc/1/cgroup": "0::/kubepods/pod1\n"}, "kubepods"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, None),
    ],
)
def test_a_container_shows_by_its_marks(tmp_path: Path, files: dict[str, str], container: str | None) -> None:
    assert read_machine(write(tmp_path, files)).system.container == container


def test_this_machine_can_be_read() -> None:
    machine = read_machine(Root())

    assert machine.processor.allowed is not None
    assert machine.memory.total is not None
