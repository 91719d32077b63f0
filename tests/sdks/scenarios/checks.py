"""What a scenario is made of: claims that are tried one after the other, each told on a line of JSON.

Runs in the environments of the clients, so it needs nothing but Python.
"""

import asyncio
import inspect
import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

MODEL = "tidemark"
MAX_TOLD = 600  # characters of an error


@dataclass(frozen=True)
class Servers:
    """Where the servers listen: one with the default model, and one whose model follows a script."""

    real: str
    scripted: str


@dataclass
class Checks:
    """The claims of one scenario, in order."""

    claims: list[tuple[str, Callable]] = field(default_factory=list)

    def __call__(self, claim: str) -> Callable[[Callable], Callable]:
        """Add a function, plain or a coroutine's, that raises unless the claim holds."""

        def add(check: Callable) -> Callable:
            self.claims.append((claim, check))
            return check

        return add

    def run(self) -> None:
        """Try all of them against the servers that the command line names."""
        servers = Servers(*sys.argv[1:])
        for claim, check in self.claims:
            print(json.dumps({"claim": claim, "failure": _try(check, servers)}), flush=True)


def raised(kind: type[Exception], call: Callable, *arguments: object, **named: object) -> Exception:
    """The error of this kind that a call raises."""
    try:
        call(*arguments, **named)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def _try(check: Callable, servers: Servers) -> str | None:
    try:
        result = check(servers)
        if inspect.isawaitable(result):
            asyncio.run(_await(result))
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"[:MAX_TOLD]
    return None


async def _await(result: object) -> None:
    await result
