"""Hardware: the rules by which the machine is judged."""

from collections.abc import Iterator, Mapping
from math import ceil

from config.cores import whole_cores
from config.groups import Groups
from config.settings import Settings
from server.doctor.findings import NOT_KNOWN, Finding, Grade, bytes_told, plural
from server.doctor.machine import Machine, Memory, Processor, System

SETS = {  # by what people call them, and the system's names
    "AVX2": ("avx2",),
    "FMA": ("fma",),
    "F16C": ("f16c",),
    "AVX-512 F": ("avx512f",),
    "BW": ("avx512bw",),
    "DQ": ("avx512dq",),
    "VL": ("avx512vl",),
    "VNNI": ("avx512_vnni", "avx512vnni"),
    "BF16": ("avx512_bf16",),
    "AMX bf16": ("amx_bf16",),
    "AMX int8": ("amx_int8",),
}
NEEDED = ("AVX2", "FMA", "F16C")
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies"})
MUCH_THROTTLED = 0.05  # of the periods
FILES_OF_OUR_OWN = 64  # the model, libraries, the store, what logs are written to
PINNING = ("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES")


def hardware(machine: Machine, settings: Settings, threads: Mapping[str, str]) -> Iterator[Finding]:
    """What there is to say of a machine. `threads` is what the environment tells OpenMP."""
    cores = usable_cores(machine)
    yield _model(machine.processor)
    yield _cores(machine, cores)
    yield _threads(settings.model.num_threads, machine, cores)
    yield from _openmp(threads, cores)
    yield _sets(machine.processor)
    yield from _nodes(machine.processor.nodes)
    yield from _throttled(machine.groups)
    yield _memory(machine)
    yield from _swap(machine.memory)
    yield _huge_pages(machine.memory.huge_pages)
    yield _files(machine.system.open_files, settings)
    yield _clock(machine.processor.clock)
    yield _system(machine.system)


def usable_cores(machine: Machine) -> float | None:
    """How many cores' worth of time there is for this process."""
    counts = (machine.processor.allowed or machine.processor.logical, machine.groups.cores)
    return min((count for count in counts if count is not None), default=None)


def _model(processor: Processor) -> Finding:
    return Finding("processor", processor.model or NOT_KNOWN)


def _cores(machine: Machine, usable: float | None) -> Finding:
    processor, quota = machine.processor, machine.groups.cores
    parts = [f"{usable:g} to use" if usable is not None else NOT_KNOWN]
    if processor.physical is not None and processor.logical is not None:
        parts.append(f"the machine has {processor.physical} with {plural(processor.logical, 'thread')}")
    if processor.allowed is not None and processor.allowed != processor.logical:
        parts.append(f"this process may run on {processor.allowed}")
    if quota is not None:
        parts.append(f"its control group has a quota of {quota:g}")
    return Finding("cores", "; ".join(parts))


def _threads(asked: int | None, machine: Machine, usable: float | None) -> Finding:
    allowed = machine.processor.allowed
    taken = asked if asked is not None or allowed is None else whole_cores(allowed, machine.groups.cores)
    if taken is None or usable is None:
        return Finding("threads", f"of the model step: {NOT_KNOWN}")
    text = f"{taken} for the model step" + (", as model.num_threads says" if asked is not None else ", one a core")
    if taken > ceil(usable):
        told = f"They have {usable:g} cores' time between them and wait for each other"
        advice = f"{told}: give --num-threads {max(1, int(usable))}."
        return Finding("threads", text, Grade.WARNING, advice)
    return Finding("threads", text)


def _openmp(threads: Mapping[str, str], cores: float | None) -> Iterator[Finding]:
    pinning = [name for name in PINNING if threads.get(name, "false").lower() != "false"]
    if pinning:
        told = "It pins the first thread as torch is loaded, and the model step then finds one core"
        advice = f"{told}: unset it ({', '.join(pinning)})."
        yield Finding("OpenMP", f"{pinning[0]}={threads[pinning[0]]}", Grade.WARNING, advice)
    if threads.get("OMP_WAIT_POLICY", "").upper() == "ACTIVE":
        advice = "Threads that spin take the core from the one they wait for: unset it, and Tidemark lets them sleep."
        yield Finding("OpenMP", "OMP_WAIT_POLICY=ACTIVE", Grade.WARNING, advice)
    wanted = threads.get("OMP_NUM_THREADS", "").partition(",")[0]
    if wanted.isdecimal() and cores is not None and int(wanted) > ceil(cores):
        advice = f"There are {cores:g} cores to use: set OMP_NUM_THREADS to {max(1, int(cores))}, or unset it."
        yield Finding("OpenMP", f"OMP_NUM_THREADS={wanted}", Grade.WARNING, advice)


