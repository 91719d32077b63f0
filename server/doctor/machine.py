"""Machine: what the system says of its processor, its memory and itself."""

import re
from dataclasses import dataclass

from config.groups import Groups, read_groups
from config.root import Root

KIB = 1024
DISPLAY, NVIDIA = "0x03", "0x10de"  # of PCI: the class of displays and 3D controllers, and a vendor


@dataclass(frozen=True, slots=True)
class Processor:
    """None is what is not known; `flags` are the system's names of instruction sets."""

    model: str | None
    flags: frozenset[str]
    logical: int | None  # processors that the system runs
    physical: int | None  # cores, without their second threads
    allowed: int | None  # processors that this process may run on
    nodes: int | None  # of memory
    clock: str | None


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes; None is not known."""

    total: int | None
    available: int | None
    swap_total: int
    swap_used: int
    huge_pages: str | None  # when the system gives large pages by itself: always, madvise or never


@dataclass(frozen=True, slots=True)
class System:
    """What holds for every process here."""

    kernel: str | None
    container: str | None  # what says that this is one
    open_files: int | None  # that a process may have; None is not known
    gpu_devices: int  # of NVIDIA, on the bus
    gpu_driver: str | None


@dataclass(frozen=True, slots=True)
class Machine:
    """All of it."""

    processor: Processor
    memory: Memory
    groups: Groups
    system: System


def read_machine(root: Root) -> Machine:
    """Look at everything; milliseconds."""
    return Machine(_processor(root), _memory(root), read_groups(root), _system(root))


def _processor(root: Root) -> Processor:
    first = root.fields("proc/cpuinfo")
    status = root.fields("proc/self/status")
    nodes = [name for name in root.names("sys/devices/system/node") if re.fullmatch(r"node\d+", name)]
    return Processor(
        model=first.get("model name") or None,
        flags=frozenset((first.get("flags") or first.get("Features") or "").split()),
        logical=_count(root.text("sys/devices/system/cpu/online")) or _processors(root),
        physical=_cores(root),
        allowed=_count(status.get("Cpus_allowed_list")),
        nodes=len(nodes) or None,
        clock=root.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )


def _processors(root: Root) -> int | None:
    return len(re.findall(r"^processor\s*:", root.text("proc/cpuinfo") or "", re.MULTILINE)) or None


def _cores(root: Root) -> int | None:
    """Pairs of a socket and a core in it."""
    entries = (root.text("proc/cpuinfo") or "").split("\n\n")
    found = {tuple(re.findall(r"^(?:physical id|core id)\s*:\s*(\d+)", entry, re.MULTILINE)) for entry in entries}
    return len(found - {()}) or None


def _count(ranges: str | None) -> int | None:
    """How many numbers there are in a list such as `0-3,8`."""
    if ranges is None or not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", ranges):
        return None
    ends = [part.partition("-") for part in ranges.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def _memory(root: Root) -> Memory:
    told = root.fields("proc/meminfo")
    swap_total, swap_free = (_bytes(told.get(name)) or 0 for name in ("SwapTotal", "SwapFree"))
    huge = re.search(r"\[(\w+)\]", root.text("sys/kernel/mm/transparent_hugepage/enabled") or "")
    return Memory(
        total=_bytes(told.get("MemTotal")),
        available=_bytes(told.get("MemAvailable")),
        swap_total=swap_total,
        swap_used=swap_total - swap_free,
        huge_pages=huge[1] if huge else None,
    )


def _bytes(text: str | None) -> int | None:
    number = (text or "").removesuffix("kB").strip()
    return int(number) * KIB if number.isdecimal() else None


def _system(root: Root) -> System:
    driver = re.search(r"\s(\d+\.\d+[\d.]*)\s", root.text("proc/driver/nvidia/version") or "")
    return System(
        kernel=root.text("proc/sys/kernel/osrelease"),
        container=_container(root),
        open_files=_open_files(root),
        gpu_devices=sum(_is_gpu(root, f"sys/bus/pci/devices/{name}") for name in root.names("sys/bus/pci/devices")),
        gpu_driver=driver[1] if driver else None,
    )


def _container(root: Root) -> str | None:
    for mark, name in ((".dockerenv", "Docker"), ("run/.containerenv", "Podman")):
        if root.has(mark):
            return name
    if root.has("var/run/secrets/kubernetes.io"):
        return "Kubernetes"
    found = re.search(r"docker|kubepods|containerd|libpod|lxc", root.text("proc/1/cgroup") or "")
    return found[0] if found else None


def _open_files(root: Root) -> int | None:
    """The soft limit."""
    found = re.search(r"^Max open files\s+(\d+)", root.text("proc/self/limits") or "", re.MULTILINE)
    return int(found[1]) if found else None


def _is_gpu(root: Root, device: str) -> bool:
    return root.text(f"{device}/vendor") == NVIDIA and (root.text(f"{device}/class") or "").startswith(DISPLAY)
