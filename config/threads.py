"""How the threads of a model step wait for each other, said before OpenMP is loaded."""

import os
from collections.abc import MutableMapping


def let_threads_sleep(environ: MutableMapping[str, str] = os.environ) -> None:
    """Have OpenMP's threads sleep where they would spin, unless the user says otherwise.

    A step shares its cores with the event loop. A thread that spins at a barrier takes the core from
    the very thread that it waits for. To have an effect, call this before torch is imported.
    """
    environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
