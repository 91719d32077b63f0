"""Try what deploys the server against published schemas and tools: python -m tests.deploy [--write]."""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.deploy.claim import Claim, tell
from tests.deploy.watched import BOARD, DEPLOY
from tests.sdks.environment import ROOT, Environment

PAGE = ROOT / "docs" / "deploying.md"
MARK = "deploy"
HERE = Path(__file__).parent
KUBERNETES, UNIT = DEPLOY / "kubernetes", DEPLOY / "systemd" / "tidemark.service"
MOST_EXPOSED = 20  # of 100, as systemd-analyze counts


def main() -> int:
    """Try every claim, print what was found, and return 1 where one did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.deploy", description="Try what deploys the server.")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    arguments = parser.parse_args()
    return tell(claims, page=PAGE if arguments.write else None, mark=MARK)


def claims() -> Iterator[Claim]:
    """All of them."""
    environment = Environment("kubernetes", pins=HERE / "pins")
    environment.make()
    files = [file for file in sorted(KUBERNETES.glob("*/*.yaml")) if file.name != "kustomization.yaml"]
    yield _fits("a manifest fits the published schemas", environment, "---\n".join(map(Path.read_text, files)))
    for folder in ("base", "monitored"):
        yield _built(environment, KUBERNETES / folder)
    yield from _unit()
    yield _board()


def _fits(text: str, environment: Environment, manifests: str) -> Claim:
    command = [environment.python, HERE / "schemas.py"]
    done = subprocess.run(command, check=True, input=manifests, stdout=subprocess.PIPE, text=True)
    found: list[tuple[str, str | None]] = json.loads(done.stdout)
    faults = [f"{kind}: {fault}" for kind, fault in found if fault is not None]
    return Claim(text, len(found), "; ".join(faults) or None)


def _built(environment: Environment, folder: Path) -> Claim:
    text = f"so does what `kubectl kustomize` makes of `{folder.name}`"
    if shutil.which("kubectl") is None:
        return Claim(text, 0)
    done = subprocess.run(["kubectl", "kustomize", folder], check=False, capture_output=True, text=True)
    return Claim(text, 1, done.stderr) if done.returncode else _fits(text, environment, done.stdout)


def _board() -> Claim:
    environment = Environment("grafana", pins=HERE / "pins")
    environment.make()
    command = [environment.python, HERE / "grafana.py"]
    done = subprocess.run(command, check=True, input=BOARD.read_text(), stdout=subprocess.PIPE, text=True)
    count, lost = json.loads(done.stdout)
    return Claim("a value of the board has its place in Grafana's own models", count, "; ".join(lost) or None)


def _unit() -> Iterator[Claim]:
    """With a program that is there, since the one that it names is where it is deployed."""
    with TemporaryDirectory() as name:
        unit = Path(name) / UNIT.name
        lines = UNIT.read_text().splitlines()
        unit.write_text("\n".join("ExecStart=/bin/true" if line.startswith("ExecStart=") else line for line in lines))
        security = ("security", "--offline=true", f"--threshold={MOST_EXPOSED}")
        yield _analyzed("`systemd-analyze verify` finds nothing", "verify", unit)
        yield _analyzed(f"`systemd-analyze security` finds at most {MOST_EXPOSED / 10}", *security, unit)


def _analyzed(text: str, *arguments: str | Path) -> Claim:
    if shutil.which("systemd-analyze") is None:
        return Claim(text, 0)
    done = subprocess.run(["systemd-analyze", *arguments], check=False, capture_output=True, text=True)
    said = done.stdout + done.stderr
    return Claim(text, 1, said if done.returncode or (arguments[0] == "verify" and said) else None)


if __name__ == "__main__":
    sys.exit(main())