def _sets(processor: Processor) -> Finding:
    if not processor.flags:
        return Finding("instructions", NOT_KNOWN, Grade.NOTE, "The kernels ask the processor itself: see below.")
    here = [name for name, flags in SETS.items() if processor.flags & set(flags)]
    missing = [name for name in NEEDED if name not in here]
    if missing:
        told = "The native kernels need AVX2, FMA and F16C; without, the model step is several times slower"
        advice = f"{told}: take another processor."
        return Finding("instructions", f"no {', '.join(missing)}", Grade.WARNING, advice)
    return Finding("instructions", ", ".join(here))


def _nodes(nodes: int | None) -> Iterator[Finding]:
    if nodes is not None and nodes > 1:
        advice = "Weights lie on one node: run one server a node, with numactl --cpunodebind=N --membind=N."
        yield Finding("NUMA", plural(nodes, "node"), Grade.NOTE, advice)


def _throttled(groups: Groups) -> Iterator[Finding]:
    if not groups.periods:
        return
    share = groups.throttled / groups.periods
    text = f"in {share:.0%} of {groups.periods} periods this control group had to wait"
    if share > MUCH_THROTTLED:
        yield Finding("throttling", text, Grade.WARNING, "Raise the quota (cpu limit), or lower --num-threads to it.")
    else:
        yield Finding("throttling", text)


def _memory(machine: Machine) -> Finding:
    memory, limit = machine.memory, machine.groups.memory
    if memory.total is None or memory.available is None:
        return Finding("memory", NOT_KNOWN)
    text = f"{bytes_told(memory.available)} free of {bytes_told(memory.total)}"
    if limit is not None:
        held = "" if limit.used_bytes is None else f", of which {bytes_told(limit.used_bytes)} are taken"
        text += f"; the control group may hold {bytes_told(limit.max_bytes)}{held}"
    return Finding("memory", text)


def free_within(machine: Machine) -> int | None:
    """The bytes that this process could take: what is free, within the control group's limit."""
    available, limit = machine.memory.available, machine.groups.memory
    return available if available is None or limit is None else limit.free_of(available)


def _swap(memory: Memory) -> Iterator[Finding]:
    if memory.swap_total:
        text = f"{bytes_told(memory.swap_used)} in use of {bytes_told(memory.swap_total)}"
        advice = "Weights that are swapped out stop a step for seconds: keep memory free, or turn it off (swapoff -a)."
        yield Finding("swap", text, Grade.WARNING if memory.swap_used else Grade.NOTE, advice)


def _huge_pages(mode: str | None) -> Finding:
    if mode == "never":
        advice = "Weights then wait for addresses: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root."
        return Finding("large pages", mode, Grade.WARNING, advice)
    return Finding("large pages", NOT_KNOWN if mode is None else f"{mode}: weights lie in them")


def _files(limit: int | None, settings: Settings) -> Finding:
    if limit is None:
        return Finding("open files", NOT_KNOWN)
    requests = settings.engine.max_waiting + settings.engine.max_sequences
    wanted = requests + FILES_OF_OUR_OWN
    if limit < wanted:
        told = f"{plural(requests, 'request')} may run and wait, each with a connection"
        advice = f"{told}: ulimit -n {4 * wanted}, or LimitNOFILE= of systemd."
        return Finding("open files", f"at most {limit}", Grade.WARNING, advice)
    return Finding("open files", f"at most {limit}")


def _clock(clock: str | None) -> Finding:
    if clock in SLOW_CLOCKS:
        advice = "Reading the time is a slow call with it: boot with clocksource=tsc if the machine's is stable."
        return Finding("clock", str(clock), Grade.NOTE, advice)
    return Finding("clock", clock or NOT_KNOWN)


def _system(system: System) -> Finding:
    where = f"in a container ({system.container})" if system.container else "no container that is known of"
    return Finding("system", f"Linux {system.kernel or NOT_KNOWN}, {where}")
