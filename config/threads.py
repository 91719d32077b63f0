"""How the threads of a model step wait for each other, said before OpenMP is loaded."""

import os
from collections.abc import Mapping, MutableMapping

# GNU OpenMP's turns of its waiting loop, about a quarter of a millisecond, before a thread sleeps. On two quiet
# cores a step of 16 sequences takes 200 ms at 0 turns and 141 at 8,000; beside one busy process 232 and 390.
SPIN_COUNT = 5_000


def let_threads_sleep(environ: MutableMapping[str, str] = os.environ) -> None:
    """Have OpenMP's threads sleep after a short spin, unless the user says otherwise.

    A step shares its cores with the event loop. A thread that spins long at a barrier takes the core from
    the very thread that it waits for. To have an effect, call this before torch is imported.
    """
    if "OMP_WAIT_POLICY" not in environ:
        environ["OMP_WAIT_POLICY"] = "PASSIVE"
        environ.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))


def told_threads(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the user says of threads to OpenMP, which Tidemark has no settings for."""
    return {name: text for name, text in sorted(environ.items()) if name.startswith(("OMP_", "GOMP_", "KMP_"))}
