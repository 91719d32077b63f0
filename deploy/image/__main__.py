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
    parser.add_argument("--extras", default="", help="extras of pyproject.toml that go into it, such as otel")
    parser.add_argument("--base", help="the image to build over; by default Python's, or what buildah makes itself")
    parser.add_argument("--no-build", action="store_true", help="try the image that was built last")
    parser.add_argument("--engine", choices=ENGINES, help="what builds and runs it; by default the first that answers")
    arguments = parser.parse_args()
    try:
        engine = choose(arguments.engine)
        if not arguments.no_build:
            build(engine, with_model=arguments.with_model, extras=arguments.extras, base=arguments.base)
        return tell(engine, with_model=arguments.with_model)
    except Refused as refused:
        print(f"make image: {refused}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("make image: ended by Ctrl-C; what was made stays in .image", file=sys.stderr)
        return 130


def answers(program: str) -> bool:
    """Whether an engine of Docker's kind is there, runs, and builds with wheels beside the tree."""
    if shutil.which(program) is None:
        return False
    questions = (("info",), ("build", "--build-context=wheels=.", "--help"))
    return not any(subprocess.run([program, *asks], check=False, capture_output=True).returncode for asks in questions)


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


def build(engine: Engine, *, with_model: bool, extras: str = "", base: str | None = None) -> None:
    """With the wheels that pip finds here."""
    packages = [package for package, _ in SOURCES[MODEL].members] if with_model else []
    wheels = gather(FOLDER, packages, [extra for extra in extras.split(",") if extra])
    arguments = {"MODEL": MODEL if with_model else "", "EXTRAS": extras, "BASE": base or ""}
    engine.build(wheels, {name: value for name, value in arguments.items() if value})


def tell(engine: Engine, *, with_model: bool) -> int:
    """Run it, and print what holds and what it weighs."""
    if not with_model and not (HERE / MODEL).exists():
        fetch(HERE / MODEL)
    wanted = how(with_model=with_model)
    address = Address(wanted.port)
    with engine.run(wanted) as container:
        first = ready(address, container)
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
